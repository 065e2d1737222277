#include "execd/pty/pty_kill.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    LOOKS_MAX = 16, /* enough scans: forks cannot keep ahead of so many */
    STAT_BYTES_MAX = 512,
};

/* Format: "42 (name) S PARENT GROUP SESSION ...". The name may contain anything, so the last ')'
 * ends it. */
pid_t pty_kill_group(struct str stat, pid_t session)
{
    const char *name_end = stat.n ? memrchr(stat.p, ')', stat.n) : NULL;
    struct str rest, field[4];
    int64_t group, its_session;

    if (!name_end || name_end + 2 > stat.p + stat.n)
        return 0;
    rest = str_skip(stat, (size_t)(name_end + 2 - stat.p));
    for (size_t i = 0; i < ARRAY_LEN(field); i++)
        if (!str_cut(&rest, ' ', &field[i]))
            return 0;
    if (str_eq(field[0], STR("Z")) || str_eq(field[0], STR("X")) ||
        str_to_i64(field[2], &group) < 0 || str_to_i64(field[3], &its_session) < 0)
        return 0;
    return its_session == session && group > 1 ? (pid_t)group : 0;
}

/* 0 if the process no longer exists. */
static pid_t group_of(const struct pty_kill *k, const char *pid)
{
    char path[64], text[STAT_BYTES_MAX];
    auto_fd fd = -EBADF;
    ssize_t n;

    if (pid[0] < '0' || pid[0] > '9' ||
        (size_t)snprintf(path, sizeof(path), "%s/stat", pid) >= sizeof(path))
        return 0;
    fd = openat(dirfd(k->dir), path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    return n > 0 ? pty_kill_group(str_make(text, (size_t)n), k->session) : 0;
}

static void kill_end(struct pty_kill *k)
{
    pty_kill_stop(k);
    k->on_done(k);
}

/* Handles one process. Kills its whole group at once, so that none of its members can fork in
 * between. */
static bool kill_step(struct slice *s)
{
    struct pty_kill *k = container_of(s, struct pty_kill, slice);
    const struct dirent *entry = readdir(k->dir);
    pid_t group = entry ? group_of(k, entry->d_name) : 0;

    if (group > 0) {
        (void)kill(-group, SIGKILL);
        k->found = true;
    }
    if (entry)
        return true;
    if (!k->found || --k->looks_left == 0) {
        kill_end(k);
        return false;
    }
    k->found = false;
    rewinddir(k->dir);
    return true;
}

void pty_kill_start(struct pty_kill *k, struct loop *loop, pid_t session,
                    void (*on_done)(struct pty_kill *k))
{
    k->session = session;
    k->looks_left = LOOKS_MAX;
    k->found = false;
    k->on_done = on_done;
    (void)kill(-session, SIGKILL);
    k->dir = opendir("/proc");
    if (k->dir)
        slice_start(&k->slice, loop, kill_step);
    else
        on_done(k);
}

void pty_kill_stop(struct pty_kill *k)
{
    slice_stop(&k->slice);
    if (k->dir)
        (void)closedir(k->dir);
    k->dir = NULL;
}
