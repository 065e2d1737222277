/* docker_sidecar.c - the egress sidecar: a container with opensandbox-egress, whose network
 * namespace a sandbox with a policy joins.
 *
 *   make ─► its lists of the operator ─► start ─► /healthz is 200: the rules are in force
 *   ─► the sandbox is made with NetworkMode = container:sandbox-egress-ID
 *
 * Ports are published on the sidecar. When it ends, the engine takes the interface away from the
 * namespace: what still runs there reaches nothing, and docker_inspect reports the sandbox Failed.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/tar.h"
#include "base/time.h"
#include "server/config/config.h"
#include "server/runtime/docker/docker_internal.h"

#define PREFIX      "OPENSANDBOX_EGRESS_"
#define HEADER      "OPENSANDBOX-EGRESS-AUTH"
#define POLICY_FILE "/policy.json" /* in its own root */
#define ALLOW_ALL   "{\"defaultAction\":\"allow\",\"egress\":[]}"

enum {
    BODY_MAX = 4 << 20,
    LISTS_MAX = 2 << 20,
    START_MS = 120 * 1000,
    REMOVE_MS = 60 * 1000,
    READY_MS = 30 * 1000, /* for its rules to be in force */
    ASK_MS = 1000,
    LOOK_MS = 400, /* one that is not ready is inspected as often */
    PAUSE_MS = 5,
    LOG_LINES = 20,
};

/* --- whether --- */

bool docker_sidecar_wanted(const struct docker *d, const struct api_create *spec)
{
    const struct config *c = d->config;

    return spec->network_policy || c->egress.always_deny.count || c->egress.always_allow.count;
}

static bool has_image(const struct docker *d)
{
    return d->config->egress.image[0] || docker_egress_can(d);
}

int docker_sidecar_check_config(const struct docker *d, struct err *e)
{
    const struct config *c = d->config;
    bool always = c->egress.always_deny.count || c->egress.always_allow.count;

    if (c->egress.block_quic)
        return err_set(e, EINVAL, "egress.block_quic: the docker runtime cannot keep it");
    if (always && (!has_image(d) || strcmp(c->docker.network_mode, "bridge") != 0 ||
                   c->secure_runtime.type != CONFIG_SECURE_NONE))
        return err_set(
            e, EINVAL,
            "egress.always_deny, egress.always_allow: on Docker they need egress.image or "
            "opensandbox-egress, docker.network_mode = \"bridge\" and no secure_runtime");
    return 0;
}

int docker_sidecar_check(const struct docker *d, const struct api_create *spec, struct api_fail *f)
{
    const struct config *c = d->config;

    if (!spec->network_policy)
        return 0;
    if (spec->secrets.count && engine_place(d->engine)->host[0])
        return api_fail_invalid(f, "secretEnv: the Docker engine is at a TCP address: the values "
                                   "would cross a network in the clear");
    if (!has_image(d))
        return api_fail_invalid(f, "networkPolicy: this server needs egress.image in its "
                                   "configuration for that, or opensandbox-egress beside it");
    if (strcmp(c->docker.network_mode, "bridge") != 0)
        return api_fail_invalid(f,
                                "networkPolicy: this server needs docker.network_mode = "
                                "\"bridge\" for that, not '%s'",
                                api_show(str_of(c->docker.network_mode)).text);
    /* Their packets leave the namespace from a kernel of their own, past the sidecar's rules. */
    if (c->secure_runtime.type != CONFIG_SECURE_NONE)
        return api_fail_invalid(f,
                                "networkPolicy: secure_runtime of this server has sandboxes with "
                                "a network stack of their own, which no sidecar can filter");
    return 0;
}

/* --- the container --- */

static void write_variable(struct json_writer *w, const char *name, struct str value)
{
    AUTO_BUF(text, BODY_MAX);

    if (buf_addf(&text, "%s=%.*s", name, STR_ARG(value)) == 0)
        json_write_string(w, buf_str(&text));
    else
        json_write_string(w, STR_NONE);
}

static void write_number(struct json_writer *w, const char *name, int64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    write_variable(w, name, str_of(text));
}

static int write_list(struct json_writer *w, const char *name, const struct config_list *list)
{
    AUTO_BUF(text, BODY_MAX);
    int r = 0;

    for (size_t i = 0; i < list->count && r == 0; i++)
        r = buf_addf(&text, "%s%s", i ? "," : "", list->at[i]);
    if (list->count)
        write_variable(w, name, buf_str(&text));
    return r;
}

static int write_env(struct json_writer *w, const struct docker *d, const struct runtime_create *c)
{
    static const char *const modes[] = {"dns", "dns+nft"};
    const struct config *conf = d->config;
    const struct api_create *spec = c->spec;
    bool same_machine = !engine_place(d->engine)->host[0];
    int r;

    json_write_key(w, STR("Env"));
    json_write_array(w);
    write_variable(w, PREFIX "RULES",
                   spec->network_policy ? spec->network_policy_json : STR(ALLOW_ALL));
    write_variable(w, PREFIX "MODE", str_of(modes[conf->egress.mode == 1]));
    write_variable(w, PREFIX "TOKEN", c->token);
    write_variable(w, PREFIX "SANDBOX_ID", c->id);
    write_variable(w, PREFIX "POLICY_FILE", STR(POLICY_FILE)); /* of changes, if it is restarted */
    write_number(w, PREFIX "MAX_RULES", conf->egress.max_rules);
    write_number(w, PREFIX "DNS_UPSTREAM_TIMEOUT", conf->egress.dns_timeout_seconds);
    r = write_list(w, PREFIX "DNS_UPSTREAM", &conf->egress.upstreams);
    if (r == 0)
        r = write_list(w, PREFIX "DOH_BLOCKLIST", &conf->egress.doh_blocklist);
    if (conf->egress.block_doh || conf->egress.doh_blocklist.count)
        write_variable(w, PREFIX "BLOCK_DOH_443", STR("true"));
    if (conf->egress.deny_webhook[0])
        write_variable(w, PREFIX "DENY_WEBHOOK", str_of(conf->egress.deny_webhook));
    if (spec->credential_proxy)
        write_variable(w, PREFIX "MITMPROXY_TRANSPARENT", STR("true"));
    /* The server's writes reach it over a bridge of this machine. */
    if (spec->credential_proxy && (same_machine || conf->egress.vault_cleartext))
        write_variable(w, PREFIX "CREDENTIAL_VAULT_REQUIRE_TLS", STR("false"));
    json_write_array_end(w);
    return r;
}

static void write_no_ipv6(struct json_writer *w)
{
    json_write_key(w, STR("Sysctls"));
    json_write_object(w);
    json_member_string(w, STR("net.ipv6.conf.all.disable_ipv6"), STR("1"));
    json_member_string(w, STR("net.ipv6.conf.default.disable_ipv6"), STR("1"));
    json_member_string(w, STR("net.ipv6.conf.lo.disable_ipv6"), STR("1"));
    json_write_object_end(w);
}

static void write_host(struct json_writer *w, const struct docker *d,
                       const struct runtime_create *c, const struct docker_plan *p)
{
    char volume[DOCKER_NAME_MAX], bind[2 * DOCKER_NAME_MAX];

    json_write_key(w, STR("HostConfig"));
    json_write_object(w);
    json_member_string(w, STR("NetworkMode"), str_of(d->config->docker.network_mode));
    docker_spec_write_texts(w, STR("CapAdd"), (const char *const[]){"NET_ADMIN", NULL});
    docker_spec_write_texts(w, STR("SecurityOpt"),
                            (const char *const[]){"no-new-privileges:true", NULL});
    if (d->config->egress.disable_ipv6)
        write_no_ipv6(w);
    if (c->spec->credential_proxy) {
        docker_runtime_volume(c->id, volume);
        (void)snprintf(bind, sizeof(bind), "%s:" DOCKER_SHARED_DIR ":rw", volume);
        docker_spec_write_texts(w, STR("Binds"), (const char *const[]){bind, NULL});
    }
    docker_spec_write_ports(w, d, p);
    json_write_object_end(w);
}

static int make(struct docker *d, const struct runtime_create *c, const struct docker_plan *p,
                const char *image, struct err *e)
{
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(body, BODY_MAX);
    AUTO_BUF(target, 1024);
    char name[DOCKER_NAME_MAX];
    struct json_writer w;
    int r;

    buf_keep_secret(&body);
    docker_sidecar_name(c->id, name);
    (void)buf_addf(&target, "/containers/create?name=%s", name);
    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("Image"), str_of(image));
    r = write_env(&w, d, c);
    json_write_key(&w, STR("Labels"));
    json_write_object(&w);
    json_member_string(&w, STR(LABEL_SIDECAR_FOR), c->id);
    json_member_string(&w, STR(LABEL_OWNER), str_of(d->owner));
    json_write_object_end(&w);
    docker_spec_write_exposed(&w, p);
    write_host(&w, d, c, p);
    json_write_object_end(&w);
    if (r < 0 || json_write_end(&w) < 0)
        return err_set(e, EMSGSIZE, "the network policy is too long");
    return engine_call(
        d->engine,
        &(struct engine_request){.method = HTTP_POST, .target = target.p, .body = buf_str(&body)},
        &answer, e);
}

/* --- lists of the operator --- */

static int add_file(struct buf *tar, const char *path, const struct config_list *list)
{
    AUTO_BUF(text, LISTS_MAX);
    int r = 0;

    for (size_t i = 0; i < list->count && r == 0; i++)
        r = buf_addf(&text, "%s\n", list->at[i]);
    if (r == 0)
        r = tar_write_head(
            tar, &(struct tar_entry){
                     .type = TAR_FILE, .path = str_of(path), .size = text.n, .mode = 0644});
    if (r == 0)
        r = buf_add(tar, buf_str(&text));
    for (size_t i = tar_padding(text.n); r == 0 && i > 0; i--)
        r = buf_add_char(tar, '\0');
    return r;
}

static int hand_over_lists(struct docker *d, const char *name, struct err *e)
{
    static const char *const dirs[] = {"var/", "var/egress/", "var/egress/rules/"};
    const struct config *c = d->config;
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(tar, 2 * LISTS_MAX);
    char target[256];
    int r = 0;

    if (!c->egress.always_deny.count && !c->egress.always_allow.count)
        return 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(dirs); i++)
        r = tar_write_head(&tar, &(struct tar_entry){
                                     .type = TAR_DIRECTORY, .path = str_of(dirs[i]), .mode = 0755});
    if (r == 0)
        r = add_file(&tar, "var/egress/rules/deny.always", &c->egress.always_deny);
    if (r == 0)
        r = add_file(&tar, "var/egress/rules/allow.always", &c->egress.always_allow);
    if (r < 0 || tar_write_end(&tar) < 0)
        return err_set(e, EMSGSIZE, "egress.always_deny or egress.always_allow is too long");
    (void)snprintf(target, sizeof(target), "/containers/%s/archive?path=/", name);
    return engine_call(d->engine,
                       &(struct engine_request){.method = HTTP_PUT,
                                                .target = target,
                                                .body = buf_str(&tar),
                                                .type = "application/x-tar"},
                       &answer, e);
}

/* --- the health gate --- */

/* Whether GET /healthz is answered by a 2xx. */
static bool is_healthy(const struct sock_addr *addr, struct str token)
{
    auto_fd fd = sock_connect_start(addr, NULL);
    struct pollfd p = {fd, POLLOUT, 0};
    char request[512], head[sizeof("HTTP/1.1 2")] = "";
    int n = snprintf(request, sizeof(request),
                     "GET /healthz HTTP/1.1\r\nHost: egress\r\n" HEADER ": %.*s\r\n"
                     "Connection: close\r\n\r\n",
                     STR_ARG(token));
    bool sent = n > 0 && (size_t)n < sizeof(request) && fd >= 0 && poll(&p, 1, ASK_MS) == 1 &&
                sock_connect_result(fd) == 0 && send(fd, request, (size_t)n, MSG_NOSIGNAL) == n;

    mem_wipe(request, sizeof(request));
    p.events = POLLIN; /* a status line is in the first packet, or the answer counts as none */
    return sent && poll(&p, 1, ASK_MS) == 1 &&
           recv(fd, head, sizeof(head) - 1, 0) == (ssize_t)sizeof(head) - 1 &&
           str_eq(str_of(head), STR("HTTP/1.1 2"));
}

static uint16_t published(const struct json *tree, unsigned inside)
{
    char key[16];
    uint16_t port = 0;
    struct str text;

    (void)snprintf(key, sizeof(key), "%u/tcp", inside);
    json_each(item, json_get(json_get(json_get(tree, STR("HostConfig")), STR("PortBindings")),
                             str_of(key)))
    {
        if (json_to_str(json_get(item, STR("HostPort")), &text) == 0)
            (void)!str_to_u16(text, &port);
    }
    return port;
}

static void read_own_token(const struct json *tree, struct docker_facts *ret)
{
    static const struct str name = STR_INIT(PREFIX "TOKEN=");
    struct str text;

    json_each(item, json_get(json_get(tree, STR("Config")), STR("Env")))
    {
        if (json_to_str(item, &text) == 0 && str_starts(text, name))
            (void)!str_copy(ret->egress_token, sizeof(ret->egress_token), str_skip(text, name.n));
    }
}

static int inspect(struct docker *d, struct str id, struct docker_facts *ret, struct err *e)
{
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    char name[DOCKER_NAME_MAX];
    struct json *tree = NULL;
    int r;

    docker_sidecar_name(id, name);
    r = docker_get(d, &arena, &tree, e, "/containers/%s/json", name);
    if (r == 0)
        r = docker_facts_read(tree, d->owner, d->config->docker.network_mode, ret, e);
    if (r == 0 && !ret->owned)
        r = err_set(e, ENOENT, "the container %s belongs to another installation", name);
    if (r < 0)
        return r;
    ret->execd_port = published(tree, DOCKER_EXECD_PORT);
    ret->http_port = published(tree, DOCKER_HTTP_PORT);
    ret->egress_port = published(tree, DOCKER_EGRESS_PORT);
    read_own_token(tree, ret);
    return 0;
}

/* The reason in the last line of its log: {"level":"error","msg":"cannot serve: ..."}. */
static void read_end(struct docker *d, struct str id, char *out, size_t out_size)
{
    AUTO_ARENA(arena, 1 << 20);
    AUTO_BUF(text, 1 << 20);
    char name[DOCKER_NAME_MAX];
    struct str rest, line, level, message;

    docker_sidecar_name(id, name);
    (void)!str_copy(out, out_size, STR("it ended at once"));
    if (docker_logs_tail(d, name, LOG_LINES, &text, NULL) < 0)
        return;
    rest = buf_str(&text);
    while (str_cut(&rest, '\n', &line)) {
        struct json *tree = NULL;

        if (str_starts(line, STR("{")) && json_parse(&arena, line, NULL, &tree, NULL) == 0 &&
            json_to_str(json_get(tree, STR("level")), &level) == 0 &&
            str_eq_nocase(level, STR("error")) &&
            json_to_str(json_get(tree, STR("msg")), &message) == 0)
            (void)snprintf(out, out_size, "%.*s", STR_ARG(message));
    }
}

/* A policy that makes no sense is the client's mistake; anything else is ours. */
static int explain_end(struct docker *d, struct runtime_create *c, struct err *e)
{
    static const struct str mark = STR_INIT(PREFIX "RULES: ");
    char why[200];
    struct str text;
    size_t at;

    read_end(d, c->id, why, sizeof(why));
    text = str_of(why);
    at = str_find_str(text, mark);
    c->fail_status = at < text.n ? 400 : 500;
    c->fail_code = at < text.n ? "SANDBOX::INVALID_PARAMETER" : "DOCKER::SANDBOX_START_FAILED";
    return at < text.n
               ? err_set(e, EINVAL, "networkPolicy: %.*s", STR_ARG(str_skip(text, at + mark.n)))
               : err_set(e, EIO, "the egress sidecar does not start: %s", why);
}

static int await_ready(struct docker *d, struct runtime_create *c, struct str token, struct err *e)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    uint64_t deadline = deadline_in_ms(READY_MS), look = 0;
    struct docker_facts facts;
    struct sock_addr addr;
    int r;

    for (;;) {
        if (deadline_passed(look)) {
            r = inspect(d, c->id, &facts, e);
            if (r < 0)
                return r;
            if (facts.status.state != RUNTIME_RUNNING)
                return explain_end(d, c, e);
            r = docker_address_of(d, &facts, DOCKER_EGRESS_PORT, facts.egress_port, &addr, e);
            if (r < 0)
                return r;
            look = deadline_in_ms(LOOK_MS);
        }
        if (is_healthy(&addr, token))
            return 0;
        if (deadline_passed(deadline)) {
            c->fail_status = 500;
            c->fail_code = "DOCKER::SANDBOX_START_FAILED";
            return err_set(e, ETIMEDOUT, "the egress sidecar is not ready after %d seconds",
                           READY_MS / 1000);
        }
        (void)nanosleep(&pause, NULL);
    }
}

/* --- life --- */

/* Somebody may have removed the image that was made here. */
static int make_of_own_image(struct docker *d, const struct runtime_create *c,
                             const struct docker_plan *p, struct err *e)
{
    char image[DOCKER_NAME_MAX];
    int r = 0;

    for (int again = 0; again < 2; again++) {
        r = docker_egress_provide(d, again, image, e);
        if (r == 0)
            r = make(d, c, p, image, e);
        if (r != -ENOENT)
            break;
    }
    return r;
}

int docker_sidecar_start(struct docker *d, struct runtime_create *c, struct docker_plan *p,
                         bool *ret_no_image, struct err *e)
{
    const char *image = d->config->egress.image;
    char name[DOCKER_NAME_MAX], volume[DOCKER_NAME_MAX];
    int r = 0;

    docker_sidecar_name(c->id, name);
    docker_runtime_volume(c->id, volume);
    if (c->spec->credential_proxy)
        r = docker_volume_make(d, str_of(volume), c->id, e);
    if (r < 0)
        return r;
    r = image[0] ? make(d, c, p, image, e) : make_of_own_image(d, c, p, e);
    *ret_no_image = r == -ENOENT && image[0];
    if (r == 0)
        r = hand_over_lists(d, name, e);
    if (r == 0)
        r = docker_ask(d, HTTP_POST, START_MS, e, "/containers/%s/start", name);
    if (r >= 0)
        r = await_ready(d, c, c->token, e);
    return r < 0 ? r : docker_secrets_hand_over(d, c, p, e);
}

int docker_sidecar_address(struct docker *d, struct str id, struct sock_addr *ret, struct err *e)
{
    struct docker_facts facts;
    int r = inspect(d, id, &facts, e);

    if (r < 0)
        return r;
    mem_wipe(facts.egress_token, sizeof(facts.egress_token));
    return docker_address_of(d, &facts, DOCKER_EGRESS_PORT, facts.egress_port, ret, e);
}

int docker_sidecar_keep(struct docker *d, struct str id, struct docker_plan *plan, struct err *e)
{
    struct docker_facts facts;
    int r = inspect(d, id, &facts, e);

    if (r < 0)
        return r;
    plan->kept = true;
    plan->execd_port = facts.execd_port;
    plan->http_port = facts.http_port;
    plan->egress_port = facts.egress_port;
    memcpy(plan->egress_token, facts.egress_token, sizeof(plan->egress_token));
    mem_wipe(facts.egress_token, sizeof(facts.egress_token));
    return 0;
}

int docker_sidecar_start_again(struct docker *d, struct runtime_create *c, struct str token,
                               struct err *e)
{
    char name[DOCKER_NAME_MAX];
    int r;

    docker_sidecar_name(c->id, name);
    r = docker_ask(d, HTTP_POST, START_MS, e, "/containers/%s/start", name);
    return r < 0 ? r : await_ready(d, c, token, e);
}

int docker_sidecar_join(struct docker *d, struct str id, struct docker_facts *facts, struct err *e)
{
    enum runtime_state state = facts->status.state;
    struct docker_facts sidecar = {0};
    int r = inspect(d, id, &sidecar, e);

    mem_wipe(sidecar.egress_token, sizeof(sidecar.egress_token));
    if (r < 0 && r != -ENOENT)
        return r;
    facts->address = sidecar.address;
    facts->egress_port = sidecar.egress_port;
    if ((state != RUNTIME_RUNNING && state != RUNTIME_PAUSED) ||
        (r == 0 &&
         (sidecar.status.state == RUNTIME_RUNNING || sidecar.status.state == RUNTIME_PAUSED)))
        return 0;
    facts->status = (struct runtime_status){.state = RUNTIME_FAILED};
    (void)err_set(&facts->status.err, ENETDOWN,
                  "the egress sidecar %s, and with it the sandbox's network; the sandbox was ended",
                  r < 0 ? "was removed" : "ended");
    return 0;
}

int docker_sidecar_remove(struct docker *d, struct str id, struct err *e)
{
    struct docker_facts facts;
    char name[DOCKER_NAME_MAX], label[2 * DOCKER_NAME_MAX], volume[DOCKER_NAME_MAX];
    int r = inspect(d, id, &facts, e);

    if (r < 0 && r != -ENOENT)
        return r;
    docker_sidecar_name(id, name);
    if (r == 0) {
        r = docker_ask(d, HTTP_DELETE, REMOVE_MS, e, "/containers/%s?force=1&v=1", name);
        if (r == -ESTALE)
            return err_set(e, EBUSY, "%s", e->msg);
        if (r < 0 && r != -ENOENT)
            return r;
        boxes_port_give(&d->boxes, facts.egress_port);
        r = 1;
    }
    docker_runtime_volume(id, volume);
    (void)snprintf(label, sizeof(label), "[\"%s\"]", volume);
    docker_volumes_drop(d, id, str_of(label));
    return r == -ENOENT ? 0 : r;
}
