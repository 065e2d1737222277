/* sandboxctl.c - drives a broker from the command line, for tests, benchmarks and people.
 *
 * usage: sandboxctl --broker SOCKET COMMAND...
 *   run [OPTIONS] ID -- ARGV...   create, wait for the end, print its output, exit with its status
 *   create [OPTIONS] ID -- ARGV...
 *   bench ROUNDS [OPTIONS] ID -- ARGV...   the median time of a create, in microseconds
 *   ping|stat|pause|resume|log|remove ID
 *   signal ID SIGNAL, kill ID [GRACE-MS]
 *   list, sweep, info, fill N
 *   snapshot ID DIR, erase DIR, merge link|copy DIR LAYER...
 *   unpack ARCHIVE DIR [LIMIT=N...]   prints diff id, entries, bytes, bytes of files, skipped
 * Options of run and create: --dir PATH (a layer of the root, topmost first), --shifted PATH (one
 *   with PLAN_LAYER_SHIFTED), --over PATH (the same above the host root), --net none|bridge,
 *   --memory BYTES, --cpu MILLICORES, --pids N, --disk BYTES, --tmp BYTES, --shm BYTES, --files N,
 *   --env NAME=VALUE, --cwd DIR, --uid N, --hostname NAME, --dns ADDRESS, --listen PATH,
 *   --volume SRC:DST[:ro], --lasting DIR (keeps what it writes) */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/report.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/client.h"
#include "net/sock.h"

enum { COPY_MS_MAX = 10 * 60 * 1000 };

static struct broker_client client = {-EBADF};
static struct err err;
static uint32_t grace_ms = 5000; /* for kill */

static int fail(const char *what)
{
    fprintf(stderr, "sandboxctl: %s: %s\n", what, err.msg);
    return 1;
}

/* --- plans --- */

struct volume {
    int fd;
    struct str target;
    bool read_only;
};

struct request {
    struct plan plan;
    int layers[PLAN_LAYERS_MAX];
    struct volume volumes[PLAN_BINDS_MAX + 1]; /* one more than allowed, to test the refusal */
    size_t volume_count;
    int binds[PLAN_BINDS_MAX + 1];
    int lasting;
    const char *listen;
    struct str envs[64];
    size_t env_count;
    struct str cwd;
};

static uint64_t number(const char *text)
{
    uint64_t n = 0;

    if (str_to_u64(str_of(text), &n) < 0) {
        fprintf(stderr, "sandboxctl: '%s' is not a number\n", text);
        exit(2);
    }
    return n;
}

static bool add_volume(struct request *q, const char *text)
{
    struct volume *v = &q->volumes[q->volume_count];
    struct str rest = str_of(text), source;
    char path[PATH_MAX];

    str_cut(&rest, ':', &source);
    str_cut(&rest, ':', &v->target);
    v->read_only = str_eq(rest, STR("ro"));
    if (q->volume_count == ARRAY_LEN(q->volumes) || str_copy(path, sizeof(path), source) < 0 ||
        (rest.p && !v->read_only))
        return false;
    v->fd = open(path, O_PATH | O_CLOEXEC);
    q->volume_count += v->fd >= 0;
    return v->fd >= 0;
}

static bool set_option(struct request *q, struct str name, const char *value)
{
    struct plan_limits *l = &q->plan.limits;

    bool dir = str_eq(name, STR("--dir")), shifted = str_eq(name, STR("--shifted")),
         over = str_eq(name, STR("--over"));

    if (dir || shifted || over) {
        if (q->plan.layer_count == PLAN_LAYERS_MAX)
            return false;
        q->plan.layer_flags[q->plan.layer_count] = dir ? 0 : PLAN_LAYER_SHIFTED;
        q->layers[q->plan.layer_count++] = open(value, O_PATH | O_DIRECTORY | O_CLOEXEC);
        q->plan.root = over ? q->plan.root : PLAN_ROOT_DIR;
    } else if (str_eq(name, STR("--net"))) {
        q->plan.net = strcmp(value, "bridge") == 0 ? PLAN_NET_BRIDGE : PLAN_NET_NONE;
    } else if (str_eq(name, STR("--memory"))) {
        l->memory_bytes = number(value);
    } else if (str_eq(name, STR("--cpu"))) {
        l->cpu_millicores = (uint32_t)number(value);
    } else if (str_eq(name, STR("--pids"))) {
        l->pids = (uint32_t)number(value);
    } else if (str_eq(name, STR("--disk"))) {
        l->disk_bytes = number(value);
    } else if (str_eq(name, STR("--tmp"))) {
        l->tmp_bytes = number(value);
    } else if (str_eq(name, STR("--shm"))) {
        l->shm_bytes = number(value);
    } else if (str_eq(name, STR("--files"))) {
        l->open_files = (uint32_t)number(value);
    } else if (str_eq(name, STR("--uid"))) {
        q->plan.uid = q->plan.gid = (uint32_t)number(value);
    } else if (str_eq(name, STR("--hostname"))) {
        return str_copy(q->plan.hostname, sizeof(q->plan.hostname), str_of(value)) == 0;
    } else if (str_eq(name, STR("--dns"))) {
        return inet_pton(AF_INET, value, &q->plan.dns[0]) == 1;
    } else if (str_eq(name, STR("--env")) && q->env_count < ARRAY_LEN(q->envs)) {
        q->envs[q->env_count++] = str_of(value);
    } else if (str_eq(name, STR("--cwd"))) {
        q->cwd = str_of(value);
    } else if (str_eq(name, STR("--volume"))) {
        return add_volume(q, value);
    } else if (str_eq(name, STR("--lasting"))) {
        q->plan.lasting = 1;
        q->lasting = open(value, O_PATH | O_DIRECTORY | O_CLOEXEC);
    } else if (str_eq(name, STR("--listen"))) {
        q->listen = value;
    } else {
        return false;
    }
    return true;
}

static int parse_request(struct request *q, int argc, char **argv)
{
    int i = 0;

    *q = (struct request){.cwd = STR("/")};
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
        if (!set_option(q, str_of(argv[i]), argv[i + 1]))
            return err_set(&err, EINVAL, "unknown option %s", argv[i]);
    if (i + 2 >= argc || strcmp(argv[i + 1], "--") != 0)
        return err_set(&err, EINVAL, "expected ID -- ARGV...");
    if (str_copy(q->plan.id, sizeof(q->plan.id), str_of(argv[i])) < 0)
        return err_set(&err, EINVAL, "id too long");
    for (i += 2; i < argc; i++)
        if (plan_add_arg(&q->plan, str_of(argv[i])) < 0)
            return err_set(&err, E2BIG, "too many arguments");
    if (plan_add_env(&q->plan, STR("PATH"),
                     STR("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")) < 0)
        return -E2BIG;
    for (size_t k = 0; k < q->env_count; k++) {
        struct str rest = q->envs[k], name;

        str_cut(&rest, '=', &name);
        if (plan_add_env(&q->plan, name, rest.p ? rest : STR("")) < 0)
            return err_set(&err, E2BIG, "bad environment");
    }
    if (plan_set_cwd(&q->plan, q->cwd) < 0)
        return err_set(&err, EINVAL, "bad working directory");
    for (size_t k = 0; k < q->volume_count; k++) {
        if (plan_add_bind(&q->plan, q->volumes[k].target, q->volumes[k].read_only) < 0)
            return err_set(&err, EINVAL, "bad volume");
        q->binds[k] = q->volumes[k].fd;
    }
    q->binds[q->plan.bind_count] = q->lasting;
    return 0;
}

static void socket_path(const char *broker, const char *id, char out[108])
{
    (void)snprintf(out, 108, "unix:%.*s/%s.sock", (int)(strrchr(broker, '/') - broker), broker, id);
}

static int create(const char *broker, int argc, char **argv, struct broker_handle *ret)
{
    static struct request q;
    char path[108];
    struct sock_addr addr;
    auto_fd listener = -EBADF;
    int r = parse_request(&q, argc, argv);

    if (r < 0)
        return r;
    socket_path(broker, q.plan.id, path);
    r = sock_addr_parse(str_of(q.listen ? q.listen : path), &addr, &err);
    if (r < 0)
        return r;
    listener = sock_listen(&addr, 64, &err);
    return listener < 0 ? listener
                        : broker_spawn(&client, &q.plan, q.layers, q.binds, listener, ret, &err);
}

/* --- commands --- */

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int print_log(struct broker_handle *h)
{
    AUTO_BUF(text, ENTRY_LOG_BYTES);
    uint64_t written;
    int r = entry_log_read(h->files[BROKER_FILE_LOG], ENTRY_LOG_READ_MAX, &text, &written);

    if (r < 0 && r != -ENODATA) { /* execd has not written anything yet */
        (void)err_sys(&err, -r, "read the log");
        return fail("log");
    }
    return fwrite(text.p, 1, text.n, stdout) == text.n ? 0 : 1;
}

static int run(const char *broker, int argc, char **argv)
{
    struct broker_handle h;
    struct exit_report report = {0};
    struct pollfd p;
    int r = create(broker, argc, argv, &h);

    if (r < 0)
        return fail("create");
    p = (struct pollfd){.fd = h.files[BROKER_FILE_PIDFD], .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    (void)print_log(&h);
    r = exit_report_read(h.files[BROKER_FILE_EXIT], &report);
    if (r < 0)
        (void)err_sys(&err, -r, "read the report");
    if (broker_remove(&client, h.sandbox.id, &err) < 0)
        return fail("remove");
    if (r < 0)
        return fail("report");
    if (report.phase == REPORT_FAILED)
        fprintf(stderr, "sandboxctl: %s\n", report.message);
    return report.phase == REPORT_FAILED ? 126
           : report.exit_signal          ? 128 + report.exit_signal
                                         : report.exit_code;
}

/* Creates and removes `rounds` sandboxes, one after the other, over one connection. Prints the
 * median time of a create in microseconds. */
static int bench(const char *broker, int argc, char **argv)
{
    static uint64_t times[10000];
    size_t rounds = argc > 0 ? (size_t)number(argv[0]) : 0;

    if (rounds == 0 || rounds > ARRAY_LEN(times)) {
        (void)err_set(&err, EINVAL, "expected a number of rounds up to %zu", ARRAY_LEN(times));
        return fail("bench");
    }
    for (size_t i = 0; i < rounds; i++) {
        struct broker_handle h;
        uint64_t before = time_mono_ns();

        if (create(broker, argc - 1, argv + 1, &h) < 0)
            return fail("create");
        times[i] = (time_mono_ns() - before) / 1000;
        if (broker_remove(&client, h.sandbox.id, &err) < 0)
            return fail("remove");
        broker_handle_done(&h);
    }
    qsort(times, rounds, sizeof(times[0]), compare_times);
    return printf("%llu\n", (unsigned long long)times[rounds / 2]) < 0;
}

static void print_sandbox(void *user UNUSED, const struct broker_sandbox *s)
{
    static const char *const states[] = {"?", "running", "paused", "dead"};

    printf("%s slot=%u state=%s pid=%d\n", s->id, s->slot, states[s->state & 3], s->pid);
}

static int print_stat(const char *id)
{
    struct broker_sandbox s;
    struct cgroup_stat st;

    if (broker_stat(&client, id, &s, &st, &err) < 0)
        return fail("stat");
    print_sandbox(NULL, &s);
    printf("memory=%llu peak=%llu kernel=%llu cpu_us=%llu pids=%llu oom_kills=%llu "
           "init_oom_kills=%u\n",
           (unsigned long long)st.memory_bytes, (unsigned long long)st.memory_peak_bytes,
           (unsigned long long)st.kernel_bytes, (unsigned long long)st.cpu_us,
           (unsigned long long)st.pids, (unsigned long long)st.oom_kills, st.init_oom_kills);
    return 0;
}

static int ping(const char *broker, const char *id)
{
    struct str ask = STR("GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    char path[108], answer[256] = "";
    struct sock_addr addr;
    auto_fd fd = -EBADF;
    size_t n = 0;

    socket_path(broker, id, path);
    if (sock_addr_parse(str_of(path), &addr, &err) < 0)
        return fail("ping");
    fd = sock_connect_start(&addr, &err);
    if (fd < 0 || io_write_full(fd, ask, deadline_in_ms(5000)) < 0 ||
        io_read_full(fd, answer, sizeof(answer) - 1, deadline_in_ms(5000), &n) < 0)
        return fail("ping");
    return strncmp(answer, "HTTP/1.1 200", 12) == 0 ? puts("pong") < 0 : 1;
}

static int with_handle(const char *id, int (*use)(struct broker_handle *))
{
    struct broker_handle h;
    int r;

    if (broker_open(&client, id, &h, &err) < 0)
        return fail("open");
    r = use(&h);
    broker_handle_done(&h);
    return r;
}

static int kill_gently(struct broker_handle *h)
{
    return broker_kill(&client, h, grace_ms, &err) < 0 ? fail("kill") : 0;
}

/* Waits for a snapshot or merge and prints what came of it. */
static int print_copied(int sock, const char *what)
{
    struct broker_copied copied;
    auto_fd s = sock;

    if (s < 0 || broker_copied_result(s, COPY_MS_MAX, &copied, &err) < 0)
        return fail(what);
    return printf("frozen_us=%llu entries=%llu bytes=%llu\n", (unsigned long long)copied.frozen_us,
                  (unsigned long long)copied.entries, (unsigned long long)copied.bytes) < 0;
}

static int snapshot(const char *id, const char *path)
{
    auto_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return print_copied(broker_snapshot(&client, id, dir, -EBADF, &err), "snapshot");
}

/* merge link|copy TARGET LAYER... */
static int merge(int argc, char **argv)
{
    int fds[PLAN_LAYERS_MAX + 1];

    if (argc < 3 || argc - 1 > (int)ARRAY_LEN(fds)) {
        (void)err_set(&err, EINVAL, "expected link or copy, a target and layers");
        return fail("merge");
    }
    for (int i = 1; i < argc; i++)
        fds[i - 1] = open(argv[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return print_copied(broker_merge(&client, fds + 1, (size_t)argc - 2,
                                     strcmp(argv[0], "link") == 0, fds[0], &err),
                        "merge");
}

static bool set_limit(struct unpack_limits *l, struct str text)
{
    struct str name;
    uint64_t n = 0;

    (void)str_cut(&text, '=', &name);
    if (!text.p || str_to_u64(text, &n) < 0)
        return false;
    if (str_eq(name, STR("entries")))
        l->entries = n;
    else if (str_eq(name, STR("bytes")))
        l->bytes = n;
    else if (str_eq(name, STR("depth")))
        l->depth = (uint32_t)n;
    else if (str_eq(name, STR("xattr_bytes")))
        l->xattr_bytes = (uint32_t)n;
    else if (str_eq(name, STR("ratio")))
        l->ratio = (uint32_t)n;
    else if (str_eq(name, STR("time_ms")))
        l->time_ms = (uint32_t)n;
    else
        return false;
    return true;
}

static int unpack(int argc, char **argv)
{
    struct unpack_limits limits = UNPACK_LIMITS_DEFAULT;
    struct unpack_report report;
    auto_fd blob = -EBADF, dir = -EBADF, sock = -EBADF;

    if (argc < 3)
        return fail("unpack ARCHIVE DIR");
    for (int i = 3; i < argc; i++)
        if (!set_limit(&limits, str_of(argv[i])))
            return fail(argv[i]);
    blob = open(argv[1], O_RDONLY | O_CLOEXEC);
    dir = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (blob < 0 || dir < 0) {
        (void)err_sys(&err, errno, "open");
        return fail("unpack");
    }
    sock = broker_unpack(&client, &limits, blob, dir, &err);
    if (sock < 0 || broker_unpack_result(sock, limits.time_ms + 5000, &report, &err) < 0)
        return fail("unpack");
    for (size_t i = 0; i < sizeof(report.diff_id); i++)
        printf("%02x", report.diff_id[i]);
    printf(" %llu %llu %llu %llu\n", (unsigned long long)report.entries,
           (unsigned long long)report.bytes, (unsigned long long)report.file_bytes,
           (unsigned long long)report.skipped);
    return 0;
}

static int erase(const char *path)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX];
    auto_fd dir = -EBADF;

    if (!slash || str_copy(parent, sizeof(parent), str_make(path, (size_t)(slash - path))) < 0)
        return fail("erase");
    dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 || broker_erase(&client, dir, slash + 1, &err) < 0 ? fail("erase") : 0;
}

static int print_info(void)
{
    struct broker_info i;

    if (broker_info(&client, &i, &err) < 0)
        return fail("info");
    printf("live=%u dead=%u ready_none=%u ready_bridge=%u here_none=%u here_bridge=%u "
           "wanted_none=%u wanted_bridge=%u\n",
           i.live, i.dead, i.ready.none, i.ready.bridge, i.here.none, i.here.bridge, i.wanted.none,
           i.wanted.bridge);
    return 0;
}

static int command(const char *broker, int argc, char **argv)
{
    struct broker_handle h;
    struct str name = str_of(argv[0]);
    const char *id = argc > 1 ? argv[1] : "";
    int r;

    if (str_eq(name, STR("run")))
        return run(broker, argc - 1, argv + 1);
    if (str_eq(name, STR("create")))
        return create(broker, argc - 1, argv + 1, &h) < 0 ? fail("create") : 0;
    if (str_eq(name, STR("bench")))
        return bench(broker, argc - 1, argv + 1);
    if (str_eq(name, STR("list")))
        return broker_list(&client, print_sandbox, NULL, &err) < 0 ? fail("list") : 0;
    if (str_eq(name, STR("sweep"))) {
        r = broker_sweep(&client, true, &err);
        return r < 0 ? fail("sweep") : printf("%d\n", r) < 0;
    }
    if (str_eq(name, STR("fill"))) {
        struct broker_config c = {.ready_none = (uint32_t)number(id)};

        return broker_fill(&client, &c, &err) < 0 ? fail("fill") : 0;
    }
    if (str_eq(name, STR("info")))
        return print_info();
    if (str_eq(name, STR("unpack")))
        return unpack(argc, argv);
    if (str_eq(name, STR("erase")))
        return erase(id);
    if (str_eq(name, STR("ping")))
        return ping(broker, id);
    if (str_eq(name, STR("stat")))
        return print_stat(id);
    if (str_eq(name, STR("log")))
        return with_handle(id, print_log);
    if (str_eq(name, STR("kill"))) {
        grace_ms = argc == 3 ? (uint32_t)number(argv[2]) : grace_ms;
        return with_handle(id, kill_gently);
    }
    if (str_eq(name, STR("merge")))
        return merge(argc - 1, argv + 1);
    if (str_eq(name, STR("snapshot")) && argc == 3)
        return snapshot(id, argv[2]);
    r = str_eq(name, STR("pause"))    ? broker_pause(&client, id, &err)
        : str_eq(name, STR("resume")) ? broker_resume(&client, id, &err)
        : str_eq(name, STR("remove")) ? broker_remove(&client, id, &err)
        : str_eq(name, STR("signal")) && argc == 3
            ? broker_signal(&client, id, (int)number(argv[2]), &err)
            : err_set(&err, EINVAL, "unknown command");
    return r < 0 ? fail(argv[0]) : 0;
}

int main(int argc, char **argv)
{
    struct broker_config config = {0};

    if (argc < 4 || strcmp(argv[1], "--broker") != 0) {
        fprintf(stderr, "usage: sandboxctl --broker SOCKET COMMAND...\n");
        return 2;
    }
    if (broker_connect(&client, argv[2], &config, &err) < 0)
        return fail("connect");
    return command(argv[2], argc - 3, argv + 3);
}
