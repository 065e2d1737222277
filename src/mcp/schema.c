/* schema.c - JSON schemas out of tables, and values checked by the same tables. */
#include "mcp/schema.h"

#include <errno.h>

#include "base/buf.h"

enum { NAMES_BYTES_MAX = 160 };

static const char *const type_names[] = {
    [FIELD_STRING] = "string", [FIELD_INTEGER] = "integer", [FIELD_NUMBER] = "number",
    [FIELD_BOOL] = "boolean",  [FIELD_STRINGS] = "array",   [FIELD_STRING_MAP] = "object",
    [FIELD_OBJECT] = "object", [FIELD_OBJECTS] = "array",
};

static const char *const wanted[] = {
    [FIELD_STRING] = "a string",
    [FIELD_INTEGER] = "an integer",
    [FIELD_NUMBER] = "a number",
    [FIELD_BOOL] = "true or false",
    [FIELD_STRINGS] = "a list of strings",
    [FIELD_STRING_MAP] = "an object whose values are strings",
    [FIELD_OBJECT] = "an object",
    [FIELD_OBJECTS] = "a list of objects",
};

/* --- the schema --- */

static void write_of_strings(struct json_writer *w, const char *key)
{
    json_write_key(w, str_of(key));
    json_write_object(w);
    json_member_string(w, STR("type"), STR("string"));
    json_write_object_end(w);
}

static void write_field(struct json_writer *w, const struct field *f)
{
    json_write_key(w, str_of(f->name));
    if (f->type == FIELD_OBJECT) {
        schema_write(w, &f->inner);
        return;
    }
    json_write_object(w);
    json_member_string(w, STR("type"), str_of(type_names[f->type]));
    if (f->about)
        json_member_string(w, STR("description"), str_of(f->about));
    if (f->type == FIELD_STRINGS)
        write_of_strings(w, "items");
    if (f->type == FIELD_STRING_MAP)
        write_of_strings(w, "additionalProperties");
    if (f->type == FIELD_OBJECTS) {
        json_write_key(w, STR("items"));
        schema_write(w, &f->inner);
    }
    if (f->min != 0 || f->max != 0) {
        json_member_i64(w, STR("minimum"), f->min);
        json_member_i64(w, STR("maximum"), f->max);
    }
    if (f->otherwise) {
        json_write_key(w, STR("default"));
        json_write_raw(w, str_of(f->otherwise));
    }
    json_write_object_end(w);
}

void schema_write(struct json_writer *w, const struct schema *s)
{
    json_write_object(w);
    json_member_string(w, STR("type"), STR("object"));
    json_write_key(w, STR("properties"));
    json_write_object(w);
    for (size_t i = 0; i < s->count; i++)
        write_field(w, &s->fields[i]);
    json_write_object_end(w);
    json_write_key(w, STR("required"));
    json_write_array(w);
    for (size_t i = 0; i < s->count; i++)
        if (s->fields[i].required)
            json_write_string(w, str_of(s->fields[i].name));
    json_write_array_end(w);
    json_member_bool(w, STR("additionalProperties"), false);
    json_write_object_end(w);
}

/* --- checking --- */

static bool is_string(const struct json *v, bool any_bytes)
{
    return v->type == JSON_STRING && (any_bytes || !str_has_nul(v->string));
}

static bool all_strings(const struct json *v)
{
    json_each(item, v) if (!is_string(item, false)) return false;
    return true;
}

static bool fits(const struct field *f, const struct json *v)
{
    int64_t i64;
    double number;

    switch (f->type) {
    case FIELD_STRING:
        return is_string(v, f->any_bytes);
    case FIELD_INTEGER:
        return json_to_i64(v, &i64) == 0;
    case FIELD_NUMBER:
        return json_to_double(v, &number) == 0;
    case FIELD_BOOL:
        return v->type == JSON_BOOL;
    case FIELD_STRINGS:
        return v->type == JSON_ARRAY && all_strings(v);
    case FIELD_STRING_MAP:
        return v->type == JSON_OBJECT && all_strings(v);
    case FIELD_OBJECT:
        return v->type == JSON_OBJECT;
    case FIELD_OBJECTS:
        return v->type == JSON_ARRAY;
    }
    return false;
}

static int check_value(const struct field *f, const struct json *v, struct err *e)
{
    double number = 0;

    if (!fits(f, v))
        return err_set(e, EINVAL, "%s: expected %s%s, got %s", f->name, wanted[f->type],
                       f->type == FIELD_STRING && !f->any_bytes ? " without NULs" : "",
                       json_type_name(v));
    if ((f->min != 0 || f->max != 0) && json_to_double(v, &number) == 0 &&
        (number < (double)f->min || number > (double)f->max))
        return err_set(e, EINVAL, "%s: expected %lld to %lld, got %.*s", f->name, (long long)f->min,
                       (long long)f->max, STR_ARG(v->text));
    if (f->type == FIELD_OBJECT) {
        int r = schema_check(&f->inner, v, e);

        return r < 0 ? err_wrap(e, r, "%s", f->name) : 0;
    }
    if (f->type == FIELD_OBJECTS)
        json_each(item, v)
        {
            int r = schema_check(&f->inner, item, e);

            if (r < 0)
                return err_wrap(e, r, "%s", f->name);
        }
    return 0;
}

static const struct field *find(const struct schema *s, struct str name)
{
    for (size_t i = 0; i < s->count; i++)
        if (str_eq(str_of(s->fields[i].name), name))
            return &s->fields[i];
    return NULL;
}

static int refuse_unknown(const struct schema *s, struct str name, struct err *e)
{
    AUTO_BUF(names, NAMES_BYTES_MAX);

    for (size_t i = 0; i < s->count; i++)
        (void)buf_addf(&names, "%s%s", i ? ", " : "", s->fields[i].name);
    return err_set(e, EINVAL, "unknown argument '%.*s'; there are %s", (int)min_size(name.n, 40),
                   name.p, names.n ? names.p : "none");
}

int schema_check(const struct schema *s, const struct json *value, struct err *e)
{
    if (value && value->type != JSON_OBJECT)
        return err_set(e, EINVAL, "expected an object, got %s", json_type_name(value));
    json_each(item, value)
    {
        const struct field *f = find(s, item->key);
        int r;

        if (!f)
            return refuse_unknown(s, item->key, e);
        if (item->type == JSON_NULL)
            continue;
        r = check_value(f, item, e);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct json *v = json_get(value, str_of(s->fields[i].name));

        if (s->fields[i].required && (!v || v->type == JSON_NULL))
            return err_set(e, EINVAL, "'%s' is missing: %s", s->fields[i].name,
                           wanted[s->fields[i].type]);
    }
    return 0;
}
