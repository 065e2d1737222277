/* main.c - opensandbox-egress: options, start and end. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/time.h"
#include "egress/confine.h"
#include "egress/egress.h"
#include "egress/sidecar.h"
#include "version.h"

enum {
    POOL_QUEUE_MAX = 16 * 1024,
    ASKS_MAX = 1024,
    CACHE_ENTRIES_MAX = 4096,
    DNS_TIMEOUT_MS = 5 * 1000,
    DNS_PORT = 53,
    EXIT_USAGE = 2,
};

static const char help[] =
    "usage: opensandbox-egress --broker SOCKET|--broker-fd FD --dir DIR --socket PATH --upstream "
    "ADDRESS...\n"
    "       opensandbox-egress --sidecar\n"
    "Judges and answers the DNS of the sandboxes of this host, and has the broker filter their\n"
    "packets. The server starts it. As a sidecar it filters the network namespace that it shares\n"
    "with one sandbox, configured by variables OPENSANDBOX_EGRESS_...; so it does without any\n"
    "option when it is called 'egress'.\n"
    "  --broker SOCKET    of opensandbox-broker\n"
    "  --broker-fd FD     an inherited connection to it, of the role for egress\n"
    "  --dir DIR          data directory of the server\n"
    "  --socket PATH      where it serves HTTP to the server\n"
    "  --upstream ADDRESS resolver, an IP address with an optional port; up to 10\n"
    "  --deny TARGET      name, address or network that no sandbox may reach\n"
    "  --allow TARGET     one that every sandbox with a policy may reach\n"
    "  --doh TARGET       address or network of encrypted DNS, denied at port 443\n"
    "  --block-doh        deny port 443 altogether, if there is no --doh\n"
    "  --block-quic       deny UDP port 443\n"
    "  --max-rules N      of one policy; 0 = no limit\n"
    "  --dns-timeout MS   for an answer of a resolver\n"
    "  --trust FILE       authorities (PEM) that servers of intercepted connections may have\n"
    "                     beside those of the system\n"
    "  --vault-key-fd FD  pipe with a key of 32 bytes: credential vaults are sealed by it and "
    "outlive\n"
    "                     this process\n"
    "  --resolved-http    no credential over plain HTTP for a name that no resolver knows\n"
    "  --webhook URL      gets a POST for each denied name\n"
    "  --record-fd FD     pipe that gets a line for each name or request that is denied, each "
    "change\n"
    "                     of a policy and each use of a credential\n"
    "  --until-eof FD     end when this inherited pipe reports end of file\n"
    "  --sidecar          be a sidecar\n"
    "  --version, --help\n";

enum option_id {
    OPT_BROKER = 1,
    OPT_BROKER_FD,
    OPT_DIR,
    OPT_SOCKET,
    OPT_UPSTREAM,
    OPT_DENY,
    OPT_ALLOW,
    OPT_DOH,
    OPT_BLOCK_DOH,
    OPT_BLOCK_QUIC,
    OPT_MAX_RULES,
    OPT_DNS_TIMEOUT,
    OPT_TRUST,
    OPT_VAULT_KEY_FD,
    OPT_RESOLVED_HTTP,
    OPT_WEBHOOK,
    OPT_RECORD_FD,
    OPT_UNTIL_EOF,
    OPT_SIDECAR,
    OPT_VERSION,
    OPT_HELP,
};
static const struct option options[] = {
    {"broker",        required_argument, NULL, OPT_BROKER       },
    {"broker-fd",     required_argument, NULL, OPT_BROKER_FD    },
    {"webhook",       required_argument, NULL, OPT_WEBHOOK      },
    {"dir",           required_argument, NULL, OPT_DIR          },
    {"socket",        required_argument, NULL, OPT_SOCKET       },
    {"upstream",      required_argument, NULL, OPT_UPSTREAM     },
    {"deny",          required_argument, NULL, OPT_DENY         },
    {"allow",         required_argument, NULL, OPT_ALLOW        },
    {"doh",           required_argument, NULL, OPT_DOH          },
    {"block-doh",     no_argument,       NULL, OPT_BLOCK_DOH    },
    {"block-quic",    no_argument,       NULL, OPT_BLOCK_QUIC   },
    {"max-rules",     required_argument, NULL, OPT_MAX_RULES    },
    {"dns-timeout",   required_argument, NULL, OPT_DNS_TIMEOUT  },
    {"trust",         required_argument, NULL, OPT_TRUST        },
    {"vault-key-fd",  required_argument, NULL, OPT_VAULT_KEY_FD },
    {"resolved-http", no_argument,       NULL, OPT_RESOLVED_HTTP},
    {"record-fd",     required_argument, NULL, OPT_RECORD_FD    },
    {"until-eof",     required_argument, NULL, OPT_UNTIL_EOF    },
    {"sidecar",       no_argument,       NULL, OPT_SIDECAR      },
    {"version",       no_argument,       NULL, OPT_VERSION      },
    {"help",          no_argument,       NULL, OPT_HELP         },
    {NULL,            0,                 NULL, 0                },
};

static int complain(const char *what, const char *value)
{
    fprintf(stderr, "opensandbox-egress: %s '%s'\n", what, value);
    return -EINVAL;
}

static int add_upstream(struct egress_conf *conf, const char *text)
{
    struct sock_addr *addr = &conf->upstreams[conf->upstream_count];
    struct policy_net net;
    char with_port[SOCK_ADDR_TEXT_MAX];

    if (conf->upstream_count == DNS_UPSTREAMS_MAX)
        return complain("too many resolvers at", text);
    if (policy_net_parse(str_of(text), &net) == 0 && !strchr(text, '/'))
        (void)snprintf(with_port, sizeof(with_port), net.family == AF_INET ? "%s:%d" : "[%s]:%d",
                       text, DNS_PORT);
    else
        (void)snprintf(with_port, sizeof(with_port), "%s", text);
    if (sock_addr_parse(str_of(with_port), addr, NULL) < 0 ||
        (addr->any.sa_family != AF_INET && addr->any.sa_family != AF_INET6))
        return complain("not the address of a resolver:", text);
    conf->upstream_count++;
    return 0;
}

static int add_target(struct str *list, size_t *count, const char *text)
{
    if (*count == EGRESS_TARGETS_MAX)
        return complain("too many targets at", text);
    list[(*count)++] = str_of(text);
    return 0;
}

static int set_number(uint32_t *ret, uint64_t max, const char *text)
{
    uint64_t n;

    if (str_to_u64_range(str_of(text), 0, max, &n) < 0)
        return complain("not a number, or too large:", text);
    *ret = (uint32_t)n;
    return 0;
}

/* The server has written it already. */
static int read_vault_key(struct egress_conf *conf, int fd)
{
    size_t n = 0;
    ssize_t got = 1;

    while (n < sizeof(conf->vault_key) && got > 0) {
        got = read(fd, conf->vault_key + n, sizeof(conf->vault_key) - n);
        n += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    (void)mlock(conf->vault_key, sizeof(conf->vault_key));
    conf->seals_vaults = n == sizeof(conf->vault_key);
    return conf->seals_vaults ? 0 : complain("no key for credential vaults from", "--vault-key-fd");
}

static int parse_option(struct egress_conf *conf, int id, const char *value)
{
    uint32_t n = 0;
    int r = 0;

    switch (id) {
    case OPT_RESOLVED_HTTP:
        conf->resolved_http = true;
        break;
    case OPT_BROKER:
        conf->broker = value;
        break;
    case OPT_BROKER_FD:
        r = set_number(&n, 1024, value);
        conf->broker_fd = (int)n;
        break;
    case OPT_WEBHOOK:
        conf->webhook = value;
        break;
    case OPT_DIR:
        conf->dir = value;
        break;
    case OPT_SOCKET:
        conf->socket = value;
        break;
    case OPT_UPSTREAM:
        return add_upstream(conf, value);
    case OPT_DENY:
        return add_target(conf->deny, &conf->deny_count, value);
    case OPT_ALLOW:
        return add_target(conf->allow, &conf->allow_count, value);
    case OPT_DOH:
        return add_target(conf->doh, &conf->doh_count, value);
    case OPT_BLOCK_DOH:
        conf->block_doh = true;
        break;
    case OPT_BLOCK_QUIC:
        conf->block_quic = true;
        break;
    case OPT_MAX_RULES:
        return set_number(&conf->rules_max, UINT32_MAX, value);
    case OPT_DNS_TIMEOUT:
        return set_number(&conf->dns_timeout_ms, 120 * 1000, value);
    case OPT_TRUST:
        conf->trust = value;
        break;
    case OPT_VAULT_KEY_FD:
        r = set_number(&n, 1024, value);
        return r < 0 ? r : read_vault_key(conf, (int)n);
    case OPT_RECORD_FD:
        r = set_number(&n, 1024, value);
        conf->record = (int)n;
        return r < 0 ? r : fcntl(conf->record, F_SETFL, O_WRONLY | O_NONBLOCK);
    case OPT_UNTIL_EOF:
        r = set_number(&n, 1024, value);
        conf->until_eof = (int)n;
        break;
    default:
        r = -EINVAL;
    }
    return r;
}

/* 0; 1 = done; -EINVAL. */
static int parse_options(int argc, char **argv, struct egress_conf *conf)
{
    int id, r = 0;

    while (r == 0 && (id = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (id == OPT_VERSION)
            return printf("opensandbox-egress " OPENSANDBOX_VERSION "\n") < 0 ? -EIO : 1;
        if (id == OPT_HELP || id == 'h')
            return fputs(help, stdout) < 0 ? -EIO : 1;
        r = parse_option(conf, id, optarg);
    }
    if (r == 0 &&
        (optind < argc || (!conf->broker && conf->broker_fd < 0) || !conf->dir || !conf->socket)) {
        fputs("opensandbox-egress: --broker, --dir and --socket are needed\n", stderr);
        r = -EINVAL;
    }
    if (r < 0)
        fputs("opensandbox-egress --help lists the options\n", stderr);
    return r;
}

/* --- life --- */

struct life {
    struct egress egress;
    struct loop_signals signals;
    struct loop_io tie;
};

static void on_signal(struct loop_signals *signals, int signo UNUSED)
{
    loop_stop(container_of(signals, struct life, signals)->egress.loop);
}

static void on_tie(struct loop_io *io, uint32_t events UNUSED)
{
    char c;

    if (read(io->fd, &c, 1) == 0)
        loop_stop(container_of(io, struct life, tie)->egress.loop);
}

static int read_lists(struct egress *g, struct err *e)
{
    const struct egress_conf *c = &g->conf;
    int r = policy_always(c->deny, c->deny_count, c->allow, c->allow_count, &g->always, e);

    if (r == 0)
        r = policy_always(c->doh, c->doh_count, NULL, 0, &g->doh, e);
    return r < 0 ? err_wrap(e, r, "lists of the configuration") : 0;
}

static int ask_info(struct egress *g UNUSED, struct broker_client *client, void *user,
                    struct err *e)
{
    return broker_info(client, user, e);
}

/* The broker may be starting, too. */
static int meet_broker(struct egress *g, struct broker_info *info, struct err *e)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000000L};
    uint64_t deadline = deadline_in_ms(20 * 1000);
    int r;

    while ((r = broker_call(g, ask_info, info, e)) < 0 && g->conf.broker &&
           !deadline_passed(deadline)) /* an inherited connection comes once */
        (void)nanosleep(&pause, NULL);
    return r;
}

static void on_broker_end(struct loop_io *io, uint32_t events UNUSED)
{
    struct egress *g = container_of(io, struct egress, broker_io);

    log_event(LOG_WARN, "the broker is gone, ending to get another connection");
    g->broker_lost = true;
    loop_stop(g->loop);
}

/* The worker reads the connection; only its end (EPOLLHUP) concerns the loop. */
static int watch_broker(struct egress *g, struct err *e)
{
    int fd;

    if (g->conf.broker)
        return 0;
    fd = fcntl(g->client.sock, F_DUPFD_CLOEXEC, 3);
    return fd < 0 ? err_sys(e, errno, "watch the broker")
                  : loop_io_start(g->loop, &g->broker_io, fd, EPOLLRDHUP, on_broker_end, e);
}

static int start_webhook(struct egress *g, struct err *e)
{
    const struct outcall_conf conf = {
        .loop = g->loop, .forward = g->forward, .url = str_of(g->conf.webhook)};

    return g->conf.webhook ? webhook_new(&conf, &g->webhook, e) : 0;
}

/* Before there is another thread, and before a byte of a sandbox is read. */
static int give_up_files(struct egress *g, struct err *e)
{
    struct confine_files files = {.trust = g->conf.trust, .trust_dir = g->conf.trust_dir};
    char path[512];
    int r = api_bind(g, e);

    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "%s/sandboxes", g->conf.dir);
    g->sandboxes = files.sandboxes = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (g->sandboxes < 0)
        return err_sys(e, errno, "open %s", path);
    r = egress_confine_files(&files, e);
    if (r > 0)
        log_event(LOG_WARN,
                  "the kernel has no Landlock: files of the server's account stay in reach");
    return r < 0 ? r : 0;
}

static int open_parts(struct life *l, struct err *e)
{
    struct egress *g = &l->egress;
    const struct pool_conf pool = {"broker", 1, POOL_QUEUE_MAX};
    struct dns_forward_conf forward = {.upstream_count = g->conf.upstream_count,
                                       .timeout_ms = g->conf.dns_timeout_ms,
                                       .asks_max = ASKS_MAX};
    sigset_t set;
    int r = loop_new(&g->loop, e);

    if (r < 0)
        return r;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    r = loop_signals_start(g->loop, &l->signals, &set, on_signal, e);
    if (r == 0)
        r = pool_new(&pool, &g->pool, e);
    if (r == 0)
        r = read_lists(g, e);
    if (r < 0)
        return r;
    forward.loop = g->loop;
    memcpy(forward.upstreams, g->conf.upstreams, sizeof(forward.upstreams));
    g->forward = dns_forward_new(&forward);
    g->cache = dns_cache_new(CACHE_ENTRIES_MAX);
    if (g->conf.until_eof >= 0)
        r = loop_io_start(g->loop, &l->tie, g->conf.until_eof, EPOLLIN, on_tie, e);
    return r;
}

static int serve(struct life *l, struct err *e)
{
    struct egress *g = &l->egress;
    struct broker_info info = {0};
    int r = give_up_files(g, e);

    if (r == 0)
        r = open_parts(l, e);
    if (r == 0)
        r = meet_broker(g, &info, e);
    if (r == 0)
        r = watch_broker(g, e);
    if (r == 0)
        r = start_webhook(g, e);
    if (r == 0)
        r = resolver_start(g, &info, e);
    if (r == 0)
        r = catcher_start(g, &info, e);
    if (r == 0)
        r = guarded_load(g, e);
    if (r == 0)
        r = api_start(g, e);
    if (r == 0)
        r = egress_confine(e);
    if (r < 0)
        return r;
    denied_start(g);
    log_event(LOG_INFO, "ready", LOG_STR("version", OPENSANDBOX_VERSION),
              LOG_U64("sandboxes", g->guarded.n), LOG_U64("resolvers", g->conf.upstream_count));
    r = loop_run(g->loop, e);
    return r == 0 && g->broker_lost ? err_set(e, EPIPE, "the broker is gone") : r;
}

static void clean_up(struct life *l)
{
    struct egress *g = &l->egress;

    http_server_free(g->http);
    if (g->pool) {
        (void)pool_stop(g->pool, UINT32_MAX);
        loop_settle(g->loop);
    }
    denied_stop(g);
    resolver_free(g->resolver);
    if (g->loop)
        loop_timer_stop(g->loop, &g->sweep);
    guarded_free_all(g);
    catcher_free(g->catcher);
    webhook_free(g->webhook);
    dns_forward_free(g->forward);
    dns_cache_free(g->cache);
    pool_free(g->pool);
    policy_free(g->always);
    policy_free(g->doh);
    broker_close(&g->client);
    fd_close(g->sandboxes);
    fd_close(g->door);
    if (g->loop) {
        if (l->tie.fd > 0)
            loop_io_stop(g->loop, &l->tie);
        if (g->broker_io.fd > 0) {
            loop_io_stop(g->loop, &g->broker_io);
            fd_close(g->broker_io.fd);
        }
        loop_signals_stop(&l->signals);
        loop_settle(g->loop);
    }
    loop_free(g->loop);
}

static bool is_sidecar(int argc, char **argv)
{
    struct str name = argc > 0 ? str_of(argv[0]) : STR("");

    if (argc == 2 && strcmp(argv[1], "--sidecar") == 0)
        return true;
    return argc == 1 && (str_eq(name, STR("egress")) || str_ends(name, STR("/egress")));
}

int main(int argc, char **argv)
{
    static struct life life; /* one per process */
    struct err e = {0};
    int r;

    if (is_sidecar(argc, argv))
        return sidecar_main();
    (void)prctl(PR_SET_DUMPABLE, 0); /* it holds keys and credentials */
    life.egress = (struct egress){
        .conf = {.rules_max = POLICY_RULES_MAX,
                 .dns_timeout_ms = DNS_TIMEOUT_MS,
                 .broker_fd = -EBADF,
                 .until_eof = -EBADF,
                 .record = -EBADF},
        .enforcer = &guarded_enforcer,
        .client = {-EBADF          },
        .sandboxes = -EBADF,
        .door = -EBADF,
    };
    map_init(&life.egress.guarded, EGRESS_GUARDED_MAX, NULL);
    map_init(&life.egress.by_addr, 2 * EGRESS_GUARDED_MAX, NULL);
    r = parse_options(argc, argv, &life.egress.conf);
    if (r != 0)
        return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
    log_init(&(struct log_conf){.level = LOG_INFO, .fd = STDERR_FILENO, .area = "egress"});
    fd_raise_limit();
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    r = serve(&life, &e);
    if (r < 0)
        (void)log_err(&e, "cannot serve");
    clean_up(&life);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
