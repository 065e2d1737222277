/* broker_faults.c - makes a broker fail on purpose. Linked with the broker's objects into a test
 * program; the installed broker does not contain it.
 *
 * OSB_FAULT_STEP=N: the Nth step of every sandbox's start fails.
 *
 * OSB_FAULT_KILLS=FILE: the file's first line names a point of a create or a removal. A process
 * that reaches this point removes the line and kills itself (SIGKILL) as soon as FILE.hold does not
 * exist. A test may write the file at any time; without a file nothing is killed. The points are
 * the functions below, which the linker puts in front of the real ones (--wrap). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/time.h"
#include "broker/broker.h"

static __attribute__((constructor)) void arm(void)
{
    const char *text = getenv("OSB_FAULT_STEP");
    uint64_t n;

    /* Each child counts in its own copy of the memory; the broker itself never reaches a fault. */
    if (text && str_to_u64_range(str_of(text), 1, 100, &n) == 0)
        fault_arm(FAULT_SYSCALL, (long)n);
}

enum { HOLD_MS_MAX = 60 * 1000, HOLD_MS = 5, PATH_BYTES = 512 };

static void hold(const char *path)
{
    const struct timespec pause = {.tv_nsec = HOLD_MS * 1000000L};
    uint64_t deadline = deadline_in_ms(HOLD_MS_MAX);
    char name[PATH_BYTES];

    (void)snprintf(name, sizeof(name), "%s.hold", path);
    while (access(name, F_OK) == 0 && !deadline_passed(deadline))
        (void)nanosleep(&pause, NULL);
}

/* Removes the first line of the file atomically. Tests run only one request at a time. */
static bool take_line(const char *path, const char *rest)
{
    char next[PATH_BYTES];
    size_t n = strlen(rest);

    (void)snprintf(next, sizeof(next), "%s.next", path);
    auto_fd fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    return fd >= 0 && write(fd, rest, n) == (ssize_t)n && rename(next, path) == 0;
}

static void point(const char *name)
{
    const char *path = getenv("OSB_FAULT_KILLS");
    auto_fd fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -EBADF;
    char text[256];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    char *end;

    if (n <= 0)
        return;
    text[n] = '\0';
    end = strchr(text, '\n');
    if (!end)
        return;
    *end = '\0';
    if (strcmp(text, name) != 0 || !take_line(path, end + 1))
        return;
    hold(path);
    (void)kill(getpid(), SIGKILL);
}

/* --- a create --- */

static bool sends_plan;

int __real_life_name(const struct broker *b, const char *id, uint32_t slot, struct err *e);
int __wrap_life_name(const struct broker *b, const char *id, uint32_t slot, struct err *e);
int __wrap_life_name(const struct broker *b, const char *id, uint32_t slot, struct err *e)
{
    point("before naming");
    int r = __real_life_name(b, id, slot, e);

    point("after naming");
    return r;
}

int __real_cgroup_limit(const struct cgroup *c, const struct plan_limits *limits, struct err *e);
int __wrap_cgroup_limit(const struct cgroup *c, const struct plan_limits *limits, struct err *e);
int __wrap_cgroup_limit(const struct cgroup *c, const struct plan_limits *limits, struct err *e)
{
    int r = __real_cgroup_limit(c, limits, e);

    point("after limiting");
    return r;
}

int __real_fd_send(int sock, const void *data, size_t n, const int *fds, size_t fd_count);
int __wrap_fd_send(int sock, const void *data, size_t n, const int *fds, size_t fd_count);
int __wrap_fd_send(int sock, const void *data, size_t n, const int *fds, size_t fd_count)
{
    int r = __real_fd_send(sock, data, n, fds, fd_count);

    if (sends_plan)
        point("after sending the plan");
    return r;
}

int __real_spawn_go(const struct spawn_slot *slot, struct parked *p, const struct spawn_args *args,
                    struct proc *ret, struct err *e);
int __wrap_spawn_go(const struct spawn_slot *slot, struct parked *p, const struct spawn_args *args,
                    struct proc *ret, struct err *e);
int __wrap_spawn_go(const struct spawn_slot *slot, struct parked *p, const struct spawn_args *args,
                    struct proc *ret, struct err *e)
{
    sends_plan = true;
    int r = __real_spawn_go(slot, p, args, ret, e);

    sends_plan = false;
    point("after starting");
    return r;
}

int __real_slot_write_record(int dir, const struct slot_record *record, struct err *e);
int __wrap_slot_write_record(int dir, const struct slot_record *record, struct err *e);
int __wrap_slot_write_record(int dir, const struct slot_record *record, struct err *e)
{
    int r = __real_slot_write_record(dir, record, e);

    if (record->state == SLOT_LIVE)
        point("after recording");
    return r;
}

/* --- a removal --- */

int __real_cgroup_remove(const struct cgroup_host *h, uint32_t slot, struct err *e);
int __wrap_cgroup_remove(const struct cgroup_host *h, uint32_t slot, struct err *e);
int __wrap_cgroup_remove(const struct cgroup_host *h, uint32_t slot, struct err *e)
{
    point("before removing groups");
    return __real_cgroup_remove(h, slot, e);
}

int __real_slot_remove_little(const struct host *h, uint32_t slot, struct err *e);
int __wrap_slot_remove_little(const struct host *h, uint32_t slot, struct err *e);
int __wrap_slot_remove_little(const struct host *h, uint32_t slot, struct err *e)
{
    point("before removing files");
    return __real_slot_remove_little(h, slot, e);
}
