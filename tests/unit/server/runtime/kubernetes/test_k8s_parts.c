/* What the Kubernetes runtime makes of requests and of objects of the cluster: manifests, names,
 * templates, states; and its table of sandboxes. */
#include <poll.h>

#include "base/fd.h"
#include "base/time.h"
#include "config_fixture.h"
#include "server/runtime/kubernetes/k8s_internal.h"
#include "server/runtime/kubernetes/k8s_merge.h"
#include "server/runtime/kubernetes/k8s_template.h"

#define ID "11111111-2222-4333-8444-555555555555"

static const char plain_config[] = "[runtime]\n"
                                   "type = \"kubernetes\"\n"
                                   "execd_image = \"execd:1\"\n"
                                   "[egress]\n"
                                   "image = \"egress:1\"\n"
                                   "[storage]\n"
                                   "allowed_host_paths = [\"/data\"]\n"
                                   "[kubernetes]\n"
                                   "namespace = \"boxes\"\n"
                                   "service_account = \"runner\"\n"
                                   "[kubernetes.execd_init_resources.limits]\n"
                                   "cpu = \"100m\"\n";

/* A request as JSON, a template as YAML; and what comes of it. */
struct made {
    struct arena arena;
    struct parsed config;
    struct api_create spec;
    struct k8s_plan plan;
    struct buf text;
    struct json *tree;
};

static void made_done(struct made *m)
{
    buf_done(&m->text);
    parsed_done(&m->config);
    arena_done(&m->arena);
}
#define auto_made __attribute__((cleanup(made_done))) struct made

static void read_request(struct made *m, const char *config, const char *body, const char *template)
{
    static const struct api_create_host host = {0};
    struct api_fail f = {0};
    struct err e = {0};

    *m = (struct made){0};
    arena_init(&m->arena, 16 << 20);
    buf_init(&m->text, K8S_MANIFEST_MAX);
    m->config = parse(config);
    if (!m->config.config)
        test_fail(__FILE__, __LINE__, "%s", m->config.report.lines.p);
    if (api_create_parse(&m->arena, STR("application/json"), str_of(body), &host, &m->spec, &f) < 0)
        test_fail(__FILE__, __LINE__, "%s", f.message);
    m->plan = (struct k8s_plan){
        .config = m->config.config,
        .spec = &m->spec,
        .id = STR(ID),
        .token = STR("t0ken"),
        .owner = STR("key:1"),
        .image = m->spec.image,
        .namespace = "boxes",
        .runtime_class = "",
        .expires_us = m->spec.timeout_s ? INT64_C(1767323045000000) : 0,
    };
    if (template)
        CHECK_EQ(k8s_template_parse(&m->arena, str_of(template), &m->plan.template, &e), 0);
}

static void make_with(struct made *m, const char *config, const char *body, const char *template)
{
    struct err e = {0};

    read_request(m, config, body, template);
    CHECK_EQ(k8s_batch_write(&m->plan, &m->text, &e), 0);
    CHECK_EQ(json_parse(&m->arena, buf_str(&m->text), NULL, &m->tree, &e), 0);
}

static void make(struct made *m, const char *body, const char *template)
{
    make_with(m, plain_config, body, template);
}

/* The value at a path, printed. */
static const char *at(struct made *m, const struct json *v, const char *path)
{
    struct json_writer w;
    AUTO_BUF(out, 1 << 20);

    v = path ? kube_get(v, path) : v;
    if (!v)
        return "absent";
    json_write_begin(&w, &out);
    json_write_value(&w, v);
    CHECK_EQ(json_write_end(&w), 0);
    return arena_strdup(&m->arena, buf_str(&out));
}

static const struct json *named(const struct json *list, const char *name)
{
    json_each(item, list)
    {
        if (str_eq(kube_str(item, "name"), str_of(name)))
            return item;
    }
    return NULL;
}

#define POD        "spec.template.spec"
#define CONTAINERS kube_get(m.tree, POD ".containers")

#define REQUEST                                                                                    \
    "{\"image\":{\"uri\":\"python:3.12\"},\"entrypoint\":[\"python\",\"-m\",\"http.server\"],"     \
    "\"timeout\":600,\"resourceLimits\":{\"cpu\":\"500m\",\"memory\":\"512Mi\",\"gpu\":\"2\"},"    \
    "\"env\":{\"A\":\"1\"},\"metadata\":{\"team\":\"red\"},"                                       \
    "\"extensions\":{\"access.renew.extend.seconds\":\"300\",\"opensandbox.extensions.x\":\"y\"}"

TEST(k8s_manifest, has_the_pod_of_a_request)
{
    auto_made m;
    const struct json *c;

    make(&m, REQUEST "}", NULL);
    CHECK_STR(at(&m, m.tree, "apiVersion"), "\"sandbox.opensandbox.io/v1alpha1\"");
    CHECK_STR(at(&m, m.tree, "kind"), "\"BatchSandbox\"");
    CHECK_STR(at(&m, m.tree, "metadata.name"), "\"" ID "\"");
    CHECK_STR(at(&m, m.tree, "metadata.namespace"), "\"boxes\"");
    CHECK_STR(at(&m, m.tree, "metadata.labels"),
              "{\"team\":\"red\",\"opensandbox.io/id\":\"" ID "\"}");
    CHECK_STR(at(&m, m.tree, "metadata.annotations"),
              "{\"opensandbox.io/access-renew-extend-seconds\":\"300\","
              "\"opensandbox.io/extensions.x\":\"y\",\"opensandbox.io/proxy-token\":\"t0ken\","
              "\"opensandbox.io/created-by\":\"key:1\"}");
    CHECK_STR(at(&m, m.tree, "spec.template.metadata.annotations"),
              "{\"opensandbox.io/access-renew-extend-seconds\":\"300\","
              "\"opensandbox.io/extensions.x\":\"y\"}");
    CHECK_STR(at(&m, m.tree, "spec.replicas"), "1");
    CHECK_STR(at(&m, m.tree, "spec.expireTime"), "\"2026-01-02T03:04:05.000000+00:00\"");
    CHECK_STR(at(&m, m.tree, POD ".volumes"), "[{\"name\":\"opensandbox-bin\",\"emptyDir\":{}}]");
    c = json_first(kube_get(m.tree, POD ".initContainers"));
    CHECK_STR(at(&m, c, "name"), "\"execd-installer\"");
    CHECK_STR(at(&m, c, "image"), "\"execd:1\"");
    CHECK_STR(at(&m, c, "command"), "[\"/bin/sh\",\"-c\"]");
    CHECK(strstr(at(&m, c, "args"), "cp ./execd ./bootstrap.sh /opt/opensandbox/"));
    CHECK_STR(at(&m, c, "resources"), "{\"limits\":{\"cpu\":\"100m\"}}");
    CHECK_STR(at(&m, c, "securityContext"), "absent");
    c = named(CONTAINERS, "sandbox");
    CHECK_STR(at(&m, c, "image"), "\"python:3.12\"");
    CHECK_STR(at(&m, c, "imagePullPolicy"), "\"IfNotPresent\"");
    CHECK_STR(at(&m, c, "command"),
              "[\"/opt/opensandbox/bootstrap.sh\",\"python\",\"-m\",\"http.server\"]");
    CHECK_STR(at(&m, c, "env"), "[{\"name\":\"A\",\"value\":\"1\"},"
                                "{\"name\":\"EXECD\",\"value\":\"/opt/opensandbox/execd\"}]");
    CHECK_STR(at(&m, c, "resources.limits"),
              "{\"cpu\":\"500m\",\"memory\":\"512Mi\",\"nvidia.com/gpu\":\"2\"}");
    CHECK_STR(at(&m, c, "resources.requests"), at(&m, c, "resources.limits"));
    CHECK_STR(at(&m, m.tree, POD ".automountServiceAccountToken"), "false");
    CHECK_STR(at(&m, m.tree, POD ".serviceAccountName"), "absent");
    CHECK_EQ(json_count(CONTAINERS), 1);
}

TEST(k8s_manifest, marks_what_never_expires_and_what_needs_a_node_or_a_secret)
{
    auto_made m;
    struct json *secret = NULL;
    AUTO_BUF(text, K8S_MANIFEST_MAX);
    struct err e = {0};

    make(
        &m,
        "{\"image\":{\"uri\":\"r.example/a/b:1\",\"auth\":{\"username\":\"u\",\"password\":\"p\"}},"
        "\"entrypoint\":[\"sh\"],\"resourceLimits\":{},"
        "\"platform\":{\"os\":\"linux\",\"arch\":\"arm64\"}}",
        NULL);
    CHECK_STR(
        at(&m, json_get(kube_get(m.tree, "metadata.labels"), STR("opensandbox.io/manual-cleanup")),
           NULL),
        "\"true\"");
    CHECK_STR(at(&m, m.tree, "spec.expireTime"), "absent");
    CHECK_STR(at(&m, m.tree, POD ".nodeSelector"),
              "{\"kubernetes.io/os\":\"linux\",\"kubernetes.io/arch\":\"arm64\"}");
    CHECK_STR(at(&m, m.tree, POD ".imagePullSecrets"),
              "[{\"name\":\"opensandbox-image-auth-" ID "\"}]");
    CHECK_STR(at(&m, named(CONTAINERS, "sandbox"), "resources"), "absent");
    CHECK_EQ(k8s_secret_write(&m.plan, STR("uid-1"), &text, &e), 0);
    CHECK_EQ(json_parse(&m.arena, buf_str(&text), NULL, &secret, &e), 0);
    CHECK_STR(at(&m, secret, "type"), "\"kubernetes.io/dockerconfigjson\"");
    CHECK_STR(at(&m, json_first(kube_get(secret, "metadata.ownerReferences")), NULL),
              "{\"apiVersion\":\"sandbox.opensandbox.io/v1alpha1\",\"kind\":\"BatchSandbox\","
              "\"name\":\"" ID "\",\"uid\":\"uid-1\",\"controller\":false}");
    CHECK_STR(at(&m, json_first(json_get(secret, STR("data"))), NULL),
              "\"eyJhdXRocyI6eyJyLmV4YW1wbGUiOnsidXNlcm5hbWUiOiJ1IiwicGFzc3dvcmQiOiJwIiwiYXV0aCI6Im"
              "RUcHcifX19\"");
}

TEST(k8s_manifest, adds_the_egress_sidecar_for_a_network_policy)
{
    auto_made m;
    const struct json *c;

    make(&m,
         REQUEST ",\"networkPolicy\":{\"defaultAction\":\"deny\",\"egress\":[{\"action\":\"allow\","
                 "\"target\":\"pypi.org\"}]}}",
         NULL);
    c = json_first(kube_get(m.tree, POD ".initContainers"));
    CHECK_STR(at(&m, c, "securityContext"), "{\"privileged\":true}");
    CHECK(strstr(at(&m, c, "args"), "disable_ipv6"));
    CHECK_STR(at(&m, named(CONTAINERS, "sandbox"), "securityContext"),
              "{\"capabilities\":{\"drop\":[\"NET_ADMIN\",\"NET_RAW\"]}}");
    c = named(CONTAINERS, "egress");
    CHECK_STR(at(&m, c, "image"), "\"egress:1\"");
    CHECK(strstr(at(&m, c, "env"), "pypi.org"));
    CHECK(strstr(at(&m, c, "env"), "{\"name\":\"OPENSANDBOX_EGRESS_MODE\",\"value\":\"dns\"}"));
    CHECK(strstr(at(&m, c, "env"), "{\"name\":\"OPENSANDBOX_EGRESS_TOKEN\",\"value\":\"t0ken\"}"));
    CHECK_STR(at(&m, c, "securityContext"), "{\"capabilities\":{\"add\":[\"NET_ADMIN\"]}}");
    CHECK_STR(at(&m, c, "ports"), "[{\"name\":\"egress-api\",\"containerPort\":18080}]");
    CHECK_STR(at(&m, c, "readinessProbe.httpGet.httpHeaders"),
              "[{\"name\":\"OPENSANDBOX-EGRESS-AUTH\",\"value\":\"t0ken\"}]");
    CHECK_STR(at(&m, c, "readinessProbe.failureThreshold"), "30");
    CHECK_STR(at(&m,
                 json_get(kube_get(m.tree, "metadata.annotations"),
                          STR("opensandbox.io/egress-auth-token")),
                 NULL),
              "\"t0ken\"");
}

/* The value of a variable of a container, printed. */
static const char *variable(struct made *m, const struct json *container, const char *name)
{
    const struct json *v = named(json_get(container, STR("env")), name);

    return v ? at(m, v, "value") : "absent";
}

static const char operator_config[] = "[runtime]\n"
                                      "type = \"kubernetes\"\n"
                                      "execd_image = \"execd:1\"\n"
                                      "[egress]\n"
                                      "image = \"egress:1\"\n"
                                      "mode = \"dns+nft\"\n"
                                      "always_deny = [\"evil.test\", \"203.0.113.0/24\"]\n"
                                      "always_allow = [\"pypi.org\"]\n"
                                      "upstreams = [\"10.0.0.2\", \"10.0.0.3:53\"]\n"
                                      "doh_blocklist = [\"9.9.9.9\"]\n"
                                      "deny_webhook = \"http://hook.test/\"\n"
                                      "max_rules = 7\n"
                                      "vault_cleartext = true\n"
                                      "disable_ipv6 = false\n";

TEST(k8s_manifest, hands_the_sidecar_what_the_operator_says)
{
    static const char *const rows[][2] = {
        {"OPENSANDBOX_EGRESS_MODE",                         "\"dns+nft\""             },
        {"OPENSANDBOX_EGRESS_SANDBOX_ID",                   "\"" ID "\""              },
        {"OPENSANDBOX_EGRESS_MAX_RULES",                    "\"7\""                   },
        {"OPENSANDBOX_EGRESS_DNS_UPSTREAM_TIMEOUT",         "\"5\""                   },
        {"OPENSANDBOX_EGRESS_DNS_UPSTREAM",                 "\"10.0.0.2,10.0.0.3:53\""},
        {"OPENSANDBOX_EGRESS_DOH_BLOCKLIST",                "\"9.9.9.9\""             },
        {"OPENSANDBOX_EGRESS_BLOCK_DOH_443",                "\"true\""                },
        {"OPENSANDBOX_EGRESS_DENY_WEBHOOK",                 "\"http://hook.test/\""   },
        {"OPENSANDBOX_EGRESS_CREDENTIAL_VAULT_REQUIRE_TLS", "\"false\""               },
    };
    auto_made m;
    const struct json *c;

    make_with(&m, operator_config,
              REQUEST ",\"networkPolicy\":{},\"credentialProxy\":{\"enabled\":true}}", NULL);
    c = named(CONTAINERS, "egress");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_STR(variable(&m, c, rows[i][0]), rows[i][1]);
}

TEST(k8s_manifest, starts_the_sidecar_first_if_told_to)
{
    char config[sizeof(operator_config) + 32];
    auto_made m;
    const struct json *c;

    (void)snprintf(config, sizeof(config), "%sstart_first = true\n", operator_config);
    make_with(&m, config, REQUEST ",\"networkPolicy\":{}}", NULL);
    CHECK(!named(CONTAINERS, "egress"));
    c = json_first(kube_get(m.tree, POD ".initContainers"));
    CHECK_STR(at(&m, c, "name"), "\"execd-installer\""); /* it writes the lists */
    c = named(kube_get(m.tree, POD ".initContainers"), "egress");
    CHECK_STR(at(&m, c, "restartPolicy"), "\"Always\"");
    CHECK_STR(at(&m, c, "startupProbe.httpGet.path"), "\"/healthz\"");
    CHECK_STR(at(&m, c, "readinessProbe.httpGet.path"), "\"/healthz\"");
}

/* Files, in a directory of their own, written before the containers start. */
TEST(k8s_manifest, has_the_operators_lists_for_every_sandbox)
{
    auto_made m;
    const struct json *c;

    make_with(&m, operator_config, REQUEST "}", NULL);
    c = json_first(kube_get(m.tree, POD ".initContainers"));
    CHECK_STR(variable(&m, c, "ALWAYS_DENY"), "\"evil.test\\n203.0.113.0/24\"");
    CHECK_STR(variable(&m, c, "ALWAYS_ALLOW"), "\"pypi.org\"");
    CHECK(strstr(at(&m, c, "args"), "/var/egress/rules/deny.always"));
    CHECK_STR(at(&m, c, "securityContext"), "absent");
    CHECK(strstr(at(&m, c, "volumeMounts"), "/var/egress/rules"));
    CHECK(named(kube_get(m.tree, POD ".volumes"), "opensandbox-egress-rules"));
    c = named(CONTAINERS, "egress");
    CHECK_STR(at(&m, c, "volumeMounts"), "[{\"name\":\"opensandbox-egress-rules\","
                                         "\"mountPath\":\"/var/egress/rules\"}]");
    CHECK_STR(variable(&m, c, "OPENSANDBOX_EGRESS_RULES"),
              "\"{\\\"defaultAction\\\":\\\"allow\\\",\\\"egress\\\":[]}\"");
    CHECK(strstr(at(&m, named(CONTAINERS, "sandbox"), "securityContext"), "NET_RAW"));
    CHECK(!strstr(at(&m, named(CONTAINERS, "sandbox"), "volumeMounts"), "/var/egress"));
}

TEST(k8s_manifest, mounts_a_claim_once_and_directories_of_nodes)
{
    auto_made m;
    struct json *claim = NULL;
    AUTO_BUF(text, K8S_MANIFEST_MAX);
    struct err e = {0};

    make(&m,
         REQUEST
         ",\"volumes\":[{\"name\":\"a\",\"mountPath\":\"/a\",\"subPath\":\"x\",\"pvc\":{"
         "\"claimName\":\"c1\",\"storageClass\":\"fast\",\"storage\":\"5Gi\",\"accessModes\":["
         "\"ReadWriteMany\"]}},{\"name\":\"b\",\"mountPath\":\"/b\",\"readOnly\":true,\"pvc\":{"
         "\"claimName\":\"c1\"}},{\"name\":\"h\",\"mountPath\":\"/h\",\"host\":{\"path\":"
         "\"/data/h\"}}]}",
         NULL);
    CHECK_STR(
        at(&m, m.tree, POD ".volumes"),
        "[{\"name\":\"opensandbox-bin\",\"emptyDir\":{}},"
        "{\"name\":\"a\",\"persistentVolumeClaim\":{\"claimName\":\"c1\"}},"
        "{\"name\":\"h\",\"hostPath\":{\"path\":\"/data/h\",\"type\":\"DirectoryOrCreate\"}}]");
    CHECK_STR(at(&m, named(CONTAINERS, "sandbox"), "volumeMounts"),
              "[{\"name\":\"opensandbox-bin\",\"mountPath\":\"/opt/opensandbox\"},"
              "{\"name\":\"a\",\"mountPath\":\"/a\",\"readOnly\":false,\"subPath\":\"x\"},"
              "{\"name\":\"a\",\"mountPath\":\"/b\",\"readOnly\":true},"
              "{\"name\":\"h\",\"mountPath\":\"/h\",\"readOnly\":false}]");
    CHECK_EQ(k8s_claim_write(&m.plan, &m.spec.volumes[0], &text, &e), 0);
    CHECK_EQ(json_parse(&m.arena, buf_str(&text), NULL, &claim, &e), 0);
    CHECK_STR(at(&m, claim, "spec"),
              "{\"accessModes\":[\"ReadWriteMany\"],\"resources\":{\"requests\":{\"storage\":"
              "\"5Gi\"}},\"storageClassName\":\"fast\"}");
    buf_clear(&text);
    CHECK_EQ(k8s_claim_write(&m.plan, &m.spec.volumes[1], &text, &e), 0);
    CHECK(strstr(text.p, "\"accessModes\":[\"ReadWriteOnce\"]") && strstr(text.p, "\"1Gi\""));
}

TEST(k8s_manifest, asks_a_pool_for_a_sandbox)
{
    auto_made m, idle;

    make(&m,
         "{\"entrypoint\":[\"echo\",\"it's\"],\"env\":{\"A\":\"1\"},"
         "\"extensions\":{\"poolRef\":\"warm\"}}",
         "spec: {template: {spec: {restartPolicy: Never}}}");
    CHECK_STR(at(&m, m.tree, "spec.poolRef"), "\"warm\"");
    CHECK_STR(at(&m, m.tree, "spec.template"), "absent");
    CHECK_STR(at(&m, m.tree, "spec.taskTemplate.spec.process.command"),
              "[\"/bin/sh\",\"-c\",\"/opt/opensandbox/bootstrap.sh echo 'it'\\\\''s' \\u0026\"]");
    CHECK_STR(at(&m, m.tree, "spec.taskTemplate.spec.process.env"),
              "[{\"name\":\"A\",\"value\":\"1\"}]");
    make(&idle,
         "{\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\"],"
         "\"extensions\":{\"poolRef\":\"warm\"}}",
         NULL);
    CHECK_STR(at(&idle, idle.tree, "spec.taskTemplate"), "absent");
}

TEST(k8s_manifest, is_laid_over_the_template)
{
    auto_made m;
    const struct json *c;

    make(&m, REQUEST "}",
         "metadata: {labels: {cost: centre}}\n"
         "spec:\n"
         "  expireTime: '2020-01-01T00:00:00Z'\n"
         "  replicas: 7\n"
         "  template:\n"
         "    spec:\n"
         "      restartPolicy: Never\n"
         "      automountServiceAccountToken: true\n"
         "      tolerations: [{operator: Exists}]\n"
         "      volumes: [{name: cache, emptyDir: {}}, {name: opensandbox-bin, hostPath: {path: "
         "/x}}]\n"
         "      containers:\n"
         "      - name: main\n"
         "        image: other\n"
         "        securityContext: {runAsUser: 1000}\n"
         "        env: [{name: A, value: template}, {name: B, value: '2'}]\n"
         "        volumeMounts: [{name: cache, mountPath: /cache}]\n"
         "      - name: logger\n"
         "        image: logger:1\n");
    CHECK_STR(at(&m, kube_get(m.tree, "metadata.labels.cost"), NULL), "\"centre\"");
    CHECK_STR(at(&m, m.tree, "spec.replicas"), "1");
    CHECK_STR(at(&m, m.tree, "spec.expireTime"), "\"2026-01-02T03:04:05.000000+00:00\"");
    CHECK_STR(at(&m, m.tree, POD ".restartPolicy"), "\"Never\"");
    CHECK_STR(at(&m, m.tree, POD ".automountServiceAccountToken"), "true");
    CHECK_STR(at(&m, m.tree, POD ".tolerations"), "[{\"operator\":\"Exists\"}]");
    CHECK_EQ(json_count(kube_get(m.tree, POD ".volumes")), 2);
    CHECK_EQ(json_count(CONTAINERS), 2);
    c = named(CONTAINERS, "sandbox");
    CHECK_STR(at(&m, c, "image"), "\"python:3.12\"");
    CHECK_STR(at(&m, c, "securityContext"), "{\"runAsUser\":1000}");
    CHECK_STR(at(&m, c, "env"), "[{\"name\":\"A\",\"value\":\"1\"},"
                                "{\"name\":\"EXECD\",\"value\":\"/opt/opensandbox/execd\"},"
                                "{\"name\":\"B\",\"value\":\"2\"}]");
    CHECK_EQ(json_count(json_get(c, STR("volumeMounts"))), 2);
    CHECK_STR(at(&m, named(CONTAINERS, "logger"), "image"), "\"logger:1\"");
}

TEST(k8s_manifest, drops_the_expiry_of_a_template_from_what_never_expires)
{
    auto_made m;

    make(&m, "{\"image\":{\"uri\":\"a\"},\"entrypoint\":[\"sh\"],\"resourceLimits\":{}}",
         "spec: {expireTime: '2020-01-01T00:00:00Z'}");
    CHECK_STR(at(&m, m.tree, "spec.expireTime"), "absent");
}

TEST(k8s_manifest, is_of_agent_sandbox_in_two_versions)
{
    auto_made m;
    struct json *tree = NULL;
    struct err e = {0};

    read_request(&m, plain_config, REQUEST "}", NULL);
    CHECK_EQ(k8s_agent_write(&m.plan, "v1alpha1", &m.text, &e), 0);
    CHECK_EQ(json_parse(&m.arena, buf_str(&m.text), NULL, &tree, &e), 0);
    CHECK_STR(at(&m, tree, "apiVersion"), "\"agents.x-k8s.io/v1alpha1\"");
    CHECK_STR(at(&m, tree, "kind"), "\"Sandbox\"");
    CHECK_STR(at(&m, tree, "metadata.name"), "\"sandbox-" ID "\"");
    CHECK_STR(at(&m, tree, "spec.replicas"), "1");
    CHECK_STR(at(&m, tree, "spec.shutdownPolicy"), "\"Delete\"");
    CHECK_STR(at(&m, tree, "spec.shutdownTime"), "\"2026-01-02T03:04:05.000000+00:00\"");
    CHECK_STR(at(&m, tree, "spec.podTemplate.spec.serviceAccountName"), "\"runner\"");
    CHECK_STR(
        at(&m, json_first(kube_get(tree, "spec.podTemplate.spec.containers")), "imagePullPolicy"),
        "absent");
    buf_clear(&m.text);
    CHECK_EQ(k8s_agent_write(&m.plan, "v1beta1", &m.text, &e), 0);
    CHECK_EQ(json_parse(&m.arena, buf_str(&m.text), NULL, &tree, &e), 0);
    CHECK_STR(at(&m, tree, "spec.replicas"), "absent");
    CHECK_STR(at(&m, tree, "spec.operatingMode"), "\"Running\"");
}

/* --- refusals --- */

static const char *refusal(struct made *m, const char *body, const char *template, bool agent)
{
    struct api_fail f = {0};

    read_request(m, plain_config, body, template);
    if (k8s_plan_check(&m->plan, agent, &f) >= 0)
        return "none";
    return arena_printf(&m->arena, "%d %s", f.status, f.code);
}

#define INVALID "400 SANDBOX::INVALID_PARAMETER"

TEST(k8s_plan, refuses_what_a_cluster_cannot_do)
{
    static const struct {
        const char *body, *template;
        bool agent;
        const char *want;
    } rows[] = {
        {REQUEST "}",                                                                                   NULL, false, "none"                             },
        {REQUEST ",\"secureAccess\":true}",                                                             NULL, false, INVALID                            },
        {REQUEST ",\"platform\":{\"os\":\"windows\",\"arch\":\"amd64\"}}",                              NULL, false, INVALID                            },
        {REQUEST ",\"platform\":{\"os\":\"linux\",\"arch\":\"arm64\"}}",
         "spec: {template: {spec: {nodeSelector: {kubernetes.io/arch: amd64}}}}",                             false, INVALID                            },
        {REQUEST ",\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"}}",
         "spec: {template: {spec: {nodeSelector: {kubernetes.io/arch: amd64}}}}",                             false, "none"                             },
        {REQUEST
         ",\"volumes\":[{\"name\":\"h\",\"mountPath\":\"/h\",\"host\":{\"path\":\"/etc\"}}]}", NULL, false, "400 VOLUME::HOST_PATH_NOT_ALLOWED"},
        {REQUEST
         ",\"volumes\":[{\"name\":\"opensandbox-bin\",\"mountPath\":\"/h\",\"host\":{\"path\":"
         "\"/data\"}}]}",                                                                      NULL, false, INVALID                            },
        {"{\"extensions\":{\"poolRef\":\"p\"},\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"}}",
         NULL,                                                                                                false, INVALID                            },
        {"{\"extensions\":{\"poolRef\":\"p\"},\"networkPolicy\":{}}",                                   NULL, false, INVALID                            },
        {"{\"extensions\":{\"poolRef\":\"p\"}}",                                                        NULL, false, "none"                             },
        {"{\"extensions\":{\"poolRef\":\"p\"}}",                                                        NULL, true,  INVALID                            },
        {"{\"image\":{\"uri\":\"a\"},\"entrypoint\":[\"sh\"],\"resourceLimits\":{\"gpu\":\"all\"}}",
         NULL,                                                                                                false, INVALID                            },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_made m;
        const char *got = refusal(&m, rows[i].body, rows[i].template, rows[i].agent);

        if (strcmp(got, rows[i].want) != 0)
            test_fail(__FILE__, __LINE__, "row %zu: %s, not %s", i, got, rows[i].want);
    }
}

TEST(k8s_plan, refuses_a_pool_that_would_escape_the_operators_lists)
{
    struct api_fail f = {0};
    auto_made m;

    read_request(&m, operator_config, "{\"extensions\":{\"poolRef\":\"p\"}}", NULL);
    CHECK(k8s_plan_check(&m.plan, false, &f) < 0);
    CHECK_EQ(f.status, 400);
    CHECK(strstr(f.message, "always_deny"));
}

/* --- names --- */

TEST(k8s_names, are_labels_of_dns)
{
    static const struct {
        const char *id, *want;
    } rows[] = {
        {"abc",                                                                    "abc"         },
        {"1abc",                                                                   "sandbox-1abc"},
        {"A_B..c-",                                                                "a-b-c"       },
        {"",                                                                       "sandbox"     },
        {"--",                                                                     "sandbox"     },
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-fb0bcb2c"                       },
    };
    char out[K8S_LABEL_MAX];

    for (size_t i = 0; i + 1 < ARRAY_LEN(rows); i++) {
        k8s_label_name(str_of(rows[i].id), out);
        CHECK_STR(out, rows[i].want);
    }
    k8s_label_name(str_of(rows[ARRAY_LEN(rows) - 1].id), out);
    CHECK_EQ(strlen(out), K8S_LABEL_MAX - 1);
    CHECK_EQ(strncmp(out, rows[ARRAY_LEN(rows) - 1].want, 55), 0);
}

TEST(k8s_names, of_snapshots_come_of_their_ids)
{
    char out[K8S_LABEL_MAX];

    k8s_snapshot_name(STR(ID), out);
    CHECK_STR(out, "osb-snap-11111111222243338444555555555555");
    k8s_snapshot_name(STR("other"), out);
    CHECK_STR(out, "osb-snap-d9298a10d1b0735837dc4bd85dac641b");
}

TEST(k8s_names, of_registries_are_hosts)
{
    CHECK_SPAN(k8s_registry_of(STR("ghcr.io/a/b:1")), "ghcr.io");
    CHECK_SPAN(k8s_registry_of(STR("localhost:5000/b")), "localhost:5000");
    CHECK_SPAN(k8s_registry_of(STR("library/python")), "https://index.docker.io/v1/");
    CHECK_SPAN(k8s_registry_of(STR("python:3.12")), "https://index.docker.io/v1/");
}

/* --- states --- */

static struct kube_object *object_of(const char *text)
{
    struct kube_object *o = NULL;
    struct err e = {0};

    if (kube_object_parse(str_of(text), &o, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    return o;
}

#define BATCH(version, generation, spec, status)                                                   \
    "{\"metadata\":{\"name\":\"b\",\"namespace\":\"boxes\",\"uid\":\"u\",\"resourceVersion\":"     \
    "\"" #version "\",\"generation\":" #generation                                                 \
    ",\"creationTimestamp\":\"2026-01-02T03:04:05Z\","                                             \
    "\"labels\":{\"opensandbox.io/id\":\"b\",\"team\":\"red\"},\"annotations\":{"                  \
    "\"sandbox.opensandbox.io/endpoints\":\"[\\\"10.1.2.3\\\"]\"}},\"spec\":{" spec                \
    "},\"status\":{" status "}}"

TEST(k8s_status, reads_a_batch_sandbox)
{
    static const struct {
        const char *text;
        enum runtime_state state;
        const char *reason;
    } rows[] = {
        {BATCH(1,        1, "",                "\"phase\":\"Pending\""),                               RUNTIME_PENDING,   "CREATING"         },
        {BATCH(1,        1, "",                "\"phase\":\"Succeed\""),                               RUNTIME_RUNNING,   "RUNNING"          },
        {BATCH(1,        1, "",                "\"phase\":\"Running\""),                               RUNTIME_RUNNING,   "RUNNING"          },
        {BATCH(1,        1, "",                "\"phase\":\"Pausing\""),                               RUNTIME_PAUSING,   "PAUSING"          },
        {BATCH(1,        1, "",                "\"phase\":\"Paused\""),                                RUNTIME_PAUSED,    "PAUSED"           },
        {BATCH(1,        1, "",                "\"phase\":\"Resuming\""),                              RUNTIME_RESUMING,  "RESUMING"         },
        {BATCH(1,        1, "",                "\"phase\":\"Failed\""),                                RUNTIME_FAILED,    "FAILED"           },
        {BATCH(1,        1, "",                "\"ready\":1"),                                         RUNTIME_RUNNING,   "POD_READY_WITH_IP"},
        {BATCH(1,        1, "",                "\"ready\":0"),                                         RUNTIME_ALLOCATED, "IP_ASSIGNED"      },
 /* an intent that the operator has not seen yet, and one that it has */
        {BATCH(1,        3, "\"pause\":true",  "\"phase\":\"Succeed\",\"pauseObservedGeneration\":2"),
         RUNTIME_PAUSING,                                                                                                 "PAUSING"          },
        {BATCH(1,        3, "\"pause\":true",  "\"phase\":\"Succeed\",\"pauseObservedGeneration\":3"),
         RUNTIME_RUNNING,                                                                                                 "RUNNING"          },
        {BATCH(1,        3, "\"pause\":false", "\"phase\":\"Paused\",\"pauseObservedGeneration\":2"),
         RUNTIME_RESUMING,                                                                                                "RESUMING"         },
        {BATCH(
             1, 3, "\"pause\":true",
         "\"phase\":\"Succeed\",\"conditions\":[{\"type\":\"PauseFailed\",\"status\":\"True\","
             "\"message\":\"no registry\"}]"),
         RUNTIME_RUNNING,                                                                                                 "RUNNING"          },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_object *o = object_of(rows[i].text);
        struct k8s_facts f;

        k8s_facts_of_batch(o, &f);
        if (f.state != rows[i].state || strcmp(f.reason, rows[i].reason) != 0)
            test_fail(__FILE__, __LINE__, "row %zu: %d %s", i, f.state, f.reason);
        CHECK_STR(f.address, "10.1.2.3");
        CHECK_STR(f.pod, "b-0");
        CHECK_EQ(f.created_us, INT64_C(1767323045000000));
    }
}

TEST(k8s_status, tells_why_a_batch_sandbox_failed)
{
    auto_object *o = object_of(
        BATCH(1, 1, "\"expireTime\":\"2026-01-02T04:04:05.5+01:00\",\"poolRef\":\"p\"",
              "\"phase\":\"Failed\",\"conditions\":[{\"type\":\"PauseFailed\",\"status\":\"True\","
              "\"message\":\"later\"},{\"type\":\"PodFailed\",\"status\":\"True\",\"message\":"
              "\"1/1 ImagePullBackOff\"}]"));
    struct k8s_facts f;

    k8s_facts_of_batch(o, &f);
    CHECK_STR(f.message, "1/1 ImagePullBackOff");
    CHECK_EQ(f.expires_us, INT64_C(1767323045500000));
    CHECK(f.pause_failed && !f.resume_failed);
    CHECK_STR(f.pod, "");
}

TEST(k8s_status, bears_annotations_that_make_no_sense)
{
    static const char *const notes[] = {
        "not json", "{}",         "[1]",
        "[]",       "[\\\"\\\"]", "[\\\"an address that is far too long for any address\\\"]"};

    for (size_t i = 0; i < ARRAY_LEN(notes); i++) {
        char text[512];
        struct k8s_facts f;

        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"name\":\"b\",\"annotations\":{"
                       "\"sandbox.opensandbox.io/endpoints\":\"%s\"}},\"spec\":7,\"status\":[]}",
                       notes[i]);
        auto_object *o = object_of(text);

        k8s_facts_of_batch(o, &f);
        CHECK_STR(f.address, "");
        CHECK_STR(f.reason, "BATCHSANDBOX_PENDING");
    }
}

#define AGENT(status)                                                                              \
    "{\"metadata\":{\"name\":\"a\",\"labels\":{\"opensandbox.io/id\":\"a\"}},\"spec\":{"           \
    "\"shutdownTime\":\"2026-01-02T03:04:05Z\"},\"status\":" status "}"
#define POD_OF(spec, status)                                                                       \
    "{\"metadata\":{\"name\":\"p\",\"uid\":\"pu\",\"resourceVersion\":\"5\",\"labels\":{"          \
    "\"opensandbox.io/id\":\"a\"}},\"spec\":{" spec "},\"status\":{" status "}}"

TEST(k8s_status, reads_a_sandbox_of_agent_sandbox_and_its_pod)
{
    static const struct {
        const char *text, *pod;
        enum runtime_state state;
        const char *reason, *address;
    } rows[] = {
        /* clang-format off */
        {AGENT("{}"), NULL, RUNTIME_PENDING, "SANDBOX_PENDING", ""},
        {AGENT("{}"), POD_OF("", ""), RUNTIME_PENDING, "POD_PENDING", ""},
        {AGENT("{}"), POD_OF("\"nodeName\":\"n\"", ""), RUNTIME_PENDING, "POD_SCHEDULED", ""},
        {AGENT("{}"), POD_OF("", "\"podIP\":\"10.0.0.1\""), RUNTIME_ALLOCATED, "IP_ASSIGNED",
         "10.0.0.1"},
        {AGENT("{}"), POD_OF("", "\"phase\":\"Running\",\"podIP\":\"10.0.0.1\""), RUNTIME_RUNNING,
         "POD_READY", "10.0.0.1"},
        {AGENT("{\"podIPs\":[\"10.0.0.7\"],\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]"
               "}"),
         NULL, RUNTIME_RUNNING, "RUNNING", "10.0.0.7"},
        {AGENT("{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\",\"reason\":"
               "\"SandboxExpired\"}]}"),
         NULL, RUNTIME_EXITED, "SANDBOX_EXPIRED", ""},
        {AGENT("{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]}"),
         POD_OF("\"nodeSelector\":{\"kubernetes.io/arch\":\"arm64\"}",
                "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
                "\"Unschedulable\",\"message\":\"0/1 nodes\"}]"),
         RUNTIME_FAILED, "POD_PLATFORM_UNSCHEDULABLE", ""},
    }; /* clang-format on */

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_object *o = object_of(rows[i].text), *pod = NULL;
        struct k8s_facts f;

        pod = rows[i].pod ? object_of(rows[i].pod) : NULL;
        k8s_facts_of_agent(o, pod, &f);
        if (f.state != rows[i].state || strcmp(f.reason, rows[i].reason) != 0)
            test_fail(__FILE__, __LINE__, "row %zu: %d %s", i, f.state, f.reason);
        CHECK_STR(f.address, rows[i].address);
        CHECK_EQ(f.expires_us, INT64_C(1767323045000000));
    }
}

TEST(k8s_status, describes_what_another_server_made)
{
    auto_made m;
    auto_object *o = NULL;
    struct runtime_description d;
    struct err e = {0};

    make(&m, REQUEST ",\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"}}", NULL);
    CHECK_EQ(kube_object_parse(buf_str(&m.text), &o, &e), 0);
    CHECK_EQ(k8s_describe(o, false, &m.arena, &d, &e), 0);
    CHECK_SPAN(d.image, "python:3.12");
    CHECK_SPAN(d.os, "linux");
    CHECK_SPAN(d.arch, "amd64");
    CHECK_SPAN(d.metadata, "{\"team\":\"red\"}");
    CHECK_SPAN(d.entrypoint,
               "[\"/opt/opensandbox/bootstrap.sh\",\"python\",\"-m\",\"http.server\"]");
    CHECK_SPAN(d.token, "t0ken");
    CHECK_SPAN(d.owner, "key:1");
    CHECK_EQ(d.renew_extend_s, 300);
    CHECK_EQ(d.expires_us, INT64_C(1767323045000000));
    CHECK(!d.secure);
}

TEST(k8s_status, takes_no_owner_or_token_that_no_server_gave)
{
    AUTO_ARENA(arena, 1 << 20);
    struct runtime_description d;
    auto_object *o = object_of("{\"metadata\":{\"name\":\"b\",\"annotations\":{"
                               "\"opensandbox.io/created-by\":\"pool\"}}}");
    auto_object *other = object_of("{\"metadata\":{\"name\":\"b\",\"annotations\":{"
                                   "\"opensandbox.io/proxy-token\":"
                                   "\"0123456789012345678901234567890123456789\"}}}");

    CHECK_EQ(k8s_describe(o, false, &arena, &d, NULL), 0);
    CHECK_SPAN(d.owner, "");
    CHECK_EQ(k8s_describe(other, false, &arena, &d, NULL), -EINVAL);
}

TEST(k8s_status, tells_what_troubles_a_pod)
{
    auto_object *pod =
        object_of(POD_OF("", "\"initContainerStatuses\":[{\"name\":\"execd-installer\",\"state\":{"
                             "\"terminated\":{\"exitCode\":1,\"reason\":\"Error\"}}}]"));
    bool unschedulable;
    char why[128];

    k8s_pod_trouble(pod, why, sizeof(why), &unschedulable);
    CHECK(!unschedulable);
    CHECK_STR(why, "container execd-installer ended with status 1 (Error)");
}

TEST(k8s_snapshots, have_the_image_of_the_sandbox)
{
    AUTO_ARENA(arena, 1 << 20);
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"{\"status\":{\"containers\":[{\"containerName\":\"x\",\"imageUri\":\"i\"}]}}", "i"},
        {"{\"status\":{\"containers\":[{\"containerName\":\"x\",\"imageUri\":\"i\"},"
         "{\"containerName\":\"sandbox\",\"imageUri\":\"j\"}]}}",
         "j"},
        {"{\"status\":{\"containers\":[{\"containerName\":\"x\",\"imageUri\":\"i\"},"
         "{\"containerName\":\"y\",\"imageUri\":\"j\"}]}}",
         ""},
        {"{}", ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json *tree = NULL;
        struct str image;

        CHECK_EQ(json_parse(&arena, str_of(rows[i].text), NULL, &tree, NULL), 0);
        CHECK_EQ(k8s_snapshot_image_of(tree, &image, NULL), rows[i].want[0] ? 0 : -EINVAL);
        if (rows[i].want[0])
            CHECK(str_eq(image, str_of(rows[i].want)));
    }
}

/* --- the table --- */

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

struct ends {
    int count, result;
};

static void on_end(void *user, struct k8s_wait *wait, int r, const struct err *e)
{
    struct ends *ends = user;

    (void)wait;
    (void)e;
    ends->count++;
    ends->result = r;
}

TEST(k8s_table, keeps_the_newest_and_wakes_who_watches)
{
    auto_object *one = object_of(BATCH(7, 1, "", "\"phase\":\"Pending\""));
    auto_object *two = object_of(BATCH(9, 1, "", "\"phase\":\"Succeed\""));
    struct k8s_table t = {0};
    struct k8s_facts f;
    auto_fd watch = -EBADF, other = -EBADF;
    char *metadata = NULL;

    k8s_table_init(&t);
    CHECK(k8s_table_apply(&t, one));
    CHECK_EQ(k8s_table_watch(&t, STR("b"), &f, &metadata, &watch), 0);
    CHECK_STR(metadata, "{\"team\":\"red\"}");
    free(metadata);
    CHECK_EQ(f.state, RUNTIME_PENDING);
    CHECK(!is_readable(watch));
    CHECK(!k8s_table_apply(&t, two));
    CHECK(is_readable(watch));
    CHECK(!k8s_table_apply(&t, one)); /* late */
    CHECK_EQ(k8s_table_get(&t, STR("b"), &f), 0);
    CHECK_EQ(f.state, RUNTIME_RUNNING);
    CHECK_EQ(k8s_table_watch(&t, STR("b"), &f, &metadata, &other), 0);
    free(metadata);
    CHECK(!is_readable(other));
    k8s_table_drop(&t, two);
    CHECK(is_readable(other));
    CHECK_EQ(k8s_table_get(&t, STR("b"), &f), -ENOENT);
    k8s_table_done(&t);
}

TEST(k8s_table, does_not_bring_back_what_was_deleted_here)
{
    auto_object *one = object_of(BATCH(7, 1, "", "\"phase\":\"Pending\""));
    auto_object *two = object_of(BATCH(9, 1, "", "\"phase\":\"Succeed\""));
    struct k8s_table t = {0};
    struct k8s_facts f;

    k8s_table_init(&t);
    k8s_table_expect(&t, STR("b"));
    CHECK_EQ(k8s_table_get(&t, STR("b"), &f), -ENOENT);
    CHECK(!k8s_table_apply(&t, one)); /* ours: no news */
    k8s_table_forget(&t, STR("b"));
    CHECK(!k8s_table_apply(&t, two));
    CHECK_EQ(k8s_table_get(&t, STR("b"), &f), -ENOENT);
    k8s_table_drop(&t, two);
    CHECK(k8s_table_apply(&t, two)); /* another of that id */
    k8s_table_done(&t);
}

TEST(k8s_table, ends_waits_when_the_sandbox_runs_fails_or_goes)
{
    static const struct {
        const char *status;
        int result;
    } rows[] = {
        {BATCH(9, 1, "", "\"phase\":\"Succeed\""), 1},
        {BATCH(9, 1, "", "\"phase\":\"Failed\""), -EIO},
        {NULL, -ENOENT},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_object *one = object_of(BATCH(7, 1, "", "\"phase\":\"Pending\""));
        auto_object *two = rows[i].status ? object_of(rows[i].status) : NULL;
        struct k8s_wait wait = {.id = "b", .deadline_ns = DEADLINE_NEVER};
        struct ends ends = {0};
        struct k8s_table t = {.on_end = on_end, .user = &ends};

        k8s_table_init(&t);
        (void)k8s_table_apply(&t, one);
        list_init(&wait.link);
        k8s_table_wait(&t, &wait);
        CHECK_EQ(ends.count, 0);
        CHECK(k8s_table_waits(&t) && !k8s_table_wait_late(&t));
        if (two)
            (void)k8s_table_apply(&t, two);
        else
            k8s_table_drop(&t, one);
        CHECK_EQ(ends.count, 1);
        CHECK_EQ(ends.result, rows[i].result);
        CHECK(!k8s_table_waits(&t));
        k8s_table_done(&t);
    }
}

TEST(k8s_table, gives_an_address_a_little_time_to_become_a_running_sandbox)
{
    auto_object *one = object_of(BATCH(7, 1, "", "\"ready\":0"));
    struct k8s_wait wait = {.id = "b", .deadline_ns = DEADLINE_NEVER};
    struct ends ends = {0};
    struct k8s_table t = {.on_end = on_end, .user = &ends};

    k8s_table_init(&t);
    list_init(&wait.link);
    k8s_table_wait(&t, &wait);
    (void)k8s_table_apply(&t, one);
    CHECK(wait.allocated && wait.deadline_ns != DEADLINE_NEVER);
    CHECK_EQ(ends.count, 0);
    CHECK(k8s_table_wait_end(&t, &wait));
    CHECK(!k8s_table_wait_end(&t, &wait));
    k8s_table_done(&t);
}

TEST(k8s_table, gives_out_waits_that_are_late)
{
    struct k8s_wait wait = {.id = "b", .deadline_ns = 1}, other = {.id = "c"};
    struct k8s_table t = {0};

    k8s_table_init(&t);
    other.deadline_ns = DEADLINE_NEVER;
    list_init(&wait.link);
    list_init(&other.link);
    k8s_table_wait(&t, &wait);
    k8s_table_wait(&t, &other);
    CHECK(k8s_table_wait_late(&t) == &wait);
    CHECK(!k8s_table_wait_late(&t));
    atomic_store(&other.cancelled, true);
    CHECK(k8s_table_wait_late(&t) == &other);
    k8s_table_done(&t);
}
