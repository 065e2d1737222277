#include "image/store_blobs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

struct image_store_blobs {
    struct image_store *store;
    struct pool *pool;
    struct loop *loop;
};

struct session {
    struct image_store_blobs *blobs;
    pthread_mutex_t lock; /* of the pins: several workers serve one pull */
    struct image_store_pins *pins;
};

struct image_store_blobs *image_store_blobs_new(struct image_store *s, struct pool *pool,
                                                struct loop *loop)
{
    struct image_store_blobs *b = mem_new(struct image_store_blobs);

    *b = (struct image_store_blobs){s, pool, loop};
    return b;
}

void image_store_blobs_free(struct image_store_blobs *b)
{
    free(b);
}

static void session_pin(struct session *x, const struct image_digest *digest)
{
    (void)pthread_mutex_lock(&x->lock);
    image_store_pins_add(x->pins, digest);
    (void)pthread_mutex_unlock(&x->lock);
}

/* --- sessions --- */

static int blobs_begin(void *store, void **ret_session, struct err *e UNUSED)
{
    struct session *x = mem_new(struct session);

    x->blobs = store;
    x->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    x->pins = image_store_pins_new(x->blobs->store);
    *ret_session = x;
    return 0;
}

static void blobs_end(void *session)
{
    struct session *x = session;

    image_store_pins_free(x->pins);
    (void)pthread_mutex_destroy(&x->lock);
    free(x);
}

/* --- images --- */

static int blobs_find(void *session, const struct image_reference *reference,
                      const struct image_platform *platform, struct image_digest *ret_manifest,
                      struct err *e)
{
    struct session *x = session;
    auto_free struct image_store_image *image = NULL;
    char name[IMAGE_REFERENCE_TEXT_MAX];
    int r;

    image_reference_format(reference, name);
    (void)pthread_mutex_lock(&x->lock);
    r = image_store_image_get(x->blobs->store, name, x->pins, &image, e);
    (void)pthread_mutex_unlock(&x->lock);
    if (r == -ENOENT || (r == 0 && image_platform_match(platform, &image->platform) == 0))
        return 0;
    if (r < 0)
        return r;
    *ret_manifest = image->manifest;
    return 1;
}

static int blobs_record(void *session, const struct image_record *record, struct err *e)
{
    struct session *x = session;
    auto_free struct image_store_image *image = mem_new(struct image_store_image);

    if (record->layers_count > ARRAY_LEN(image->layers))
        return err_set(e, E2BIG, "the image has more than %d layers", IMAGE_LAYERS_MAX);
    image_reference_format(&record->reference, image->name);
    image->platform = record->platform;
    image->manifest = record->manifest;
    image->config = record->config;
    for (size_t i = 0; i < record->layers_count; i++) {
        struct image_store_layer *l = &image->layers[image->layers_count++];

        l->blob = record->layers[i].digest;
        l->diff_id = record->diff_ids[i];
        l->bytes = record->layers[i].bytes;
        if (str_copy(l->media_type, sizeof(l->media_type), record->layers[i].media_type) < 0)
            return err_set(e, EPROTO, "the media type of a layer is too long");
    }
    return image_store_image_put(x->blobs->store, image, e);
}

/* --- blobs --- */

static int blobs_has(void *session, const struct image_digest *digest, struct err *e UNUSED)
{
    struct session *x = session;

    session_pin(x, digest); /* before the look, so that it stays once it was seen */
    return image_store_blob_find(x->blobs->store, digest, NULL);
}

static int blobs_put(void *session, const struct image_digest *digest, struct str bytes,
                     struct err *e)
{
    struct session *x = session;

    session_pin(x, digest);
    return image_store_blob_put(x->blobs->store, digest, bytes, e);
}

static int blobs_read(void *session, const struct image_digest *digest, struct buf *out,
                      struct err *e)
{
    struct session *x = session;

    session_pin(x, digest);
    return image_store_blob_read(x->blobs->store, digest, IMAGE_CONFIG_BYTES_MAX, out, e);
}

static int blobs_open_part(void *session, const struct image_digest *digest, uint64_t bytes UNUSED,
                           int *ret_fd, uint64_t *ret_have, struct err *e)
{
    struct session *x = session;

    session_pin(x, digest);
    return image_store_part_open(x->blobs->store, digest, ret_fd, ret_have, e);
}

static int blobs_commit(void *session, const struct image_digest *digest, int fd, struct err *e)
{
    struct session *x = session;

    return image_store_part_commit(x->blobs->store, digest, fd, e);
}

static void blobs_abandon(void *session, const struct image_digest *digest, int fd, bool keep)
{
    struct session *x = session;

    image_store_part_abandon(x->blobs->store, digest, fd, keep);
}

/* --- unpacking --- */

struct unpack_job {
    struct pool_job job;
    struct session *session;
    struct image_unpack *u;
    struct image_digest blob, diff_id;
    volatile bool cancel;
    int result;
    struct err err;
};

static void unpack_work(struct pool_job *job)
{
    struct unpack_job *j = container_of(job, struct unpack_job, job);

    session_pin(j->session, &j->diff_id);
    j->result = j->cancel ? err_set(&j->err, ECANCELED, "cancelled")
                          : image_store_layer_unpack(j->session->blobs->store, &j->blob,
                                                     &j->diff_id, &j->cancel, NULL, &j->err);
}

static void unpack_done(struct pool_job *job, int error)
{
    struct unpack_job *j = container_of(job, struct unpack_job, job);
    struct image_unpack *u = j->u;

    if (error)
        (void)err_set(&j->err, error, "cancelled");
    else
        error = j->result < 0 ? -j->result : 0;
    u->err = j->err;
    u->user = NULL;
    free(j);
    u->done(u, error);
}

static int blobs_unpack(void *session, struct image_unpack *u, struct err *e)
{
    struct session *x = session;
    struct unpack_job *j = mem_new(struct unpack_job);
    int r;

    j->session = x;
    j->u = u;
    j->blob = u->layer->digest;
    j->diff_id = *u->diff_id;
    u->user = j;
    r = pool_submit(x->blobs->pool, &j->job, x->blobs->loop, unpack_work, unpack_done, POOL_SLOW);
    if (r < 0) {
        u->user = NULL;
        free(j);
        return err_sys(e, -r, "unpack layer %s", u->layer->digest.text);
    }
    return 0;
}

static void blobs_unpack_cancel(void *session UNUSED, struct image_unpack *u)
{
    struct unpack_job *j = u->user;

    if (j)
        j->cancel = true;
}

struct image_blobs image_store_blobs_ops(struct image_store_blobs *b)
{
    static const struct image_blobs_ops ops = {
        .begin = blobs_begin,
        .end = blobs_end,
        .find = blobs_find,
        .record = blobs_record,
        .has = blobs_has,
        .put = blobs_put,
        .read = blobs_read,
        .open_part = blobs_open_part,
        .commit = blobs_commit,
        .abandon = blobs_abandon,
        .unpack = blobs_unpack,
        .unpack_cancel = blobs_unpack_cancel,
    };

    return (struct image_blobs){&ops, b};
}
