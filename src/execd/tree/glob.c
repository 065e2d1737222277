/* A pattern is compiled to tokens. Matching runs over them with a set of positions: all offsets of
 * the text that the tokens so far can reach. Groups keep sets on a small stack. So each token is
 * processed once, however many ways lead to it; only a negation must try each start separately, and
 * a budget bounds that. */
#include "execd/tree/glob.h"

#include <errno.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { SET_WORDS = GLOB_TEXT_MAX / 64 + 1, BUDGET = 4 << 20 /* in words of sets */ };

struct set {
    uint64_t words[SET_WORDS];
};

enum token_kind {
    TOKEN_CHAR,        /* code */
    TOKEN_ANY,         /* ? */
    TOKEN_STAR,        /* * */
    TOKEN_DEEP,        /* ** */
    TOKEN_FOLDERS,     /* **, then a slash */
    TOKEN_CLASS,       /* the `count` ranges that follow */
    TOKEN_CLASS_OTHER, /* the same, negated */
    TOKEN_RANGE,       /* code to last */
    TOKEN_GROUP,       /* { */
    TOKEN_GROUP_OR,    /* , */
    TOKEN_GROUP_END,   /* } */
    TOKEN_NOT,         /* !( */
    TOKEN_NOT_OR,      /* | */
    TOKEN_NOT_END,     /* ) */
};

struct token {
    enum token_kind kind;
    uint32_t code, last;
    uint32_t count; /* TOKEN_CLASS: number of ranges; TOKEN_NOT: index of its end */
};

struct frame {
    struct set in;  /* positions before the group; of a negation: starts not tried yet */
    struct set out; /* positions after it, so far */
    struct set hit; /* of a negation: positions that its alternatives reach from this start */
    size_t body;    /* token after the opening one */
    size_t start;   /* of a negation: the position being tried */
};

struct glob {
    struct token *tokens;
    size_t count;
    bool slash;
    struct frame *frames; /* GLOB_DEPTH_MAX, if there are groups */
};

/* --- compiling --- */

struct compiler {
    struct glob *g;
    struct str rest;
    enum token_kind open[GLOB_DEPTH_MAX]; /* the openers of the current groups */
    size_t open_at[GLOB_DEPTH_MAX];
    size_t depth;
};

static uint32_t take_code(struct str *s)
{
    uint32_t code;
    int n = utf8_decode(*s, &code);

    if (n < 0) { /* an invalid byte is a character beyond all valid ones */
        code = UTF8_CODE_MAX + 1 + (unsigned char)s->p[0];
        n = 1;
    }
    *s = str_skip(*s, (size_t)n);
    return code;
}

static void token_add(struct compiler *c, struct token t)
{
    c->g->tokens[c->g->count++] = t;
}

/* Takes a character, which may be escaped. False when nothing follows the backslash. */
static bool compile_char(struct compiler *c, uint32_t *ret_code)
{
    if (c->rest.n > 0 && c->rest.p[0] == '\\')
        c->rest = str_skip(c->rest, 1);
    if (c->rest.n == 0)
        return false;
    *ret_code = take_code(&c->rest);
    return true;
}

/* Compiles one character or range of a class. */
static bool compile_range(struct compiler *c)
{
    uint32_t code, last;

    if (!compile_char(c, &code))
        return false;
    last = code;
    if (c->rest.n > 1 && c->rest.p[0] == '-' && c->rest.p[1] != ']') {
        c->rest = str_skip(c->rest, 1);
        if (!compile_char(c, &last) || last < code)
            return false;
    }
    token_add(c, (struct token){TOKEN_RANGE, code, last, 0});
    return true;
}

static bool compile_class(struct compiler *c)
{
    struct token *head = &c->g->tokens[c->g->count];
    bool other = c->rest.n > 0 && (c->rest.p[0] == '!' || c->rest.p[0] == '^');

    token_add(c, (struct token){other ? TOKEN_CLASS_OTHER : TOKEN_CLASS, 0, 0, 0});
    if (other)
        c->rest = str_skip(c->rest, 1);
    while (c->rest.n > 0 && c->rest.p[0] != ']') {
        if (!compile_range(c))
            return false;
        head->count++;
    }
    if (c->rest.n == 0 || head->count == 0)
        return false;
    c->rest = str_skip(c->rest, 1);
    return true;
}

static void compile_star(struct compiler *c)
{
    bool at_segment = c->g->count == 0 || c->g->tokens[c->g->count - 1].kind >= TOKEN_GROUP ||
                      (c->g->tokens[c->g->count - 1].kind == TOKEN_CHAR &&
                       c->g->tokens[c->g->count - 1].code == '/') ||
                      c->g->tokens[c->g->count - 1].kind == TOKEN_FOLDERS;
    size_t stars = 1;

    while (c->rest.n > 0 && c->rest.p[0] == '*') {
        c->rest = str_skip(c->rest, 1);
        stars++;
    }
    if (stars > 1 && at_segment && c->rest.n > 0 && c->rest.p[0] == '/') {
        c->rest = str_skip(c->rest, 1);
        c->g->slash = true;
        token_add(c, (struct token){TOKEN_FOLDERS, 0, 0, 0});
    } else {
        token_add(c, (struct token){stars > 1 ? TOKEN_DEEP : TOKEN_STAR, 0, 0, 0});
    }
}

static bool compile_open(struct compiler *c, enum token_kind kind)
{
    if (c->depth == GLOB_DEPTH_MAX)
        return false;
    c->open[c->depth] = kind;
    c->open_at[c->depth++] = c->g->count;
    token_add(c, (struct token){kind, 0, 0, 0});
    return true;
}

static void compile_close(struct compiler *c, enum token_kind kind)
{
    c->g->tokens[c->open_at[--c->depth]].count = (uint32_t)c->g->count;
    token_add(c, (struct token){kind, 0, 0, 0});
}

static bool compile_within(const struct compiler *c, enum token_kind kind)
{
    return c->depth > 0 && c->open[c->depth - 1] == kind;
}

/* Compiles the next part of the pattern. False for a syntax error. */
static bool compile_next(struct compiler *c)
{
    bool in_group = compile_within(c, TOKEN_GROUP), in_not = compile_within(c, TOKEN_NOT);
    struct str before = c->rest;
    uint32_t code = take_code(&c->rest);

    switch (code) {
    case '*':
        compile_star(c);
        return true;
    case '?':
        token_add(c, (struct token){TOKEN_ANY, 0, 0, 0});
        return true;
    case '[':
        return compile_class(c);
    case '{':
        return compile_open(c, TOKEN_GROUP);
    case '!':
        if (c->rest.n == 0 || c->rest.p[0] != '(')
            return false;
        c->rest = str_skip(c->rest, 1);
        return compile_open(c, TOKEN_NOT);
    case '\\':
        c->rest = before;
        if (!compile_char(c, &code))
            return false;
        break;
    case '}':
        if (!in_group)
            return false;
        compile_close(c, TOKEN_GROUP_END);
        return true;
    case ')':
        if (!in_not)
            break;
        compile_close(c, TOKEN_NOT_END);
        return true;
    case ',':
    case '|':
        if (!(code == ',' ? in_group : in_not))
            break;
        token_add(c, (struct token){code == ',' ? TOKEN_GROUP_OR : TOKEN_NOT_OR, 0, 0, 0});
        return true;
    default:
        break;
    }
    c->g->slash |= code == '/';
    token_add(c, (struct token){TOKEN_CHAR, code, code, 0});
    return true;
}

int glob_new(struct str pattern, struct glob **ret, struct err *e)
{
    struct glob *g;
    struct compiler c;
    bool grouped = false, ok = pattern.n <= GLOB_BYTES_MAX;

    if (!ok)
        return err_set(e, EINVAL, "syntax error in pattern");
    g = mem_new(struct glob);
    g->tokens = mem_new_array(struct token, pattern.n + 1); /* each byte makes at most one */
    c = (struct compiler){.g = g, .rest = pattern};
    while (ok && c.rest.n > 0) {
        ok = compile_next(&c);
        grouped |= c.depth > 0;
    }
    if (!ok || c.depth > 0) {
        glob_free(g);
        return err_set(e, EINVAL, "syntax error in pattern");
    }
    if (grouped)
        g->frames = mem_new_array(struct frame, GLOB_DEPTH_MAX);
    *ret = g;
    return 0;
}

void glob_free(struct glob *g)
{
    if (!g)
        return;
    free(g->tokens);
    free(g->frames);
    free(g);
}

bool glob_has_slash(const struct glob *g)
{
    return g->slash;
}

/* --- sets of positions --- */

struct matcher {
    const struct glob *g;
    struct str text;
    size_t words; /* of a set that are in use */
    size_t budget;
    struct set now;
    size_t depth;
};

static void set_add(struct set *s, size_t at)
{
    s->words[at / 64] |= UINT64_C(1) << at % 64;
}

static bool set_has(const struct set *s, size_t at)
{
    return s->words[at / 64] >> at % 64 & 1;
}

static void set_clear(const struct matcher *m, struct set *s)
{
    memset(s->words, 0, m->words * sizeof(s->words[0]));
}

static void set_copy(const struct matcher *m, struct set *to, const struct set *from)
{
    memcpy(to->words, from->words, m->words * sizeof(to->words[0]));
}

static void set_join(const struct matcher *m, struct set *to, const struct set *from)
{
    for (size_t i = 0; i < m->words; i++)
        to->words[i] |= from->words[i];
}

/* The first position at or after `at`, or text.n + 1. */
static size_t set_next(const struct matcher *m, const struct set *s, size_t at)
{
    while (at <= m->text.n) {
        uint64_t word = s->words[at / 64] >> at % 64;

        if (word)
            return at + (size_t)__builtin_ctzll(word);
        at = (at / 64 + 1) * 64;
    }
    return m->text.n + 1;
}

/* --- matching --- */

static bool class_has(const struct token *t, uint32_t code)
{
    bool in = false;

    for (uint32_t i = 1; i <= t->count; i++)
        in |= code >= t[i].code && code <= t[i].last;
    return code != '/' && in == (t->kind == TOKEN_CLASS);
}

static bool token_takes(const struct token *t, uint32_t code)
{
    if (t->kind == TOKEN_CHAR)
        return code == t->code;
    return t->kind == TOKEN_ANY ? code != '/' : class_has(t, code);
}

/* Matches one character from every position. */
static void match_one(struct matcher *m, const struct token *t)
{
    struct set out;

    set_clear(m, &out);
    for (size_t at = set_next(m, &m->now, 0); at < m->text.n; at = set_next(m, &m->now, at + 1)) {
        struct str rest = str_skip(m->text, at);
        uint32_t code = take_code(&rest);

        if (token_takes(t, code))
            set_add(&out, m->text.n - rest.n);
    }
    set_copy(m, &m->now, &out);
}

/* Matches any number of bytes from every position. Bytes suffice: the next token takes whole
 * characters, and no valid one begins within another. */
static void match_star(struct matcher *m, enum token_kind kind)
{
    bool reached = false;

    for (size_t at = set_next(m, &m->now, 0); at <= m->text.n; at++) {
        bool behind_slash = at > 0 && m->text.p[at - 1] == '/';
        bool was = set_has(&m->now, at);

        if (kind == TOKEN_STAR)
            reached = was || (reached && !behind_slash);
        else
            reached |= was;
        if (kind == TOKEN_FOLDERS ? reached && behind_slash : reached)
            set_add(&m->now, at);
    }
}

/* Begins with the next start of a negation; when none is left, its result is what was reached. */
static size_t match_not_next(struct matcher *m, size_t end)
{
    struct frame *f = &m->g->frames[m->depth - 1];
    size_t at = set_next(m, &f->in, f->start);

    if (at > m->text.n) {
        set_copy(m, &m->now, &f->out);
        m->depth--;
        return end + 1;
    }
    f->start = at;
    set_clear(m, &f->hit);
    set_clear(m, &m->now);
    set_add(&m->now, at);
    return f->body;
}

/* Adds all positions up to a slash that the alternatives do not reach from this start. */
static size_t match_not_end(struct matcher *m, size_t end)
{
    struct frame *f = &m->g->frames[m->depth - 1];

    set_join(m, &f->hit, &m->now);
    for (size_t at = f->start; at <= m->text.n; at++) {
        if (!set_has(&f->hit, at))
            set_add(&f->out, at);
        if (at < m->text.n && m->text.p[at] == '/')
            break;
    }
    f->start++;
    return match_not_next(m, end);
}

static void match_push(struct matcher *m, size_t at)
{
    struct frame *f = &m->g->frames[m->depth++];

    set_copy(m, &f->in, &m->now);
    set_clear(m, &f->out);
    f->body = at + 1;
    f->start = 0;
}

/* Runs a token that separates or ends a group, and returns the next. */
static size_t match_in_group(struct matcher *m, size_t at)
{
    struct frame *f = &m->g->frames[m->depth - 1];

    switch (m->g->tokens[at].kind) {
    case TOKEN_GROUP_OR:
        set_join(m, &f->out, &m->now);
        set_copy(m, &m->now, &f->in);
        return at + 1;
    case TOKEN_GROUP_END:
        set_join(m, &f->out, &m->now);
        set_copy(m, &m->now, &f->out);
        m->depth--;
        return at + 1;
    case TOKEN_NOT_OR:
        set_join(m, &f->hit, &m->now);
        set_clear(m, &m->now);
        set_add(&m->now, f->start);
        return at + 1;
    default:
        return match_not_end(m, at);
    }
}

/* Runs the token at `at` and returns the next. */
static size_t match_token(struct matcher *m, size_t at)
{
    const struct token *t = &m->g->tokens[at];

    switch (t->kind) {
    case TOKEN_CHAR:
    case TOKEN_ANY:
        match_one(m, t);
        return at + 1;
    case TOKEN_CLASS:
    case TOKEN_CLASS_OTHER:
        match_one(m, t);
        return at + 1 + t->count;
    case TOKEN_STAR:
    case TOKEN_DEEP:
    case TOKEN_FOLDERS:
        match_star(m, t->kind);
        return at + 1;
    case TOKEN_GROUP:
        match_push(m, at);
        return at + 1;
    case TOKEN_NOT:
        match_push(m, at);
        return match_not_next(m, t->count);
    default:
        return match_in_group(m, at);
    }
}

int glob_match(struct glob *g, struct str text)
{
    struct matcher m = {.g = g, .text = text, .words = text.n / 64 + 1, .budget = BUDGET};
    size_t at = 0;

    if (text.n > GLOB_TEXT_MAX - 1)
        return 0;
    set_add(&m.now, 0);
    while (at < g->count) {
        if (m.budget < m.words + text.n)
            return -ELOOP;
        m.budget -= m.words + text.n;
        at = match_token(&m, at);
    }
    return set_has(&m.now, text.n);
}
