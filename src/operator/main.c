/* main.c - opensandbox-operator: the controllers of BatchSandbox, Pool and SandboxSnapshot. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/log_rotate.h"
#include "base/mem.h"
#include "kube/leader.h"
#include "operator/serve.h"
#include "version.h"

enum { EXIT_USAGE = 2, ROTATE_CHECK_MS = 10 * 1000, HOST_MAX = 64, IDENTITY_MAX = 128 };

#define LEASE_NAME "2fa1c467.opensandbox.io"

struct life {
    struct operator op;
    struct options options;
    struct kube_config *config;
    struct kube_leader *leader;
    struct serve *serve;
    struct loop_signals signals;
    struct loop_timer rotate;
    int exit_code;
};

/* --- the log file --- */

static int log_open(const struct options *o, struct err *e)
{
    int fd = open(o->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);

    if (fd < 0)
        return err_sys(e, errno, "--log-file-path %s", o->log_file);
    log_init(&(struct log_conf){.level = (enum log_level)o->log_level,
                                .format = o->json_log ? LOG_JSON : LOG_TEXT,
                                .fd = fd,
                                .area = "operator"});
    return fd;
}

static void rotate(struct loop_timer *t)
{
    struct life *l = container_of(t, struct life, rotate);
    const struct options *o = &l->options;
    struct stat st;
    char *slash, *dir = mem_strdup(o->log_file);
    int fd;

    slash = strrchr(dir, '/');
    if (stat(o->log_file, &st) == 0 && slash &&
        (uint64_t)st.st_size > o->log_max_mib * 1024 * 1024) {
        *slash = '\0';
        fd = open(dir[0] ? dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && log_rotate(fd, slash + 1, (unsigned)o->log_backups) == 0)
            (void)log_open(o, NULL);
        fd_close(fd);
    }
    free(dir);
    loop_timer_after(l->op.loop, t, ROTATE_CHECK_MS, rotate);
}

/* --- leading --- */

static void on_leading(void *user)
{
    log_event(LOG_INFO, "this process leads");
    operator_lead(&((struct life *)user)->op);
}

static void on_lost(void *user, const char *why)
{
    struct life *l = user;

    log_event(LOG_ERROR, "the lease is lost, ending", LOG_STR("why", why));
    queues_close(&l->op.queues);
    l->exit_code = EXIT_FAILURE;
    loop_stop(l->op.loop);
}

static void on_trouble(void *user UNUSED, const char *why)
{
    log_event(LOG_WARN, "the lease cannot be read or written", LOG_STR("why", why));
}

static void on_released(void *user)
{
    loop_stop(((struct life *)user)->op.loop);
}

static void on_signal(struct loop_signals *s, int signo UNUSED)
{
    struct life *l = container_of(s, struct life, signals);

    queues_close(&l->op.queues);
    if (l->leader && kube_leader_is(l->leader))
        kube_leader_release(l->leader, on_released);
    else
        loop_stop(l->op.loop);
}

static int lead(struct life *l, struct err *e)
{
    char host[HOST_MAX] = "operator", id[ID_UUID_MAX], identity[IDENTITY_MAX];

    if (!l->options.leader_elect) {
        operator_lead(&l->op);
        return 0;
    }
    (void)gethostname(host, sizeof(host) - 1);
    id_uuid(id);
    (void)snprintf(identity, sizeof(identity), "%s_%s", host, id);
    return kube_leader_new(&(struct kube_leader_conf){.client = l->op.client,
                                                      .ns = l->options.pod_namespace,
                                                      .name = LEASE_NAME,
                                                      .identity = identity,
                                                      .on_started = on_leading,
                                                      .on_lost = on_lost,
                                                      .on_trouble = on_trouble,
                                                      .user = l},
                           &l->leader, e);
}

/* --- start --- */

static int start(struct life *l, struct err *e)
{
    const struct options *o = &l->options;
    struct kube_client_conf conf = {
        .loop = l->op.loop,
        .config = l->config,
        .user_agent = "sandbox-k8s-controller/1.0",
        .writes = {o->qps, o->burst}
    };
    sigset_t set;
    int r;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    r = kube_config_load(o->kubeconfig, NULL, &l->config, e);
    if (r < 0)
        return r;
    conf.config = l->config;
    if (!l->options.pod_namespace || !l->options.pod_namespace[0])
        l->options.pod_namespace = kube_config_namespace(l->config);
    r = kube_client_new(&conf, &l->op.client, e);
    if (r >= 0)
        r = loop_signals_start(l->op.loop, &l->signals, &set, on_signal, e);
    if (r >= 0)
        r = operator_start(&l->op, e);
    if (r >= 0)
        r = serve_start(&l->op, &l->serve, e);
    if (r >= 0)
        r = lead(l, e);
    if (r >= 0 && o->file_log)
        loop_timer_after(l->op.loop, &l->rotate, ROTATE_CHECK_MS, rotate);
    if (r >= 0)
        log_event(LOG_INFO, "opensandbox-operator runs", LOG_STR("version", OPENSANDBOX_VERSION),
                  LOG_STR("server", kube_config_server(l->config)));
    return r;
}

int main(int argc, char **argv)
{
    static struct life life; /* too large for the stack; workers may use it until the very end */
    struct life *l = &life;
    struct err e = {0};
    int r;

    options_default(&l->options);
    if (options_parse(&l->options, argc, argv, &e) < 0) {
        fprintf(stderr, "opensandbox-operator: %s\nopensandbox-operator --help lists the flags\n",
                e.msg);
        return EXIT_USAGE;
    }
    if (l->options.help || l->options.version) {
        if (l->options.help)
            options_help();
        else
            printf("opensandbox-operator %s\n", OPENSANDBOX_VERSION);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    log_init(&(struct log_conf){.level = (enum log_level)l->options.log_level,
                                .format = l->options.json_log ? LOG_JSON : LOG_TEXT,
                                .fd = STDERR_FILENO,
                                .area = "operator"});
    fd_raise_limit();
    l->op.options = &l->options;
    r = l->options.file_log ? log_open(&l->options, &e) : 0;
    if (r >= 0)
        r = loop_new(&l->op.loop, &e);
    if (r >= 0)
        r = start(l, &e);
    if (r >= 0)
        r = loop_run(l->op.loop, &e);
    if (r < 0)
        (void)log_err(&e, "opensandbox-operator");
    /* Writes under way end with the process: the next leader reads what became of them. */
    return r < 0 ? EXIT_FAILURE : l->exit_code;
}
