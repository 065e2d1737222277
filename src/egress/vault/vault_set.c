#include "egress/vault/vault_set.h"

#include <errno.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/mem.h"
#include "base/url.h"

enum { FORM_BYTES_MAX = 8 * VAULT_VALUE_BYTES_MAX };

struct vault_set *vault_set_new(void)
{
    struct secret_arena memory;
    struct vault_set *s;

    secret_init(&memory, VAULT_BYTES_MAX);
    s = secret_alloc(&memory, sizeof(*s));
    if (!s)
        return NULL;
    s->refs = 1;
    s->memory = memory;
    s->credentials = secret_new_array(&s->memory, struct vault_credential, VAULT_CREDENTIALS_MAX);
    s->bindings = secret_new_array(&s->memory, struct vault_binding, VAULT_BINDINGS_MAX);
    if (s->credentials && s->bindings)
        return s;
    vault_set_unref(s);
    return NULL;
}

struct vault_set *vault_set_ref(struct vault_set *s)
{
    s->refs++;
    return s;
}

void vault_set_unref(struct vault_set *s)
{
    struct secret_arena memory;

    if (!s || --s->refs)
        return;
    memory = s->memory; /* it holds the set itself */
    secret_done(&memory);
}

struct vault_credential *vault_set_credential(const struct vault_set *s, struct str name)
{
    for (size_t i = 0; i < s->credential_count; i++)
        if (str_eq(s->credentials[i].name, name))
            return &s->credentials[i];
    return NULL;
}

struct vault_binding *vault_set_binding(const struct vault_set *s, struct str name)
{
    for (size_t i = 0; i < s->binding_count; i++)
        if (str_eq(s->bindings[i].name, name))
            return &s->bindings[i];
    return NULL;
}

/* --- copies --- */

struct copier {
    struct secret_arena *memory;
    bool failed;
};

static struct str copy_str(struct copier *c, struct str from)
{
    struct str to = secret_str(c->memory, from);

    c->failed |= !to.p;
    return to;
}

static void *copy_room(struct copier *c, size_t count, size_t size)
{
    void *p = secret_alloc_array(c->memory, max_size(count, 1), size);

    c->failed |= !p;
    return p;
}

static struct vault_list copy_list(struct copier *c, const struct vault_list *from)
{
    struct vault_list to = {copy_room(c, from->count, sizeof(struct str)), 0};

    for (; to.rows && to.count < from->count; to.count++)
        to.rows[to.count] = copy_str(c, from->rows[to.count]);
    return to;
}

static void copy_match(struct copier *c, const struct vault_match *from, struct vault_match *to)
{
    to->schemes = copy_list(c, &from->schemes);
    to->hosts = copy_list(c, &from->hosts);
    to->methods = copy_list(c, &from->methods);
    to->paths = copy_list(c, &from->paths);
    to->ports = copy_room(c, from->port_count, sizeof(uint16_t));
    if (to->ports)
        memcpy(to->ports, from->ports, from->port_count * sizeof(uint16_t));
    to->port_count = from->port_count;
}

int vault_binding_copy(struct vault_set *to, const struct vault_binding *from,
                       struct vault_binding *ret)
{
    struct copier c = {&to->memory, false};
    struct vault_binding b = {.auth = from->auth, .env = from->env};

    b.name = copy_str(&c, from->name);
    copy_match(&c, &from->match, &b.match);
    b.headers = copy_room(&c, from->header_count, sizeof(*b.headers));
    b.substitutions = copy_room(&c, from->substitution_count, sizeof(*b.substitutions));
    for (; !c.failed && b.header_count < from->header_count; b.header_count++) {
        const struct vault_header *h = &from->headers[b.header_count];

        b.headers[b.header_count] = (struct vault_header){
            .name = copy_str(&c, h->name), .credential = copy_str(&c, h->credential)};
    }
    for (; !c.failed && b.substitution_count < from->substitution_count; b.substitution_count++) {
        const struct vault_substitution *sub = &from->substitutions[b.substitution_count];

        b.substitutions[b.substitution_count] =
            (struct vault_substitution){.credential = copy_str(&c, sub->credential),
                                        .placeholder = copy_str(&c, sub->placeholder),
                                        .in = sub->in};
    }
    if (c.failed)
        return -ENOMEM;
    *ret = b;
    return 0;
}

int vault_set_add_lost(struct vault_set *s, const struct vault_lost *lost)
{
    struct copier c = {&s->memory, false};

    if (!s->lost)
        s->lost = secret_new_array(&s->memory, struct vault_lost, VAULT_LOST_MAX);
    if (!s->lost)
        return -ENOMEM;
    if (s->lost_count == VAULT_LOST_MAX)
        return -ENOSPC;
    s->lost[s->lost_count] = (struct vault_lost){.name = copy_str(&c, lost->name),
                                                 .placeholder = copy_str(&c, lost->placeholder),
                                                 .hosts = copy_list(&c, &lost->hosts)};
    s->lost_count += !c.failed;
    return c.failed ? -ENOMEM : 0;
}

/* --- what follows from the parts --- */

static int credential_order(const void *a, const void *b)
{
    const struct vault_credential *x = a, *y = b;

    return str_cmp(x->name, y->name);
}

static int binding_order(const void *a, const void *b)
{
    const struct vault_binding *x = a, *y = b;

    return str_cmp(x->name, y->name);
}

static int no_memory(struct err *e)
{
    return err_set(e, ENOMEM, "no locked memory for the credential vault (RLIMIT_MEMLOCK)");
}

static int find_value(const struct vault_set *s, const struct vault_binding *b, struct str name,
                      struct str *ret, struct err *e)
{
    const struct vault_credential *c = vault_set_credential(s, name);

    if (!c)
        return err_set(e, EINVAL, "binding \"%.*s\": there is no credential \"%.*s\"",
                       STR_ARG(b->name), STR_ARG(name));
    *ret = c->value;
    return 0;
}

/* "Bearer " and the value. */
static int render(struct vault_set *s, struct str before, struct str value, struct str *ret,
                  struct err *e)
{
    char *p = secret_alloc(&s->memory, before.n + value.n + 1);

    if (!p)
        return no_memory(e);
    memcpy(p, before.p, before.n);
    memcpy(p + before.n, value.p, value.n);
    *ret = str_make(p, before.n + value.n);
    return 0;
}

static struct str auth_prefix(enum vault_auth auth)
{
    switch (auth) {
    case VAULT_BEARER:
        return STR("Bearer ");
    case VAULT_BASIC:
        return STR("Basic ");
    default:
        return STR("");
    }
}

static struct str url_form(struct vault_set *s, struct str value)
{
    AUTO_BUF(b, FORM_BYTES_MAX);

    buf_keep_secret(&b);
    return url_encode(value, URL_SET_QUERY_VALUE, &b) < 0 ? STR_NONE
                                                          : secret_str(&s->memory, buf_str(&b));
}

/* As inside of a JSON string. */
static struct str json_form(struct vault_set *s, struct str value)
{
    AUTO_BUF(b, FORM_BYTES_MAX);
    struct json_writer w;

    buf_keep_secret(&b);
    json_write_begin(&w, &b);
    json_write_string(&w, value);
    if (json_write_end(&w) < 0)
        return STR_NONE;
    return secret_str(&s->memory, str_make(b.p + 1, b.n - 2));
}

static int resolve_binding(struct vault_set *s, struct vault_binding *b, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < b->header_count; i++) {
        struct str value;

        r = find_value(s, b, b->headers[i].credential, &value, e);
        if (r == 0)
            r = render(s, auth_prefix(b->auth), value, &b->headers[i].value, e);
    }
    for (size_t i = 0; r == 0 && i < b->substitution_count; i++) {
        struct vault_substitution *sub = &b->substitutions[i];

        r = find_value(s, b, sub->credential, &sub->value, e);
        if (r < 0)
            return r;
        sub->in_url = url_form(s, sub->value);
        sub->in_json = json_form(s, sub->value);
        if (!sub->in_url.p || !sub->in_json.p)
            return no_memory(e);
    }
    return r;
}

enum form { FORM_PLAIN, FORM_URL, FORM_JSON };

/* The substitutions of one surface as a rewrite; NULL in *ret without any. */
static int make_surface(struct vault_set *s, const struct vault_binding *b, unsigned surface,
                        enum form form, struct rewrite **ret)
{
    struct rewrite_rule rules[2 * VAULT_LIST_MAX];
    size_t n = 0;

    for (size_t i = 0; i < b->substitution_count; i++) {
        const struct vault_substitution *sub = &b->substitutions[i];
        struct str put = form == FORM_URL ? sub->in_url : sub->value;
        struct str find = sub->placeholder;

        if (!(sub->in & surface))
            continue;
        if (form == FORM_JSON)
            put = sub->in_json;
        rules[n++] = (struct rewrite_rule){find, put, i};
        if (form == FORM_PLAIN)
            continue;
        find = form == FORM_URL ? url_form(s, find) : json_form(s, find);
        if (!find.p)
            return -ENOMEM;
        if (!str_eq(find, sub->placeholder)) /* the same as an encoder writes it */
            rules[n++] = (struct rewrite_rule){find, put, i};
    }
    *ret = n ? rewrite_new(&s->memory, rules, n) : NULL;
    return n && !*ret ? -ENOMEM : 0;
}

static int make_surfaces(struct vault_set *s, struct vault_binding *b, struct err *e)
{
    if (make_surface(s, b, VAULT_IN_PATH, FORM_URL, &b->rewrite_path) < 0 ||
        make_surface(s, b, VAULT_IN_QUERY, FORM_URL, &b->rewrite_query) < 0 ||
        make_surface(s, b, VAULT_IN_HEADER, FORM_PLAIN, &b->rewrite_header) < 0 ||
        make_surface(s, b, VAULT_IN_BODY, FORM_JSON, &b->rewrite_json) < 0 ||
        make_surface(s, b, VAULT_IN_BODY, FORM_URL, &b->rewrite_form) < 0 ||
        make_surface(s, b, VAULT_IN_BODY, FORM_PLAIN, &b->rewrite_text) < 0)
        return no_memory(e);
    return 0;
}

static int check_conflicts(const struct vault_set *s, struct err *e)
{
    for (size_t i = 0; i < s->binding_count; i++)
        for (size_t j = i + 1; j < s->binding_count; j++)
            if (vault_bindings_conflict(&s->bindings[i], &s->bindings[j]))
                return err_set(e, EINVAL,
                               "bindings \"%.*s\" and \"%.*s\" are ambiguous: both may match the "
                               "same request",
                               STR_ARG(s->bindings[i].name), STR_ARG(s->bindings[j].name));
    return 0;
}

/* --- redaction --- */

struct secrets { /* what must not be seen in a response */
    struct vault_set *set;
    struct str *rows;
    size_t count, max;
    bool failed;
};

static void add_secret(struct secrets *all, struct str secret)
{
    if (!secret.p) {
        all->failed = true;
        return;
    }
    for (size_t i = 0; i < all->count; i++)
        if (str_eq(all->rows[i], secret))
            return;
    if (secret.n && all->count < all->max)
        all->rows[all->count++] = secret;
}

/* A server that decodes Basic may echo what is in it. */
static void add_decoded(struct secrets *all, struct str value)
{
    size_t room = BASE64_DATA_MAX(value.n), n = 0, colon;
    char *p = secret_alloc(&all->set->memory, room);
    struct str text;

    if (!p || base64_decode(value, BASE64_STD, p, room, &n) < 0)
        return;
    text = str_make(p, n);
    colon = str_find(text, ':');
    add_secret(all, text);
    if (colon < n)
        add_secret(all, str_skip(text, colon + 1));
}

static bool is_basic(const struct vault_set *s, const struct vault_credential *c)
{
    for (size_t i = 0; i < s->binding_count; i++)
        if (s->bindings[i].auth == VAULT_BASIC &&
            str_eq(s->bindings[i].headers[0].credential, c->name))
            return true;
    return false;
}

/* The same length: a streamed body cannot change its own. */
static struct str mask(struct vault_set *s, size_t n)
{
    static const char text[] = "[REDACTED]";
    char *p = secret_alloc(&s->memory, n + 1);

    for (size_t i = 0; p && i < n; i++)
        p[i] = i < sizeof(text) - 1 ? text[i] : '*';
    return str_make(p, p ? n : 0);
}

static int make_redaction(struct vault_set *s, struct err *e)
{
    struct secrets all = {.set = s, .max = s->credential_count * 5};
    struct rewrite_rule *head, *body;
    size_t body_count = 0;

    all.rows = secret_new_array(&s->memory, struct str, all.max);
    head = secret_new_array(&s->memory, struct rewrite_rule, all.max);
    body = secret_new_array(&s->memory, struct rewrite_rule, all.max);
    for (size_t i = 0; all.rows && i < s->credential_count; i++) {
        const struct vault_credential *c = &s->credentials[i];

        add_secret(&all, c->value);
        add_secret(&all, url_form(s, c->value));
        add_secret(&all, json_form(s, c->value));
        if (is_basic(s, c))
            add_decoded(&all, c->value);
    }
    if (!all.rows || !head || !body || all.failed)
        return no_memory(e);
    for (size_t i = 0; i < all.count; i++) {
        struct str secret = all.rows[i];

        head[i] = (struct rewrite_rule){secret, STR("[REDACTED]"), i};
        if (secret.n < VAULT_BODY_SECRET_MIN)
            continue;
        body[body_count] = (struct rewrite_rule){secret, mask(s, secret.n), i};
        if (!body[body_count++].put.p)
            return no_memory(e);
    }
    s->redact_headers = rewrite_new(&s->memory, head, all.count);
    s->redact_bodies = rewrite_new(&s->memory, body, body_count);
    return s->redact_headers && s->redact_bodies ? 0 : no_memory(e);
}

/* --- placeholders of the environment --- */

static int make_guards(struct vault_set *s, struct err *e)
{
    struct rewrite_rule *rules;
    size_t n = 0, most = s->lost_count;

    for (size_t i = 0; i < s->binding_count; i++)
        most += s->bindings[i].env ? s->bindings[i].substitution_count : 0;
    if (most == 0)
        return 0;
    rules = secret_new_array(&s->memory, struct rewrite_rule, most);
    for (size_t i = 0; rules && i < s->binding_count; i++)
        for (size_t j = 0; s->bindings[i].env && j < s->bindings[i].substitution_count; j++) {
            struct str placeholder = s->bindings[i].substitutions[j].placeholder;

            rules[n++] = (struct rewrite_rule){placeholder, placeholder, i};
        }
    for (size_t i = 0; rules && i < s->lost_count; i++) {
        struct str placeholder = s->lost[i].placeholder;

        rules[n++] = (struct rewrite_rule){placeholder, placeholder, s->binding_count + i};
    }
    s->guards = rules ? rewrite_new(&s->memory, rules, n) : NULL;
    return s->guards ? 0 : no_memory(e);
}

int vault_set_finish(struct vault_set *s, struct err *e)
{
    int r = 0;

    qsort(s->credentials, s->credential_count, sizeof(s->credentials[0]), credential_order);
    qsort(s->bindings, s->binding_count, sizeof(s->bindings[0]), binding_order);
    for (size_t i = 0; r == 0 && i < s->binding_count; i++)
        r = resolve_binding(s, &s->bindings[i], e);
    if (r == 0)
        r = check_conflicts(s, e);
    for (size_t i = 0; r == 0 && i < s->binding_count; i++)
        r = make_surfaces(s, &s->bindings[i], e);
    if (r == 0)
        r = make_redaction(s, e);
    return r < 0 ? r : make_guards(s, e);
}
