/* toml_node.c - the tree of TOML values: key lookup, iteration, typed reads.
 *
 * A table's key index is a Patricia trie stored in the nodes themselves: one fork per key, no
 * allocation, no hash that hostile keys could attack. A lookup takes at most a few steps per byte
 * of the key, so parsing is linear in the length of the document for any keys.
 *
 * A key is treated as a sequence of bits: for every byte a 1 and its eight bits, then infinite
 * zeros. So no key is a prefix of another. An extra bit 0 before them is 0 in every key: the first
 * node of a table forks there and is the head of the trie. A link to a node whose fork bit is not
 * greater goes back up: that node has the key to compare. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/toml_internal.h"

enum { BITS_PER_BYTE = 9 };

static unsigned key_symbol(struct str key, size_t i)
{
    return i < key.n ? 0x100U | (unsigned char)key.p[i] : 0;
}

static unsigned key_bit(struct str key, uint32_t bit)
{
    if (bit == 0)
        return 0;
    bit--;
    return key_symbol(key, bit / BITS_PER_BYTE) >> (BITS_PER_BYTE - 1 - bit % BITS_PER_BYTE) & 1;
}

/* The first bit in which two different keys differ. */
static uint32_t key_first_difference(struct str a, struct str b)
{
    size_t i = 0;
    unsigned differ, bit = 0;

    while (key_symbol(a, i) == key_symbol(b, i))
        i++;
    differ = key_symbol(a, i) ^ key_symbol(b, i);
    while (!(differ >> (BITS_PER_BYTE - 1 - bit) & 1))
        bit++;
    return (uint32_t)(1 + i * BITS_PER_BYTE + bit);
}
static_assert((uint64_t)TOML_TEXT_BYTES_MAX * BITS_PER_BYTE < UINT32_MAX, "a bit number fits");

/* The one node whose key may equal `key`. */
static struct toml *index_candidate(struct toml *head, struct str key)
{
    struct toml *x = head;
    uint32_t bit;

    do {
        bit = x->fork_bit;
        x = x->fork[key_bit(key, bit)];
    } while (x->fork_bit > bit);
    return x;
}

static void index_insert(struct toml **head, struct toml *node)
{
    struct toml *parent = *head, *x;
    uint32_t bit;

    if (!*head) {
        node->fork[0] = node->fork[1] = node;
        *head = node;
        return;
    }
    bit = key_first_difference(index_candidate(*head, node->key)->key, node->key);
    x = parent->fork[0];
    while (x->fork_bit > parent->fork_bit && x->fork_bit < bit) {
        parent = x;
        x = x->fork[key_bit(node->key, x->fork_bit)];
    }
    node->fork_bit = bit;
    node->fork[key_bit(node->key, bit)] = node;
    node->fork[!key_bit(node->key, bit)] = x;
    parent->fork[key_bit(node->key, parent->fork_bit)] = node;
}

struct toml *toml_find(const struct toml *table, struct str key)
{
    struct toml *x = table->u.kids.index;

    if (!x)
        return NULL;
    x = index_candidate(x, key);
    return str_eq(x->key, key) ? x : NULL;
}

void toml_append(struct toml *parent, struct toml *child)
{
    assert(parent->type == TOML_TABLE || parent->type == TOML_ARRAY);
    if (parent->type == TOML_TABLE)
        index_insert(&parent->u.kids.index, child);
    if (parent->u.kids.last)
        parent->u.kids.last->next = child;
    else
        parent->u.kids.first = child;
    parent->u.kids.last = child;
    parent->u.kids.count++;
}

enum toml_type toml_type(const struct toml *v)
{
    return (enum toml_type)v->type;
}

const char *toml_type_name(enum toml_type type)
{
    static const char *const names[TOML_TYPE_COUNT] = {
        [TOML_STRING] = "a string",
        [TOML_INTEGER] = "an integer",
        [TOML_FLOAT] = "a float",
        [TOML_BOOL] = "a boolean",
        [TOML_OFFSET_DATETIME] = "a date-time with offset",
        [TOML_LOCAL_DATETIME] = "a local date-time",
        [TOML_LOCAL_DATE] = "a local date",
        [TOML_LOCAL_TIME] = "a local time",
        [TOML_ARRAY] = "an array",
        [TOML_TABLE] = "a table",
    };

    assert(type < TOML_TYPE_COUNT);
    return names[type];
}

struct toml_pos toml_pos(const struct toml *v)
{
    return v->at;
}

struct toml_pos toml_key_pos(const struct toml *v)
{
    return v->key.p ? v->key_at : v->at;
}

struct str toml_key(const struct toml *v)
{
    return v->key;
}

static bool toml_has_kids(const struct toml *v)
{
    return v && (v->type == TOML_TABLE || v->type == TOML_ARRAY);
}

const struct toml *toml_first(const struct toml *v)
{
    return toml_has_kids(v) ? v->u.kids.first : NULL;
}

const struct toml *toml_next(const struct toml *v)
{
    return v ? v->next : NULL;
}

size_t toml_count(const struct toml *v)
{
    return toml_has_kids(v) ? v->u.kids.count : 0;
}

const struct toml *toml_get(const struct toml *table, struct str key)
{
    return table && table->type == TOML_TABLE ? toml_find(table, key) : NULL;
}

const struct toml *toml_get_path(const struct toml *table, struct str path)
{
    struct str part;

    while (table && str_cut(&path, '.', &part))
        table = toml_get(table, part);
    return table;
}

static int PRINTF_LIKE(5, 0) toml_vfail(const struct toml *v, struct toml_pos at, struct err *e,
                                        int code, const char *fmt, va_list ap)
{
    char what[200];

    vsnprintf(what, sizeof(what), fmt, ap);
    return err_set(e, code, "%s:%u:%u: %s", v->doc->filename, at.line, at.column, what);
}

int toml_fail(const struct toml *v, struct err *e, int code, const char *fmt, ...)
{
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = toml_vfail(v, toml_pos(v), e, code, fmt, ap);
    va_end(ap);
    return r;
}

int toml_fail_key(const struct toml *v, struct err *e, int code, const char *fmt, ...)
{
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = toml_vfail(v, toml_key_pos(v), e, code, fmt, ap);
    va_end(ap);
    return r;
}

static int toml_fail_type(const struct toml *v, struct err *e, const char *wanted)
{
    return toml_fail(v, e, EINVAL, "expected %s, found %s", wanted, toml_type_name(toml_type(v)));
}

int toml_to_str(const struct toml *v, struct str *ret, struct err *e)
{
    if (v->type != TOML_STRING)
        return toml_fail_type(v, e, toml_type_name(TOML_STRING));
    *ret = v->u.string;
    return 0;
}

int toml_to_i64(const struct toml *v, int64_t *ret, struct err *e)
{
    return toml_to_i64_range(v, INT64_MIN, INT64_MAX, ret, e);
}

int toml_to_i64_range(const struct toml *v, int64_t min, int64_t max, int64_t *ret, struct err *e)
{
    if (v->type != TOML_INTEGER)
        return toml_fail_type(v, e, toml_type_name(TOML_INTEGER));
    if (v->u.integer < min || v->u.integer > max)
        return toml_fail(v, e, ERANGE, "expected an integer from %lld to %lld, found %lld",
                         (long long)min, (long long)max, (long long)v->u.integer);
    *ret = v->u.integer;
    return 0;
}

int toml_to_double(const struct toml *v, double *ret, struct err *e)
{
    if (v->type != TOML_FLOAT && v->type != TOML_INTEGER)
        return toml_fail_type(v, e, "a number");
    *ret = v->type == TOML_FLOAT ? v->u.number : (double)v->u.integer;
    return 0;
}

int toml_to_bool(const struct toml *v, bool *ret, struct err *e)
{
    if (v->type != TOML_BOOL)
        return toml_fail_type(v, e, toml_type_name(TOML_BOOL));
    *ret = v->u.boolean;
    return 0;
}

int toml_to_time(const struct toml *v, struct toml_time *ret, struct err *e)
{
    if (v->type < TOML_OFFSET_DATETIME || v->type > TOML_LOCAL_TIME)
        return toml_fail_type(v, e, "a date or time");
    *ret = *v->u.time;
    return 0;
}
