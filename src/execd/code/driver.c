#include "execd/code/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/code/driver_internal.h"
#include "execd/command/command.h"
#include "execd/core/duration.h"
#include "execd/core/exit_text.h"
#include "execd/core/path.h"

enum {
    REQUEST_BYTES_MAX = 52 << 20, /* each byte of 8 MiB may take six */
};

static struct driver *driver_of(struct kernel *k)
{
    return container_of(k, struct driver, kernel);
}

/* Signals its process group. */
static void driver_signal(struct driver *d, int signo)
{
    if (d->child.pid > 0)
        (void)kill(-d->child.pid, signo); /* not reaped yet: the pid still names its group */
}

static void driver_timer(struct driver *d, uint64_t ms, void (*on_due)(struct loop_timer *))
{
    loop_timer_set(d->loop, &d->timer, deadline_in_ms(ms), on_due);
}

/* --- ending --- */

static void requests_ignore(struct driver *d)
{
    if (d->requests_watched)
        loop_io_stop(d->loop, &d->requests);
    d->requests_watched = false;
}

static void requests_close(struct driver *d)
{
    requests_ignore(d);
    fd_close(d->requests_fd);
    d->requests_fd = -EBADF;
}

static void driver_free(struct kernel *k)
{
    struct driver *d;

    if (!k)
        return;
    d = driver_of(k);
    driver_signal(d, SIGKILL);
    child_proc_stop(&d->child);
    loop_timer_stop(d->loop, &d->timer);
    requests_close(d);
    for (size_t i = 0; i < DRIVER_PIPES; i++)
        child_pipe_close(&d->pipes[i].pipe);
    buf_done(&d->request);
    buf_done(&d->lines);
    d->owner = NULL;
    if (!d->resume.queued)
        free(d); /* otherwise the task does it */
}

/* Kills it; driver_on_exit() then reports why. */
static void driver_break(struct driver *d, const char *why)
{
    if (d->broken)
        return;
    d->broken = true;
    (void)snprintf(d->why, sizeof(d->why), "%s", why);
    child_pipe_ignore(&d->pipes[DRIVER_EVENTS].pipe);
    driver_signal(d, SIGKILL);
}

static void driver_set_exit(struct driver *d, const struct proc_exit *how)
{
    AUTO_BUF(text, EXIT_TEXT_MAX);
    const char *end;

    if (d->why[0])
        return;
    exit_text_add(&text, how);
    end = text.n ? text.p : "exit status 0";
    if (how->by_signal || d->ready)
        (void)snprintf(d->why, sizeof(d->why), "%s ended: %s", d->program, end);
    else
        (void)snprintf(d->why, sizeof(d->why), "%s ended before it was ready, %s: %s", d->program,
                       end, d->language->install);
}

/* --- output and events --- */

static void pipe_watch(struct driver_pipe *p)
{
    struct err e = {0};

    if (p->driver->reaped || p->driver->broken)
        return;
    if (child_pipe_watch(&p->pipe, &e) < 0)
        driver_break(p->driver, e.msg);
}

/* Passes text on, except an incomplete character at its end. `room` contains earlier cut-off bytes,
 * followed by the new ones, n in total. */
static void pipe_give(struct driver_pipe *p, const char *room, size_t n)
{
    struct driver *d = p->driver;
    const char *type = p == &d->pipes[DRIVER_STDOUT] ? "stdout" : "stderr";
    struct str text = str_make(room, n);
    size_t cut = utf8_cut_tail(text);

    memcpy(p->cut, room + n - cut, cut);
    p->cut_bytes = cut;
    if (n > cut)
        d->owner->on_stream(d->user, type, str_make(room, n - cut));
}

static bool pipe_read_output(struct driver_pipe *p, size_t most)
{
    char *room = loop_scratch(p->driver->loop);
    ssize_t n;

    memcpy(room, p->cut, p->cut_bytes);
    n = child_pipe_read(&p->pipe, room + p->cut_bytes, most);
    if (n > 0)
        pipe_give(p, room, p->cut_bytes + (size_t)n);
    return n > 0;
}

static bool pipe_read_events(struct driver_pipe *p)
{
    struct driver *d = p->driver;
    size_t most = d->reaped ? min_size(p->pipe.due, DRIVER_READ_BYTES) : DRIVER_READ_BYTES;
    ssize_t n;

    if (buf_reserve(&d->lines, DRIVER_READ_BYTES) < 0) {
        driver_break(d, "an event of the driver is larger than 16 MiB");
        return false;
    }
    n = child_pipe_read(&p->pipe, d->lines.p + d->lines.n, most);
    buf_claim(&d->lines, n > 0 ? (size_t)n : 0);
    return n > 0;
}

/* Counts what the pipes contain now: this includes everything printed before the current event. */
static void driver_count_due(struct driver *d)
{
    for (size_t i = DRIVER_STDOUT; i <= DRIVER_STDERR; i++)
        child_pipe_count(&d->pipes[i].pipe);
    d->drained = true;
}

static bool driver_drain(struct driver *d)
{
    for (size_t i = DRIVER_STDOUT; i <= DRIVER_STDERR; i++) {
        struct driver_pipe *p = &d->pipes[i];

        if (p->pipe.due > 0 && pipe_read_output(p, min_size(p->pipe.due, DRIVER_READ_BYTES)))
            return true;
        p->pipe.due = 0;
    }
    return false;
}

/* Passes on the last bytes that never became a character. */
static void driver_flush_cut(struct driver *d)
{
    for (size_t i = DRIVER_STDOUT; i <= DRIVER_STDERR; i++) {
        struct driver_pipe *p = &d->pipes[i];
        struct str text = str_make(p->cut, p->cut_bytes);

        p->cut_bytes = 0;
        if (text.n > 0)
            d->owner->on_stream(d->user, i == DRIVER_STDOUT ? "stdout" : "stderr", text);
    }
}

/* Passes on the next output or event, in order. False if there is none. */
static bool driver_step(struct driver *d)
{
    struct driver_pipe *events = &d->pipes[DRIVER_EVENTS];
    struct err e = {0};

    if (driver_drain(d))
        return true;
    if (!d->broken && driver_has_event(d)) {
        if (!d->drained) {
            driver_count_due(d);
            return true;
        }
        d->drained = false;
        if (driver_take_event(d, &e) < 0) {
            (void)err_wrap(&e, -e.code, "the driver broke its protocol");
            driver_break(d, e.msg);
        }
        return true;
    }
    if (!d->reaped || d->drained)
        return false;
    if (d->broken || events->pipe.due == 0 || !pipe_read_events(events))
        driver_count_due(d); /* for the last time */
    return true;
}

/* Continues until the owner pauses. After the process ended, only the pipes' contents are left, and
 * they are passed on even if paused. The driver may be freed afterwards. */
static void driver_advance(struct driver *d)
{
    while ((!d->paused || d->reaped) && driver_step(d))
        ;
    if (!d->reaped)
        return;
    driver_flush_cut(d);
    d->owner->on_death(d->user, d->why);
}

static void driver_watch(struct driver *d)
{
    for (size_t i = 0; i < DRIVER_PIPES; i++)
        if (d->paused)
            child_pipe_ignore(&d->pipes[i].pipe);
        else
            pipe_watch(&d->pipes[i]);
}

static void pipe_on_ready(struct child_pipe *pipe)
{
    struct driver_pipe *p = container_of(pipe, struct driver_pipe, pipe);
    struct driver *d = p->driver;

    /* Counts before reading: a driver that sees its pipe empty may rely on later output to follow
     * the event. */
    if (p == &d->pipes[DRIVER_EVENTS] && d->lines.n == 0)
        driver_count_due(d);
    if (p == &d->pipes[DRIVER_EVENTS])
        (void)pipe_read_events(p);
    else
        (void)pipe_read_output(p, DRIVER_READ_BYTES);
    driver_advance(d); /* not reaped, so not freed */
}

static void driver_on_resume(struct loop_task *t)
{
    struct driver *d = container_of(t, struct driver, resume);

    if (!d->owner) {
        free(d);
        return;
    }
    driver_watch(d);
    driver_advance(d);
}

static void driver_pause(struct kernel *k, bool on)
{
    struct driver *d = driver_of(k);

    if (d->paused == on)
        return;
    d->paused = on;
    loop_defer(d->loop, &d->resume, driver_on_resume);
}

/* --- the process --- */

static void driver_on_start(struct child_proc *child, const struct err *why)
{
    struct driver *d = container_of(child, struct driver, child);

    if (why)
        (void)snprintf(d->why, sizeof(d->why), "%s", why->msg);
}

static void driver_on_exit(struct child_proc *child, const struct proc_exit *how)
{
    struct driver *d = container_of(child, struct driver, child);

    driver_set_exit(d, how);
    loop_timer_stop(d->loop, &d->timer);
    requests_close(d);
    for (size_t i = 0; i < DRIVER_PIPES; i++)
        child_pipe_ignore(&d->pipes[i].pipe);
    child_pipe_count(
        &d->pipes[DRIVER_EVENTS].pipe); /* processes it left behind may write for ever */
    d->reaped = true;
    d->drained = false;
    driver_advance(d);
}

static void driver_on_late_start(struct loop_timer *t)
{
    driver_break(container_of(t, struct driver, timer), "the driver was not ready within 300 s");
}

/* --- cells --- */

static void requests_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    driver_send(container_of(io, struct driver, requests));
}

void driver_send(struct driver *d)
{
    struct err e = {0};
    ssize_t n;

    if (!d->ready || d->requests_fd < 0)
        return;
    n = d->request.n ? write(d->requests_fd, d->request.p + d->sent, d->request.n - d->sent) : 0;
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        requests_close(d); /* its exit will follow */
        return;
    }
    d->sent += n > 0 ? (size_t)n : 0;
    if (d->sent == d->request.n) {
        requests_ignore(d);
        buf_done(&d->request);
        d->sent = 0;
    } else if (!d->requests_watched) {
        d->requests_watched = loop_io_start(d->loop, &d->requests, d->requests_fd, EPOLLOUT,
                                            requests_on_ready, &e) == 0;
        if (!d->requests_watched)
            driver_break(d, e.msg);
    }
}

static void driver_on_grace_over(struct loop_timer *t)
{
    struct driver *d = container_of(t, struct driver, timer);
    char why[DRIVER_WHY_MAX];

    (void)snprintf(why, sizeof(why),
                   "timeout after %s; the cell did not end on SIGINT within %d ms: signal: "
                   "killed",
                   duration_text_of_ms(d->timeout_ms).s, DRIVER_GRACE_MS);
    driver_break(d, why);
}

static void driver_on_timeout(struct loop_timer *t)
{
    struct driver *d = container_of(t, struct driver, timer);

    d->timed_out = true;
    driver_signal(d, SIGINT);
    driver_timer(d, DRIVER_GRACE_MS, driver_on_grace_over);
}

void driver_begun(struct driver *d)
{
    d->begun = true;
    if (d->timeout_ms > 0)
        driver_timer(d, d->timeout_ms, driver_on_timeout);
    if (d->interrupt_due)
        driver_signal(d, SIGINT);
}

static int driver_interrupt(struct kernel *k)
{
    struct driver *d = driver_of(k);

    if (d->begun)
        driver_signal(d, SIGINT);
    else
        d->interrupt_due = d->busy;
    return 0;
}

static int write_request(struct driver *d, struct str code)
{
    struct json_writer w;
    int r;

    json_write_begin(&w, &d->request);
    json_write_object(&w);
    json_member_string(&w, STR("id"), str_of(d->id));
    json_member_u64(&w, STR("count"), d->count);
    json_member_string(&w, STR("code"), code);
    json_write_object_end(&w);
    r = json_write_end(&w);
    return r < 0 ? r : buf_add_char(&d->request, '\n');
}

static int driver_run(struct kernel *k, struct str code, uint64_t timeout_ms, struct err *e)
{
    struct driver *d = driver_of(k);

    if (d->busy)
        return err_set(e, EBUSY, "a cell runs already");
    if (d->reaped || d->broken)
        return err_set(e, EPIPE, "%s", d->why);
    id_request(d->id);
    d->count++;
    if (write_request(d, code) < 0) {
        buf_done(&d->request);
        return err_set(e, ENOMEM, "no memory for a cell of %zu bytes", code.n);
    }
    d->timeout_ms = timeout_ms;
    d->busy = true;
    d->begun = d->failed = d->timed_out = d->interrupt_due = false;
    driver_send(d);
    return 0;
}

/* --- start --- */

static int find_program(const struct driver_language *l, const char *const *env, struct buf *out,
                        const char *const **ret_argv, struct err *e)
{
    struct str path = path_env(env, STR("PATH"));
    bool complete = !l->needs || command_find_program(path, l->needs, out);

    buf_cut(out, 0);
    for (size_t i = 0; complete && i < DRIVER_PROGRAMS_MAX && l->programs[i]; i++) {
        if (!command_find_program(path, l->programs[i][0], out))
            continue;
        *ret_argv = l->programs[i];
        return 0;
    }
    return err_set(e, ENOENT, "%s is not in this image: %s", l->name, l->install);
}

/* The driver as a sealed file (memfd), which no process can change. */
static int make_script(const struct driver_language *l, int *ret, struct err *e)
{
    auto_fd fd = fd_memory("driver");
    int r;

    if (fd < 0)
        return err_sys(e, -fd, "a file in memory for the driver");
    r = io_write_full(fd, str_make(l->script, *l->script_bytes), DEADLINE_NEVER);
    if (r < 0)
        return err_sys(e, -r, "write the driver");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "seal the driver");
    *ret = take_fd(&fd);
    return 0;
}

struct start {
    const struct child_place *place;
    const char *cwd, *program;
};

static int child_prepare(void *user, struct proc_step *ret_step)
{
    static const struct child_user same = {.change = false};
    const struct start *s = user;

    return child_settle(s->place, &same, s->cwd, s->program, ret_step);
}

static const struct child_proc_ops driver_child_ops = {
    .name = "a driver",
    .on_start = driver_on_start,
    .on_exit = driver_on_exit,
};

static int driver_spawn(struct driver *d, const struct kernel_conf *conf, const char *const *argv,
                        int *theirs, struct err *e)
{
    struct start start = {&conf->place, conf->cwd, d->program};
    struct proc_spec spec = PROC_SPEC(d->program, argv);
    int r;

    spec.env = conf->env;
    spec.stdio[1] = theirs[0];
    spec.stdio[2] = theirs[1];
    spec.more = theirs + 2;
    spec.more_count = 3;
    spec.flags = PROC_NEW_GROUP;
    spec.groups = &conf->place.groups;
    spec.prepare = child_prepare;
    spec.user = &start;
    r = child_proc_start(&d->child, d->loop, conf->reaper, &spec, &driver_child_ops, e);
    if (r < 0)
        return r;
    driver_timer(d, DRIVER_START_MS_MAX, driver_on_late_start);
    driver_watch(d);
    return 0;
}

/* theirs: the child's stdout, stderr, requests, events, script. */
static int driver_open(struct driver *d, const struct kernel_conf *conf, const char *const *argv,
                       struct err *e)
{
    int theirs[] = {-EBADF, -EBADF, -EBADF, -EBADF, -EBADF};
    int r = make_script(d->language, &theirs[4], e);

    if (r >= 0)
        r = child_pipe_open(&d->pipes[DRIVER_STDOUT].pipe, &theirs[0], e);
    if (r >= 0)
        r = child_pipe_open(&d->pipes[DRIVER_STDERR].pipe, &theirs[1], e);
    if (r >= 0)
        r = fd_pipe(FD_PIPE_WRITE, &d->requests_fd, &theirs[2], e);
    if (r >= 0)
        r = child_pipe_open(&d->pipes[DRIVER_EVENTS].pipe, &theirs[3], e);
    if (r >= 0)
        r = driver_spawn(d, conf, argv, theirs, e);
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++)
        fd_close(theirs[i]);
    return r;
}

static int driver_start(const struct kernel_conf *conf, struct str language, struct kernel **ret,
                        struct err *e)
{
    const struct driver_language *l = driver_language_find(language);
    AUTO_BUF(program, EXECD_PATH_BYTES_MAX);
    const char *const *argv;
    struct driver *d;
    int r;

    if (!l)
        return err_set(e, ENOTSUP, "there is no driver for '%.*s'", STR_ARG(language));
    r = find_program(l, conf->env, &program, &argv, e);
    if (r < 0)
        return r;
    d = mem_new(struct driver);
    *d = (struct driver){
        .kernel = {&kernel_driver, "driver", l->unsure},
        .loop = conf->loop,
        .owner = conf->owner,
        .user = conf->user,
        .language = l,
        .requests_fd = -EBADF,
    };
    for (size_t i = 0; i < DRIVER_PIPES; i++) {
        d->pipes[i].driver = d;
        child_pipe_init(&d->pipes[i].pipe, d->loop, pipe_on_ready);
    }
    buf_init(&d->request, REQUEST_BYTES_MAX);
    buf_init(&d->lines, DRIVER_LINE_BYTES_MAX + DRIVER_READ_BYTES);
    r = str_copy(d->program, sizeof(d->program), buf_str(&program));
    if (r < 0)
        (void)err_sys(e, -r, "%s", program.p);
    else
        r = driver_open(d, conf, argv, e);
    if (r < 0) {
        driver_free(&d->kernel);
        return r;
    }
    *ret = &d->kernel;
    return 0;
}

const struct kernel_ops kernel_driver = {
    .start = driver_start,
    .run = driver_run,
    .interrupt = driver_interrupt,
    .pause = driver_pause,
    .free = driver_free,
    .grace_ms = KERNEL_GRACE_MS,
};
