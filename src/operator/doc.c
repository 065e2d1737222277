#include "operator/doc.h"

#include <errno.h>

#include "base/json_write.h"

enum { DOC_TEXT_MAX = 4 * 1024 * 1024, DOC_DEPTH_MAX = 100 };

static struct json *doc_new(struct arena *a, enum json_type type)
{
    struct json *v = arena_new(a, struct json);

    if (v)
        v->type = (uint8_t)type;
    return v;
}

struct json *doc_object(struct arena *a)
{
    return doc_new(a, JSON_OBJECT);
}

struct json *doc_array(struct arena *a)
{
    return doc_new(a, JSON_ARRAY);
}

struct json *doc_string(struct arena *a, struct str s)
{
    struct json *v = doc_new(a, JSON_STRING);

    if (!v)
        return NULL;
    v->string = arena_str(a, s);
    return v->string.p ? v : NULL;
}

struct json *doc_int(struct arena *a, int64_t n)
{
    struct json *v = doc_new(a, JSON_NUMBER);

    if (!v)
        return NULL;
    v->number = JSON_INT;
    v->i64 = n;
    v->text = str_of(arena_printf(a, "%lld", (long long)n));
    return v->text.p ? v : NULL;
}

struct json *doc_bool(struct arena *a, bool yes)
{
    struct json *v = doc_new(a, JSON_BOOL);

    if (v)
        v->boolean = yes;
    return v;
}

/* Copies one node; strings are shared with the source, which lives as long as its arena. */
static struct json *doc_copy_node(struct arena *a, const struct json *v)
{
    struct json *copy = doc_new(a, JSON_NULL);

    if (!copy)
        return NULL;
    *copy = *v;
    copy->next = NULL;
    if (v->type == JSON_OBJECT || v->type == JSON_ARRAY) {
        copy->first = NULL;
        copy->count = 0;
    }
    return copy;
}

/* Walks with its own stack, as depth comes from outside. */
struct json *doc_copy(struct arena *a, const struct json *v)
{
    struct {
        const struct json *from;
        struct json **tail;
    } stack[DOC_DEPTH_MAX];
    struct json *root;
    size_t depth = 0;

    if (!v)
        return NULL;
    root = doc_copy_node(a, v);
    if (!root)
        return NULL;
    root->key = STR_NONE;
    stack[0].from = json_first(v);
    stack[0].tail = &root->first;
    root->count = v->type == JSON_OBJECT || v->type == JSON_ARRAY ? v->count : root->count;
    for (;;) {
        const struct json *from = stack[depth].from;
        struct json *copy;

        if (!from) {
            if (depth == 0)
                return root;
            depth--;
            continue;
        }
        copy = doc_copy_node(a, from);
        if (!copy)
            return NULL;
        *stack[depth].tail = copy;
        stack[depth].tail = &copy->next;
        stack[depth].from = from->next;
        if (!json_first(from))
            continue;
        copy->count = from->count;
        if (++depth == DOC_DEPTH_MAX)
            return NULL;
        stack[depth].from = json_first(from);
        stack[depth].tail = &copy->first;
    }
}

struct json *doc_member(struct json *object, struct str key)
{
    if (!object || object->type != JSON_OBJECT)
        return NULL;
    for (struct json *m = object->first; m; m = m->next)
        if (str_eq(m->key, key))
            return m;
    return NULL;
}

int doc_set(struct arena *a, struct json *object, struct str key, struct json *value)
{
    struct json **at;

    if (!object || !value || object->type != JSON_OBJECT)
        return -ENOMEM;
    value->key = arena_str(a, key);
    if (!value->key.p)
        return -ENOMEM;
    for (at = &object->first; *at; at = &(*at)->next) {
        if (!str_eq((*at)->key, key))
            continue;
        value->next = (*at)->next;
        *at = value;
        return 0;
    }
    value->next = NULL;
    *at = value;
    object->count++;
    return 0;
}

int doc_push(struct json *array, struct json *value)
{
    struct json **at;

    if (!array || !value || array->type != JSON_ARRAY)
        return -ENOMEM;
    for (at = &array->first; *at;)
        at = &(*at)->next;
    value->key = STR_NONE;
    value->next = NULL;
    *at = value;
    array->count++;
    return 0;
}

bool doc_remove(struct json *object, struct str key)
{
    if (!object || object->type != JSON_OBJECT)
        return false;
    for (struct json **at = &object->first; *at; at = &(*at)->next) {
        if (!str_eq((*at)->key, key))
            continue;
        *at = (*at)->next;
        object->count--;
        return true;
    }
    return false;
}

struct json *doc_object_at(struct arena *a, struct json *object, struct str key)
{
    struct json *m = doc_member(object, key);

    if (m && m->type == JSON_OBJECT)
        return m;
    m = doc_object(a);
    return doc_set(a, object, key, m) < 0 ? NULL : m;
}

int doc_set_string(struct arena *a, struct json *object, struct str key, struct str value)
{
    return doc_set(a, object, key, doc_string(a, value));
}

static bool doc_equal_scalar(const struct json *x, const struct json *y)
{
    switch (x->type) {
    case JSON_BOOL:
        return x->boolean == y->boolean;
    case JSON_STRING:
        return str_eq(x->string, y->string);
    case JSON_NUMBER:
        return str_eq(x->text, y->text);
    default:
        return true;
    }
}

bool doc_equal(const struct json *x, const struct json *y)
{
    const struct json *b;

    if (!x || !y)
        return x == y;
    if (x->type != y->type)
        return false;
    if (x->type != JSON_ARRAY && x->type != JSON_OBJECT)
        return doc_equal_scalar(x, y);
    if (json_count(x) != json_count(y))
        return false;
    b = json_first(y);
    json_each(one, x)
    {
        const struct json *other = x->type == JSON_OBJECT ? json_get(y, one->key) : b;

        if (!other || !doc_equal(one, other))
            return false;
        b = b ? b->next : NULL;
    }
    return true;
}

struct str doc_text(struct arena *a, const struct json *v)
{
    AUTO_BUF(out, DOC_TEXT_MAX);
    struct json_writer w;

    if (!v)
        return STR_NONE;
    json_write_begin(&w, &out);
    json_write_value(&w, v);
    if (json_write_end(&w) < 0)
        return STR_NONE;
    return arena_str(a, buf_str(&out));
}
