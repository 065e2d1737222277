/* vault_take.c - one credential, one binding: check, normalise, copy. */
#include <errno.h>

#include "egress/vault/vault_read.h"
#include "net/http.h"

static int no_memory(struct err *e)
{
    return err_set(e, ENOMEM, "no locked memory for the credential vault (RLIMIT_MEMLOCK)");
}

static int take_str(struct vault_set *s, struct str from, struct str *ret, struct err *e)
{
    *ret = secret_str(&s->memory, from);
    return ret->p ? 0 : no_memory(e);
}

/* A copy with every byte through `change`. */
static int take_changed(struct vault_set *s, struct str from, char (*change)(char), struct str *ret,
                        struct err *e)
{
    int r = take_str(s, from, ret, e);

    for (size_t i = 0; r == 0 && i < ret->n; i++)
        ((char *)ret->p)[i] = change(from.p[i]);
    return r;
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool in_list(const struct vault_list *list, struct str value)
{
    for (size_t i = 0; i < list->count; i++)
        if (str_eq(list->rows[i], value))
            return true;
    return false;
}

/* Trims also line breaks, as clients of the original may expect. */
static struct str trim(struct str s)
{
    while (s.n && (unsigned char)s.p[0] <= ' ')
        s = str_skip(s, 1);
    while (s.n && (unsigned char)s.p[s.n - 1] <= ' ')
        s.n--;
    return s;
}

static int take_name(struct vault_set *s, struct str from, const char *what, struct str *ret,
                     struct err *e)
{
    struct str name = trim(from);

    if (name.n == 0)
        return err_set(e, EINVAL, "%s name must not be blank", what);
    if (name.n > VAULT_NAME_BYTES_MAX)
        return err_set(e, EINVAL, "%s name is longer than %d bytes", what, VAULT_NAME_BYTES_MAX);
    return take_str(s, name, ret, e);
}

int vault_take_credential(struct vault_set *s, const struct vault_in_credential *in,
                          struct vault_credential *ret, struct err *e)
{
    struct str type = trim(in->source.type);
    int r = take_name(s, in->name, "credential", &ret->name, e);

    if (r < 0)
        return r;
    if (type.n && !str_eq(type, STR("inline")))
        return err_set(e, EINVAL, "credential \"%.*s\": source type must be \"inline\"",
                       STR_ARG(ret->name));
    if (in->source.value.n == 0)
        return err_set(e, EINVAL, "credential \"%.*s\": source value must not be empty",
                       STR_ARG(ret->name));
    if (in->source.value.n > VAULT_VALUE_BYTES_MAX)
        return err_set(e, EINVAL, "credential \"%.*s\": source value is longer than %d bytes",
                       STR_ARG(ret->name), VAULT_VALUE_BYTES_MAX);
    if (!http_is_value(in->source.value))
        return err_set(e, EINVAL,
                       "credential \"%.*s\": source value holds a line break or control byte",
                       STR_ARG(ret->name));
    return take_str(s, in->source.value, &ret->value, e);
}

/* --- match --- */

/* Letters, digits and hyphens in labels of 1 to 63, at least two of them; the last is not a number,
 * as in an IPv4 address. */
static bool is_fqdn(struct str host)
{
    struct str rest = host, label = STR_NONE;
    size_t labels = 0;
    bool letters = false;

    if (host.n == 0 || host.n > 253)
        return false;
    while (str_cut(&rest, '.', &label)) {
        letters = false;
        if (label.n == 0 || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
            return false;
        for (size_t i = 0; i < label.n; i++) {
            char c = label.p[i];

            if (!ascii_is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-')
                return false;
            letters |= !ascii_is_digit(c);
        }
        labels++;
    }
    return labels >= 2 && letters;
}

static int take_host(struct vault_set *s, struct str from, struct str *ret, struct err *e)
{
    struct str host = trim(from), name;
    int r;

    if (str_ends(host, STR(".")))
        host.n--;
    r = take_changed(s, host, ascii_lower, ret, e);
    if (r < 0)
        return r;
    name = str_starts(*ret, STR("*.")) ? str_skip(*ret, 2) : *ret;
    if (!is_fqdn(name))
        return err_set(e, EINVAL,
                       "match.hosts: \"%.*s\" is not a full domain name or \"*.\" and one",
                       (int)min_size(host.n, 100), host.p);
    return 0;
}

static int take_scheme(struct vault_set *s, struct str from, struct str *ret, struct err *e)
{
    int r = take_changed(s, trim(from), ascii_lower, ret, e);

    if (r == 0 && !str_eq(*ret, STR("https")) && !str_eq(*ret, STR("http")))
        r = err_set(e, EINVAL, "match.schemes: expected \"https\" or \"http\"");
    return r;
}

static int take_method(struct vault_set *s, struct str from, struct str *ret, struct err *e)
{
    int r = take_changed(s, trim(from), upper, ret, e);

    if (r == 0 && !http_is_token(*ret))
        r = err_set(e, EINVAL, "match.methods: expected the name of a method");
    return r;
}

static int take_path(struct vault_set *s, struct str from, struct str *ret, struct err *e)
{
    struct str path = trim(from);
    size_t star = str_find(path, '*');

    if (path.n == 0 || path.p[0] != '/')
        return err_set(e, EINVAL, "match.paths: a path must begin with \"/\"");
    if (star + 1 < path.n)
        return err_set(e, EINVAL, "match.paths: \"*\" may only be the last character");
    if (str_find(path, '?') < path.n || str_find(path, '#') < path.n || vault_path_is_devious(path))
        return err_set(e, EINVAL,
                       "match.paths: a path has no query, no fragment and no dot segments");
    return take_str(s, path, ret, e);
}

typedef int take_fn(struct vault_set *s, struct str from, struct str *ret, struct err *e);

/* Fills a list without duplicates, in order; with the defaults when none is given. */
static int take_list(struct vault_set *s, const struct str *rows, size_t count,
                     const struct str *defaults, size_t default_count, take_fn *take,
                     struct vault_list *ret, struct err *e)
{
    if (count == 0) {
        rows = defaults;
        count = default_count;
    }
    ret->rows = secret_new_array(&s->memory, struct str, count);
    if (!ret->rows)
        return no_memory(e);
    for (size_t i = 0; i < count; i++) {
        struct str row;
        int r = take(s, rows[i], &row, e);

        if (r < 0)
            return r;
        if (!in_list(ret, row))
            ret->rows[ret->count++] = row;
    }
    return 0;
}

static void add_port(struct vault_match *m, uint32_t port)
{
    for (size_t i = 0; i < m->port_count; i++)
        if (m->ports[i] == port)
            return;
    m->ports[m->port_count++] = (uint16_t)port;
}

/* Without ports, those of the schemes. */
static int take_ports(struct vault_set *s, const struct vault_in_binding *in, struct vault_match *m,
                      struct err *e)
{
    m->ports = secret_new_array(&s->memory, uint16_t, max_size(in->match.ports_count, 2));
    if (!m->ports)
        return no_memory(e);
    for (size_t i = 0; i < in->match.ports_count; i++) {
        uint32_t port = in->match.ports[i];

        if (port != 80 && port != 443)
            return err_set(e, EINVAL, "match.ports: port %u is not intercepted; expected 80 or 443",
                           port);
        add_port(m, port);
    }
    for (size_t i = 0; in->match.ports_count == 0 && i < m->schemes.count; i++)
        add_port(m, str_eq(m->schemes.rows[i], STR("https")) ? 443 : 80);
    return 0;
}

static int take_match(struct vault_set *s, const struct vault_in_binding *in, struct vault_match *m,
                      struct err *e)
{
    static const struct str schemes[] = {STR_INIT("https")};
    static const struct str paths[] = {STR_INIT("/*")};
    static const struct str methods[] = {STR_INIT("GET"), STR_INIT("POST"), STR_INIT("PUT"),
                                         STR_INIT("PATCH"), STR_INIT("DELETE")};
    int r = 0;

    if (in->match.hosts_count == 0)
        return err_set(e, EINVAL, "match.hosts must not be empty");
    r = take_list(s, in->match.schemes, in->match.schemes_count, schemes, ARRAY_LEN(schemes),
                  take_scheme, &m->schemes, e);
    if (r == 0)
        r = take_list(s, in->match.hosts, in->match.hosts_count, NULL, 0, take_host, &m->hosts, e);
    if (r == 0)
        r = take_list(s, in->match.methods, in->match.methods_count, methods, ARRAY_LEN(methods),
                      take_method, &m->methods, e);
    if (r == 0)
        r = take_list(s, in->match.paths, in->match.paths_count, paths, ARRAY_LEN(paths), take_path,
                      &m->paths, e);
    return r < 0 ? r : take_ports(s, in, m, e);
}

/* --- auth --- */

static const struct str reserved_headers[] = {
    STR_INIT("host"),
    STR_INIT("content-length"),
    STR_INIT("content-type"),
    STR_INIT("transfer-encoding"),
    STR_INIT("connection"),
    STR_INIT("upgrade"),
    STR_INIT("te"),
    STR_INIT("trailer"),
    STR_INIT("forwarded"),
    STR_INIT("proxy-authorization"),
    STR_INIT("keep-alive"),
    STR_INIT("proxy-authenticate"),
    STR_INIT("expect"),
    STR_INIT("proxy-connection"),
    STR_INIT("x-forwarded-for"),
    STR_INIT("x-forwarded-host"),
    STR_INIT("x-forwarded-proto"),
};

/* PRIVATE-TOKEN becomes Private-Token. */
static void canonical_name(struct str name)
{
    char *p = (char *)name.p;

    for (size_t i = 0; i < name.n; i++)
        p[i] = i == 0 || p[i - 1] == '-' ? upper(p[i]) : ascii_lower(p[i]);
}

static int take_header(struct vault_set *s, struct str name, struct str credential,
                       struct vault_binding *b, struct err *e)
{
    struct vault_header *h = &b->headers[b->header_count];
    int r;

    name = trim(name);
    if (!http_is_token(name) || name.n > VAULT_NAME_BYTES_MAX)
        return err_set(e, EINVAL, "auth: expected the name of a header");
    for (size_t i = 0; i < ARRAY_LEN(reserved_headers); i++)
        if (str_eq_nocase(name, reserved_headers[i]))
            return err_set(e, EINVAL, "auth: header \"%.*s\" is reserved", STR_ARG(name));
    for (size_t i = 0; i < b->header_count; i++)
        if (str_eq_nocase(name, b->headers[i].name))
            return err_set(e, EINVAL, "auth: header \"%.*s\" is given twice", STR_ARG(name));
    if (trim(credential).n == 0)
        return err_set(e, EINVAL, "auth: expected the name of a credential");
    r = take_str(s, name, &h->name, e);
    if (r == 0)
        r = take_str(s, trim(credential), &h->credential, e);
    if (r < 0)
        return r;
    canonical_name(h->name);
    b->header_count++;
    return 0;
}

static const struct {
    struct str name;
    enum vault_auth auth;
} auth_types[] = {
    {STR_INIT("bearer"),        VAULT_BEARER        },
    {STR_INIT("basic"),         VAULT_BASIC         },
    {STR_INIT("apiKey"),        VAULT_API_KEY       },
    {STR_INIT("customHeaders"), VAULT_CUSTOM_HEADERS},
    {STR_INIT("passthrough"),   VAULT_PASSTHROUGH   },
};

static int take_auth_type(const struct vault_in_binding *in, enum vault_auth *ret, struct err *e)
{
    struct str type = trim(in->auth.type);

    for (size_t i = 0; i < ARRAY_LEN(auth_types); i++) {
        if (str_eq(type, auth_types[i].name)) {
            *ret = auth_types[i].auth;
            return 0;
        }
    }
    return err_set(e, EINVAL,
                   "auth.type: expected bearer, basic, apiKey, customHeaders or passthrough");
}

static int take_headers(struct vault_set *s, const struct vault_in_binding *in,
                        struct vault_binding *b, struct err *e)
{
    int r = 0;

    b->headers =
        secret_new_array(&s->memory, struct vault_header, max_size(in->auth.headers_count, 1));
    if (!b->headers)
        return no_memory(e);
    switch (b->auth) {
    case VAULT_BEARER:
    case VAULT_BASIC:
        return take_header(s, STR("Authorization"), in->auth.credential, b, e);
    case VAULT_API_KEY:
        return take_header(s, in->auth.name, in->auth.credential, b, e);
    case VAULT_CUSTOM_HEADERS:
        if (in->auth.headers_count == 0)
            return err_set(e, EINVAL, "auth.headers must not be empty");
        for (size_t i = 0; r == 0 && i < in->auth.headers_count; i++)
            r = take_header(s, in->auth.headers[i].name, in->auth.headers[i].credential, b, e);
        return r;
    case VAULT_PASSTHROUGH:
        break;
    }
    return 0;
}

static const struct {
    struct str name;
    enum vault_surface bit;
} surfaces[] = {
    {STR_INIT("path"),   VAULT_IN_PATH  },
    {STR_INIT("query"),  VAULT_IN_QUERY },
    {STR_INIT("header"), VAULT_IN_HEADER},
    {STR_INIT("body"),   VAULT_IN_BODY  },
};

static int take_surfaces(const struct vault_in_substitution *in, unsigned *ret, struct err *e)
{
    unsigned bits = 0;

    for (size_t i = 0; i < in->in_count; i++) {
        unsigned bit = 0;

        for (size_t j = 0; j < ARRAY_LEN(surfaces); j++)
            bit |= str_eq(trim(in->in[i]), surfaces[j].name) ? surfaces[j].bit : 0;
        if (!bit)
            return err_set(e, EINVAL,
                           "auth.substitutions.in: expected path, query, header or body");
        bits |= bit;
    }
    if (!bits)
        return err_set(e, EINVAL, "auth.substitutions.in must not be empty");
    *ret = bits;
    return 0;
}

static int take_substitution(struct vault_set *s, const struct vault_in_substitution *in,
                             struct vault_binding *b, struct err *e)
{
    struct vault_substitution *sub = &b->substitutions[b->substitution_count];
    int r = take_surfaces(in, &sub->in, e);

    if (r < 0)
        return r;
    if (in->placeholder.n == 0 || in->placeholder.n > VAULT_NAME_BYTES_MAX ||
        !http_is_value(in->placeholder))
        return err_set(e, EINVAL,
                       "auth.substitutions.placeholder: expected 1 to %d bytes of printable text",
                       VAULT_NAME_BYTES_MAX);
    for (size_t i = 0; i < b->substitution_count; i++)
        if (str_eq(b->substitutions[i].placeholder, in->placeholder) &&
            b->substitutions[i].in & sub->in)
            return err_set(e, EINVAL, "auth.substitutions: a placeholder is given twice");
    if (trim(in->credential).n == 0)
        return err_set(e, EINVAL, "auth.substitutions: expected the name of a credential");
    r = take_str(s, in->placeholder, &sub->placeholder, e);
    if (r == 0)
        r = take_str(s, trim(in->credential), &sub->credential, e);
    b->substitution_count += r == 0;
    return r;
}

static int take_auth(struct vault_set *s, const struct vault_in_binding *in,
                     struct vault_binding *b, struct err *e)
{
    int r = take_auth_type(in, &b->auth, e);

    if (r == 0)
        r = take_headers(s, in, b, e);
    if (r < 0)
        return r;
    b->substitutions = secret_new_array(&s->memory, struct vault_substitution,
                                        max_size(in->auth.substitutions_count, 1));
    if (!b->substitutions)
        return no_memory(e);
    for (size_t i = 0; r == 0 && i < in->auth.substitutions_count; i++)
        r = take_substitution(s, &in->auth.substitutions[i], b, e);
    return r;
}

int vault_take_binding(struct vault_set *s, const struct vault_in_binding *in,
                       struct vault_binding *ret, struct err *e)
{
    int r = take_name(s, in->name, "binding", &ret->name, e);

    if (r < 0)
        return r;
    r = take_match(s, in, &ret->match, e);
    if (r == 0)
        r = take_auth(s, in, ret, e);
    return r < 0 ? err_wrap(e, r, "binding \"%.*s\"", STR_ARG(ret->name)) : 0;
}
