#include "execd/core/kin.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/proc.h"

enum {
    STAT_BYTES_MAX = 1024,
    STAT_PARENT = 1, /* index among the fields from the state, which is 0 */
    STAT_SESSION = 3,
    STAT_USER_TIME = 11,
    STAT_SYSTEM_TIME = 12,
    STAT_FIELDS,
    KILL_ROUNDS = 8,
    MS_PER_S = 1000,
    NS_PER_S = 1000000000,
};

uint64_t kin_now_ticks(void)
{
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec / (NS_PER_S / hz);
}

/* The fields after the name in "42 (any name) S 1 42 42 ...". */
static struct str after_name(struct str stat)
{
    const char *end = stat.n ? memrchr(stat.p, ')', stat.n) : NULL;

    if (!end || stat.p + stat.n - end < 2 || end[1] != ' ')
        return STR("");
    return str_skip(stat, (size_t)(end + 2 - stat.p));
}

bool kin_parse(struct str stat, struct kin_stat *ret)
{
    struct str rest = after_name(stat), field[STAT_FIELDS];
    uint64_t parent, sid, user, system, hz = (uint64_t)sysconf(_SC_CLK_TCK);
    struct kin_stat found;

    if (str_starts(rest, STR("Z")) || proc_parse_start_time(stat, &found.start_ticks) < 0)
        return false;
    for (size_t i = 0; i < STAT_FIELDS; i++)
        if (!str_cut(&rest, ' ', &field[i]))
            return false;
    if (str_to_u64_range(field[STAT_PARENT], 0, INT_MAX, &parent) < 0 ||
        str_to_u64_range(field[STAT_SESSION], 0, INT_MAX, &sid) < 0 ||
        str_to_u64_range(field[STAT_USER_TIME], 0, INT64_MAX / MS_PER_S, &user) < 0 ||
        str_to_u64_range(field[STAT_SYSTEM_TIME], 0, INT64_MAX / MS_PER_S, &system) < 0)
        return false;
    found.parent = (pid_t)parent;
    found.sid = (pid_t)sid;
    found.state = field[0].n > 0 ? field[0].p[0] : '?';
    found.ran_ms = (user + system) * MS_PER_S / hz;
    *ret = found;
    return true;
}

static bool kin_read(int proc, pid_t pid, struct kin_stat *ret)
{
    char path[32], text[STAT_BYTES_MAX];
    auto_fd fd = -EBADF;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%d/stat", (int)pid);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    return n > 0 && kin_parse(str_make(text, (size_t)n), ret);
}

bool kin_look(pid_t pid, struct kin_stat *ret)
{
    auto_fd proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return proc >= 0 && kin_read(proc, pid, ret);
}

static bool is_kin(int proc, pid_t pid, pid_t sid, uint64_t since_ticks)
{
    struct kin_stat it;

    return kin_read(proc, pid, &it) && it.sid == sid && it.start_ticks >= since_ticks;
}

/* Checks the process again after opening its pidfd, so that a reused pid is not signalled. */
static size_t signal_kin(int proc, pid_t pid, pid_t sid, uint64_t since_ticks, int signo)
{
    auto_proc p = PROC_NONE;

    if (!is_kin(proc, pid, sid, since_ticks) || proc_open(pid, &p) < 0 ||
        !is_kin(proc, pid, sid, since_ticks))
        return 0;
    return proc_signal(p.pidfd, signo) >= 0;
}

/* The next process in /proc; 0 = no more. */
static pid_t next_process(DIR *dir)
{
    const struct dirent *entry;
    uint64_t pid;

    while ((entry = readdir(dir)))
        if (str_to_u64_range(str_of(entry->d_name), 1, INT_MAX, &pid) >= 0)
            return (pid_t)pid;
    return 0;
}

size_t kin_signal(pid_t sid, pid_t but, uint64_t since_ticks, int signo)
{
    DIR *dir = opendir("/proc");
    size_t count = 0;
    pid_t pid;

    if (!dir)
        return 0;
    while ((pid = next_process(dir)))
        if (pid != sid && pid != but)
            count += signal_kin(dirfd(dir), pid, sid, since_ticks, signo);
    (void)closedir(dir);
    return count;
}

void kin_kill(pid_t sid, uint64_t since_ticks)
{
    for (int i = 0; i < KILL_ROUNDS && kin_signal(sid, 0, since_ticks, SIGKILL) > 0; i++)
        ;
}

pid_t kin_child(pid_t parent)
{
    DIR *dir = opendir("/proc");
    struct kin_stat it;
    pid_t pid;

    if (!dir)
        return 0;
    while ((pid = next_process(dir)))
        if (kin_read(dirfd(dir), pid, &it) && it.parent == parent)
            break;
    (void)closedir(dir);
    return pid;
}
