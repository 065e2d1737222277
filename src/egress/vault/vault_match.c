#include <stdlib.h>

#include "egress/vault/vault_set.h"

int vault_host_covers(struct str pattern, struct str host)
{
    if (str_eq(pattern, host))
        return 2;
    if (!str_starts(pattern, STR("*.")))
        return 0;
    pattern = str_skip(pattern, 1); /* ".example.com" */
    return host.n > pattern.n && str_ends(host, pattern) ? 1 : 0;
}

static bool path_matches(struct str pattern, struct str path)
{
    if (str_ends(pattern, STR("*")))
        return str_starts(path, str_make(pattern.p, pattern.n - 1));
    return str_eq(pattern, path);
}

static bool list_has(const struct vault_list *list, struct str value)
{
    for (size_t i = 0; i < list->count; i++)
        if (str_eq_nocase(list->rows[i], value))
            return true;
    return false;
}

static bool has_port(const struct vault_match *m, uint16_t port)
{
    for (size_t i = 0; i < m->port_count; i++)
        if (m->ports[i] == port)
            return true;
    return false;
}

static int match_host(const struct vault_match *m, struct str host)
{
    int best = 0;

    for (size_t i = 0; i < m->hosts.count; i++) {
        int covers = vault_host_covers(m->hosts.rows[i], host);

        best = covers > best ? covers : best;
    }
    return best;
}

static bool match_rest(const struct vault_match *m, const struct vault_request *r)
{
    if (!list_has(&m->schemes, r->scheme) || !has_port(m, r->port) ||
        !list_has(&m->methods, r->method))
        return false;
    for (size_t i = 0; i < m->paths.count; i++)
        if (path_matches(m->paths.rows[i], r->path))
            return true;
    return false;
}

enum vault_verdict vault_set_match(const struct vault_set *s, const struct vault_request *r,
                                   const struct vault_binding **ret)
{
    const struct vault_binding *found = NULL;
    bool ambiguous = false;
    int best = 0;

    for (size_t i = 0; i < s->binding_count; i++) {
        const struct vault_match *m = &s->bindings[i].match;
        int covers = match_host(m, r->host);

        if (s->bindings[i].env || covers == 0 || covers < best || !match_rest(m, r))
            continue;
        ambiguous = covers == best;
        best = covers;
        found = &s->bindings[i];
    }
    if (!found)
        return VAULT_NO_MATCH;
    *ret = found;
    return ambiguous ? VAULT_AMBIGUOUS : VAULT_MATCH;
}

const struct vault_binding *vault_set_next_env(const struct vault_set *s, struct str host,
                                               size_t *at)
{
    while (*at < s->binding_count) {
        const struct vault_binding *b = &s->bindings[(*at)++];

        if (b->env && match_host(&b->match, host))
            return b;
    }
    return NULL;
}

bool vault_set_knows_host(const struct vault_set *s, struct str host)
{
    for (size_t i = 0; i < s->binding_count; i++)
        if (match_host(&s->bindings[i].match, host))
            return true;
    return false;
}

/* --- conflicts --- */

static bool lists_meet(const struct vault_list *a, const struct vault_list *b)
{
    for (size_t i = 0; i < a->count; i++)
        if (list_has(b, a->rows[i]))
            return true;
    return false;
}

static bool ports_meet(const struct vault_match *a, const struct vault_match *b)
{
    for (size_t i = 0; i < a->port_count; i++)
        if (has_port(b, a->ports[i]))
            return true;
    return false;
}

static bool is_prefix_pattern(struct str p)
{
    return str_ends(p, STR("*"));
}

static bool paths_meet(const struct vault_list *a, const struct vault_list *b)
{
    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = 0; j < b->count; j++) {
            struct str x = a->rows[i], y = b->rows[j];
            struct str x_fixed = is_prefix_pattern(x) ? str_make(x.p, x.n - 1) : x;
            struct str y_fixed = is_prefix_pattern(y) ? str_make(y.p, y.n - 1) : y;

            if (str_eq(x, y) || (is_prefix_pattern(x) && str_starts(y_fixed, x_fixed)) ||
                (is_prefix_pattern(y) && str_starts(x_fixed, y_fixed)))
                return true;
        }
    }
    return false;
}

/* The same exact host, or wildcards of which one lies within the other. */
static bool hosts_meet(const struct vault_list *a, const struct vault_list *b)
{
    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = 0; j < b->count; j++) {
            struct str x = a->rows[i], y = b->rows[j];
            bool x_wild = str_starts(x, STR("*.")), y_wild = str_starts(y, STR("*."));

            if (x_wild != y_wild)
                continue;
            if (str_eq(x, y) ||
                (x_wild && (str_ends(x, str_skip(y, 1)) || str_ends(y, str_skip(x, 1)))))
                return true;
        }
    }
    return false;
}

bool vault_bindings_conflict(const struct vault_binding *a, const struct vault_binding *b)
{
    const struct vault_match *x = &a->match, *y = &b->match;

    return !a->env && !b->env && lists_meet(&x->schemes, &y->schemes) && ports_meet(x, y) &&
           lists_meet(&x->methods, &y->methods) && paths_meet(&x->paths, &y->paths) &&
           hosts_meet(&x->hosts, &y->hosts);
}

/* --- paths --- */

/* The next byte, decoded as often as it is encoded: "%252e" is a dot for two decoders in a row. */
static char next_byte(struct str *s)
{
    char c = s->p[0];

    *s = str_skip(*s, 1);
    while (c == '%' && s->n >= 2) {
        int high = ascii_hex_value(s->p[0]), low = ascii_hex_value(s->p[1]);

        if (high < 0 || low < 0)
            break;
        c = (char)(high * 16 + low);
        *s = str_skip(*s, 2);
    }
    return c;
}

bool vault_path_is_devious(struct str path)
{
    size_t dots = 0, others = 0;
    bool in_parameters = false;

    while (path.n) {
        char c = next_byte(&path);

        if (c == '/' || c == '\\') {
            if (others == 0 && (dots == 1 || dots == 2))
                return true;
            dots = others = 0;
            in_parameters = false;
        } else if (c == ';') {
            in_parameters = true;
        } else if (c == '\0') {
            return true;
        } else if (!in_parameters) {
            dots += c == '.';
            others += c != '.';
        }
    }
    return others == 0 && (dots == 1 || dots == 2);
}
