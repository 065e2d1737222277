#include "committer/commit.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"

enum {
    ARENA_BYTES_MAX = 256 << 20,
    DIFF_MS = 30 * 60 * 1000, /* the Job's own deadline is usually shorter */
};

/* One container on its way to an image. */
struct box {
    const struct commit_target *target;
    struct containerd_container container;
    struct image_manifest base;
    struct str base_config;
    const char *from; /* the repository of the base, when the registry is the same */
    struct commit_layer layer;
    bool paused;
};

struct work {
    struct commit *c;
    struct arena arena;
    struct box *boxes;
    size_t count;
};

/* --- what there is --- */

static int read_document(struct work *w, const struct image_descriptor *d, size_t bytes_max,
                         struct str *ret, struct err *e)
{
    AUTO_BUF(text, bytes_max);
    struct image_digest got;
    int r;

    if (d->bytes == 0 || d->bytes > bytes_max)
        return err_set(e, EFBIG, "%s has %llu bytes", d->digest.text, (unsigned long long)d->bytes);
    r = containerd_read(w->c->containerd, &d->digest, 0, d->bytes, &text, e);
    if (r < 0)
        return r;
    image_digest_of(buf_str(&text), &got);
    if (!image_digest_eq(&got, &d->digest))
        return err_set(e, EBADMSG, "containerd gave %s for %s", got.text, d->digest.text);
    *ret = arena_str(&w->arena, buf_str(&text));
    return ret->p ? 0 : err_set(e, ENOMEM, "out of room");
}

/* Reads what the container's image says of itself. */
static int read_base(struct work *w, struct box *box, struct err *e)
{
    struct image_platform here;
    struct image_descriptor d;
    struct str text;
    int r = containerd_image(w->c->containerd, &w->arena, box->container.image, &d, e);

    image_platform_host(&here);
    if (r == 0)
        r = read_document(w, &d, IMAGE_MANIFEST_BYTES_MAX, &text, e);
    if (r == 0)
        r = image_manifest_parse(&w->arena, text, d.media_type, &box->base, e);
    if (r == 0 && box->base.media == IMAGE_MEDIA_INDEX) {
        const struct image_descriptor *one;

        r = image_index_select(&box->base, &here, &one, e);
        if (r == 0)
            r = read_document(w, one, IMAGE_MANIFEST_BYTES_MAX, &text, e);
        if (r == 0)
            r = image_manifest_parse(&w->arena, text, one->media_type, &box->base, e);
    }
    if (r == 0)
        r = read_document(w, &box->base.config, IMAGE_CONFIG_BYTES_MAX, &box->base_config, e);
    return r < 0 ? err_wrap(e, r, "the image of container '%.*s'", STR_ARG(box->target->container))
                 : 0;
}

static void set_from(struct work *w, struct box *box)
{
    struct image_reference name;

    if (image_reference_parse(box->container.image, &name, NULL) == 0 &&
        strcmp(name.registry, box->target->image.registry) == 0 &&
        strcmp(name.repository, box->target->image.repository) != 0)
        box->from = arena_strdup(&w->arena, str_of(name.repository));
}

static int find_all(struct work *w, struct err *e)
{
    const struct commit_options *o = w->c->options;
    int r = 0;

    for (size_t i = 0; i < w->count && r == 0; i++) {
        struct box *box = &w->boxes[i];

        box->target = &o->targets[i];
        r = containerd_find(w->c->containerd, &w->arena, o->pod, o->ns, o->uid,
                            box->target->container, &box->container, e);
        if (r == 0)
            r = read_base(w, box, e);
        if (r == 0)
            set_from(w, box);
    }
    return r;
}

/* --- while nothing moves --- */

static void pause_all(struct work *w)
{
    struct err e = {0};

    for (size_t i = 0; i < w->count; i++) {
        struct box *box = &w->boxes[i];

        /* Also one that may have been paused before the answer was lost is to run again. */
        box->paused = true;
        if (containerd_pause(w->c->containerd, &box->container, &e) < 0)
            log_event(LOG_WARN, "a container cannot be paused: it is saved as it runs",
                      LOG_STR("container", box->target->container), LOG_STR("error", e.msg));
    }
}

static int resume_all(struct work *w, struct err *e)
{
    int first = 0;

    for (size_t i = w->count; i > 0; i--) {
        struct box *box = &w->boxes[i - 1];
        struct err why = {0};
        int r = 0;

        if (box->paused)
            r = containerd_resume(w->c->containerd, &box->container, &why);
        if (r == 0) {
            box->paused = false;
            continue;
        }
        (void)log_err(&why, "resume container '%.*s'", STR_ARG(box->target->container));
        if (first == 0) {
            *e = why;
            first = r;
        }
    }
    return first;
}

static int diff_all(struct work *w, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < w->count && r == 0; i++) {
        struct box *box = &w->boxes[i];
        uint64_t begin_ms = time_mono_ms();

        r = containerd_diff(w->c->containerd, &w->arena, &box->container, DIFF_MS, &box->layer, e);
        if (r < 0)
            return err_wrap(e, r, "the files of container '%.*s'", STR_ARG(box->target->container));
        log_event(LOG_INFO, "files are saved", LOG_STR("container", box->target->container),
                  LOG_STR("layer", box->layer.digest.text), LOG_U64("bytes", box->layer.bytes),
                  LOG_U64("ms", time_mono_ms() - begin_ms));
    }
    return r;
}

/* --- to the registry --- */

struct source {
    struct work *work;
    const struct image_digest *digest; /* of containerd's store */
    struct str text;                   /* or in memory, when p is not NULL */
    uint64_t bytes;
};

static int read_piece(void *user, uint64_t offset, struct buf *out, struct err *e)
{
    const struct source *s = user;
    uint64_t n = s->bytes - offset;

    if (n > IMAGE_PUSH_PIECE_MAX)
        n = IMAGE_PUSH_PIECE_MAX;
    if (s->text.p)
        return buf_add(out, str_make(s->text.p + offset, (size_t)n));
    return containerd_read(s->work->c->containerd, s->digest, offset, n, out, e);
}

static int push_blob(struct work *w, struct image_push *push, const struct image_digest *digest,
                     uint64_t bytes, struct str text, const char *from, struct err *e)
{
    struct source source = {w, digest, text, bytes};
    struct image_push_blob blob = {
        .digest = *digest, .bytes = bytes, .from = from, .read = read_piece, .user = &source};

    return image_push_blob(push, &blob, e);
}

static int push_image(struct work *w, struct box *box, struct image_push *push,
                      struct image_digest *ret, struct err *e)
{
    AUTO_BUF(config, IMAGE_CONFIG_BYTES_MAX);
    AUTO_BUF(manifest, IMAGE_MANIFEST_BYTES_MAX);
    struct image_digest digest;
    int r = commit_config(box->base_config, &box->layer, time_wall_us(), &config, e);

    if (r == 0)
        r = commit_manifest(&box->base, buf_str(&config), &box->layer, &manifest, e);
    for (size_t i = 0; i < box->base.layers_count && r == 0; i++)
        r = push_blob(w, push, &box->base.layers[i].digest, box->base.layers[i].bytes, STR_NONE,
                      box->from, e);
    if (r == 0)
        r = push_blob(w, push, &box->layer.digest, box->layer.bytes, STR_NONE, NULL, e);
    if (r < 0)
        return r;
    image_digest_of(buf_str(&config), &digest);
    r = push_blob(w, push, &digest, config.n, buf_str(&config), NULL, e);
    if (r == 0)
        r = image_push_manifest(push, box->target->image.tag, STR(COMMIT_MANIFEST_TYPE),
                                buf_str(&manifest), e);
    image_digest_of(buf_str(&manifest), ret);
    return r;
}

static int push_all(struct work *w, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < w->count && r == 0; i++) {
        struct box *box = &w->boxes[i];
        struct image_push_conf conf = w->c->push;
        struct image_push *push = NULL;
        char name[IMAGE_REFERENCE_TEXT_MAX];

        image_reference_format(&box->target->image, name);
        conf.insecure = commit_is_insecure(w->c->options, box->target->image.registry);
        r = image_push_new(&conf, &box->target->image, &push, e);
        if (r == 0)
            r = push_image(w, box, push, &w->c->digests[i], e);
        image_push_free(push);
        if (r == 0)
            log_event(LOG_INFO, "the image is pushed", LOG_STR("image", name),
                      LOG_STR("digest", w->c->digests[i].text));
    }
    return r;
}

/* --- the whole --- */

static int save_all(struct work *w, struct err *e)
{
    struct err why = {0};
    int r = find_all(w, e), resumed;

    if (r == 0)
        r = containerd_lease(w->c->containerd, e);
    if (r < 0)
        return r;
    pause_all(w);
    r = diff_all(w, e);
    resumed = resume_all(w, &why);
    if (r == 0 && resumed < 0) {
        *e = why;
        r = resumed;
    }
    return r < 0 ? r : push_all(w, e);
}

static void work_init(struct work *w, struct commit *c)
{
    *w = (struct work){.c = c, .count = c->options->target_count};
    arena_init(&w->arena, ARENA_BYTES_MAX);
    w->boxes = mem_new_array(struct box, COMMIT_CONTAINERS_MAX);
}

static void work_done(struct work *w)
{
    free(w->boxes);
    arena_done(&w->arena);
}

int commit_run(struct commit *c, struct err *e)
{
    struct work w;
    int r;

    work_init(&w, c);
    r = save_all(&w, e);
    work_done(&w);
    return r;
}

int commit_unpause(struct commit *c, struct err *e)
{
    const struct commit_options *o = c->options;
    struct work w;
    int r = 0;

    work_init(&w, c);
    for (size_t i = 0; i < w.count; i++) {
        struct box *box = &w.boxes[i];
        struct err why = {0};
        int found = containerd_find(c->containerd, &w.arena, o->pod, o->ns, o->uid,
                                    o->targets[i].container, &box->container, &why);

        box->target = &o->targets[i];
        box->paused = found == 0;
        if (found < 0 && found != -ENOENT && r == 0) { /* what is gone need not run */
            *e = why;
            r = found;
        }
    }
    if (resume_all(&w, e) < 0)
        r = -e->code;
    work_done(&w);
    return r;
}
