#include "execd/pty/pty.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "execd/command/command.h"
#include "execd/core/envs.h"
#include "execd/core/path.h"

enum { START_ARENA_BYTES_MAX = 8 << 20 };

struct ptys {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    struct map by_id;
    struct list all; /* of struct pty, including removed ones */
    size_t count;
};

static const struct pty_proc_ops session_ops;

/* --- the table --- */

void ptys_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
              struct ptys **ret)
{
    struct ptys *all = mem_new(struct ptys);

    all->loop = loop;
    all->reaper = reaper;
    all->place = *place;
    map_init(&all->by_id, PTYS_MAX, NULL);
    list_init(&all->all);
    *ret = all;
}

struct pty *ptys_find(const struct ptys *all, struct str id)
{
    return map_get(&all->by_id, id);
}

static void pty_free(struct pty *p)
{
    pty_kill_stop(&p->kill);
    pty_proc_done(&p->proc);
    pty_replay_drop(&p->replay);
    list_remove(&p->link);
    p->all->count--;
    free(p->cwd);
    free(p->command);
    free(p);
}

static void pty_lose_viewer(struct pty *p, bool taken_over)
{
    const struct pty_viewer_ops *ops = p->ops;
    void *user = p->user;

    if (!ops)
        return;
    pty_release(p);
    ops->on_lost(user, taken_over);
}

void ptys_free(struct ptys *all)
{
    if (!all)
        return;
    loop_settle(all->loop); /* runs what the sessions deferred */
    LIST_EACH(&all->all, at)
    {
        struct pty *p = container_of(at, struct pty, link);

        pty_lose_viewer(p, false);
        pty_free(p);
    }
    map_done(&all->by_id);
    free(all);
}

void ptys_signal(struct ptys *all, int signo)
{
    LIST_EACH(&all->all, at)
    {
        struct pty_proc *proc = &container_of(at, struct pty, link)->proc;

        pty_proc_signal(proc, signo);
        if (pty_proc_pid(proc) > 0)
            (void)kill(-pty_proc_pid(proc), signo);
    }
}

void ptys_hang_up(struct ptys *all)
{
    ptys_signal(all, SIGHUP);
    ptys_signal(all, SIGCONT); /* a stopped process could not end */
}

/* Copies a string whose length comes from a client: fails without aborting. */
static int copy_text(struct str s, char **ret)
{
    if (!s.p)
        return 0;
    *ret = mem_try_realloc(NULL, s.n + 1);
    if (!*ret)
        return -ENOMEM;
    if (s.n)
        memcpy(*ret, s.p, s.n);
    (*ret)[s.n] = '\0';
    return 0;
}

/* Removes the oldest session that has no viewer and no shell. */
static bool ptys_make_room(struct ptys *all)
{
    if (all->count < PTYS_MAX)
        return true;
    LIST_EACH(&all->all, at)
    {
        struct pty *p = container_of(at, struct pty, link);

        if (p->ops || p->removed || p->proc.state != PTY_IDLE)
            continue;
        pty_remove(p, NULL, NULL);
        return true;
    }
    return false;
}

int pty_new(struct ptys *all, struct str cwd, struct str command, struct pty **ret, struct err *e)
{
    struct pty *p;

    if (!ptys_make_room(all))
        return err_set(e, EAGAIN, "%d sessions are in use already", PTYS_MAX);
    p = mem_new(struct pty);
    p->all = all;
    id_uuid(p->id);
    pty_replay_init(&p->replay);
    pty_proc_init(&p->proc, all->loop, all->reaper, &session_ops);
    list_push(&all->all, &p->link);
    all->count++;
    if (copy_text(cwd, &p->cwd) < 0 || copy_text(command, &p->command) < 0 ||
        map_add(&all->by_id, str_of(p->id), p) < 0) {
        pty_free(p);
        return err_set(e, ENOMEM, "no memory for another session");
    }
    *ret = p;
    return 0;
}

/* Drops the replays of the oldest ended sessions. */
static void ptys_prune_replays(struct ptys *all)
{
    size_t bytes = 0;

    for (struct list *at = all->all.prev; at != &all->all; at = at->prev) {
        struct pty *p = container_of(at, struct pty, link);

        if (p->proc.state != PTY_IDLE)
            continue;
        bytes += pty_replay_kept(&p->replay);
        if (bytes > PTYS_ENDED_REPLAY_BYTES_MAX)
            pty_replay_drop(&p->replay);
    }
}

/* --- removal --- */

/* Frees a removed session once its processes were killed and its shell has ended. */
static void pty_free_if_over(struct pty *p)
{
    if (!p->removed || p->kill.dir || p->proc.state != PTY_IDLE)
        return;
    pty_lose_viewer(p, false); /* a viewer that had not begun */
    pty_free(p);
}

static void pty_on_killed(struct pty_kill *k)
{
    struct pty *p = container_of(k, struct pty, kill);

    if (p->on_removed)
        p->on_removed(p->removed_user);
    p->on_removed = NULL;
    pty_free_if_over(p);
}

void pty_remove(struct pty *p, void (*on_done)(void *user), void *user)
{
    (void)map_take(&p->all->by_id, str_of(p->id));
    p->removed = true;
    p->on_removed = on_done;
    p->removed_user = user;
    if (pty_proc_pid(&p->proc) > 0)
        pty_kill_start(&p->kill, p->all->loop, pty_proc_pid(&p->proc), pty_on_killed);
    else
        pty_on_killed(&p->kill);
}

void pty_forget_removal(struct pty *p)
{
    p->on_removed = NULL;
}

/* --- viewers --- */

bool pty_is_running(const struct pty *p)
{
    return p->proc.state == PTY_STARTING || p->proc.state == PTY_RUNNING;
}

void pty_hold(struct pty *p, const struct pty_viewer_ops *ops, void *user)
{
    pty_lose_viewer(p, true);
    p->ops = ops;
    p->user = user;
}

void pty_release(struct pty *p)
{
    p->ops = NULL;
    p->live = p->hung_up = false;
    pty_proc_resume(&p->proc);
}

void pty_note_hangup(struct pty *p)
{
    p->hung_up = true;
}

ssize_t pty_write(struct pty *p, struct str data)
{
    return pty_proc_write(&p->proc, data);
}

void pty_resume(struct pty *p)
{
    pty_proc_resume(&p->proc);
}

static void pty_fail(struct pty *p, const struct err *why)
{
    const struct pty_viewer_ops *ops = p->ops;
    void *user = p->user;

    if (!ops)
        return;
    pty_release(p);
    ops->on_fail(user, why);
}

static void pty_go_live(struct pty *p)
{
    if (!p->ops)
        return;
    p->live = true;
    if (!p->ops->on_ready(p->user))
        pty_proc_pause(&p->proc);
}

/* --- the shell --- */

static void session_on_start(struct pty_proc *proc, const struct err *why_not)
{
    struct pty *p = container_of(proc, struct pty, proc);

    if (!why_not) {
        pty_go_live(p);
        return;
    }
    pty_fail(p, why_not);
    pty_free_if_over(p);
}

static bool session_on_output(struct pty_proc *proc, enum pty_channel from, struct str data)
{
    struct pty *p = container_of(proc, struct pty, proc);

    pty_replay_add(&p->replay, data);
    if (!p->live)
        return true;
    pty_replay_mark_sent(&p->replay);
    return p->ops->on_output(p->user, from, data);
}

static void session_on_room(struct pty_proc *proc)
{
    struct pty *p = container_of(proc, struct pty, proc);

    if (p->ops)
        p->ops->on_room(p->user);
}

static void session_on_end(struct pty_proc *proc, int exit_code)
{
    struct pty *p = container_of(proc, struct pty, proc);
    const struct pty_viewer_ops *ops = p->live ? p->ops : NULL;
    void *user = p->user;

    if (ops) {
        pty_release(p);
        ops->on_end(user, exit_code);
    }
    list_move(&p->all->all, &p->link);
    ptys_prune_replays(p->all);
    pty_free_if_over(p);
}

static const struct pty_proc_ops session_ops = {
    .on_start = session_on_start,
    .on_output = session_on_output,
    .on_room = session_on_room,
    .on_end = session_on_end,
};

/* --- starting the shell --- */

/* Builds the shell's argv. bash reads no startup files; its flags are not for sh. */
static int make_argv(const struct pty *p, struct arena *a, struct str path, const char *argv[6])
{
    AUTO_BUF(shell, EXECD_PATH_BYTES_MAX);
    bool is_bash = command_find_program(path, "bash", &shell);
    size_t n = 1;

    if (!is_bash && !command_find_program(path, "sh", &shell))
        (void)buf_add(&shell, STR("/bin/sh")); /* its exec will report that it is missing */
    argv[0] = arena_strdup(a, buf_str(&shell));
    if (is_bash) {
        argv[n++] = "--norc";
        argv[n++] = "--noprofile";
    }
    if (p->command) {
        argv[n++] = "-c";
        argv[n++] = p->command;
    }
    argv[n] = NULL;
    return argv[0] ? 0 : -ENOMEM;
}

/* The environment of a command; on a terminal also TERM. */
static int make_env(struct arena *a, bool is_pty, const char *const **ret)
{
    static const struct json_pair term = {STR_INIT("TERM"), STR_INIT("xterm-256color")};
    const char *const *ours = (const char *const *)environ;
    AUTO_BUF(file, ENVS_FILES_BYTES_MAX);
    int r;

    envs_read_file(ours, &file);
    r = envs_make(a, ours, buf_str(&file), NULL, 0, ret);
    if (r >= 0 && is_pty && !path_env(*ret, STR("TERM")).n)
        r = envs_make(a, ours, buf_str(&file), &term, 1, ret);
    return r;
}

static int pty_start(struct pty *p, bool is_pty, struct err *e)
{
    AUTO_ARENA(arena, START_ARENA_BYTES_MAX);
    const char *argv[6];
    struct pty_spec spec = {
        .is_pty = is_pty,
        .argv = argv,
        .cwd = p->cwd,
        .place = &p->all->place,
    };
    int r = make_env(&arena, is_pty, &spec.env);

    if (r >= 0)
        r = make_argv(p, &arena, path_env(spec.env, STR("PATH")), argv);
    if (r < 0)
        return err_sys(e, -r, "environment");
    return pty_proc_start(&p->proc, &spec, e);
}

void pty_begin(struct pty *p, bool is_pty)
{
    struct err e = {0};

    switch (p->proc.state) {
    case PTY_IDLE:
        if (pty_start(p, is_pty, &e) < 0)
            pty_fail(p, &e);
        break;
    case PTY_STARTING:
        break; /* session_on_start() follows */
    case PTY_RUNNING:
    case PTY_DRAINING:
        pty_go_live(p);
        break;
    }
}
