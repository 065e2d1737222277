/* inject.c - puts secrets into requests, and takes them out of responses. */
#include <errno.h>

#include "base/codec.h"
#include "egress/intercept/flow.h"

enum { HEAD_TEXT_MAX = 64 * 1024, BASIC_BYTES_MAX = 8 * 1024 };

/* --- leaks: placeholders on their way to hosts they are not for --- */

static bool lost_concerns(const struct flow *f, const struct vault_lost *lost)
{
    for (size_t i = 0; i < lost->hosts.count; i++)
        if (vault_host_covers(lost->hosts.rows[i], f->facts.host))
            return true;
    return lost->name.n > 0;
}

static int guard_on_hit(void *user, const struct rewrite_rule *rule)
{
    struct flow *f = user;
    size_t bindings = f->set->binding_count;

    if (rule->tag >= bindings) {
        if (!lost_concerns(f, &f->set->lost[rule->tag - bindings]))
            return 0;
        f->lost = true;
    } else {
        for (size_t i = 0; i < f->env_count; i++)
            if (f->envs[i] == &f->set->bindings[rule->tag])
                return 0;
    }
    f->leaks = true;
    return -EACCES;
}

/* Whether the text has one. */
static bool text_leaks(struct flow *f, struct str text)
{
    struct rewrite_stream s;
    AUTO_BUF(out, HEAD_TEXT_MAX);
    int r;

    rewrite_begin(&s, f->set->guards);
    s.on_hit = guard_on_hit;
    s.user = f;
    r = rewrite_next(&s, text, true, &out);
    rewrite_end(&s);
    return r < 0;
}

/* The user:password of "Basic ..."; STR_NONE for other values. In the buffer. */
static struct str basic_text(struct str name, struct str value, char room[static BASIC_BYTES_MAX])
{
    static const struct str scheme = STR_INIT("Basic ");
    size_t n = 0;

    if (!str_eq_nocase(name, STR("Authorization")) || value.n <= scheme.n ||
        !str_eq_nocase(str_make(value.p, scheme.n), scheme) ||
        base64_decode(str_trim(str_skip(value, scheme.n)), BASE64_STD, room, BASIC_BYTES_MAX, &n) <
            0)
        return STR_NONE;
    return str_make(room, n);
}

bool inject_finds_leak(struct flow *f)
{
    const struct http_headers *h = &f->req->head.headers;
    char room[BASIC_BYTES_MAX];
    bool leaks = false;

    if (!f->set || !f->set->guards)
        return false;
    leaks = text_leaks(f, f->req->head.target) || text_leaks(f, f->facts.method);
    for (size_t i = 0; !leaks && i < h->count; i++) {
        struct str basic = basic_text(h->rows[i].name, h->rows[i].value, room);

        leaks = text_leaks(f, h->rows[i].name) || text_leaks(f, h->rows[i].value) ||
                (basic.p && text_leaks(f, basic));
    }
    f->leaks = false; /* refused and recorded by the caller */
    return leaks;
}

/* --- the head --- */

/* Rewrites into the arena of the request; *ret stays where nothing was found. */
static int rewrite_text(struct flow *f, const struct rewrite *r, struct str *ret)
{
    struct rewrite_stream s;
    AUTO_BUF(out, HEAD_TEXT_MAX);
    int error;

    if (!r)
        return 0;
    buf_keep_secret(&out);
    rewrite_begin(&s, r);
    error = rewrite_next(&s, *ret, true, &out);
    rewrite_end(&s);
    if (error < 0 || s.hits == 0)
        return error;
    *ret = arena_str(&f->req->arena, buf_str(&out));
    f->injects = true;
    return ret->p ? 0 : -ENOMEM;
}

static int rewrite_basic(struct flow *f, const struct rewrite *r, struct http_header *row)
{
    char room[BASIC_BYTES_MAX];
    struct str text = basic_text(row->name, row->value, room), was = text;
    char *value;
    size_t n;

    if (!r || !text.p || rewrite_text(f, r, &text) < 0 || text.p == was.p)
        return 0;
    value = arena_alloc(&f->req->arena, STR("Basic ").n + BASE64_TEXT_MAX(text.n));
    if (!value)
        return -ENOMEM;
    memcpy(value, "Basic ", STR("Basic ").n);
    n = base64_encode(text, BASE64_STD, value + STR("Basic ").n);
    row->value = str_make(value, STR("Basic ").n + n);
    return 0;
}

static int inject_target(struct flow *f, const struct vault_binding *b)
{
    size_t mark = str_find(f->target, '?');
    struct str path = str_make(f->target.p, mark);
    struct str query = mark < f->target.n ? str_skip(f->target, mark + 1) : STR_NONE;
    struct str path_was = path, query_was = query;
    const char *text;
    int r = rewrite_text(f, b->rewrite_path, &path);

    if (r == 0 && query.p)
        r = rewrite_text(f, b->rewrite_query, &query);
    if (r < 0 || (path.p == path_was.p && query.p == query_was.p))
        return r;
    text = arena_printf(&f->req->arena, "%.*s%s%.*s", STR_ARG(path), query.p ? "?" : "",
                        STR_ARG(query));
    f->target = str_of(text);
    return text ? 0 : -ENOMEM;
}

static int inject_headers(struct flow *f, const struct vault_binding *b)
{
    struct http_headers *h = &f->req->head.headers;
    int r = 0;

    for (size_t i = 0; r == 0 && b->rewrite_header && i < h->count; i++) {
        struct http_header *row = &h->rows[i];

        if (str_eq_nocase(row->name, STR("Host")) ||
            str_eq_nocase(row->name, STR("Content-Length")))
            continue;
        r = rewrite_text(f, b->rewrite_header, &row->value);
        if (r == 0)
            r = rewrite_basic(f, b->rewrite_header, row);
    }
    return r;
}

/* Which text of a binding fits the body; NULL: none of it. */
static const struct rewrite *body_rewrite(const struct flow *f, const struct vault_binding *b)
{
    const struct http_headers *h = &f->req->head.headers;
    struct str coding = http_header_get(h, STR("Content-Encoding"));
    struct str type = http_header_get(h, STR("Content-Type"));

    type = str_trim(str_make(type.p, str_find(type, ';')));
    if ((coding.n && !str_eq_nocase(coding, STR("identity"))) ||
        (type.n >= 10 && str_eq_nocase(str_make(type.p, 10), STR("multipart/"))))
        return NULL;
    if (str_eq_nocase(type, STR("application/x-www-form-urlencoded")))
        return b->rewrite_form;
    if (str_eq_nocase(type, STR("application/json")) ||
        (type.n > 5 && str_eq_nocase(str_skip(type, type.n - 5), STR("+json"))))
        return b->rewrite_json;
    return b->rewrite_text;
}

static int inject_binding(struct flow *f, const struct vault_binding *b)
{
    const struct rewrite *body = body_rewrite(f, b);
    int r = inject_target(f, b);

    if (r == 0)
        r = inject_headers(f, b);
    if (r == 0 && body && f->req->body_state != HTTP_BODY_DONE) {
        rewrite_begin(&f->put[f->put_count++], body);
        f->injects = true;
    }
    return r;
}

static void record_use(struct flow *f, const struct vault_binding *b)
{
    f->box->stats.injected++;
    icpt_event(f->box, &(struct intercept_event){.kind = "vault.use",
                                                 .host = f->facts.host,
                                                 .method = f->facts.method,
                                                 .path = f->facts.path,
                                                 .binding = b->name,
                                                 .revision = f->set->revision});
}

int inject_head(struct flow *f)
{
    int r = 0;

    if (!f->set)
        return 0;
    if (f->set->guards && f->req->body_state != HTTP_BODY_DONE) {
        f->guarded = true;
        rewrite_begin(&f->guard, f->set->guards);
        f->guard.on_hit = guard_on_hit;
        f->guard.user = f;
    }
    if (f->binding) {
        r = inject_binding(f, f->binding);
        f->injects |= f->binding->header_count > 0;
        record_use(f, f->binding);
    }
    for (size_t i = 0; r == 0 && i < f->env_count; i++) {
        bool before = f->injects;

        f->injects = false;
        r = inject_binding(f, f->envs[i]);
        if (f->injects)
            record_use(f, f->envs[i]);
        f->injects |= before;
    }
    f->req->secret = f->injects;
    if (f->injects)
        rewrite_begin(&f->redact, f->set->redact_bodies);
    return r;
}

/* --- bodies --- */

/* The guard first, then one rewrite after the other. */
int inject_request_piece(void *user, struct str in, bool last, struct buf *out)
{
    struct flow *f = user;
    struct buf a, b;
    int r = 0;

    if (!f->guarded && f->put_count == 1)
        return rewrite_next(&f->put[0], in, last, out);
    buf_init(&a, FLOW_EXPANDED_MAX);
    buf_init(&b, FLOW_EXPANDED_MAX);
    buf_keep_secret(&a);
    buf_keep_secret(&b);
    r = f->guarded ? rewrite_next(&f->guard, in, last, &a) : buf_add(&a, in);
    for (size_t i = 0; r == 0 && i < f->put_count; i++) {
        struct buf swap = a;

        r = rewrite_next(&f->put[i], buf_str(&a), last, &b);
        a = b;
        b = swap;
        b.n = 0;
    }
    if (r == 0)
        r = buf_add(out, buf_str(&a));
    buf_done(&a);
    buf_done(&b);
    return r;
}

int inject_response_piece(void *user, struct str in, bool last, struct buf *out)
{
    struct flow *f = user;

    return f->redacts_body ? rewrite_next(&f->redact, in, last, out) : buf_add(out, in);
}

void inject_redact_rows(struct flow *f, struct http_headers *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        struct http_header *row = &rows->rows[i];
        struct rewrite_stream s;
        AUTO_BUF(out, HEAD_TEXT_MAX);
        struct str clean = STR_NONE;

        if (str_eq_nocase(row->name, STR("Content-Length")))
            continue;
        rewrite_begin(&s, f->set->redact_headers);
        buf_keep_secret(&out);
        if (rewrite_next(&s, row->value, true, &out) == 0 && s.hits)
            clean = arena_str(&f->req->arena, buf_str(&out));
        rewrite_end(&s);
        if (s.hits)
            row->value = clean.p ? clean : STR("[REDACTED]");
    }
}
