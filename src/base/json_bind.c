/* json_bind.c - walks tables and tree together, on an explicit stack that also gives the path of an
 * error. */
#include "base/json_bind.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/buf.h"

enum { BIND_DEPTH_MAX = 32, BIND_PATH_BYTES_MAX = 160, BIND_SHOWN_BYTES_MAX = 48 };

/* An object being bound row by row, or an array element by element. */
struct bind_frame {
    const struct json *node;
    const struct json_table *table;   /* of an object; NULL for an array */
    const struct json_field *element; /* of an array */
    const struct json *next;          /* the next element */
    size_t index;                     /* of the row or element being bound, plus 1 */
    char *base;                       /* the struct, or the next element */
};

struct binder {
    struct arena *arena;
    struct err *e;
    unsigned depth;
    struct bind_frame stack[BIND_DEPTH_MAX];
};

typedef int bind_fn(struct binder *b, const struct json_field *f, const struct json *v, void *to);

/* --- errors --- */

/* Untrusted text, shortened and made printable. */
static void bind_show(char *out, size_t size, struct str s)
{
    size_t n = min_size(s.n, size - 1);

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        out[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    out[n] = '\0';
    if (n < s.n)
        memcpy(out + n - 3, "...", 3);
}

/* Prints the path of the stack: "a.b[2].c". */
static void bind_print_path(const struct binder *b, char *out, size_t size)
{
    size_t n = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < b->depth && n < size; i++) {
        const struct bind_frame *f = &b->stack[i];
        int r;

        if (f->index == 0)
            break;
        r = f->table ? snprintf(out + n, size - n, "%s%s", n ? "." : "",
                                f->table->fields[f->index - 1].name)
                     : snprintf(out + n, size - n, "[%zu]", f->index - 1);
        n += r > 0 ? (size_t)r : 0;
    }
}

/* Prepends the path to the error in b->e. */
static int bind_add_path(struct binder *b, int r)
{
    char path[BIND_PATH_BYTES_MAX];

    bind_print_path(b, path, sizeof(path));
    return path[0] ? err_wrap(b->e, r, "%s", path) : r;
}

static int bind_fail(struct binder *b, const char *what)
{
    return bind_add_path(b, err_set(b->e, EBADMSG, "%s", what));
}

static int bind_fail_type(struct binder *b, const char *expected, const struct json *v)
{
    return bind_add_path(
        b, err_set(b->e, EBADMSG, "expected %s, got %s", expected, json_type_name(v)));
}

/* The same for a number of the right type with a wrong value. */
static int bind_fail_number(struct binder *b, const char *expected, const struct json *v)
{
    char shown[BIND_SHOWN_BYTES_MAX];

    if (v->type != JSON_NUMBER)
        return bind_fail_type(b, expected, v);
    bind_show(shown, sizeof(shown), v->text);
    return bind_add_path(b, err_set(b->e, EBADMSG, "expected %s, got %s", expected, shown));
}

static int bind_fail_memory(struct binder *b)
{
    return bind_add_path(b, err_set(b->e, ENOMEM, "no memory left"));
}

/* --- scalars --- */

static bool bind_is_bounded(const struct json_field *f)
{
    return f->min != 0 || f->max != 0;
}

/* Checks the length of a string or the number of elements. */
static int bind_check_size(struct binder *b, const struct json_field *f, size_t n, const char *unit)
{
    uint64_t min = f->min > 0 ? (uint64_t)f->min : 0;
    uint64_t max = f->max ? f->max : UINT64_MAX;

    if (n < min)
        return bind_add_path(b, err_set(b->e, EBADMSG, "expected at least %llu %s, got %zu",
                                        (unsigned long long)min, unit, n));
    if (n > max)
        return bind_add_path(b, err_set(b->e, EBADMSG, "expected at most %llu %s, got %zu",
                                        (unsigned long long)max, unit, n));
    return 0;
}

static int bind_str(struct binder *b, const struct json_field *f, const struct json *v, void *to)
{
    if (v->type != JSON_STRING)
        return bind_fail_type(b, "a string", v);
    *(struct str *)to = v->string;
    return bind_check_size(b, f, v->string.n, "bytes");
}

static int bind_bool(struct binder *b, const struct json_field *f, const struct json *v, void *to)
{
    if (v->type != JSON_BOOL)
        return bind_fail_type(b, "a boolean", v);
    *(bool *)to = v->boolean;
    return 0;
}

/* The allowed range: the type's, narrowed by the row's. */
struct bind_range {
    int64_t min;
    uint64_t max;
};

static struct bind_range bind_integer_range(const struct json_field *f)
{
    static const struct bind_range types[] = {
        [JSON_AS_I64] = {INT64_MIN, INT64_MAX },
          [JSON_AS_I32] = {INT32_MIN, INT32_MAX },
        [JSON_AS_U64] = {0,         UINT64_MAX},
          [JSON_AS_U32] = {0,         UINT32_MAX},
        [JSON_AS_U16] = {0,         UINT16_MAX},
    };
    struct bind_range range = types[f->as];

    if (bind_is_bounded(f)) {
        range.min = f->min > range.min ? f->min : range.min;
        range.max = f->max < range.max ? f->max : range.max;
    }
    return range;
}

static void bind_store_integer(enum json_as as, const struct json *v, void *to)
{
    if (as == JSON_AS_U16)
        *(uint16_t *)to = (uint16_t)v->u64;
    else if (as == JSON_AS_U32)
        *(uint32_t *)to = (uint32_t)v->u64;
    else if (as == JSON_AS_I32)
        *(int32_t *)to = (int32_t)v->i64;
    else
        *(uint64_t *)to = v->u64; /* for I64 and U64 */
}

static bool bind_in_range(const struct json *v, struct bind_range range)
{
    int64_t i64;
    uint64_t u64;

    if (json_to_u64(v, &u64) == 0)
        return u64 <= range.max && (range.min <= 0 || u64 >= (uint64_t)range.min);
    return json_to_i64(v, &i64) == 0 && i64 >= range.min;
}

static int bind_integer(struct binder *b, const struct json_field *f, const struct json *v,
                        void *to)
{
    struct bind_range range = bind_integer_range(f);
    char expected[80];
    int64_t i64;

    if (json_to_i64(v, &i64) == -EINVAL)
        return bind_fail_number(b, "an integer", v);
    if (!bind_in_range(v, range)) {
        snprintf(expected, sizeof(expected), "an integer from %lld to %llu", (long long)range.min,
                 (unsigned long long)range.max);
        return bind_fail_number(b, expected, v);
    }
    bind_store_integer(f->as, v, to);
    return 0;
}

static int bind_double(struct binder *b, const struct json_field *f, const struct json *v, void *to)
{
    char expected[80];
    double d;

    if (json_to_double(v, &d) < 0)
        return bind_fail_type(b, "a number", v);
    if (bind_is_bounded(f) && (d < (double)f->min || d > (double)f->max)) {
        snprintf(expected, sizeof(expected), "a number from %lld to %llu", (long long)f->min,
                 (unsigned long long)f->max);
        return bind_fail_number(b, expected, v);
    }
    *(double *)to = d;
    return 0;
}

static int bind_raw(struct binder *b, const struct json_field *f, const struct json *v, void *to)
{
    *(const struct json **)to = v;
    return 0;
}

static int bind_fail_name(struct binder *b, const struct json_field *f, struct str got)
{
    char shown[BIND_SHOWN_BYTES_MAX];
    AUTO_BUF(names, 256);

    for (const struct json_name *n = f->names; n->name; n++)
        if (buf_addf(&names, "%s%s", n == f->names ? "" : ", ", n->name) < 0)
            break;
    bind_show(shown, sizeof(shown), got);
    return bind_add_path(b,
                         err_set(b->e, EBADMSG, "expected one of %s; got \"%s\"", names.p, shown));
}

static int bind_enum(struct binder *b, const struct json_field *f, const struct json *v, void *to)
{
    if (v->type != JSON_STRING)
        return bind_fail_type(b, "a string", v);
    for (const struct json_name *n = f->names; n->name; n++)
        if (str_eq(str_of(n->name), v->string) ||
            (f->flags & JSON_ANY_CASE && str_eq_nocase(str_of(n->name), v->string))) {
            *(int *)to = n->value;
            return 0;
        }
    return bind_fail_name(b, f, v->string);
}

static int bind_custom(struct binder *b, const struct json_field *f, const struct json *v, void *to)
{
    int r = f->parse(b->arena, v, f, to, b->e);

    return r < 0 ? bind_add_path(b, r) : 0;
}

/* --- containers --- */

static int bind_push(struct binder *b, struct bind_frame frame)
{
    if (b->depth == BIND_DEPTH_MAX)
        return bind_add_path(b, err_set(b->e, EMSGSIZE, "nested too deeply"));
    b->stack[b->depth++] = frame;
    return 0;
}

/* Whether `key` spells `name` in snake_case. */
static bool bind_is_snake(struct str key, const char *name)
{
    size_t n = 0;

    for (; *name; name++) {
        char lower = ascii_lower(*name);

        if (lower != *name && (n == key.n || key.p[n++] != '_'))
            return false;
        if (n == key.n || key.p[n++] != lower)
            return false;
    }
    return n == key.n;
}

static bool bind_knows(const struct json_table *t, struct str key)
{
    for (size_t i = 0; i < t->count; i++)
        if (str_eq(str_of(t->fields[i].name), key) ||
            (t->flags & JSON_SNAKE && bind_is_snake(key, t->fields[i].name)))
            return true;
    return false;
}

/* The member that a row is for, or NULL. */
static const struct json *bind_find(const struct json *object, const struct json_table *t,
                                    const char *name)
{
    const struct json *v = json_get(object, str_of(name));

    if (v || !(t->flags & JSON_SNAKE))
        return v;
    json_each(member, object) if (bind_is_snake(member->key, name)) return member;
    return NULL;
}

/* Names the unknown key after the path of its object. */
static int bind_fail_unknown(struct binder *b, struct str key)
{
    char path[BIND_PATH_BYTES_MAX], shown[BIND_SHOWN_BYTES_MAX];

    bind_print_path(b, path, sizeof(path));
    bind_show(shown, sizeof(shown), key);
    return err_set(b->e, EBADMSG, "%s%s%s: unknown field", path, path[0] ? "." : "", shown);
}

static int bind_open_object(struct binder *b, const struct json_table *t, const struct json *v,
                            void *to)
{
    if (v->type != JSON_OBJECT)
        return bind_fail_type(b, "an object", v);
    if (t->flags & JSON_STRICT)
        json_each(member, v) if (!bind_knows(t, member->key)) return bind_fail_unknown(b,
                                                                                       member->key);
    return bind_push(b, (struct bind_frame){.node = v, .table = t, .base = to});
}

static int bind_object(struct binder *b, const struct json_field *f, const struct json *v, void *to)
{
    return bind_open_object(b, f->table, v, to);
}

/* Stores a list at the row's target, and its count at count_at. */
static void bind_store_list(const struct json_field *f, void *to, void *list, size_t count)
{
    char *base = (char *)to - f->at;

    *(void **)to = list;
    *(size_t *)(void *)(base + f->count_at) = count;
}

static size_t bind_element_size(const struct json_field *f);

static int bind_array(struct binder *b, const struct json_field *f, const struct json *v, void *to)
{
    void *list;
    int r;

    if (v->type != JSON_ARRAY)
        return bind_fail_type(b, "an array", v);
    r = bind_check_size(b, f, v->count, "elements");
    if (r < 0)
        return r;
    list = arena_zalloc_array(b->arena, v->count, bind_element_size(f->element));
    if (!list)
        return bind_fail_memory(b);
    bind_store_list(f, to, list, v->count);
    return bind_push(b, (struct bind_frame){
                            .node = v, .element = f->element, .next = json_first(v), .base = list});
}

static int bind_map(struct binder *b, const struct json_field *f, const struct json *v, void *to)
{
    struct json_pair *pairs;
    size_t n = 0;
    int r;

    if (v->type != JSON_OBJECT)
        return bind_fail_type(b, "an object", v);
    r = bind_check_size(b, f, v->count, "members");
    if (r < 0)
        return r;
    pairs = arena_new_array(b->arena, struct json_pair, v->count);
    if (!pairs)
        return bind_fail_memory(b);
    json_each(member, v)
    {
        if (member->type != JSON_STRING) {
            char shown[BIND_SHOWN_BYTES_MAX], path[BIND_PATH_BYTES_MAX];

            bind_print_path(b, path, sizeof(path));
            bind_show(shown, sizeof(shown), member->key);
            return err_set(b->e, EBADMSG, "%s.%s: expected a string, got %s", path, shown,
                           json_type_name(member));
        }
        pairs[n++] = (struct json_pair){member->key, member->string};
    }
    bind_store_list(f, to, pairs, n);
    return 0;
}

/* --- the walk --- */

static const struct bind_kind {
    bind_fn *bind;
    size_t size;
} bind_kinds[] = {
    [JSON_AS_STR] = {bind_str,     sizeof(struct str)   },
    [JSON_AS_BOOL] = {bind_bool,    sizeof(bool)         },
    [JSON_AS_I64] = {bind_integer, sizeof(int64_t)      },
    [JSON_AS_I32] = {bind_integer, sizeof(int32_t)      },
    [JSON_AS_U64] = {bind_integer, sizeof(uint64_t)     },
    [JSON_AS_U32] = {bind_integer, sizeof(uint32_t)     },
    [JSON_AS_U16] = {bind_integer, sizeof(uint16_t)     },
    [JSON_AS_DOUBLE] = {bind_double,  sizeof(double)       },
    [JSON_AS_RAW] = {bind_raw,     sizeof(struct json *)},
    [JSON_AS_ENUM] = {bind_enum,    sizeof(int)          },
    [JSON_AS_OBJECT] = {bind_object,  0                    }, /* the row gives the size of these */
    [JSON_AS_ARRAY] = {bind_array,   0                    },
    [JSON_AS_MAP] = {bind_map,     0                    },
    [JSON_AS_CUSTOM] = {bind_custom,  0                    },
};

static size_t bind_element_size(const struct json_field *f)
{
    return f->as == JSON_AS_OBJECT ? f->table->size : f->size ? f->size : bind_kinds[f->as].size;
}

/* Binds the next row of an object. */
static int bind_step_object(struct binder *b, struct bind_frame *frame)
{
    const struct json_field *f = &frame->table->fields[frame->index++];
    const struct json *v = bind_find(frame->node, frame->table, f->name);
    bool seen;

    if (v && v->type == JSON_NULL && (f->flags & JSON_NULLABLE))
        v = NULL;
    seen = v != NULL;
    if (f->seen_at)
        memcpy(frame->base + f->seen_at - 1, &seen, sizeof(seen));
    if (v)
        return bind_kinds[f->as].bind(b, f, v, frame->base + f->at);
    return f->flags & JSON_REQUIRED ? bind_fail(b, "required, but missing") : 0;
}

static int bind_step_array(struct binder *b, struct bind_frame *frame)
{
    const struct json_field *f = frame->element;
    const struct json *v = frame->next;
    char *to = frame->base + f->at;

    frame->index++;
    frame->next = v->next;
    frame->base += bind_element_size(f);
    if (v->type == JSON_NULL && (f->flags & JSON_NULLABLE))
        return 0;
    return bind_kinds[f->as].bind(b, f, v, to);
}

int json_bind(struct arena *a, const struct json *v, const struct json_table *t, void *ret,
              struct err *e)
{
    struct binder b;
    int r;

    b.arena = a;
    b.e = e;
    b.depth = 0;
    r = bind_open_object(&b, t, v, ret);
    while (r >= 0 && b.depth > 0) {
        struct bind_frame *frame = &b.stack[b.depth - 1];

        if (frame->table && frame->index < frame->table->count)
            r = bind_step_object(&b, frame);
        else if (!frame->table && frame->next)
            r = bind_step_array(&b, frame);
        else
            b.depth--;
    }
    return r < 0 ? r : 0;
}
