#include "server/core/spec_request.h"

#include <stdio.h>

#include "base/json_write.h"
#include "server/core/spec_json.h"

enum { REQUEST_BYTES_MAX = 1 << 20, REQUEST_ARENA_MAX = 4 << 20 };

/* --- writing --- */

/* The numbers of `spec` as the texts that they were parsed from. */
struct texts {
    char values[4][32], renew[16];
    struct json_pair limits[4], extensions[2]; /* limits: one for each of values */
    struct api_create_maps maps;
};

static void add_limit(struct texts *t, struct str key, uint64_t value, const char *unit)
{
    char *text = t->values[t->maps.limits_count];

    if (!value)
        return;
    (void)snprintf(text, sizeof(t->values[0]), "%llu%s", (unsigned long long)value, unit);
    t->limits[t->maps.limits_count++] = (struct json_pair){key, str_of(text)};
}

static void add_extension(struct texts *t, struct str key, struct str value)
{
    t->maps.extensions = t->extensions;
    t->extensions[t->maps.extensions_count++] = (struct json_pair){key, value};
}

static void texts_of(const struct api_create *spec, struct texts *t)
{
    *t = (struct texts){0};
    t->maps.limits = t->limits; /* also when there are none: the request must have the field */
    add_limit(t, STR("memory"), spec->limits.memory_bytes, "");
    add_limit(t, STR("disk"), spec->limits.disk_bytes, "");
    add_limit(t, STR("cpu"), spec->limits.cpu_millicores, "m");
    if (spec->limits.gpus < 0)
        t->limits[t->maps.limits_count++] = (struct json_pair){STR("gpu"), STR("all")};
    else
        add_limit(t, STR("gpu"), (uint64_t)spec->limits.gpus, "");
    if (spec->renew_extend_s) {
        (void)snprintf(t->renew, sizeof(t->renew), "%u", spec->renew_extend_s);
        add_extension(t, STR("access.renew.extend.seconds"), str_of(t->renew));
    }
    if (spec->runtime.n)
        add_extension(t, STR("runtime"), spec->runtime);
}

char *spec_request_new(const struct api_create *spec, bool with_env)
{
    AUTO_ARENA(arena, REQUEST_ARENA_MAX);
    AUTO_BUF(out, REQUEST_BYTES_MAX);
    struct api_secret secrets[API_SECRETS_MAX];
    struct api_create kept = *spec;
    struct texts texts;

    for (size_t i = 0; i < spec->secrets.count; i++) {
        secrets[i] = spec->secrets.rows[i];
        secrets[i].value = STR_NONE; /* only the vault has it */
    }
    kept.secrets.rows = secrets;

    kept.auth_user = kept.auth_password = STR_NONE;
    kept.env_count = with_env ? kept.env_count : 0;
    texts_of(spec, &texts);
    return api_create_write(&arena, &kept, &texts.maps, &out, NULL) < 0 ? NULL : buf_take(&out);
}

/* --- reading --- */

static const struct json_pair *find(const struct json_pair *pairs, size_t count, struct str key)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(pairs[i].key, key))
            return &pairs[i];
    return NULL;
}

/* The stored environment; hidden values must be among `given`. */
static int stored_env(struct arena *a, const struct json *env, const struct json_pair *given,
                      size_t given_count, struct api_create *ret, struct api_fail *f)
{
    if (!env || env->type != JSON_OBJECT)
        return api_fail_set(f, 409, "SANDBOX::REQUEST_NOT_KEPT",
                            "the sandbox's environment was not kept when the server started again");
    ret->env = arena_new_array(a, struct json_pair, env->count + 1);
    if (!ret->env)
        return api_fail_memory(f);
    json_each(v, env)
    {
        struct str value = STR("");

        (void)!json_to_str(v, &value);
        if (str_eq(value, STR("***")) && !find(given, given_count, v->key))
            return api_fail_set(f, 409, "SANDBOX::REQUEST_NOT_KEPT",
                                "the value of '%s' was not kept when the server started again; "
                                "give it in env",
                                api_show(v->key).text);
        ret->env[ret->env_count++] = (struct json_pair){v->key, value};
    }
    return 0;
}

static int add_env(struct arena *a, const struct json_pair *given, size_t given_count,
                   struct api_create *ret, struct api_fail *f)
{
    struct json_pair *env = arena_new_array(a, struct json_pair, ret->env_count + given_count + 1);
    size_t n = 0;

    if (!env)
        return api_fail_memory(f);
    for (size_t i = 0; i < ret->env_count; i++)
        if (!find(given, given_count, ret->env[i].key))
            env[n++] = ret->env[i];
    for (size_t i = 0; i < given_count; i++)
        if (given[i].value.p) /* null removes it */
            env[n++] = given[i];
    ret->env = env;
    ret->env_count = n;
    return 0;
}

int spec_request_read(struct arena *a, struct str request, struct str spec,
                      const struct json_pair *given, size_t given_count, struct api_create *ret,
                      struct api_fail *f)
{
    static const struct api_create_host host = {.secrets_kept = true};
    struct json *root = NULL;
    struct str text = request;
    int r = 0;

    if (!request.n && (json_parse(a, spec, NULL, &root, NULL) < 0 ||
                       json_to_str(json_get(root, STR("request")), &text) < 0))
        return api_fail_set(f, 409, "SANDBOX::REQUEST_NOT_KEPT",
                            "an older server made the sandbox, and did not keep its request");
    if (api_create_parse(a, STR("application/json"), text, &host, ret, f) < 0)
        return api_fail_set(f, 409, "SANDBOX::REQUEST_NOT_KEPT",
                            "the request of the sandbox cannot be used again");
    if (!request.n && ret->env_count == 0)
        r = stored_env(a, json_get(root, STR("env")), given, given_count, ret, f);
    return r < 0 ? r : add_env(a, given, given_count, ret, f);
}
