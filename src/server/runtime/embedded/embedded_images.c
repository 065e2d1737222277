#include "server/runtime/embedded/embedded_images.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "image/problem.h"

/* Images of our own, that tools/images brought. */
#define LOCAL_REGISTRY "localhost"
#define LOCAL_OWNER    "opensandbox"

/* For those who have no way to a registry. */
static const char advice[] = "map the name in embedded.images, import the image (POST "
                             "/v1/images/import), or configure a registry (section images)";

int embedded_images_start(struct embedded *em, struct err *e)
{
    struct images_conf conf = {
        .config = em->conf.config, .loop = em->conf.loop, .pool = em->conf.pool};

    em->hands = (struct image_hands){em->conf.broker, UNPACK_LIMITS_DEFAULT};
    conf.hands = image_hands_of(&em->hands);
    return images_new(&conf, &em->base.images, e);
}

/* --- create --- */

static enum image_pull_policy policy_of(const struct embedded *em, const struct api_create *spec)
{
    static const enum image_pull_policy policies[] = {
        [API_PULL_IF_NOT_PRESENT] = IMAGE_PULL_IF_NOT_PRESENT,
        [API_PULL_ALWAYS] = IMAGE_PULL_ALWAYS,
        [API_PULL_NEVER] = IMAGE_PULL_NEVER,
    };

    return spec->pull_policy ? policies[spec->pull_policy]
                             : (enum image_pull_policy)em->conf.config->oci.pull_policy;
}

static void platform_of(const struct embedded *em, const struct api_create *spec,
                        struct image_platform *ret)
{
    images_platform(em->base.images, ret);
    if (spec->os.n && str_copy(ret->os, sizeof(ret->os), spec->os) < 0)
        ret->os[0] = '\0'; /* a word of ours: it fits */
    if (spec->arch.n && str_copy(ret->arch, sizeof(ret->arch), spec->arch) >= 0)
        ret->variant[0] = '\0';
}

bool embedded_image_local(struct embedded *em, const struct api_create *spec,
                          struct image_reference *ret)
{
    struct image_reference asked, local;
    struct image_platform platform;

    if (!em->base.images || policy_of(em, spec) == IMAGE_PULL_ALWAYS ||
        image_reference_parse(spec->image, &asked, NULL) < 0 ||
        image_digest_is_set(&asked.digest) ||
        !str_starts(str_of(asked.repository), STR(LOCAL_OWNER "/")))
        return false;
    platform_of(em, spec, &platform);
    local = asked;
    if (strcmp(asked.registry, LOCAL_REGISTRY) != 0) {
        if (images_has(em->base.images, &asked, &platform))
            return false;
        local = (struct image_reference){.registry = LOCAL_REGISTRY, .tag = "latest"};
        memcpy(local.repository, asked.repository, sizeof(local.repository));
    }
    if (!images_has(em->base.images, &local, &platform))
        return false;
    *ret = local;
    return true;
}

int embedded_image_check(const struct api_create *spec, struct embedded_plan *plan,
                         struct api_fail *f)
{
    struct image_auth auth = {.username = spec->auth_user, .password = spec->auth_password};
    struct err e = {0};

    if (image_reference_parse(spec->image, &plan->reference, &e) < 0)
        return api_fail_invalid(f, "image.uri: %s", e.msg);
    if (image_auth_check(&auth, &e) < 0)
        return api_fail_invalid(f, "image.auth: %s", e.msg);
    return 0;
}

/* Makes the sandbox of an image that is here. */
static int create_here(struct embedded *em, struct runtime_create *c, struct images_base *base,
                       struct err *e)
{
    struct embedded_plan *plan = c->plan;
    struct api_fail f = {0};

    if (embedded_plan_make(em, c, base, plan, &f) < 0)
        return err_set(e, EINVAL, "%s", f.message);
    return embedded_create_as_planned(em, c, base, e);
}

/* A pull that a create waits for. It belongs to the loop, and for a while to a worker. */
struct fetch {
    struct embedded_work work;
    struct embedded *em;
    struct runtime_create *create;
    struct loop_task start;
    struct pool_job job;
    struct image_pull *pull; /* NULL before it begins, and after its end */
    struct err err;
    int result;
    bool cancelled;
};

/* The create may be gone afterwards. `e` may be the error of `f` itself. */
static void fetch_end(struct fetch *f, int r, const struct err *e)
{
    struct runtime_create *create = f->create;
    struct err why = *e;

    create->task.of_runtime = NULL;
    free(f);
    runtime_task_end(&create->task, r, &why);
}

static void advise(struct err *e)
{
    struct err plain = *e;

    (void)err_set(e, plain.code, "%s; %s", plain.msg, advice);
}

static void fetch_fail(struct fetch *f, int r, const struct err *e)
{
    struct err why = *e;

    f->create->image_failed = true;
    if (image_problem_of(-r) == IMAGE_UNREACHABLE || image_problem_of(-r) == IMAGE_NO_HOST)
        advise(&why);
    fetch_end(f, r, &why);
}

static void fetched_work(struct pool_job *job)
{
    struct fetch *f = container_of(job, struct fetch, job);
    const struct embedded_plan *plan = f->create->plan;
    struct image_platform platform;
    struct images_base *base = NULL;

    platform_of(f->em, f->create->spec, &platform);
    f->result = images_find(f->em->base.images, &plan->reference, &platform, &base, &f->err);
    if (f->result == 0)
        f->result = create_here(f->em, f->create, base, &f->err);
    images_base_unref(base);
}

static void fetched_done(struct pool_job *job, int error)
{
    struct fetch *f = container_of(job, struct fetch, job);

    if (error)
        f->result = err_set(&f->err, ECANCELED, "the server is ending");
    fetch_end(f, f->result, &f->err);
}

static void on_progress(struct image_pull *p, const char *text, uint64_t done, uint64_t total)
{
    struct fetch *f = image_pull_user(p);

    if (total)
        runtime_task_say(&f->create->task, "%s, %llu of %llu MiB", text,
                         (unsigned long long)done >> 20,
                         (unsigned long long)(total + 1048575) >> 20);
    else
        runtime_task_say(&f->create->task, "%s", text);
}

static void on_done(struct image_pull *p, int error, const struct err *e,
                    const struct image_pulled *image UNUSED)
{
    struct fetch *f = image_pull_user(p);
    struct err refused = {0};

    f->pull = NULL;
    if (error) {
        fetch_fail(f, -error, e);
        return;
    }
    images_grown(f->em->base.images);
    if (pool_submit(f->em->conf.pool, &f->job, f->em->conf.loop, fetched_work, fetched_done, 0) ==
        0)
        return;
    (void)err_set(&refused, EBUSY, "the server is too busy, try again");
    fetch_end(f, -EBUSY, &refused);
}

static void fetch_start(struct loop_task *task)
{
    static const struct image_pull_ops ops = {on_progress, on_done};
    struct fetch *f = container_of(task, struct fetch, start);
    const struct api_create *spec = f->create->spec;
    struct image_pull_spec pull = {
        .reference = ((const struct embedded_plan *)f->create->plan)->reference,
        .auth = {.username = spec->auth_user, .password = spec->auth_password},
        .policy = policy_of(f->em, spec),
    };
    struct err e = {0};
    int r;

    platform_of(f->em, spec, &pull.platform);
    r = f->cancelled ? err_set(&e, ECANCELED, "cancelled")
                     : images_pull(f->em->base.images, &pull, &ops, f, &f->pull, &e);
    if (r < 0)
        fetch_fail(f, r, &e);
}

/* Comes on the loop, so nothing else uses the pull now. */
static void fetch_cancel(struct embedded_work *work)
{
    struct fetch *f = container_of(work, struct fetch, work);
    struct err e = {0};

    f->cancelled = true;
    if (!f->pull)
        return; /* it has not begun, or a worker makes the sandbox: the end is near */
    image_pull_cancel(f->pull);
    (void)err_set(&e, ECANCELED, "cancelled");
    fetch_fail(f, -ECANCELED, &e);
}

static void fetch_new(struct embedded *em, struct runtime_create *c)
{
    struct fetch *f = mem_new(struct fetch);

    *f = (struct fetch){.work = {fetch_cancel}, .em = em, .create = c};
    c->task.of_runtime = &f->work;
    loop_post(em->conf.loop, &f->start, fetch_start);
}

int embedded_image_create(struct embedded *em, struct runtime_create *c, struct err *e)
{
    const struct embedded_plan *plan = c->plan;
    bool of_snapshot = image_digest_is_set(&plan->image_id);
    enum image_pull_policy policy = of_snapshot ? IMAGE_PULL_NEVER : policy_of(em, c->spec);
    struct images_base *base = NULL;
    struct image_platform platform;
    int r = -ENOENT;

    platform_of(em, c->spec, &platform);
    if (of_snapshot)
        r = images_open(em->base.images, &plan->image_id, &base, e);
    else if (policy != IMAGE_PULL_ALWAYS)
        r = images_find(em->base.images, &plan->reference, &platform, &base, e);
    if (r == 0) {
        r = create_here(em, c, base, e);
        images_base_unref(base);
        return r;
    }
    if (r == -ENOENT && policy != IMAGE_PULL_NEVER) {
        fetch_new(em, c);
        return 0;
    }
    c->image_failed = true;
    if (r == -ENOENT)
        advise(e);
    return r;
}
