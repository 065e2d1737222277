/* k8s_create.c - makes the objects of a sandbox, and waits until it runs.
 *
 *   claims -> the object -> the secret of image.auth -> the operator makes the pod -> it runs
 *
 * The wait holds no thread: the table of sandboxes ends it when the informer has seen the end. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/runtime/kubernetes/k8s_internal.h"

static struct k8s_plan plan_of(const struct k8s *k, const struct runtime_create *c)
{
    return (struct k8s_plan){
        .config = k->config,
        .spec = c->spec,
        .id = c->id,
        .token = c->token,
        .owner = c->owner,
        .image = c->spec->image,
        .namespace = k->namespace,
        .runtime_class = k->runtime_class,
        .template = k->template,
        .expires_us = c->expires_us,
    };
}

int k8s_check_abilities(struct runtime *r, const struct api_create *spec, struct api_fail *f)
{
    struct k8s *k = k8s_of(r);
    struct k8s_plan plan = plan_of(k, &(struct runtime_create){.spec = spec});

    return k8s_plan_check(&plan, k->agent, f);
}

/* Volumes are known only now. */
int k8s_check(struct runtime *r, struct runtime_create *c, struct api_fail *f)
{
    struct k8s *k = k8s_of(r);
    struct k8s_plan plan = plan_of(k, c);

    return k8s_plan_check(&plan, k->agent, f);
}

/* What to answer for a failure of the API server. */
static int refused(struct runtime_create *c, int r)
{
    if (r == -EINVAL) {
        c->fail_status = 400;
        c->fail_code = "SANDBOX::INVALID_PARAMETER";
    } else if (r != -EBUSY && r != -ETIMEDOUT && r != -EAGAIN) {
        c->fail_status = 500;
        c->fail_code = "KUBERNETES::API_ERROR";
    }
    return r;
}

/* One that is there is used as it is. A server that may not make claims leaves that to others. */
static int make_claims(struct k8s *k, const struct k8s_plan *plan, struct err *e)
{
    const struct api_create *spec = plan->spec;

    for (size_t i = 0; i < spec->volumes_count; i++) {
        const struct api_volume *v = &spec->volumes[i];
        AUTO_BUF(body, K8S_MANIFEST_MAX);
        int r;

        if (v->kind != API_VOLUME_PVC || !v->create_if_missing)
            continue;
        r = k8s_claim_write(plan, v, &body, e);
        if (r == 0)
            r = k8s_call(k,
                         &(struct kube_request){.verb = KUBE_CREATE,
                                                .kind = &kube_claims,
                                                .ns = str_of(k->namespace),
                                                .body = buf_str(&body)},
                         NULL, e);
        if (r == -EACCES)
            log_event(LOG_WARN, "this server may not create persistent volume claims, going on",
                      LOG_STR("claim", v->claim_name), LOG_STR("error", e->msg));
        else if (r < 0 && r != -EEXIST)
            return err_wrap(e, r, "volumes[%zu].pvc", i);
    }
    return 0;
}

static int make_secret(struct k8s *k, const struct k8s_plan *plan, struct str uid, struct err *e)
{
    AUTO_BUF(body, K8S_MANIFEST_MAX);
    int r;

    buf_keep_secret(&body);
    r = k8s_secret_write(plan, uid, &body, e);
    if (r == 0)
        r = k8s_call(k,
                     &(struct kube_request){.verb = KUBE_CREATE,
                                            .kind = &kube_secrets,
                                            .ns = str_of(k->namespace),
                                            .body = buf_str(&body)},
                     NULL, e);
    return r < 0 ? err_wrap(e, r, "the secret of image.auth") : 0;
}

static int make_object(struct k8s *k, const struct k8s_plan *plan, struct kube_object **ret,
                       struct err *e)
{
    AUTO_BUF(body, K8S_MANIFEST_MAX);
    int r = k->agent ? k8s_agent_write(plan, k->kind.version, &body, e)
                     : k8s_batch_write(plan, &body, e);

    return r < 0 ? r
                 : k8s_call(k,
                            &(struct kube_request){.verb = KUBE_CREATE,
                                                   .kind = &k->kind,
                                                   .ns = str_of(k->namespace),
                                                   .body = buf_str(&body)},
                            ret, e);
}

static struct k8s_wait *wait_new(struct k8s *k, struct runtime_create *c)
{
    struct k8s_wait *w = mem_new(struct k8s_wait);

    w->owner = k;
    w->create = c;
    (void)snprintf(w->id, sizeof(w->id), "%.*s", STR_ARG(c->id));
    w->deadline_ns =
        deadline_in_ms((uint64_t)k->config->kubernetes.sandbox_create_timeout_seconds * 1000);
    list_init(&w->link);
    return w;
}

int k8s_create(struct runtime *r, struct runtime_create *c, struct err *e)
{
    struct k8s *k = k8s_of(r);
    struct k8s_plan plan = plan_of(k, c);
    auto_object *o = NULL;
    AUTO_BUF(image, K8S_NAME_MAX * 4);
    struct k8s_wait *w;
    int result = 0;

    if (c->spec->snapshot_id.n) {
        result = k8s_snapshot_image(k, c->spec->snapshot_id, &image, e);
        plan.image = buf_str(&image);
    }
    if (result >= 0)
        result = make_claims(k, &plan, e);
    if (result < 0)
        return refused(c, result);
    k8s_table_expect(&k->table, c->id);
    result = make_object(k, &plan, &o, e);
    if (result >= 0 && !o)
        result = err_set(e, EIO, "the API server answered with no object");
    if (result >= 0 && c->spec->auth_user.n && !c->spec->pool_ref.n)
        result = make_secret(k, &plan, o->uid, e);
    if (result < 0)
        return refused(c, result); /* remove() follows */
    w = wait_new(k, c);
    (void)pthread_mutex_lock(&k->work_lock);
    c->task.of_runtime = &w->cancelled;
    (void)pthread_mutex_unlock(&k->work_lock);
    (void)k8s_table_apply(&k->table, o);
    k8s_table_wait(&k->table, w);
    return 0;
}

void k8s_cancel(struct runtime *r, struct runtime_task *task)
{
    struct k8s *k = k8s_of(r);

    (void)pthread_mutex_lock(&k->work_lock);
    if (task->of_runtime)
        atomic_store((atomic_bool *)task->of_runtime, true);
    (void)pthread_mutex_unlock(&k->work_lock);
}

/* --- the end --- */

/* Frees the wait. */
static void finish(struct k8s_wait *w, int r, const struct err *e)
{
    struct k8s *k = w->owner;
    struct runtime_create *c = w->create;

    (void)pthread_mutex_lock(&k->work_lock);
    c->task.of_runtime = NULL;
    (void)pthread_mutex_unlock(&k->work_lock);
    runtime_task_end(&c->task, r, e); /* e may be of w */
    free(w);
}

void k8s_create_end(void *user, struct k8s_wait *w, int r, const struct err *e)
{
    struct k8s *k = user;
    struct runtime_create *c = w->create;
    struct k8s_facts facts;
    char *metadata = NULL;

    if (r >= 0 &&
        k8s_table_watch(&k->table, str_of(w->id), &facts, &metadata, &c->birth.watch) == 0)
        free(metadata);
    if (r < 0) {
        c->fail_status = 500;
        c->fail_code = r == -EIO ? "KUBERNETES::POD_FAILED" : "KUBERNETES::API_ERROR";
    }
    finish(w, r, e);
}

/* --- a create that takes too long --- */

static void explain_work(struct pool_job *job)
{
    struct k8s_wait *w = container_of(job, struct k8s_wait, job);
    auto_object *pod = NULL;

    if (k8s_find_pod(w->owner, str_of(w->id), &pod, NULL) == 0)
        k8s_pod_trouble(pod, w->why, sizeof(w->why), &w->unschedulable);
}

static void explain_done(struct pool_job *job, int error UNUSED)
{
    struct k8s_wait *w = container_of(job, struct k8s_wait, job);
    struct runtime_create *c = w->create;
    const struct api_create *spec = c->spec;
    const struct k8s *k = w->owner;
    struct err e = {0};

    c->fail_status = 504;
    c->fail_code = "KUBERNETES::POD_READY_TIMEOUT";
    if (w->unschedulable && (spec->os.n || spec->arch.n)) {
        c->fail_status = 400;
        c->fail_code = "SANDBOX::INVALID_PARAMETER";
    }
    (void)err_set(&e, EIO, "the sandbox did not run within %lld seconds%s%s",
                  (long long)k->config->kubernetes.sandbox_create_timeout_seconds,
                  w->why[0] ? ": " : "", w->why);
    finish(w, -EIO, &e);
}

static void end_late(struct k8s *k, struct k8s_wait *w)
{
    struct err e = {0};

    if (atomic_load(&w->cancelled)) {
        (void)err_set(&e, ECANCELED, "the create was cancelled");
        finish(w, -ECANCELED, &e);
    } else if (w->allocated)
        k8s_create_end(k, w, 1, &e);
    else if (pool_submit(k->pool, &w->job, k->loop, explain_work, explain_done, 0) < 0)
        explain_done(&w->job, 0);
}

void k8s_create_tick(struct loop_timer *timer)
{
    struct k8s *k = container_of(timer, struct k8s, tick);
    double seconds = k->config->kubernetes.sandbox_create_poll_interval_seconds;
    uint64_t ms = seconds < 0.1 ? 100 : seconds > 5 ? 5000 : (uint64_t)(seconds * 1000);
    struct k8s_wait *w;

    while ((w = k8s_table_wait_late(&k->table)))
        end_late(k, w);
    k8s_snapshots_tick(k);
    loop_timer_set(k->loop, timer, deadline_in_ms(ms), k8s_create_tick);
}

void k8s_create_stop(struct k8s *k)
{
    struct k8s_wait *w;

    (void)pthread_mutex_lock(&k->table.lock);
    LIST_EACH(&k->table.waits, at)
    atomic_store(&container_of(at, struct k8s_wait, link)->cancelled, true);
    (void)pthread_mutex_unlock(&k->table.lock);
    while ((w = k8s_table_wait_late(&k->table)))
        end_late(k, w);
}
