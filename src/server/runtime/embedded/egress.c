#include "server/runtime/embedded/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/aead.h"
#include "net/h1.h"
#include "server/runtime/egress_call.h"

enum {
    ARGS_MAX = 4096,
    START_MS = 15 * 1000, /* for the process to serve */
    STOP_MS = 5 * 1000,
    STATS_MS = 500,
    CALL_MS = 20 * 1000, /* for one request; another process may have to be started first */
    RETRY_MS = 20,
    RESTART_MS_MIN = 50,
    RESTART_MS_MAX = 5 * 1000,
    STEADY_MS = 30 * 1000, /* a process that lived this long is started again at once */
    ANSWER_BYTES_MAX = 1024 * 1024,
    STATE_BYTES_MAX = 2 * 1024 * 1024,
    RESOLV_BYTES_MAX = 64 * 1024,
    UPSTREAMS_MAX = 10,
    RECORD_READ_BYTES = 16 * 1024,
    RECORD_BYTES_MAX = 64 * 1024,
    STATS_ARENA_BYTES_MAX = 64 * 1024,
};
#define STATE_FILE "egress.json" /* in the directory of a sandbox; egress reads and replaces it */

struct embedded_egress {
    struct embedded *em;
    struct proc proc;
    struct loop_child watch;
    struct loop_timer restart;
    uint64_t started_ns;
    uint32_t restart_ms;
    int tie; /* the process ends when this is closed */
    bool watched, always;
    struct loop_io record; /* its decisions; fd -EBADF = they are not told */
    struct buf lines;
    char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* --- requests to it --- */

static int connect_once(const struct embedded_egress *g)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    /* Not blocking: a process that hangs accepts nothing, and its backlog fills. */
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(addr.sun_path, g->socket, sizeof(addr.sun_path));
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -errno;
    return take_fd(&fd);
}

/* Waits for a process that is being started. */
static int connect_egress(const struct embedded_egress *g, uint64_t deadline, struct err *e)
{
    const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    int fd;

    while ((fd = connect_once(g)) < 0 && !deadline_passed(deadline))
        (void)nanosleep(&pause, NULL);
    return fd < 0 ? err_sys(e, -fd, "opensandbox-egress does not answer") : fd;
}

static int request(const struct embedded_egress *g, const char *method, const char *path,
                   struct str body, struct egress_answer *a, struct err *e)
{
    uint64_t deadline = deadline_in_ms(CALL_MS);
    auto_fd fd = connect_egress(g, deadline, e);

    return fd < 0 ? fd : egress_call(fd, method, path, STR(""), body, a, deadline, e);
}

static int call(const struct embedded_egress *g, const char *method, const char *path,
                struct str body, struct err *e)
{
    struct egress_answer a = {0};
    int r;

    buf_init(&a.text, ANSWER_BYTES_MAX);
    r = request(g, method, path, body, &a, e);
    buf_done(&a.text);
    return r;
}

/* --- policies of sandboxes --- */

/* With their values: egress judges all of it as it will when the sandbox is made. */
static int check_secrets(const struct embedded_egress *g, const struct api_create *spec,
                         struct err *e)
{
    AUTO_BUF(body, STATE_BYTES_MAX);
    int r;

    buf_keep_secret(&body);
    r = buf_addf(&body, "{\"policy\":%.*s,\"secretEnv\":", STR_ARG(spec->network_policy_json));
    if (r == 0)
        r = api_secrets_write(&spec->secrets, &body);
    if (r == 0)
        r = buf_add_char(&body, '}');
    return r < 0 ? err_sys(e, -r, "write the secrets")
                 : call(g, "POST", "/check-secrets", buf_str(&body), e);
}

int embedded_egress_check(struct embedded *em, const struct api_create *spec, struct api_fail *f)
{
    struct err e = {0};
    int r;

    if (!em->egress || !spec->network_policy)
        return 0;
    r = call(em->egress, "POST", spec->credential_proxy ? "/check?credentialProxy=true" : "/check",
             spec->network_policy_json, &e);
    if (r == -EBADMSG)
        return api_fail_invalid(f, "networkPolicy: %s", e.msg);
    if (r == 0 && spec->secrets.count && !spec->secrets_from.n && spec->secrets.rows[0].value.p) {
        r = check_secrets(em->egress, spec, &e);
        if (r == -EBADMSG)
            return api_fail_invalid(f, "secretEnv: %s", e.msg);
    }
    return r < 0 ? api_fail_set(f, 503, "SANDBOX::UNKNOWN_ERROR", "networkPolicy: %s", e.msg) : 0;
}

static int write_state(const struct api_create *spec, int dir, struct err *e)
{
    AUTO_BUF(text, STATE_BYTES_MAX);
    int r = buf_addf(&text, "{\"credentialProxy\":%s,\"policy\":%.*s}\n",
                     spec->credential_proxy ? "true" : "false", STR_ARG(spec->network_policy_json));

    if (r < 0)
        return err_sys(e, -r, "store the policy");
    return io_write_file_atomic(dir, STATE_FILE, buf_str(&text), 0600, e);
}

int embedded_egress_prepare(struct embedded *em, const struct runtime_create *create, int dir,
                            struct err *e)
{
    int r = 0;

    if (!em->egress)
        return 0;
    if (create->again == RUNTIME_NEW && create->spec->network_policy)
        r = write_state(create->spec, dir, e);
    if (r < 0)
        return r;
    return em->egress->always || faccessat(dir, STATE_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* New ones, those of the sandbox that this one is a fork of, or those that it has already. */
static int write_secrets(const struct runtime_create *create, struct buf *body)
{
    const struct api_create *spec = create->spec;
    int r;

    if (create->again != RUNTIME_NEW)
        return buf_add(body, STR("{}"));
    if (spec->secrets_from.n)
        return buf_addf(body, "{\"from\":\"%.*s\"}", STR_ARG(spec->secrets_from));
    r = buf_add(body, STR("{\"secretEnv\":"));
    if (r == 0)
        r = api_secrets_write(&spec->secrets, body);
    return r < 0 ? r : buf_add_char(body, '}');
}

/* {"NAME":"placeholder"} */
static int put_placeholders(struct str json, struct plan *plan, struct err *e)
{
    AUTO_ARENA(arena, ANSWER_BYTES_MAX);
    struct json *root = NULL;
    int r = json_parse(&arena, json, NULL, &root, e);

    json_each(v, root)
    {
        struct str text;

        if (r == 0 && json_to_str(v, &text) == 0)
            r = plan_insert_env(plan, v->key, text);
    }
    return r < 0 ? err_set(e, -r, "too many variables with those of secretEnv") : 0;
}

static int hand_over_secrets(const struct embedded_egress *g, const struct runtime_create *create,
                             const char *id, struct plan *plan, struct err *e)
{
    AUTO_BUF(body, STATE_BYTES_MAX);
    char path[PLAN_ID_MAX + 32];
    struct egress_answer a = {0};
    int r;

    buf_keep_secret(&body);
    (void)snprintf(path, sizeof(path), "/sandboxes/%s/secrets", id);
    buf_init(&a.text, ANSWER_BYTES_MAX);
    r = write_secrets(create, &body);
    r = r < 0 ? err_sys(e, -r, "write the secrets")
              : request(g, "POST", path, buf_str(&body), &a, e);
    if (r == 0)
        r = put_placeholders(a.body, plan, e);
    buf_done(&a.text);
    return r < 0 ? err_wrap(e, r, "secretEnv") : 0;
}

int embedded_egress_trust(struct embedded *em, const struct runtime_create *create, const char *id,
                          struct plan *plan, struct err *e)
{
    char path[PLAN_ID_MAX + 32];
    struct egress_answer a = {0};
    int r;

    (void)snprintf(path, sizeof(path), "/sandboxes/%s/authority", id);
    buf_init(&a.text, ANSWER_BYTES_MAX);
    r = request(em->egress, "POST", path, STR(""), &a, e);
    if (r == 0) {
        r = plan_insert_env(plan, STR("OPENSANDBOX_EGRESS_CA_CERTIFICATE"), a.body);
        if (r == 0)
            r = plan_insert_env(plan, STR("OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT"), STR("true"));
        if (r < 0)
            (void)err_sys(e, -r, "put the certificate into the environment");
    }
    buf_done(&a.text);
    if (r == 0 && create->spec->secrets.count)
        return hand_over_secrets(em->egress, create, id, plan, e);
    return r == -ENOENT ? 0 : r; /* it has no credential proxy */
}

int embedded_egress_attach(struct embedded *em, const char *id, struct err *e)
{
    char path[PLAN_ID_MAX + 32];
    int r;

    (void)snprintf(path, sizeof(path), "/sandboxes/%s/attach", id);
    r = call(em->egress, "POST", path, STR(""), e);
    return r < 0 ? err_wrap(e, r, "put the network policy in force") : 0;
}

/* What it keeps of a sandbox without a policy, because somebody asked for one, goes with its next
 * look: the call would be half of what the end of such a sandbox takes. */
void embedded_egress_detach(struct embedded *em, const char *id)
{
    char path[PLAN_ID_MAX + 32];
    struct egress_answer a = {0};
    auto_fd fd = -EBADF;

    (void)snprintf(path, sizeof(path), "%s/" STATE_FILE, id);
    if (!em->egress ||
        (!em->egress->always && faccessat(em->sandboxes, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0))
        return;
    fd = connect_once(em->egress);
    if (fd < 0) /* it looks by itself when it starts, and from time to time */
        return;
    (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
    buf_init(&a.text, ANSWER_BYTES_MAX);
    (void)egress_call(fd, "DELETE", path, STR(""), STR(""), &a, deadline_in_ms(CALL_MS), NULL);
    buf_done(&a.text);
}

static int read_figures(struct str text, struct runtime_egress *ret)
{
    AUTO_ARENA(arena, STATS_ARENA_BYTES_MAX);
    const struct {
        struct str name;
        uint64_t *to;
    } rows[] = {
        {STR("sandboxes"),    &ret->sandboxes  },
        {STR("queries"),      &ret->queries    },
        {STR("failed"),       &ret->failed     },
        {STR("denied"),       &ret->denied     },
        {STR("changes"),      &ret->changes    },
        {STR("brokerErrors"), &ret->rule_errors},
        {STR("vaultUses"),    &ret->vault_uses },
        {STR("vaultsLost"),   &ret->vaults_lost},
    };
    struct json *root = NULL;
    int r = json_parse(&arena, text, NULL, &root, NULL);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(rows); i++)
        r = json_to_u64(json_get(root, rows[i].name), rows[i].to);
    return r;
}

void embedded_egress_figures(struct embedded *em, struct runtime_egress *ret)
{
    const struct embedded_egress *g = em->egress;
    struct egress_answer a = {0};
    auto_fd fd = -EBADF;

    *ret = (struct runtime_egress){.has = g != NULL};
    if (!g)
        return;
    fd = connect_once(g);
    if (fd < 0)
        return;
    buf_init(&a.text, ANSWER_BYTES_MAX);
    ret->up = egress_call(fd, "GET", "/stats", STR(""), STR(""), &a, deadline_in_ms(STATS_MS),
                          NULL) == 0 &&
              read_figures(a.body, ret) == 0;
    buf_done(&a.text);
    if (!ret->up)
        *ret = (struct runtime_egress){.has = true};
}

void embedded_egress_trouble(struct runtime *r, struct err *ret)
{
    const struct embedded_egress *g = container_of(r, struct embedded, base)->egress;

    if (g && !g->watched)
        (void)err_set(ret, ECHILD, RUNTIME_EGRESS_DOWN);
}

int embedded_egress_endpoint(struct runtime *r, struct str id, struct runtime_endpoint *ret)
{
    const struct embedded_egress *g = container_of(r, struct embedded, base)->egress;

    if (!g || !plan_id_is_valid(id))
        return -ENOENT;
    *ret = (struct runtime_endpoint){.addr.size = sizeof(ret->addr.path)};
    ret->addr.path.sun_family = AF_UNIX;
    memcpy(ret->addr.path.sun_path, g->socket, sizeof(ret->addr.path.sun_path));
    return 0;
}

int embedded_egress_report(struct runtime *r, struct str id, struct buf *out, struct err *e)
{
    struct embedded *em = container_of(r, struct embedded, base);
    struct egress_answer a = {0};
    char path[PLAN_ID_MAX + 32];
    int result;

    if (!em->egress || !plan_id_is_valid(id))
        return err_set(e, ENOENT, "there is no egress control");
    (void)snprintf(path, sizeof(path), "/sandboxes/%.*s/event-lines", STR_ARG(id));
    buf_init(&a.text, ANSWER_BYTES_MAX);
    result = request(em->egress, "GET", path, STR(""), &a, e);
    if (result == 0 && a.body.n)
        result = buf_addf(out, "%.*s\n", STR_ARG(a.body));
    buf_done(&a.text);
    return result;
}

/* --- the process --- */

struct args {
    const char *at[ARGS_MAX];
    size_t count;
    struct buf text; /* of what is made here */
};

static void add(struct args *a, const char *name, const char *value)
{
    if (a->count + 3 > ARGS_MAX)
        return;
    a->at[a->count++] = name;
    if (value)
        a->at[a->count++] = value;
}

static void add_list(struct args *a, const char *name, const struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        add(a, name, list->at[i]);
}

/* The host's resolvers, also those that only the host can reach. */
static void add_host_resolvers(struct args *a)
{
    AUTO_BUF(text, RESOLV_BYTES_MAX);
    struct str rest, line;
    size_t count = 0;

    if (io_read_file(AT_FDCWD, "/etc/resolv.conf", RESOLV_BYTES_MAX, &text, NULL) < 0)
        return;
    rest = buf_str(&text);
    while (count < UPSTREAMS_MAX && str_cut(&rest, '\n', &line)) {
        const struct str word = STR("nameserver ");
        struct str value;

        if (!str_starts(line, word))
            continue;
        value = str_trim(str_skip(line, word.n));
        if (value.n == 0 || str_find(value, '%') < value.n || str_find(value, ' ') < value.n ||
            buf_reserve(&a->text, value.n + 1) < 0)
            continue;
        memcpy(a->text.p + a->text.n, value.p, value.n);
        a->text.p[a->text.n + value.n] = '\0';
        add(a, "--upstream", a->text.p + a->text.n);
        buf_claim(&a->text, value.n + 1);
        count++;
    }
}

static void add_upstreams(struct args *a, const struct config *config)
{
    if (config->egress.upstreams.count)
        add_list(a, "--upstream", &config->egress.upstreams);
    else if (config->embedded.dns.count)
        add_list(a, "--upstream", &config->embedded.dns);
    else
        add_host_resolvers(a);
}

static bool seals_vaults(const struct embedded_egress *g)
{
    return g->em->conf.config->egress.vault_on_restart == CONFIG_VAULT_SEALED &&
           g->em->conf.vault_key;
}

/* The end of a pipe with the key in it. */
static int key_pipe(const struct embedded_egress *g, struct err *e)
{
    auto_fd to = -EBADF, from = -EBADF;
    int ends[2], r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    from = ends[0];
    to = ends[1];
    r = io_write_full(to, str_make((const char *)g->em->conf.vault_key, AEAD_KEY_BYTES),
                      DEADLINE_NEVER); /* a pipe has room for it */
    return r < 0 ? err_sys(e, -r, "hand over the key of vaults") : take_fd(&from);
}

static void fill_args(struct args *a, const struct embedded_egress *g, char rules[16],
                      char timeout[16])
{
    const struct config *config = g->em->conf.config;

    (void)snprintf(rules, 16, "%d", (int)config->egress.max_rules);
    (void)snprintf(timeout, 16, "%d", (int)config->egress.dns_timeout_seconds * 1000);
    a->at[a->count++] = config->egress.program;
    add(a, "--broker-fd", "3"); /* the first of proc_spec.more */
    add(a, "--dir", config->dir);
    add(a, "--socket", g->socket);
    add(a, "--until-eof", "0");
    if (seals_vaults(g))
        add(a, "--vault-key-fd", "4");
    if (g->em->conf.on_decision)
        add(a, "--record-fd", seals_vaults(g) ? "5" : "4");
    if (config->egress.http_credentials == CONFIG_HTTP_RESOLVED)
        add(a, "--resolved-http", NULL);
    add(a, "--max-rules", rules);
    add(a, "--dns-timeout", timeout);
    if (config->egress.ca_file[0])
        add(a, "--trust", config->egress.ca_file);
    add_upstreams(a, config);
    add_list(a, "--deny", &config->egress.always_deny);
    add_list(a, "--allow", &config->egress.always_allow);
    add_list(a, "--doh", &config->egress.doh_blocklist);
    if (config->egress.deny_webhook[0])
        add(a, "--webhook", config->egress.deny_webhook);
    if (config->egress.block_doh)
        add(a, "--block-doh", NULL);
    if (config->egress.block_quic)
        add(a, "--block-quic", NULL);
}

/* --- what it decided --- */

static void tell(struct embedded_egress *g, struct str line)
{
    const struct embedded_conf *conf = &g->em->conf;
    struct runtime_decision d = {0};
    struct str left_out = STR_NONE;

    if (str_cut(&line, '\t', &d.sandbox) && str_cut(&line, '\t', &d.kind) &&
        str_cut(&line, '\t', &d.reason) && str_cut(&line, '\t', &left_out) &&
        str_to_u64(left_out, &d.left_out) == 0) {
        d.target = line;
        conf->on_decision(conf->decision_user, &d);
    }
}

static void stop_record(struct embedded_egress *g)
{
    if (g->record.fd < 0)
        return;
    loop_io_stop(g->em->conf.loop, &g->record);
    fd_close(g->record.fd);
    g->record.fd = -EBADF;
    buf_clear(&g->lines);
}

static void on_record(struct loop_io *io, uint32_t events UNUSED)
{
    struct embedded_egress *g = container_of(io, struct embedded_egress, record);
    struct str rest, line;
    ssize_t n = -1;

    if (buf_reserve(&g->lines, RECORD_READ_BYTES) == 0)
        n = read(io->fd, g->lines.p + g->lines.n, RECORD_READ_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        stop_record(g);
        return;
    }
    buf_claim(&g->lines, (size_t)n);
    rest = buf_str(&g->lines);
    while (str_find(rest, '\n') < rest.n && str_cut(&rest, '\n', &line))
        tell(g, line);
    buf_drop_front(&g->lines, g->lines.n - rest.n);
}

/* The end for egress, after the loop began to read the other; -EBADF when nobody wants to know. */
static int record_pipe(struct embedded_egress *g, struct err *e)
{
    int ends[2], r;

    stop_record(g);
    if (!g->em->conf.on_decision)
        return -EBADF;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(e, errno, "make a pipe");
    r = loop_io_start(g->em->conf.loop, &g->record, ends[0], EPOLLIN, on_record, e);
    if (r == 0)
        return ends[1];
    g->record.fd = -EBADF;
    fd_close(ends[0]);
    fd_close(ends[1]);
    return r;
}

static int spawn_egress(struct embedded_egress *g, struct err *e)
{
    auto_free struct args *a = mem_new(struct args);
    char rules[16], timeout[16];
    struct proc_spec spec = PROC_SPEC(g->em->conf.config->egress.program, a->at);
    const struct broker_config role = {.role = BROKER_ROLE_EGRESS};
    auto_fd broker = broker_connect_for(g->em->conf.config->embedded.broker, &role, e);
    auto_fd key = seals_vaults(g) ? key_pipe(g, e) : -EBADF;
    auto_fd record = record_pipe(g, e);
    int ends[2], more[3] = {broker, seals_vaults(g) ? key : record, record};
    int r;

    if (broker < 0)
        return err_wrap(e, broker, "connection of opensandbox-egress");
    if (key < 0 && seals_vaults(g))
        return key;
    if (record < 0 && g->em->conf.on_decision)
        return record;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    buf_init(&a->text, 4096);
    r = buf_reserve(&a->text, 2048); /* pointers into it stay valid */
    if (r == 0)
        fill_args(a, g, rules, timeout);
    spec.env = (const char *const[]){"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    spec.stdio[0] = ends[0];
    spec.stdio[1] = STDERR_FILENO;
    spec.stdio[2] = STDERR_FILENO;
    spec.more = more;
    spec.more_count = 1 + seals_vaults(g) + (record >= 0);
    spec.flags = PROC_NEW_SESSION;
    r = r < 0 ? err_sys(e, -r, "arguments") : proc_spawn(&spec, &g->proc, e);
    buf_done(&a->text);
    fd_close(ends[0]);
    if (r < 0) {
        fd_close(ends[1]);
        return err_wrap(e, r, "start opensandbox-egress");
    }
    g->tie = ends[1];
    g->started_ns = time_mono_ns();
    return 0;
}

static void on_restart(struct loop_timer *timer);

static void restart_later(struct embedded_egress *g)
{
    loop_timer_after(g->em->conf.loop, &g->restart, g->restart_ms, on_restart);
    g->restart_ms = g->restart_ms * 2 > RESTART_MS_MAX ? RESTART_MS_MAX : g->restart_ms * 2;
}

static void on_exit_of(struct loop_child *child, int status)
{
    struct embedded_egress *g = container_of(child, struct embedded_egress, watch);

    g->watched = false;
    proc_close(&g->proc);
    fd_close(take_fd(&g->tie));
    if (time_mono_ns() - g->started_ns > STEADY_MS * TIME_NS_PER_MS)
        g->restart_ms = RESTART_MS_MIN;
    log_event(LOG_ERROR,
              "opensandbox-egress has ended, starting it again; until then sandboxes with a policy "
              "get no answers to DNS",
              LOG_I64("status", status));
    restart_later(g);
}

static int watch(struct embedded_egress *g, struct err *e)
{
    int r = loop_child_start(g->em->conf.loop, &g->watch, g->proc.pidfd, on_exit_of, e);

    g->watched = r == 0;
    return r;
}

static void on_restart(struct loop_timer *timer)
{
    struct embedded_egress *g = container_of(timer, struct embedded_egress, restart);
    struct err e = {0};

    if (spawn_egress(g, &e) < 0 || watch(g, &e) < 0) {
        (void)log_err(&e, "cannot start opensandbox-egress again, trying later");
        restart_later(g);
    }
}

/* It may end at once, when its lists are wrong. */
static int await_service(const struct embedded_egress *g, struct err *e)
{
    const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    uint64_t deadline = deadline_in_ms(START_MS);

    for (;;) {
        siginfo_t info = {0};
        auto_fd fd = connect_once(g);

        if (fd >= 0)
            return 0;
        if (waitid(P_PID, (id_t)g->proc.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid != 0)
            return err_set(e, ECHILD, "opensandbox-egress has ended; its log has the reason");
        if (deadline_passed(deadline))
            return err_set(e, ETIMEDOUT, "opensandbox-egress does not serve");
        (void)nanosleep(&pause, NULL);
    }
}

int embedded_egress_start(struct embedded *em, struct err *e)
{
    const struct config *config = em->conf.config;
    struct embedded_egress *g;
    int n, r;

    if (!config || !em->conf.network || !em->conf.loop || access(config->egress.program, X_OK) < 0)
        return 0;
    g = mem_new(struct embedded_egress);
    *g = (struct embedded_egress){
        .em = em,
        .proc = PROC_NONE,
        .tie = -EBADF,
        .record.fd = -EBADF,
        .restart_ms = RESTART_MS_MIN,
        .always = config->egress.always_deny.count + config->egress.always_allow.count > 0,
    };
    buf_init(&g->lines, RECORD_BYTES_MAX);
    em->egress = g;
    n = snprintf(g->socket, sizeof(g->socket), "%s/egress.sock", config->dir);
    if (n < 0 || (size_t)n >= sizeof(g->socket))
        return err_set(e, ENAMETOOLONG, "the path '%s' is too long for a socket", config->dir);
    (void)unlink(g->socket); /* of a process that was killed */
    r = spawn_egress(g, e);
    if (r == 0)
        r = await_service(g, e);
    if (r == 0)
        r = watch(g, e);
    if (r == 0)
        em->base.can |=
            RUNTIME_CAN_NETWORK_POLICY | RUNTIME_CAN_CREDENTIAL_PROXY | RUNTIME_CAN_LEND;
    if (r == 0 || g->always)
        return r;
    /* Nothing depends on it yet: sandboxes with a policy keep their rules, new ones are refused. */
    log_event(LOG_ERROR, "no network policies: requests with one are refused",
              LOG_STR("error", e->msg));
    embedded_egress_stop(em);
    return 0;
}

void embedded_egress_stop(struct embedded *em)
{
    struct embedded_egress *g = em->egress;

    if (!g)
        return;
    em->egress = NULL;
    loop_timer_stop(em->conf.loop, &g->restart);
    if (g->watched)
        loop_child_stop(&g->watch);
    fd_close(g->tie); /* this ends it */
    stop_record(g);
    buf_done(&g->lines);
    if (g->proc.pidfd >= 0 &&
        proc_wait(g->proc.pidfd, deadline_in_ms(STOP_MS), &(struct proc_exit){0}) < 0 &&
        proc_signal(g->proc.pidfd, SIGKILL) == 0)
        log_event(LOG_WARN, "opensandbox-egress has not ended in time, killed it");
    proc_close(&g->proc);
    free(g);
}
