#include "server/images/images.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "image/store_blobs.h"

enum { BASES_MAX = 1 << 16 };

struct images {
    const struct config *config;
    struct loop *loop;
    struct pool *pool;
    struct image_store *store;
    struct image_store_blobs *blobs;
    struct image_registry *registry;
    struct image_puller *puller;
    struct pool_job tidy; /* runs after the store has grown */
    bool tidying, grown, stopped;
    pthread_mutex_t lock; /* protects the rest, and the counters of bases */
    struct map bases;     /* by id */
};

/* --- life --- */

/* An upper-case name wins for all but HTTP_PROXY, which a CGI environment may have from a request;
 * we are none. */
static const char *variable(const char *lower, const char *upper)
{
    const char *value = getenv(lower);

    return value && value[0] ? value : getenv(upper);
}

struct image_proxy_conf images_proxy(void)
{
    return (struct image_proxy_conf){.http = variable("http_proxy", "HTTP_PROXY"),
                                     .https = variable("https_proxy", "HTTPS_PROXY"),
                                     .no = variable("no_proxy", "NO_PROXY")};
}

static int registry_new(struct images *im, struct err *e)
{
    const struct config *c = im->config;
    auto_free struct image_registry_rule *rules =
        mem_new_array(struct image_registry_rule, c->registry_count + 1);
    struct image_registry_conf conf = {
        .loop = im->loop,
        .pool = im->pool,
        .proxy = images_proxy(),
        .rules = rules,
        .rule_count = c->registry_count,
        .ca_file = c->oci.ca_file[0] ? c->oci.ca_file : NULL,
    };
    int r;

    for (size_t i = 0; i < c->registry_count; i++) {
        const struct config_registry *from = &c->registries[i];

        rules[i] = (struct image_registry_rule){
            .registry = from->name,
            .mirrors = from->mirrors.at,
            .mirror_count = from->mirrors.count,
            .plain_http = from->plain_http,
            .skip_verify = from->skip_verify,
        };
    }
    r = image_registry_new(&conf, &im->registry, e);
    return r < 0 ? err_wrap(e, r, "section images") : 0;
}

static int puller_new(struct images *im, struct err *e)
{
    const struct config *c = im->config;
    struct image_puller_conf conf = {
        .loop = im->loop,
        .pool = im->pool,
        .registry = im->registry,
        .credentials_file = c->oci.credentials_file[0] ? c->oci.credentials_file : NULL,
        .total_ms = (uint32_t)c->oci.pull_seconds * 1000,
    };

    im->blobs = image_store_blobs_new(im->store, im->pool, im->loop);
    conf.blobs = image_store_blobs_ops(im->blobs);
    return image_puller_new(&conf, &im->puller, e);
}

int images_new(const struct images_conf *conf, struct images **ret, struct err *e)
{
    struct images *im = mem_new(struct images);
    char path[PATH_MAX];
    struct image_store_conf store = {.path = path, .hands = conf->hands};
    int r;

    *im = (struct images){.config = conf->config, .loop = conf->loop, .pool = conf->pool};
    (void)pthread_mutex_init(&im->lock, NULL);
    map_init(&im->bases, BASES_MAX, NULL);
    (void)snprintf(path, sizeof(path), "%s/images", conf->config->dir);
    r = image_store_open(&store, &im->store, e);
    if (r == 0)
        r = registry_new(im, e);
    if (r == 0)
        r = puller_new(im, e);
    if (r < 0) {
        images_free(im);
        return r;
    }
    *ret = im;
    return 0;
}

static void base_free(struct images_base *b)
{
    for (size_t i = 0; i < b->layer_count; i++)
        fd_close(b->layers[i]);
    image_store_pins_free(b->pins);
    arena_done(&b->arena);
    free(b);
}

void images_stop(struct images *im)
{
    if (!im)
        return;
    im->stopped = true;
    if (im->puller)
        image_puller_stop(im->puller);
}

void images_free(struct images *im)
{
    void *base;

    if (!im)
        return;
    for (size_t at = 0; map_next(&im->bases, &at, NULL, &base);)
        base_free(base);
    image_puller_free(im->puller);
    image_registry_free(im->registry);
    image_store_blobs_free(im->blobs);
    map_done(&im->bases);
    image_store_close(im->store);
    (void)pthread_mutex_destroy(&im->lock);
    free(im);
}

struct image_store *images_store(struct images *im)
{
    return im->store;
}

/* --- bases --- */

/* A directory can be in an overlay only once. Of a layer that an image has twice the upper one is
 * enough: it hides the same, and shows the same. */
static int layers_open(struct images *im, struct images_base *b, struct err *e)
{
    const struct image_config *c = &b->config;

    for (size_t i = c->diff_ids_count; i-- > 0;) {
        bool again = false;
        int fd;

        for (size_t k = i + 1; k < c->diff_ids_count && !again; k++)
            again = image_digest_eq(&c->diff_ids[k], &c->diff_ids[i]);
        if (again)
            continue;
        if (b->layer_count == PLAN_LAYERS_MAX)
            return err_set(e, E2BIG, "it has more than %d layers", PLAN_LAYERS_MAX);
        image_store_pins_add(b->pins, &c->diff_ids[i]);
        fd = image_store_layer_open(im->store, &c->diff_ids[i], e);
        if (fd < 0)
            return err_wrap(e, fd, "layer %s", c->diff_ids[i].text);
        b->layers[b->layer_count++] = fd;
    }
    return b->layer_count ? 0 : err_set(e, EINVAL, "it has no layer, and so no program");
}

static int base_load(struct images *im, struct images_base *b, struct err *e)
{
    AUTO_BUF(text, IMAGE_CONFIG_BYTES_MAX);
    struct str kept;
    int r;

    image_store_pins_add(b->pins, &b->id);
    r = image_store_blob_read(im->store, &b->id, IMAGE_CONFIG_BYTES_MAX, &text, e);
    if (r < 0)
        return r;
    kept = arena_str(&b->arena, buf_str(&text));
    r = kept.p ? image_config_parse(&b->arena, kept, &b->config, e) : err_set(e, ENOMEM, "memory");
    if (r == 0)
        r = layers_open(im, b, e);
    return r < 0 ? r : images_user_find(b->layers, b->layer_count, b->config.user, &b->arena, b, e);
}

int images_open(struct images *im, const struct image_digest *id, struct images_base **ret,
                struct err *e)
{
    struct images_base *b;
    int r = 0;

    (void)pthread_mutex_lock(&im->lock);
    b = map_get(&im->bases, str_of(id->text));
    if (!b) {
        b = mem_new(struct images_base);
        b->id = *id;
        b->images = im;
        b->pins = image_store_pins_new(im->store);
        arena_init(&b->arena, IMAGE_MANIFEST_ARENA_MAX);
        r = base_load(im, b, e);
        if (r == 0)
            r = map_add(&im->bases, str_of(id->text), b);
        if (r < 0)
            base_free(b);
    }
    if (r == 0) {
        b->refs++;
        *ret = b;
    }
    (void)pthread_mutex_unlock(&im->lock);
    if (r < 0)
        (void)err_wrap(e, r, "image %.19s", id->text);
    return r;
}

/* The record of an image for a platform. */
static int record_find(struct images *im, const struct image_reference *name,
                       const struct image_platform *platform, struct image_store_pins *pins,
                       struct image_store_image **ret, struct err *e)
{
    char text[IMAGE_REFERENCE_TEXT_MAX];
    int r;

    image_reference_format(name, text);
    r = image_store_image_get(im->store, text, pins, ret, e);
    if (r == 0 && image_platform_match(platform, &(*ret)->platform) == 0)
        r = err_set(e, ENOENT, "there is no image '%s' for this platform", text);
    return r;
}

int images_find(struct images *im, const struct image_reference *name,
                const struct image_platform *platform, struct images_base **ret, struct err *e)
{
    struct image_store_pins *pins = image_store_pins_new(im->store);
    auto_free struct image_store_image *image = NULL;
    int r = record_find(im, name, platform, pins, &image, e);

    if (r == 0)
        r = images_open(im, &image->config, ret, e);
    image_store_pins_free(pins);
    return r;
}

bool images_has(struct images *im, const struct image_reference *name,
                const struct image_platform *platform)
{
    struct image_store_pins *pins = image_store_pins_new(im->store);
    auto_free struct image_store_image *image = NULL;
    int r = record_find(im, name, platform, pins, &image, NULL);

    image_store_pins_free(pins);
    return r == 0;
}

void images_base_unref(struct images_base *b)
{
    struct images *im;
    bool last;

    if (!b)
        return;
    im = b->images;
    (void)pthread_mutex_lock(&im->lock);
    last = --b->refs == 0;
    if (last)
        (void)map_remove(&im->bases, str_of(b->id.text));
    (void)pthread_mutex_unlock(&im->lock);
    if (last)
        base_free(b);
}

int images_hold(struct images *im, const struct image_digest *id, struct err *e)
{
    struct images_base *base = NULL;
    int r = images_open(im, id, &base, e);

    if (r)
        return r;
    (void)pthread_mutex_lock(&im->lock);
    base->users++; /* with the reference that we got */
    (void)pthread_mutex_unlock(&im->lock);
    return 0;
}

void images_release(struct images *im, const struct image_digest *id)
{
    struct images_base *base;

    (void)pthread_mutex_lock(&im->lock);
    base = map_get(&im->bases, str_of(id->text));
    if (base && base->users)
        base->users--;
    else
        base = NULL;
    (void)pthread_mutex_unlock(&im->lock);
    images_base_unref(base);
}

size_t images_users(struct images *im, const struct image_digest *id)
{
    const struct images_base *base;
    size_t count;

    (void)pthread_mutex_lock(&im->lock);
    base = map_get(&im->bases, str_of(id->text));
    count = base ? base->users : 0;
    (void)pthread_mutex_unlock(&im->lock);
    return count;
}

/* --- pulls --- */

void images_platform(const struct images *im, struct image_platform *ret)
{
    const char *named = im->config->oci.platform;

    if (!named[0] || image_platform_parse(str_of(named), ret, NULL) < 0)
        image_platform_host(ret);
}

int images_pull(struct images *im, const struct image_pull_spec *spec,
                const struct image_pull_ops *ops, void *user, struct image_pull **ret,
                struct err *e)
{
    if (im->stopped)
        return err_set(e, ECANCELED, "the server is ending");
    return image_pull_start(im->puller, spec, ops, user, ret, e);
}

static void tidy_work(struct pool_job *job)
{
    struct images *im = container_of(job, struct images, tidy);
    uint64_t max = im->config->oci.max_bytes;
    struct image_store_freed freed = {0};
    struct err e = {0};

    if (image_store_settle(im->store, &e) < 0 ||
        image_store_gc(im->store, max ? max : UINT64_MAX, &freed, &e) < 0)
        log_event(LOG_WARN, "cannot tidy up the image store, trying again after the next pull",
                  LOG_STR("error", e.msg));
    if (freed.bytes)
        log_event(LOG_INFO, "made room in the image store", LOG_U64("bytes", freed.bytes),
                  LOG_U64("images", freed.images), LOG_U64("layers", freed.layers));
}

static void tidy_done(struct pool_job *job, int error)
{
    struct images *im = container_of(job, struct images, tidy);

    im->tidying = false;
    if (im->grown && !error)
        images_grown(im);
}

void images_grown(struct images *im)
{
    im->grown = im->tidying; /* once more after this run */
    if (im->tidying || im->stopped)
        return;
    im->tidying = pool_submit(im->pool, &im->tidy, im->loop, tidy_work, tidy_done, POOL_SLOW) == 0;
}
