#include "image/challenge.h"

#include <errno.h>

#include "net/http.h"

enum { VALUE_BYTES_MAX = 8192 };

struct reader {
    struct str left;
    struct arena *arena;
};

static void skip_blanks(struct reader *r)
{
    while (r->left.n && (r->left.p[0] == ' ' || r->left.p[0] == '\t'))
        r->left = str_skip(r->left, 1);
}

static bool take_char(struct reader *r, char c)
{
    if (r->left.n == 0 || r->left.p[0] != c)
        return false;
    r->left = str_skip(r->left, 1);
    return true;
}

static struct str take_token(struct reader *r)
{
    struct str token = str_make(r->left.p, 0);

    while (token.n < r->left.n && http_is_token(str_make(r->left.p + token.n, 1)))
        token.n++;
    r->left = str_skip(r->left, token.n);
    return token;
}

/* The text between quotes, whose first was taken, without its backslashes. */
static int take_quoted(struct reader *r, struct str *ret)
{
    char *text = arena_alloc(r->arena, r->left.n + 1);
    size_t n = 0;

    if (!text)
        return -ENOMEM;
    while (r->left.n) {
        char c = r->left.p[0];

        r->left = str_skip(r->left, 1);
        if (c == '"') {
            text[n] = '\0';
            *ret = str_make(text, n);
            return 0;
        }
        if (c == '\\') {
            if (r->left.n == 0)
                return -EPROTO;
            c = r->left.p[0];
            r->left = str_skip(r->left, 1);
        }
        text[n++] = c;
    }
    return -EPROTO;
}

/* One "name = value". 0 when what follows is no parameter, and then nothing is taken. */
static int take_param(struct reader *r, struct str *ret_name, struct str *ret_value)
{
    struct str before = r->left, name = take_token(r);

    skip_blanks(r);
    if (name.n == 0 || !take_char(r, '=')) {
        r->left = before;
        return 0;
    }
    skip_blanks(r);
    *ret_name = name;
    if (take_char(r, '"')) {
        int e = take_quoted(r, ret_value);

        return e < 0 ? e : 1;
    }
    *ret_value = take_token(r);
    return ret_value->n ? 1 : -EPROTO;
}

static int keep_param(struct image_challenge *c, struct str name, struct str value)
{
    struct {
        struct str name;
        struct str *at;
    } rows[] = {
        {STR("realm"),   &c->realm  },
        {STR("service"), &c->service},
        {STR("scope"),   &c->scope  },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!str_eq_nocase(name, rows[i].name))
            continue;
        if (rows[i].at->p)
            return -EPROTO;
        *rows[i].at = value;
    }
    return 0;
}

/* The parameters of one challenge, up to the next scheme. Ends behind the comma before it. */
static int take_params(struct reader *r, struct image_challenge *c)
{
    struct str name, value;
    int n;

    while ((n = take_param(r, &name, &value)) > 0) {
        if (c && keep_param(c, name, value) < 0)
            return -EPROTO;
        skip_blanks(r);
        if (r->left.n == 0)
            return 0;
        if (!take_char(r, ','))
            return -EPROTO;
        skip_blanks(r);
    }
    return n;
}

static int take_challenge(struct reader *r, struct image_challenge *c)
{
    struct str scheme = take_token(r);
    bool bearer = str_eq_nocase(scheme, STR("Bearer"));

    if (scheme.n == 0 || (bearer && c->bearer))
        return -EPROTO;
    if (r->left.n && r->left.p[0] != ' ' && r->left.p[0] != ',')
        return -EPROTO;
    c->bearer |= bearer;
    c->basic |= str_eq_nocase(scheme, STR("Basic"));
    skip_blanks(r);
    return take_params(r, bearer ? c : NULL);
}

int image_challenge_parse(struct arena *a, struct str value, struct image_challenge *ret,
                          struct err *e)
{
    struct image_challenge c = *ret;
    struct reader r = {value, a};
    int error = value.n > VALUE_BYTES_MAX ? -EPROTO : 0;

    while (error == 0) {
        do
            skip_blanks(&r);
        while (take_char(&r, ','));
        if (r.left.n == 0)
            break;
        error = take_challenge(&r, &c);
    }
    if (error == 0 && c.bearer && !c.realm.n)
        error = -EPROTO;
    if (error < 0)
        return err_set(e, -error, "its WWW-Authenticate '%.*s' makes no sense",
                       (int)min_size(value.n, 80), value.p ? value.p : "");
    *ret = c;
    return 0;
}
