/* json_bind_write.c - the binder's tables read backwards: a struct becomes an object. */
#include <assert.h>

#include "base/json_bind.h"

/* sparse: also required fields are left out when they hold nothing. */
static void write_row(struct json_writer *w, const struct json_field *f, const char *base,
                      bool sparse);

static struct str enum_name(const struct json_field *f, int value)
{
    for (const struct json_name *n = f->names; n->name; n++)
        if (n->value == value)
            return str_of(n->name);
    return STR_NONE;
}

/* Whether there is something to write for a row without .seen_at. */
static bool row_is_set(const struct json_field *f, const void *at)
{
    switch (f->as) {
    case JSON_AS_STR:
        return ((const struct str *)at)->n > 0;
    case JSON_AS_BOOL:
        return *(const bool *)at;
    case JSON_AS_I64:
    case JSON_AS_U64:
        return *(const uint64_t *)at != 0;
    case JSON_AS_I32:
    case JSON_AS_U32:
        return *(const uint32_t *)at != 0;
    case JSON_AS_U16:
        return *(const uint16_t *)at != 0;
    case JSON_AS_DOUBLE:
        return *(const double *)at != 0;
    case JSON_AS_RAW:
        return *(const struct json *const *)at != NULL;
    case JSON_AS_ENUM:
        return *(const int *)at != 0 && enum_name(f, *(const int *)at).p;
    case JSON_AS_ARRAY:
    case JSON_AS_MAP:
        return *(const size_t *)(const void *)((const char *)at - f->at + f->count_at) > 0;
    case JSON_AS_OBJECT:
    case JSON_AS_CUSTOM:
        return true;
    }
    return false;
}

static void write_array(struct json_writer *w, const struct json_field *f, const char *base)
{
    const char *list = *(const char *const *)(const void *)(base + f->at);
    size_t count = *(const size_t *)(const void *)(base + f->count_at);
    const struct json_field *e = f->element;
    /* Elements that are lists or custom have no key to write: no table of ours has them. */
    size_t size = e->as == JSON_AS_OBJECT ? e->table->size : sizeof(struct str);

    assert(e->as == JSON_AS_OBJECT || e->as == JSON_AS_STR);
    json_write_array(w);
    for (size_t i = 0; i < count; i++) {
        const void *at = list + i * size;

        if (e->as == JSON_AS_OBJECT)
            json_bind_write(w, e->table, at);
        else
            json_write_string(w, *(const struct str *)at);
    }
    json_write_array_end(w);
}

static void write_map(struct json_writer *w, const struct json_field *f, const char *base)
{
    const struct json_pair *pairs = *(const struct json_pair *const *)(const void *)(base + f->at);
    size_t count = *(const size_t *)(const void *)(base + f->count_at);

    json_write_object(w);
    for (size_t i = 0; i < count; i++)
        json_member_string(w, pairs[i].key, pairs[i].value);
    json_write_object_end(w);
}

static void write_members(struct json_writer *w, const struct json_table *t, const char *base,
                          bool sparse)
{
    json_write_object(w);
    for (size_t i = 0; i < t->count; i++)
        write_row(w, &t->fields[i], base, sparse);
}

/* Whether any member holds something: tried out, and taken back. */
static bool object_is_set(struct json_writer *w, const struct json_field *f, const char *base)
{
    struct json_writer before = *w;
    size_t n = w->out->n, inside;
    bool set;

    json_write_key(w, str_of(f->name));
    inside = w->out->n + 1; /* the brace */
    write_members(w, f->table, base + f->at, true);
    set = w->error || w->out->n != inside;
    buf_cut(w->out, n);
    *w = before;
    return set;
}

static void write_object(struct json_writer *w, const struct json_field *f, const char *base,
                         bool always)
{
    if (w->error || (!always && !object_is_set(w, f, base)))
        return;
    json_write_key(w, str_of(f->name));
    write_members(w, f->table, base + f->at, false);
    json_write_object_end(w);
}

static void write_value(struct json_writer *w, const struct json_field *f, const char *base)
{
    const void *at = base + f->at;

    switch (f->as) {
    case JSON_AS_STR:
        json_write_string(w, *(const struct str *)at);
        break;
    case JSON_AS_BOOL:
        json_write_bool(w, *(const bool *)at);
        break;
    case JSON_AS_I64:
        json_write_i64(w, *(const int64_t *)at);
        break;
    case JSON_AS_I32:
        json_write_i64(w, *(const int32_t *)at);
        break;
    case JSON_AS_U64:
        json_write_u64(w, *(const uint64_t *)at);
        break;
    case JSON_AS_U32:
        json_write_u64(w, *(const uint32_t *)at);
        break;
    case JSON_AS_U16:
        json_write_u64(w, *(const uint16_t *)at);
        break;
    case JSON_AS_DOUBLE:
        json_write_double(w, *(const double *)at);
        break;
    case JSON_AS_RAW:
        json_write_value(w, *(const struct json *const *)at);
        break;
    case JSON_AS_ENUM:
        json_write_string(w, enum_name(f, *(const int *)at));
        break;
    case JSON_AS_ARRAY:
        write_array(w, f, base);
        break;
    case JSON_AS_MAP:
        write_map(w, f, base);
        break;
    case JSON_AS_OBJECT: /* write_row has its own way with these */
    case JSON_AS_CUSTOM:
        break;
    }
}

static void write_row(struct json_writer *w, const struct json_field *f, const char *base,
                      bool sparse)
{
    bool required = !sparse && f->flags & JSON_REQUIRED;

    if (f->seen_at && !*(const bool *)(base + f->seen_at - 1))
        return;
    if (f->as == JSON_AS_CUSTOM) {
        if (f->print)
            f->print(w, f, base + f->at);
        return;
    }
    if (f->as == JSON_AS_OBJECT) {
        write_object(w, f, base, required || f->seen_at);
        return;
    }
    if (!required && !f->seen_at && !row_is_set(f, base + f->at))
        return;
    json_write_key(w, str_of(f->name));
    write_value(w, f, base);
}

void json_bind_write(struct json_writer *w, const struct json_table *t, const void *from)
{
    write_members(w, t, from, false);
    json_write_object_end(w);
}
