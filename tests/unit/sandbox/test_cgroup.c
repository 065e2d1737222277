/* Real groups and real processes. Each test runs on the host as it is and, where the host has them,
 * as if it had v1 only and as if it had no cgroup.kill. */
#include "sandbox/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/proc.h"
#include "base/time.h"
#include "sandbox/cgroup_internal.h"
#include "test.h"

enum { SLOT = 7, OWNER = 0x6ff00000, IN_A_ROW = 200, TIMEOUT_MS = 50 * 1000, MIB = 1 << 20 };

static const struct variant {
    const char *name;
    unsigned versions, lacks;
} variants[] = {
    {"as it is",            ~0U,    0          },
    {"v1 only",             1 << 1, 0          },
    {"without cgroup.kill", ~0U,    CGROUP_KILL},
    {"v2 only",             1 << 2, 0          },
};

/* What must be gone after a test, also after a failed one; read by the exit handler. */
static struct cgroup_host *open_host;

static void remove_slot(void *user, uint32_t slot)
{
    struct cgroup c = cgroup_at(open_host, slot);

    cgroup_kill(&c, -EBADF, TIMEOUT_MS, NULL);
    cgroup_remove(open_host, slot, NULL);
}

static void clean_up(void)
{
    if (!open_host)
        return;
    cgroup_each_slot(open_host, remove_slot, NULL, NULL);
    cgroup_host_remove(open_host, NULL);
    cgroup_host_close(open_host);
    open_host = NULL;
}

static void ok(int r, const struct err *e)
{
    if (r < 0)
        test_fail(__FILE__, __LINE__, "%s (%d)", e->msg, r);
}

/* Runs a check on each variant of the host that can be had. */
static void on_each_host(void (*check)(struct cgroup_host *h))
{
    size_t done = 0;
    struct err e = {0};

    if (geteuid() != 0)
        test_skip("control groups are made by root");
    atexit(clean_up);
    for (size_t i = 0; i < ARRAY_LEN(variants); i++) {
        char name[32] = "osbtest-";
        int r;

        id_short(name + strlen(name), 8);
        r = cgroup_host_open_as(name, variants[i].versions, variants[i].lacks, &open_host, &e);
        if (r < 0 && i > 0)
            continue; /* the host has no such side */
        if (r == -EROFS || r == -EACCES)
            test_skip("control groups are read-only here");
        if (r == -EBUSY)
            test_skip("our own v2 group cannot hand controllers down: others run in it");
        ok(r, &e);
        printf("# %s (%s)\n", variants[i].name, cgroup_host_describe(open_host));
        check(open_host);
        clean_up();
        done++;
    }
    CHECK(done > 0);
}

static struct cgroup make_slot(const struct cgroup_host *h, uint32_t slot)
{
    struct cgroup c;
    struct err e = {0};

    ok(cgroup_make(h, slot, OWNER, &c, &e), &e);
    return c;
}

static bool enter(const int *procs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (write(procs[i], "0", 1) != 1)
            return false;
    return true;
}

/* Starts a process in the workload's group; it runs `body` and exits with 0 when that returns. */
static pid_t start_in(const struct cgroup *c, void (*body)(void *), void *user)
{
    int arrived[2];
    char byte;
    pid_t pid;

    CHECK_EQ(pipe2(arrived, O_CLOEXEC), 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (!enter(c->init_procs, c->init_count) || !enter(c->work_procs, c->work_count) ||
            write(arrived[1], "", 1) != 1)
            _exit(99);
        body(user);
        _exit(0);
    }
    close(arrived[1]);
    CHECK_EQ(read(arrived[0], &byte, 1), 1); /* one that came later would outlive a kill */
    close(arrived[0]);
    return pid;
}

static int wait_status(pid_t pid)
{
    int status = -1;

    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

static void sleep_forever(void *user)
{
    for (;;)
        pause();
}

/* Adds to the counter as fast as it can. */
static void count_up(void *counter)
{
    for (;;)
        (*(volatile uint64_t *)counter)++;
}

static uint64_t *shared_counter(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(p != MAP_FAILED);
    return p;
}

static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static void wait_until_above(const uint64_t *counter, uint64_t value)
{
    uint64_t deadline = deadline_in_ms(TIMEOUT_MS);

    while (*(const volatile uint64_t *)counter <= value && !deadline_passed(deadline))
        sleep_ms(1);
    CHECK(*(const volatile uint64_t *)counter > value);
}

static void remove_and_check(const struct cgroup_host *h, struct cgroup *c)
{
    struct err e = {0};
    uint32_t slot = c->slot;

    cgroup_close(c);
    ok(cgroup_kill(c, -EBADF, TIMEOUT_MS, &e), &e);
    ok(cgroup_remove(h, slot, &e), &e);
    CHECK_EQ(cgroup_open(h, slot, c, NULL), -ENOENT);
    CHECK_EQ(cgroup_remove(h, slot, &e), 0); /* absent is fine */
}

static int pidfd_of(pid_t pid)
{
    struct proc p = PROC_NONE;

    CHECK_EQ(proc_open(pid, &p), 0);
    return p.pidfd;
}

static void check_moves(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct cgroup_stat s;
    struct err e = {0};
    pid_t pid = start_in(&c, sleep_forever, NULL);

    ok(cgroup_stat(&c, &s, &e), &e);
    CHECK_EQ(s.pids, 1);
    ok(cgroup_kill(&c, -EBADF, TIMEOUT_MS, &e), &e);
    CHECK_EQ(WTERMSIG(wait_status(pid)), SIGKILL);
    CHECK_EQ(cgroup_kill_begin(&c, &e), 0); /* nobody is there */
    pid = start_in(&c, sleep_forever, NULL);
    if (h->knobs[KNOB_KILL].y) {
        CHECK_EQ(cgroup_kill_begin(&c, &e), 1);
        CHECK_EQ(WTERMSIG(wait_status(pid)), SIGKILL);
    } else {
        CHECK_EQ(cgroup_kill_begin(&c, &e), 0);
        CHECK_EQ(kill(pid, SIGKILL), 0); /* it was left alone */
        (void)wait_status(pid);
    }
    remove_and_check(h, &c);
}

TEST(cgroup, holds_and_kills_a_process_that_moved_in)
{
    on_each_host(check_moves);
}

/* An owner that has ended, or that never ends, decides nothing: the groups do. */
static void check_owner(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct err e = {0};
    pid_t ended = start_in(&c, sleep_forever, NULL), rest = start_in(&c, sleep_forever, NULL);
    int of_ended = pidfd_of(ended), of_us = pidfd_of(getpid());
    size_t left = 1;

    kill(ended, SIGKILL);
    CHECK_EQ(WTERMSIG(wait_status(ended)), SIGKILL);
    ok(cgroup_kill(&c, of_ended, TIMEOUT_MS, &e), &e);
    CHECK_EQ(WTERMSIG(wait_status(rest)), SIGKILL);
    rest = start_in(&c, sleep_forever, NULL);
    ok(cgroup_kill(&c, of_us, TIMEOUT_MS, &e), &e);
    CHECK_EQ(WTERMSIG(wait_status(rest)), SIGKILL);
    ok(cgroup_tree_signal(h, "7", 0, &left, &e), &e);
    CHECK_EQ(left, 0);
    close(of_ended);
    close(of_us);
    remove_and_check(h, &c);
}

TEST(cgroup, kills_the_rest_whatever_its_owner_does)
{
    on_each_host(check_owner);
}

static void check_refuses_twice(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT), again;
    struct err e = {0};

    CHECK_EQ(cgroup_make(h, SLOT, OWNER, &again, &e), -EEXIST);
    ok(cgroup_open(h, SLOT, &again, &e), &e); /* and what was there is intact */
    cgroup_close(&again);
    remove_and_check(h, &c);
}

TEST(cgroup, refuses_to_make_a_slot_twice)
{
    on_each_host(check_refuses_twice);
}

enum { PIDS = 5 };

/* Forks until that fails; exits with how many processes there are then, itself included. */
static void fork_until_refused(void *user)
{
    int count = 1;

    for (; count < 100; count++) {
        pid_t pid = fork();

        if (pid == 0)
            sleep_forever(NULL);
        if (pid < 0)
            _exit(errno == EAGAIN ? count : 98);
    }
}

static void check_pids(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct plan_limits limits = {.pids = PIDS};
    struct err e = {0};
    pid_t pid;

    ok(cgroup_limit(&c, &limits, &e), &e);
    pid = start_in(&c, fork_until_refused, NULL);
    CHECK_EQ(WEXITSTATUS(wait_status(pid)), PIDS);
    remove_and_check(h, &c);
}

TEST(cgroup, refuses_a_fork_beyond_the_limit)
{
    on_each_host(check_pids);
}

static void take_memory(void *user)
{
    size_t n = 256 * MIB;
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        _exit(97);
    memset(p, 1, n);
}

static void check_memory(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct plan_limits limits = {.memory_bytes = 32 * MIB};
    struct cgroup_stat s;
    struct err e = {0};
    int status;

    ok(cgroup_limit(&c, &limits, &e), &e);
    status = wait_status(start_in(&c, take_memory, NULL));
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGKILL);
    ok(cgroup_stat(&c, &s, &e), &e);
    CHECK(s.oom_kills == 1 || (s.oom_kills == 2 && cgroup_host_abilities(h) & CGROUP_OOM_GROUP));
    CHECK(s.memory_peak_bytes >= 16 * MIB && s.memory_peak_bytes <= 48 * MIB);

    limits.memory_bytes = 512 * MIB; /* a limit can rise again ... */
    ok(cgroup_limit(&c, &limits, &e), &e);
    CHECK_EQ(wait_status(start_in(&c, take_memory, NULL)), 0);
    limits.memory_bytes = 0; /* ... and go */
    ok(cgroup_limit(&c, &limits, &e), &e);
    remove_and_check(h, &c);
}

TEST(cgroup, ends_a_process_that_takes_more_memory_than_allowed)
{
    on_each_host(check_memory);
}

/* A bystander goes with the process that took too much, where the kernel can do that. */
static void check_oom_group(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct plan_limits limits = {.memory_bytes = 32 * MIB};
    struct err e = {0};
    bool as_one = cgroup_host_abilities(h) & CGROUP_OOM_GROUP;
    uint64_t *counter = shared_counter();
    int status = 0;
    pid_t bystander;

    ok(cgroup_limit(&c, &limits, &e), &e);
    bystander = start_in(&c, count_up, counter);
    wait_until_above(counter, 0);
    CHECK(WIFSIGNALED(wait_status(start_in(&c, take_memory, NULL))));
    if (as_one)
        CHECK_EQ(WTERMSIG(wait_status(bystander)), SIGKILL);
    else
        CHECK_EQ(waitpid(bystander, &status, WNOHANG), 0);
    remove_and_check(h, &c);
}

TEST(cgroup, ends_the_whole_workload_when_memory_is_out_if_it_can)
{
    on_each_host(check_oom_group);
}

/* A number in the group whose limit it is: the first of the file, or the one behind `key`. */
static uint64_t cpu_number(const struct cgroup *c, const char *file, const char *key)
{
    char group[CGROUP_PATH_MAX], text[1024];
    const char *at = text;
    struct err e = {0};

    (void)snprintf(group, sizeof(group), "%u/work", c->slot);
    ok(cgroup_file_read(c->host->knobs[KNOB_CPU_MAX].y, group, file, text, sizeof(text), &e), &e);
    if (key) {
        at = strstr(text, key);
        CHECK(at);
        at += strlen(key);
    }
    return strtoull(at, NULL, 10);
}

/* The kernel counts how often it throttled the group, and throttles for no other reason. The share
 * is a small one: a process that waits for its turn most of the time gets to it, too. */
static void check_cpu(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct plan_limits limits = {.cpu_millicores = 20};
    struct err e = {0};
    uint64_t *counter = shared_counter(), deadline = deadline_in_ms(TIMEOUT_MS);

    if (!(cgroup_host_abilities(h) & CGROUP_CPU)) {
        CHECK_EQ(cgroup_limit(&c, &limits, &e), -ENOTSUP);
        remove_and_check(h, &c);
        return;
    }
    ok(cgroup_limit(&c, &limits, &e), &e);
    CHECK_EQ(cpu_number(&c, h->knobs[KNOB_CPU_MAX].file->name, NULL), 2000); /* us of 100 ms */
    start_in(&c, count_up, counter);
    while (cpu_number(&c, "cpu.stat", "nr_throttled ") < 3) {
        CHECK(!deadline_passed(deadline));
        sleep_ms(10);
    }
    remove_and_check(h, &c);
}

TEST(cgroup, holds_a_busy_process_to_its_share_of_a_core)
{
    on_each_host(check_cpu);
}

static void check_io(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct plan_limits limits = {.io_weight = 200};
    struct err e = {0};

    if (cgroup_host_abilities(h) & CGROUP_IO) {
        ok(cgroup_limit(&c, &limits, &e), &e);
    } else {
        CHECK_EQ(cgroup_limit(&c, &limits, &e), -ENOTSUP);
        CHECK(strstr(e.msg, "io weight"));
    }
    remove_and_check(h, &c);
}

TEST(cgroup, sets_an_io_weight_or_says_that_it_cannot)
{
    on_each_host(check_io);
}

static void check_freeze(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    uint64_t *counter = shared_counter();
    struct cgroup_stat s;
    struct err e = {0};
    uint64_t at_freeze;

    start_in(&c, count_up, counter);
    wait_until_above(counter, 0);
    ok(cgroup_freeze(&c, true, TIMEOUT_MS, &e), &e);
    at_freeze = *(volatile uint64_t *)counter;
    ok(cgroup_stat(&c, &s, &e), &e);
    CHECK(s.frozen);
    sleep_ms(50);
    CHECK_EQ(*(volatile uint64_t *)counter, at_freeze);

    ok(cgroup_freeze(&c, false, TIMEOUT_MS, &e), &e);
    ok(cgroup_stat(&c, &s, &e), &e);
    CHECK(!s.frozen);
    wait_until_above(counter, at_freeze);
    remove_and_check(h, &c);
}

TEST(cgroup, freezes_and_thaws)
{
    on_each_host(check_freeze);
}

static void check_kill_frozen(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    uint64_t *counter = shared_counter();
    struct err e = {0};
    pid_t pid = start_in(&c, count_up, counter);

    wait_until_above(counter, 0);
    ok(cgroup_freeze(&c, true, TIMEOUT_MS, &e), &e);
    ok(cgroup_kill(&c, -EBADF, TIMEOUT_MS, &e), &e);
    CHECK_EQ(WTERMSIG(wait_status(pid)), SIGKILL);
    remove_and_check(h, &c);
}

TEST(cgroup, kills_what_is_frozen)
{
    on_each_host(check_kill_frozen);
}

/* Every process forks forever; the counter tells that it has begun. */
static void fork_bomb(void *counter)
{
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        if (fork() == 0)
            (*(volatile uint64_t *)counter)++;
    }
}

static void check_fork_bomb(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct plan_limits limits = {.pids = 200};
    uint64_t *counter = shared_counter(), forks;
    struct err e = {0};
    size_t left = 1;

    ok(cgroup_limit(&c, &limits, &e), &e);
    start_in(&c, fork_bomb, counter);
    wait_until_above(counter, 0);
    sleep_ms(100);
    ok(cgroup_kill(&c, -EBADF, TIMEOUT_MS, &e), &e);
    forks = *(volatile uint64_t *)counter;
    sleep_ms(50);
    CHECK_EQ(*(volatile uint64_t *)counter, forks); /* no process is left to count */
    ok(cgroup_tree_signal(h, "7", 0, &left, &e), &e);
    CHECK_EQ(left, 0);
    remove_and_check(h, &c);
}

TEST(cgroup, kills_a_fork_bomb)
{
    on_each_host(check_fork_bomb);
}

/* What a fork bomb has by default: a core, and as many processes as 2 GiB of memory allow (1,024);
 * on a small machine, such as the emulated one, 64 MiB (128). */
static void check_default_fork_bomb(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    bool is_small = sysconf(_SC_PHYS_PAGES) < (4L << 30) / sysconf(_SC_PAGESIZE);
    struct plan_limits limits = {.memory_bytes = is_small ? 64 * MIB : UINT64_C(2) << 30,
                                 .cpu_millicores = 1000};
    uint64_t *counter = shared_counter();
    struct err e = {0};
    size_t left = 1;

    if (!(cgroup_host_abilities(h) & CGROUP_CPU))
        limits.cpu_millicores = 0;
    ok(cgroup_limit(&c, &limits, &e), &e);
    start_in(&c, fork_bomb, counter);
    wait_until_above(counter, 100);
    ok(cgroup_kill(&c, -EBADF, TIMEOUT_MS, &e), &e);
    ok(cgroup_tree_signal(h, "7", 0, &left, &e), &e);
    CHECK_EQ(left, 0);
    remove_and_check(h, &c);
}

TEST(cgroup, kills_a_fork_bomb_with_default_limits)
{
    on_each_host(check_default_fork_bomb);
}

/* The text of a knob's file in a group. */
static void knob_text(const struct cgroup_host *h, enum cgroup_knob k, const char *group,
                      char text[64])
{
    const struct cgroup_bound *b = &h->knobs[k];
    struct err e = {0};

    CHECK(b->y);
    ok(cgroup_file_read(b->y, group, b->file->name, text, 64, &e), &e);
}

static void check_kill_lifts_quota(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct plan_limits limits = {.cpu_millicores = 20};
    struct err e = {0};
    char text[64];

    if (cgroup_host_abilities(h) & CGROUP_CPU) {
        const char *none = h->knobs[KNOB_CPU_MAX].file->none;

        ok(cgroup_limit(&c, &limits, &e), &e);
        start_in(&c, sleep_forever, NULL);
        ok(cgroup_kill(&c, -EBADF, TIMEOUT_MS, &e), &e);
        knob_text(h, KNOB_CPU_MAX, "7/work", text);
        CHECK_EQ(strncmp(text, none, strlen(none)), 0);
    }
    remove_and_check(h, &c);
}

/* Thousands of processes that share a core take long to exit. */
TEST(cgroup, lifts_the_cpu_quota_of_what_it_kills)
{
    on_each_host(check_kill_lifts_quota);
}

static int watch(int inotify, const struct cgroup_hierarchy *y, const char *file, uint32_t events)
{
    AUTO_BUF(path, 4096);
    int wd;

    CHECK_EQ(buf_addf(&path, "%s/%s", y->path, file), 0);
    wd = inotify_add_watch(inotify, path.p, events);
    CHECK(wd >= 0);
    return wd;
}

/* The kernel queues every access to the watched files in order. */
static void check_kill_order(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    const struct cgroup_bound *freeze = &h->knobs[KNOB_FREEZE], *cpu = &h->knobs[KNOB_CPU_MAX];
    auto_fd inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    bool at_once = cgroup_host_abilities(h) & CGROUP_KILL;
    char file[64], events[16384];
    int lifted = -1, frozen, listed = 0;
    struct err e = {0};
    size_t n = 0;
    int order[4] = {0};
    ssize_t size;

    start_in(&c, sleep_forever, NULL);
    if (cpu->y) {
        (void)snprintf(file, sizeof(file), "7/work/%s", cpu->file->name);
        lifted = watch(inotify, cpu->y, file, IN_MODIFY);
    }
    (void)snprintf(file, sizeof(file), "7/%s", freeze->file->name);
    frozen = watch(inotify, freeze->y, file, IN_MODIFY);
    /* Reads of an empty list are not reported: a process that the first list got killed may be gone
     * from the others by then. The numbers of these watches are the highest. */
    for (size_t i = h->count; i-- > 0;) {
        (void)watch(inotify, &h->hierarchies[i], "7/init/cgroup.procs", IN_ACCESS);
        listed = watch(inotify, &h->hierarchies[i], "7/work/cgroup.procs", IN_ACCESS);
    }
    listed -= 2 * (int)h->count - 1;
    ok(cgroup_kill(&c, -EBADF, TIMEOUT_MS, &e), &e);

    size = read(inotify, events, sizeof(events));
    CHECK(size > 0 || at_once);
    for (ssize_t at = 0; at < size && n < ARRAY_LEN(order);) {
        const struct inotify_event *event = (const void *)(events + at);
        int what = event->wd < listed ? event->wd : listed;

        if (n == 0 || order[n - 1] != what)
            order[n++] = what;
        at += (ssize_t)(sizeof(*event) + event->len);
    }
    n = 0;
    if (cpu->y)
        CHECK_EQ(order[n++], lifted);
    if (!at_once) { /* cgroup.kill needs neither a freezer nor a list */
        CHECK_EQ(order[n++], frozen);
        CHECK_EQ(order[n++], listed);
        CHECK_EQ(order[n], frozen); /* thawed, to let them die */
    }
    remove_and_check(h, &c);
}

TEST(cgroup, lifts_the_quota_then_freezes_then_kills_then_thaws)
{
    on_each_host(check_kill_order);
}

static void check_default_pids(struct cgroup_host *h)
{
    static const struct {
        uint64_t memory_mib;
        uint32_t asked, expected;
    } rows[] = {
        {16,    0,  128 },
        {256,   0,  512 },
        {2048,  0,  1024},
        {65536, 0,  1024},
        {0,     0,  1024},
        {256,   77, 77  },
    };
    struct cgroup c = make_slot(h, SLOT);
    struct err e = {0};
    char text[64];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct plan_limits limits = {.memory_bytes = rows[i].memory_mib * MIB,
                                     .pids = rows[i].asked};

        ok(cgroup_limit(&c, &limits, &e), &e);
        knob_text(h, KNOB_PIDS_MAX, "7/work", text);
        CHECK_EQ(strtoull(text, NULL, 10), rows[i].expected);
    }
    remove_and_check(h, &c);
}

TEST(cgroup, limits_processes_by_memory_by_default)
{
    on_each_host(check_default_pids);
}

static void check_weight(struct cgroup_host *h)
{
    char text[64];

    if (!h->knobs[KNOB_CPU_WEIGHT].y)
        return;
    knob_text(h, KNOB_CPU_WEIGHT, ".", text);
    CHECK_EQ(strtoull(text, NULL, 10),
             h->knobs[KNOB_CPU_WEIGHT].y->version == &cgroup_v2 ? 50 : 512);
}

TEST(cgroup, gives_all_sandboxes_together_half_the_cpu_weight_of_a_service)
{
    on_each_host(check_weight);
}

static void check_into(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct cgroup_stat s = {0};
    struct err e = {0};

    CHECK_EQ(c.init_fd >= 0, (cgroup_host_abilities(h) & CGROUP_INTO) != 0);
    CHECK(c.init_count > 0 && c.work_count > 0 && c.work_count <= c.init_count);
    ok(cgroup_stat(&c, &s, &e), &e);
    CHECK_EQ(s.pids, 0);
    CHECK_EQ(s.oom_kills, 0);
    CHECK(!s.frozen);
    remove_and_check(h, &c);
}

static void check_starts_inside(struct cgroup_host *h)
{
    bool has_v2 = strncmp(cgroup_host_describe(h), "v1", 2) != 0;

    CHECK_EQ((cgroup_host_abilities(h) & CGROUP_INTO) != 0, has_v2);
}

TEST(cgroup, starts_processes_inside_where_there_is_v2)
{
    on_each_host(check_starts_inside);
}

TEST(cgroup, opens_what_a_spawner_needs)
{
    on_each_host(check_into);
}

/* As execd has it: in "init", as the owner, in that namespace. */
static void become_owner(const struct cgroup *c)
{
    CHECK(enter(c->init_procs, c->init_count));
    CHECK_EQ(setns(c->ns_fd, CLONE_NEWCGROUP), 0);
    CHECK_EQ(syscall(SYS_setresuid, OWNER, OWNER, OWNER), 0);
}

/* Starts a shell line in "work" by clone3 alone: moving there would fail. */
static void run_born_in_work(const struct cgroup *c, const char *line)
{
    const char *const argv[] = {"sh", "-c", line, NULL};
    struct proc_spec spec = PROC_SPEC("/bin/sh", argv);
    auto_fd full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    auto_proc p = PROC_NONE;
    struct proc_exit how = {.by_signal = true};
    struct err e = {0};

    spec.groups = &(struct proc_groups){c->work_fd, full, 1};
    ok(proc_spawn(&spec, &p, &e), &e);
    CHECK_EQ(proc_wait(p.pidfd, deadline_in_ms(TIMEOUT_MS), &how), 0);
    CHECK(!how.by_signal);
    CHECK_EQ(how.code, 0);
}

/* What the owner may not do, even with a directory of the tree that has a way up. */
static void check_owner_is_bound(int work)
{
    static const struct {
        const char *path, *text;
        int code; /* of opening or writing */
    } rows[] = {
        {"../init/cgroup.procs",      "0",     EACCES},
        {"../../cgroup.procs",        "0",     EACCES},
        {"../cgroup.procs",           "0",     EBUSY }, /* takes no process */
        {"../cgroup.subtree_control", "-pids", EACCES},
        {"../cgroup.type",            "",      EACCES},
        {"../cgroup.freeze",          "0",     EACCES},
        {"cgroup.type",               "",      EACCES},
        {"cgroup.subtree_control",    "+pids", EACCES},
        {"pids.max",                  "max",   EACCES},
        {"memory.max",                "max",   EACCES},
        {"cpu.max",                   "max",   EACCES},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_fd fd = openat(work, rows[i].path, O_WRONLY | O_CLOEXEC);
        int code = fd < 0 || write(fd, rows[i].text, strlen(rows[i].text)) < 0 ? errno : 0;

        if (code != rows[i].code && code != ENOENT) /* a controller that the host has not */
            test_fail(__FILE__, __LINE__, "%s: errno %d", rows[i].path, code);
    }
    CHECK_EQ(mkdirat(work, "below", 0755), -1);
    CHECK_EQ(errno, EACCES);
}

/* The directory that root inside has: nothing above it, and its files can be read. */
static void check_directory_is_closed(int work)
{
    static const char *const rows[] = {"cgroup.procs", "cgroup.freeze", "cgroup.kill", "pids.max"};
    auto_fd up = openat(work, "../../../../..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat here, above;

    CHECK_EQ(fstat(work, &here), 0);
    CHECK_EQ(fstat(up, &above), 0);
    CHECK(here.st_dev == above.st_dev && here.st_ino == above.st_ino);
    CHECK_EQ(faccessat(work, "../init", F_OK, 0), -1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_EQ(openat(work, rows[i], O_WRONLY | O_CLOEXEC), -1);
        CHECK(errno == EROFS || errno == EACCES || errno == ENOENT);
    }
    CHECK_EQ(fchmodat(work, "cgroup.procs", 0666, 0), -1);
    CHECK_EQ(errno, EROFS);
}

static void check_birth(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    auto_fd work = openat(h->hierarchies[0].root_fd, "7/work", O_PATH | O_DIRECTORY | O_CLOEXEC);
    pid_t pid;

    CHECK_EQ(c.work_fd >= 0, c.ns_fd >= 0);
    CHECK(c.work_fd < 0 || h->count == 1); /* else the namespace would show our own groups of v1 */
    if (c.work_fd >= 0) {
        pid = fork();
        if (pid == 0) {
            check_directory_is_closed(c.work_fd); /* to root itself */
            become_owner(&c);
            run_born_in_work(&c, "grep -qx 0::/work /proc/self/cgroup");
            check_directory_is_closed(c.work_fd);
            check_owner_is_bound(work);
            CHECK(enter(c.work_procs, c.work_count)); /* and from there it is the same */
            check_owner_is_bound(work);
            _exit(0);
        }
        CHECK_EQ(wait_status(pid), 0);
    }
    remove_and_check(h, &c);
}

TEST(cgroup, lets_its_owner_start_processes_in_work_and_no_more)
{
    on_each_host(check_birth);
}

static void check_birth_when_full(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct plan_limits limits = {.pids = 1};
    const char *const argv[] = {"true", NULL};
    struct proc_spec spec = PROC_SPEC("/bin/true", argv);
    auto_proc p = PROC_NONE;
    struct proc_exit how = {.by_signal = true};
    struct err e = {0};

    ok(cgroup_limit(&c, &limits, &e), &e);
    start_in(&c, sleep_forever, NULL);
    for (size_t i = 0; i < c.work_count; i++)
        CHECK(dup3(c.work_procs[i], IN_A_ROW + (int)i, O_CLOEXEC) >= 0);
    spec.groups = &(struct proc_groups){c.work_fd, IN_A_ROW, (uint32_t)c.work_count};
    ok(proc_spawn(&spec, &p, &e), &e);
    CHECK_EQ(proc_wait(p.pidfd, deadline_in_ms(TIMEOUT_MS), &how), 0);
    CHECK_EQ(how.code, 0);
    remove_and_check(h, &c);
}

/* Else nothing could be run in a sandbox that is full of processes, to end some. */
TEST(cgroup, takes_a_process_though_it_is_full_of_them)
{
    on_each_host(check_birth_when_full);
}

static void check_reclaim(struct cgroup_host *h)
{
    struct cgroup c = make_slot(h, SLOT);
    struct err e = {0};
    int r;

    start_in(&c, sleep_forever, NULL);
    ok(cgroup_freeze(&c, true, TIMEOUT_MS, &e), &e);
    r = cgroup_reclaim(&c, &e);
    CHECK_EQ(r, cgroup_host_abilities(h) & CGROUP_RECLAIM ? 0 : -ENOTSUP);
    remove_and_check(h, &c);
}

TEST(cgroup, reclaims_memory_of_a_frozen_slot)
{
    on_each_host(check_reclaim);
}

static void add_slot(void *seen, uint32_t slot)
{
    *(uint64_t *)seen |= UINT64_C(1) << slot;
}

static void check_each_slot(struct cgroup_host *h)
{
    const struct cgroup_hierarchy *last = &h->hierarchies[h->count - 1];
    uint64_t seen = 0;
    struct cgroup a = make_slot(h, 3), b = make_slot(h, 40);
    struct err e = {0};

    CHECK_EQ(mkdirat(last->root_fd, "11", 0755), 0); /* half made, in one hierarchy alone */
    CHECK_EQ(mkdirat(last->root_fd, "other", 0755), 0);
    ok(cgroup_each_slot(h, add_slot, &seen, &e), &e);
    CHECK_EQ(seen, UINT64_C(1) << 3 | UINT64_C(1) << 11 | UINT64_C(1) << 40);
    ok(cgroup_remove(h, 11, &e), &e);
    CHECK_EQ(unlinkat(last->root_fd, "other", AT_REMOVEDIR), 0);
    CHECK_EQ(cgroup_host_remove(h, &e), -EBUSY);
    remove_and_check(h, &a);
    remove_and_check(h, &b);
}

TEST(cgroup, lists_the_slots_that_have_groups)
{
    on_each_host(check_each_slot);
}

static const char groups_v1[] = "9:cpu,cpuacct:/app\n8:memory:/app/one\n0::/app/one\n";

/* What is chosen of a mountinfo: "point own" of each mount, in order. */
static void check_choice(const char *mountinfo, const char *expected)
{
    struct cgroup_mounts all = {0};
    AUTO_BUF(text, 4096);

    cgroup_mounts_parse(str_of(mountinfo), str_of(groups_v1), &all);
    for (size_t i = 0; i < all.count; i++)
        CHECK_EQ(buf_addf(&text, "%s %s\n", all.at[i].point, all.at[i].own), 0);
    CHECK_STR(text.n ? text.p : "", expected);
    cgroup_mounts_done(&all);
}

#define V1(root, point, flags, controllers)                                                        \
    "36 35 0:32 " root " " point " " flags " shared:9 - cgroup cgroup rw," controllers "\n"
#define V2(root, point, flags) "40 35 0:29 " root " " point " " flags " - cgroup2 cgroup2 rw\n"
#define USUAL                  "/sys/fs/cgroup"
#define CHROOT                 "/srv/chroot/sys/fs/cgroup"

TEST(cgroup, takes_the_mount_that_shows_its_own_group)
{
    check_choice(V1("/", USUAL "/memory", "rw", "memory"), USUAL "/memory /app/one\n");
    /* A chroot's bind mount is no better for being listed first, ... */
    check_choice(V1("/", CHROOT "/memory", "rw", "memory") V1("/", USUAL "/memory", "rw", "memory"),
                 USUAL "/memory /app/one\n");
    check_choice(V2("/", CHROOT, "rw") V2("/", USUAL, "rw"), USUAL " /app/one\n");
    /* ... one of another part of the tree is none, wherever it is, ... */
    check_choice(V2("/app/on", USUAL, "rw") V2("/app", "/mnt", "rw"), "/mnt /one\n");
    check_choice(V2("/app/two", USUAL, "rw") V2("/app/one", "/mnt", "rw"), "/mnt \n");
    /* ... and so is one that cannot be written, or seen. */
    check_choice(V2("/", USUAL, "ro") V2("/", "/mnt", "rw"), "/mnt /app/one\n");
    check_choice(V2("/", USUAL, "rw") V2("/other", USUAL, "rw") V2("/", "/mnt", "rw"),
                 "/mnt /app/one\n");
    check_choice(V2("/", USUAL, "rw") "41 35 0:30 / " USUAL " rw - tmpfs tmpfs rw\n", "");
    /* The only one is taken, whatever it shows. */
    check_choice(V2("/other", USUAL, "rw"), USUAL " \n");
    /* Each hierarchy on its own. */
    check_choice(V1("/", CHROOT "/cpu", "rw", "cpu,cpuacct")
                     V1("/", CHROOT "/memory", "rw", "memory")
                         V1("/", USUAL "/memory", "rw", "memory") V2("/", USUAL "/unified", "rw"),
                 CHROOT "/cpu /app\n" USUAL "/memory /app/one\n" USUAL "/unified /app/one\n");
}

/* A real second mount, which the kernel lists before the usual one. */
TEST(cgroup, is_not_confused_by_a_second_mount_of_the_tree)
{
    char command[256], folder[] = "/tmp/osbtest-XXXXXX", name[32] = "osbtest-";
    struct err e = {0};
    int status;
    pid_t pid;

    if (geteuid() != 0)
        test_skip("mounts are made by root");
    CHECK(mkdtemp(folder));
    id_short(name + strlen(name), 8);
    (void)snprintf(command, sizeof(command),
                   "mount --make-rprivate / && mount --rbind /sys/fs/cgroup %s && "
                   "umount -l /sys/fs/cgroup && mount --rbind %s /sys/fs/cgroup",
                   folder, folder);
    pid = fork();
    if (pid == 0) {
        CHECK_EQ(unshare(CLONE_NEWNS), 0);
        CHECK_EQ(system(command), 0);
        atexit(clean_up);
        ok(cgroup_host_open(name, &open_host, &e), &e);
        for (size_t i = 0; i < open_host->count; i++)
            CHECK(str_starts(str_of(open_host->hierarchies[i].path), STR(USUAL)));
        exit(0);
    }
    status = wait_status(pid);
    CHECK_EQ(rmdir(folder), 0);
    CHECK_EQ(status, 0);
}

TEST(cgroup, refuses_a_name_that_leads_elsewhere)
{
    struct cgroup_host *h;
    struct err e = {0};

    CHECK_EQ(cgroup_host_open("", &h, &e), -EINVAL);
    CHECK_EQ(cgroup_host_open("a/b", &h, &e), -EINVAL);
    CHECK_EQ(cgroup_host_open("..", &h, &e), -EINVAL);
}
