/* k8s_look.c - diagnostics: logs of a sandbox's pod, its state, the cluster's events about it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "server/runtime/kubernetes/k8s_internal.h"

enum { QUERY_MAX = 4096 };

static int get_pod(struct k8s *k, struct str name, struct kube_object **ret, struct err *e)
{
    int r = k8s_call(
        k,
        &(struct kube_request){
            .verb = KUBE_GET, .kind = &kube_pods, .ns = str_of(k->namespace), .name = name},
        ret, e);

    return r >= 0 && !*ret ? err_set(e, EIO, "the API server answered with no object") : r;
}

/* The newest pod with the sandbox's label. */
static int find_by_label(struct k8s *k, struct str id, struct kube_object **ret, struct err *e)
{
    AUTO_BUF(query, QUERY_MAX);
    AUTO_BUF(selector, QUERY_MAX);
    const struct json *newest = NULL;
    auto_object *list = NULL;
    int r;

    if (buf_addf(&selector, K8S_LABEL_ID "=%.*s", STR_ARG(id)) < 0 ||
        kube_query_add(&query, "labelSelector", buf_str(&selector)) < 0)
        return err_set(e, EMSGSIZE, "the sandbox's id is too long");
    r = k8s_call(k,
                 &(struct kube_request){.verb = KUBE_LIST,
                                        .kind = &kube_pods,
                                        .ns = str_of(k->namespace),
                                        .query = buf_str(&query)},
                 &list, e);
    if (r < 0)
        return r;
    json_each(item, json_get(list ? list->root : NULL, STR("items")))
    {
        if (!newest || str_cmp(kube_str(item, "metadata.creationTimestamp"),
                               kube_str(newest, "metadata.creationTimestamp")) >= 0)
            newest = item;
    }
    return newest ? kube_object_copy(newest, ret, e) : err_set(e, ENOENT, "the sandbox has no pod");
}

int k8s_find_pod(struct k8s *k, struct str id, struct kube_object **ret, struct err *e)
{
    struct k8s_facts facts;
    struct err ignored = {0};

    if (k8s_table_get(&k->table, id, &facts) == 0 && facts.pod[0] &&
        get_pod(k, str_of(facts.pod), ret, &ignored) == 0)
        return 0;
    return find_by_label(k, id, ret, e);
}

/* --- logs --- */

struct log_sink {
    struct buf *out;
    bool cut;
};

static int take_piece(void *user, struct str piece, struct err *e UNUSED)
{
    struct log_sink *sink = user;

    if (buf_add(sink->out, piece) < 0)
        sink->cut = true;
    return 0;
}

int k8s_logs(struct runtime *r, struct str id, const struct runtime_log_query *query,
             struct buf *out, bool *ret_cut, struct err *e)
{
    struct k8s *k = k8s_of(r);
    struct log_sink sink = {.out = out};
    AUTO_BUF(params, QUERY_MAX);
    auto_object *pod = NULL;
    char text[TIME_TEXT_MAX];
    int result = k8s_find_pod(k, id, &pod, e);

    if (result < 0)
        return result;
    (void)kube_query_add(&params, "timestamps", STR("true"));
    (void)kube_query_add(&params, "container",
                         kube_str(json_first(kube_get(pod->root, "spec.containers")), "name"));
    if (query->lines) {
        (void)snprintf(text, sizeof(text), "%u", query->lines);
        (void)kube_query_add(&params, "tailLines", str_of(text));
    }
    if (query->since_us) {
        time_format(query->since_us, text);
        (void)kube_query_add(&params, "sinceTime", str_of(text));
    }
    result = k8s_call(k,
                      &(struct kube_request){.verb = KUBE_GET,
                                             .kind = &kube_pods,
                                             .ns = str_of(k->namespace),
                                             .name = pod->name,
                                             .subresource = STR("log"),
                                             .query = buf_str(&params),
                                             .on_piece = take_piece,
                                             .user = &sink},
                      NULL, e);
    *ret_cut = sink.cut;
    return result;
}

/* --- events --- */

static void print_event(const struct json *event, struct buf *out)
{
    struct str at = kube_str(event, "lastTimestamp");

    if (!at.n)
        at = kube_str(event, "eventTime");
    if (!at.n)
        at = kube_str(event, "metadata.creationTimestamp");
    (void)buf_addf(out, "%.*s  %-10.*s  %.*s  %.*s/%.*s: %.*s\n", STR_ARG(at),
                   STR_ARG(kube_str(event, "type")), STR_ARG(kube_str(event, "reason")),
                   STR_ARG(kube_str(event, "involvedObject.kind")),
                   STR_ARG(kube_str(event, "involvedObject.name")),
                   STR_ARG(kube_str(event, "message")));
}

static int print_events(struct k8s *k, struct str name, struct buf *out, struct err *e)
{
    AUTO_BUF(query, QUERY_MAX);
    AUTO_BUF(selector, QUERY_MAX);
    auto_object *list = NULL;
    int r;

    if (buf_addf(&selector, "involvedObject.name=%.*s", STR_ARG(name)) < 0 ||
        kube_query_add(&query, "fieldSelector", buf_str(&selector)) < 0)
        return err_set(e, EMSGSIZE, "the name of an object is too long");
    r = k8s_call(k,
                 &(struct kube_request){.verb = KUBE_LIST,
                                        .kind = &kube_events,
                                        .ns = str_of(k->namespace),
                                        .query = buf_str(&query)},
                 &list, e);
    if (r < 0)
        return r;
    json_each(item, json_get(list ? list->root : NULL, STR("items"))) print_event(item, out);
    return 0;
}

/* --- inspect --- */

static void print_containers(const struct json *statuses, struct buf *out)
{
    json_each(s, statuses)
    {
        const struct json *state = json_first(json_get(s, STR("state")));

        (void)buf_addf(out, "%-12s%.*s: %.*s, restarts %lld, image %.*s\n",
                       "container:", STR_ARG(kube_str(s, "name")),
                       STR_ARG(state ? state->key : STR("unknown")),
                       (long long)kube_i64(s, "restartCount"), STR_ARG(kube_str(s, "image")));
    }
}

static void print_pod(const struct kube_object *pod, struct buf *out)
{
    const struct json *root = pod->root;
    bool unschedulable;
    char why[256];

    (void)buf_addf(out, "%-12s%.*s/%.*s\n%-12s%.*s\n%-12s%.*s\n%-12s%.*s\n",
                   "pod:", STR_ARG(pod->ns), STR_ARG(pod->name),
                   "phase:", STR_ARG(kube_str(root, "status.phase")),
                   "node:", STR_ARG(kube_str(root, "spec.nodeName")),
                   "pod ip:", STR_ARG(kube_str(root, "status.podIP")));
    print_containers(kube_get(root, "status.initContainerStatuses"), out);
    print_containers(kube_get(root, "status.containerStatuses"), out);
    k8s_pod_trouble(pod, why, sizeof(why), &unschedulable);
    if (why[0])
        (void)buf_addf(out, "%-12s%s\n", "trouble:", why);
}

int k8s_report(struct runtime *r, struct str id, enum api_diag_kind kind, struct buf *out,
               struct err *e)
{
    struct k8s *k = k8s_of(r);
    char name[K8S_NAME_MAX];
    auto_object *pod = NULL;
    int result;

    k8s_object_name(k, id, name);
    result = k8s_find_pod(k, id, &pod, e);
    if (kind == API_DIAG_INSPECT) {
        (void)buf_addf(out, "%-12s%s/%s\n", "object:", k->namespace, name);
        if (result == 0)
            print_pod(pod, out);
        return result;
    }
    result = print_events(k, str_of(name), out, e);
    if (result >= 0 && pod)
        result = print_events(k, pod->name, out, e);
    return result;
}

int k8s_usage(struct runtime *r, struct str id, struct runtime_usage *ret, struct err *e)
{
    struct k8s_facts facts;

    *ret = (struct runtime_usage){0};
    if (k8s_table_get(&k8s_of(r)->table, id, &facts) < 0)
        return err_set(e, ENOENT, "the cluster has no such sandbox");
    (void)inet_pton(AF_INET, facts.address, &ret->address);
    return err_set(e, ENOTSUP, "ask the cluster's metrics for it (kubectl top pod)");
}
