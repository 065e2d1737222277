/* sandbox_pause.c - pausing stores the filesystem as an image and lets the pod go; resuming
 * creates
 * a pod from that image.
 *
 *              pause=true                snapshot Succeed
 *   Succeed ----------------> Pausing ---------------------> Paused
 *      ^  ^                      | snapshot Failed              | pause=false
 *      |  +---- PauseFailed -----+                              v
 *      +------------------- a pod is ready ------------------ Resuming
 *
 * An intent counts when the specification is newer than status.pauseObservedGeneration and asks
 * for
 * something that is not so already: other changes of the specification, such as a new expireTime,
 * neither pause nor resume. */
#include <stdio.h>

#include "kube/object.h"
#include "operator/label.h"
#include "operator/names.h"
#include "operator/sandbox_internal.h"

enum { PAUSE_POLL_US = 1000000, PAUSE_CHECK_US = 10 * 1000000 };

struct str snapshot_name_of(struct plan *p, struct str sandbox)
{
    return str_of(arena_printf(&p->arena, "%.*s-pause", STR_ARG(sandbox)));
}

static void snapshot_delete(const struct sandbox_in *in, struct plan *p)
{
    const struct meta *meta = &in->snapshot->meta;

    plan_write(p, WRITE_DELETE, OBJECT_SNAPSHOT, meta->ns, meta->name)->uid = meta->uid;
}

static bool snapshot_is(const struct sandbox_in *in, const char *phase)
{
    return in->snapshot && str_eq(in->snapshot->phase, str_of(phase));
}

/* --- pausing --- */

static void pause_refuse(const struct sandbox_in *in, const struct members *m, const char *reason,
                         struct str message, struct str phase, struct plan *p)
{
    struct status s;

    status_of(in, m, p, &s);
    s.condition_count = 0;
    s.phase = phase;
    s.pause_observed = in->sandbox->meta.generation;
    if (str_eq(phase, STR("Succeed")))
        status_condition(&s, "Ready", "PodsReady", STR("a pod is ready"));
    status_condition(&s, "PauseFailed", reason, message);
    status_write(in, &s, p);
    plan_event(p, true, "PauseFailed", "%s: %.*s", reason, STR_ARG(message));
}

static void pause_start(const struct sandbox_in *in, const struct members *m, struct plan *p)
{
    const struct sandbox *sandbox = in->sandbox;
    struct status s;

    if (sandbox->replicas != 1) {
        pause_refuse(in, m, "UnsupportedReplicas",
                     STR("only a sandbox with one replica can be paused"),
                     sandbox->phase.n ? sandbox->phase : STR("Succeed"), p);
        return;
    }
    if (in->snapshot && (in->snapshot->meta.deleting_us || snapshot_is(in, "Succeed") ||
                         snapshot_is(in, "Failed"))) {
        if (!in->snapshot->meta.deleting_us)
            snapshot_delete(in, p);
        plan_again_at(p, in->now_us + PAUSE_POLL_US);
        return;
    }
    status_of(in, m, p, &s);
    s.condition_count = 0;
    s.phase = STR("Pausing");
    s.pause_observed = sandbox->meta.generation;
    status_condition(&s, "Progressing", "PauseInProgress", STR("the filesystem is being saved"));
    status_write(in, &s, p);
    plan_event(p, false, "Pausing", "the filesystem is being saved as an image");
}

static void snapshot_create(const struct sandbox_in *in, struct plan *p)
{
    const struct meta *owner = &in->sandbox->meta;
    struct str name = snapshot_name_of(p, owner->name);
    struct json *v = doc_object(&p->arena), *meta, *list = doc_array(&p->arena);
    struct json *ref = doc_object(&p->arena), *spec;

    (void)doc_set_string(&p->arena, v, STR("apiVersion"), STR(GROUP_VERSION));
    (void)doc_set_string(&p->arena, v, STR("kind"), STR(KIND_SNAPSHOT_NAME));
    meta = doc_object_at(&p->arena, v, STR("metadata"));
    (void)doc_set_string(&p->arena, meta, STR("name"), name);
    (void)doc_set_string(&p->arena, meta, STR("namespace"), owner->ns);
    (void)doc_set_string(&p->arena, ref, STR("apiVersion"), STR(GROUP_VERSION));
    (void)doc_set_string(&p->arena, ref, STR("kind"), STR(KIND_SANDBOX_NAME));
    (void)doc_set_string(&p->arena, ref, STR("name"), owner->name);
    (void)doc_set_string(&p->arena, ref, STR("uid"), owner->uid);
    (void)doc_set(&p->arena, ref, STR("controller"), doc_bool(&p->arena, true));
    (void)doc_set(&p->arena, ref, STR("blockOwnerDeletion"), doc_bool(&p->arena, true));
    (void)doc_push(list, ref);
    (void)doc_set(&p->arena, meta, STR("ownerReferences"), list);
    spec = doc_object_at(&p->arena, v, STR("spec"));
    (void)doc_set_string(&p->arena, spec, STR("sandboxName"), owner->name);
    plan_body(p, plan_write(p, WRITE_CREATE, OBJECT_SNAPSHOT, owner->ns, name), v);
}

/* The template of a pod that came from a pool: from now on the sandbox has pods of its own. */
static struct json *template_of(struct plan *p, const struct json *pod)
{
    static const char *const dropped[] = {LABEL_POOL_NAME, LABEL_POOL_REVISION, LABEL_SANDBOX_NAME,
                                          LABEL_POD_INDEX, LABEL_EVICT};
    struct json *t = doc_object(&p->arena), *meta = doc_object_at(&p->arena, t, STR("metadata"));
    struct json *labels = doc_copy(&p->arena, kube_get(pod, "metadata.labels"));
    struct json *notes = doc_copy(&p->arena, kube_get(pod, "metadata.annotations"));
    struct json *spec = doc_copy(&p->arena, json_get(pod, STR("spec")));

    for (size_t i = 0; labels && i < ARRAY_LEN(dropped); i++)
        (void)doc_remove(labels, str_of(dropped[i]));
    if (labels && json_count(labels))
        (void)doc_set(&p->arena, meta, STR("labels"), labels);
    if (notes)
        (void)doc_remove(notes, STR(NOTE_RESTART_RECORD));
    if (notes && json_count(notes))
        (void)doc_set(&p->arena, meta, STR("annotations"), notes);
    if (spec)
        (void)doc_remove(spec, STR("nodeName"));
    (void)doc_set(&p->arena, t, STR("spec"), spec);
    return t;
}

static void detach_from_pool(const struct sandbox_in *in, const struct members *m, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    struct str source = kube_str(in->snapshot->object, "status.sourcePodName");
    struct json *patch, *spec;

    if (!m->count || !m->rows[0] || (source.n && !str_eq(source, m->rows[0]->meta.name))) {
        pause_refuse(in, m, "PodNotFound", STR("the pod that was saved is gone"), STR("Failed"), p);
        return;
    }
    if (!in->whole_pod) {
        p->need_pod = m->rows[0]->meta.name;
        return;
    }
    patch = patch_begin(p, &s->meta, true);
    spec = doc_object_at(&p->arena, patch, STR("spec"));
    (void)doc_set(&p->arena, spec, STR("template"), template_of(p, in->whole_pod));
    (void)doc_set_string(&p->arena, spec, STR("poolRef"), STR(""));
    patch_end(p, OBJECT_SANDBOX, &s->meta, patch);
}

static void pause_finish(const struct sandbox_in *in, const struct members *m, struct plan *p)
{
    const struct sandbox *sandbox = in->sandbox;
    struct members none = {NULL, 0};
    struct sandbox paused = *sandbox;
    struct sandbox_in then = *in;
    struct status s;

    if (sandbox_is_pooled(sandbox)) {
        detach_from_pool(in, m, p);
        return;
    }
    pods_delete_all(in, p);
    plan_next_step(p);
    paused.phase = STR("Paused");
    then.sandbox = &paused;
    status_of(&then, &none, p, &s);
    s.condition_count = 0;
    status_condition(&s, "Paused", "Paused", STR("the sandbox is stored as an image"));
    status_write(in, &s, p);
    plan_event(p, false, "Paused", "the filesystem was saved, the pod is let go");
}

static void pause_follow(const struct sandbox_in *in, const struct members *m, struct plan *p)
{
    bool given_up;

    if (in->snapshot && in->snapshot->meta.deleting_us) {
        plan_again_at(p, in->now_us + PAUSE_POLL_US);
    } else if (snapshot_is(in, "Succeed")) {
        pause_finish(in, m, p);
    } else if (snapshot_is(in, "Failed")) {
        const struct json *why =
            kube_condition(kube_get(in->snapshot->object, "status.conditions"), STR("Failed"));
        bool alive = m->count && pod_is_live(m->rows[0]);
        struct str text = kube_str(why, "message");

        pause_refuse(in, m, alive ? "SnapshotFailed" : "PodNotFound",
                     text.n ? text : STR("the snapshot failed"),
                     alive ? STR("Succeed") : STR("Failed"), p);
    } else if (in->snapshot) {
        plan_again_at(p, in->now_us + PAUSE_CHECK_US);
    } else if (!in->sandbox->has_tasks || !in->sandbox->has_task_finalizer ||
               tasks_stop(in, m, p, &given_up)) {
        snapshot_create(in, p);
    }
}

/* --- resuming --- */

static void resume_start(const struct sandbox_in *in, const struct members *m, struct plan *p)
{
    struct status s;

    /* Pods that could not start with what the specification said before. */
    for (size_t i = 0; i < in->own_count; i++) {
        const struct pod *pod = in->own[i];

        if (pod->failure_reason.p && !pod->meta.deleting_us)
            plan_write(p, WRITE_DELETE, OBJECT_POD, pod->meta.ns, pod->meta.name)->uid =
                pod->meta.uid;
    }
    status_of(in, m, p, &s);
    s.condition_count = 0;
    s.phase = STR("Resuming");
    s.pause_observed = in->sandbox->meta.generation;
    status_condition(&s, "Progressing", "ResumeInProgress", STR("the pod is being created"));
    plan_next_step(p);
    status_write(in, &s, p);
    plan_event(p, false, "Resuming", "a pod is created from the saved image");
}

static void resume_refuse(const struct sandbox_in *in, const struct members *m, const char *reason,
                          struct str message, struct plan *p)
{
    struct status s;

    status_of(in, m, p, &s);
    s.condition_count = 0;
    s.phase = STR("Paused");
    s.pause_observed = in->sandbox->meta.generation;
    status_condition(&s, "Paused", "Paused", STR("the sandbox is stored as an image"));
    status_condition(&s, "ResumeFailed", reason, message);
    status_write(in, &s, p);
    plan_event(p, true, "ResumeFailed", "%s: %.*s", reason, STR_ARG(message));
}

static struct str saved_image(const struct snapshot *s, struct str container)
{
    json_each(one, kube_get(s->object, "status.containers"))
    {
        if (str_eq(kube_str(one, "containerName"), container))
            return kube_str(one, "imageUri");
    }
    return STR_NONE;
}

static bool has_secret(const struct json *list, struct str name)
{
    json_each(one, list)
    {
        if (str_eq(kube_str(one, "name"), name))
            return true;
    }
    return false;
}

/* Puts the saved images and the pull secret into the template. False when they are there
 * already. */
static bool images_write(const struct sandbox_in *in, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    struct json *containers =
        doc_copy(&p->arena, kube_get(s->object, "spec.template.spec.containers"));
    const struct json *secrets = kube_get(s->object, "spec.template.spec.imagePullSecrets");
    struct str secret = in->settings->pull_secret;
    struct json *patch, *spec;
    bool changed = false;

    for (struct json *c = containers ? containers->first : NULL; c; c = c->next) {
        struct str image = saved_image(in->snapshot, kube_str(c, "name"));

        if (!image.n || str_eq(image, kube_str(c, "image")))
            continue;
        (void)doc_set_string(&p->arena, c, STR("image"), image);
        changed = true;
    }
    if (!changed)
        return false;
    patch = patch_begin(p, &s->meta, true);
    spec = doc_object_at(&p->arena, patch, STR("spec"));
    spec = doc_object_at(&p->arena, spec, STR("template"));
    spec = doc_object_at(&p->arena, spec, STR("spec"));
    (void)doc_set(&p->arena, spec, STR("containers"), containers);
    if (secret.n && !has_secret(secrets, secret)) {
        struct json *list = secrets ? doc_copy(&p->arena, secrets) : doc_array(&p->arena);
        struct json *one = doc_object(&p->arena);

        (void)doc_set_string(&p->arena, one, STR("name"), secret);
        (void)doc_push(list, one);
        (void)doc_set(&p->arena, spec, STR("imagePullSecrets"), list);
    }
    patch_end(p, OBJECT_SANDBOX, &s->meta, patch);
    return true;
}

/* True when this pass is decided. */
static bool resume_follow(const struct sandbox_in *in, const struct members *m, struct plan *p)
{
    bool has_pod = m->count && m->rows[0];

    if (!in->snapshot || in->snapshot->meta.deleting_us) {
        if (has_pod)
            return false;
        resume_refuse(in, m, "SnapshotNotFound", STR("there is no snapshot to resume from"), p);
        return true;
    }
    if (!snapshot_is(in, "Succeed")) {
        resume_refuse(in, m, "SnapshotNotReady", STR("the snapshot is not complete"), p);
        return true;
    }
    return !has_pod && images_write(in, p);
}

/* Nothing runs, and what still runs is let go; the images stay. */
static void paused_run(const struct sandbox_in *in, struct plan *p)
{
    struct members none = {NULL, 0};
    struct status s;

    pods_delete_all(in, p);
    if (in->sandbox->alloc.count || in->sandbox->has_pool_finalizer)
        release_run(in, p);
    if (p->write_count)
        return;
    if (endpoints_write(in, &none, p))
        return;
    status_of(in, &none, p, &s);
    status_write(in, &s, p);
}

bool pause_run(const struct sandbox_in *in, const struct members *m, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    bool fresh = s->meta.generation > s->pause_observed;
    bool paused = str_eq(s->phase, STR("Paused"));

    if (str_eq(s->phase, STR("Resuming")))
        return resume_follow(in, m, p);
    if (str_eq(s->phase, STR("Pausing"))) {
        pause_follow(in, m, p);
        return true;
    }
    if (fresh && s->pause == PAUSE_YES && !paused) {
        pause_start(in, m, p);
        return true;
    }
    if (fresh && s->pause == PAUSE_NO &&
        (paused ||
         (str_eq(s->phase, STR("Failed")) && sandbox_condition(s, STR("ResumeFailed"))))) {
        resume_start(in, m, p);
        return true;
    }
    if (paused) {
        paused_run(in, p);
        return true;
    }
    /* The images of the last pause are in use now: their record is not needed any more. */
    if (snapshot_is(in, "Succeed") && str_eq(s->phase, STR("Succeed")) &&
        !in->snapshot->meta.deleting_us)
        snapshot_delete(in, p);
    return false;
}
