#include "server/pools/pool_template.h"

#include <stdio.h>

#include "base/json_write.h"

/* --- the template --- */

/* Members that are not of the body, or that a claim decides. */
static bool is_left_out(struct str key)
{
    static const struct str keys[] = {STR_INIT("warmUp"), STR_INIT("warm_up"), STR_INIT("timeout"),
                                      STR_INIT("metadata"), STR_INIT("extensions")};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (str_eq(key, keys[i]))
            return true;
    return false;
}

static bool has(const struct json *object, struct str key)
{
    const struct json *v = json_get(object, key);

    return v && v->type != JSON_NULL;
}

static void write_idle(struct json_writer *w)
{
    json_write_key(w, STR("entrypoint"));
    json_write_array(w);
    json_write_string(w, STR("tail"));
    json_write_string(w, STR("-f"));
    json_write_string(w, STR("/dev/null"));
    json_write_array_end(w);
}

static int write_plain(struct json_writer *w, const struct json *template)
{
    json_each(v, template)
    {
        if (is_left_out(v->key) || v->type == JSON_NULL)
            continue;
        json_write_key(w, v->key);
        json_write_value(w, v);
    }
    if (!has(template, STR("entrypoint")))
        write_idle(w);
    if (!has(template, STR("resourceLimits")) && !has(template, STR("resource_limits"))) {
        json_write_key(w, STR("resourceLimits"));
        json_write_object(w);
        json_write_object_end(w);
    }
    return 0;
}

static void write_items(struct json_writer *w, const struct json *list)
{
    json_each(v, list) json_write_value(w, v);
}

static void write_command(struct json_writer *w, const struct json *container)
{
    const struct json *command = json_get(container, STR("command"));
    const struct json *args = json_get(container, STR("args"));

    if (!command || command->type != JSON_ARRAY || command->count == 0) {
        write_idle(w);
        return;
    }
    json_write_key(w, STR("entrypoint"));
    json_write_array(w);
    write_items(w, command);
    if (args && args->type == JSON_ARRAY)
        write_items(w, args);
    json_write_array_end(w);
}

static int write_variables(struct json_writer *w, const struct json *env, struct api_fail *f)
{
    size_t i = 0;

    json_write_key(w, STR("env"));
    json_write_object(w);
    json_each(v, env)
    {
        struct str name, value = STR("");

        if (json_to_str(json_get(v, STR("name")), &name) < 0 || json_get(v, STR("valueFrom")) ||
            (has(v, STR("value")) && json_to_str(json_get(v, STR("value")), &value) < 0))
            return api_fail_invalid(f,
                                    "template.spec.containers[0].env[%zu]: expected a name and a "
                                    "value, both strings",
                                    i);
        json_member_string(w, name, value);
        i++;
    }
    json_write_object_end(w);
    return 0;
}

/* Quantities may be numbers there: cpu: 2. */
static void write_limits(struct json_writer *w, const struct json *limits)
{
    json_write_key(w, STR("resourceLimits"));
    json_write_object(w);
    json_each(v, limits)
    {
        json_write_key(w, v->key);
        if (v->type == JSON_NUMBER)
            json_write_string(w, v->text);
        else
            json_write_value(w, v);
    }
    json_write_object_end(w);
}

static const struct json *first_of(const struct json *list)
{
    return list && list->type == JSON_ARRAY && list->count ? list->first : NULL;
}

static int write_pod(struct json_writer *w, const struct json *spec, struct api_fail *f)
{
    const struct json *container = first_of(json_get(spec, STR("containers")));
    struct str image;

    if (json_to_str(json_get(container, STR("image")), &image) < 0)
        return api_fail_invalid(f, "template.spec.containers[0].image: required, the name of an "
                                   "image, but missing");
    json_write_key(w, STR("image"));
    json_write_object(w);
    json_member_string(w, STR("uri"), image);
    json_write_object_end(w);
    write_command(w, container);
    write_limits(w, json_get(json_get(container, STR("resources")), STR("limits")));
    return write_variables(w, json_get(container, STR("env")), f);
}

static int find_warm_up(const struct json *template, struct str *ret, struct api_fail *f)
{
    const struct json *v = json_get(template, STR("warmUp"));

    *ret = STR("");
    if (!v)
        v = json_get(template, STR("warm_up"));
    if (!v || v->type == JSON_NULL)
        return 0;
    if (json_to_str(v, ret) < 0)
        return api_fail_invalid(f, "template.warmUp: expected a shell command, got %s",
                                json_type_name(v));
    *ret = str_trim(*ret);
    return 0;
}

int pool_template_write(const struct json *template, struct buf *out, struct str *ret_warm_up,
                        struct api_fail *f)
{
    const struct json *spec = json_get(template, STR("spec"));
    struct json_writer w;
    int r = find_warm_up(template, ret_warm_up, f);

    if (r < 0)
        return r;
    json_write_begin(&w, out);
    json_write_object(&w);
    r = spec ? write_pod(&w, spec, f) : write_plain(&w, template);
    if (r < 0)
        return r;
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        return api_fail_memory(f);
    return 0;
}

int pool_template_parse(struct arena *a, struct str body, const struct api_create_host *host,
                        struct api_create *ret, struct api_fail *f)
{
    static const struct api_create_host none = {0};
    char message[API_FAIL_MESSAGE_MAX];
    int r = api_create_parse(a, STR("application/json"), body, host ? host : &none, ret, f);

    if (r < 0) {
        (void)snprintf(message, sizeof(message), "%s", f->message);
        return api_fail_set(f, f->status, f->code, "template.%s", message);
    }
    if (ret->secrets.count)
        return api_fail_invalid(f, "template.secretEnv: sandboxes of a pool cannot have secrets");
    return 0;
}

/* --- variables of a claim --- */

static bool is_plain_name(struct str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (!ascii_is_alpha(name.p[i]) && name.p[i] != '_' &&
            (i == 0 || (!ascii_is_digit(name.p[i]) && name.p[i] != '.' && name.p[i] != '-')))
            return false;
    return name.n > 0;
}

/* The form with escapes, which the file's reader tells by the ' inside. */
static int add_escaped(struct buf *out, struct str value)
{
    static const char from[] = "\\\"\n\r\t", to[] = "\\\"nrt";
    int r = buf_add_char(out, '"');

    for (size_t i = 0; r == 0 && i < value.n; i++) {
        const char *known = memchr(from, value.p[i], sizeof(from) - 1);

        if (known)
            r = buf_add_char(out, '\\');
        if (r == 0)
            r = buf_add_char(out, known ? to[known - from] : value.p[i]);
    }
    return r < 0 ? r : buf_add_char(out, '"');
}

static int add_variable(struct buf *out, const struct json_pair *v)
{
    int r = buf_addf(out, "%.*s=", STR_ARG(v->key));

    if (r == 0 && str_find(v->value, '\'') < v->value.n)
        r = add_escaped(out, v->value);
    else if (r == 0)
        r = buf_addf(out, "'%.*s'", STR_ARG(v->value));
    return r < 0 ? r : buf_add_char(out, '\n');
}

int pool_env_write(const struct json_pair *env, size_t count, struct buf *out, struct api_fail *f)
{
    for (size_t i = 0; i < count; i++) {
        struct str name = env[i].key, value = env[i].value;

        if (str_eq(name, STR("EXECD_ACCESS_TOKEN")) || str_eq(name, STR("EXECD_ENVS")))
            return api_fail_invalid(f,
                                    "env.%.*s: a sandbox of a pool runs already; set it in the "
                                    "pool's template",
                                    STR_ARG(name));
        if (!is_plain_name(name) || str_has_nul(value))
            return api_fail_invalid(f,
                                    "env: '%s' cannot be set in a sandbox of a pool; names have "
                                    "letters, digits and '_', values no NUL",
                                    api_show(name).text);
        if (str_find(value, '\'') < value.n && str_find(value, '$') < value.n)
            return api_fail_invalid(f,
                                    "env.%.*s: a value with both ' and $ cannot be set in a "
                                    "sandbox of a pool; send it with each command",
                                    STR_ARG(name));
        if (add_variable(out, &env[i]) < 0)
            return api_fail_memory(f);
    }
    return 0;
}
