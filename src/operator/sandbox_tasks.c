/* sandbox_tasks.c - the tasks of a BatchSandbox: task i runs on the pod of index i.
 *
 * /setTasks is idempotent and answers with what runs, so one request both wants a task and asks
 * for
 * its state, and nothing must be remembered over a restart. A pod that replaces another gets the
 * task of its index again: delivery is at least once. */
#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "kube/object.h"
#include "operator/names.h"
#include "operator/sandbox_internal.h"
#include "operator/strategic.h"

enum {
    ASK_RUNNING_US = 3 * 1000000,
    ASK_ENDED_US = 30 * 1000000,
    ASK_STOPPING_US = 500 * 1000,
    STOP_GIVE_UP_US = 60 * 1000000, /* an executor stops a task within 10 s */
};

enum task_state task_state_of(const struct json *answer, struct str name)
{
    json_each(task, answer)
    {
        const struct json *status = kube_get(task, "processStatus");
        const struct json *ended = kube_get(status, "terminated");

        if (!str_eq(kube_str(task, "name"), name))
            continue;
        if (kube_get(status, "running"))
            return TASK_RUNNING;
        if (ended && ended->type == JSON_OBJECT)
            return kube_i64(ended, "exitCode") == 0 ? TASK_SUCCEED : TASK_FAILED;
        return TASK_UNKNOWN;
    }
    return TASK_GONE;
}

static bool is_ended(enum task_state s)
{
    return s == TASK_SUCCEED || s == TASK_FAILED;
}

/* What is known of the task on this very pod. */
static struct task_view view_of(const struct sandbox_in *in, size_t index, const struct pod *pod)
{
    if (index < in->task_count && pod && str_eq(in->tasks[index].pod_uid, pod->meta.uid))
        return in->tasks[index];
    return (struct task_view){.state = TASK_UNASKED};
}

/* [{"name":"<sandbox>-<i>","process":{...}}] */
static struct json *task_tree(const struct sandbox_in *in, size_t index, struct plan *p,
                              struct err *e)
{
    const struct json *object = in->sandbox->object;
    const struct json *patch = json_at(kube_get(object, "spec.shardTaskPatches"), index);
    struct json *template = doc_copy(&p->arena, kube_get(object, "spec.taskTemplate"));
    struct json *list = doc_array(&p->arena), *task = doc_object(&p->arena), *process;
    const struct json *timeout;

    if (patch && patch->type != JSON_NULL &&
        strategic_apply(&p->arena, template, patch, STRATEGIC_NONE, &template, e) < 0) {
        (void)err_wrap(e, -EINVAL, "spec.shardTaskPatches[%zu]", index);
        return NULL;
    }
    process = doc_copy(&p->arena, kube_get(template, "spec.process"));
    if (!process || process->type != JSON_OBJECT) {
        (void)err_set(e, EINVAL,
                      "spec.taskTemplate.spec.process is missing: there is nothing to run");
        return NULL;
    }
    timeout = kube_get(template, "spec.timeoutSeconds");
    if (timeout && timeout->type == JSON_NUMBER)
        (void)doc_set(&p->arena, process, STR("timeoutSeconds"), doc_copy(&p->arena, timeout));
    (void)doc_set_string(
        &p->arena, task, STR("name"),
        str_of(arena_printf(&p->arena, "%.*s-%zu", STR_ARG(in->sandbox->meta.name), index)));
    (void)doc_set(&p->arena, task, STR("process"), process);
    (void)doc_push(list, task);
    return list;
}

static void tasks_send(const struct sandbox_in *in, size_t index, const struct pod *pod,
                       const struct json *body, struct plan *p)
{
    struct write *w = plan_write(p, WRITE_TASKS, OBJECT_POD, pod->meta.ns, pod->meta.name);

    w->address = pod->ip;
    w->uid = pod->meta.uid;
    w->index = (int64_t)index;
    plan_body(p, w, body);
}

static void count_state(enum task_state s, struct task_counts *c)
{
    c->running += s == TASK_RUNNING;
    c->succeed += s == TASK_SUCCEED;
    c->failed += s == TASK_FAILED;
    c->unknown += s == TASK_UNKNOWN || s == TASK_GONE;
    c->pending += s == TASK_UNASKED;
}

/* Tasks whose pods were given back: how they ended is in the status, if not in memory. */
static void count_released(const struct sandbox_in *in, size_t released, struct task_counts *c)
{
    int64_t failed = kube_i64(in->sandbox->object, "status.taskFailed") - c->failed;
    int64_t n = (int64_t)released;

    failed = failed < 0 ? 0 : failed > n ? n : failed;
    c->failed += failed;
    c->succeed += n - failed;
}

static bool is_released(const struct sandbox_in *in, size_t index, struct plan *p)
{
    const struct sandbox *s = in->sandbox;

    if (sandbox_is_pooled(s))
        return index < s->alloc.count && names_have(&s->release, s->alloc.rows[index]);
    return names_have(&s->release,
                      str_of(arena_printf(&p->arena, "%.*s-%zu", STR_ARG(s->meta.name), index)));
}

/* Names the pods of ended tasks in alloc-release, sorted. */
static void release_ask(const struct sandbox_in *in, const struct names *more, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    struct names all = {arena_new_array(&p->arena, struct str, s->release.count + more->count + 1),
                        0};
    struct json *patch;

    if (!all.rows)
        return;
    for (size_t i = 0; i < s->release.count + more->count; i++) {
        struct str name =
            i < s->release.count ? s->release.rows[i] : more->rows[i - s->release.count];
        size_t at = all.count++;

        for (; at > 0 && str_cmp(all.rows[at - 1], name) > 0; at--)
            all.rows[at] = all.rows[at - 1];
        all.rows[at] = name;
    }
    patch = patch_begin(p, &s->meta, true);
    patch_note_names(p, patch, NOTE_ALLOC_RELEASE, &all);
    patch_end(p, OBJECT_SANDBOX, &s->meta, patch);
}

/* Drops an ended task before its pod goes; true when the executor has none any more. */
static bool task_drop(const struct sandbox_in *in, size_t index, const struct pod *pod,
                      const struct task_view *view, struct plan *p)
{
    if (view->state == TASK_GONE && !view->unreachable)
        return true;
    if (in->now_us >= view->asked_us + ASK_STOPPING_US)
        tasks_send(in, index, pod, doc_array(&p->arena), p);
    else
        plan_again_at(p, view->asked_us + ASK_STOPPING_US);
    return false;
}

bool task_is_dropped(const struct sandbox_in *in, size_t index, const struct pod *pod,
                     struct plan *p, bool *ret_unreachable)
{
    struct task_view view = view_of(in, index, pod);

    *ret_unreachable = view.unreachable;
    return !pod->ip.n || task_drop(in, index, pod, &view, p);
}

static void task_run(const struct sandbox_in *in, size_t index, const struct pod *pod,
                     const struct task_view *view, struct plan *p)
{
    int64_t due = view->asked_us + (is_ended(view->state) ? ASK_ENDED_US : ASK_RUNNING_US);
    struct err e = {0};
    struct json *body;

    if (in->now_us < due) {
        plan_again_at(p, due);
        return;
    }
    body = task_tree(in, index, p, &e);
    if (body)
        tasks_send(in, index, pod, body, p);
    else
        plan_event(p, true, "FailedTask", "%s", e.msg);
}

void tasks_run(const struct sandbox_in *in, const struct members *m, struct plan *p,
               struct task_counts *ret)
{
    const struct sandbox *s = in->sandbox;
    struct names done = {arena_new_array(&p->arena, struct str, m->count + 1), 0};
    size_t released = 0;

    *ret = (struct task_counts){0};
    if (!s->has_tasks || !done.rows)
        return;
    for (size_t i = 0; i < m->count; i++) {
        const struct pod *pod = m->rows[i];
        struct task_view view = view_of(in, i, pod);

        if (is_released(in, i, p)) {
            released++;
            continue;
        }
        count_state(view.state, ret);
        if (!pod_is_live(pod) || !pod->ip.n || !s->has_task_finalizer)
            continue;
        if (!s->release_when_done || !is_ended(view.state))
            task_run(in, i, pod, &view, p);
        else
            done.rows[done.count++] = pod->meta.name;
    }
    count_released(in, released, ret);
    /* First the status says how they ended: without the pod nothing else does. */
    if (done.count && kube_i64(s->object, "status.taskSucceed") == ret->succeed &&
        kube_i64(s->object, "status.taskFailed") == ret->failed)
        release_ask(in, &done, p);
}

bool tasks_stop(const struct sandbox_in *in, const struct members *m, struct plan *p,
                bool *ret_given_up)
{
    int64_t since = in->sandbox->meta.deleting_us;
    bool late = since && in->now_us > since + STOP_GIVE_UP_US;
    size_t left = 0;

    *ret_given_up = false;
    for (size_t i = 0; i < m->count; i++) {
        const struct pod *pod = m->rows[i];
        struct task_view view = view_of(in, i, pod);

        /* A pod without an address never got a task; one that is ending takes its task along. */
        if (!pod_is_live(pod) || !pod->ip.n || task_drop(in, i, pod, &view, p))
            continue;
        if (!late) {
            left++;
            continue;
        }
        plan_event(p, true, "TaskNotStopped",
                   "the task executor of pod %.*s did not say that its task ended; the pod is "
                   "deleted",
                   STR_ARG(pod->meta.name));
        *ret_given_up = true;
    }
    if (left)
        plan_again_at(p, in->now_us + ASK_STOPPING_US);
    return left == 0;
}
