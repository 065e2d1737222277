/* k8s_pod.c - the pod of a sandbox: an init container brings execd, the sandbox's container runs it
 * and the entrypoint, and with a network policy, or lists of the operator, the egress sidecar
 * filters what goes out. */
#include <inttypes.h>
#include <stdio.h>

#include "server/runtime/kubernetes/k8s_manifest.h"

#define INSTALL                                                                                    \
    "cp ./execd ./bootstrap.sh " K8S_BIN_DIR "/ && chmod +x " K8S_BIN_DIR "/execd " K8S_BIN_DIR    \
    "/bootstrap.sh"
#define NO_IPV6     "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && "
#define PREFIX      "OPENSANDBOX_EGRESS_"
#define INTERCEPT   PREFIX "MITMPROXY_TRANSPARENT"
#define EGRESS_AUTH "OPENSANDBOX-EGRESS-AUTH"
#define ALLOW_ALL   "{\"defaultAction\":\"allow\",\"egress\":[]}"
#define RULES_DIR   "/var/egress/rules"
/* The lists of the operator are files for the sidecar, also for that of other builds. */
#define RULES                                                                                      \
    "printf '%s' \"$ALWAYS_DENY\" > " RULES_DIR "/deny.always && "                                 \
    "printf '%s' \"$ALWAYS_ALLOW\" > " RULES_DIR "/allow.always && "

enum { NUMBER_TEXT_MAX = 24 };

static void write_strings(struct json_writer *w, struct str key, const char *const *texts)
{
    json_write_key(w, key);
    json_write_array(w);
    for (; *texts; texts++)
        json_write_string(w, str_of(*texts));
    json_write_array_end(w);
}

static void write_variable(struct json_writer *w, struct str name, struct str value)
{
    json_write_object(w);
    json_member_string(w, STR("name"), name);
    json_member_string(w, STR("value"), value);
    json_write_object_end(w);
}

static void write_mount(struct json_writer *w, struct str name, struct str path)
{
    json_write_object(w);
    json_member_string(w, STR("name"), name);
    json_member_string(w, STR("mountPath"), path);
    json_write_object_end(w);
}

static void write_mounts(struct json_writer *w, bool bin, bool rules)
{
    if (!bin && !rules)
        return;
    json_write_key(w, STR("volumeMounts"));
    json_write_array(w);
    if (bin)
        write_mount(w, STR(K8S_BIN_VOLUME), STR(K8S_BIN_DIR));
    if (rules)
        write_mount(w, STR(K8S_RULES_VOLUME), STR(RULES_DIR));
    json_write_array_end(w);
}

static void write_capabilities(struct json_writer *w, struct str verb, const char *const *names)
{
    json_write_key(w, STR("securityContext"));
    json_write_object(w);
    json_write_key(w, STR("capabilities"));
    json_write_object(w);
    write_strings(w, verb, names);
    json_write_object_end(w);
    json_write_object_end(w);
}

static bool has_lists(const struct k8s_plan *p)
{
    return p->config->egress.always_deny.count || p->config->egress.always_allow.count;
}

bool k8s_plan_filters(const struct k8s_plan *p)
{
    return !p->spec->pool_ref.n && (p->spec->network_policy || has_lists(p));
}

static void write_list(struct json_writer *w, const char *name, const struct config_list *list,
                       const char *between)
{
    AUTO_BUF(text, K8S_MANIFEST_MAX); /* what is longer makes the manifest too long */

    for (size_t i = 0; i < list->count; i++)
        (void)buf_addf(&text, "%s%s", i ? between : "", list->at[i]);
    write_variable(w, str_of(name), buf_str(&text));
}

/* --- execd --- */

static void write_config_pairs(struct json_writer *w, struct str key,
                               const struct config_pairs *pairs)
{
    if (!pairs->count)
        return;
    json_write_key(w, key);
    json_write_object(w);
    for (size_t i = 0; i < pairs->count; i++)
        json_member_string(w, str_of(pairs->at[i].name), str_of(pairs->at[i].value));
    json_write_object_end(w);
}

static void write_installer(struct json_writer *w, const struct k8s_plan *p)
{
    const struct config *c = p->config;
    bool no_ipv6 = k8s_plan_filters(p) && c->egress.disable_ipv6, lists = has_lists(p);
    const char *script = no_ipv6 && lists ? RULES NO_IPV6 INSTALL
                         : lists          ? RULES INSTALL
                         : no_ipv6        ? NO_IPV6 INSTALL
                                          : INSTALL;

    json_write_object(w);
    json_member_string(w, STR("name"), STR("execd-installer"));
    json_member_string(w, STR("image"), str_of(c->runtime.execd_image));
    write_strings(w, STR("command"), (const char *const[]){"/bin/sh", "-c", NULL});
    write_strings(w, STR("args"), (const char *const[]){script, NULL});
    if (lists) {
        json_write_key(w, STR("env"));
        json_write_array(w);
        write_list(w, "ALWAYS_DENY", &c->egress.always_deny, "\n");
        write_list(w, "ALWAYS_ALLOW", &c->egress.always_allow, "\n");
        json_write_array_end(w);
    }
    write_mounts(w, true, lists);
    if (c->kubernetes_execd.limits.count || c->kubernetes_execd.requests.count) {
        json_write_key(w, STR("resources"));
        json_write_object(w);
        write_config_pairs(w, STR("limits"), &c->kubernetes_execd.limits);
        write_config_pairs(w, STR("requests"), &c->kubernetes_execd.requests);
        json_write_object_end(w);
    }
    if (no_ipv6) {
        json_write_key(w, STR("securityContext"));
        json_write_object(w);
        json_member_bool(w, STR("privileged"), true);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

/* --- the sandbox's container --- */

/* As written; GPUs have another name in Kubernetes. */
static void write_quantities(struct json_writer *w, struct str key, const struct api_create *spec)
{
    json_write_key(w, key);
    json_write_object(w);
    for (size_t i = 0; i < spec->limit_texts_count; i++) {
        const struct json_pair *pair = &spec->limit_texts[i];

        if (!str_eq(pair->key, STR("gpu")))
            json_member_string(w, pair->key, str_trim(pair->value));
        else if (spec->limits.gpus > 0)
            json_member_string(w, STR("nvidia.com/gpu"), str_trim(pair->value));
    }
    json_write_object_end(w);
}

static void write_resources(struct json_writer *w, const struct api_create *spec)
{
    if (!spec->limit_texts_count)
        return;
    json_write_key(w, STR("resources"));
    json_write_object(w);
    write_quantities(w, STR("limits"), spec);
    write_quantities(w, STR("requests"), spec);
    json_write_object_end(w);
}

static void write_env(struct json_writer *w, const struct api_create *spec)
{
    json_write_key(w, STR("env"));
    json_write_array(w);
    for (size_t i = 0; i < spec->env_count; i++)
        write_variable(w, spec->env[i].key, spec->env[i].value);
    write_variable(w, STR("EXECD"), STR(K8S_BIN_DIR "/execd"));
    if (spec->credential_proxy)
        write_variable(w, STR(INTERCEPT), STR("true"));
    json_write_array_end(w);
}

/* The pod's volume that a mount uses: one for each claim. */
static struct str volume_name(const struct api_create *spec, size_t i)
{
    const struct api_volume *v = &spec->volumes[i];

    for (size_t k = 0; k < i; k++)
        if (v->kind == API_VOLUME_PVC && spec->volumes[k].kind == API_VOLUME_PVC &&
            str_eq(v->claim_name, spec->volumes[k].claim_name))
            return spec->volumes[k].name;
    return v->name;
}

static void write_user_mounts(struct json_writer *w, const struct api_create *spec)
{
    for (size_t i = 0; i < spec->volumes_count; i++) {
        const struct api_volume *v = &spec->volumes[i];

        json_write_object(w);
        json_member_string(w, STR("name"), volume_name(spec, i));
        json_member_string(w, STR("mountPath"), v->mount_path);
        json_member_bool(w, STR("readOnly"), v->read_only);
        if (v->sub_path.n)
            json_member_string(w, STR("subPath"), v->sub_path);
        json_write_object_end(w);
    }
}

static void write_main(struct json_writer *w, const struct k8s_plan *p, bool agent)
{
    const struct api_create *spec = p->spec;
    struct str policy = str_of(p->config->kubernetes.image_pull_policy);

    json_write_object(w);
    json_member_string(w, STR("name"), STR(K8S_CONTAINER));
    json_member_string(w, STR("image"), p->image);
    if (spec->pull_policy != API_PULL_DEFAULT)
        policy = str_of(api_pull_names[spec->pull_policy - API_PULL_IF_NOT_PRESENT].name);
    if (!agent && policy.n)
        json_member_string(w, STR("imagePullPolicy"), policy);
    json_write_key(w, STR("command"));
    json_write_array(w);
    json_write_string(w, STR(K8S_BIN_DIR "/bootstrap.sh"));
    for (size_t i = 0; i < spec->entrypoint_count; i++)
        json_write_string(w, spec->entrypoint[i]);
    json_write_array_end(w);
    write_env(w, spec);
    write_resources(w, spec);
    json_write_key(w, STR("volumeMounts"));
    json_write_array(w);
    write_mount(w, STR(K8S_BIN_VOLUME), STR(K8S_BIN_DIR));
    write_user_mounts(w, spec);
    json_write_array_end(w);
    /* Packet sockets pass no filter. */
    if (k8s_plan_filters(p))
        write_capabilities(w, STR("drop"), (const char *const[]){"NET_ADMIN", "NET_RAW", NULL});
    json_write_object_end(w);
}

/* --- the egress sidecar --- */

enum { READY_TRIES = 30, FIRST_TRIES = 300 }; /* one per second */

static void write_probe(struct json_writer *w, struct str key, struct str token, int tries)
{
    json_write_key(w, key);
    json_write_object(w);
    json_write_key(w, STR("httpGet"));
    json_write_object(w);
    json_member_string(w, STR("path"), STR("/healthz"));
    json_member_i64(w, STR("port"), K8S_EGRESS_PORT);
    json_write_key(w, STR("httpHeaders"));
    json_write_array(w);
    write_variable(w, STR(EGRESS_AUTH), token);
    json_write_array_end(w);
    json_write_object_end(w);
    json_member_i64(w, STR("periodSeconds"), 1);
    json_member_i64(w, STR("failureThreshold"), tries);
    json_write_object_end(w);
}

static void write_number(struct json_writer *w, const char *name, int64_t number)
{
    char text[NUMBER_TEXT_MAX];

    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    write_variable(w, str_of(name), str_of(text));
}

static void write_sidecar_env(struct json_writer *w, const struct k8s_plan *p)
{
    static const char *const modes[] = {"dns", "dns+nft"};
    const struct config *c = p->config;

    json_write_key(w, STR("env"));
    json_write_array(w);
    write_variable(w, STR(PREFIX "RULES"),
                   p->spec->network_policy ? p->spec->network_policy_json : STR(ALLOW_ALL));
    write_variable(w, STR(PREFIX "MODE"), str_of(modes[c->egress.mode == 1]));
    write_variable(w, STR(PREFIX "TOKEN"), p->token);
    write_variable(w, STR(PREFIX "SANDBOX_ID"), p->id);
    write_number(w, PREFIX "MAX_RULES", c->egress.max_rules);
    write_number(w, PREFIX "DNS_UPSTREAM_TIMEOUT", c->egress.dns_timeout_seconds);
    if (c->egress.upstreams.count)
        write_list(w, PREFIX "DNS_UPSTREAM", &c->egress.upstreams, ",");
    if (c->egress.doh_blocklist.count)
        write_list(w, PREFIX "DOH_BLOCKLIST", &c->egress.doh_blocklist, ",");
    if (c->egress.block_doh || c->egress.doh_blocklist.count)
        write_variable(w, STR(PREFIX "BLOCK_DOH_443"), STR("true"));
    if (c->egress.deny_webhook[0])
        write_variable(w, STR(PREFIX "DENY_WEBHOOK"), str_of(c->egress.deny_webhook));
    if (p->spec->credential_proxy)
        write_variable(w, STR(INTERCEPT), STR("true"));
    if (p->spec->credential_proxy && c->egress.vault_cleartext)
        write_variable(w, STR(PREFIX "CREDENTIAL_VAULT_REQUIRE_TLS"), STR("false"));
    json_write_array_end(w);
}

/* As an init container that goes on running it is waited for: it has started when it answers. */
static void write_sidecar(struct json_writer *w, const struct k8s_plan *p)
{
    json_write_object(w);
    json_member_string(w, STR("name"), STR("egress"));
    json_member_string(w, STR("image"), str_of(p->config->egress.image));
    if (p->config->egress.start_first) {
        json_member_string(w, STR("restartPolicy"), STR("Always"));
        write_probe(w, STR("startupProbe"), p->token, FIRST_TRIES);
    }
    write_sidecar_env(w, p);
    json_write_key(w, STR("ports"));
    json_write_array(w);
    json_write_object(w);
    json_member_string(w, STR("name"), STR("egress-api"));
    json_member_i64(w, STR("containerPort"), K8S_EGRESS_PORT);
    json_write_object_end(w);
    json_write_array_end(w);
    write_probe(w, STR("readinessProbe"), p->token, READY_TRIES);
    write_mounts(w, p->spec->credential_proxy, has_lists(p));
    write_capabilities(w, STR("add"), (const char *const[]){"NET_ADMIN", NULL});
    json_write_object_end(w);
}

/* --- volumes --- */

static void write_volume(struct json_writer *w, const struct api_create *spec, size_t i)
{
    const struct api_volume *v = &spec->volumes[i];
    struct str name = volume_name(spec, i);

    if (name.p != v->name.p) /* the claim has its volume already */
        return;
    json_write_object(w);
    json_member_string(w, STR("name"), name);
    if (v->kind == API_VOLUME_PVC) {
        json_write_key(w, STR("persistentVolumeClaim"));
        json_write_object(w);
        json_member_string(w, STR("claimName"), v->claim_name);
        json_write_object_end(w);
    } else {
        json_write_key(w, STR("hostPath"));
        json_write_object(w);
        json_member_string(w, STR("path"), v->host_path);
        json_member_string(w, STR("type"), STR("DirectoryOrCreate"));
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void write_scratch(struct json_writer *w, struct str name)
{
    json_write_object(w);
    json_member_string(w, STR("name"), name);
    json_write_key(w, STR("emptyDir"));
    json_write_object(w);
    json_write_object_end(w);
    json_write_object_end(w);
}

static void write_volumes(struct json_writer *w, const struct k8s_plan *p)
{
    json_write_key(w, STR("volumes"));
    json_write_array(w);
    write_scratch(w, STR(K8S_BIN_VOLUME));
    if (has_lists(p))
        write_scratch(w, STR(K8S_RULES_VOLUME));
    for (size_t i = 0; i < p->spec->volumes_count; i++)
        write_volume(w, p->spec, i);
    json_write_array_end(w);
}

/* --- the whole --- */

static void write_platform(struct json_writer *w, const struct api_create *spec)
{
    if (!spec->os.n && !spec->arch.n)
        return;
    json_write_key(w, STR("nodeSelector"));
    json_write_object(w);
    if (spec->os.n)
        json_member_string(w, STR("kubernetes.io/os"), spec->os);
    if (spec->arch.n)
        json_member_string(w, STR("kubernetes.io/arch"), spec->arch);
    json_write_object_end(w);
}

static void write_pull_secret(struct json_writer *w, const struct k8s_plan *p)
{
    char name[K8S_NAME_MAX];

    if (!p->spec->auth_user.n)
        return;
    k8s_secret_name(p->id, name);
    json_write_key(w, STR("imagePullSecrets"));
    json_write_array(w);
    json_write_object(w);
    json_member_string(w, STR("name"), str_of(name));
    json_write_object_end(w);
    json_write_array_end(w);
}

/* A sandbox has no business with the API server, unless the template says otherwise. */
static bool template_sets(const struct k8s_plan *p, bool agent, struct str key)
{
    const struct json *spec = json_get(p->template, STR("spec"));
    const struct json *pod = json_get(spec, agent ? STR("podTemplate") : STR("template"));

    return json_get(json_get(pod, STR("spec")), key);
}

void k8s_pod_write(struct json_writer *w, const struct k8s_plan *p, bool agent)
{
    json_write_object(w);
    write_volumes(w, p);
    json_write_key(w, STR("initContainers"));
    json_write_array(w);
    write_installer(w, p);
    if (k8s_plan_filters(p) && p->config->egress.start_first)
        write_sidecar(w, p);
    json_write_array_end(w);
    json_write_key(w, STR("containers"));
    json_write_array(w);
    write_main(w, p, agent);
    if (k8s_plan_filters(p) && !p->config->egress.start_first)
        write_sidecar(w, p);
    json_write_array_end(w);
    if (p->runtime_class[0])
        json_member_string(w, STR("runtimeClassName"), str_of(p->runtime_class));
    if (agent && p->config->kubernetes.service_account[0])
        json_member_string(w, STR("serviceAccountName"),
                           str_of(p->config->kubernetes.service_account));
    if (!template_sets(p, agent, STR("automountServiceAccountToken")))
        json_member_bool(w, STR("automountServiceAccountToken"), false);
    write_pull_secret(w, p);
    write_platform(w, p->spec);
    json_write_object_end(w);
}
