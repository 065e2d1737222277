/* pull_layer.c - one layer of a pull: part opened, bytes received, written, checked, unpacked. */
#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "image/pull_internal.h"

enum {
    FILL_BYTES_MAX = 512 * 1024, /* received and not written yet */
    REHASH_BYTES = 256 * 1024,
};

static struct pull_layer *layer_of(struct pull_work *w)
{
    return container_of(w, struct pull_layer, work);
}

static const struct image_digest *digest_of(const struct pull_layer *l)
{
    return &l->descriptor->digest;
}

static void open_layer(struct pull_layer *l);

static void fail(struct pull_layer *l, int code, const char *why)
{
    pull_fail(l->job, code, "layer %zu of %zu (%.19s...): %s", l->number, l->job->layers_count,
              digest_of(l)->text, why);
}

/* --- the end --- */

static void leave(struct pull_layer *l, enum layer_state state)
{
    struct pull_job *job = l->job;

    l->state = state;
    buf_done(&l->fill);
    buf_done(&l->flush);
    list_remove(&l->link);
    job->layers_active--;
    job->layers_done += state == LAYER_DONE;
    pull_tell(job);
    pull_go_on(job);
}

/* Writes and hashes what is in `flush`. */
static int write_work(struct pull_work *w)
{
    struct pull_layer *l = layer_of(w);
    int r;

    if (l->flush_restarts) {
        image_hash_init_for(&l->hash, &l->descriptor->digest);
        if (ftruncate(l->fd, 0) < 0)
            return err_sys(&w->err, errno, "empty its file");
    }
    r = fd_pwrite_all(l->fd, l->flush.p, l->flush.n, (off_t)l->hash.bytes);
    if (r < 0)
        return err_sys(&w->err, -r, "write it");
    image_hash_add(&l->hash, buf_str(&l->flush));
    return 0;
}

/* The next pull begins where this one ends: what was received is written before, unless it is just
 * that which fails. */
static int abandon_work(struct pull_work *w)
{
    struct pull_layer *l = layer_of(w);

    if (l->fill.n && !l->write_failed && !l->flush.n) {
        struct buf spare = l->flush;

        l->flush = l->fill;
        l->fill = spare;
        l->flush_restarts = l->restart;
        (void)write_work(w);
    }
    pull_blobs(l->job)->abandon(l->job->session, digest_of(l), take_fd(&l->fd), true);
    return 0;
}

static void abandon_done(struct pull_work *w, int r UNUSED)
{
    if (layer_of(w)->fd >= 0)
        (void)abandon_work(w); /* no worker is left: the server is ending, and may wait */
    leave(layer_of(w), LAYER_WAITING);
}

void pull_layer_stop(struct pull_layer *l)
{
    const struct image_blobs_ops *ops = pull_blobs(l->job);

    if (l->fetch)
        image_fetch_cancel(take_ptr(&l->fetch));
    if (l->state == LAYER_UNPACKING) {
        ops->unpack_cancel(l->job->session, &l->unpack);
    } else if (l->state == LAYER_DOWNLOADING && !l->writing) {
        l->state = LAYER_STOPPING;
        pull_work_start(&l->work, abandon_work, abandon_done, 0);
    }
    /* In every other state a worker is at it, whose end is awaited. */
}

/* A worker came back after the pull had failed. */
static void stop_after_work(struct pull_layer *l)
{
    if (l->fd < 0) {
        leave(l, LAYER_WAITING);
        return;
    }
    l->state = LAYER_STOPPING;
    pull_work_start(&l->work, abandon_work, abandon_done, 0);
}

/* --- unpacking --- */

static void unpack_done(struct image_unpack *u, int error)
{
    struct pull_layer *l = container_of(u, struct pull_layer, unpack);

    l->job->busy--;
    if (error && !l->job->failed) {
        l->state = LAYER_STOPPING; /* it needs no stop */
        fail(l, error, u->err.msg);
    }
    leave(l, error ? LAYER_WAITING : LAYER_DONE);
}

static void unpack(struct pull_layer *l)
{
    struct err e = {0};
    int r;

    l->state = LAYER_UNPACKING;
    l->unpack =
        (struct image_unpack){.layer = l->descriptor, .diff_id = l->diff_id, .done = unpack_done};
    pull_tell(l->job);
    r = pull_blobs(l->job)->unpack(l->job->session, &l->unpack, &e);
    if (r == 0) {
        l->job->busy++;
        return;
    }
    l->state = LAYER_STOPPING;
    fail(l, -r, e.msg);
    leave(l, LAYER_WAITING);
}

/* --- all bytes are there --- */

static int check_work(struct pull_work *w)
{
    struct pull_layer *l = layer_of(w);
    const struct image_blobs_ops *ops = pull_blobs(l->job);
    int r = image_hash_check(&l->hash, digest_of(l), &w->err);

    if (r < 0)
        ops->abandon(l->job->session, digest_of(l), take_fd(&l->fd), false);
    else
        r = ops->commit(l->job->session, digest_of(l), take_fd(&l->fd), &w->err);
    return r;
}

static void check_done(struct pull_work *w, int r)
{
    struct pull_layer *l = layer_of(w);

    if (l->job->failed) {
        stop_after_work(l);
    } else if (r == -EBADMSG && !l->tried_again) {
        /* A part of an earlier pull, or a mirror, may be to blame: once more from nothing. */
        l->tried_again = l->skip_mirrors = true;
        l->job->bytes_done -= l->received;
        open_layer(l);
    } else if (r < 0) {
        l->state = LAYER_STOPPING;
        fail(l, -r, w->err.msg);
        stop_after_work(l);
    } else {
        unpack(l);
    }
}

static void check(struct pull_layer *l)
{
    l->state = LAYER_CHECKING;
    pull_work_start(&l->work, check_work, check_done, POOL_SLOW);
}

/* --- bytes on their way --- */

static void write_more(struct pull_layer *l);

static void write_done(struct pull_work *w, int r)
{
    struct pull_layer *l = layer_of(w);

    l->writing = false;
    l->write_failed = r < 0;
    buf_clear(&l->flush);
    if (l->job->failed) {
        stop_after_work(l);
    } else if (r < 0) {
        if (l->fetch)
            image_fetch_cancel(take_ptr(&l->fetch));
        fail(l, -r, w->err.msg); /* which stops this layer, too */
    } else {
        write_more(l);
        if (l->fetch && l->stopped) {
            l->stopped = false;
            image_fetch_resume(l->fetch);
        }
    }
}

static void write_more(struct pull_layer *l)
{
    struct buf spare = l->flush;

    if (l->writing)
        return;
    if (l->fill.n == 0) {
        if (l->ended)
            check(l);
        return;
    }
    l->flush = l->fill;
    l->fill = spare;
    l->flush_restarts = l->restart;
    l->restart = false;
    l->writing = true;
    pull_work_start(&l->work, write_work, write_done, 0);
}

static int fetch_start(struct image_fetch *f, uint64_t from)
{
    struct pull_layer *l = image_fetch_user(f);

    if (from == l->received)
        return 0;
    l->job->bytes_done -= l->received;
    l->received = 0;
    l->restart = true;
    buf_clear(&l->fill);
    return from == 0 ? 0 : -EPROTO;
}

static ssize_t fetch_body(struct image_fetch *f, struct str piece)
{
    struct pull_layer *l = image_fetch_user(f);
    struct pull_job *job = l->job;

    piece.n = min_size(piece.n, FILL_BYTES_MAX - l->fill.n);
    if (buf_add(&l->fill, piece) < 0)
        return -ENOMEM;
    l->stopped = l->fill.n == FILL_BYTES_MAX;
    l->received += piece.n;
    job->bytes_done += piece.n;
    job->result.bytes += piece.n;
    job->progress_due = true;
    write_more(l);
    return (ssize_t)piece.n;
}

static void fetch_end(struct image_fetch *f, int error, const struct err *e)
{
    struct pull_layer *l = image_fetch_user(f);

    l->fetch = NULL;
    if (error) {
        fail(l, error, e->msg);
        return;
    }
    l->ended = true;
    write_more(l);
}

static const struct image_fetch_ops fetch_ops = {fetch_start, fetch_body, fetch_end};

static void download(struct pull_layer *l)
{
    struct pull_job *job = l->job;
    struct image_fetch_spec spec = {
        .reference = &job->reference,
        .version = digest_of(l)->text,
        .is_blob = true,
        .bytes = l->descriptor->bytes,
        .offset = l->received,
        .auth = &job->auth,
        .credentials = job->credentials.n ? buf_str(&job->credentials) : STR_NONE,
        .skip_mirrors = l->skip_mirrors,
        .ops = &fetch_ops,
        .user = l,
    };
    struct err e = {0};
    int r;

    l->state = LAYER_DOWNLOADING;
    l->ended = l->received == l->descriptor->bytes;
    if (l->ended) {
        write_more(l);
        return;
    }
    r = image_fetch_start(job->puller->conf.registry, &spec, &l->fetch, &e);
    if (r < 0)
        fail(l, -r, e.msg);
}

/* --- what is here already --- */

/* Hashes the first `have` bytes of the part; a part that cannot be read counts for nothing. */
static int hash_part(struct pull_layer *l, uint64_t have, struct err *e)
{
    AUTO_BUF(piece, REHASH_BYTES);
    size_t n = 0;

    image_hash_init_for(&l->hash, &l->descriptor->digest);
    if (buf_reserve(&piece, REHASH_BYTES) < 0)
        return err_set(e, ENOMEM, "out of memory");
    if (have > l->descriptor->bytes)
        have = 0;
    while (l->hash.bytes < have) {
        size_t want = min_size(REHASH_BYTES, (size_t)(have - l->hash.bytes));
        int r = io_pread_full(l->fd, piece.p, want, (off_t)l->hash.bytes, &n);

        if (r < 0 || n < want) {
            image_hash_init_for(&l->hash, &l->descriptor->digest);
            break;
        }
        image_hash_add(&l->hash, str_make(piece.p, n));
    }
    if (ftruncate(l->fd, (off_t)l->hash.bytes) < 0)
        return err_sys(e, errno, "cut its file");
    return 0;
}

static int open_work(struct pull_work *w)
{
    struct pull_layer *l = layer_of(w);
    const struct image_blobs_ops *ops = pull_blobs(l->job);
    uint64_t have = 0;
    int r = ops->has(l->job->session, digest_of(l), &w->err);

    if (r != 0) {
        l->present = r > 0;
        return r < 0 ? r : 0;
    }
    r = ops->open_part(l->job->session, digest_of(l), l->descriptor->bytes, &l->fd, &have, &w->err);
    return r < 0 ? r : hash_part(l, have, &w->err);
}

static void open_done(struct pull_work *w, int r)
{
    struct pull_layer *l = layer_of(w);

    if (l->job->failed) {
        stop_after_work(l);
        return;
    }
    if (r < 0) {
        l->state = LAYER_STOPPING;
        fail(l, -r, w->err.msg);
        stop_after_work(l);
        return;
    }
    l->received = l->present ? l->descriptor->bytes : l->hash.bytes;
    l->job->bytes_done += l->received;
    pull_tell(l->job);
    if (l->present)
        unpack(l);
    else
        download(l);
}

static void open_layer(struct pull_layer *l)
{
    l->state = LAYER_OPENING;
    l->received = 0;
    l->ended = l->restart = l->stopped = l->write_failed = false;
    pull_work_start(&l->work, open_work, open_done, POOL_SLOW);
}

void pull_layer_start(struct pull_layer *l)
{
    list_push(&l->job->puller->layers, &l->link);
    l->job->layers_active++;
    buf_init(&l->fill, FILL_BYTES_MAX);
    buf_init(&l->flush, FILL_BYTES_MAX);
    l->fd = -EBADF;
    open_layer(l);
}
