/* operator.c - watches, and the moment from which decisions are taken. */
#include "operator/operator.h"

#include <errno.h>

#include "base/log.h"
#include "net/http_client.h"
#include "operator/names.h"

enum {
    /* Writes of a process that was killed may still reach the API server's store after our
     * list: the
     * watch tells of them before decisions begin. */
    SETTLE_MS = 500,
};

static void on_add(struct kube_handler *h, struct kube_object *o)
{
    struct watch *w = container_of(h, struct watch, handler);

    w->see(&w->op->world, o);
}

static void on_update(struct kube_handler *h, struct kube_object *old, struct kube_object *o)
{
    on_add(h, o);
}

static void on_delete(struct kube_handler *h, struct kube_object *last)
{
    struct watch *w = container_of(h, struct watch, handler);

    w->lose(&w->op->world, last);
}

bool operator_is_synced(const struct operator* op)
{
    for (size_t i = 0; i < WATCH_COUNT; i++)
        if (op->watches[i].informer && !kube_informer_is_synced(op->watches[i].informer))
            return false;
    return true;
}

static void on_settled(struct loop_timer *t)
{
    struct operator* op = container_of(t, struct operator, settle);

    op->settled = true;
    log_event(LOG_INFO, "decisions begin", LOG_U64("sandboxes", op->world.sandboxes.n),
              LOG_U64("pools", op->world.pools.n), LOG_U64("pods", op->world.pods.n),
              LOG_U64("claims", op->world.claims.n));
    queues_open(&op->queues);
}

static void maybe_settle(struct operator* op)
{
    if (op->leading && !op->settled && !loop_timer_armed(&op->settle) && operator_is_synced(op))
        loop_timer_after(op->loop, &op->settle, SETTLE_MS, on_settled);
}

static void on_synced(struct kube_handler *h)
{
    maybe_settle(container_of(h, struct watch, handler)->op);
}

void operator_lead(struct operator* op)
{
    op->leading = true;
    maybe_settle(op);
}

static void see_profiles(struct world *w, struct kube_object *o)
{
    world_see_profiles(w, o);
}

static void lose_profiles(struct world *w, const struct kube_object *o)
{
    world_see_profiles(w, NULL);
}

/* --- what is kept of a pod --- */

static void keep_member(struct json_writer *w, const struct json *v, const char *key)
{
    const struct json *m = json_get(v, str_of(key));

    if (!m)
        return;
    json_write_key(w, str_of(key));
    json_write_value(w, m);
}

static void keep_statuses(struct json_writer *w, const struct json *status, const char *key)
{
    const struct json *list = json_get(status, str_of(key));

    if (!list)
        return;
    json_write_key(w, str_of(key));
    json_write_array(w);
    json_each(c, list)
    {
        json_write_object(w);
        keep_member(w, c, "name");
        keep_member(w, c, "containerID");
        keep_member(w, c, "restartCount");
        keep_member(w, c, "state");
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void keep_metadata(struct json_writer *w, const struct json *meta)
{
    static const char *const members[] = {"name",
                                          "namespace",
                                          "uid",
                                          "resourceVersion",
                                          "labels",
                                          "creationTimestamp",
                                          "deletionTimestamp",
                                          "ownerReferences"};
    struct str record;

    json_write_key(w, STR("metadata"));
    json_write_object(w);
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        keep_member(w, meta, members[i]);
    if (json_to_str(json_get(kube_get(meta, "annotations"), STR(NOTE_RESTART_RECORD)), &record) ==
        0) {
        json_write_key(w, STR("annotations"));
        json_write_object(w);
        json_member_string(w, STR(NOTE_RESTART_RECORD), record);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void keep_conditions(struct json_writer *w, const struct json *status)
{
    const struct json *ready = kube_condition(json_get(status, STR("conditions")), STR("Ready"));

    json_write_key(w, STR("conditions"));
    json_write_array(w);
    if (ready)
        json_write_value(w, ready);
    json_write_array_end(w);
}

static void pod_reduce(const struct json *full, struct json_writer *w)
{
    const struct json *status = json_get(full, STR("status"));

    json_write_object(w);
    keep_member(w, full, "apiVersion");
    keep_member(w, full, "kind");
    keep_metadata(w, json_get(full, STR("metadata")));
    json_write_key(w, STR("spec"));
    json_write_object(w);
    keep_member(w, json_get(full, STR("spec")), "nodeName");
    json_write_key(w, STR("containers"));
    json_write_array(w);
    json_each(c, kube_get(full, "spec.containers"))
    {
        json_write_object(w);
        keep_member(w, c, "name");
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_object_end(w);
    json_write_key(w, STR("status"));
    json_write_object(w);
    keep_member(w, status, "phase");
    keep_member(w, status, "podIP");
    keep_member(w, status, "reason");
    keep_member(w, status, "message");
    keep_conditions(w, status);
    keep_statuses(w, status, "containerStatuses");
    keep_statuses(w, status, "initContainerStatuses");
    json_write_object_end(w);
    json_write_object_end(w);
}

/* --- start and stop --- */

struct watch_row {
    const struct kube_kind *kind;
    const char *labels, *fields;
    void (*reduce)(const struct json *full, struct json_writer *w);
    void (*see)(struct world *w, struct kube_object *o);
    void (*lose)(struct world *w, const struct kube_object *o);
};

#define WATCH(of, by_labels, by_fields, keep, on_see, on_lose)                                     \
    {                                                                                              \
        .kind = &(of), .labels = (by_labels), .fields = (by_fields), .reduce = (keep),             \
        .see = (on_see), .lose = (on_lose)                                                         \
    }
#define WATCH_PODS(label) WATCH(kube_pods, label, NULL, pod_reduce, world_see_pod, world_lose_pod)
#define PROFILES          "metadata.name=pool-assign-profiles"
static const struct watch_row watch_rows[WATCH_COUNT] = {
    [WATCH_SANDBOXES] =
        WATCH(kube_batch_sandboxes, NULL, NULL, NULL, world_see_sandbox, world_lose_sandbox),
    [WATCH_POOLS] = WATCH(kube_pools, NULL, NULL, NULL, world_see_pool, world_lose_pool),
    [WATCH_SNAPSHOTS] =
        WATCH(kube_snapshots, NULL, NULL, NULL, world_see_snapshot, world_lose_snapshot),
    [WATCH_OWN_PODS] = WATCH_PODS(LABEL_SANDBOX_NAME),
    [WATCH_POOL_PODS] = WATCH_PODS(LABEL_POOL_NAME),
    [WATCH_JOB_PODS] = WATCH_PODS(LABEL_SNAPSHOT_NAME),
    [WATCH_JOBS] = WATCH(kube_jobs, LABEL_SNAPSHOT_NAME, NULL, NULL, world_see_job, world_lose_job),
    [WATCH_PROFILES] = WATCH(kube_configmaps, NULL, PROFILES, NULL, see_profiles, lose_profiles),
};

static int watch_start(struct operator* op, size_t row, struct err *e)
{
    const struct watch_row *r = &watch_rows[row];
    struct watch *w = &op->watches[row];
    struct kube_informer_conf conf = {.client = op->client,
                                      .kind = r->kind,
                                      .label_selector = r->labels,
                                      .field_selector = r->fields,
                                      .reduce = r->reduce};

    if (row == WATCH_PROFILES)
        conf.ns = op->options->pod_namespace;
    w->op = op;
    w->see = r->see;
    w->lose = r->lose;
    w->handler = (struct kube_handler){
        .on_add = on_add, .on_update = on_update, .on_delete = on_delete, .on_synced = on_synced};
    if (kube_informer_new(&conf, &w->informer, e) < 0)
        return -e->code;
    kube_informer_add_handler(w->informer, &w->handler);
    return 0;
}

static void settings_read(struct operator* op)
{
    const struct options *o = op->options;

    op->settings = (struct settings){
        .committer_image = str_of(o->committer_image),
        .containerd_socket = str_of(o->containerd_socket),
        .registry = str_of(o->registry),
        .push_secret = str_of(o->push_secret),
        .pull_secret = str_of(o->pull_secret),
        .registry_insecure = o->registry_insecure,
        .commit_timeout_s = o->commit_timeout_s,
    };
}

int operator_start(struct operator* op, struct err *e)
{
    static const char *const names[QUEUE_COUNT] = {"batchsandbox-controller", "pool-controller",
                                                   "sandboxsnapshot-controller"};
    int r;

    settings_read(op);
    queues_init(&op->queues, op->loop, operator_run, operator_free_dead);
    op->queues.rows[OBJECT_SANDBOX].limit = op->options->sandbox_workers;
    op->queues.rows[OBJECT_POOL].limit = op->options->pool_workers;
    world_init(&op->world, &op->queues);
    r = http_client_new(op->loop, &(struct http_client_conf){.connect_ms = 3000}, &op->http, e);
    for (size_t i = 0; i < QUEUE_COUNT && r >= 0; i++)
        r = kube_recorder_new(op->client, names[i], "opensandbox-operator", &op->recorders[i], e);
    for (size_t i = 0; i < WATCH_COUNT && r >= 0; i++)
        r = watch_start(op, i, e);
    return r;
}

void operator_stop(struct operator* op)
{
    queues_close(&op->queues);
    loop_timer_stop(op->loop, &op->settle);
    for (size_t i = 0; i < WATCH_COUNT; i++)
        kube_informer_free(op->watches[i].informer);
    for (size_t i = 0; i < QUEUE_COUNT; i++)
        kube_recorder_free(op->recorders[i]);
    http_client_free(op->http);
}
