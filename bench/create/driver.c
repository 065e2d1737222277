/* driver.c - asks a broker for sandboxes in the ways a benchmark wants, and prints JSON.
 *
 * usage: create_driver [OPTIONS] BROKER SOCKETS WHAT N -- ARGV...
 *   sequential N  one after another, each removed before the next: {"ms": [...]}
 *   burst N       all at once: {"total_ms": x, "ms": [...], "remove_ms": x}
 *   sustained N   for N seconds as many as possible, each removed: {"count": n, "seconds": x}
 *   hold N        all alive: {"create_ms": x, "pids": [...], "kernel_bytes": n}; after a line on
 *                 standard input {"answering": n}, after another {"remove_ms": x}
 * Options: --root DIR, --net bridge, --until output, --connections C, --ready R (per connection,
 * made before the clock starts), --pause MS (between sequential ones). SOCKETS is a directory. */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/mem.h"
#include "create/drive.h"

enum { CONNECTIONS_MAX = 64, COUNT_MAX = 16000 };

struct run {
    struct drive drive;
    uint64_t connections, ready, pause_ms, count;
    struct box *boxes;
    atomic_ullong next; /* number to be made or removed */
    uint64_t until_ns;  /* sustained: when to stop */
    pthread_barrier_t start;
    void (*work)(struct run *run, struct broker_client *c);
};

static NORETURN void die(const struct err *e, const char *what)
{
    fprintf(stderr, "create_driver: %s: %s\n", what, e->msg);
    exit(1);
}

static void connect_or_die(const struct run *run, struct broker_client *c)
{
    uint32_t ready = (uint32_t)run->ready;
    struct broker_config config = {.ready_none = run->drive.net == PLAN_NET_NONE ? ready : 0,
                                   .ready_bridge = run->drive.net == PLAN_NET_BRIDGE ? ready : 0};
    struct err e = {0};

    if (broker_connect(c, run->drive.broker, &config, &e) < 0 || broker_fill(c, &config, &e) < 0)
        die(&e, "connect");
}

/* --- several connections --- */

static void *thread_main(void *user)
{
    struct run *run = user;
    struct broker_client c;

    connect_or_die(run, &c);
    pthread_barrier_wait(&run->start);
    run->work(run, &c);
    broker_close(&c);
    return NULL;
}

/* Milliseconds that all connections together needed, from the moment all of them stood. */
static double run_threads(struct run *run, void (*work)(struct run *run, struct broker_client *c))
{
    pthread_t threads[CONNECTIONS_MAX];
    uint64_t began;

    run->work = work;
    atomic_store(&run->next, 0);
    (void)pthread_barrier_init(&run->start, NULL, (unsigned)run->connections + 1);
    for (uint64_t i = 0; i < run->connections; i++)
        if (pthread_create(&threads[i], NULL, thread_main, run) != 0)
            abort();
    pthread_barrier_wait(&run->start);
    began = time_mono_ns();
    for (uint64_t i = 0; i < run->connections; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&run->start);
    return drive_ms_since(began);
}

static void work_create(struct run *run, struct broker_client *c)
{
    struct err e = {0};
    uint64_t i;

    while ((i = atomic_fetch_add(&run->next, 1)) < run->count)
        if (drive_create(&run->drive, c, i, &run->boxes[i], &e) < 0)
            die(&e, "create");
}

static void work_remove(struct run *run, struct broker_client *c)
{
    struct err e = {0};
    uint64_t i;

    while ((i = atomic_fetch_add(&run->next, 1)) < run->count)
        if (drive_remove(&run->drive, c, &run->boxes[i], &e) < 0)
            die(&e, "remove");
}

static void work_sustained(struct run *run, struct broker_client *c)
{
    struct err e = {0};
    struct box box;

    while (time_mono_ns() < run->until_ns)
        if (drive_create(&run->drive, c, atomic_fetch_add(&run->next, 1), &box, &e) < 0 ||
            drive_remove(&run->drive, c, &box, &e) < 0)
            die(&e, "sustained");
}

/* --- what is asked of us --- */

static void print_ms(const struct run *run)
{
    for (uint64_t i = 0; i < run->count; i++)
        printf("%s%.4f", i ? ", " : "\"ms\": [", run->boxes[i].ms);
    printf("]");
}

static void run_sequential(struct run *run)
{
    struct timespec pause = {.tv_nsec = (long)run->pause_ms * 1000000};
    struct broker_client c;
    struct err e = {0};

    connect_or_die(run, &c);
    for (uint64_t i = 0; i < run->count; i++) {
        (void)nanosleep(&pause, NULL); /* the broker makes slots ahead meanwhile */
        if (drive_create(&run->drive, &c, i, &run->boxes[i], &e) < 0)
            die(&e, "create");
        if (drive_remove(&run->drive, &c, &run->boxes[i], &e) < 0)
            die(&e, "remove");
    }
    broker_close(&c);
    printf("{");
    print_ms(run);
    printf("}\n");
}

static void run_burst(struct run *run)
{
    printf("{\"total_ms\": %.3f, ", run_threads(run, work_create));
    print_ms(run);
    run->ready = 0;
    printf(", \"remove_ms\": %.3f}\n", run_threads(run, work_remove));
}

static void run_sustained(struct run *run)
{
    double ms;

    run->until_ns = time_mono_ns() + run->count * 1000000000;
    ms = run_threads(run, work_sustained);
    printf("{\"count\": %llu, \"seconds\": %.3f}\n", (unsigned long long)atomic_load(&run->next),
           ms / 1e3);
}

static void await_line(void)
{
    int c;

    (void)fflush(stdout);
    do
        c = getchar();
    while (c != '\n' && c != EOF);
}

static uint64_t kernel_bytes(const struct run *run)
{
    struct broker_client c;
    struct err e = {0};
    uint64_t sum = 0;

    connect_or_die(run, &c);
    for (uint64_t i = 0; i < run->count; i++) {
        struct broker_sandbox sandbox;
        struct cgroup_stat stat;

        if (broker_stat(&c, run->boxes[i].handle.sandbox.id, &sandbox, &stat, &e) < 0)
            die(&e, "stat");
        sum += stat.kernel_bytes;
    }
    broker_close(&c);
    return sum;
}

static void run_hold(struct run *run)
{
    double create_ms = run_threads(run, work_create);
    uint64_t answering = 0;

    run->ready = 0;
    printf("{\"create_ms\": %.3f, \"pids\": ", create_ms);
    for (uint64_t i = 0; i < run->count; i++)
        printf("%s%d", i ? ", " : "[", run->boxes[i].handle.sandbox.pid);
    printf("], \"kernel_bytes\": %llu}\n", (unsigned long long)kernel_bytes(run));
    await_line();
    for (uint64_t i = 0; i < run->count; i++)
        answering += drive_ping(&run->drive, i, NULL) == 0;
    printf("{\"answering\": %llu}\n", (unsigned long long)answering);
    await_line();
    printf("{\"remove_ms\": %.3f}\n", run_threads(run, work_remove));
}

static const struct {
    const char *name;
    void (*run)(struct run *run);
} modes[] = {
    {"sequential", run_sequential},
    {"burst",      run_burst     },
    {"sustained",  run_sustained },
    {"hold",       run_hold      },
};

/* --- options --- */

static NORETURN void usage(void)
{
    fprintf(stderr, "usage: create_driver [OPTIONS] BROKER SOCKETS "
                    "sequential|burst|sustained|hold N -- ARGV...\n");
    exit(2);
}

static uint64_t number(const char *text, uint64_t max)
{
    uint64_t n;

    if (str_to_u64_range(str_of(text), 0, max, &n) < 0)
        usage();
    return n;
}

static void parse_options(struct run *run, int argc, char **argv)
{
    static const struct option options[] = {
        {"root",        required_argument, NULL, 'r'},
        {"net",         required_argument, NULL, 'n'},
        {"until",       required_argument, NULL, 'u'},
        {"connections", required_argument, NULL, 'c'},
        {"ready",       required_argument, NULL, 'R'},
        {"pause",       required_argument, NULL, 'p'},
        {NULL,          0,                 NULL, 0  },
    };
    int c;

    while ((c = getopt_long(argc, argv, "+", options, NULL)) >= 0) {
        if (c == 'r')
            run->drive.root = open(optarg, O_PATH | O_DIRECTORY | O_CLOEXEC);
        else if (c == 'n')
            run->drive.net = strcmp(optarg, "bridge") == 0 ? PLAN_NET_BRIDGE : PLAN_NET_NONE;
        else if (c == 'u')
            run->drive.until = strcmp(optarg, "output") == 0 ? DRIVE_OUTPUT : DRIVE_PING;
        else if (c == 'c')
            run->connections = number(optarg, CONNECTIONS_MAX);
        else if (c == 'R')
            run->ready = number(optarg, COUNT_MAX);
        else if (c == 'p')
            run->pause_ms = number(optarg, 999);
        else
            usage();
    }
}

int main(int argc, char **argv)
{
    struct run run = {.drive = {.root = -EBADF}, .connections = 1};

    parse_options(&run, argc, argv);
    argv += optind;
    if (argc - optind < 6 || strcmp(argv[4], "--") != 0)
        usage();
    run.drive.broker = argv[0];
    run.drive.sockets = argv[1];
    run.drive.argv = (const char *const *)(argv + 5);
    run.count = number(argv[3], COUNT_MAX);
    run.boxes = mem_new_array(struct box, run.count);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (strcmp(argv[2], modes[i].name) == 0) {
            modes[i].run(&run);
            free(run.boxes);
            return 0;
        }
    }
    usage();
}
