#include "server/runtime/kubernetes/kubernetes.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/runtime/kubernetes/k8s_internal.h"
#include "server/runtime/kubernetes/k8s_template.h"

enum {
    TEMPLATE_ARENA_MAX = 16 << 20,
    START_MS = 20 * 1000,
    CREATE_GRACE_MS = 15 * 1000, /* beyond the wait for a pod, for the requests around it */
};

/* --- requests --- */

int k8s_call(struct k8s *k, const struct kube_request *rq, struct kube_object **ret, struct err *e)
{
    struct kube_error error = {0};
    int r = kube_blocking_call(k->calls, rq, ret, &error);

    if (r < 0 && e)
        *e = error.err;
    return r;
}

void k8s_object_name(struct k8s *k, struct str id, char out[K8S_NAME_MAX])
{
    auto_object *o = k8s_table_object(&k->table, id);

    if (o && str_copy(out, K8S_NAME_MAX, o->name) == 0)
        return;
    if (k->agent)
        k8s_label_name(id, out);
    else
        (void)snprintf(out, K8S_NAME_MAX, "%.*s", STR_ARG(id));
}

static int get_object(struct k8s *k, const char *name, struct kube_object **ret, struct err *e)
{
    int r = k8s_call(
        k,
        &(struct kube_request){
            .verb = KUBE_GET, .kind = &k->kind, .ns = str_of(k->namespace), .name = str_of(name)},
        ret, e);

    return r >= 0 && !*ret ? err_set(e, EIO, "the API server answered with no object") : r;
}

/* Older servers called it sandbox-ID. */
int k8s_fetch(struct k8s *k, struct str id, struct err *e)
{
    char name[K8S_NAME_MAX];
    auto_object *o = NULL;
    int r;

    k8s_object_name(k, id, name);
    r = get_object(k, name, &o, e);
    if (r == -ENOENT && k->agent) {
        (void)snprintf(name, sizeof(name), "%.*s", STR_ARG(id));
        r = get_object(k, name, &o, e);
    }
    if (r == -ENOENT) {
        (void)snprintf(name, sizeof(name), "sandbox-%.*s", STR_ARG(id));
        r = get_object(k, name, &o, e);
    }
    if (r < 0)
        return r;
    if (o->deleting || !str_eq(kube_label(o, STR(K8S_LABEL_ID)), id))
        return err_set(e, ENOENT, "the cluster has no such sandbox");
    (void)k8s_table_apply(&k->table, o);
    return 0;
}

int k8s_patch(struct k8s *k, struct str id, struct str patch, struct err *e)
{
    char name[K8S_NAME_MAX];
    auto_object *o = NULL;
    int r;

    k8s_object_name(k, id, name);
    r = k8s_call(k,
                 &(struct kube_request){.verb = KUBE_PATCH,
                                        .kind = &k->kind,
                                        .ns = str_of(k->namespace),
                                        .name = str_of(name),
                                        .patch = KUBE_PATCH_MERGE,
                                        .body = patch},
                 &o, e);
    if (r >= 0 && o)
        (void)k8s_table_apply(&k->table, o);
    return r < 0 ? r : 0;
}

/* --- the informers --- */

/* What there was before is known from list(): only what comes later is news. */
static void on_add(struct kube_handler *h, struct kube_object *o)
{
    struct k8s *k = container_of(h, struct k8s, on_sandboxes);

    if (k8s_table_apply(&k->table, o) && k->on_news && kube_informer_is_synced(k->sandboxes))
        k->on_news(k->user);
}

static void on_update(struct kube_handler *h, struct kube_object *old UNUSED, struct kube_object *o)
{
    on_add(h, o);
}

static void on_delete(struct kube_handler *h, struct kube_object *last)
{
    k8s_table_drop(&container_of(h, struct k8s, on_sandboxes)->table, last);
}

static void on_pod_add(struct kube_handler *h, struct kube_object *o)
{
    k8s_table_apply_pod(&container_of(h, struct k8s, on_pods)->table, o, false);
}

static void on_pod_update(struct kube_handler *h, struct kube_object *old UNUSED,
                          struct kube_object *o)
{
    on_pod_add(h, o);
}

static void on_pod_delete(struct kube_handler *h, struct kube_object *last)
{
    k8s_table_apply_pod(&container_of(h, struct k8s, on_pods)->table, last, true);
}

static int start_informers(struct k8s *k, struct err *e)
{
    const struct config *c = k->config;
    struct kube_informer_conf conf = {
        .client = k->client,
        .kind = &k->kind,
        .ns = k->namespace,
        .label_selector = K8S_LABEL_ID,
        .watch_s = (uint32_t)c->kubernetes.informer_watch_timeout_seconds,
    };
    int r = kube_informer_new(&conf, &k->sandboxes, e);

    if (r < 0)
        return r;
    k->on_sandboxes =
        (struct kube_handler){.on_add = on_add, .on_update = on_update, .on_delete = on_delete};
    kube_informer_add_handler(k->sandboxes, &k->on_sandboxes);
    if (!k->agent)
        return 0;
    conf.kind = &kube_pods;
    r = kube_informer_new(&conf, &k->pods, e);
    if (r < 0)
        return r;
    k->on_pods = (struct kube_handler){
        .on_add = on_pod_add, .on_update = on_pod_update, .on_delete = on_pod_delete};
    kube_informer_add_handler(k->pods, &k->on_pods);
    return 0;
}

/* --- the way in --- */

static int endpoint_at(struct k8s *k, struct str id, uint16_t port, struct runtime_endpoint *ret)
{
    char text[SOCK_ADDR_TEXT_MAX];
    struct k8s_facts facts;

    if (k8s_table_get(&k->table, id, &facts) < 0 || !facts.address[0])
        return -ENOENT;
    (void)snprintf(text, sizeof(text), strchr(facts.address, ':') ? "[%s]:%u" : "%s:%u",
                   facts.address, port);
    *ret = (struct runtime_endpoint){0};
    return sock_addr_parse(str_of(text), &ret->addr, NULL) < 0 ? -ENOENT : 0;
}

static int k8s_endpoint(struct runtime *r, struct str id, struct runtime_endpoint *ret)
{
    return endpoint_at(k8s_of(r), id, K8S_EXECD_PORT, ret);
}

static int k8s_egress_endpoint(struct runtime *r, struct str id, struct runtime_endpoint *ret)
{
    int result = endpoint_at(k8s_of(r), id, K8S_EGRESS_PORT, ret);

    ret->at_root = true;
    return result;
}

static int k8s_levels(struct runtime *r, struct runtime_levels *ret, struct err *e UNUSED)
{
    enum { LAG_S_MAX = 120 };
    struct k8s *k = k8s_of(r);
    uint32_t lag = kube_informer_lag_s(k->sandboxes);

    *ret = (struct runtime_levels){.live = (uint32_t)k8s_table_count(&k->table)};
    if (lag > LAG_S_MAX)
        (void)err_set(&ret->blocked, EBUSY, "the API server was not heard of for %u seconds", lag);
    return 0;
}

static int k8s_start_error(struct runtime *r UNUSED, struct str id UNUSED,
                           const struct runtime_birth *birth UNUSED, struct err *e UNUSED)
{
    return 0;
}

static void k8s_image_note(struct runtime *r UNUSED, struct str image UNUSED,
                           struct buf *out UNUSED)
{
}

/* --- life --- */

static void k8s_stop(struct runtime *r)
{
    struct k8s *k = k8s_of(r);

    loop_timer_stop(k->loop, &k->tick);
    k8s_create_stop(k);
}

static void k8s_free(struct runtime *r)
{
    struct k8s *k = k8s_of(r);

    loop_timer_stop(k->loop, &k->tick);
    k8s_create_stop(k);
    k8s_snapshots_stop(k);
    kube_informer_free(k->pods);
    kube_informer_free(k->sandboxes);
    kube_client_free(k->client);
    kube_blocking_free(k->calls);
    kube_config_free(k->kube);
    k8s_table_done(&k->table);
    arena_done(&k->arena);
    (void)pthread_mutex_destroy(&k->work_lock);
    free(k);
}

static const struct runtime_ops k8s_ops = {
    .check_abilities = k8s_check_abilities,
    .check = k8s_check,
    .create = k8s_create,
    .cancel = k8s_cancel,
    .start_error = k8s_start_error,
    .image_note = k8s_image_note,
    .adopt = k8s_adopt,
    .pause = k8s_pause,
    .resume = k8s_resume,
    .renew = k8s_renew,
    .relabel = k8s_relabel,
    .describe = k8s_describe_sandbox,
    .remove = k8s_remove,
    .usage = k8s_usage,
    .logs = k8s_logs,
    .report = k8s_report,
    .pools = k8s_pools,
    .list = k8s_list,
    .levels = k8s_levels,
    .endpoint = k8s_endpoint,
    .egress_endpoint = k8s_egress_endpoint,
    .snapshot = k8s_snapshot,
    .snapshot_remove = k8s_snapshot_remove,
    .snapshot_each = k8s_snapshot_each,
    .snapshot_shared = k8s_snapshot_shared,
    .stop = k8s_stop,
    .free = k8s_free,
};

static const struct runtime_code k8s_codes[] = {
    {"DOCKER::SANDBOX_NOT_FOUND",            "KUBERNETES::SANDBOX_NOT_FOUND"},
    {"DOCKER::SANDBOX_NOT_RUNNING",          "KUBERNETES::INVALID_STATE"    },
    {"DOCKER::SANDBOX_NOT_PAUSED",           "KUBERNETES::INVALID_STATE"    },
    {"DOCKER::SANDBOX_START_FAILED",         "KUBERNETES::API_ERROR"        },
    {"DOCKER::SANDBOX_DELETE_FAILED",        "KUBERNETES::API_ERROR"        },
    {"DOCKER::SANDBOX_PAUSE_FAILED",         "KUBERNETES::API_ERROR"        },
    {"DOCKER::SANDBOX_RESUME_FAILED",        "KUBERNETES::API_ERROR"        },
    {"DOCKER::SANDBOX_QUERY_FAILED",         "KUBERNETES::API_ERROR"        },
    {"DOCKER::SANDBOX_IMAGE_PULL_FAILED",    "KUBERNETES::API_ERROR"        },
    {"DOCKER::SNAPSHOT_IMAGE_REMOVE_FAILED", "KUBERNETES::API_ERROR"        },
    {"CONTAINER_STARTING",                   "CREATING"                     },
    {"CONTAINER_RUNNING",                    "RUNNING"                      },
    {NULL,                                   NULL                           },
};

/* --- start --- */

/* Whether the cluster has the kind of our objects, and lets us see them. */
static int probe_kind(struct k8s *k, struct err *e)
{
    return k8s_call(k,
                    &(struct kube_request){.verb = KUBE_LIST,
                                           .kind = &k->kind,
                                           .ns = str_of(k->namespace),
                                           .query = STR("limit=1"),
                                           .timeout_ms = START_MS},
                    NULL, e);
}

static int choose_kind(struct k8s *k, struct err *e)
{
    static const struct kube_kind agents[] = {
        {K8S_AGENT_GROUP, "v1beta1",  "sandboxes", "Sandbox", false},
        {K8S_AGENT_GROUP, "v1alpha1", "sandboxes", "Sandbox", false},
    };
    int r = -ENOENT;

    if (!k->agent) {
        k->kind = kube_batch_sandboxes;
        r = probe_kind(k, e);
        return r == -ENOENT ? err_set(e, ENOENT,
                                      "the cluster has no BatchSandboxes: install the chart or the "
                                      "kustomization of deploy/kubernetes")
                            : r;
    }
    for (size_t i = 0; i < ARRAY_LEN(agents) && r == -ENOENT; i++) {
        k->kind = agents[i];
        r = probe_kind(k, e);
    }
    return r == -ENOENT ? err_set(e, ENOENT,
                                  "the cluster has no Sandboxes of agents.x-k8s.io: install "
                                  "agent-sandbox, or choose another kubernetes.workload_provider")
                        : r;
}

static int choose_runtime_class(struct k8s *k, struct err *e)
{
    static const char *const usual[] = {
        [CONFIG_SECURE_NONE] = "",
        [CONFIG_SECURE_GVISOR] = "gvisor",
        [CONFIG_SECURE_KATA] = "kata-qemu",
        [CONFIG_SECURE_FIRECRACKER] = "kata-fc",
    };
    const char *name = k->config->secure_runtime.k8s_runtime_class;
    int r;

    if (k->config->secure_runtime.type == CONFIG_SECURE_NONE)
        return 0;
    if (!name[0])
        name = usual[k->config->secure_runtime.type];
    (void)snprintf(k->runtime_class, sizeof(k->runtime_class), "%s", name);
    r = k8s_call(k,
                 &(struct kube_request){.verb = KUBE_GET,
                                        .kind = &kube_runtime_classes,
                                        .name = str_of(name),
                                        .timeout_ms = START_MS},
                 NULL, e);
    if (r == -ENOENT)
        return err_set(e, ENOENT, "secure_runtime: the cluster has no RuntimeClass '%s'", name);
    if (r == -EACCES)
        log_event(LOG_WARN, "this server may not read RuntimeClasses, going on",
                  LOG_STR("class", name));
    return r == -EACCES ? 0 : r;
}

static struct kube_rate rate_of(double per_s, int64_t burst)
{
    return (struct kube_rate){per_s, (unsigned)burst};
}

static int connect_cluster(struct k8s *k, struct err *e)
{
    const struct config *c = k->config;
    struct kube_rate reads = rate_of(c->kubernetes.read_qps, c->kubernetes.read_burst);
    struct kube_rate writes = rate_of(c->kubernetes.write_qps, c->kubernetes.write_burst);
    int r = kube_config_load(c->kubernetes.kubeconfig_path, NULL, &k->kube, e);

    if (r < 0)
        return r;
    (void)snprintf(k->namespace, sizeof(k->namespace), "%s",
                   c->kubernetes.namespace[0] ? c->kubernetes.namespace
                                              : kube_config_namespace(k->kube));
    r = kube_blocking_new(
        &(struct kube_blocking_conf){k->kube, "opensandbox-server", reads, writes}, &k->calls, e);
    if (r == 0)
        r = kube_client_new(&(struct kube_client_conf){.loop = k->loop,
                                                       .config = k->kube,
                                                       .user_agent = "opensandbox-server"},
                            &k->client, e);
    return r;
}

static void k8s_init(struct k8s *k, const struct runtime_conf *conf)
{
    const struct config *c = conf->config;
    const char *provider = c->kubernetes.workload_provider;

    k->agent = str_eq_nocase(str_of(provider), STR("agent-sandbox"));
    k->base = (struct runtime){
        .ops = &k8s_ops,
        .name = "kubernetes",
        .can = RUNTIME_CAN_PAUSE | RUNTIME_CAN_NETWORK_POLICY | RUNTIME_CAN_CREDENTIAL_PROXY |
               RUNTIME_CAN_GPUS | RUNTIME_CAN_VOLUME_HOST | RUNTIME_CAN_VOLUME_CLAIM |
               RUNTIME_CAN_SHARE | RUNTIME_CAN_EXPIRE | RUNTIME_CAN_OWN_POOLS | RUNTIME_CAN_DIRECT |
               (k->agent ? 0 : RUNTIME_CAN_SNAPSHOT),
        .codes = k8s_codes,
        .create_wait_ms =
            (uint32_t)c->kubernetes.sandbox_create_timeout_seconds * 1000 + CREATE_GRACE_MS,
    };
    k->config = c;
    k->loop = conf->loop;
    k->pool = conf->pool;
    k->on_news = conf->on_news;
    k->user = conf->user;
    k8s_table_init(&k->table);
    k->table.agent = k->agent;
    k->table.on_end = k8s_create_end;
    k->table.user = k;
    arena_init(&k->arena, TEMPLATE_ARENA_MAX);
    list_init(&k->snapshots);
    (void)pthread_mutex_init(&k->work_lock, NULL);
}

static int check_config(const struct config *c, struct err *e)
{
    if (!c->runtime.execd_image[0])
        return err_set(e, EINVAL,
                       "runtime.execd_image: needed with the kubernetes runtime: the image that "
                       "execd is copied from, such as opensandbox/execd:latest");
    if (c->egress.block_quic)
        return err_set(e, EINVAL, "egress.block_quic: the kubernetes runtime cannot keep it");
    if ((c->egress.always_deny.count || c->egress.always_allow.count) && !c->egress.image[0])
        return err_set(e, EINVAL,
                       "egress.always_deny, egress.always_allow: on Kubernetes they need "
                       "egress.image");
    return 0;
}

static int k8s_start(const struct runtime_conf *conf, struct runtime **ret, struct err *e)
{
    const struct config *c = conf->config;
    struct k8s *k = mem_new(struct k8s);
    int r;

    k8s_init(k, conf);
    r = check_config(c, e);
    if (r == 0)
        r = k8s_template_load(&k->arena,
                              k->agent ? c->agent_sandbox.template_file
                                       : c->kubernetes.batchsandbox_template_file,
                              &k->template, e);
    if (r == 0)
        r = connect_cluster(k, e);
    if (r == 0)
        r = choose_kind(k, e);
    if (r >= 0)
        r = choose_runtime_class(k, e);
    if (r >= 0)
        r = start_informers(k, e);
    if (r < 0) {
        k8s_free(&k->base);
        return err_wrap(e, r, "KUBERNETES::INITIALIZATION_ERROR: the kubernetes runtime");
    }
    loop_timer_set(k->loop, &k->tick, 0, k8s_create_tick);
    log_event(LOG_INFO, "the cluster is reached", LOG_STR("server", kube_config_server(k->kube)),
              LOG_STR("namespace", k->namespace), LOG_STR("kind", k->kind.kind),
              LOG_STR("version", k->kind.version));
    *ret = &k->base;
    return 0;
}

static int k8s_check_host(const struct config *config, struct err *e)
{
    AUTO_ARENA(arena, TEMPLATE_ARENA_MAX);
    bool agent = str_eq_nocase(str_of(config->kubernetes.workload_provider), STR("agent-sandbox"));
    const struct json *template;
    struct kube_config *kube = NULL;
    int r = check_config(config, e);

    if (r == 0)
        r = k8s_template_load(&arena,
                              agent ? config->agent_sandbox.template_file
                                    : config->kubernetes.batchsandbox_template_file,
                              &template, e);
    if (r == 0)
        r = kube_config_load(config->kubernetes.kubeconfig_path, NULL, &kube, e);
    kube_config_free(kube);
    return r;
}

const struct runtime_kind kubernetes_runtime = {
    .name = "kubernetes",
    .check_host = k8s_check_host,
    .start = k8s_start,
};
