#include "kube/selector.h"

#include <errno.h>

#include "kube/object.h"

enum { NAME_CHARS_MAX = 63, SUBDOMAIN_CHARS_MAX = 253 };

/* --- names --- */

static bool is_alnum(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c);
}

/* Letters and digits at both ends, also -_. in between. */
static bool is_qualified(struct str s)
{
    if (!s.n || s.n > NAME_CHARS_MAX || !is_alnum(s.p[0]) || !is_alnum(s.p[s.n - 1]))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '.')
            return false;
    return true;
}

static bool is_dns(struct str s, size_t chars_max)
{
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_digit(s.p[i]) && !(s.p[i] >= 'a' && s.p[i] <= 'z') && s.p[i] != '-')
            return false;
    return s.n && s.n <= chars_max && s.p[0] != '-' && s.p[s.n - 1] != '-';
}

bool kube_is_dns_label(struct str s)
{
    return is_dns(s, NAME_CHARS_MAX);
}

bool kube_is_dns_subdomain(struct str s)
{
    struct str rest = s, label;

    if (!s.n || s.n > SUBDOMAIN_CHARS_MAX)
        return false;
    while (str_cut(&rest, '.', &label))
        if (!is_dns(label, SUBDOMAIN_CHARS_MAX))
            return false;
    return true;
}

bool kube_label_key_is_valid(struct str key)
{
    size_t slash = str_find(key, '/');

    if (slash == key.n)
        return is_qualified(key);
    return kube_is_dns_subdomain(str_make(key.p, slash)) && is_qualified(str_skip(key, slash + 1));
}

bool kube_label_value_is_valid(struct str value)
{
    return !value.n || is_qualified(value);
}

/* --- building --- */

struct builder {
    struct arena *arena;
    struct kube_requirement rows[KUBE_REQUIREMENTS_MAX];
    struct str values[KUBE_SELECTOR_VALUES_MAX]; /* of the last row */
    size_t count, value_count;
    struct err *e;
};

static int add_value(struct builder *b, struct str value)
{
    if (b->value_count == KUBE_SELECTOR_VALUES_MAX)
        return err_set(b->e, EINVAL, "a selector has more than %d values for one label",
                       KUBE_SELECTOR_VALUES_MAX);
    b->values[b->value_count++] = value;
    return 0;
}

static int check_row(struct builder *b, struct str key, enum kube_operator op)
{
    bool unary = op == KUBE_EXISTS || op == KUBE_NOT_EXISTS;
    bool number = op == KUBE_GREATER || op == KUBE_LESS;
    int64_t n;

    if (!kube_label_key_is_valid(key))
        return err_set(b->e, EINVAL, "a selector names '%.*s', which is no valid label",
                       STR_ARG(key));
    if (unary ? b->value_count != 0 : b->value_count == 0)
        return err_set(b->e, EINVAL, "a selector of '%.*s' has %s values", STR_ARG(key),
                       unary ? "too many" : "no");
    for (size_t i = 0; i < b->value_count; i++) {
        if (!kube_label_value_is_valid(b->values[i]))
            return err_set(b->e, EINVAL,
                           "a selector compares '%.*s' with '%.*s', which is no "
                           "valid value of a label",
                           STR_ARG(key), STR_ARG(b->values[i]));
        if (number && (b->value_count != 1 || str_to_i64(b->values[i], &n) < 0))
            return err_set(b->e, EINVAL, "a selector needs one integer to compare '%.*s' with",
                           STR_ARG(key));
    }
    if (b->count == KUBE_REQUIREMENTS_MAX)
        return err_set(b->e, EINVAL, "a selector has more than %d terms", KUBE_REQUIREMENTS_MAX);
    return 0;
}

/* Ends a row with the values added since the last one. */
static int add_row(struct builder *b, struct str key, enum kube_operator op)
{
    struct kube_requirement *row = &b->rows[b->count];
    int r = check_row(b, key, op);

    if (r < 0)
        return r;
    *row = (struct kube_requirement){arena_str(b->arena, key), op, NULL, b->value_count};
    if (b->value_count)
        row->values = arena_new_array(b->arena, struct str, b->value_count);
    if (!row->key.p || (b->value_count && !row->values))
        return err_set(b->e, ENOMEM, "no memory for a selector");
    for (size_t i = 0; i < b->value_count; i++) {
        row->values[i] = arena_str(b->arena, b->values[i]);
        if (!row->values[i].p)
            return err_set(b->e, ENOMEM, "no memory for a selector");
    }
    b->count++;
    b->value_count = 0;
    return 0;
}

static int finish(struct builder *b, struct kube_selector *ret)
{
    struct kube_requirement *rows = NULL;

    if (b->count) {
        rows = arena_new_array(b->arena, struct kube_requirement, b->count);
        if (!rows)
            return err_set(b->e, ENOMEM, "no memory for a selector");
        memcpy(rows, b->rows, b->count * sizeof(*rows));
    }
    *ret = (struct kube_selector){rows, b->count};
    return 0;
}

/* --- text --- */

static bool is_word_char(char c)
{
    return is_alnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
}

static void skip_space(struct str *s)
{
    while (s->n && (s->p[0] == ' ' || s->p[0] == '\t'))
        *s = str_skip(*s, 1);
}

static struct str take_word(struct str *s)
{
    struct str word;
    size_t n = 0;

    skip_space(s);
    while (n < s->n && is_word_char(s->p[n]))
        n++;
    word = str_make(s->p, n);
    *s = str_skip(*s, n);
    skip_space(s);
    return word;
}

static bool take_char(struct str *s, char c)
{
    if (!s->n || s->p[0] != c)
        return false;
    *s = str_skip(*s, 1);
    skip_space(s);
    return true;
}

/* "(a, b)" after in or notin. */
static int take_values(struct builder *b, struct str *s)
{
    int r = 0;

    if (!take_char(s, '('))
        return err_set(b->e, EINVAL, "a selector has no '(' after in or notin");
    do
        r = add_value(b, take_word(s));
    while (r == 0 && take_char(s, ','));
    if (r == 0 && !take_char(s, ')'))
        r = err_set(b->e, EINVAL, "a selector has no ')' after its values");
    return r;
}

static int take_term(struct builder *b, struct str *s)
{
    enum kube_operator op = KUBE_EXISTS;
    struct str key, before, word;
    int r = 0;

    if (take_char(s, '!'))
        return add_row(b, take_word(s), KUBE_NOT_EXISTS);
    key = take_word(s);
    before = *s;
    if (take_char(s, '=')) {
        (void)take_char(s, '=');
        op = KUBE_IN;
    } else if (s->n > 1 && s->p[0] == '!' && s->p[1] == '=') {
        *s = str_skip(*s, 2);
        op = KUBE_NOT_IN;
    } else if (take_char(s, '>')) {
        op = KUBE_GREATER;
    } else if (take_char(s, '<')) {
        op = KUBE_LESS;
    } else {
        word = take_word(s);
        if (str_eq(word, STR("in")) || str_eq(word, STR("notin"))) {
            r = take_values(b, s);
            return r < 0 ? r : add_row(b, key, word.n == 2 ? KUBE_IN : KUBE_NOT_IN);
        }
        *s = before;
        return add_row(b, key, KUBE_EXISTS);
    }
    r = add_value(b, take_word(s));
    return r < 0 ? r : add_row(b, key, op);
}

int kube_selector_parse(struct arena *a, struct str text, struct kube_selector *ret, struct err *e)
{
    struct builder b = {.arena = a, .e = e};
    struct str s = text;
    int r = 0;

    skip_space(&s);
    if (s.n) {
        do
            r = take_term(&b, &s);
        while (r == 0 && take_char(&s, ','));
        if (r == 0 && s.n)
            r = err_set(e, EINVAL, "expected ',' in a selector before '%.*s'", STR_ARG(s));
    }
    return r < 0 ? r : finish(&b, ret);
}

/* --- JSON --- */

static int add_expression(struct builder *b, const struct json *v)
{
    static const struct {
        const char *name;
        enum kube_operator op;
    } rows[] = {
        {"In",           KUBE_IN        },
        {"NotIn",        KUBE_NOT_IN    },
        {"Exists",       KUBE_EXISTS    },
        {"DoesNotExist", KUBE_NOT_EXISTS},
        {"Gt",           KUBE_GREATER   },
        {"Lt",           KUBE_LESS      },
    };
    struct str name = kube_str(v, "operator"), s;
    int r;

    json_each(item, json_get(v, STR("values")))
    {
        if (json_to_str(item, &s) < 0)
            return err_set(b->e, EINVAL, "a value of matchExpressions is %s, not a string",
                           json_type_name(item));
        r = add_value(b, s);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq(name, str_of(rows[i].name)))
            return add_row(b, kube_str(v, "key"), rows[i].op);
    return err_set(b->e, EINVAL,
                   "matchExpressions has the operator '%.*s'; expected In, NotIn, "
                   "Exists, DoesNotExist, Gt or Lt",
                   STR_ARG(name));
}

int kube_selector_of(struct arena *a, const struct json *v, struct kube_selector *ret,
                     struct err *e)
{
    struct builder b = {.arena = a, .e = e};
    struct str s;
    int r;

    if (v && v->type != JSON_OBJECT && v->type != JSON_NULL)
        return err_set(e, EINVAL, "a selector is %s, not an object", json_type_name(v));
    json_each(label, json_get(v, STR("matchLabels")))
    {
        if (json_to_str(label, &s) < 0)
            return err_set(e, EINVAL, "matchLabels has %s, not a string", json_type_name(label));
        r = add_value(&b, s);
        if (r == 0)
            r = add_row(&b, label->key, KUBE_IN);
        if (r < 0)
            return r;
    }
    json_each(item, json_get(v, STR("matchExpressions")))
    {
        r = add_expression(&b, item);
        if (r < 0)
            return r;
    }
    return finish(&b, ret);
}

/* --- use --- */

static bool row_has(const struct kube_requirement *row, struct str value)
{
    for (size_t i = 0; i < row->value_count; i++)
        if (str_eq(row->values[i], value))
            return true;
    return false;
}

static bool row_compares(const struct kube_requirement *row, struct str value)
{
    int64_t have, limit;

    if (str_to_i64(value, &have) < 0 || str_to_i64(row->values[0], &limit) < 0)
        return false;
    return row->op == KUBE_GREATER ? have > limit : have < limit;
}

static bool row_matches(const struct kube_requirement *row, const struct json *labels)
{
    struct str value;
    bool has = json_to_str(json_get(labels, row->key), &value) == 0;

    switch (row->op) {
    case KUBE_IN:
        return has && row_has(row, value);
    case KUBE_NOT_IN:
        return !has || !row_has(row, value);
    case KUBE_EXISTS:
        return has;
    case KUBE_NOT_EXISTS:
        return !has;
    case KUBE_GREATER:
    case KUBE_LESS:
        return has && row_compares(row, value);
    }
    return false;
}

bool kube_selector_matches(const struct kube_selector *s, const struct json *labels)
{
    for (size_t i = 0; i < s->count; i++)
        if (!row_matches(&s->rows[i], labels))
            return false;
    return true;
}

static int write_row(const struct kube_requirement *row, struct buf *out)
{
    static const char *const signs[] = {
        [KUBE_IN] = "=", [KUBE_NOT_IN] = "!=", [KUBE_GREATER] = ">", [KUBE_LESS] = "<"};
    int r;

    if (row->op == KUBE_EXISTS || row->op == KUBE_NOT_EXISTS)
        return buf_addf(out, "%s%.*s", row->op == KUBE_EXISTS ? "" : "!", STR_ARG(row->key));
    if (row->value_count == 1)
        return buf_addf(out, "%.*s%s%.*s", STR_ARG(row->key), signs[row->op],
                        STR_ARG(row->values[0]));
    r = buf_addf(out, "%.*s %s (", STR_ARG(row->key), row->op == KUBE_IN ? "in" : "notin");
    for (size_t i = 0; r == 0 && i < row->value_count; i++)
        r = buf_addf(out, "%s%.*s", i ? "," : "", STR_ARG(row->values[i]));
    return r < 0 ? r : buf_add(out, STR(")"));
}

int kube_selector_write(const struct kube_selector *s, struct buf *out)
{
    size_t before = out->n;
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->count; i++) {
        if (i)
            r = buf_add(out, STR(","));
        if (r == 0)
            r = write_row(&s->rows[i], out);
    }
    if (r < 0)
        buf_cut(out, before);
    return r;
}
