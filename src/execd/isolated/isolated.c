#include "execd/isolated/isolated.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/files/file_view.h"
#include "execd/isolated/isolated_gauge.h"
#include "execd/tree/fs.h"
#include "execd/tree/remove.h"

enum { UPPER_MODE = 0700, WHY_BYTES_MAX = 256 };
#define OVERLAY_MAGIC 0x794c7630
#define NS_PER_S      UINT64_C(1000000000)

struct isolated_all {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    struct isolated_conf conf;
    struct map by_id;
    struct file_views views;
    char unavailable[WHY_BYTES_MAX]; /* "" = works as far as is known */
};

/* --- the table --- */

void isolated_new_all(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                      const struct isolated_conf *conf, struct isolated_all **ret)
{
    struct isolated_all *all = mem_new(struct isolated_all);

    *all = (struct isolated_all){.loop = loop, .reaper = reaper, .place = *place, .conf = *conf};
    file_views_init(&all->views, loop, reaper);
    map_init(&all->by_id, ISOLATED_MAX, NULL);
    *ret = all;
}

const struct isolated_conf *isolated_conf(const struct isolated_all *all)
{
    return &all->conf;
}

struct loop *isolated_loop(const struct isolated_all *all)
{
    return all->loop;
}

struct file_views *isolated_views(struct isolated_all *all)
{
    return &all->views;
}

struct reaper *isolated_reaper(const struct isolated_all *all)
{
    return all->reaper;
}

static bool has_capability(int cap)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{0}};

    return syscall(SYS_capget, &head, sets) == 0 && sets[cap / 32].effective >> cap % 32 & 1;
}

bool isolated_available(const struct isolated_all *all, const char **ret_why)
{
    if (all->unavailable[0])
        *ret_why = all->unavailable;
    else if (!has_capability(CAP_SYS_ADMIN))
        *ret_why = "isolated sessions need CAP_SYS_ADMIN, which execd does not have here";
    else
        return true;
    return false;
}

void isolated_set_unavailable(struct isolated_all *all, const char *why)
{
    (void)snprintf(all->unavailable, sizeof(all->unavailable), "%s", why);
}

uint64_t isolated_upper_bytes(const struct isolated_all *all)
{
    uint64_t most = all->conf.upper_bytes_max;

    return most < ISOLATED_UPPER_BYTES ? most : ISOLATED_UPPER_BYTES;
}

/* An overlay cannot use a directory of another overlay as its upper layer. Persistent layers need
 * another file system mounted at the upper root. */
bool isolated_can_persist(const struct isolated_all *all)
{
    struct statfs fs;

    return all->conf.upper_root && statfs(all->conf.upper_root, &fs) == 0 &&
           fs.f_type != OVERLAY_MAGIC && access(all->conf.upper_root, W_OK) == 0;
}

void isolated_each(const struct isolated_all *all,
                   void (*see)(void *user, const struct isolated *s), void *user)
{
    void *value;
    size_t at = 0;

    while (map_next(&all->by_id, &at, NULL, &value)) {
        const struct isolated *s = value;

        if (isolated_find(all, str_of(s->id)))
            see(user, s);
    }
}

struct isolated *isolated_find(const struct isolated_all *all, struct str id)
{
    struct isolated *s = map_get(&all->by_id, id);

    return s && s->state != ISOLATED_GONE && (s->created_us || s->alone) ? s : NULL;
}

int isolated_new(struct isolated_all *all, struct isolated **ret, struct err *e)
{
    struct isolated *s = mem_new(struct isolated);

    s->all = all;
    s->place = all->place;
    s->place.enter = box_enter;
    s->place.box = &s->box;
    s->workspace = s->channel = -EBADF;
    for (size_t i = 0; i < BOX_FDS; i++)
        s->box.fds[i] = -EBADF;
    arena_init(&s->arena, ISOLATED_ARENA_BYTES_MAX);
    id_uuid(s->id);
    if (map_add(&all->by_id, str_of(s->id), s) < 0) {
        free(s);
        return err_set(e, EAGAIN, "there are %d isolated sessions already", ISOLATED_MAX);
    }
    *ret = s;
    return 0;
}

int isolated_open_workspace(struct isolated *s)
{
    s->workspace = open(s->spec.workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return s->workspace < 0 ? -errno : 0;
}

int isolated_workspace_path(const struct isolated *s, char out[BOX_PATH_BYTES_MAX])
{
    char link[sizeof("/proc/self/fd/") + 12];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", s->workspace);
    n = readlink(link, out, BOX_PATH_BYTES_MAX - 1);
    if (n < 0)
        return -errno;
    out[n] = '\0';
    return 0;
}

/* --- ending --- */

static void isolated_free(struct isolated *s)
{
    fd_close(s->box.fds[BOX_FD_UPPER]);
    fd_close(s->workspace);
    arena_done(&s->arena);
    free(s);
}

static void close_namespaces(struct isolated *s)
{
    for (size_t i = 0; i < BOX_FDS; i++)
        if (i != BOX_FD_UPPER)
            fd_close(take_fd(&s->box.fds[i]));
}

/* When its first process dies, the kernel kills all other processes in the box. */
static void stop_box(struct isolated *s)
{
    pid_t pid = s->init.pid;

    isolated_shell_free(s);
    file_view_free(take_ptr(&s->view));
    gauge_stop(s->gauge);
    s->gauge = NULL;
    child_proc_stop(&s->init);
    if (pid > 0)
        (void)kill(pid, SIGKILL);
    fd_close(take_fd(&s->channel));
    close_namespaces(s);
}

void isolated_drop(struct isolated *s)
{
    struct isolated_all *all = s->all;

    stop_box(s);
    loop_timer_stop(all->loop, &s->timer);
    if (s->upper[0])
        remove_in_background(all->loop, s->upper);
    (void)map_take(&all->by_id, str_of(s->id));
    isolated_free(s);
}

/* A session that a request holds is freed by the last isolated_release(). */
void isolated_remove(struct isolated *s)
{
    if (s->users == 0) {
        isolated_drop(s);
        return;
    }
    stop_box(s);
    loop_timer_stop(s->all->loop, &s->timer);
    s->state = ISOLATED_GONE;
}

static void on_retention_over(struct loop_timer *t)
{
    isolated_remove(container_of(t, struct isolated, timer));
}

void isolated_end(struct isolated *s)
{
    uint64_t retain_s = s->upper[0] && s->state == ISOLATED_READY ? s->spec.retain_s : 0;

    if (retain_s == 0) {
        isolated_remove(s);
        return;
    }
    stop_box(s);
    s->state = ISOLATED_RETAINED;
    loop_timer_set(s->all->loop, &s->timer, loop_now_ns(s->all->loop) + retain_s * NS_PER_S,
                   on_retention_over);
}

void isolated_free_all(struct isolated_all *all)
{
    void *value;
    size_t at = 0;

    if (!all)
        return;
    while (map_next(&all->by_id, &at, NULL, &value)) {
        struct isolated *s = value;

        stop_box(s);
        loop_timer_stop(all->loop, &s->timer);
        isolated_free(s);
    }
    file_views_finish(&all->views);
    map_done(&all->by_id);
    free(all);
}

void isolated_end_streams(struct isolated_all *all)
{
    void *value;
    size_t at = 0;

    while (map_next(&all->by_id, &at, NULL, &value)) {
        struct isolated *s = value;

        isolated_shell_free(s);
        file_view_free(take_ptr(&s->view));
    }
}

/* --- use --- */

bool isolated_is_busy(const struct isolated *s)
{
    return s->run || s->users > 0;
}

void isolated_hold(struct isolated *s)
{
    s->users++;
    s->touched_ns = time_mono_ns();
}

void isolated_release(struct isolated *s)
{
    s->users--;
    s->touched_ns = time_mono_ns();
    if (s->users == 0 && s->state == ISOLATED_GONE)
        isolated_drop(s);
}

size_t isolated_idle_left_s(const struct isolated *s)
{
    uint64_t idle_ns = time_mono_ns() - s->touched_ns, all_ns = s->spec.idle_s * NS_PER_S;

    if (isolated_is_busy(s))
        return s->spec.idle_s;
    return idle_ns < all_ns ? (size_t)((all_ns - idle_ns + NS_PER_S - 1) / NS_PER_S) : 0;
}

const char *isolated_why_ended(const struct isolated *s, char out[ISOLATED_WHY_MAX])
{
    if (!s->outgrown)
        return NULL;
    (void)snprintf(out, ISOLATED_WHY_MAX, "the layer is larger than %llu bytes",
                   (unsigned long long)s->spec.upper_bytes);
    return out;
}

static void idle_watch(struct isolated *s, uint64_t in_s);

static void on_idle(struct loop_timer *t)
{
    struct isolated *s = container_of(t, struct isolated, timer);
    size_t left = isolated_idle_left_s(s);

    if (isolated_is_busy(s))
        s->touched_ns = time_mono_ns();
    if (left > 0) {
        idle_watch(s, left);
        return;
    }
    log_event(LOG_INFO, "an isolated session idled too long, ending it", LOG_STR("id", s->id));
    isolated_end(s);
}

static void idle_watch(struct isolated *s, uint64_t in_s)
{
    if (s->spec.idle_s > 0)
        loop_timer_set(s->all->loop, &s->timer, loop_now_ns(s->all->loop) + in_s * NS_PER_S,
                       on_idle);
}

/* --- start --- */

static void fail(struct isolated *s, const struct err *why)
{
    void (*on_ready)(void *, struct isolated *, const struct err *) = s->on_ready;

    s->on_ready = NULL;
    if (on_ready)
        on_ready(s->user, NULL, why);
    isolated_drop(s);
}

/* Receives the descriptors that the box sent before it closed its report. */
static int take_descriptors(struct isolated *s, struct err *e)
{
    uint8_t which[FD_SEND_MAX];
    int fds[FD_SEND_MAX], r;
    size_t n = 0, count = 0;

    r = fd_recv(s->channel, which, sizeof(which), &n, fds, &count);
    if (r < 0)
        return err_sys(e, -r, "receive the session's report");
    for (size_t i = 0; i < count; i++) {
        if (i < n && which[i] < BOX_FDS && s->box.fds[which[i]] < 0)
            s->box.fds[which[i]] = fds[i];
        else
            fd_close(fds[i]);
    }
    return s->box.fds[BOX_FD_MNT] >= 0 && s->box.fds[BOX_FD_PID] >= 0
               ? 0
               : err_set(e, EPROTO, "the session's first process sent no namespaces");
}

static void on_outgrown(struct isolated *s)
{
    log_event(LOG_WARN, "the layer of an isolated session is too large, ending it",
              LOG_STR("id", s->id));
    s->outgrown = true;
    isolated_end(s);
}

static void on_start_of_box(struct child_proc *init, const struct err *why)
{
    struct isolated *s = container_of(init, struct isolated, init);
    void (*on_ready)(void *, struct isolated *, const struct err *) = s->on_ready;
    struct err e = {0};

    if (!why && take_descriptors(s, &e) < 0)
        why = &e;
    if (why) {
        fail(s, why);
        return;
    }
    s->state = ISOLATED_READY;
    s->created_us = s->created_us ? s->created_us : time_wall_us();
    s->touched_ns = time_mono_ns();
    idle_watch(s, s->spec.idle_s);
    if (s->upper[0])
        s->gauge = gauge_start(s, s->spec.upper_bytes, on_outgrown);
    s->on_ready = NULL;
    if (on_ready)
        on_ready(s->user, s, NULL);
}

/* The box was killed by a signal, or by the OOM killer. */
static void on_exit_of_box(struct child_proc *init, const struct proc_exit *how UNUSED)
{
    struct isolated *s = container_of(init, struct isolated, init);

    log_event(LOG_WARN, "an isolated session was killed", LOG_STR("id", s->id));
    isolated_end(s);
}

static const struct child_proc_ops box_ops = {
    .name = "a session",
    .on_start = on_start_of_box,
    .on_exit = on_exit_of_box,
};

static int make_upper(struct isolated *s, struct err *e)
{
    int r;

    if (s->spec.mode != BOX_OVERLAY || !s->spec.persist)
        return 0;
    (void)snprintf(s->upper, sizeof(s->upper), "%.80s/%s.%u", s->all->conf.upper_root, s->id,
                   s->layers);
    r = fs_make_dirs(s->upper, UPPER_MODE, NULL);
    if (r < 0)
        s->upper[0] = '\0';
    return r < 0 ? err_sys(e, -r, "make a place for the layer") : 0;
}

/* A process of the sandbox could have replaced it with a symlink. */
static bool is_directory(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int start_box(struct isolated *s, int channel, struct err *e)
{
    const char *const argv[] = {"session", NULL};
    struct proc_spec how = PROC_SPEC("session", argv);
    char real[BOX_PATH_BYTES_MAX];
    struct box_plan plan = {
        .workspace = s->spec.workspace,
        .real = real,
        .place = s->workspace,
        .mode = s->spec.mode,
        .upper = s->upper[0] ? s->upper : NULL,
        .upper_bytes = s->spec.upper_bytes,
        .hidden = s->all->conf.upper_root,
        .own_tmp = s->spec.profile == ISOLATED_STRICT,
        .share_net = s->spec.share_net,
        .channel = channel,
    };
    int r = isolated_workspace_path(s, real);

    if (r < 0)
        return err_sys(e, -r, "find the workspace");
    if (!plan.own_tmp && is_directory("/tmp"))
        plan.writable[plan.writable_count++] = "/tmp";
    for (size_t i = 0; i < s->spec.writable_count; i++)
        plan.writable[plan.writable_count++] = s->spec.writable[i];
    how.flags = PROC_NEW_SESSION;
    how.namespaces = box_namespaces(&plan);
    how.groups = &s->all->place.groups;
    how.prepare = box_become;
    how.user = &plan;
    return child_proc_start(&s->init, s->all->loop, s->all->reaper, &how, &box_ops, e);
}

int isolated_start(struct isolated *s,
                   void (*on_ready)(void *user, struct isolated *s, const struct err *why),
                   void *user, struct err *e)
{
    int pair[2], r = make_upper(s, e);

    s->state = ISOLATED_STARTING;
    s->box.user = s->spec.user;
    s->on_ready = on_ready;
    s->user = user;
    if (r >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = err_sys(e, errno, "make a channel");
    if (r >= 0) {
        s->channel = pair[0];
        r = start_box(s, pair[1], e);
        fd_close(pair[1]);
    }
    if (r < 0)
        isolated_drop(s);
    return r;
}

void isolated_ignore(struct isolated *s)
{
    s->on_ready = NULL;
}

void isolated_forget(struct isolated *s)
{
    isolated_ignore(s);
    isolated_end(s);
}

/* Removes the old layer; runs end as killed. */
int isolated_restart(struct isolated *s,
                     void (*on_ready)(void *user, struct isolated *s, const struct err *why),
                     void *user, struct err *e)
{
    stop_box(s);
    loop_timer_stop(s->all->loop, &s->timer);
    fd_close(take_fd(&s->box.fds[BOX_FD_UPPER]));
    if (s->upper[0])
        remove_in_background(s->all->loop, s->upper);
    s->upper[0] = '\0';
    s->layers++;
    return isolated_start(s, on_ready, user, e);
}
