/* k8s_snapshots.c - snapshots: a SandboxSnapshot each, of which the operator makes images. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "server/runtime/kubernetes/k8s_internal.h"

enum { POLL_MS = 2000, BODY_MAX = 64 << 10, LIST_PAGE = 500, CONTINUE_MAX = 1 << 20 };

/* A snapshot that is being made. Of the loop's thread, but for the link. */
struct making {
    struct list link;
    struct pool_job job;
    struct k8s *k8s;
    struct runtime_snapshot *snapshot;
    char name[K8S_LABEL_MAX];
    uint64_t deadline_ns, next_ns;
    bool busy; /* its job is under way */
    atomic_bool cancelled;
    int result; /* of the job: 0 = not yet */
    struct err err;
};

static int get_snapshot(struct k8s *k, const char *name, struct kube_object **ret, struct err *e)
{
    int r = k8s_call(k,
                     &(struct kube_request){.verb = KUBE_GET,
                                            .kind = &kube_snapshots,
                                            .ns = str_of(k->namespace),
                                            .name = str_of(name)},
                     ret, e);

    return r >= 0 && !*ret ? err_set(e, EIO, "the API server answered with no object") : r;
}

/* --- images --- */

int k8s_snapshot_image_of(const struct json *snapshot, struct str *ret, struct err *e)
{
    const struct json *containers = kube_get(snapshot, "status.containers");
    const struct json *chosen = json_count(containers) == 1 ? json_first(containers) : NULL;

    json_each(c, containers)
    {
        if (str_eq(kube_str(c, "containerName"), STR(K8S_CONTAINER)))
            chosen = c;
    }
    *ret = kube_str(chosen, "imageUri");
    return ret->n ? 0
                  : err_set(e, EINVAL, "the snapshot has no image of the container " K8S_CONTAINER);
}

int k8s_snapshot_image(struct k8s *k, struct str snapshot_id, struct buf *out, struct err *e)
{
    char name[K8S_LABEL_MAX];
    auto_object *o = NULL;
    struct str image;
    int r;

    k8s_snapshot_name(snapshot_id, name);
    r = get_snapshot(k, name, &o, e);
    if (r == 0)
        r = k8s_snapshot_image_of(o->root, &image, e);
    if (r == 0 && buf_add(out, image) < 0)
        r = err_set(e, EMSGSIZE, "the name of the snapshot's image is too long");
    return r < 0 ? err_wrap(e, r, "snapshot %.*s", STR_ARG(snapshot_id)) : 0;
}

/* --- making --- */

static void finish(struct making *m, int r, const struct err *e)
{
    struct runtime_task *task = &m->snapshot->task;

    (void)pthread_mutex_lock(&m->k8s->work_lock);
    list_remove(&m->link);
    task->of_runtime = NULL;
    (void)pthread_mutex_unlock(&m->k8s->work_lock);
    runtime_task_end(task, r, e); /* e may be of m */
    free(m);
}

/* What the phase says: 1 done, 0 not yet, -errno. */
static int judge(const struct json *snapshot, struct err *e)
{
    struct str phase = kube_str(snapshot, "status.phase"), image, why;

    if (str_eq(phase, STR("Succeed")))
        return k8s_snapshot_image_of(snapshot, &image, e) < 0 ? -EINVAL : 1;
    if (!str_eq(phase, STR("Failed")))
        return 0;
    why =
        kube_str(kube_condition(kube_get(snapshot, "status.conditions"), STR("Failed")), "message");
    return err_set(e, EIO, "the operator could not make the snapshot%s%.*s", why.n ? ": " : "",
                   STR_ARG(why));
}

static void poll_work(struct pool_job *job)
{
    struct making *m = container_of(job, struct making, job);
    auto_object *o = NULL;
    int r = get_snapshot(m->k8s, m->name, &o, &m->err);

    if (r >= 0)
        m->result = judge(o->root, &m->err);
    else
        m->result = r == -ENOENT ? r : 0; /* others pass, or the deadline does */
}

static void poll_done(struct pool_job *job, int error)
{
    struct making *m = container_of(job, struct making, job);

    m->busy = false;
    if (error || atomic_load(&m->cancelled))
        m->result = err_set(&m->err, ECANCELED, "the snapshot was cancelled");
    else if (m->result == 0 && deadline_passed(m->deadline_ns))
        m->result = err_set(&m->err, ETIMEDOUT, "the snapshot was not complete within %lld seconds",
                            (long long)m->k8s->config->kubernetes.snapshot_create_timeout_seconds);
    if (m->result)
        finish(m, m->result, &m->err);
}

static void look(struct making *m, bool now)
{
    if (m->busy || (!now && !atomic_load(&m->cancelled) && !deadline_passed(m->next_ns)))
        return;
    m->busy = true;
    m->next_ns = deadline_in_ms(POLL_MS);
    if (pool_submit(m->k8s->pool, &m->job, m->k8s->loop, poll_work, poll_done, 0) < 0)
        m->busy = false;
}

void k8s_snapshots_tick(struct k8s *k)
{
    (void)pthread_mutex_lock(&k->work_lock);
    LIST_EACH(&k->snapshots, at)
    look(container_of(at, struct making, link), false);
    (void)pthread_mutex_unlock(&k->work_lock);
}

void k8s_snapshots_stop(struct k8s *k)
{
    struct err e = {0};
    struct list *at;

    (void)err_set(&e, ECANCELED, "the server is stopping");
    while ((at = list_take(&k->snapshots)))
        finish(container_of(at, struct making, link), -ECANCELED, &e);
}

/* One of that name for another sandbox is not ours to use. */
static int claim_existing(struct k8s *k, const char *name, struct str sandbox, struct err *e)
{
    auto_object *o = NULL;
    int r = get_snapshot(k, name, &o, e);

    if (r == 0 && !str_eq(kube_str(o->root, "spec.sandboxName"), sandbox))
        return err_set(e, EEXIST, "the cluster has a snapshot of this name of another sandbox");
    return r;
}

int k8s_snapshot(struct runtime *r, struct runtime_snapshot *s, struct err *e)
{
    struct k8s *k = k8s_of(r);
    char sandbox[K8S_NAME_MAX];
    AUTO_BUF(body, BODY_MAX);
    struct making *m = mem_new(struct making);
    int result;

    k8s_object_name(k, s->id, sandbox);
    k8s_snapshot_name(s->snapshot_id, m->name);
    result = k8s_snapshot_write(k->namespace, s, str_of(sandbox), &body, e);
    if (result == 0)
        result = k8s_call(k,
                          &(struct kube_request){.verb = KUBE_CREATE,
                                                 .kind = &kube_snapshots,
                                                 .ns = str_of(k->namespace),
                                                 .body = buf_str(&body)},
                          NULL, e);
    if (result == -EEXIST)
        result = claim_existing(k, m->name, str_of(sandbox), e);
    if (result < 0) {
        free(m);
        return result;
    }
    m->k8s = k;
    m->snapshot = s;
    m->deadline_ns =
        deadline_in_ms((uint64_t)k->config->kubernetes.snapshot_create_timeout_seconds * 1000);
    list_init(&m->link);
    (void)pthread_mutex_lock(&k->work_lock);
    s->task.of_runtime = &m->cancelled;
    list_push(&k->snapshots, &m->link);
    (void)pthread_mutex_unlock(&k->work_lock);
    return 0;
}

int k8s_snapshot_remove(struct runtime *r, struct str snapshot_id, struct err *e)
{
    struct k8s *k = k8s_of(r);
    char name[K8S_LABEL_MAX];
    int result;

    k8s_snapshot_name(snapshot_id, name);
    result = k8s_call(k,
                      &(struct kube_request){.verb = KUBE_DELETE,
                                             .kind = &kube_snapshots,
                                             .ns = str_of(k->namespace),
                                             .name = str_of(name)},
                      NULL, e);
    if (result == -ENOENT)
        return 0;
    return result < 0 ? result : 1;
}

/* --- what the cluster has --- */

static int list_page(struct k8s *k, struct buf *next, struct kube_object **ret, struct err *e)
{
    AUTO_BUF(query, CONTINUE_MAX);
    char limit[16];
    int r = kube_query_add(&query, "labelSelector", STR(K8S_LABEL_SCOPE "=public"));

    (void)snprintf(limit, sizeof(limit), "%d", LIST_PAGE);
    if (r == 0)
        r = kube_query_add(&query, "limit", str_of(limit));
    if (r == 0 && next->n)
        r = kube_query_add(&query, "continue", buf_str(next));
    if (r < 0)
        return err_set(e, -r, "compose the query of a list");
    r = k8s_call(k,
                 &(struct kube_request){.verb = KUBE_LIST,
                                        .kind = &kube_snapshots,
                                        .ns = str_of(k->namespace),
                                        .query = buf_str(&query)},
                 ret, e);
    if (r < 0)
        return r;
    buf_clear(next);
    if (*ret && buf_add(next, kube_str((*ret)->root, "metadata.continue")) < 0)
        return err_set(e, EMSGSIZE, "the API server's list is cut");
    return 0;
}

/* Calls one() with each SandboxSnapshot of servers. */
static int each_object(struct k8s *k, void (*one)(void *user, const struct json *o), void *user,
                       struct err *e)
{
    AUTO_BUF(next, CONTINUE_MAX);
    int r;

    do {
        auto_object *page = NULL;

        r = list_page(k, &next, &page, e);
        json_each(item, json_get(r == 0 && page ? page->root : NULL, STR("items"))) one(user, item);
    } while (r == 0 && next.n);
    return r;
}

struct each {
    runtime_snapshot_visit_fn *visit;
    void *user;
};

static struct str id_of(const struct json *o)
{
    struct str id = STR("");

    (void)!json_to_str(json_get(kube_get(o, "metadata.labels"), STR(K8S_LABEL_SNAPSHOT)), &id);
    return id;
}

static void tell_complete(void *user, const struct json *o)
{
    const struct each *each = user;
    struct str id = id_of(o);

    if (id.n && str_eq(kube_str(o, "status.phase"), STR("Succeed")))
        each->visit(each->user, id, 0);
}

int k8s_snapshot_each(struct runtime *r, runtime_snapshot_visit_fn *visit, void *user,
                      struct err *e)
{
    int result = each_object(k8s_of(r), tell_complete, &(struct each){visit, user}, e);

    return result == -ENOENT ? 0 : result; /* the cluster has no such kind */
}

struct telling {
    runtime_shared_visit_fn *visit;
    void *user;
};

static void tell_shared(void *user, const struct json *o)
{
    const struct telling *t = user;
    const struct json *notes = kube_get(o, "metadata.annotations");
    struct str hidden = STR(""), name = STR(""), sandbox = STR("");
    struct str made = kube_str(o, "metadata.creationTimestamp");
    struct runtime_shared_snapshot s = {.id = id_of(o), .state = SNAPSHOT_CREATING};
    struct err e = {0};
    int result = judge(o, &e);

    (void)!json_to_str(json_get(notes, STR(K8S_NOTE_HIDDEN)), &hidden);
    (void)!json_to_str(json_get(notes, STR(K8S_NOTE_NAME)), &name);
    (void)!json_to_str(json_get(kube_get(o, "metadata.labels"), STR(K8S_LABEL_SOURCE)), &sandbox);
    if (!s.id.n || hidden.n || kube_str(o, "metadata.deletionTimestamp").n)
        return;
    s.name = name;
    s.sandbox_id = sandbox;
    s.message = str_of(e.msg);
    if (result)
        s.state = result > 0 ? SNAPSHOT_READY : SNAPSHOT_FAILED;
    (void)!time_parse(made, &s.created_us, NULL);
    t->visit(t->user, &s);
}

int k8s_snapshot_shared(struct runtime *r, struct str id, runtime_shared_visit_fn *visit,
                        void *user, struct err *e)
{
    struct k8s *k = k8s_of(r);
    struct telling t = {visit, user};
    char name[K8S_LABEL_MAX];
    auto_object *o = NULL;
    int result;

    if (!id.n)
        return each_object(k, tell_shared, &t, e);
    k8s_snapshot_name(id, name);
    result = get_snapshot(k, name, &o, e);
    if (result < 0)
        return result == -ENOENT ? 0 : result;
    if (str_eq(id_of(o->root), id)) /* an operator's own, of a pause, has none */
        tell_shared(&t, o->root);
    return 0;
}
