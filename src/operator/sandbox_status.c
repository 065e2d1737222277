/* sandbox_status.c - the status of a BatchSandbox: what its pods say, and whether to write it. */
#include <stdio.h>

#include "kube/object.h"
#include "kube/time.h"
#include "operator/names.h"
#include "operator/sandbox_internal.h"

enum {
    FIRST_WAIT_US = 1000000, /* a sandbox that is ready sooner costs one write of its status */
};

void status_condition(struct status *s, const char *type, const char *reason, struct str message)
{
    struct condition *c;

    if (s->condition_count == CONDITIONS_MAX)
        return;
    c = &s->conditions[s->condition_count++];
    c->type = type;
    c->reason = reason;
    c->message = message;
}

static const char *text_in(struct plan *p, struct str s)
{
    const char *copy = arena_strdup(&p->arena, s);

    return copy ? copy : "";
}

void status_keep(struct status *s, const struct sandbox *from, const char *type)
{
    const struct json *c = sandbox_condition(from, str_of(type));

    /* Strings of a parsed tree end with a NUL. */
    if (c && str_eq(kube_str(c, "status"), STR("True")))
        status_condition(s, type, kube_str(c, "reason").p, kube_str(c, "message"));
}

struct failures {
    size_t count;
    const struct pod *sample;
    struct str reason;
};

/* The most frequent reason, and a pod that has it. */
static struct failures failures_of(const struct members *m)
{
    struct failures f = {0};
    size_t best = 0;

    for (size_t i = 0; i < m->count; i++) {
        size_t same = 0;

        if (!m->rows[i] || !m->rows[i]->failure_reason.n)
            continue;
        f.count++;
        if (best > m->count / 2)
            continue; /* none can be more frequent */
        for (size_t j = 0; j < m->count; j++)
            same += m->rows[j] && str_eq(m->rows[j]->failure_reason, m->rows[i]->failure_reason);
        if (same > best) {
            best = same;
            f.sample = m->rows[i];
            f.reason = m->rows[i]->failure_reason;
        }
    }
    return f;
}

static struct str failure_text(struct plan *p, const struct failures *f, size_t of)
{
    struct str why = f->sample->failure_message;

    if (why.n > CONDITION_TEXT_MAX / 2)
        why.n = CONDITION_TEXT_MAX / 2;
    return str_of(arena_printf(&p->arena, "%zu/%zu pods failed: %.*s, such as %.*s%s%.*s", f->count,
                               of, STR_ARG(f->reason), STR_ARG(f->sample->meta.name),
                               why.n ? ": " : "", STR_ARG(why)));
}

static void status_count(const struct members *m, struct status *s)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct pod *pod = m->rows[i];

        if (!pod)
            continue;
        s->replicas++;
        s->allocated += pod->node.n > 0 || pod->ip.n > 0;
        s->ready += pod->ready;
    }
}

static void status_pending(const struct sandbox_in *in, struct status *s)
{
    s->phase = STR("Pending");
    if (sandbox_is_pooled(in->sandbox) && s->replicas < in->sandbox->replicas)
        status_condition(s, "Progressing", "WaitingForPool",
                         STR("the pool has no idle pod that is ready"));
    else
        status_condition(s, "Progressing", "Creating", STR("pods are not ready yet"));
}

static void status_settled(const struct sandbox_in *in, const struct failures *f, bool resuming,
                           const struct members *m, struct plan *p, struct status *s)
{
    if (f->count) {
        struct str text = failure_text(p, f, m->count);

        s->phase = STR("Failed");
        if (resuming)
            status_condition(s, "ResumeFailed", "PodFailed", text);
        status_condition(s, "PodFailed", text_in(p, f->reason), text);
    } else if (s->ready > 0 || in->sandbox->replicas == 0) {
        s->phase = STR("Succeed");
        status_condition(s, "Ready", "PodsReady", STR("a pod is ready"));
    } else if (resuming) {
        s->phase = STR("Resuming");
        status_condition(s, "Progressing", "ResumeInProgress", STR("the pod is being created"));
    } else {
        status_pending(in, s);
    }
}

void status_of(const struct sandbox_in *in, const struct members *m, struct plan *p,
               struct status *ret)
{
    const struct sandbox *s = in->sandbox;
    struct failures f = failures_of(m);
    bool resuming = str_eq(s->phase, STR("Resuming"));

    *ret = (struct status){.pause_observed = s->pause_observed};
    status_count(m, ret);
    if (str_eq(s->phase, STR("Pausing"))) {
        ret->phase = s->phase;
        status_condition(ret, "Progressing", "PauseInProgress",
                         STR("the filesystem is being saved"));
    } else if (str_eq(s->phase, STR("Paused"))) {
        ret->phase = s->phase;
        status_condition(ret, "Paused", "Paused", STR("the sandbox is stored as an image"));
        status_keep(ret, s, "ResumeFailed");
    } else {
        status_settled(in, &f, resuming, m, p, ret);
        /* A sandbox that failed to resume stays so until a pod of it is ready. */
        if (!resuming && str_eq(ret->phase, STR("Failed")))
            status_keep(ret, s, "ResumeFailed");
    }
    if (!str_eq(s->phase, STR("Paused")))
        status_keep(ret, s, "PauseFailed");
    /* An intent that is already true needs no action: only its number is caught up with. */
    if (s->pause == PAUSE_UNSAID ? !resuming
                                 : (s->pause == PAUSE_YES) == str_eq(ret->phase, STR("Paused")))
        ret->pause_observed = s->meta.generation;
}

static void put_int(struct plan *p, struct json *v, const char *key, int64_t n)
{
    (void)doc_set(&p->arena, v, str_of(key), doc_int(&p->arena, n));
}

static struct json *condition_tree(const struct sandbox_in *in, const struct condition *c,
                                   struct plan *p)
{
    const struct json *old = sandbox_condition(in->sandbox, str_of(c->type));
    struct json *v = doc_object(&p->arena);
    char now[TIME_TEXT_MAX];

    (void)kube_time_format(in->now_us, now);
    (void)doc_set_string(&p->arena, v, STR("type"), str_of(c->type));
    (void)doc_set_string(&p->arena, v, STR("status"), STR("True"));
    (void)doc_set_string(&p->arena, v, STR("reason"), str_of(c->reason ? c->reason : ""));
    (void)doc_set_string(&p->arena, v, STR("message"), c->message.p ? c->message : STR(""));
    (void)doc_set_string(&p->arena, v, STR("lastTransitionTime"),
                         old && kube_str(old, "lastTransitionTime").n &&
                                 str_eq(kube_str(old, "status"), STR("True"))
                             ? kube_str(old, "lastTransitionTime")
                             : str_of(now));
    return v;
}

static struct json *status_tree(const struct sandbox_in *in, const struct status *s, struct plan *p)
{
    struct json *v = doc_object(&p->arena), *conditions = doc_array(&p->arena);

    put_int(p, v, "observedGeneration", in->sandbox->meta.generation);
    put_int(p, v, "replicas", s->replicas);
    put_int(p, v, "allocated", s->allocated);
    put_int(p, v, "ready", s->ready);
    put_int(p, v, "taskRunning", s->tasks.running);
    put_int(p, v, "taskSucceed", s->tasks.succeed);
    put_int(p, v, "taskFailed", s->tasks.failed);
    put_int(p, v, "taskPending", s->tasks.pending);
    put_int(p, v, "taskUnknown", s->tasks.unknown);
    put_int(p, v, "pauseObservedGeneration", s->pause_observed);
    (void)doc_set_string(&p->arena, v, STR("phase"), s->phase);
    for (size_t i = 0; i < s->condition_count; i++)
        (void)doc_push(conditions, condition_tree(in, &s->conditions[i], p));
    (void)doc_set(&p->arena, v, STR("conditions"), conditions);
    return v;
}

/* Whether every member of `wanted` is in the status as it is. */
static bool status_has(const struct json *status, const struct json *wanted)
{
    json_each(one, wanted)
    {
        const struct json *old = json_get(status, one->key);

        if (!old && one->type == JSON_ARRAY && !json_count(one))
            continue;
        if (!doc_equal(old, one))
            return false;
    }
    return true;
}

void status_write(const struct sandbox_in *in, const struct status *s, struct plan *p)
{
    const struct sandbox *sandbox = in->sandbox;
    struct json *wanted = status_tree(in, s, p), *patch;

    if (status_has(json_get(sandbox->object, STR("status")), wanted))
        return;
    if (!sandbox->phase.n && str_eq(s->phase, STR("Pending")) &&
        in->now_us < sandbox->meta.created_us + FIRST_WAIT_US) {
        plan_again_at(p, sandbox->meta.created_us + FIRST_WAIT_US);
        return;
    }
    patch = patch_begin(p, &sandbox->meta, true);
    (void)doc_set(&p->arena, patch, STR("status"), wanted);
    plan_body(
        p, plan_write(p, WRITE_PATCH_STATUS, OBJECT_SANDBOX, sandbox->meta.ns, sandbox->meta.name),
        patch);
    if (!str_eq(s->phase, sandbox->phase) && str_eq(s->phase, STR("Failed")))
        for (size_t i = 0; i < s->condition_count; i++)
            if (str_eq(str_of(s->conditions[i].type), STR("PodFailed")))
                plan_event(p, true, "PodFailed", "%.*s", STR_ARG(s->conditions[i].message));
}
