#include "operator/facts.h"

#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/mem.h"
#include "base/sha.h"
#include "base/time.h"
#include "kube/object.h"
#include "operator/doc.h"
#include "operator/names.h"

enum { ALLOC_TEXT_MAX = 1 << 20 };

bool names_have(const struct names *list, struct str name)
{
    for (size_t i = 0; i < list->count; i++)
        if (str_eq(list->rows[i], name))
            return true;
    return false;
}

static int64_t time_at(const struct json *v, const char *path)
{
    int64_t us;

    return time_parse_lenient(kube_str(v, path), &us, NULL) < 0 ? 0 : us;
}

/* A label or annotation, whose key has dots. */
static struct str note_of(const struct json *object, const char *table, const char *key)
{
    struct str s;

    return json_to_str(json_get(kube_get(object, table), str_of(key)), &s) < 0 ? STR_NONE : s;
}

static bool has_finalizer(const struct json *object, const char *name)
{
    struct str s;

    json_each(one, kube_get(object, "metadata.finalizers"))
    {
        if (json_to_str(one, &s) == 0 && str_eq(s, str_of(name)))
            return true;
    }
    return false;
}

static int meta_read(const struct json *object, struct meta *m, struct err *e)
{
    m->name = kube_str(object, "metadata.name");
    m->ns = kube_str(object, "metadata.namespace");
    m->uid = kube_str(object, "metadata.uid");
    m->version = kube_str(object, "metadata.resourceVersion");
    m->generation = kube_i64(object, "metadata.generation");
    m->created_us = time_at(object, "metadata.creationTimestamp");
    m->deleting_us = time_at(object, "metadata.deletionTimestamp");
    json_each(owner, kube_get(object, "metadata.ownerReferences"))
    {
        if (!kube_bool(owner, "controller"))
            continue;
        m->owner_uid = kube_str(owner, "uid");
        m->owner_kind = kube_str(owner, "kind");
        m->owner_name = kube_str(owner, "name");
    }
    if (!m->name.n)
        return err_set(e, EBADMSG, "an object without metadata.name");
    return 0;
}

/* --- pods --- */

static bool reason_is_failure(struct str reason)
{
    static const char *const reasons[] = {"CrashLoopBackOff",     "ImagePullBackOff",
                                          "ErrImagePull",         "CreateContainerConfigError",
                                          "InvalidImageName",     "ErrImageNeverPull",
                                          "CreateContainerError", "RunContainerError"};

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (str_eq(reason, str_of(reasons[i])))
            return true;
    return false;
}

static void pod_fail(struct pod *p, struct str reason, struct str message)
{
    if (p->failure_reason.p)
        return;
    p->failure_reason = reason.n ? reason : STR("PodFailed");
    p->failure_message = message.p ? message : STR("");
}

/* Failures of containers, init containers too: why a pod does not become ready. */
static void pod_read_failures(struct pod *p, const struct json *statuses, bool init)
{
    json_each(c, statuses)
    {
        const struct json *ended = kube_get(c, "state.terminated");
        struct str reason = kube_str(c, "state.waiting.reason");

        if (reason_is_failure(reason))
            pod_fail(p, reason, kube_str(c, "state.waiting.message"));
        if (init && ended && kube_i64(ended, "exitCode") != 0 && p->finished)
            pod_fail(p, STR("InitContainerFailed"), kube_str(ended, "message"));
        if (!init && ended && p->finished) {
            struct str why = kube_str(ended, "reason");

            pod_fail(p, why.n ? why : STR("ContainerExited"), kube_str(ended, "message"));
        }
        if (!init && ended && !p->job_message.p && kube_str(ended, "message").n)
            p->job_message = kube_str(ended, "message");
    }
}

static void pod_read_containers(struct pod *p, const struct json *object)
{
    struct json *running = doc_object(&p->arena);

    json_each(c, kube_get(object, "status.containerStatuses"))
    {
        p->restarts += (uint32_t)kube_i64(c, "restartCount");
        if (kube_get(c, "state.running"))
            (void)doc_set_string(&p->arena, running, kube_str(c, "name"),
                                 kube_str(c, "containerID"));
    }
    p->containers = (uint32_t)json_count(kube_get(object, "spec.containers"));
    p->running = json_count(running) ? doc_text(&p->arena, running) : STR_NONE;
}

static int64_t pod_index(const struct json *object, struct str name)
{
    struct str label = note_of(object, "metadata.labels", LABEL_POD_INDEX);
    size_t at = name.n;
    int64_t index;

    if (label.p && str_to_i64_range(label, 0, REPLICAS_MAX, &index) == 0)
        return index;
    while (at > 0 && name.p[at - 1] != '-')
        at--;
    return str_to_i64_range(str_skip(name, at), 0, REPLICAS_MAX, &index) < 0 ? -1 : index;
}

static void pod_read_ready(struct pod *p, const struct json *object)
{
    json_each(c, kube_get(object, "status.conditions"))
    {
        if (!str_eq(kube_str(c, "type"), STR("Ready")))
            continue;
        p->ready = str_eq(kube_str(c, "status"), STR("True")) && !p->meta.deleting_us &&
                   str_eq(p->phase, STR("Running"));
        p->ready_us = time_at(c, "lastTransitionTime");
    }
}

struct pod *pod_read(const struct json *object, struct err *e)
{
    struct pod *p = mem_new(struct pod);

    arena_init(&p->arena, FACTS_BYTES_MAX);
    if (meta_read(object, &p->meta, e) < 0) {
        pod_free(p);
        return NULL;
    }
    p->node = kube_str(object, "spec.nodeName");
    p->ip = kube_str(object, "status.podIP");
    p->phase = kube_str(object, "status.phase");
    p->finished = str_eq(p->phase, STR("Failed")) || str_eq(p->phase, STR("Succeeded"));
    p->revision = note_of(object, "metadata.labels", LABEL_POOL_REVISION);
    p->pool_name = note_of(object, "metadata.labels", LABEL_POOL_NAME);
    p->evict = note_of(object, "metadata.labels", LABEL_EVICT).p != NULL;
    p->restart_record = note_of(object, "metadata.annotations", NOTE_RESTART_RECORD);
    p->index = pod_index(object, p->meta.name);
    pod_read_ready(p, object);
    if (p->finished && kube_str(object, "status.reason").n)
        pod_fail(p, kube_str(object, "status.reason"), kube_str(object, "status.message"));
    pod_read_failures(p, kube_get(object, "status.initContainerStatuses"), true);
    pod_read_failures(p, kube_get(object, "status.containerStatuses"), false);
    if (p->finished)
        pod_fail(p, str_eq(p->phase, STR("Succeeded")) ? STR("PodSucceeded") : STR("PodFailed"),
                 kube_str(object, "status.message"));
    pod_read_containers(p, object);
    return p;
}

void pod_free(struct pod *p)
{
    if (!p)
        return;
    arena_done(&p->arena);
    free(p);
}

bool pod_is_live(const struct pod *p)
{
    return p && !p->meta.deleting_us && !p->finished;
}

/* --- BatchSandboxes --- */

/* {"pods":["a","b"]}: unknown members are fine, anything else is malformed. */
static bool names_read(struct arena *a, struct str text, struct names *ret)
{
    struct json *v;
    const struct json *pods;

    *ret = (struct names){NULL, 0};
    if (!text.n)
        return true;
    if (json_parse(a, text, &(struct json_limits){.text_bytes_max = ALLOC_TEXT_MAX}, &v, NULL) < 0)
        return false;
    pods = json_get(v, STR("pods"));
    if (v->type != JSON_OBJECT || (pods && pods->type != JSON_ARRAY && pods->type != JSON_NULL))
        return false;
    ret->rows = arena_new_array(a, struct str, json_count(pods) + 1);
    if (!ret->rows)
        return false;
    json_each(one, pods)
    {
        if (json_to_str(one, &ret->rows[ret->count]) < 0)
            return false;
        ret->count++;
    }
    return true;
}

static void sandbox_read_notes(struct sandbox *s)
{
    static const char *const notes = "metadata.annotations";
    struct arena *a = &s->arena;

    s->alloc_text = note_of(s->object, notes, NOTE_ALLOC_STATUS);
    s->malformed = !names_read(a, s->alloc_text, &s->alloc);
    s->malformed |= !names_read(a, note_of(s->object, notes, NOTE_ALLOC_RELEASE), &s->release);
    s->malformed |= !names_read(a, note_of(s->object, notes, NOTE_ALLOC_RELEASED), &s->released);
    s->endpoints = note_of(s->object, notes, NOTE_ENDPOINTS);
}

static bool is_given(const struct json *v)
{
    return v && v->type != JSON_NULL;
}

struct sandbox *sandbox_read(const struct json *object, struct err *e)
{
    struct sandbox *s = mem_new(struct sandbox);
    const struct json *pause;

    arena_init(&s->arena, FACTS_BYTES_MAX);
    s->object = object;
    if (meta_read(object, &s->meta, e) < 0) {
        sandbox_free(s);
        return NULL;
    }
    s->replicas = kube_get(object, "spec.replicas") ? kube_i64(object, "spec.replicas") : 1;
    if (s->replicas < 0 || s->replicas > REPLICAS_MAX)
        s->replicas = s->replicas < 0 ? 0 : REPLICAS_MAX;
    s->expire_us = time_at(object, "spec.expireTime");
    s->pool_ref = kube_str(object, "spec.poolRef");
    s->has_template = is_given(kube_get(object, "spec.template"));
    s->has_tasks = is_given(kube_get(object, "spec.taskTemplate"));
    s->release_when_done =
        str_eq(kube_str(object, "spec.taskResourcePolicyWhenCompleted"), STR("Release"));
    pause = kube_get(object, "spec.pause");
    if (pause && pause->type == JSON_BOOL)
        s->pause = pause->boolean ? PAUSE_YES : PAUSE_NO;
    s->has_task_finalizer = has_finalizer(object, FINALIZER_TASK);
    s->has_pool_finalizer = has_finalizer(object, FINALIZER_POOL);
    s->phase = kube_str(object, "status.phase");
    s->pause_observed = kube_i64(object, "status.pauseObservedGeneration");
    sandbox_read_notes(s);
    return s;
}

void sandbox_free(struct sandbox *s)
{
    if (!s)
        return;
    arena_done(&s->arena);
    free(s);
}

bool sandbox_claims(const struct sandbox *s, struct str pod)
{
    /* What cannot be read may name the pod: then it is not free. */
    if (s->malformed)
        return str_find_str(s->alloc_text, pod) < s->alloc_text.n;
    return names_have(&s->alloc, pod) && !names_have(&s->released, pod);
}

const struct json *sandbox_condition(const struct sandbox *s, struct str type)
{
    json_each(c, kube_get(s->object, "status.conditions"))
    {
        if (str_eq(kube_str(c, "type"), type))
            return c;
    }
    return NULL;
}

/* --- the other kinds --- */

int64_t int_or_percent_of(struct int_or_percent v, int64_t total)
{
    int64_t n = v.percent ? (total * v.value + 99) / 100 : v.value;

    return n < 1 ? 1 : n;
}

static struct int_or_percent int_or_percent_read(const struct json *v)
{
    struct int_or_percent ret = {25, true};
    struct str s;
    int64_t n;

    if (json_to_i64(v, &n) == 0 && n >= 0)
        return (struct int_or_percent){n, false};
    if (json_to_str(v, &s) < 0 || !s.n)
        return ret;
    if (str_ends(s, STR("%")) && str_to_i64_range(str_make(s.p, s.n - 1), 0, 1000, &n) == 0)
        return (struct int_or_percent){n, true};
    if (str_to_i64_range(s, 0, INT32_MAX, &n) == 0)
        return (struct int_or_percent){n, false};
    return ret;
}

static struct str revision_of(struct arena *a, const struct json *template)
{
    uint8_t digest[SHA256_BYTES];
    char hex[HEX_TEXT_MAX(8)];

    sha256_of(doc_text(a, template), digest);
    (void)hex_encode(str_make((const char *)digest, 8), hex);
    return arena_str(a, str_of(hex));
}

static enum recycle recycle_read(struct str type)
{
    if (str_eq(type, STR("Restart")))
        return RECYCLE_RESTART;
    return str_eq(type, STR("Noop")) ? RECYCLE_NOOP : RECYCLE_DELETE;
}

struct pool *pool_facts_read(const struct json *object, struct err *e)
{
    struct pool *p = mem_new(struct pool);
    const struct json *spec;

    arena_init(&p->arena, FACTS_BYTES_MAX);
    p->object = object;
    if (meta_read(object, &p->meta, e) < 0) {
        pool_facts_free(p);
        return NULL;
    }
    spec = json_get(p->object, STR("spec"));
    p->template = json_get(spec, STR("template"));
    if (!is_given(p->template))
        p->template = NULL;
    p->buffer_min = kube_i64(spec, "capacitySpec.bufferMin");
    p->buffer_max = kube_i64(spec, "capacitySpec.bufferMax");
    p->pool_min = kube_i64(spec, "capacitySpec.poolMin");
    p->pool_max = kube_i64(spec, "capacitySpec.poolMax");
    p->scale_unavailable = int_or_percent_read(kube_get(spec, "scaleStrategy.maxUnavailable"));
    p->update_unavailable = int_or_percent_read(kube_get(spec, "updateStrategy.maxUnavailable"));
    p->recycle = recycle_read(kube_str(spec, "recycleStrategy.type"));
    p->revision = p->template ? revision_of(&p->arena, p->template) : STR("");
    p->restart_config = note_of(p->object, "metadata.annotations", NOTE_RESTART_CONFIG);
    if (!p->template)
        p->problem = STR("spec.template is missing; without it no pod can be created");
    else if (!json_count(kube_get(p->template, "spec.containers")))
        p->problem = STR("spec.template.spec.containers is empty; a pod needs a container");
    return p;
}

void pool_facts_free(struct pool *p)
{
    if (!p)
        return;
    arena_done(&p->arena);
    free(p);
}

struct snapshot *snapshot_read(const struct json *object, struct err *e)
{
    struct snapshot *s = mem_new(struct snapshot);

    arena_init(&s->arena, FACTS_BYTES_MAX);
    s->object = object;
    if (meta_read(object, &s->meta, e) < 0) {
        snapshot_free(s);
        return NULL;
    }
    s->sandbox_name = kube_str(s->object, "spec.sandboxName");
    s->phase = kube_str(s->object, "status.phase");
    s->has_finalizer = has_finalizer(s->object, FINALIZER_SNAPSHOT);
    return s;
}

void snapshot_free(struct snapshot *s)
{
    if (!s)
        return;
    arena_done(&s->arena);
    free(s);
}

struct job *job_read(const struct json *object, struct err *e)
{
    struct job *j = mem_new(struct job);

    arena_init(&j->arena, FACTS_BYTES_MAX);
    if (meta_read(object, &j->meta, e) < 0) {
        job_free(j);
        return NULL;
    }
    j->snapshot = note_of(object, "metadata.labels", LABEL_SNAPSHOT_NAME);
    j->succeeded = kube_i64(object, "status.succeeded") > 0;
    json_each(c, kube_get(object, "status.conditions"))
    {
        if (!str_eq(kube_str(c, "type"), STR("Failed")) ||
            !str_eq(kube_str(c, "status"), STR("True")))
            continue;
        j->failed = true;
        j->failure = kube_str(c, "message");
    }
    return j;
}

void job_free(struct job *j)
{
    if (!j)
        return;
    arena_done(&j->arena);
    free(j);
}
