/* main.c - opensandbox-task-executor: runs tasks in a pod, one at a time, for the operator. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/tree.h"
#include "taskexec/api.h"
#include "taskexec/keeper.h"
#include "version.h"

enum { EXIT_USAGE = 2, TICK_MS = 500, GRACE_MS = 30 * 1000, PATH_TEXT_MAX = 4096 };

struct options {
    const char *data_dir, *listen, *main_container, *log_dir, *sidecar, *ignored;
};

#define ROW(name, env, about, member)                                                              \
    {                                                                                              \
        name, env, about, offsetof(struct options, member)                                         \
    }
static const struct option_row {
    const char *name, *env, *about;
    size_t at;
} rows[] = {
    ROW("data-dir", "DATA_DIR", "(/var/lib/sandbox/tasks)", data_dir),
    ROW("listen-addr", "LISTEN_ADDR", "(0.0.0.0:5758)", listen),
    ROW("enable-sidecar-mode", "ENABLE_SIDECAR_MODE",
        "true: run tasks in the main container's namespaces", sidecar),
    ROW("main-container-name", "MAIN_CONTAINER_NAME", "its SANDBOX_MAIN_CONTAINER (main)",
        main_container),
    ROW("log-dir", NULL, "directory of task-executor.log; \"\" = none (logs)", log_dir),
    ROW("log-max-size", NULL, NULL, ignored),
    ROW("log-max-backups", NULL, NULL, ignored),
    ROW("log-max-age", NULL, NULL, ignored),
    ROW("cri-socket", "CRI_SOCKET", NULL, ignored),
};

static int usage(FILE *to)
{
    fprintf(to, "usage: opensandbox-task-executor [FLAG...]\n\nRuns tasks, which it is given over "
                "HTTP, and says how they ended.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].about)
            fprintf(to, "  --%-20s %s %s\n", rows[i].name, rows[i].env ? rows[i].env : "",
                    rows[i].about);
    return to == stdout ? EXIT_SUCCESS : EXIT_USAGE;
}

static int options_read(struct options *o, int argc, char **argv)
{
    *o = (struct options){"/var/lib/sandbox/tasks", "0.0.0.0:5758", "main", "logs", "false", ""};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *value = rows[i].env ? getenv(rows[i].env) : NULL;

        if (value && value[0])
            *(const char **)((char *)o + rows[i].at) = value;
    }
    for (int i = 1; i < argc; i++) {
        struct str word = str_of(argv[i]), name;
        size_t row = 0;

        word = str_skip(word, str_starts(word, STR("--")) ? 2 : str_starts(word, STR("-")) ? 1 : 0);
        name = str_make(word.p, str_find(word, '='));
        while (row < ARRAY_LEN(rows) && !str_eq(name, str_of(rows[row].name)))
            row++;
        if (row == ARRAY_LEN(rows) || argv[i][0] != '-') {
            fprintf(stderr, "opensandbox-task-executor: '%s' is no flag of this program\n",
                    argv[i]);
            return -EINVAL;
        }
        if (name.n < word.n)
            *(const char **)((char *)o + rows[row].at) = word.p + name.n + 1;
        else if (strcmp(rows[row].name, "enable-sidecar-mode") == 0)
            o->sidecar = "true";
        else if (i + 1 < argc)
            *(const char **)((char *)o + rows[row].at) = argv[++i];
        else {
            fprintf(stderr, "opensandbox-task-executor: --%s needs a value\n", rows[row].name);
            return -EINVAL;
        }
    }
    return 0;
}

struct life {
    struct loop *loop;
    struct task_store store;
    struct http_server *server;
    struct loop_signals signals;
    struct loop_timer tick;
};

static void on_tick(struct loop_timer *t)
{
    struct life *l = container_of(t, struct life, tick);

    task_store_tick(&l->store);
    loop_timer_after(l->loop, t, TICK_MS, on_tick);
}

static void on_drained(void *user)
{
    loop_stop(user);
}

static void on_signal(struct loop_signals *s, int signo)
{
    struct life *l = container_of(s, struct life, signals);

    if (signo == SIGCHLD)
        task_store_tick(&l->store);
    else
        http_server_drain(l->server, GRACE_MS, on_drained, l->loop);
}

static void log_to_file(const char *dir)
{
    char path[PATH_TEXT_MAX];
    int fd;

    if (!dir[0] || tree_make(dir, 0755) < 0)
        return;
    (void)snprintf(path, sizeof(path), "%s/task-executor.log", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0)
        log_init(&(struct log_conf){.level = LOG_INFO, .fd = fd, .area = "task-executor"});
}

static int serve(struct life *l, const struct options *o, struct err *e)
{
    bool sidecar = strcmp(o->sidecar, "true") == 0;
    sigset_t set;
    int r;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    r = loop_new(&l->loop, e);
    if (r >= 0)
        r = loop_signals_start(l->loop, &l->signals, &set, on_signal, e);
    if (r >= 0)
        r = task_store_open(&l->store, o->data_dir, sidecar ? o->main_container : NULL, e);
    if (r >= 0)
        r = api_start(l->loop, &l->store, o->listen, &l->server, e);
    if (r < 0)
        return r;
    log_event(LOG_INFO, "opensandbox-task-executor runs", LOG_STR("version", OPENSANDBOX_VERSION),
              LOG_STR("listen", o->listen), LOG_U64("tasks", l->store.count));
    loop_timer_after(l->loop, &l->tick, TICK_MS, on_tick);
    return loop_run(l->loop, e);
}

static void life_end(struct life *l)
{
    http_server_free(l->server);
    task_store_close(&l->store);
    loop_timer_stop(l->loop, &l->tick);
    loop_signals_stop(&l->signals);
    loop_free(l->loop);
}

int main(int argc, char **argv)
{
    struct life l = {0};
    struct options o;
    struct err e = {0};

    if (keeper_is_wanted(argc, argv))
        return keeper_main(argc, argv);
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage(stdout);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("opensandbox-task-executor %s\n", OPENSANDBOX_VERSION);
        return EXIT_SUCCESS;
    }
    if (options_read(&o, argc, argv) < 0) {
        fprintf(stderr, "opensandbox-task-executor --help lists the flags\n");
        return EXIT_USAGE;
    }
    log_init(&(struct log_conf){.level = LOG_INFO, .fd = STDERR_FILENO, .area = "task-executor"});
    log_to_file(o.log_dir);
    if (serve(&l, &o, &e) < 0) {
        (void)log_err(&e, "opensandbox-task-executor");
        fprintf(stderr, "opensandbox-task-executor: %s\n", e.msg);
        return EXIT_FAILURE;
    }
    life_end(&l);
    return EXIT_SUCCESS;
}
