#include "execd/init/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "api/report.h"
#include "base/fd.h"
#include "base/log.h"
#include "execd/init/options.h"

enum {
    READ_BYTES = ENTRY_LOG_CHUNK_MAX,
    LAST_READS_MAX = 64, /* root's pipe may hold 1 MiB, and other writers may still be active */
};
static_assert((int)READ_BYTES <= (int)LOOP_SCRATCH_BYTES, "output is read into the loop's scratch");

/* --- in the child, between fork and exec --- */

static int child_prepare(void *user, struct proc_step *ret_step)
{
    const struct entry_conf *conf = user;
    static const struct child_user usual = {.change = false};
    int r = child_settle(&conf->place, &usual, NULL, conf->argv[0], ret_step);

    if (r < 0)
        return r;
    if (conf->keep_fd > 0)
        (void)fcntl(conf->keep_fd, F_SETFD, 0);
    *ret_step = (struct proc_step){"exec", conf->argv[0]};
    execvp(conf->argv[0], (char *const *)conf->argv); /* exec only reads the arguments */
    return -errno;
}

/* --- its output --- */

/* If the log cannot be written, output is still read, so that the entrypoint does not block. */
static void entry_log_output(struct entry *en, struct str data)
{
    int r = entry_log_add(en->log, data);

    if (r < 0 && !en->log_failed) {
        log_event(LOG_WARN, "output of the entrypoint is lost, going on", LOG_I64("errno", -r));
        en->log_failed = true;
    }
}

/* Reads once. False at end of file, on an error, and when nothing is available. */
static bool pipe_read(struct entry_pipe *p)
{
    char *room = loop_scratch(p->entry->loop);
    ssize_t n = child_pipe_read(&p->pipe, room, READ_BYTES);

    if (n > 0)
        entry_log_output(p->entry, str_make(room, (size_t)n));
    return n > 0;
}

static void pipe_on_ready(struct child_pipe *pipe)
{
    (void)pipe_read(container_of(pipe, struct entry_pipe, pipe));
}

/* Creates a pipe and watches it; the caller closes *ret_end. */
static int pipe_open(struct entry_pipe *p, int *ret_end, struct err *e)
{
    int r = child_pipe_open(&p->pipe, ret_end, e);

    return r < 0 ? r : child_pipe_watch(&p->pipe, e);
}

/* --- public functions --- */

int entry_start(struct entry *en, struct loop *loop, struct entry_log *log,
                const struct entry_conf *conf, struct err *e)
{
    auto_fd out = -EBADF, err = -EBADF;
    struct proc_spec spec = PROC_SPEC(conf->argv[0], conf->argv);
    int r;

    *en = (struct entry){.loop = loop, .log = log, .proc = PROC_NONE};
    for (size_t i = 0; i < ARRAY_LEN(en->pipes); i++) {
        en->pipes[i].entry = en;
        child_pipe_init(&en->pipes[i].pipe, loop, pipe_on_ready);
    }
    r = conf->keep_output ? 0 : pipe_open(&en->pipes[0], &out, e);
    if (r >= 0 && !conf->keep_output)
        r = pipe_open(&en->pipes[1], &err, e);
    if (r >= 0) {
        spec.env = (const char *const *)environ;
        spec.stdio[1] = conf->keep_output ? STDOUT_FILENO : out;
        spec.stdio[2] = conf->keep_output ? STDERR_FILENO : err;
        spec.flags = PROC_NEW_SESSION;
        spec.groups = &conf->place.groups;
        spec.prepare = child_prepare;
        spec.user = (void *)conf; /* the child only reads it */
        r = proc_spawn(&spec, &en->proc, e);
    }
    if (r < 0)
        entry_done(en);
    return r;
}

static void entry_drain(struct entry *en)
{
    for (size_t i = 0; i < ARRAY_LEN(en->pipes); i++)
        for (int reads = 0; reads < LAST_READS_MAX && pipe_read(&en->pipes[i]);)
            reads++;
}

void entry_ended(struct entry *en)
{
    entry_drain(en);
    proc_close(&en->proc);
    en->proc = PROC_NONE;
}

void entry_done(struct entry *en)
{
    if (!en->loop)
        return;
    entry_drain(en); /* output of processes that outlived the entrypoint */
    for (size_t i = 0; i < ARRAY_LEN(en->pipes); i++)
        child_pipe_close(&en->pipes[i].pipe);
    proc_close(&en->proc);
    en->proc = PROC_NONE;
}
