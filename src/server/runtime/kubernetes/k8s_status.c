#include "server/runtime/kubernetes/k8s_status.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/json_write.h"
#include "base/time.h"

enum { NOTE_ARENA_MAX = 1 << 20, METADATA_MAX = 1 << 20, OWNER_MAX = 64 };

static int64_t time_at(const struct json *v, const char *path)
{
    struct str text = kube_str(v, path);
    int64_t us = 0;

    return text.n && time_parse(text, &us, NULL) == 0 ? us : 0;
}

static bool is_true(const struct json *conditions, struct str type)
{
    return str_eq(kube_str(kube_condition(conditions, type), "status"), STR("True"));
}

/* The first string of a JSON array that an annotation holds: ["10.1.2.3"]; `member`: of an object
 * with that array. */
static void first_of_note(const struct kube_object *o, struct str note, const char *member,
                          char *out, size_t out_size)
{
    AUTO_ARENA(arena, NOTE_ARENA_MAX);
    struct str text = kube_annotation(o, note), value;
    struct json *tree = NULL;
    const struct json *list;

    if (!text.n || json_parse(&arena, text, NULL, &tree, NULL) < 0)
        return;
    list = member ? json_get(tree, str_of(member)) : tree;
    if (json_to_str(json_first(list), &value) == 0 && str_copy(out, out_size, value) < 0)
        out[0] = '\0';
}

static void say(struct k8s_facts *f, enum runtime_state state, const char *reason, struct str text)
{
    f->state = state;
    f->reason = reason;
    (void)snprintf(f->message, sizeof(f->message), "%.*s", STR_ARG(text));
}

static void say_failure(struct k8s_facts *f, const struct json *conditions)
{
    static const struct str types[] = {STR_INIT("PodFailed"), STR_INIT("ResumeFailed"),
                                       STR_INIT("PauseFailed")};
    struct str text = STR("the pod of the sandbox failed");

    for (size_t i = ARRAY_LEN(types); i-- > 0;)
        if (is_true(conditions, types[i]) &&
            kube_str(kube_condition(conditions, types[i]), "message").n)
            text = kube_str(kube_condition(conditions, types[i]), "message");
    say(f, RUNTIME_FAILED, "FAILED", text);
}

/* --- BatchSandbox --- */

static const struct phase {
    struct str name;
    enum runtime_state state;
    const char *reason;
    struct str message;
} phases[] = {
    {STR_INIT("Pending"),  RUNTIME_PENDING,  "CREATING", STR_INIT("the pod is being made")       },
    {STR_INIT("Succeed"),  RUNTIME_RUNNING,  "RUNNING",  STR_INIT("the sandbox is running")      },
    {STR_INIT("Running"),  RUNTIME_RUNNING,  "RUNNING",  STR_INIT("the sandbox is running")      },
    {STR_INIT("Pausing"),  RUNTIME_PAUSING,  "PAUSING",  STR_INIT("the sandbox is being paused") },
    {STR_INIT("Paused"),   RUNTIME_PAUSED,   "PAUSED",   STR_INIT("the sandbox is paused")       },
    {STR_INIT("Resuming"), RUNTIME_RESUMING, "RESUMING", STR_INIT("the sandbox is being resumed")},
};

static const struct phase *phase_of(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(phases); i++)
        if (str_eq(name, phases[i].name))
            return &phases[i];
    return NULL;
}

static void say_without_phase(struct k8s_facts *f, const struct json *status)
{
    if (f->address[0] && kube_i64(status, "ready") > 0)
        say(f, RUNTIME_RUNNING, "POD_READY_WITH_IP", STR("the sandbox is running"));
    else if (f->address[0])
        say(f, RUNTIME_ALLOCATED, "IP_ASSIGNED", STR("the sandbox has an address"));
    else if (kube_i64(status, "allocated") > 0)
        say(f, RUNTIME_PENDING, "POD_SCHEDULED", STR("the pod has a node"));
    else
        say(f, RUNTIME_PENDING, "BATCHSANDBOX_PENDING", STR("the pod is waited for"));
}

/* An intent that the operator has not seen yet is under way for clients. */
static void say_intent(const struct kube_object *o, struct k8s_facts *f)
{
    const struct json *pause = kube_get(o->root, "spec.pause");
    bool wanted;

    if (json_to_bool(pause, &wanted) < 0 ||
        o->generation <= kube_i64(o->root, "status.pauseObservedGeneration"))
        return;
    if (wanted && f->state == RUNTIME_RUNNING && !f->pause_failed)
        say(f, RUNTIME_PAUSING, "PAUSING", STR("the sandbox is about to be paused"));
    else if (!wanted && f->state == RUNTIME_PAUSED && !f->resume_failed)
        say(f, RUNTIME_RESUMING, "RESUMING", STR("the sandbox is about to be resumed"));
}

/* A pause or resume that failed leaves the sandbox as it was, and says why. */
static void add_failed_intent(const struct json *conditions, struct k8s_facts *f)
{
    const char *what = f->state == RUNTIME_RUNNING && f->pause_failed   ? "pausing failed"
                       : f->state == RUNTIME_PAUSED && f->resume_failed ? "resuming failed"
                                                                        : NULL;
    struct str type = f->pause_failed ? STR("PauseFailed") : STR("ResumeFailed");
    struct str why;

    if (!what)
        return;
    why = kube_str(kube_condition(conditions, type), "message");
    (void)snprintf(f->message, sizeof(f->message), "%s: %.*s", what, (int)min_size(why.n, 120),
                   why.n ? why.p : "");
}

void k8s_facts_of_batch(const struct kube_object *o, struct k8s_facts *ret)
{
    const struct json *status = json_get(o->root, STR("status"));
    const struct json *conditions = json_get(status, STR("conditions"));
    struct str phase = kube_str(status, "phase");
    const struct phase *row = phase_of(phase);

    *ret = (struct k8s_facts){0};
    first_of_note(o, STR(K8S_NOTE_ENDPOINTS), NULL, ret->address, sizeof(ret->address));
    first_of_note(o, STR(K8S_NOTE_ALLOCATED), "pods", ret->pod, sizeof(ret->pod));
    ret->created_us = time_at(o->root, "metadata.creationTimestamp");
    ret->expires_us = time_at(o->root, "spec.expireTime");
    ret->pause_failed = is_true(conditions, STR("PauseFailed"));
    ret->resume_failed = is_true(conditions, STR("ResumeFailed"));
    if (!kube_str(o->root, "spec.poolRef")
             .n) /* of a pool it had once, alloc-status tells no more */
        (void)snprintf(ret->pod, sizeof(ret->pod), "%.*s-0", (int)min_size(o->name.n, 250),
                       o->name.p);
    if (str_eq(phase, STR("Failed")))
        say_failure(ret, conditions);
    else if (row)
        say(ret, row->state, row->reason, row->message);
    else
        say_without_phase(ret, status);
    say_intent(o, ret);
    add_failed_intent(conditions, ret);
}

/* --- agent-sandbox --- */

static bool pod_is_ready(const struct kube_object *pod)
{
    return pod && str_eq(kube_str(pod->root, "status.phase"), STR("Running")) &&
           kube_str(pod->root, "status.podIP").n;
}

static void address_of_agent(const struct kube_object *o, const struct kube_object *pod,
                             struct k8s_facts *f)
{
    const struct json *ips = kube_get(o->root, "status.podIPs");
    struct str ip = STR_NONE;

    if (json_to_str(json_first(ips), &ip) < 0)
        ip = kube_str(json_first(ips), "ip");
    if (!ip.n && pod)
        ip = kube_str(pod->root, "status.podIP");
    if (str_copy(f->address, sizeof(f->address), ip) < 0)
        f->address[0] = '\0';
    if (pod && str_copy(f->pod, sizeof(f->pod), pod->name) < 0)
        f->pod[0] = '\0';
}

static void say_by_pod(struct k8s_facts *f, const struct kube_object *pod)
{
    if (pod_is_ready(pod))
        say(f, RUNTIME_RUNNING, "POD_READY", STR("the sandbox is running"));
    else if (f->address[0])
        say(f, RUNTIME_ALLOCATED, "IP_ASSIGNED", STR("the sandbox has an address"));
    else if (pod && kube_str(pod->root, "spec.nodeName").n)
        say(f, RUNTIME_PENDING, "POD_SCHEDULED", STR("the pod has a node"));
    else if (pod)
        say(f, RUNTIME_PENDING, "POD_PENDING", STR("the pod has no node yet"));
    else
        say(f, RUNTIME_PENDING, "SANDBOX_PENDING", STR("the pod is waited for"));
}

void k8s_facts_of_agent(const struct kube_object *o, const struct kube_object *pod,
                        struct k8s_facts *ret)
{
    const struct json *conditions = kube_get(o->root, "status.conditions");
    const struct json *ready = kube_condition(conditions, STR("Ready"));
    struct str state = kube_str(ready, "status"), reason = kube_str(ready, "reason");
    bool unschedulable = false;
    char why[120] = "";

    *ret = (struct k8s_facts){0};
    ret->created_us = time_at(o->root, "metadata.creationTimestamp");
    ret->expires_us = time_at(o->root, "spec.shutdownTime");
    address_of_agent(o, pod, ret);
    if (pod)
        k8s_pod_trouble(pod, why, sizeof(why), &unschedulable);
    if (str_eq(reason, STR("SandboxExpired")))
        say(ret, RUNTIME_EXITED, "SANDBOX_EXPIRED", STR("the sandbox has expired"));
    else if (str_eq(state, STR("True")) && ret->address[0])
        say(ret, RUNTIME_RUNNING, "RUNNING", STR("the sandbox is running"));
    else if (str_eq(state, STR("False")) && unschedulable && pod &&
             json_get(json_get(pod->root, STR("spec")), STR("nodeSelector")))
        say(ret, RUNTIME_FAILED, "POD_PLATFORM_UNSCHEDULABLE", str_of(why));
    else if (!ready)
        say_by_pod(ret, pod);
    else
        say(ret, RUNTIME_PENDING, "SANDBOX_PENDING",
            why[0]                         ? str_of(why)
            : kube_str(ready, "message").n ? kube_str(ready, "message")
                                           : STR("the pod is waited for"));
}

/* --- the description --- */

int k8s_metadata_write(const struct kube_object *o, struct buf *out)
{
    struct json_writer w;
    size_t before = out->n, count = 0;
    struct str value;
    int r;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_each(label, o->labels)
    {
        if (str_starts(label->key, STR(K8S_PREFIX)) || json_to_str(label, &value) < 0)
            continue;
        json_member_string(&w, label->key, value);
        count++;
    }
    json_write_object_end(&w);
    r = json_write_end(&w);
    if (r == 0 && count == 0)
        buf_cut(out, before);
    return r;
}

/* The words of a platform: of nodeSelector, or of a required affinity to one value. */
static struct str platform_word(const struct json *pod, struct str key)
{
    const struct json *terms = kube_get(
        pod,
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    struct str value;

    if (json_to_str(json_get(json_get(pod, STR("nodeSelector")), key), &value) == 0)
        return value;
    if (json_count(terms) != 1)
        return STR_NONE;
    json_each(e, json_get(json_first(terms), STR("matchExpressions")))
    {
        const struct json *values = json_get(e, STR("values"));

        if (str_eq(kube_str(e, "key"), key) && str_eq(kube_str(e, "operator"), STR("In")) &&
            json_count(values) == 1 && json_to_str(json_first(values), &value) == 0)
            return value;
    }
    return STR_NONE;
}

static int copy_metadata(const struct kube_object *o, struct arena *a, struct str *ret)
{
    AUTO_BUF(out, METADATA_MAX);

    if (k8s_metadata_write(o, &out) < 0)
        return -EMSGSIZE;
    *ret = arena_str(a, buf_str(&out));
    return ret->p ? 0 : -ENOMEM;
}

static int copy_entrypoint(const struct json *container, struct arena *a, struct str *ret)
{
    const struct json *command = json_get(container, STR("command"));
    AUTO_BUF(out, METADATA_MAX);
    struct json_writer w;

    json_write_begin(&w, &out);
    if (command && command->type == JSON_ARRAY) {
        json_write_value(&w, command);
    } else {
        json_write_array(&w);
        json_write_array_end(&w);
    }
    if (json_write_end(&w) < 0)
        return -EMSGSIZE;
    *ret = arena_str(a, buf_str(&out));
    return ret->p ? 0 : -ENOMEM;
}

/* Fingerprints of API keys only: those who may write objects must not hide them from clients. */
static bool is_owner(struct str text)
{
    return str_starts(text, STR("key:")) && text.n < OWNER_MAX;
}

int k8s_describe(const struct kube_object *o, bool agent, struct arena *a,
                 struct runtime_description *ret, struct err *e)
{
    const struct json *pod =
        kube_get(o->root, agent ? "spec.podTemplate.spec" : "spec.template.spec");
    const struct json *container = json_first(json_get(pod, STR("containers")));
    struct str renew = kube_annotation(o, STR(K8S_NOTE_RENEW));
    struct str secure = kube_annotation(o, STR(K8S_NOTE_SECURE_TOKEN)), image;
    struct runtime_description d = {.secure = secure.n > 0};
    int r;

    image = kube_str(container, "image");
    d.snapshot_id = kube_label(o, STR(K8S_LABEL_SNAPSHOT));
    d.image = arena_str(a, d.snapshot_id.n ? STR("") : image.n ? image : STR("unknown"));
    d.snapshot_id = arena_str(a, d.snapshot_id.n ? d.snapshot_id : STR(""));
    d.os = arena_str(a, platform_word(pod, STR("kubernetes.io/os")));
    d.arch = arena_str(a, platform_word(pod, STR("kubernetes.io/arch")));
    d.token = secure.n ? secure : kube_annotation(o, STR(K8S_NOTE_TOKEN));
    if (!d.token.n) /* of another build of the server */
        d.token = kube_annotation(o, STR(K8S_NOTE_EGRESS_TOKEN));
    d.token = arena_str(a, d.token.n ? d.token : STR(""));
    if (d.token.n >= ID_TOKEN_MAX)
        return err_set(e, EINVAL, "its token is too long: it is not of this kind of server");
    d.owner = kube_annotation(o, STR(K8S_NOTE_OWNER));
    d.owner = arena_str(a, is_owner(d.owner) ? d.owner : STR(""));
    d.created_us = time_at(o->root, "metadata.creationTimestamp");
    d.expires_us = time_at(o->root, agent ? "spec.shutdownTime" : "spec.expireTime");
    if (renew.n && str_to_u32(renew, &d.renew_extend_s) < 0)
        d.renew_extend_s = 0;
    r = copy_metadata(o, a, &d.metadata);
    if (r == 0)
        r = copy_entrypoint(container, a, &d.entrypoint);
    if (r < 0 || !d.image.p || !d.token.p || !d.owner.p || !d.os.p || !d.arch.p)
        return err_set(e, ENOMEM, "no memory left for a sandbox of the cluster");
    *ret = d;
    return 0;
}

/* --- a pod that does not run --- */

static bool container_trouble(const struct json *statuses, char *out, size_t out_size)
{
    json_each(s, statuses)
    {
        const struct json *waiting = kube_get(s, "state.waiting");
        const struct json *ended = kube_get(s, "state.terminated");
        struct str reason = kube_str(waiting, "reason"), name = kube_str(s, "name");

        if (waiting && reason.n && !str_eq(reason, STR("ContainerCreating")) &&
            !str_eq(reason, STR("PodInitializing"))) {
            (void)snprintf(out, out_size, "container %.*s: %.*s: %.*s", STR_ARG(name),
                           STR_ARG(reason), STR_ARG(kube_str(waiting, "message")));
            return true;
        }
        if (ended && kube_i64(ended, "exitCode") != 0) {
            (void)snprintf(out, out_size, "container %.*s ended with status %lld (%.*s)",
                           STR_ARG(name), (long long)kube_i64(ended, "exitCode"),
                           STR_ARG(kube_str(ended, "reason")));
            return true;
        }
    }
    return false;
}

void k8s_pod_trouble(const struct kube_object *pod, char *out, size_t out_size,
                     bool *ret_unschedulable)
{
    const struct json *status = json_get(pod->root, STR("status"));
    const struct json *scheduled =
        kube_condition(json_get(status, STR("conditions")), STR("PodScheduled"));

    out[0] = '\0';
    *ret_unschedulable = str_eq(kube_str(scheduled, "status"), STR("False")) &&
                         str_eq(kube_str(scheduled, "reason"), STR("Unschedulable"));
    if (*ret_unschedulable)
        (void)snprintf(out, out_size, "no node fits: %.*s",
                       STR_ARG(kube_str(scheduled, "message")));
    else if (!container_trouble(json_get(status, STR("initContainerStatuses")), out, out_size))
        (void)container_trouble(json_get(status, STR("containerStatuses")), out, out_size);
}
