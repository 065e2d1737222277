/* sandbox_pods.c - the pods of a BatchSandbox: which serve it, which are missing, where they
 * answer. */
#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "kube/object.h"
#include "operator/label.h"
#include "operator/names.h"
#include "operator/sandbox_internal.h"
#include "operator/strategic.h"

/* --- patches --- */

struct json *patch_begin(struct plan *p, const struct meta *meta, bool if_unchanged)
{
    struct json *patch = doc_object(&p->arena);
    struct json *m = doc_object_at(&p->arena, patch, STR("metadata"));

    if (if_unchanged)
        (void)doc_set_string(&p->arena, m, STR("resourceVersion"), meta->version);
    return patch;
}

struct write *patch_end(struct plan *p, enum object_kind kind, const struct meta *meta,
                        struct json *patch)
{
    struct write *w = plan_write(p, WRITE_PATCH, kind, meta->ns, meta->name);

    plan_body(p, w, patch);
    return w;
}

void patch_note(struct plan *p, struct json *patch, const char *key, struct str value)
{
    struct json *m = doc_object_at(&p->arena, patch, STR("metadata"));
    struct json *notes = doc_object_at(&p->arena, m, STR("annotations"));

    if (value.p) {
        (void)doc_set_string(&p->arena, notes, str_of(key), value);
    } else {
        struct json *none = arena_new(&p->arena, struct json); /* null takes it away */

        (void)doc_set(&p->arena, notes, str_of(key), none);
    }
}

struct str note_text(struct plan *p, const struct names *names)
{
    struct json *v = doc_object(&p->arena), *pods = doc_array(&p->arena);

    for (size_t i = 0; i < names->count; i++)
        (void)doc_push(pods, doc_string(&p->arena, names->rows[i]));
    (void)doc_set(&p->arena, v, STR("pods"), pods);
    return doc_text(&p->arena, v);
}

void patch_note_names(struct plan *p, struct json *patch, const char *key,
                      const struct names *names)
{
    patch_note(p, patch, key, names->count ? note_text(p, names) : STR_NONE);
}

static bool list_has(const char *const *list, struct str name)
{
    for (; list && *list; list++)
        if (str_eq(name, str_of(*list)))
            return true;
    return false;
}

void patch_finalizers(struct plan *p, struct json *patch, const struct json *object,
                      const char *const *add, const char *const *drop)
{
    struct json *m = doc_object_at(&p->arena, patch, STR("metadata"));
    struct json *list = doc_array(&p->arena);

    json_each(one, kube_get(object, "metadata.finalizers"))
    {
        if (one->type == JSON_STRING && !list_has(drop, one->string) && !list_has(add, one->string))
            (void)doc_push(list, doc_string(&p->arena, one->string));
    }
    for (; add && *add; add++)
        (void)doc_push(list, doc_string(&p->arena, str_of(*add)));
    (void)doc_set(&p->arena, m, STR("finalizers"), list);
}

/* --- pods that serve a sandbox --- */

static int members_alloc(struct plan *p, size_t count, struct members *ret)
{
    struct err e = {0};

    ret->rows = arena_new_array(&p->arena, const struct pod *, count + 1);
    ret->count = count;
    if (ret->rows)
        return 0;
    (void)err_set(&e, ENOMEM, "no memory for %zu pods", count);
    plan_fail(p, &e);
    return -ENOMEM;
}

int members_find(const struct sandbox_in *in, struct plan *p, struct members *ret)
{
    const struct sandbox *s = in->sandbox;
    int r = members_alloc(p, (size_t)s->replicas, ret);

    if (r < 0)
        return r;
    if (sandbox_is_pooled(s)) {
        for (size_t i = 0; i < s->alloc.count && i < ret->count; i++) {
            const struct pod *pod = in->allocated[i];

            if (pod_is_live(pod) && !names_have(&s->release, s->alloc.rows[i]) &&
                !names_have(&s->released, s->alloc.rows[i]))
                ret->rows[i] = pod;
        }
        return 0;
    }
    for (size_t i = 0; i < in->own_count; i++) {
        const struct pod *pod = in->own[i];

        if (pod->index < 0 || (size_t)pod->index >= ret->count || pod->meta.deleting_us ||
            names_have(&s->release, pod->meta.name))
            continue;
        ret->rows[pod->index] = pod; /* a finished one, too: it is reported, not replaced */
    }
    return 0;
}

/* --- creating --- */

static void owner_write(struct plan *p, struct json *metadata, const struct meta *owner)
{
    struct json *list = doc_array(&p->arena), *ref = doc_object(&p->arena);

    (void)doc_set_string(&p->arena, ref, STR("apiVersion"), STR(GROUP_VERSION));
    (void)doc_set_string(&p->arena, ref, STR("kind"), STR(KIND_SANDBOX_NAME));
    (void)doc_set_string(&p->arena, ref, STR("name"), owner->name);
    (void)doc_set_string(&p->arena, ref, STR("uid"), owner->uid);
    (void)doc_set(&p->arena, ref, STR("controller"), doc_bool(&p->arena, true));
    (void)doc_set(&p->arena, ref, STR("blockOwnerDeletion"), doc_bool(&p->arena, true));
    (void)doc_push(list, ref);
    (void)doc_set(&p->arena, metadata, STR("ownerReferences"), list);
}

/* The pod of one index, from the template: labels, annotations and spec, then its shard patch,
 * then
 * what the operator insists on. */
static struct json *pod_of_template(const struct sandbox_in *in, size_t index, struct plan *p,
                                    struct err *e)
{
    const struct sandbox *s = in->sandbox;
    const struct json *template = kube_get(s->object, "spec.template");
    const struct json *patch = json_at(kube_get(s->object, "spec.shardPatches"), index);
    struct json *pod = doc_object(&p->arena), *meta, *labels;
    static const char *const kept[] = {"labels", "annotations", "finalizers"};
    char number[24];

    (void)doc_set_string(&p->arena, pod, STR("apiVersion"), STR("v1"));
    (void)doc_set_string(&p->arena, pod, STR("kind"), STR("Pod"));
    meta = doc_object_at(&p->arena, pod, STR("metadata"));
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const struct json *v = json_get(json_get(template, STR("metadata")), str_of(kept[i]));

        if (v && v->type != JSON_NULL)
            (void)doc_set(&p->arena, meta, str_of(kept[i]), doc_copy(&p->arena, v));
    }
    owner_write(p, meta, &s->meta);
    if (doc_set(&p->arena, pod, STR("spec"), doc_copy(&p->arena, json_get(template, STR("spec")))) <
        0) {
        (void)err_set(e, EINVAL, "spec.template.spec is missing; without it no pod can be created");
        return NULL;
    }
    if (patch && patch->type != JSON_NULL &&
        strategic_apply(&p->arena, pod, patch, STRATEGIC_POD, &pod, e) < 0) {
        (void)err_wrap(e, -EINVAL, "spec.shardPatches[%zu]", index);
        return NULL;
    }
    meta = doc_object_at(&p->arena, pod, STR("metadata"));
    labels = doc_object_at(&p->arena, meta, STR("labels"));
    (void)snprintf(number, sizeof(number), "%zu", index);
    (void)doc_set_string(&p->arena, labels, STR(LABEL_POD_INDEX), str_of(number));
    (void)doc_set_string(&p->arena, labels, STR(LABEL_SANDBOX_NAME),
                         label_fit(&p->arena, s->meta.name, STR("")));
    (void)doc_set_string(&p->arena, meta, STR("namespace"), s->meta.ns);
    (void)doc_set_string(&p->arena, meta, STR("name"),
                         str_of(arena_printf(&p->arena, "%.*s-%zu", STR_ARG(s->meta.name), index)));
    return pod;
}

/* Whether a pod of that index is there, also one that is on its way out. */
static bool index_is_taken(const struct sandbox_in *in, size_t index)
{
    for (size_t i = 0; i < in->own_count; i++)
        if (in->own[i]->index == (int64_t)index)
            return true;
    return false;
}

void pods_create(const struct sandbox_in *in, const struct members *m, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    struct err e = {0};

    if (!s->has_template) {
        (void)err_set(&e, EINVAL,
                      "spec.template is missing; without it and without spec.poolRef there is "
                      "nothing to run");
        plan_event(p, true, "FailedCreate", "%s", e.msg);
        return;
    }
    for (size_t i = 0; i < m->count && !p->failed; i++) {
        struct json *pod;
        char *name = arena_printf(&p->arena, "%.*s-%zu", STR_ARG(s->meta.name), i);

        if (m->rows[i] || index_is_taken(in, i) || names_have(&s->release, str_of(name)))
            continue;
        pod = pod_of_template(in, i, p, &e);
        if (!pod) {
            plan_event(p, true, "FailedCreate", "pod %s: %s", name, e.msg);
            return;
        }
        plan_body(p, plan_write(p, WRITE_CREATE, OBJECT_POD, s->meta.ns, str_of(name)), pod);
    }
}

static void pod_delete(struct plan *p, const struct pod *pod)
{
    struct write *w = plan_write(p, WRITE_DELETE, OBJECT_POD, pod->meta.ns, pod->meta.name);

    w->uid = pod->meta.uid;
}

void pods_delete_surplus(const struct sandbox_in *in, struct plan *p)
{
    for (size_t i = 0; i < in->own_count; i++) {
        const struct pod *pod = in->own[i];

        if (pod->meta.deleting_us)
            continue;
        if (pod->index >= in->sandbox->replicas ||
            names_have(&in->sandbox->release, pod->meta.name)) {
            pod_delete(p, pod);
            plan_event(p, false, "SuccessfulDelete", "pod %.*s is not needed any more",
                       STR_ARG(pod->meta.name));
        }
    }
}

void pods_delete_all(const struct sandbox_in *in, struct plan *p)
{
    for (size_t i = 0; i < in->own_count; i++)
        if (!in->own[i]->meta.deleting_us)
            pod_delete(p, in->own[i]);
}

/* --- endpoints --- */

enum { PARTIAL_WAIT_US = 1000000 };

bool endpoints_write(const struct sandbox_in *in, const struct members *m, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    struct json *list = doc_array(&p->arena), *patch;
    size_t known = 0;
    struct str text;

    for (size_t i = 0; i < m->count; i++) {
        struct str ip = pod_is_live(m->rows[i]) ? m->rows[i]->ip : STR_NONE;

        known += ip.n > 0;
        (void)doc_push(list, doc_string(&p->arena, ip.n ? ip : STR("")));
    }
    if (!known && !s->endpoints.p)
        return false;
    text = doc_text(&p->arena, list);
    if (!text.p || str_eq(text, s->endpoints))
        return false;
    /* A batch that is just starting: one write for all of it, not one for each pod. */
    if (known < m->count && !s->endpoints.p && in->now_us < s->meta.created_us + PARTIAL_WAIT_US) {
        plan_again_at(p, s->meta.created_us + PARTIAL_WAIT_US);
        return false;
    }
    patch = patch_begin(p, &s->meta, false);
    patch_note(p, patch, NOTE_ENDPOINTS, text);
    patch_end(p, OBJECT_SANDBOX, &s->meta, patch);
    return true;
}
