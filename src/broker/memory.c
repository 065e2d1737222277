#include "broker/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/proc.h"
#include "base/time.h"
#include "sandbox/oci.h"

enum {
    QUIET_MS_MAX = 10 * 1000,
    PAUSE_MS_MAX = 20 * 1000,
    SAVE_MS_MAX = 10 * 60 * 1000,
    WORDS_MAX = 160,
    ARGS_MAX = OCI_ARGS_MAX + 24,
};

static const struct oci_runtime *runtime_of(const struct broker *b,
                                            const struct slot_record *record)
{
    for (size_t i = 0; record->runtime[0] && i < b->host.oci_count; i++)
        if (strcmp(b->host.oci[i].name, record->runtime) == 0)
            return &b->host.oci[i];
    return NULL;
}

int memory_check(const struct broker *b, const struct slot_record *record, struct err *e)
{
    const struct oci_runtime *rt = runtime_of(b, record);

    if (rt && rt->kind->can & OCI_CAN_MEMORY)
        return 0;
    return err_set(e, ENOTSUP,
                   "the sandbox runs on %s, which cannot save memory; one on gvisor can",
                   record->runtime[0] ? record->runtime : "the host's kernel");
}

/* --- a command of the runtime, in the sandbox's namespaces --- */

struct command {
    int mnt, pid; /* namespaces */
};

/* The pid namespace is entered by a fork. This process then waits for the child, which goes on. */
static int enter(void *user, struct proc_step *ret_step)
{
    const struct command *c = user;
    int status;
    long child;

    *ret_step = (struct proc_step){"enter the namespaces of", "the sandbox"};
    if (setns(c->pid, CLONE_NEWPID) < 0 || setns(c->mnt, CLONE_NEWNS) < 0)
        return -errno;
    child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child < 0)
        return -errno;
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        return 0;
    }
    (void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0); /* also the report of proc_spawn */
    while (waitpid((pid_t)child, &status, 0) < 0)
        if (errno != EINTR)
            _exit(1);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int open_namespace(const struct slot_record *record, const char *name, struct err *e)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", record->owner.pid, name);
    return fd_open_at(AT_FDCWD, path, O_RDONLY, 0, PATH_FREE, e);
}

/* What the command wrote, on one line. */
static int words_of(int from, const char *what, struct err *e)
{
    char text[WORDS_MAX];
    ssize_t n = pread(from, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            *p = ' ';
    return err_set(e, EIO, "the runtime cannot %s it: %s", what, text);
}

static int run(const struct oci_runtime *rt, const struct slot_record *record,
               const char *const *words, int target, uint32_t timeout_ms, struct err *e)
{
    const char *argv[ARGS_MAX];
    struct command c = {open_namespace(record, "mnt", e), open_namespace(record, "pid", e)};
    auto_fd mnt = c.mnt, pid = c.pid, out = fd_memory("words");
    struct proc_spec spec = PROC_SPEC("/program", argv);
    struct proc_exit how = {0};
    auto_proc proc = PROC_NONE;
    size_t n = 0;
    int r;

    if (mnt < 0 || pid < 0 || out < 0)
        return err_sys(e, ESRCH, "enter the sandbox");
    argv[n++] = rt->name;
    argv[n++] = "--root";
    argv[n++] = "/run/oci";
    while (*words)
        argv[n++] = *words++;
    argv[n++] = record->id;
    argv[n] = NULL;
    spec.stdio[1] = spec.stdio[2] = out;
    spec.more = &target;
    spec.more_count = target >= 0;
    spec.flags = PROC_DIE_WITH_US | PROC_NEW_SESSION;
    spec.prepare = enter;
    spec.user = &c;
    r = proc_spawn(&spec, &proc, e);
    if (r < 0)
        return r;
    r = proc_wait(proc.pidfd, deadline_in_ms(timeout_ms), &how);
    if (r < 0) {
        (void)!proc_signal(proc.pidfd, SIGKILL);
        return err_set(e, ETIMEDOUT, "the runtime has not answered '%s' in time", argv[3]);
    }
    return how.by_signal || how.code ? words_of(out, argv[3], e) : 0;
}

/* --- the guard --- */

static int ask_quiet(const struct slot_record *record, struct err *e)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char note;

    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/%d/root/run/guard",
                   record->owner.pid);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return err_sys(e, errno, "reach the sandbox's guard");
    if (poll(&p, 1, QUIET_MS_MAX) <= 0 || recv(fd, &note, 1, 0) != 1)
        return err_set(e, ETIMEDOUT, "execd has not closed its connections in time");
    return take_fd(&fd);
}

/* --- saving --- */

int memory_save(const struct broker *b, const struct slot_record *record, int target,
                struct memory_hold *hold, struct err *e)
{
    static const char *const pause_it[] = {"pause", NULL};
    static const char *const save_it[] = {
        "checkpoint", "--image-path", "/proc/self/fd/3", "--compression", "none", "--leave-running",
        NULL};
    const struct oci_runtime *rt = runtime_of(b, record);
    int r = memory_check(b, record, e);

    *hold = (struct memory_hold){.guard = -EBADF};
    if (r < 0)
        return r;
    hold->guard = ask_quiet(record, e);
    if (hold->guard < 0)
        return hold->guard;
    r = run(rt, record, pause_it, -EBADF, PAUSE_MS_MAX, e);
    hold->paused = r == 0;
    return r < 0 ? r : run(rt, record, save_it, target, SAVE_MS_MAX, e);
}

void memory_release(const struct broker *b, const struct slot_record *record,
                    struct memory_hold *hold)
{
    static const char *const resume_it[] = {"resume", NULL};
    const struct oci_runtime *rt = runtime_of(b, record);

    if (hold->paused)
        (void)!run(rt, record, resume_it, -EBADF, PAUSE_MS_MAX, NULL);
    fd_close(take_fd(&hold->guard));
}

uint64_t memory_bytes(int target)
{
    DIR *list = fdopendir(openat(target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const struct dirent *entry;
    uint64_t bytes = 0;
    struct stat st;

    while (list && (entry = readdir(list)))
        if (fstatat(target, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_blocks * 512;
    if (list)
        (void)closedir(list);
    return bytes;
}
