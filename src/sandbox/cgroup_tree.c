/* The three groups of a sandbox, in every hierarchy in use: making, removing, finding processes. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "sandbox/cgroup_internal.h"

enum {
    PROCS_BYTES_MAX = 1 << 20,
    EMPTY_TIMEOUT_MS = 10 * 1000, /* a process leaves its group shortly after it was reaped */
};

static const char own_namespace[] = "/proc/self/ns/cgroup";

static const char *const leaves[] = {"init", "work"};

static int make_group(const struct cgroup_hierarchy *y, const char *group, struct err *e)
{
    if (mkdirat(y->root_fd, group, 0755) < 0)
        return err_sys(e, errno, "mkdir %s/%s", y->path, group);
    return 0;
}

/* Shares the parent's descriptors, and changes only `ns` there. Exits with an errno. */
static NORETURN void replace_namespace(int ns)
{
    int made, code;

    if (unshare(CLONE_NEWCGROUP) < 0)
        _exit(errno);
    made = open(own_namespace, O_RDONLY | O_CLOEXEC);
    code = made < 0 || dup3(made, ns, O_CLOEXEC) < 0 ? errno : 0;
    fd_close(made);
    _exit(code);
}

/* The root of a cgroup namespace is the group of the process that makes it, and a group with
 * controllers enabled for its children takes no process. So this comes first, in a child that
 * shares our descriptors and puts the new namespace into `ns`. */
static int make_namespace(const struct cgroup_hierarchy *y, const char *group, struct err *e)
{
    auto_fd dir = cgroup_file_open(y, group, ".", O_PATH | O_DIRECTORY, e);
    auto_fd ns = dir < 0 ? -EBADF : fd_open_at(AT_FDCWD, own_namespace, O_RDONLY, 0, PATH_FREE, e);
    /* No exit signal, as SIGCHLD may be ignored. */
    struct clone_args args = {.flags = CLONE_INTO_CGROUP | CLONE_FILES, .cgroup = (uint64_t)dir};
    int code, status = -1;
    long pid;

    if (ns < 0)
        return dir < 0 ? dir : ns;
    pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        replace_namespace(ns);
    code = pid < 0 ? errno : 0;
    while (pid > 0 && waitpid((pid_t)pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    if (pid > 0 && status != 0)
        code = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
    return code ? err_sys(e, code, "make a cgroup namespace at %s/%s", y->path, group)
                : take_fd(&ns);
}

void cgroup_pause(long *ns)
{
    struct timespec t = {0, *ns};

    nanosleep(&t, NULL);
    if (*ns < 5 * 1000 * 1000)
        *ns *= 2;
}

/* Retries until that child has left the group. */
static int enable_below(const struct cgroup_hierarchy *y, const char *group, struct err *e)
{
    uint64_t deadline = deadline_in_ms(EMPTY_TIMEOUT_MS);
    long ns = CGROUP_PAUSE_NS;

    for (;;) {
        bool last = deadline_passed(deadline);
        int r = y->version->enable_below(y, group, e);

        if (r != -EBUSY || last)
            return r;
        cgroup_pause(&ns);
    }
}

static int make_in(const struct cgroup_hierarchy *y, const char *name, int *ret_ns, struct err *e)
{
    char group[CGROUP_PATH_MAX];
    auto_fd ns = -EBADF;
    int r = make_group(y, name, e);

    if (r >= 0 && ret_ns)
        r = ns = make_namespace(y, name, e);
    if (r >= 0 && y->version->enable_below)
        r = enable_below(y, name, e);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(leaves); i++) {
        snprintf(group, sizeof(group), "%s/%s", name, leaves[i]);
        r = make_group(y, group, e);
    }
    if (r >= 0 && ret_ns)
        *ret_ns = take_fd(&ns);
    return r;
}

int cgroup_tree_make(const struct cgroup_host *h, const char *name, int *ret_ns, struct err *e)
{
    int r;

    for (size_t i = 0; i < h->count; i++) {
        r = make_in(&h->hierarchies[i], name, i == 0 ? ret_ns : NULL, e);
        if (r == -EEXIST)
            return r; /* made by another process, which removes it */
        if (r < 0) {
            cgroup_tree_remove(h, name, NULL);
            return r;
        }
    }
    return 0;
}

static int remove_group(const struct cgroup_hierarchy *y, const char *group, uint64_t deadline,
                        struct err *e)
{
    long ns = CGROUP_PAUSE_NS;

    for (;;) {
        bool last = deadline_passed(deadline);

        if (unlinkat(y->root_fd, group, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != EBUSY || last)
            return err_sys(e, errno, "rmdir %s/%s", y->path, group);
        cgroup_pause(&ns);
    }
}

static int remove_in(const struct cgroup_hierarchy *y, const char *name, uint64_t deadline,
                     struct err *e)
{
    char group[CGROUP_PATH_MAX];
    int r;

    for (size_t i = ARRAY_LEN(leaves); i-- > 0;) {
        snprintf(group, sizeof(group), "%s/%s", name, leaves[i]);
        r = remove_group(y, group, deadline, e);
        if (r < 0)
            return r;
    }
    return remove_group(y, name, deadline, e);
}

int cgroup_tree_remove(const struct cgroup_host *h, const char *name, struct err *e)
{
    uint64_t deadline = deadline_in_ms(EMPTY_TIMEOUT_MS);
    int r, first = 0;

    for (size_t i = h->count; i-- > 0;) {
        r = remove_in(&h->hierarchies[i], name, deadline, first < 0 ? NULL : e);
        if (r < 0 && first == 0)
            first = r;
    }
    return first;
}

/* Processes of other pid namespaces are listed as 0, which kill() would take for our own group. */
static size_t signal_listed(struct str list, int signal)
{
    struct str line;
    size_t count = 0;
    uint64_t pid;

    while (str_cut(&list, '\n', &line)) {
        if (str_to_u64_range(line, 0, INT_MAX, &pid) < 0)
            continue;
        count++;
        if (signal && pid > 1 && (pid_t)pid != getpid())
            kill((pid_t)pid, signal);
    }
    return count;
}

static const char *const all_groups[] = {"", "/init", "/work"};

/* Lists the processes of one of a sandbox's groups, a pid per line; nothing when the group is
 * gone. */
static int list_group(const struct cgroup_hierarchy *y, const char *name, const char *group,
                      struct buf *list, struct err *e)
{
    char path[CGROUP_PATH_MAX];
    int r;

    snprintf(path, sizeof(path), "%s%s/cgroup.procs", name, group);
    buf_clear(list);
    r = io_read_file(y->root_fd, path, PROCS_BYTES_MAX, list, e);
    return r == -ENOENT || r == -ENODEV ? 0 : r;
}

int cgroup_tree_signal(const struct cgroup_host *h, const char *name, int signal, size_t *ret_count,
                       struct err *e)
{
    AUTO_BUF(list, PROCS_BYTES_MAX);
    size_t most = 0;

    for (size_t i = 0; i < h->count; i++) {
        size_t count = 0;

        for (size_t k = 0; k < ARRAY_LEN(all_groups); k++) {
            int r = list_group(&h->hierarchies[i], name, all_groups[k], &list, e);

            if (r < 0)
                return r;
            count += signal_listed(buf_str(&list), signal);
        }
        if (count > most)
            most = count;
    }
    *ret_count = most;
    return 0;
}

int cgroup_tree_is_empty(const struct cgroup_host *h, const char *name, struct err *e)
{
    AUTO_BUF(list, PROCS_BYTES_MAX);

    for (size_t i = 0; i < h->count; i++)
        for (size_t k = ARRAY_LEN(all_groups); k-- > 0;) {
            int r = list_group(&h->hierarchies[i], name, all_groups[k], &list, e);

            if (r < 0 || list.n > 0)
                return r < 0 ? r : 0;
        }
    return 1;
}
