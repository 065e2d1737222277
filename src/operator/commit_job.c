#include "operator/commit_job.h"

#include "kube/object.h"
#include "operator/doc.h"
#include "operator/label.h"
#include "operator/names.h"

#define SOCKET_IN_JOB "/var/run/containerd/containerd.sock"

enum { COMMIT_RETRIES = 3, KEPT_S = 300 };

static void put(struct arena *a, struct json *v, const char *key, struct str s)
{
    (void)doc_set_string(a, v, str_of(key), s);
}

static void push_named(struct arena *a, struct json *list, struct str name, const char *key,
                       struct str value)
{
    struct json *one = doc_object(a);

    put(a, one, "name", name);
    put(a, one, key, value);
    (void)doc_push(list, one);
}

static struct json *metadata(const struct commit_job *job, struct arena *a, const char *suffix)
{
    struct json *meta = doc_object(a), *labels = doc_object_at(a, meta, STR("labels"));
    struct json *owners = doc_array(a), *owner = doc_object(a);

    put(a, meta, "name", label_fit(a, job->snapshot->name, str_of(suffix)));
    put(a, meta, "namespace", job->snapshot->ns);
    put(a, labels, LABEL_SNAPSHOT_NAME, label_fit(a, job->snapshot->name, STR("")));
    put(a, labels, LABEL_NODE_ACCESS, STR("true"));
    put(a, owner, "apiVersion", STR(GROUP_VERSION));
    put(a, owner, "kind", STR(KIND_SNAPSHOT_NAME));
    put(a, owner, "name", job->snapshot->name);
    put(a, owner, "uid", job->snapshot->uid);
    (void)doc_set(a, owner, STR("controller"), doc_bool(a, true));
    (void)doc_set(a, owner, STR("blockOwnerDeletion"), doc_bool(a, true));
    (void)doc_push(owners, owner);
    (void)doc_set(a, meta, STR("ownerReferences"), owners);
    return meta;
}

static void security(struct arena *a, struct json *container)
{
    struct json *s = doc_object_at(a, container, STR("securityContext"));
    struct json *drop = doc_array(a);

    (void)doc_set(a, s, STR("runAsUser"), doc_int(a, 0));
    (void)doc_set(a, s, STR("allowPrivilegeEscalation"), doc_bool(a, false));
    (void)doc_push(drop, doc_string(a, STR("ALL")));
    (void)doc_set(a, doc_object_at(a, s, STR("capabilities")), STR("drop"), drop);
}

static void add_socket(const struct commit_job *job, struct arena *a, struct json *volumes,
                       struct json *mounts)
{
    struct json *volume = doc_object(a);

    put(a, volume, "name", STR("containerd-sock"));
    put(a, doc_object_at(a, volume, STR("hostPath")), "path", job->settings->containerd_socket);
    (void)doc_push(volumes, volume);
    push_named(a, mounts, STR("containerd-sock"), "mountPath", STR(SOCKET_IN_JOB));
}

static void add_credentials(const struct commit_job *job, struct arena *a, struct json *volumes,
                            struct json *mounts)
{
    struct json *volume = doc_object(a), *secret, *items = doc_array(a), *item = doc_object(a);
    struct json *mount = doc_object(a);

    put(a, volume, "name", STR("registry-creds"));
    secret = doc_object_at(a, volume, STR("secret"));
    put(a, secret, "secretName", job->settings->push_secret);
    put(a, item, "key", STR(".dockerconfigjson"));
    put(a, item, "path", STR("config.json"));
    (void)doc_push(items, item);
    (void)doc_set(a, secret, STR("items"), items);
    (void)doc_push(volumes, volume);
    put(a, mount, "name", STR("registry-creds"));
    put(a, mount, "mountPath", STR("/var/run/opensandbox/registry"));
    (void)doc_set(a, mount, STR("readOnly"), doc_bool(a, true));
    (void)doc_push(mounts, mount);
}

static struct json *container(const struct commit_job *job, struct arena *a, struct json *args,
                              struct json *mounts)
{
    struct json *c = doc_object(a), *command = doc_array(a), *env = doc_array(a);

    put(a, c, "name", STR("commit"));
    put(a, c, "image", job->settings->committer_image);
    put(a, c, "imagePullPolicy", STR("IfNotPresent"));
    (void)doc_push(command, doc_string(a, STR("/usr/local/bin/image-committer")));
    (void)doc_set(a, c, STR("command"), command);
    (void)doc_set(a, c, STR("args"), args);
    push_named(a, env, STR("CONTAINERD_SOCKET"), "value", STR(SOCKET_IN_JOB));
    /* A pod of the same name that came later is another one. */
    if (job->source->meta.uid.n)
        push_named(a, env, STR("SOURCE_POD_UID"), "value", job->source->meta.uid);
    if (job->settings->registry_insecure)
        push_named(a, env, STR("SNAPSHOT_REGISTRY_INSECURE"), "value", STR("true"));
    (void)doc_set(a, c, STR("env"), env);
    (void)doc_set(a, c, STR("volumeMounts"), mounts);
    security(a, c);
    return c;
}

static struct json *job_tree(const struct commit_job *job, struct arena *a, const char *suffix,
                             struct json *args, int64_t retries, bool credentials)
{
    struct json *v = doc_object(a), *spec, *template, *pod, *containers = doc_array(a);
    struct json *volumes = doc_array(a), *mounts = doc_array(a), *labels;

    put(a, v, "apiVersion", STR("batch/v1"));
    put(a, v, "kind", STR("Job"));
    (void)doc_set(a, v, STR("metadata"), metadata(job, a, suffix));
    spec = doc_object_at(a, v, STR("spec"));
    (void)doc_set(a, spec, STR("backoffLimit"), doc_int(a, retries));
    (void)doc_set(a, spec, STR("ttlSecondsAfterFinished"), doc_int(a, KEPT_S));
    (void)doc_set(a, spec, STR("activeDeadlineSeconds"),
                  doc_int(a, job->settings->commit_timeout_s));
    template = doc_object_at(a, spec, STR("template"));
    labels = doc_object_at(a, doc_object_at(a, template, STR("metadata")), STR("labels"));
    put(a, labels, LABEL_SNAPSHOT_NAME, label_fit(a, job->snapshot->name, STR("")));
    put(a, labels, LABEL_NODE_ACCESS, STR("true"));
    pod = doc_object_at(a, template, STR("spec"));
    put(a, pod, "restartPolicy", STR("Never"));
    put(a, pod, "nodeName", job->source->node);
    add_socket(job, a, volumes, mounts);
    if (credentials && job->settings->push_secret.n)
        add_credentials(job, a, volumes, mounts);
    (void)doc_push(containers, container(job, a, args, mounts));
    (void)doc_set(a, pod, STR("containers"), containers);
    (void)doc_set(a, pod, STR("volumes"), volumes);
    return v;
}

struct json *commit_job_tree(const struct commit_job *job, struct arena *a)
{
    struct json *args = doc_array(a);

    (void)doc_push(args, doc_string(a, job->source->meta.name));
    (void)doc_push(args, doc_string(a, job->source->meta.ns));
    json_each(one, job->images)
    {
        (void)doc_push(args,
                       doc_string(a, str_of(arena_printf(a, "%.*s:%.*s",
                                                         STR_ARG(kube_str(one, "containerName")),
                                                         STR_ARG(kube_str(one, "imageUri"))))));
    }
    return job_tree(job, a, "-commit", args, COMMIT_RETRIES, true);
}

struct json *unpause_job_tree(const struct commit_job *job, struct arena *a)
{
    struct json *args = doc_array(a);

    (void)doc_push(args, doc_string(a, STR("unpause")));
    (void)doc_push(args, doc_string(a, job->source->meta.name));
    (void)doc_push(args, doc_string(a, job->source->meta.ns));
    json_each(one, job->images)
    {
        (void)doc_push(args, doc_string(a, kube_str(one, "containerName")));
    }
    return job_tree(job, a, "-unpause", args, 0, false);
}
