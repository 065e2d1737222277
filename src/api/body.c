#include "api/body.h"

#include <errno.h>

#include "base/time.h"

/* --- the document --- */

bool api_is_json_type(struct str type)
{
    struct str prefix = STR("application/");

    type = str_trim(str_make(type.p, str_find(type, ';')));
    if (type.n <= prefix.n || !str_eq_nocase(str_make(type.p, prefix.n), prefix))
        return false;
    type = str_skip(type, prefix.n);
    if (str_eq_nocase(type, STR("json")))
        return true;
    return type.n > 5 && str_eq_nocase(str_skip(type, type.n - 5), STR("+json"));
}

/* In valid JSON a backslash begins an escape, and only \u0000 encodes a NUL. */
static bool body_has_nul(struct str body)
{
    while (body.n) {
        body = str_skip(body, str_find(body, '\\'));
        if (str_starts(body, STR("\\u0000")))
            return true;
        body = str_skip(body, min_size(body.n, 2));
    }
    return false;
}

int api_body_parse(struct arena *a, struct str type, struct str body, struct json **ret,
                   struct api_fail *f)
{
    static const struct json_limits limits = {
        .text_bytes_max = API_BODY_BYTES_MAX,
        .nodes_max = API_BODY_NODES_MAX,
        .depth_max = API_BODY_DEPTH_MAX,
    };
    struct err e = {0};

    if (body.n == 0)
        return api_fail_invalid(f, "body: required, but missing; send a JSON object");
    if (!api_is_json_type(type))
        return api_fail_invalid(f, "body: send JSON with Content-Type: application/json");
    if (json_parse(a, body, &limits, ret, &e) < 0) {
        err_wrap(&e, -e.code, "body");
        return api_fail_err(f, &e);
    }
    if (body_has_nul(body))
        return api_fail_invalid(f, "body: strings must not hold a NUL character (\\u0000)");
    return 0;
}

int api_body_bind(struct arena *a, struct str type, struct str body, const struct json_table *t,
                  void *ret, struct api_fail *f)
{
    struct err e = {0};
    struct json *tree;
    int r = api_body_parse(a, type, body, &tree, f);

    if (r < 0)
        return r;
    if (tree->type != JSON_OBJECT)
        return api_fail_invalid(f, "body: expected an object, got %s", json_type_name(tree));
    return json_bind(a, tree, t, ret, &e) < 0 ? api_fail_err(f, &e) : 0;
}

/* --- values --- */

/* Doubles represent every integer up to here. */
#define EXACT_MAX 9007199254740992.0 /* 2^53 */

static bool body_is_integral(const struct json *v)
{
    double real = v->real;

    return real >= -EXACT_MAX && real <= EXACT_MAX && real == (double)(int64_t)real;
}

/* "100", " +100 ", "100.00": digits after the point must be zeros. */
static int body_text_integer(struct str text, int64_t *ret)
{
    struct str whole;

    text = str_trim(text);
    whole = str_make(text.p, str_find(text, '.'));
    for (size_t i = whole.n + 1; i < text.n; i++)
        if (text.p[i] != '0')
            return -EINVAL;
    if (text.n == whole.n + 1)
        return -EINVAL; /* a point without digits after it */
    if (whole.n > 1 && whole.p[0] == '+' && ascii_is_digit(whole.p[1]))
        whole = str_skip(whole, 1);
    return str_to_i64(whole, ret);
}

/* -EINVAL when it is not an integer, -ERANGE when it is too large for any row. */
static int body_integer(const struct json *v, int64_t *ret)
{
    int r;

    if (v->type == JSON_STRING)
        return body_text_integer(v->string, ret);
    if (v->type == JSON_BOOL) {
        *ret = v->boolean;
        return 0;
    }
    r = json_to_i64(v, ret);
    if (r != -EINVAL || v->type != JSON_NUMBER || !body_is_integral(v))
        return r;
    *ret = (int64_t)v->real;
    return 0;
}

int api_parse_integer(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                      struct err *e)
{
    int64_t max = f->max > INT64_MAX ? INT64_MAX : (int64_t)f->max, value;
    struct str shown = v->type == JSON_NUMBER   ? v->text
                       : v->type == JSON_STRING ? v->string
                                                : str_of(json_type_name(v));
    int r = body_integer(v, &value);

    if (r == -EINVAL && v->type != JSON_NUMBER)
        return err_set(e, EBADMSG, "expected an integer, got %s", json_type_name(v));
    if (r == 0 && value >= f->min && value <= max) {
        *(int64_t *)ret = value;
        return 0;
    }
    return err_set(e, EBADMSG, "expected an integer from %lld to %lld, got %s", (long long)f->min,
                   (long long)max, api_show(shown).text);
}

int api_bool_word(struct str word, bool *ret)
{
    static const char *const words[][6] = {
        {"false", "0", "off", "f", "n", "no" },
        {"true",  "1", "on",  "t", "y", "yes"},
    };

    for (size_t i = 0; i < 2 * ARRAY_LEN(words[0]); i++)
        if (str_eq_nocase(word, str_of(words[i % 2][i / 2]))) {
            *ret = i % 2;
            return 0;
        }
    return -EINVAL;
}

int api_parse_bool(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                   struct err *e)
{
    bool *to = ret;
    double number;

    if (v->type == JSON_BOOL) {
        *to = v->boolean;
        return 0;
    }
    if (json_to_double(v, &number) == 0 && (number == 0 || number == 1)) {
        *to = number == 1;
        return 0;
    }
    if (v->type == JSON_STRING && api_bool_word(v->string, to) == 0)
        return 0;
    return err_set(e, EBADMSG, "expected a boolean, got %s", json_type_name(v));
}

void api_print_integer(struct json_writer *w, const struct json_field *f, const void *from)
{
    if (*(const int64_t *)from != 0)
        json_member_i64(w, str_of(f->name), *(const int64_t *)from);
}

void api_print_bool(struct json_writer *w, const struct json_field *f, const void *from)
{
    if (*(const bool *)from || f->seen_at)
        json_member_bool(w, str_of(f->name), *(const bool *)from);
}

int api_parse_time(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                   struct err *e)
{
    if (v->type != JSON_STRING && v->type != JSON_NUMBER)
        return err_set(e, EBADMSG, "expected a time, got %s", json_type_name(v));
    if (time_parse_lenient(v->type == JSON_STRING ? v->string : v->text, ret, NULL) < 0)
        return err_set(e, EBADMSG, "expected a time like 2030-01-31T12:00:00Z, got '%s'",
                       api_show(v->type == JSON_STRING ? v->string : v->text).text);
    return 0;
}

void api_print_time(struct json_writer *w, const struct json_field *f, const void *from)
{
    if (*(const int64_t *)from != 0)
        json_member_time(w, str_of(f->name), *(const int64_t *)from);
}

int api_pairs_parse(struct arena *a, const struct json *v, const char *path, size_t max,
                    struct json_pair **ret_pairs, size_t *ret_count, struct api_fail *f)
{
    struct json_pair *pairs;
    size_t n = 0;

    if (v->type != JSON_OBJECT)
        return api_fail_invalid(f, "%s: expected an object, got %s", path, json_type_name(v));
    if (json_count(v) > max)
        return api_fail_invalid(f, "%s: expected at most %zu members, got %zu", path, max,
                                json_count(v));
    pairs = arena_new_array(a, struct json_pair, json_count(v));
    if (!pairs)
        return api_fail_memory(f);
    json_each(member, v)
    {
        if (member->type != JSON_STRING && member->type != JSON_NULL)
            return api_fail_invalid(f, "%s.%s: expected a string or null, got %s", path,
                                    api_show(member->key).text, json_type_name(member));
        pairs[n].key = member->key;
        pairs[n++].value = member->type == JSON_STRING ? member->string : STR_NONE;
    }
    *ret_pairs = pairs;
    *ret_count = n;
    return 0;
}

const struct json *api_pairs_tree(struct arena *a, const struct json_pair *pairs, size_t count)
{
    struct json *nodes = arena_new_array(a, struct json, count + 1);

    if (!nodes)
        return NULL;
    nodes[0].type = JSON_OBJECT;
    nodes[0].count = count;
    nodes[0].first = count ? &nodes[1] : NULL;
    for (size_t i = 0; i < count; i++) {
        nodes[i + 1].type = pairs[i].value.p ? JSON_STRING : JSON_NULL;
        nodes[i + 1].key = pairs[i].key;
        nodes[i + 1].string = pairs[i].value;
        nodes[i + 1].next = i + 1 < count ? &nodes[i + 2] : NULL;
    }
    return nodes;
}
