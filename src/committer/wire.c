#include "committer/wire.h"

#include <errno.h>

enum { VARINT_BYTES_MAX = 10, FIELD_NUMBER_MAX = (1 << 29) - 1, PAIR_BYTES_MAX = 8192 };

/* --- writing --- */

static int add_varint(struct buf *b, uint64_t v)
{
    char text[VARINT_BYTES_MAX];
    size_t n = 0;

    while (v >= 0x80) {
        text[n++] = (char)(v | 0x80);
        v >>= 7;
    }
    text[n++] = (char)v;
    return buf_add(b, str_make(text, n));
}

static int add_key(struct buf *b, unsigned field, enum wire_type type)
{
    return add_varint(b, (uint64_t)field << 3 | type);
}

/* Also an empty one: an element of a list is there although it is empty. */
static int add_element(struct buf *b, unsigned field, struct str value)
{
    size_t before = b->n;
    int r = add_key(b, field, WIRE_BYTES);

    if (r == 0)
        r = add_varint(b, value.n);
    if (r == 0)
        r = buf_add(b, value);
    if (r < 0)
        buf_cut(b, before);
    return r;
}

int wire_add_bytes(struct buf *b, unsigned field, struct str value)
{
    return value.n ? add_element(b, field, value) : 0;
}

int wire_add_u64(struct buf *b, unsigned field, uint64_t value)
{
    size_t before = b->n;
    int r = value ? add_key(b, field, WIRE_VARINT) : 0;

    if (r == 0 && value)
        r = add_varint(b, value);
    if (r < 0)
        buf_cut(b, before);
    return r;
}

int wire_add_pair(struct buf *b, unsigned field, struct str key, struct str value)
{
    AUTO_BUF(pair, PAIR_BYTES_MAX);
    int r = wire_add_bytes(&pair, 1, key);

    if (r == 0)
        r = wire_add_bytes(&pair, 2, value);
    return r < 0 ? r : add_element(b, field, buf_str(&pair));
}

/* --- reading --- */

static int take_varint(struct str *s, uint64_t *ret)
{
    uint64_t v = 0;

    for (size_t i = 0; i < VARINT_BYTES_MAX && i < s->n; i++) {
        uint64_t bits = (uint8_t)s->p[i] & 0x7f;

        if (i == VARINT_BYTES_MAX - 1 && bits > 1) /* more than 64 bits */
            return -EBADMSG;
        v |= bits << (7 * i);
        if (!(s->p[i] & 0x80)) {
            *s = str_skip(*s, i + 1);
            *ret = v;
            return 0;
        }
    }
    return -EBADMSG;
}

static int take_fixed(struct str *s, size_t bytes, uint64_t *ret)
{
    uint64_t v = 0;

    if (s->n < bytes)
        return -EBADMSG;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)(uint8_t)s->p[i] << (8 * i);
    *s = str_skip(*s, bytes);
    *ret = v;
    return 0;
}

static int take_bytes(struct str *s, struct str *ret)
{
    uint64_t n;

    if (take_varint(s, &n) < 0 || n > s->n)
        return -EBADMSG;
    *ret = str_make(s->p, (size_t)n);
    *s = str_skip(*s, (size_t)n);
    return 0;
}

int wire_next(struct str *message, struct wire_field *ret)
{
    uint64_t key;
    int r;

    if (message->n == 0)
        return 0;
    *ret = (struct wire_field){.bytes = STR("")};
    if (take_varint(message, &key) < 0 || key >> 3 == 0 || key >> 3 > FIELD_NUMBER_MAX)
        return -EBADMSG;
    ret->number = (unsigned)(key >> 3);
    ret->type = (enum wire_type)(key & 7);
    switch (ret->type) {
    case WIRE_VARINT:
        r = take_varint(message, &ret->u64);
        break;
    case WIRE_FIXED64:
        r = take_fixed(message, 8, &ret->u64);
        break;
    case WIRE_BYTES:
        r = take_bytes(message, &ret->bytes);
        break;
    case WIRE_FIXED32:
        r = take_fixed(message, 4, &ret->u64);
        break;
    default: /* groups are of an older protobuf */
        r = -EBADMSG;
    }
    return r < 0 ? r : 1;
}

int wire_get_bytes(struct str message, unsigned field, struct str *ret)
{
    struct wire_field f;
    int r;

    *ret = STR("");
    while ((r = wire_next(&message, &f)) > 0)
        if (f.number == field && f.type == WIRE_BYTES)
            *ret = f.bytes;
    return r;
}

int wire_get_u64(struct str message, unsigned field, uint64_t *ret)
{
    struct wire_field f;
    int r;

    *ret = 0;
    while ((r = wire_next(&message, &f)) > 0)
        if (f.number == field && f.type == WIRE_VARINT)
            *ret = f.u64;
    return r;
}

int wire_get_pair(struct str message, unsigned field, struct str key, struct str *ret)
{
    struct wire_field f;
    struct str name;
    int r;

    *ret = STR("");
    while ((r = wire_next(&message, &f)) > 0) {
        if (f.number != field || f.type != WIRE_BYTES)
            continue;
        if (wire_get_bytes(f.bytes, 1, &name) < 0)
            return -EBADMSG;
        if (str_eq(name, key) && wire_get_bytes(f.bytes, 2, ret) < 0)
            return -EBADMSG;
    }
    return r;
}
