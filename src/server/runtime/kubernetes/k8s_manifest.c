#include "server/runtime/kubernetes/k8s_manifest.h"

#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/runtime/kubernetes/k8s_merge.h"
#include "server/runtime/runtime.h"

enum { RENEW_TEXT_MAX = 16 };

/* --- checks --- */

static bool is_internal_volume(struct str name)
{
    return str_eq(name, STR(K8S_BIN_VOLUME)) || str_eq(name, STR(K8S_RULES_VOLUME));
}

static bool is_allowed_path(const struct config *c, struct str path)
{
    for (size_t i = 0; i < c->storage.allowed_host_paths.count; i++) {
        struct str allowed = str_of(c->storage.allowed_host_paths.at[i]);

        while (allowed.n > 1 && str_ends(allowed, STR("/")))
            allowed.n--;
        if (str_eq(path, allowed) || str_eq(allowed, STR("/")) ||
            (str_starts(path, allowed) && path.p[allowed.n] == '/'))
            return true;
    }
    return false;
}

static int check_volumes(const struct k8s_plan *p, struct api_fail *f)
{
    const struct api_create *spec = p->spec;

    for (size_t i = 0; i < spec->volumes_count; i++) {
        const struct api_volume *v = &spec->volumes[i];

        if (is_internal_volume(v->name))
            return api_fail_invalid(f, "volumes[%zu].name: '%s' is a volume of the server's own", i,
                                    api_show(v->name).text);
        if (v->kind == API_VOLUME_HOST && !is_allowed_path(p->config, v->host_path))
            return api_fail_set(f, 400, "VOLUME::HOST_PATH_NOT_ALLOWED",
                                "volumes[%zu].host.path: '%s' is not below a directory of "
                                "storage.allowed_host_paths",
                                i, api_show(v->host_path).text);
    }
    return 0;
}

/* A platform that the template's own choice of nodes excludes could never be scheduled. */
static int check_platform(const struct k8s_plan *p, bool agent, struct api_fail *f)
{
    const struct json *spec = json_get(p->template, STR("spec"));
    const struct json *pod = json_get(spec, agent ? STR("podTemplate") : STR("template"));
    const struct json *chosen = json_get(json_get(pod, STR("spec")), STR("nodeSelector"));
    const struct {
        struct str key, wanted;
    } rows[] = {
        {STR("kubernetes.io/os"),   p->spec->os  },
        {STR("kubernetes.io/arch"), p->spec->arch},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str has;

        if (rows[i].wanted.n && json_to_str(json_get(chosen, rows[i].key), &has) == 0 &&
            !str_eq(has, rows[i].wanted))
            return api_fail_invalid(f,
                                    "platform: the template of this server's sandboxes has %s = "
                                    "'%s' among its nodeSelector, so '%s' cannot be had",
                                    rows[i].key.p, api_show(has).text,
                                    api_show(rows[i].wanted).text);
    }
    return 0;
}

static int check_pool(const struct api_create *spec, struct api_fail *f)
{
    const struct {
        bool asked;
        const char *name;
    } rows[] = {
        {spec->os.n || spec->arch.n, "platform"     },
        {spec->volumes_count > 0,    "volumes"      },
        {spec->network_policy,       "networkPolicy"},
        {spec->auth_user.n > 0,      "image.auth"   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].asked)
            return api_fail_invalid(f,
                                    "%s: a sandbox of a pool (extensions.poolRef) is as the pool's "
                                    "template says; leave one of them out",
                                    rows[i].name);
    return 0;
}

int k8s_plan_check(const struct k8s_plan *p, bool agent, struct api_fail *f)
{
    const struct api_create *spec = p->spec;
    int r = 0;

    if (agent && spec->pool_ref.n)
        return api_fail_invalid(f, "extensions.poolRef: the provider agent-sandbox has no pools");
    if (spec->pool_ref.n &&
        (p->config->egress.always_deny.count || p->config->egress.always_allow.count))
        return api_fail_invalid(f, "extensions.poolRef: this server's egress.always_deny and "
                                   "always_allow hold for every sandbox, and pods of a pool have "
                                   "no sidecar that keeps them; leave it out");
    if (spec->pool_ref.n)
        r = check_pool(spec, f);
    else if (str_eq(spec->os, STR("windows")))
        return api_fail_invalid(f, "platform.os: this build makes sandboxes of linux only");
    else if (agent && spec->auth_user.n)
        return api_fail_invalid(f, "image.auth: the provider agent-sandbox cannot use it; have the "
                                   "administrator's template name imagePullSecrets");
    else if (spec->secrets.count)
        return api_fail_invalid(f, "secretEnv: the kubernetes runtime keeps no secrets; use env");
    else if (spec->limits.gpus < 0)
        return api_fail_invalid(f, "resourceLimits.gpu: a number is needed on Kubernetes, not all");
    else if (spec->network_policy && !p->config->egress.image[0])
        return api_fail_invalid(f, "networkPolicy: this server needs egress.image in its "
                                   "configuration for that");
    if (r == 0 && spec->secure_access && p->config->ingress.mode != CONFIG_INGRESS_GATEWAY)
        return api_fail_invalid(f, "secureAccess: needs ingress.mode = \"gateway\"");
    if (r == 0)
        r = check_platform(p, agent, f);
    return r < 0 ? r : check_volumes(p, f);
}

/* --- metadata --- */

/* As other builds write it: microseconds and an offset. */
void k8s_time_write(struct json_writer *w, struct str key, int64_t us)
{
    char text[TIME_TEXT_MAX], full[TIME_TEXT_MAX + sizeof(".000000+00:00")];
    size_t n = time_format(us, text);

    text[n - 1] = '\0'; /* Z */
    (void)snprintf(full, sizeof(full), "%s%s+00:00", text, strchr(text, '.') ? "" : ".000000");
    json_member_string(w, key, str_of(full));
}

static void write_labels(struct json_writer *w, const struct k8s_plan *p)
{
    const struct api_create *spec = p->spec;

    json_write_key(w, STR("labels"));
    json_write_object(w);
    for (size_t i = 0; i < spec->metadata_count; i++)
        if (!str_starts(spec->metadata[i].key, STR(K8S_PREFIX)))
            json_member_string(w, spec->metadata[i].key, spec->metadata[i].value);
    json_member_string(w, STR(K8S_LABEL_ID), p->id);
    if (!p->expires_us)
        json_member_string(w, STR(K8S_LABEL_MANUAL), STR("true"));
    if (spec->snapshot_id.n)
        json_member_string(w, STR(K8S_LABEL_SNAPSHOT), spec->snapshot_id);
    json_write_object_end(w);
}

static void write_extension(struct json_writer *w, const struct json_pair *pair)
{
    AUTO_BUF(name, K8S_MANIFEST_MAX);
    const struct str prefix = STR(K8S_EXTENSION_PREFIX);

    if (!str_starts(pair->key, prefix) || pair->key.n == prefix.n)
        return;
    if (buf_addf(&name, K8S_NOTE_EXTENSION "%.*s", STR_ARG(str_skip(pair->key, prefix.n))) == 0)
        json_member_string(w, buf_str(&name), pair->value);
}

static void write_annotations(struct json_writer *w, const struct k8s_plan *p, bool of_pod)
{
    const struct api_create *spec = p->spec;
    char renew[RENEW_TEXT_MAX];

    json_write_key(w, STR("annotations"));
    json_write_object(w);
    if (k8s_plan_filters(p))
        json_member_string(w, STR(K8S_NOTE_EGRESS_TOKEN), p->token);
    if (spec->secure_access)
        json_member_string(w, STR(K8S_NOTE_SECURE_TOKEN), p->token);
    if (spec->renew_extend_s) {
        (void)snprintf(renew, sizeof(renew), "%u", spec->renew_extend_s);
        json_member_string(w, STR(K8S_NOTE_RENEW), str_of(renew));
    }
    for (size_t i = 0; i < spec->extensions_count; i++)
        write_extension(w, &spec->extensions[i]);
    if (!of_pod && !spec->secure_access)
        json_member_string(w, STR(K8S_NOTE_TOKEN), p->token);
    if (!of_pod && p->owner.n)
        json_member_string(w, STR(K8S_NOTE_OWNER), p->owner);
    json_write_object_end(w);
}

static void write_head(struct json_writer *w, const struct k8s_plan *p, const char *version,
                       const char *kind, struct str name)
{
    json_member_string(w, STR("apiVersion"), str_of(version));
    json_member_string(w, STR("kind"), str_of(kind));
    json_write_key(w, STR("metadata"));
    json_write_object(w);
    json_member_string(w, STR("name"), name);
    json_member_string(w, STR("namespace"), str_of(p->namespace));
    write_labels(w, p);
    write_annotations(w, p, false);
    json_write_object_end(w);
}

/* --- the sandbox --- */

/* One word of a shell's command line. */
static int quote(struct str word, struct buf *out)
{
    int r = buf_add_char(out, '\'');

    for (size_t i = 0; i < word.n && r == 0; i++)
        r = word.p[i] == '\'' ? buf_add(out, STR("'\\''")) : buf_add_char(out, word.p[i]);
    return r < 0 ? r : buf_add_char(out, '\'');
}

static bool is_plain_word(struct str word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./-_";

    for (size_t i = 0; i < word.n; i++)
        if (!word.p[i] || !strchr(plain, word.p[i]))
            return false;
    return word.n > 0;
}

static bool is_idle(const struct api_create *spec)
{
    return spec->entrypoint_count == 0 ||
           (spec->entrypoint_count == 3 && str_eq(spec->entrypoint[0], STR("tail")) &&
            str_eq(spec->entrypoint[1], STR("-f")) &&
            str_eq(spec->entrypoint[2], STR("/dev/null")));
}

/* A pool's pod runs already: the operator has its task executor start execd and the entrypoint. */
static int write_task(struct json_writer *w, const struct api_create *spec)
{
    AUTO_BUF(script, K8S_MANIFEST_MAX);
    int r = buf_add(&script, STR(K8S_BIN_DIR "/bootstrap.sh"));

    if (!spec->env_count && is_idle(spec))
        return 0;
    for (size_t i = 0; i < spec->entrypoint_count && r == 0; i++) {
        struct str word = spec->entrypoint[i];

        r = buf_add_char(&script, ' ');
        if (r == 0)
            r = is_plain_word(word) ? buf_add(&script, word) : quote(word, &script);
    }
    if (r == 0)
        r = buf_add(&script, STR(" &"));
    json_write_key(w, STR("taskTemplate"));
    json_write_object(w);
    json_write_key(w, STR("spec"));
    json_write_object(w);
    json_write_key(w, STR("process"));
    json_write_object(w);
    json_write_key(w, STR("command"));
    json_write_array(w);
    json_write_string(w, STR("/bin/sh"));
    json_write_string(w, STR("-c"));
    json_write_string(w, buf_str(&script));
    json_write_array_end(w);
    json_write_key(w, STR("env"));
    json_write_array(w);
    for (size_t i = 0; i < spec->env_count; i++) {
        json_write_object(w);
        json_member_string(w, STR("name"), spec->env[i].key);
        json_member_string(w, STR("value"), spec->env[i].value);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_object_end(w);
    json_write_object_end(w);
    json_write_object_end(w);
    return r;
}

/* Lays what was written over the template, and appends the result to `out`. */
static int lay_over(const struct k8s_plan *p, struct str text, struct buf *out, struct err *e)
{
    AUTO_ARENA(arena, 8 * K8S_MANIFEST_MAX);
    struct json_writer w;
    struct json *tree = NULL;
    int r;

    if (!p->template || p->spec->pool_ref.n)
        return buf_add(out, text) < 0 ? err_set(e, EMSGSIZE, "the sandbox is too large") : 0;
    r = json_parse(&arena, text, NULL, &tree, e);
    if (r < 0)
        return err_wrap(e, r, "the manifest of the sandbox");
    json_write_begin(&w, out);
    k8s_merge_write(&w, tree, p->template, STR(K8S_CONTAINER));
    r = json_write_end(&w);
    return r < 0 ? err_set(e, -r, "the sandbox and its template are too large") : 0;
}

static int end_manifest(const struct k8s_plan *p, struct json_writer *w, int r, struct buf *text,
                        struct buf *out, struct err *e)
{
    int written;

    json_write_object_end(w);
    written = json_write_end(w);
    if (r < 0 || written < 0)
        return err_set(e, EMSGSIZE, "the request is too large for an object of Kubernetes");
    return lay_over(p, buf_str(text), out, e);
}

int k8s_batch_write(const struct k8s_plan *p, struct buf *out, struct err *e)
{
    const struct api_create *spec = p->spec;
    AUTO_BUF(text, K8S_MANIFEST_MAX);
    struct json_writer w;
    int r = 0;

    json_write_begin(&w, &text);
    json_write_object(&w);
    write_head(&w, p, K8S_GROUP "/v1alpha1", "BatchSandbox", p->id);
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    json_member_i64(&w, STR("replicas"), 1);
    if (p->expires_us)
        k8s_time_write(&w, STR("expireTime"), p->expires_us);
    if (spec->pool_ref.n) {
        json_member_string(&w, STR("poolRef"), spec->pool_ref);
        r = write_task(&w, spec);
    } else {
        json_write_key(&w, STR("template"));
        json_write_object(&w);
        json_write_key(&w, STR("metadata"));
        json_write_object(&w);
        write_labels(&w, p);
        write_annotations(&w, p, true);
        json_write_object_end(&w);
        json_write_key(&w, STR("spec"));
        k8s_pod_write(&w, p, false);
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
    return end_manifest(p, &w, r, &text, out, e);
}

int k8s_agent_write(const struct k8s_plan *p, const char *version, struct buf *out, struct err *e)
{
    static const char *const policies[] = {"Delete", "Retain"};
    char api[64], name[K8S_LABEL_MAX];
    AUTO_BUF(text, K8S_MANIFEST_MAX);
    bool alpha = strcmp(version, "v1alpha1") == 0;
    struct json_writer w;

    (void)snprintf(api, sizeof(api), K8S_AGENT_GROUP "/%s", version);
    k8s_label_name(p->id, name);
    json_write_begin(&w, &text);
    json_write_object(&w);
    write_head(&w, p, api, "Sandbox", str_of(name));
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    if (alpha)
        json_member_i64(&w, STR("replicas"), 1);
    else
        json_member_string(&w, STR("operatingMode"), STR("Running"));
    json_member_string(&w, STR("shutdownPolicy"),
                       str_of(policies[p->config->agent_sandbox.shutdown_policy == 1]));
    if (p->expires_us)
        k8s_time_write(&w, STR("shutdownTime"), p->expires_us);
    json_write_key(&w, STR("podTemplate"));
    json_write_object(&w);
    json_write_key(&w, STR("metadata"));
    json_write_object(&w);
    write_labels(&w, p);
    json_write_object_end(&w);
    json_write_key(&w, STR("spec"));
    k8s_pod_write(&w, p, true);
    json_write_object_end(&w);
    json_write_object_end(&w);
    return end_manifest(p, &w, 0, &text, out, e);
}

/* --- what goes with it --- */

static int add_base64(struct json_writer *w, struct str key, struct str data)
{
    size_t room = BASE64_TEXT_MAX(data.n);
    char *text = mem_alloc(room);

    base64_encode(data, BASE64_STD, text);
    json_member_string(w, key, str_of(text));
    mem_wipe(text, room);
    free(text);
    return 0;
}

/* {"auths":{"registry":{"username","password","auth"}}} */
static int write_docker_config(const struct k8s_plan *p, struct buf *out)
{
    const struct api_create *spec = p->spec;
    AUTO_BUF(pair, K8S_MANIFEST_MAX);
    struct json_writer w;
    int r;

    buf_keep_secret(&pair);
    r = buf_addf(&pair, "%.*s:%.*s", STR_ARG(spec->auth_user), STR_ARG(spec->auth_password));
    json_write_begin(&w, out);
    json_write_object(&w);
    json_write_key(&w, STR("auths"));
    json_write_object(&w);
    json_write_key(&w, k8s_registry_of(spec->image));
    json_write_object(&w);
    json_member_string(&w, STR("username"), spec->auth_user);
    json_member_string(&w, STR("password"), spec->auth_password);
    if (r == 0)
        r = add_base64(&w, STR("auth"), buf_str(&pair));
    json_write_object_end(&w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w) < 0 ? -EMSGSIZE : r;
}

int k8s_secret_write(const struct k8s_plan *p, struct str owner_uid, struct buf *out, struct err *e)
{
    char name[K8S_NAME_MAX];
    AUTO_BUF(config, K8S_MANIFEST_MAX);
    struct json_writer w;
    int r;

    buf_keep_secret(&config);
    r = write_docker_config(p, &config);
    k8s_secret_name(p->id, name);
    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR("v1"));
    json_member_string(&w, STR("kind"), STR("Secret"));
    json_member_string(&w, STR("type"), STR("kubernetes.io/dockerconfigjson"));
    json_write_key(&w, STR("metadata"));
    json_write_object(&w);
    json_member_string(&w, STR("name"), str_of(name));
    json_member_string(&w, STR("namespace"), str_of(p->namespace));
    json_write_key(&w, STR("labels"));
    json_write_object(&w);
    json_member_string(&w, STR(K8S_LABEL_ID), p->id);
    json_write_object_end(&w);
    json_write_key(&w, STR("ownerReferences"));
    json_write_array(&w);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR(K8S_GROUP "/v1alpha1"));
    json_member_string(&w, STR("kind"), STR("BatchSandbox"));
    json_member_string(&w, STR("name"), p->id);
    json_member_string(&w, STR("uid"), owner_uid);
    json_member_bool(&w, STR("controller"), false);
    json_write_object_end(&w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    json_write_key(&w, STR("data"));
    json_write_object(&w);
    if (r == 0)
        r = add_base64(&w, STR(".dockerconfigjson"), buf_str(&config));
    json_write_object_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w) < 0 || r < 0 ? err_set(e, EMSGSIZE, "image.auth is too long") : 0;
}

static void write_access_modes(struct json_writer *w, struct str modes)
{
    struct str mode;

    json_write_key(w, STR("accessModes"));
    json_write_array(w);
    if (!modes.n)
        json_write_string(w, STR("ReadWriteOnce"));
    while (str_cut(&modes, '\n', &mode))
        if (mode.n)
            json_write_string(w, mode);
    json_write_array_end(w);
}

int k8s_claim_write(const struct k8s_plan *p, const struct api_volume *v, struct buf *out,
                    struct err *e)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR("v1"));
    json_member_string(&w, STR("kind"), STR("PersistentVolumeClaim"));
    json_write_key(&w, STR("metadata"));
    json_write_object(&w);
    json_member_string(&w, STR("name"), v->claim_name);
    json_member_string(&w, STR("namespace"), str_of(p->namespace));
    json_write_object_end(&w);
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    write_access_modes(&w, v->access_modes);
    json_write_key(&w, STR("resources"));
    json_write_object(&w);
    json_write_key(&w, STR("requests"));
    json_write_object(&w);
    json_member_string(&w, STR("storage"),
                       v->size_text.n ? v->size_text
                                      : str_of(p->config->storage.volume_default_size));
    json_write_object_end(&w);
    json_write_object_end(&w);
    if (v->storage_class.n)
        json_member_string(&w, STR("storageClassName"), v->storage_class);
    json_write_object_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w) < 0 ? err_set(e, EMSGSIZE, "the volume's claim is too large") : 0;
}

int k8s_snapshot_write(const char *namespace, const struct runtime_snapshot *s,
                       struct str sandbox_object, struct buf *out, struct err *e)
{
    char name[K8S_LABEL_MAX];
    struct json_writer w;

    k8s_snapshot_name(s->snapshot_id, name);
    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR(K8S_GROUP "/v1alpha1"));
    json_member_string(&w, STR("kind"), STR("SandboxSnapshot"));
    json_write_key(&w, STR("metadata"));
    json_write_object(&w);
    json_member_string(&w, STR("name"), str_of(name));
    json_member_string(&w, STR("namespace"), str_of(namespace));
    json_write_key(&w, STR("labels"));
    json_write_object(&w);
    json_member_string(&w, STR(K8S_LABEL_SNAPSHOT), s->snapshot_id);
    json_member_string(&w, STR(K8S_LABEL_SCOPE), STR("public"));
    json_member_string(&w, STR(K8S_LABEL_SOURCE), s->id);
    json_write_object_end(&w);
    json_write_key(&w, STR("annotations"));
    json_write_object(&w);
    if (s->name.n)
        json_member_string(&w, STR(K8S_NOTE_NAME), s->name);
    if (s->hidden)
        json_member_string(&w, STR(K8S_NOTE_HIDDEN), STR("true"));
    json_write_object_end(&w);
    json_write_object_end(&w);
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    json_member_string(&w, STR("sandboxName"), sandbox_object);
    json_write_object_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w) < 0 ? err_set(e, EMSGSIZE, "the snapshot's name is too long") : 0;
}
