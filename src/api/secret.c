#include "api/secret.h"

#include <errno.h>

enum { HOST_BYTES_MAX = 255 };

static const struct json_field host_element = {.as = JSON_AS_STR, .min = 1, .max = HOST_BYTES_MAX};

static const struct json_field secret_fields[] = {
    JSON_FIELD("value", JSON_AS_STR, 0, struct api_secret, value, .min = 1,
               .max = API_SECRET_VALUE_BYTES_MAX),
    JSON_LIST("hosts", JSON_AS_ARRAY, JSON_REQUIRED, struct api_secret, hosts, .min = 1,
              .max = API_SECRET_HOSTS_MAX, .element = &host_element),
};
static const struct json_table secret_table =
    JSON_TABLE(struct api_secret, secret_fields, JSON_STRICT);

static bool is_name(struct str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (!ascii_is_alpha(name.p[i]) && name.p[i] != '_' &&
            (i == 0 || !ascii_is_digit(name.p[i])))
            return false;
    return name.n > 0 && name.n <= API_SECRET_NAME_BYTES_MAX;
}

/* It goes into headers: no line break, no control byte. */
static bool is_value(struct str value)
{
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < ' ' || value.p[i] == 0x7f)
            return false;
    return true;
}

static int parse_one(struct arena *a, const struct json *v, struct api_secret *ret, struct err *e)
{
    int r;

    if (!is_name(v->key))
        return err_set(e, EBADMSG,
                       "a name must be that of a variable, of at most %d letters, digits and _",
                       API_SECRET_NAME_BYTES_MAX);
    ret->name = v->key;
    r = json_bind(a, v, &secret_table, ret, e);
    if (r == 0 && !is_value(ret->value))
        r = err_set(e, EBADMSG, "value: it holds a line break or a control byte");
    return r < 0 ? err_wrap(e, r, "%.*s", STR_ARG(v->key)) : 0;
}

int api_parse_secrets(struct arena *a, const struct json *v, const struct json_field *f UNUSED,
                      void *ret, struct err *e)
{
    struct api_secrets s = {0};

    if (v->type != JSON_OBJECT)
        return err_set(e, EBADMSG, "expected an object of secrets by their variables, got %s",
                       json_type_name(v));
    if (v->count > API_SECRETS_MAX)
        return err_set(e, EBADMSG, "expected at most %d secrets, got %zu", API_SECRETS_MAX,
                       (size_t)v->count);
    s.rows = arena_new_array(a, struct api_secret, v->count + 1);
    if (!s.rows)
        return err_set(e, ENOMEM, "no memory left");
    json_each(row, v)
    {
        int r = parse_one(a, row, &s.rows[s.count++], e);

        if (r < 0)
            return r;
    }
    *(struct api_secrets *)ret = s;
    return 0;
}

static void write_secrets(struct json_writer *w, const struct api_secrets *s, bool with_values)
{
    json_write_object(w);
    for (size_t i = 0; i < s->count; i++) {
        const struct api_secret *row = &s->rows[i];

        json_write_key(w, row->name);
        json_write_object(w);
        if (with_values && row->value.p)
            json_member_string(w, STR("value"), row->value);
        json_write_key(w, STR("hosts"));
        json_write_array(w);
        for (size_t k = 0; k < row->hosts_count; k++)
            json_write_string(w, row->hosts[k]);
        json_write_array_end(w);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

void api_print_secrets(struct json_writer *w, const struct json_field *f, const void *from)
{
    const struct api_secrets *s = from;

    if (s->count == 0)
        return;
    json_write_key(w, str_of(f->name));
    write_secrets(w, s, true);
}

int api_secrets_show(const struct api_secrets *s, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    write_secrets(&w, s, false);
    return json_write_end(&w);
}

int api_secrets_write(const struct api_secrets *s, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    write_secrets(&w, s, true);
    return json_write_end(&w);
}
