#include "base/json.h"

#include <errno.h>

const char *json_type_name(const struct json *v)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",       [JSON_BOOL] = "a boolean", [JSON_NUMBER] = "a number",
        [JSON_STRING] = "a string", [JSON_ARRAY] = "an array", [JSON_OBJECT] = "an object",
    };

    return names[v->type];
}

const struct json *json_get(const struct json *object, struct str key)
{
    if (!object || object->type != JSON_OBJECT)
        return NULL;
    json_each(member, object) if (str_eq(member->key, key)) return member;
    return NULL;
}

const struct json *json_at(const struct json *v, size_t index)
{
    const struct json *child = json_first(v);

    while (child && index--)
        child = child->next;
    return child;
}

static int json_expect(const struct json *v, enum json_type type)
{
    if (!v)
        return -ENOENT;
    return v->type == type ? 0 : -EINVAL;
}

int json_to_bool(const struct json *v, bool *ret)
{
    int r = json_expect(v, JSON_BOOL);

    if (r == 0)
        *ret = v->boolean;
    return r;
}

int json_to_str(const struct json *v, struct str *ret)
{
    int r = json_expect(v, JSON_STRING);

    if (r == 0)
        *ret = v->string;
    return r;
}

/* True for a number without fraction and exponent, of any size. */
static bool json_is_integral(const struct json *v)
{
    return v->number != JSON_REAL ||
           (str_find(v->text, '.') == v->text.n && str_find(v->text, 'e') == v->text.n &&
            str_find(v->text, 'E') == v->text.n);
}

int json_to_i64(const struct json *v, int64_t *ret)
{
    int r = json_expect(v, JSON_NUMBER);

    if (r < 0)
        return r;
    if (!json_is_integral(v))
        return -EINVAL;
    if (v->number != JSON_INT)
        return -ERANGE;
    *ret = v->i64;
    return 0;
}

int json_to_u64(const struct json *v, uint64_t *ret)
{
    int r = json_expect(v, JSON_NUMBER);

    if (r < 0)
        return r;
    if (!json_is_integral(v))
        return -EINVAL;
    if (v->number == JSON_REAL || (v->number == JSON_INT && v->i64 < 0))
        return -ERANGE;
    *ret = v->u64;
    return 0;
}

int json_to_double(const struct json *v, double *ret)
{
    int r = json_expect(v, JSON_NUMBER);

    if (r < 0)
        return r;
    *ret = v->number == JSON_REAL  ? v->real
           : v->number == JSON_INT ? (double)v->i64
                                   : (double)v->u64;
    return 0;
}
