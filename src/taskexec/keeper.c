#include "taskexec/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/time.h"

enum {
    ARGS_MAX = 1024,
    ENV_MAX = 2048,
    KEEPER_DIR_FD = 3,
    READY_FD = 4,
    START_MS = 5000,
    NOT_FOUND_CODE = 127,
    KEEPER_ARENA_MAX = 32 << 20,
    ENVIRON_MAX = 1 << 20,
};

#define KEEPER_WORD "--keep-task"

extern char **environ;

bool keeper_is_wanted(int argc, char **argv)
{
    return argc == 3 && strcmp(argv[1], KEEPER_WORD) == 0;
}

int keeper_start(int dir, const char *name, const char *main_container, struct err *e)
{
    const char *argv[] = {"opensandbox-task-executor", KEEPER_WORD,
                          main_container ? main_container : "", NULL};
    auto_fd task = fd_open_at(dir, name, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
    auto_fd ready = -EBADF, theirs = -EBADF;
    struct proc_spec spec = PROC_SPEC("/proc/self/exe", argv);
    struct proc child = PROC_NONE;
    char byte;
    size_t n;
    int r;

    if (task < 0)
        return task;
    r = fd_pipe(FD_PIPE_READ, &ready, &theirs, e);
    if (r < 0)
        return r;
    spec.env = (const char *const *)environ;
    spec.flags = PROC_NEW_SESSION;
    spec.more = (const int[]){task, theirs};
    spec.more_count = 2;
    r = proc_spawn(&spec, &child, e);
    if (r < 0)
        return r;
    proc_close(&child);
    fd_close(take_fd(&theirs));
    r = io_read_full(ready, &byte, 1, deadline_in_ms(START_MS), &n);
    if (r < 0 || n != 1)
        return err_set(e, EIO, "the task did not start");
    return 0;
}

/* --- in the keeper --- */

/* Of the signal handler: a keeper has one task, and a signal may come before it runs. */
static volatile pid_t task_pid;
static volatile sig_atomic_t early_signal;

static void forward(int signo)
{
    early_signal = signo;
    if (task_pid > 0)
        (void)kill(task_pid, signo);
}

static int write_pid(void)
{
    char text[64];
    uint64_t ticks;
    int r = proc_start_time(getpid(), &ticks);

    if (r < 0)
        return r;
    (void)snprintf(text, sizeof(text), "%d\n%llu\n", getpid(), (unsigned long long)ticks);
    return io_write_file_atomic(KEEPER_DIR_FD, "pid", str_of(text), 0600, NULL);
}

static void write_exit(int code)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%d\n", code);
    (void)io_write_file_atomic(KEEPER_DIR_FD, "exit", str_of(text), 0600, NULL);
}

/* Sets or replaces NAME=value. */
static void env_put(const char **env, size_t *count, const char *text, size_t name_n)
{
    for (size_t i = 0; i < *count; i++)
        if (strncmp(env[i], text, name_n + 1) == 0) {
            env[i] = text;
            return;
        }
    if (*count < ENV_MAX)
        env[(*count)++] = text;
}

static void env_of_task(struct arena *a, const struct json *process, const char **env,
                        size_t *count)
{
    json_each(one, json_get(process, STR("env")))
    {
        struct str name, value;
        char *text;

        if (json_to_str(json_get(one, STR("name")), &name) < 0 || !name.n ||
            json_to_str(json_get(one, STR("value")), &value) < 0)
            continue;
        text = arena_printf(a, "%.*s=%.*s", STR_ARG(name), STR_ARG(value));
        if (text)
            env_put(env, count, text, name.n);
    }
}

/* The first process whose environment has SANDBOX_MAIN_CONTAINER=<name>; 0 = none. */
static pid_t find_container(struct arena *a, const char *name, struct str *ret_env)
{
    char *wanted = arena_printf(a, "SANDBOX_MAIN_CONTAINER=%s", name);
    DIR *list = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;

    while (list && !found && (entry = readdir(list))) {
        AUTO_BUF(text, ENVIRON_MAX);
        char path[64];
        struct str rest, one;
        uint64_t pid;

        if (str_to_u64_range(str_of(entry->d_name), 1, INT32_MAX, &pid) < 0 ||
            (pid_t)pid == getpid())
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%llu/environ", (unsigned long long)pid);
        if (io_read_file(AT_FDCWD, path, ENVIRON_MAX, &text, NULL) < 0)
            continue;
        rest = buf_str(&text);
        while (str_cut(&rest, '\0', &one))
            if (str_eq(one, str_of(wanted)))
                found = (pid_t)pid;
        if (found)
            *ret_env = arena_str(a, buf_str(&text));
    }
    if (list)
        (void)closedir(list);
    return found;
}

/* Moves this process into the namespaces of the container; its children into its pid namespace. */
static int enter_container(struct arena *a, const char *name, const char **env, size_t *count,
                           struct err *e)
{
    struct str rest = STR_NONE, one;
    pid_t pid = find_container(a, name, &rest);
    auto_fd pidfd = -EBADF;

    if (!pid)
        return err_set(e, ENOENT, "no process has SANDBOX_MAIN_CONTAINER=%s in its environment",
                       name);
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 ||
        setns(pidfd, CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWPID) < 0)
        return err_sys(e, errno, "enter the namespaces of process %d", pid);
    *count = 0;
    while (str_cut(&rest, '\0', &one))
        if (one.n)
            env_put(env, count, one.p, str_find(one, '='));
    return 0;
}

/* The file of a command: as it is with a slash, else found by PATH. */
static const char *find_program(struct arena *a, const char *name, const char **env)
{
    struct str path = STR("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), dir;

    if (strchr(name, '/'))
        return name;
    for (; *env; env++)
        if (str_starts(str_of(*env), STR("PATH=")))
            path = str_of(*env + STR("PATH=").n);
    while (str_cut(&path, ':', &dir)) {
        char *file = arena_printf(a, "%.*s/%s", STR_ARG(dir), name);

        if (file && dir.n && access(file, X_OK) == 0)
            return file;
    }
    return name;
}

static size_t args_of(const struct json *process, const char **argv)
{
    static const char *const lists[] = {"command", "args"};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        json_each(one, json_get(process, str_of(lists[i])))
        {
            if (one->type == JSON_STRING && n < ARGS_MAX)
                argv[n++] = one->string.p;
        }
    }
    argv[n] = NULL;
    return n;
}

static int open_log(const char *name)
{
    return openat(KEEPER_DIR_FD, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
                  0644);
}

static int task_start(struct arena *a, const char *container, int out, int error, struct proc *ret,
                      struct err *e)
{
    AUTO_BUF(text, KEEPER_ARENA_MAX / 16);
    const char **argv = mem_new_array(const char *, ARGS_MAX + 1);
    const char **env = mem_new_array(const char *, ENV_MAX + 1);
    struct proc_spec spec = PROC_SPEC(NULL, argv);
    const struct json *process;
    size_t env_count = 0;
    struct json *task;
    struct str dir;
    int r;

    r = io_read_regular(KEEPER_DIR_FD, "task.json", KEEPER_ARENA_MAX / 16, &text, e);
    if (r >= 0)
        r = json_parse(a, buf_str(&text), NULL, &task, e);
    if (r < 0)
        return r;
    process = json_get(task, STR("process"));
    for (char **at = environ; *at; at++)
        env_put(env, &env_count, *at, str_find(str_of(*at), '='));
    if (container[0]) {
        r = enter_container(a, container, env, &env_count, e);
        if (r < 0)
            return r;
    }
    env_of_task(a, process, env, &env_count);
    if (!args_of(process, argv))
        return err_set(e, EINVAL, "process.command is empty");
    spec.path = find_program(a, argv[0], env);
    spec.env = env;
    spec.stdio[1] = out;
    spec.stdio[2] = error;
    if (json_to_str(json_get(process, STR("workingDir")), &dir) == 0 && dir.n) {
        spec.cwd_fd = fd_open_at(AT_FDCWD, dir.p, O_RDONLY | O_DIRECTORY, 0, PATH_FREE, e);
        if (spec.cwd_fd < 0)
            return err_wrap(e, spec.cwd_fd, "workingDir");
    }
    return proc_spawn(&spec, ret, e);
}

int keeper_main(int argc UNUSED, char **argv)
{
    AUTO_ARENA(arena, KEEPER_ARENA_MAX);
    struct proc child = PROC_NONE;
    struct proc_exit how = {0};
    struct err e = {0};
    int out, error, r;

    (void)signal(SIGTERM, forward);
    (void)signal(SIGINT, forward);
    if (fcntl(KEEPER_DIR_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(READY_FD, F_SETFD, FD_CLOEXEC) < 0 ||
        write_pid() < 0)
        return EXIT_FAILURE;
    r = (int)write(READY_FD, "1", 1);
    (void)r;
    fd_close(READY_FD);
    out = open_log("stdout.log");
    error = open_log("stderr.log");
    if (out < 0 || error < 0)
        r = err_sys(&e, errno, "open the logs");
    else
        r = task_start(&arena, argv[2], out, error, &child, &e);
    if (r < 0) {
        if (error >= 0)
            (void)dprintf(error, "task-executor: %s\n", e.msg);
        write_exit(NOT_FOUND_CODE);
        return EXIT_SUCCESS;
    }
    task_pid = child.pid;
    if (early_signal)
        (void)kill(task_pid, early_signal);
    do
        r = proc_wait(child.pidfd, DEADLINE_NEVER, &how);
    while (r == -EINTR);
    write_exit(r < 0 ? NOT_FOUND_CODE : how.by_signal ? 128 + how.code : how.code);
    return EXIT_SUCCESS;
}
