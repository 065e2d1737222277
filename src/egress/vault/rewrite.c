/* rewrite.c - a search by Wu and Manber: the two bytes at the end of a window of the length of the
 * shortest rule tell how far the window may move without missing one. */
#include "egress/vault/rewrite.h"

#include <errno.h>
#include <stdint.h>

enum { BLOCK = 2, SHIFTS = 4096, WINDOW_MAX = 128, KEPT_MAX = 1 << 20 };

struct rewrite {
    struct rewrite_rule *rules; /* the longest first */
    size_t count, window, longest;
    bool starts[256]; /* bytes that begin a rule */
    uint8_t shift[SHIFTS];
};

static size_t block_hash(const char *p)
{
    return ((unsigned char)p[0] * 67U ^ (unsigned char)p[1] * 16U) % SHIFTS;
}

static void fill_shifts(struct rewrite *r)
{
    memset(r->shift, (int)(r->window >= BLOCK ? r->window - BLOCK + 1 : 1), sizeof(r->shift));
    for (size_t i = 0; i < r->count; i++) {
        const char *p = r->rules[i].find.p;

        r->starts[(unsigned char)p[0]] = true;
        for (size_t j = 0; j + BLOCK <= r->window; j++) {
            uint8_t *shift = &r->shift[block_hash(p + j)];

            *shift = (uint8_t)min_size(*shift, r->window - BLOCK - j);
        }
    }
}

struct rewrite *rewrite_new(struct secret_arena *a, const struct rewrite_rule *rules, size_t count)
{
    struct rewrite *r = count <= REWRITE_RULES_MAX ? secret_alloc(a, sizeof(*r)) : NULL;

    if (!r)
        return NULL;
    r->rules = secret_new_array(a, struct rewrite_rule, count);
    r->window = WINDOW_MAX;
    if (!r->rules)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t at = r->count++;

        if (rules[i].find.n == 0)
            return NULL;
        while (at > 0 && r->rules[at - 1].find.n < rules[i].find.n) {
            r->rules[at] = r->rules[at - 1];
            at--;
        }
        r->rules[at] = rules[i];
        r->window = min_size(r->window, rules[i].find.n);
        r->longest = max_size(r->longest, rules[i].find.n);
    }
    fill_shifts(r);
    return r;
}

/* The longest rule at the beginning of `in`. *ret_maybe: a longer one may be there, for which more
 * input is needed. */
static const struct rewrite_rule *rule_at(const struct rewrite *r, struct str in, bool *ret_maybe)
{
    *ret_maybe = false;
    if (!r->starts[(unsigned char)in.p[0]])
        return NULL;
    for (size_t i = 0; i < r->count; i++) {
        const struct rewrite_rule *rule = &r->rules[i];

        if (memcmp(in.p, rule->find.p, min_size(in.n, rule->find.n)) != 0)
            continue;
        if (rule->find.n <= in.n)
            return rule;
        *ret_maybe = true;
    }
    return NULL;
}

/* The next position at or after `at` where a whole rule is, or in.n. *ret_maybe is set for a
 * position where one may begin that needs more input than there is. */
static size_t next_hit(const struct rewrite *r, struct str in, size_t at,
                       const struct rewrite_rule **ret_rule, bool *ret_maybe)
{
    *ret_rule = NULL;
    *ret_maybe = false;
    while (at + r->window <= in.n) {
        size_t shift = r->window < BLOCK ? 0 : r->shift[block_hash(in.p + at + r->window - BLOCK)];

        if (shift == 0) {
            *ret_rule = rule_at(r, str_skip(in, at), ret_maybe);
            if (*ret_rule || *ret_maybe)
                return at;
            shift = 1;
        }
        at += shift;
    }
    for (; at < in.n; at++) { /* shorter than a window: only the beginning of a rule */
        *ret_rule = rule_at(r, str_skip(in, at), ret_maybe);
        if (*ret_rule || *ret_maybe)
            return at;
    }
    return in.n;
}

/* Rewrites `in`; *ret_used is short of its end when the rest may begin a rule. */
static int rewrite_piece(struct rewrite_stream *s, struct str in, bool last, struct buf *out,
                         size_t *ret_used)
{
    const struct rewrite_rule *rule;
    size_t done = 0, look = 0;
    bool maybe;

    for (;;) {
        size_t at = next_hit(s->rewrite, in, look, &rule, &maybe);
        int r;

        if (!rule && at < in.n && last) { /* the beginning of a rule, and no more follows */
            look = at + 1;
            continue;
        }
        if (maybe && !last)
            rule = NULL; /* perhaps a longer one */
        r = buf_add(out, str_make(in.p + done, at - done));
        *ret_used = at;
        if (r < 0 || !rule)
            return r;
        s->hits++;
        r = s->on_hit ? s->on_hit(s->user, rule) : 0;
        if (r == 0)
            r = buf_add(out, rule->put);
        if (r < 0)
            return r;
        done = look = at + rule->find.n;
    }
}

void rewrite_begin(struct rewrite_stream *s, const struct rewrite *r)
{
    *s = (struct rewrite_stream){.rewrite = r};
    buf_init(&s->kept, KEPT_MAX);
    buf_keep_secret(&s->kept);
}

void rewrite_end(struct rewrite_stream *s)
{
    buf_done(&s->kept);
    buf_keep_secret(&s->kept);
}

int rewrite_next(struct rewrite_stream *s, struct str in, bool last, struct buf *out)
{
    size_t used = 0;
    int r;

    if (!s->rewrite || s->rewrite->count == 0)
        return buf_add(out, in);
    if (s->kept.n == 0) {
        r = rewrite_piece(s, in, last, out, &used);
        return r < 0 ? r : buf_add(&s->kept, str_skip(in, used));
    }
    r = buf_add(&s->kept, in);
    if (r == 0)
        r = rewrite_piece(s, buf_str(&s->kept), last, out, &used);
    if (r == 0)
        buf_drop_front(&s->kept, used);
    if (s->kept.n == 0)
        rewrite_end(s);
    return r;
}

int rewrite_all(const struct rewrite *r, struct str in, struct buf *out)
{
    struct rewrite_stream s;
    int result;

    rewrite_begin(&s, r);
    result = rewrite_next(&s, in, true, out);
    rewrite_end(&s);
    return result;
}

const struct rewrite_rule *rewrite_find(const struct rewrite *r, struct str in)
{
    const struct rewrite_rule *rule = NULL;
    size_t at = 0;
    bool maybe;

    while (r && r->count && at < in.n && !rule)
        at = next_hit(r, in, at, &rule, &maybe) + 1;
    return rule;
}
