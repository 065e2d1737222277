/* create.c - tables for the shape of the body, then one function per rule, in the contract's
 * order; at the end the writer, by the same tables. */
#include "api/create.h"

#include <errno.h>

#include "api/body.h"
#include "api/metadata.h"
#include "base/json_write.h"

enum { EXTENSIONS_MAX = 64, LIMITS_MAX = 64, TEXT_BYTES_MAX = 4096, POLICY_BYTES_MAX = 1 << 20 };

struct egress_rule {
    int action;
    struct str target;
    struct str protocol;
    const struct json *ports, *methods, *paths;
};

struct network_policy {
    int default_action; /* ACTION_NONE = the enforcer's default */
    struct egress_rule *egress;
    size_t egress_count;
};

struct lifecycle {
    const struct json *pre_start, *periodic;
};

/* Filled by the binder: mostly the result itself. */
struct create_body {
    struct api_create out;
    bool has_platform, has_policy, has_limits;
    struct str on_expiry;
    struct network_policy policy;
    struct lifecycle lifecycle;
    const struct json *env;
    struct json_pair *limits, *extensions;
    size_t limits_count, extensions_count;
    struct api_volume_body *volumes;
    size_t volumes_count;
};

/* --- the shape --- */

static const struct json_field string_element = {.as = JSON_AS_STR};

static const struct json_field auth_fields[] = {
    JSON_FIELD("username", JSON_AS_STR, JSON_REQUIRED, struct api_create, auth_user),
    JSON_FIELD("password", JSON_AS_STR, JSON_REQUIRED, struct api_create, auth_password),
};
static const struct json_table auth_table = JSON_TABLE(struct api_create, auth_fields, 0);

const struct json_name api_pull_names[] = {
    {"IfNotPresent", API_PULL_IF_NOT_PRESENT},
    {"Always",       API_PULL_ALWAYS        },
    {"Never",        API_PULL_NEVER         },
    {NULL,           0                      },
};

static const struct json_field image_fields[] = {
    JSON_FIELD("uri", JSON_AS_STR, JSON_REQUIRED, struct api_create, image, .max = TEXT_BYTES_MAX),
    {"auth", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &auth_table},
    JSON_FIELD("pullPolicy", JSON_AS_ENUM, JSON_NULLABLE, struct api_create, pull_policy,
               .names = api_pull_names),
};
static const struct json_table image_table = JSON_TABLE(struct api_create, image_fields, 0);

static const struct json_field platform_fields[] = {
    JSON_FIELD("os", JSON_AS_STR, JSON_REQUIRED, struct api_create, os),
    JSON_FIELD("arch", JSON_AS_STR, JSON_REQUIRED, struct api_create, arch),
};
static const struct json_table platform_table = JSON_TABLE(struct api_create, platform_fields, 0);

enum { ACTION_NONE, ACTION_ALLOW, ACTION_DENY };

static const struct json_name action_names[] = {
    {"allow", ACTION_ALLOW},
    {"deny",  ACTION_DENY },
    {NULL,    0           },
};

static const struct json_field egress_fields[] = {
    JSON_FIELD("action", JSON_AS_ENUM, JSON_REQUIRED | JSON_ANY_CASE, struct egress_rule, action,
               .names = action_names),
    JSON_FIELD("target", JSON_AS_STR, JSON_REQUIRED, struct egress_rule, target, .min = 1,
               .max = TEXT_BYTES_MAX),
    JSON_FIELD("protocol", JSON_AS_STR, JSON_NULLABLE, struct egress_rule, protocol, .max = 16),
    JSON_FIELD("ports", JSON_AS_RAW, JSON_NULLABLE, struct egress_rule, ports),
    JSON_FIELD("methods", JSON_AS_RAW, JSON_NULLABLE, struct egress_rule, methods),
    JSON_FIELD("paths", JSON_AS_RAW, JSON_NULLABLE, struct egress_rule, paths),
};
static const struct json_table egress_table = JSON_TABLE(struct egress_rule, egress_fields, 0);
static const struct json_field egress_element = {.as = JSON_AS_OBJECT, .table = &egress_table};

static const struct json_field policy_fields[] = {
    JSON_FIELD("defaultAction", JSON_AS_ENUM, JSON_NULLABLE | JSON_ANY_CASE, struct network_policy,
               default_action, .names = action_names),
    JSON_LIST("egress", JSON_AS_ARRAY, JSON_NULLABLE, struct network_policy, egress,
              .max = API_EGRESS_RULES_MAX, .element = &egress_element),
};
static const struct json_table policy_table =
    JSON_TABLE(struct network_policy, policy_fields, JSON_SNAKE);

static const struct json_field proxy_fields[] = {
    JSON_FIELD("enabled", JSON_AS_CUSTOM, JSON_NULLABLE, struct api_create, credential_proxy,
               API_LENIENT_BOOL),
};
static const struct json_table proxy_table = JSON_TABLE(struct api_create, proxy_fields, 0);

/* Only whether there are hooks matters here. */
static const struct json_field lifecycle_fields[] = {
    JSON_FIELD("preStart", JSON_AS_RAW, JSON_NULLABLE, struct lifecycle, pre_start),
    JSON_FIELD("periodic", JSON_AS_RAW, JSON_NULLABLE, struct lifecycle, periodic),
};
static const struct json_table lifecycle_table =
    JSON_TABLE(struct lifecycle, lifecycle_fields, JSON_SNAKE);

/* Tables that fill `out` are at its offset, so their rows name its members. */
static const struct json_field create_fields[] = {
    JSON_FIELD("image", JSON_AS_OBJECT, JSON_NULLABLE, struct create_body, out,
               .table = &image_table),
    JSON_FIELD("snapshotId", JSON_AS_STR, JSON_NULLABLE, struct create_body, out.snapshot_id,
               .max = TEXT_BYTES_MAX),
    JSON_FIELD("platform", JSON_AS_OBJECT, JSON_NULLABLE, struct create_body, out,
               .table = &platform_table, .seen_at = JSON_SEEN(struct create_body, has_platform)),
    JSON_FIELD("timeout", JSON_AS_CUSTOM, JSON_NULLABLE, struct create_body, out.timeout_s,
               API_LENIENT_INTEGER, .min = API_TIMEOUT_S_MIN, .max = API_TIMEOUT_S_MAX),
    JSON_LIST("resourceLimits", JSON_AS_MAP, JSON_NULLABLE, struct create_body, limits,
              .max = LIMITS_MAX, .seen_at = JSON_SEEN(struct create_body, has_limits)),
    JSON_FIELD("env", JSON_AS_RAW, JSON_NULLABLE, struct create_body, env),
    JSON_LIST("metadata", JSON_AS_MAP, JSON_NULLABLE, struct create_body, out.metadata,
              .max = API_METADATA_MAX),
    JSON_LIST("entrypoint", JSON_AS_ARRAY, JSON_NULLABLE, struct create_body, out.entrypoint,
              .min = 1, .max = API_ENTRYPOINT_MAX, .element = &string_element),
    JSON_FIELD("networkPolicy", JSON_AS_OBJECT, JSON_NULLABLE, struct create_body, policy,
               .table = &policy_table, .seen_at = JSON_SEEN(struct create_body, has_policy)),
    JSON_FIELD("credentialProxy", JSON_AS_OBJECT, JSON_NULLABLE, struct create_body, out,
               .table = &proxy_table),
    JSON_FIELD("secretEnv", JSON_AS_CUSTOM, JSON_NULLABLE, struct create_body, out.secrets,
               .parse = api_parse_secrets, .print = api_print_secrets),
    JSON_FIELD("lifecycle", JSON_AS_OBJECT, JSON_NULLABLE, struct create_body, lifecycle,
               .table = &lifecycle_table),
    JSON_FIELD("secureAccess", JSON_AS_CUSTOM, JSON_NULLABLE, struct create_body, out.secure_access,
               API_LENIENT_BOOL),
    JSON_FIELD("persistent", JSON_AS_CUSTOM, JSON_NULLABLE, struct create_body, out.persistent,
               API_LENIENT_BOOL),
    JSON_FIELD("onExpiry", JSON_AS_STR, JSON_NULLABLE, struct create_body, on_expiry,
               .max = TEXT_BYTES_MAX),
    JSON_LIST("volumes", JSON_AS_ARRAY, JSON_NULLABLE, struct create_body, volumes,
              .max = API_VOLUMES_MAX, .element = &api_volume_element),
    JSON_LIST("extensions", JSON_AS_MAP, JSON_NULLABLE, struct create_body, extensions,
              .max = EXTENSIONS_MAX),
};
static const struct json_table create_table =
    JSON_TABLE(struct create_body, create_fields, JSON_SNAKE);

/* --- the rules --- */

struct create_rules {
    struct arena *arena;
    struct create_body *body;
    const struct api_create_host *host;
    struct api_fail *f;
};

static struct str extension_get(const struct create_body *b, struct str key)
{
    for (size_t i = 0; i < b->extensions_count; i++)
        if (str_eq(b->extensions[i].key, key))
            return b->extensions[i].value;
    return STR_NONE;
}

/* Blank means absent. Sources come first, as they decide which other fields are required. */
static int rule_sources(const struct create_rules *c)
{
    struct api_create *out = &c->body->out;
    const struct lifecycle *life = &c->body->lifecycle;
    struct str pool = str_trim(extension_get(c->body, STR("poolRef")));

    out->limit_texts = c->body->limits;
    out->limit_texts_count = c->body->limits_count;
    out->extensions = c->body->extensions;
    out->extensions_count = c->body->extensions_count;
    out->image = str_trim(out->image);
    out->snapshot_id = str_trim(out->snapshot_id);
    out->pool_ref = pool;
    out->runtime = str_trim(extension_get(c->body, STR("runtime")));
    out->network_policy = c->body->has_policy || out->secrets.count;
    out->hooks =
        life->pre_start ||
        (life->periodic && (life->periodic->type != JSON_ARRAY || life->periodic->count > 0));
    if (pool.n && out->snapshot_id.n)
        return api_fail_invalid(c->f, "snapshotId: a sandbox of a pool (extensions.poolRef) cannot "
                                      "come from a snapshot; leave one of them out");
    if (pool.n && out->runtime.n)
        return api_fail_invalid(c->f,
                                "extensions.runtime: a sandbox of a pool (extensions.poolRef) "
                                "has the pool's; leave one of them out");
    if (pool.n && out->secrets.count)
        return api_fail_invalid(c->f, "secretEnv: a sandbox of a pool (extensions.poolRef) cannot "
                                      "have secrets; leave one of them out");
    if (pool.n && out->credential_proxy)
        return api_fail_invalid(c->f, "credentialProxy: a sandbox of a pool (extensions.poolRef) "
                                      "cannot have one; leave one of them out");
    if (pool.n)
        return 0;
    if (out->secrets.count)
        out->credential_proxy = true;
    if (out->credential_proxy && !out->network_policy)
        return api_fail_invalid(c->f, "credentialProxy: needs a networkPolicy; send one");
    if (out->image.n && out->snapshot_id.n)
        return api_fail_invalid(c->f, "image, snapshotId: expected exactly one of them, got both");
    if (!out->image.n && !out->snapshot_id.n)
        return api_fail_invalid(
            c->f,
            "image, snapshotId: expected exactly one of them (image.uri not blank), got none");
    if (out->image.n && !out->entrypoint_count)
        return api_fail_invalid(c->f, "entrypoint: required with image, but missing; send e.g. "
                                      "[\"tail\",\"-f\",\"/dev/null\"]");
    return 0;
}

static int rule_entrypoint(const struct create_rules *c)
{
    static const struct str idle[] = {STR_INIT("tail"), STR_INIT("-f"), STR_INIT("/dev/null")};
    struct api_create *out = &c->body->out;
    struct str *copy;

    if (out->entrypoint_count) {
        if (out->entrypoint[0].n == 0)
            return api_fail_set(c->f, 400, "DOCKER::INVALID_ENTRYPOINT",
                                "entrypoint[0]: expected the name of a program, got nothing");
        return 0;
    }
    if (out->pool_ref.n)
        return 0;
    copy = arena_new_array(c->arena, struct str, ARRAY_LEN(idle));
    if (!copy)
        return api_fail_memory(c->f);
    memcpy(copy, idle, sizeof(idle));
    out->entrypoint = copy;
    out->entrypoint_count = ARRAY_LEN(idle);
    return 0;
}

static int rule_limits(const struct create_rules *c)
{
    struct create_body *b = c->body;

    if (!b->has_limits && !b->out.pool_ref.n)
        return api_fail_invalid(c->f, "resourceLimits: required, but missing; send e.g. "
                                      "{\"cpu\":\"500m\",\"memory\":\"512Mi\"}, or {} for none");
    return api_limits_parse(b->limits, b->limits_count, &b->out.limits, c->f);
}

static int rule_extensions(const struct create_rules *c)
{
    struct str text = extension_get(c->body, STR("access.renew.extend.seconds"));
    uint64_t seconds;

    if (!text.p)
        return 0;
    if (str_to_u64_range(str_trim(text), API_RENEW_EXTEND_S_MIN, API_RENEW_EXTEND_S_MAX, &seconds) <
        0)
        return api_fail_invalid(c->f,
                                "extensions.access.renew.extend.seconds: expected a whole number "
                                "of seconds from %d to %d, got '%s'",
                                API_RENEW_EXTEND_S_MIN, API_RENEW_EXTEND_S_MAX,
                                api_show(text).text);
    c->body->out.renew_extend_s = (uint32_t)seconds;
    return 0;
}

static int rule_expiry(const struct create_rules *c)
{
    struct api_create *out = &c->body->out;

    out->stop_on_expiry = str_eq(c->body->on_expiry, STR("stop"));
    if (c->body->on_expiry.n && !out->stop_on_expiry && !str_eq(c->body->on_expiry, STR("delete")))
        return api_fail_invalid(c->f, "onExpiry: expected delete or stop, got '%s'",
                                api_show(c->body->on_expiry).text);
    if (out->stop_on_expiry && !out->persistent)
        return api_fail_invalid(c->f, "onExpiry: only a sandbox with \"persistent\": true can be "
                                      "stopped; it would lose its files");
    return 0;
}

static int rule_env(const struct create_rules *c)
{
    struct api_create *out = &c->body->out;
    struct json_pair *env;
    size_t count, kept = 0;
    int r;

    if (!c->body->env)
        return 0;
    r = api_pairs_parse(c->arena, c->body->env, "env", API_ENV_MAX, &env, &count, c->f);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        if (env[i].key.n == 0 || str_find(env[i].key, '=') < env[i].key.n)
            return api_fail_invalid(c->f,
                                    "env: '%s' is not a variable name: it must not be "
                                    "empty nor hold a '='",
                                    api_show(env[i].key).text);
        if (env[i].value.p)
            env[kept++] = env[i];
    }
    out->env = env;
    out->env_count = kept;
    return 0;
}

static int rule_secrets(const struct create_rules *c)
{
    const struct api_create *out = &c->body->out;

    for (size_t i = 0; i < out->secrets.count; i++) {
        const struct api_secret *s = &out->secrets.rows[i];

        if (!s->value.p && !c->host->secrets_kept)
            return api_fail_invalid(c->f, "secretEnv.%s.value: required, but missing",
                                    api_show(s->name).text);
        for (size_t k = 0; k < out->env_count; k++)
            if (str_eq(out->env[k].key, s->name))
                return api_fail_invalid(
                    c->f, "secretEnv.%s: env has the same variable; leave one of them out",
                    api_show(s->name).text);
    }
    return 0;
}

static int rule_metadata(const struct create_rules *c)
{
    return api_labels_check(c->body->out.metadata, c->body->out.metadata_count, c->f);
}

/* One of two words, case-insensitive and trimmed; stored in the spelling of the list. */
static int check_word(const char *path, const char *const words[2], struct str *word,
                      struct api_fail *f)
{
    for (size_t i = 0; i < 2; i++)
        if (str_eq_nocase(str_trim(*word), str_of(words[i]))) {
            *word = str_of(words[i]);
            return 0;
        }
    return api_fail_invalid(f, "%s: expected %s or %s, got '%s'", path, words[0], words[1],
                            api_show(*word).text);
}

static int rule_platform(const struct create_rules *c)
{
    static const char *const os_words[2] = {"linux", "windows"};
    static const char *const arch_words[2] = {"amd64", "arm64"};
    struct api_create *out = &c->body->out;
    int r;

    if (!c->body->has_platform)
        return 0;
    r = check_word("platform.os", os_words, &out->os, c->f);
    return r < 0 ? r : check_word("platform.arch", arch_words, &out->arch, c->f);
}

static int rule_timeout(const struct create_rules *c)
{
    int64_t max = c->host->timeout_s_max;

    if (max == 0 || c->body->out.timeout_s <= max)
        return 0;
    return api_fail_invalid(c->f, "timeout: this server allows at most %lld seconds, got %lld",
                            (long long)max, (long long)c->body->out.timeout_s);
}

static int ask_host(const struct create_rules *c, api_create_check_fn *check)
{
    return check ? check(c->host->user, &c->body->out, c->f) : 0;
}

static int rule_host_source(const struct create_rules *c)
{
    return ask_host(c, c->host->check_source);
}

static int rule_host_abilities(const struct create_rules *c)
{
    return ask_host(c, c->host->check_abilities);
}

static struct str action_name(int action)
{
    return action == ACTION_ALLOW ? STR("allow") : STR("deny");
}

/* A list that the enforcer judges. */
static void print_raw(struct json_writer *w, struct str key, const struct json *v)
{
    if (!v || v->type == JSON_NULL)
        return;
    json_write_key(w, key);
    json_write_value(w, v);
}

static int policy_print(const struct network_policy *p, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    if (p->default_action)
        json_member_string(&w, STR("defaultAction"), action_name(p->default_action));
    json_write_key(&w, STR("egress"));
    json_write_array(&w);
    for (size_t i = 0; i < p->egress_count; i++) {
        json_write_object(&w);
        json_member_string(&w, STR("action"), action_name(p->egress[i].action));
        json_member_string(&w, STR("target"), p->egress[i].target);
        if (p->egress[i].protocol.n)
            json_member_string(&w, STR("protocol"), p->egress[i].protocol);
        print_raw(&w, STR("ports"), p->egress[i].ports);
        print_raw(&w, STR("methods"), p->egress[i].methods);
        print_raw(&w, STR("paths"), p->egress[i].paths);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w);
}

/* Secrets without a policy: everything is allowed, and their hosts by rules, as a vault needs. */
static int policy_of_secrets(const struct create_rules *c)
{
    const struct api_secrets *s = &c->body->out.secrets;
    struct network_policy *p = &c->body->policy;
    size_t n = 0;

    for (size_t i = 0; i < s->count; i++)
        n += s->rows[i].hosts_count;
    p->default_action = ACTION_ALLOW;
    p->egress = arena_new_array(c->arena, struct egress_rule, n + 1);
    if (!p->egress)
        return api_fail_memory(c->f);
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < s->rows[i].hosts_count; k++)
            p->egress[p->egress_count++] =
                (struct egress_rule){.action = ACTION_ALLOW, .target = s->rows[i].hosts[k]};
    return 0;
}

/* An empty object is a policy, too. */
static int rule_policy(const struct create_rules *c)
{
    AUTO_BUF(json, POLICY_BYTES_MAX);
    struct str copy;

    if (!c->body->out.network_policy)
        return 0;
    if (!c->body->has_policy && policy_of_secrets(c) < 0)
        return -EBADMSG;
    if (policy_print(&c->body->policy, &json) < 0)
        return api_fail_memory(c->f);
    copy = arena_str(c->arena, buf_str(&json));
    if (!copy.p)
        return api_fail_memory(c->f);
    c->body->out.network_policy_json = copy;
    return 0;
}

static int rule_volume_shapes(const struct create_rules *c)
{
    return api_volumes_check_shape(c->body->volumes, c->body->volumes_count, c->f);
}

static int rule_volumes(const struct create_rules *c)
{
    struct create_body *b = c->body;

    b->out.volumes_count = b->volumes_count;
    return api_volumes_check(c->arena, b->volumes, b->volumes_count, &b->out.volumes, c->f);
}

/* Errors in the body as a whole come before errors in its values. */
static int (*const rules[])(const struct create_rules *c) = {
    rule_sources,       rule_limits,   rule_env,        rule_secrets,        rule_policy,
    rule_volume_shapes, rule_expiry,   rule_extensions, rule_host_source,    rule_entrypoint,
    rule_metadata,      rule_platform, rule_timeout,    rule_host_abilities, rule_volumes,
};

int api_create_parse(struct arena *a, struct str type, struct str body,
                     const struct api_create_host *host, struct api_create *ret, struct api_fail *f)
{
    struct create_body b = {0};
    struct create_rules c = {a, &b, host, f};
    int r = api_body_bind(a, type, body, &create_table, &b, f);

    for (size_t i = 0; i < ARRAY_LEN(rules) && r == 0; i++)
        r = rules[i](&c);
    if (r == 0)
        *ret = b.out;
    return r;
}

/* --- writing --- */

static int policy_read(struct arena *a, struct str text, struct network_policy *ret, struct err *e)
{
    struct json *tree;
    int r = json_parse(a, text, NULL, &tree, e);

    if (r == 0)
        r = json_bind(a, tree, &policy_table, ret, e);
    return r < 0 ? err_wrap(e, r, "networkPolicy") : 0;
}

int api_create_write(struct arena *a, const struct api_create *spec,
                     const struct api_create_maps *maps, struct buf *out, struct err *e)
{
    struct create_body b = {
        .out = *spec,
        .has_platform = spec->os.n || spec->arch.n,
        .on_expiry = spec->stop_on_expiry ? STR("stop") : STR_NONE,
        .has_policy = spec->network_policy_json.n,
        .has_limits = maps->limits != NULL,
        .limits = maps->limits,
        .limits_count = maps->limits_count,
        .extensions = maps->extensions,
        .extensions_count = maps->extensions_count,
        .volumes = api_volume_bodies(a, spec->volumes, spec->volumes_count),
        .volumes_count = spec->volumes_count,
    };
    struct json_writer w;
    int r = 0;

    if (spec->env_count)
        b.env = api_pairs_tree(a, spec->env, spec->env_count);
    if ((spec->env_count && !b.env) || (spec->volumes_count && !b.volumes))
        return err_set(e, ENOMEM, "no memory left for the request");
    if (b.has_policy)
        r = policy_read(a, spec->network_policy_json, &b.policy, e);
    if (r < 0)
        return r;
    json_write_begin(&w, out);
    json_bind_write(&w, &create_table, &b);
    r = json_write_end(&w);
    return r < 0 ? err_set(e, -r, "the request is too large") : 0;
}
