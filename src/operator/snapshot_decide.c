/* snapshot_decide.c - what to do for a SandboxSnapshot: a Job on the pod's node saves each
 * container
 * as an image and pushes it. */
#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/sha.h"
#include "kube/object.h"
#include "kube/time.h"
#include "operator/commit_job.h"
#include "operator/label.h"
#include "operator/names.h"
#include "operator/sandbox_internal.h"

enum { COMMIT_CHECK_US = 30 * 1000000, HASH_HEX = 32 };

static void status_patch(const struct snapshot_in *in, struct json *status, struct plan *p)
{
    struct json *patch = patch_begin(p, &in->snapshot->meta, true);

    (void)doc_set(&p->arena, status, STR("observedGeneration"),
                  doc_int(&p->arena, in->snapshot->meta.generation));
    (void)doc_set(&p->arena, patch, STR("status"), status);
    plan_body(p,
              plan_write(p, WRITE_PATCH_STATUS, OBJECT_SNAPSHOT, in->snapshot->meta.ns,
                         in->snapshot->meta.name),
              patch);
}

static struct json *condition(const struct snapshot_in *in, const char *type, const char *reason,
                              struct str message, struct plan *p)
{
    struct json *list = doc_array(&p->arena), *c = doc_object(&p->arena);
    char now[TIME_TEXT_MAX];

    (void)kube_time_format(in->now_us, now);
    (void)doc_set_string(&p->arena, c, STR("type"), str_of(type));
    (void)doc_set_string(&p->arena, c, STR("status"), STR("True"));
    (void)doc_set_string(&p->arena, c, STR("reason"), str_of(reason));
    (void)doc_set_string(&p->arena, c, STR("message"), message.p ? message : STR(""));
    (void)doc_set_string(&p->arena, c, STR("lastTransitionTime"), str_of(now));
    (void)doc_push(list, c);
    return list;
}

static void fail(const struct snapshot_in *in, const char *reason, struct str message,
                 struct plan *p)
{
    struct json *status = doc_object(&p->arena);

    (void)doc_set_string(&p->arena, status, STR("phase"), STR("Failed"));
    (void)doc_set(&p->arena, status, STR("conditions"),
                  condition(in, "Failed", reason, message, p));
    status_patch(in, status, p);
    plan_event(p, true, reason, "%.*s", STR_ARG(message));
}

/* "snap-gen<generation>" of a pause; else "snap-<32 hex>" from the snapshot's name. */
static const char *tag_of(const struct snapshot_in *in, struct plan *p)
{
    struct str name = in->snapshot->meta.name, prefix = STR("osb-snap-");
    uint8_t digest[SHA256_BYTES];
    char hex[HEX_TEXT_MAX(SHA256_BYTES)];

    if (str_eq(in->snapshot->meta.owner_kind, STR(KIND_SANDBOX_NAME)))
        return arena_printf(&p->arena, "snap-gen%lld", (long long)in->sandbox->meta.generation);
    if (str_starts(name, prefix) && name.n == prefix.n + HASH_HEX) {
        struct str rest = str_skip(name, prefix.n);
        size_t i = 0;

        while (i < rest.n && ascii_hex_value(rest.p[i]) >= 0)
            i++;
        if (i == rest.n)
            return arena_printf(&p->arena, "snap-%.*s", STR_ARG(rest));
    }
    sha256_of(name, digest);
    (void)hex_encode(str_make((const char *)digest, sizeof(digest)), hex);
    return arena_printf(&p->arena, "snap-%.*s", HASH_HEX, hex);
}

static const struct pod *source_of(const struct snapshot_in *in)
{
    for (size_t i = 0; i < in->pod_count; i++) {
        const struct pod *pod = in->pods[i];

        if (pod && str_eq(pod->phase, STR("Running")) && !pod->meta.deleting_us && pod->node.n)
            return pod;
    }
    return NULL;
}

/* The containers to save, with their images: those of the template, or of the pod. The egress
 * sidecar holds no state of the user's and keeps its image. */
static struct json *images_of(const struct snapshot_in *in, struct plan *p)
{
    const struct json *containers = kube_get(in->sandbox->object, "spec.template.spec.containers");
    struct str registry = in->settings->registry;
    const char *tag = tag_of(in, p);
    struct json *list = doc_array(&p->arena);

    if (!json_count(containers) || sandbox_is_pooled(in->sandbox))
        containers = kube_get(in->whole_pod, "spec.containers");
    while (registry.n && registry.p[registry.n - 1] == '/')
        registry.n--;
    json_each(c, containers)
    {
        struct json *one = doc_object(&p->arena);
        struct str name = kube_str(c, "name");

        if (str_eq(name, STR("egress")))
            continue;
        (void)doc_set_string(&p->arena, one, STR("containerName"), name);
        (void)doc_set_string(
            &p->arena, one, STR("imageUri"),
            str_of(arena_printf(&p->arena, "%.*s/%.*s-%.*s:%s", STR_ARG(registry),
                                STR_ARG(in->sandbox->meta.name), STR_ARG(name), tag)));
        (void)doc_push(list, one);
    }
    return list;
}

static void commit_start(const struct snapshot_in *in, struct plan *p)
{
    const struct pod *source;
    struct json *status = doc_object(&p->arena), *images;
    struct commit_job job;

    if (!in->settings->registry.n) {
        fail(in, "RegistryNotConfigured", STR("the operator runs without --snapshot-registry"), p);
        return;
    }
    if (!in->sandbox) {
        fail(in, "BatchSandboxLookupFailed",
             str_of(arena_printf(&p->arena, "there is no BatchSandbox '%.*s' in this namespace",
                                 STR_ARG(in->snapshot->sandbox_name))),
             p);
        return;
    }
    source = source_of(in);
    if (!source) {
        fail(in, "SourcePodNotFound", STR("the sandbox has no running pod"), p);
        return;
    }
    if ((!in->sandbox->has_template || sandbox_is_pooled(in->sandbox)) && !in->whole_pod) {
        p->need_pod = source->meta.name;
        return;
    }
    images = images_of(in, p);
    if (!json_count(images)) {
        fail(in, "NoContainers", STR("the sandbox has no container to save"), p);
        return;
    }
    job = (struct commit_job){&in->snapshot->meta, source, images, in->settings};
    if (!in->commit)
        plan_body(p,
                  plan_write(p, WRITE_CREATE, OBJECT_JOB, in->snapshot->meta.ns,
                             label_fit(&p->arena, in->snapshot->meta.name, STR("-commit"))),
                  commit_job_tree(&job, &p->arena));
    plan_next_step(p);
    (void)doc_set_string(&p->arena, status, STR("phase"), STR("Committing"));
    (void)doc_set_string(&p->arena, status, STR("sourcePodName"), source->meta.name);
    (void)doc_set_string(&p->arena, status, STR("sourceNodeName"), source->node);
    (void)doc_set(&p->arena, status, STR("containers"), images);
    status_patch(in, status, p);
    if (!in->commit)
        plan_event(p, false, "CreatedJob", "a Job saves pod %.*s on node %.*s",
                   STR_ARG(source->meta.name), STR_ARG(source->node));
}

static struct str digest_of(const struct json *report, struct str container)
{
    json_each(one, kube_get(report, "containers"))
    {
        if (str_eq(kube_str(one, "name"), container))
            return kube_str(one, "digest");
    }
    return STR("");
}

static void commit_succeed(const struct snapshot_in *in, struct plan *p)
{
    struct json *status = doc_object(&p->arena), *report = NULL, *list;

    if (in->commit_pod && in->commit_pod->job_message.n)
        (void)json_parse(&p->arena, in->commit_pod->job_message, NULL, &report, NULL);
    list = doc_copy(&p->arena, kube_get(in->snapshot->object, "status.containers"));
    for (struct json *c = list ? list->first : NULL; c; c = c->next) {
        struct str digest = digest_of(report, kube_str(c, "containerName"));

        if (digest.n)
            (void)doc_set_string(&p->arena, c, STR("imageDigest"), digest);
    }
    (void)doc_set_string(&p->arena, status, STR("phase"), STR("Succeed"));
    if (list)
        (void)doc_set(&p->arena, status, STR("containers"), list);
    (void)doc_set(&p->arena, status, STR("conditions"),
                  condition(in, "Ready", "CommitSucceeded", STR("the images are pushed"), p));
    status_patch(in, status, p);
    plan_event(p, false, "JobSucceeded", "the images are pushed");
}

static void commit_fail(const struct snapshot_in *in, struct plan *p)
{
    struct str pod = kube_str(in->snapshot->object, "status.sourcePodName");
    struct str node = kube_str(in->snapshot->object, "status.sourceNodeName");
    struct pod source = {
        .meta = {.ns = in->snapshot->meta.ns, .name = pod},
          .node = node
    };
    struct commit_job job = {&in->snapshot->meta, &source,
                             kube_get(in->snapshot->object, "status.containers"), in->settings};

    /* A Job that was killed may have left containers stopped. */
    if (!in->unpause && node.n)
        plan_body(p,
                  plan_write(p, WRITE_CREATE, OBJECT_JOB, in->snapshot->meta.ns,
                             label_fit(&p->arena, in->snapshot->meta.name, STR("-unpause"))),
                  unpause_job_tree(&job, &p->arena));
    plan_next_step(p);
    fail(in, "CommitJobFailed",
         in->commit->failure.n ? in->commit->failure : STR("the commit Job failed"), p);
    plan_event(p, true, "JobFailed", "%.*s", STR_ARG(in->commit->failure));
}

static void job_delete(const struct job *j, struct plan *p)
{
    if (j && !j->meta.deleting_us)
        plan_write(p, WRITE_DELETE, OBJECT_JOB, j->meta.ns, j->meta.name)->uid = j->meta.uid;
}

static void snapshot_delete(const struct snapshot_in *in, struct plan *p)
{
    struct json *patch;

    if (!in->snapshot->has_finalizer)
        return;
    job_delete(in->commit, p);
    job_delete(in->unpause, p);
    plan_next_step(p);
    patch = patch_begin(p, &in->snapshot->meta, true);
    patch_finalizers(p, patch, in->snapshot->object, NULL,
                     (const char *const[]){FINALIZER_SNAPSHOT, NULL});
    patch_end(p, OBJECT_SNAPSHOT, &in->snapshot->meta, patch);
}

void snapshot_decide(const struct snapshot_in *in, struct plan *p)
{
    const struct snapshot *s = in->snapshot;

    if (s->meta.deleting_us) {
        snapshot_delete(in, p);
        return;
    }
    if (str_eq(s->phase, STR("Succeed")) || str_eq(s->phase, STR("Failed")))
        return;
    if (!s->has_finalizer) {
        struct json *patch = patch_begin(p, &s->meta, true);

        patch_finalizers(p, patch, s->object, (const char *const[]){FINALIZER_SNAPSHOT, NULL},
                         NULL);
        patch_end(p, OBJECT_SNAPSHOT, &s->meta, patch);
        return;
    }
    if (!str_eq(s->phase, STR("Committing")) || !in->commit)
        commit_start(in, p);
    else if (in->commit->succeeded)
        commit_succeed(in, p);
    else if (in->commit->failed)
        commit_fail(in, p);
    else
        plan_again_at(p, in->now_us + COMMIT_CHECK_US);
}
