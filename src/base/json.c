#include "base/json.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_internal.h"
#include "base/utf8.h"

enum { JSON_FEW_KEYS = 16 }; /* up to here keys are compared pairwise, then sorted */

/* What must come next in the document. */
enum json_step { STEP_VALUE, STEP_AFTER_VALUE };

/* --- duplicate keys --- */

/* Hashes a key to one of 64 bits. Equal keys have the same bit, so only a repeated bit needs a full
 * check. */
static uint64_t json_key_bit(struct str key)
{
    unsigned char first = key.n ? (unsigned char)key.p[0] : 0;
    unsigned char last = key.n ? (unsigned char)key.p[key.n - 1] : 0;

    return (uint64_t)1 << ((first * 7 + last * 13 + key.n * 31) & 63);
}

/* Orders members by key, and equal keys by position in the text. */
static int json_compare_keys(const void *pa, const void *pb)
{
    const struct json *a = *(struct json *const *)pa, *b = *(struct json *const *)pb;
    int r = (a->key.n > b->key.n) - (a->key.n < b->key.n);

    if (r == 0)
        r = memcmp(a->key.p, b->key.p, a->key.n);
    return r ? r : (a->at > b->at) - (a->at < b->at);
}

/* Lists the members with equal keys side by side. Sorting is n log n for any input; a hash table
 * would need a secret seed for that. */
static struct json **json_sort_members(struct json_parser *p, const struct json_frame *f)
{
    struct json **list = arena_new_array(p->arena, struct json *, f->count);
    size_t n = 0;

    if (!list)
        return NULL;
    for (struct json *m = f->node->first; m; m = m->next)
        list[n++] = m;
    qsort(list, n, sizeof(*list), json_compare_keys);
    return list;
}

static bool json_has_twin(const struct json_frame *f)
{
    if (f->count > JSON_FEW_KEYS)
        return true; /* perhaps: sorting decides */
    for (const struct json *a = f->node->first; a; a = a->next)
        for (const struct json *b = a->next; b; b = b->next)
            if (str_eq(a->key, b->key))
                return true;
    return false;
}

/* Gives the first of two members with the same key the value that the policy chooses. */
static void json_merge_twin(struct json *first, const struct json *later, enum json_duplicates how)
{
    uint32_t at = first->at;
    struct json *next = first->next;

    if (how != JSON_DUPLICATES_LAST)
        return;
    *first = *later;
    first->at = at;
    first->next = next;
}

/* Unlinks the members whose key is marked as removed. */
static void json_drop_marked(struct json_frame *f)
{
    struct json **link = &f->node->first;

    while (*link) {
        if ((*link)->key.p) {
            link = &(*link)->next;
            continue;
        }
        *link = (*link)->next;
        f->count--;
    }
}

static int json_settle_duplicates(struct json_parser *p, struct json_frame *f)
{
    struct json **list, *first;
    size_t n = f->count;

    if (!json_has_twin(f))
        return 0;
    list = json_sort_members(p, f);
    if (!list)
        return err_set(p->e, ENOMEM, "no memory left for the document");
    first = list[0];
    for (size_t i = 1; i < n; i++) {
        if (!str_eq(first->key, list[i]->key)) {
            first = list[i];
            continue;
        }
        if (p->limits.duplicates == JSON_DUPLICATES_REJECT)
            return json_fail_at(p, EBADMSG, list[i]->at, "expected each key once, got a duplicate");
        json_merge_twin(first, list[i], p->limits.duplicates);
        list[i]->key = STR_NONE;
    }
    json_drop_marked(f);
    return 0;
}

/* --- structure --- */

static struct json_frame *json_top(struct json_parser *p)
{
    return &p->stack[p->depth];
}

/* Makes a node and links it as the next child of the open container. NULL with the error in
 * *ret_r. */
static struct json *json_add_node(struct json_parser *p, enum json_type type, int *ret_r)
{
    struct json_frame *f = json_top(p);
    struct json *v;

    if (p->nodes == p->limits.nodes_max) {
        *ret_r = json_fail_limit(p, "too many values");
        return NULL;
    }
    v = arena_alloc(p->arena, sizeof(*v));
    if (!v) {
        *ret_r = err_set(p->e, ENOMEM, "no memory left for the document");
        return NULL;
    }
    p->nodes++;
    *v = (struct json){
        .type = (uint8_t)type,
        .key = p->key,
        .at = p->key.p ? p->key_at : (uint32_t)(p->at - p->copy),
    };
    p->key = STR_NONE;
    *f->tail = v;
    f->tail = &v->next;
    f->count++;
    return v;
}

/* Reads `"key" :` before a member's value. */
static int json_read_key(struct json_parser *p)
{
    struct json_frame *f = json_top(p);
    uint64_t bit;
    int r;

    json_skip_space(p);
    if (*p->at != '"')
        return json_fail_expected(p, "a key in quotes");
    p->key_at = (uint32_t)(p->at - p->copy);
    r = json_read_string(p, &p->key);
    if (r < 0)
        return r;
    bit = json_key_bit(p->key);
    f->suspect |= (f->seen & bit) != 0;
    f->seen |= bit;
    json_skip_space(p);
    if (*p->at != ':')
        return json_fail_expected(p, "':' behind a key");
    p->at++;
    return STEP_VALUE;
}

static int json_close(struct json_parser *p)
{
    struct json_frame *f = json_top(p);
    int r = f->suspect ? json_settle_duplicates(p, f) : 0;

    if (r < 0)
        return r;
    f->node->count = f->count;
    p->depth--;
    p->at++;
    return STEP_AFTER_VALUE;
}

static int json_open(struct json_parser *p, struct json *v)
{
    char close = v->type == JSON_ARRAY ? ']' : '}';

    if (p->depth == p->limits.depth_max)
        return json_fail_limit(p, "nested too deeply");
    p->depth++;
    v->first = NULL;
    *json_top(p) = (struct json_frame){.node = v, .tail = &v->first};
    p->at++;
    json_skip_space(p);
    if (*p->at == close)
        return json_close(p);
    return v->type == JSON_ARRAY ? STEP_VALUE : json_read_key(p);
}

static int json_read_word(struct json_parser *p, const char *word)
{
    for (const char *c = word; *c; c++, p->at++)
        if (*p->at != *c) {
            char expected[32];

            snprintf(expected, sizeof(expected), "'%s'", word);
            return json_fail_expected(p, expected);
        }
    return STEP_AFTER_VALUE;
}

/* Reads the content of a value, or opens it. */
static int json_read_content(struct json_parser *p, struct json *v)
{
    int r;

    switch ((enum json_type)v->type) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        return json_open(p, v);
    case JSON_STRING:
        r = json_read_string(p, &v->string);
        return r < 0 ? r : STEP_AFTER_VALUE;
    case JSON_NUMBER:
        r = json_read_number(p, v);
        return r < 0 ? r : STEP_AFTER_VALUE;
    case JSON_BOOL:
        v->boolean = *p->at == 't';
        return json_read_word(p, v->boolean ? "true" : "false");
    case JSON_NULL:
        break;
    }
    return json_read_word(p, "null");
}

static int json_read_value(struct json_parser *p)
{
    /* The type that a first byte means, plus 1. */
    static const uint8_t starts[256] = {
        ['{'] = JSON_OBJECT + 1, ['['] = JSON_ARRAY + 1,  ['"'] = JSON_STRING + 1,
        ['t'] = JSON_BOOL + 1,   ['f'] = JSON_BOOL + 1,   ['n'] = JSON_NULL + 1,
        ['-'] = JSON_NUMBER + 1, ['0'] = JSON_NUMBER + 1, ['1'] = JSON_NUMBER + 1,
        ['2'] = JSON_NUMBER + 1, ['3'] = JSON_NUMBER + 1, ['4'] = JSON_NUMBER + 1,
        ['5'] = JSON_NUMBER + 1, ['6'] = JSON_NUMBER + 1, ['7'] = JSON_NUMBER + 1,
        ['8'] = JSON_NUMBER + 1, ['9'] = JSON_NUMBER + 1,
    };
    struct json *v;
    uint8_t start;
    int r = 0;

    json_skip_space(p);
    start = starts[(unsigned char)*p->at];
    if (!start)
        return json_fail_expected(p, "a value");
    v = json_add_node(p, start - 1, &r);
    return v ? json_read_content(p, v) : r;
}

/* After a value: a comma, or the end of the open container. */
static int json_read_after_value(struct json_parser *p)
{
    bool object = json_top(p)->node->type == JSON_OBJECT;

    json_skip_space(p);
    if (*p->at == (object ? '}' : ']'))
        return json_close(p);
    if (*p->at != ',')
        return json_fail_expected(p, object ? "',' or '}'" : "',' or ']'");
    p->at++;
    return object ? json_read_key(p) : STEP_VALUE;
}

static int json_read_document(struct json_parser *p)
{
    int r = STEP_VALUE;

    while (r >= 0 && (r == STEP_VALUE || p->depth > 0))
        r = r == STEP_VALUE ? json_read_value(p) : json_read_after_value(p);
    if (r < 0 || p->limits.first_only)
        return r < 0 ? r : 0;
    json_skip_space(p);
    if (p->at != p->copy + p->text.n)
        return json_fail_expected(p, "the end of the text");
    return 0;
}

/* --- preparation --- */

static struct json_limits json_limits_or_default(const struct json_limits *given)
{
    struct json_limits l = given ? *given : (struct json_limits){0};

    l.text_bytes_max = l.text_bytes_max ? l.text_bytes_max : (size_t)16 << 20;
    l.string_bytes_max = l.string_bytes_max ? l.string_bytes_max : l.text_bytes_max;
    l.nodes_max = l.nodes_max ? l.nodes_max : (size_t)1 << 20;
    l.depth_max = l.depth_max ? l.depth_max : 64;
    assert(l.depth_max <= JSON_DEPTH_CEILING && l.text_bytes_max < UINT32_MAX);
    return l;
}

static size_t json_count_invalid(struct str text)
{
    size_t count = 0, good;

    while ((good = utf8_prefix(text)) < text.n) {
        text = str_skip(text, good + 1);
        count++;
    }
    return count;
}

/* Copies text and replaces each byte of invalid UTF-8 by U+FFFD: one character per byte, so that
 * columns stay the same. */
static struct str json_repair(struct arena *a, struct str text)
{
    struct str mark = STR(UTF8_REPLACEMENT);
    char *to = arena_alloc(a, text.n + json_count_invalid(text) * (mark.n - 1)), *from = to;

    while (to && text.n) {
        size_t good = utf8_prefix(text);

        memcpy(to, text.p, good);
        to += good;
        text = str_skip(text, good);
        if (text.n == 0)
            break;
        memcpy(to, mark.p, mark.n);
        to += mark.n;
        text = str_skip(text, 1);
    }
    return str_make(from, (size_t)(to - from));
}

/* Validates the text and makes the copy that the tree keeps. */
static int json_prepare(struct json_parser *p)
{
    size_t valid;

    if (p->text.n > p->limits.text_bytes_max)
        return err_set(p->e, EMSGSIZE, "document of %zu bytes exceeds the limit of %zu", p->text.n,
                       p->limits.text_bytes_max);
    if (str_starts(p->text, STR("\xef\xbb\xbf")))
        return json_fail_at(p, EBADMSG, 0, "expected a value, got a byte order mark");
    valid = utf8_prefix(p->text);
    if (valid != p->text.n && !p->limits.replace_invalid)
        return json_fail_at(p, EBADMSG, valid, "expected UTF-8, got an invalid byte");
    if (valid != p->text.n)
        p->text = json_repair(p->arena, p->text);
    p->copy = p->text.p ? arena_alloc(p->arena, p->text.n + JSON_PAD_BYTES) : NULL;
    if (!p->copy)
        return err_set(p->e, ENOMEM, "no memory left for the document");
    memcpy(p->copy, p->text.p, p->text.n);
    memset(p->copy + p->text.n, 0, JSON_PAD_BYTES);
    p->at = p->copy;
    return 0;
}

int json_parse(struct arena *a, struct str text, const struct json_limits *limits,
               struct json **ret, struct err *e)
{
    struct json_parser p;
    struct json *root = NULL;
    int r;

    p.arena = a;
    p.limits = json_limits_or_default(limits);
    p.e = e;
    p.text = text.p ? text : STR("");
    p.copy = p.at = NULL;
    p.key = STR_NONE;
    p.nodes = 0;
    p.depth = 0;
    p.stack[0] = (struct json_frame){.tail = &root};
    r = json_prepare(&p);
    if (r == 0)
        r = json_read_document(&p);
    if (r < 0)
        return r;
    *ret = root;
    return 0;
}
