#include "image/pull.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "image/pull_internal.h"

enum {
    PROGRESS_MS = 250,
    POOL_AGAIN_MS = 20,
    POOL_AGAIN_MAX = 1500, /* 30 s */
    JOB_ARENA_BYTES_MAX = 2 * IMAGE_MANIFEST_ARENA_MAX,
};

/* A caller that waits for a job. */
struct image_pull {
    struct pull_job *job;
    struct list link;
    const struct image_pull_ops *ops;
    void *user;
};

static struct loop *loop_of(const struct pull_job *job)
{
    return job->puller->conf.loop;
}

/* --- works --- */

static void work_end(struct pull_work *w, int r)
{
    w->pull->busy--;
    w->done(w, r);
}

static void work_run(struct pool_job *job)
{
    struct pull_work *w = container_of(job, struct pull_work, job);

    w->result = w->run(w);
}

static void work_done(struct pool_job *job, int error)
{
    struct pull_work *w = container_of(job, struct pull_work, job);

    work_end(w, error ? err_set(&w->err, error, "the server is ending") : w->result);
}

static void work_submit(struct pull_work *w);

static void work_again(struct loop_timer *t)
{
    work_submit(container_of(t, struct pull_work, again));
}

static void work_refused(struct loop_task *t)
{
    struct pull_work *w = container_of(t, struct pull_work, refusal);

    work_end(w, err_set(&w->err, w->refused > POOL_AGAIN_MAX ? EBUSY : ECANCELED,
                        "no worker is free for it"));
}

static void work_submit(struct pull_work *w)
{
    struct loop *loop = loop_of(w->pull);
    int r = pool_submit(w->pull->puller->conf.pool, &w->job, loop, work_run, work_done, w->flags);

    if (r == -EAGAIN && ++w->refused <= POOL_AGAIN_MAX)
        loop_timer_after(loop, &w->again, POOL_AGAIN_MS, work_again);
    else if (r < 0)
        loop_defer(loop, &w->refusal, work_refused); /* also while the server ends: no timer runs */
}

void pull_work_start(struct pull_work *w, int (*run)(struct pull_work *),
                     void (*done)(struct pull_work *, int), unsigned flags)
{
    w->pull->busy++;
    w->run = run;
    w->done = done;
    w->flags = flags;
    w->refused = 0;
    w->err = (struct err){0};
    work_submit(w);
}

/* --- progress --- */

static void describe(const struct pull_job *job, char *out, size_t size)
{
    size_t unpacking = 0;

    for (size_t i = 0; i < job->layers_count; i++)
        unpacking += job->layers[i].state == LAYER_UNPACKING;
    if (job->layers_count == 0)
        snprintf(out, size, "asking %s for %s", job->reference.registry, job->reference.repository);
    else
        snprintf(out, size, "%zu of %zu layers done, %.1f of %.1f MB received%s", job->layers_done,
                 job->layers_count, (double)job->bytes_done / 1e6, (double)job->bytes_total / 1e6,
                 unpacking ? ", unpacking" : "");
}

static void tell(struct loop_timer *t)
{
    struct pull_job *job = container_of(t, struct pull_job, progress);
    char text[640];

    job->progress_due = false;
    describe(job, text, sizeof(text));
    LIST_EACH(&job->waiters, at)
    {
        struct image_pull *p = container_of(at, struct image_pull, link);

        if (p->ops->on_progress)
            p->ops->on_progress(p, text, job->bytes_done, job->bytes_total);
    }
}

/* While bytes come: some times a second. */
static void tell_bytes(struct loop_timer *t)
{
    struct pull_job *job = container_of(t, struct pull_job, progress);

    if (job->progress_due)
        tell(t);
    loop_timer_after(loop_of(job), &job->progress, PROGRESS_MS, tell_bytes);
}

void pull_tell(struct pull_job *job)
{
    job->progress_due = true;
    if (!job->failed)
        loop_timer_after(loop_of(job), &job->progress, 0, tell_bytes);
}

/* --- failure and the end --- */

void pull_fail(struct pull_job *job, int code, const char *fmt, ...)
{
    char why[sizeof(job->err.msg)];
    va_list ap;

    if (job->failed)
        return;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    job->failed = true;
    err_set(&job->err, image_problem_of(code), "image %s: %s", job->name, why);
    if (job->fetch)
        image_fetch_cancel(take_ptr(&job->fetch));
    LIST_EACH(&job->puller->layers, at)
    {
        struct pull_layer *l = container_of(at, struct pull_layer, link);

        if (l->job == job)
            pull_layer_stop(l);
    }
}

static void job_free(struct pull_job *job)
{
    loop_timer_stop(loop_of(job), &job->deadline);
    loop_timer_stop(loop_of(job), &job->progress);
    list_remove(&job->link);
    job->puller->job_count--;
    mem_wipe(job->credentials.p, job->credentials.n ? job->credentials.n : 0);
    buf_done(&job->credentials);
    buf_done(&job->document);
    arena_done(&job->arena);
    free(job->layers);
    free(job);
}

/* All is cleared up: tells the callers that wait. One of them may cancel another, or start the next
 * pull. */
static void job_end(struct pull_job *job)
{
    while (!list_empty(&job->waiters)) {
        struct image_pull *p = container_of(job->waiters.next, struct image_pull, link);

        list_remove(&p->link);
        p->job = NULL;
        p->ops->on_done(p, job->failed ? job->err.code : 0, job->failed ? &job->err : NULL,
                        job->failed ? NULL : &job->result);
        free(p);
    }
    job_free(job);
}

static int end_work(struct pull_work *w)
{
    if (w->pull->session)
        pull_blobs(w->pull)->end(take_ptr(&w->pull->session));
    return 0;
}

static void end_done(struct pull_work *w, int r)
{
    if (r < 0)
        (void)end_work(w); /* no worker is left: the server is ending, and may wait */
    job_end(w->pull);
}

void pull_close(struct pull_job *job)
{
    job->closing = true;
    pull_work_start(&job->work, end_work, end_done, 0);
}

/* Ends a job from outside, in whatever state it is. */
static void pull_stop(struct pull_job *job, int code, const char *why)
{
    if (job->failed || job->closing)
        return;
    pull_fail(job, code, "%s", why);
    if (!job->busy && !job->layers_active)
        pull_close(job);
}

/* --- the image is complete --- */

static int record_work(struct pull_work *w)
{
    struct pull_job *job = w->pull;
    struct image_record record = {
        .reference = job->reference,
        .platform = job->platform,
        .manifest = job->result.manifest,
        .config = job->result.config,
        .layers = job->manifest.layers,
        .diff_ids = job->config.diff_ids,
        .layers_count = job->layers_count,
    };

    return pull_blobs(job)->record(job->session, &record, &w->err);
}

static void record_done(struct pull_work *w, int r)
{
    if (r < 0)
        pull_fail(w->pull, -r, "%s", w->err.msg);
    pull_close(w->pull);
}

/* --- layers --- */

static bool is_active(const struct image_puller *p, const struct image_digest *digest)
{
    LIST_EACH(&p->layers, at)
    {
        if (image_digest_eq(&container_of(at, struct pull_layer, link)->descriptor->digest, digest))
            return true;
    }
    return false;
}

static void start_layers(struct pull_job *job)
{
    for (size_t i = 0; i < job->layers_count; i++) {
        struct pull_layer *l = &job->layers[i];

        if (job->failed || job->layers_active >= job->puller->conf.parallel)
            return;
        if (l->state == LAYER_WAITING && !is_active(job->puller, &l->descriptor->digest))
            pull_layer_start(l);
    }
}

/* What this job may do now. */
static void job_go_on(struct pull_job *job)
{
    if (job->closing || !job->layers)
        return;
    if (!job->failed)
        start_layers(job);
    if (job->busy || job->layers_active || job->fetch)
        return;
    if (job->failed)
        pull_close(job);
    else if (job->layers_done == job->layers_count)
        pull_work_start(&job->work, record_work, record_done, 0);
}

void pull_go_on(struct pull_job *job)
{
    struct image_puller *p = job->puller;

    job_go_on(job);
    LIST_EACH(&p->jobs, at) /* others may wait for a layer that is free now */
    {
        struct pull_job *other = container_of(at, struct pull_job, link);

        if (other != job && other->layers && !other->closing && !other->failed)
            start_layers(other);
    }
}

void pull_begin_layers(struct pull_job *job)
{
    job->layers_count = job->manifest.layers_count;
    job->layers = mem_new_array(struct pull_layer, job->layers_count + 1);
    for (size_t i = 0; i < job->layers_count; i++) {
        struct pull_layer *l = &job->layers[i];

        l->job = l->work.pull = job;
        l->descriptor = &job->manifest.layers[i];
        l->diff_id = &job->config.diff_ids[i];
        l->number = i + 1;
        l->fd = -EBADF;
        job->bytes_total += l->descriptor->bytes;
    }
    pull_tell(job);
    if (job->bytes_total > job->puller->conf.image_bytes_max)
        pull_fail(job, EFBIG, "its layers have %llu bytes; at most %llu are allowed",
                  (unsigned long long)job->bytes_total,
                  (unsigned long long)job->puller->conf.image_bytes_max);
    pull_go_on(job);
}

/* --- the puller --- */

static void on_deadline(struct loop_timer *t)
{
    struct pull_job *job = container_of(t, struct pull_job, deadline);

    pull_stop(job, ETIMEDOUT, "it took too long");
}

/* By what two pulls are the same: name, platform, policy, and the credentials it is asked with. */
static void make_key(const struct image_pull_spec *spec, const char *name,
                     const struct image_platform *platform, char ret[SHA256_BYTES])
{
    struct str parts[] = {str_of(name),
                          str_of(platform->os),
                          str_of(platform->arch),
                          str_of(platform->variant),
                          spec->auth.username,
                          spec->auth.password,
                          spec->auth.identity_token};
    char policy[1] = {(char)spec->policy};
    struct sha256 sha;

    sha256_init(&sha);
    sha256_add(&sha, str_make(policy, 1));
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        sha256_add(&sha, str_make((const char *)&parts[i].n, sizeof(parts[i].n)));
        sha256_add(&sha, parts[i]);
    }
    sha256_end(&sha, (uint8_t *)ret);
}

static struct pull_job *find_job(const struct image_puller *p, const char key[SHA256_BYTES])
{
    LIST_EACH(&p->jobs, at)
    {
        struct pull_job *job = container_of(at, struct pull_job, link);

        if (!job->failed && !job->closing && memcmp(job->key, key, SHA256_BYTES) == 0)
            return job;
    }
    return NULL;
}

static int copy_auth(struct pull_job *job, const struct image_auth *from)
{
    job->auth.username = arena_str(&job->arena, from->username);
    job->auth.password = arena_str(&job->arena, from->password);
    job->auth.identity_token = arena_str(&job->arena, from->identity_token);
    return job->auth.username.p && job->auth.password.p && job->auth.identity_token.p ? 0 : -ENOMEM;
}

static int job_new(struct image_puller *p, const struct image_pull_spec *spec,
                   const struct image_platform *platform, struct pull_job **ret, struct err *e)
{
    struct pull_job *job;

    if (p->stopping)
        return err_set(e, ECANCELED, "the server is ending");
    if (p->job_count >= p->conf.pulls_max)
        return err_set(e, EBUSY, "%zu images are being pulled: try again later", p->job_count);
    job = mem_new(struct pull_job);
    job->puller = p;
    job->reference = spec->reference;
    job->platform = *platform;
    job->policy = spec->policy;
    job->work.pull = job;
    list_init(&job->waiters);
    arena_init(&job->arena, JOB_ARENA_BYTES_MAX);
    if (copy_auth(job, &spec->auth) < 0) {
        arena_done(&job->arena);
        free(job);
        return err_set(e, ENOMEM, "out of memory");
    }
    list_push(&p->jobs, &job->link);
    p->job_count++;
    *ret = job;
    return 0;
}

int image_pull_start(struct image_puller *p, const struct image_pull_spec *spec,
                     const struct image_pull_ops *ops, void *user, struct image_pull **ret,
                     struct err *e)
{
    struct image_platform platform = spec->platform;
    char name[IMAGE_REFERENCE_TEXT_MAX], key[SHA256_BYTES];
    struct pull_job *job;
    struct image_pull *pull;
    int r = image_auth_check(&spec->auth, e);

    if (r < 0)
        return r;
    if (!platform.os[0])
        image_platform_host(&platform);
    image_reference_format(&spec->reference, name);
    make_key(spec, name, &platform, key);
    job = find_job(p, key);
    if (!job) {
        r = job_new(p, spec, &platform, &job, e);
        if (r < 0)
            return r;
        memcpy(job->key, key, sizeof(key));
        memcpy(job->name, name, sizeof(name));
        loop_timer_after(p->conf.loop, &job->deadline, p->conf.total_ms, on_deadline);
        pull_documents_start(job);
    }
    pull = mem_new(struct image_pull);
    pull->job = job;
    pull->ops = ops;
    pull->user = user;
    list_push(&job->waiters, &pull->link);
    pull_tell(job);
    *ret = pull;
    return 0;
}

void image_pull_cancel(struct image_pull *pull)
{
    struct pull_job *job = pull->job;

    list_remove(&pull->link);
    free(pull);
    if (job && list_empty(&job->waiters))
        pull_stop(job, ECANCELED, "nobody waits for it any more");
}

void *image_pull_user(const struct image_pull *pull)
{
    return pull->user;
}

int image_puller_new(const struct image_puller_conf *conf, struct image_puller **ret,
                     struct err *e UNUSED)
{
    struct image_puller *p = mem_new(struct image_puller);

    p->conf = *conf;
    p->conf.parallel = conf->parallel ? conf->parallel : 4;
    p->conf.pulls_max = conf->pulls_max ? conf->pulls_max : 64;
    p->conf.total_ms = conf->total_ms ? conf->total_ms : 3600 * 1000;
    p->conf.image_bytes_max = conf->image_bytes_max ? conf->image_bytes_max : UINT64_C(128) << 30;
    list_init(&p->jobs);
    list_init(&p->layers);
    *ret = p;
    return 0;
}

void image_puller_stop(struct image_puller *p)
{
    p->stopping = true;
    LIST_EACH(&p->jobs, at)
    {
        pull_stop(container_of(at, struct pull_job, link), ECANCELED, "the server is ending");
    }
}

bool image_puller_is_idle(const struct image_puller *p)
{
    return list_empty(&p->jobs);
}

void image_puller_free(struct image_puller *p)
{
    if (!p)
        return;
    assert(list_empty(&p->jobs));
    free(p);
}
