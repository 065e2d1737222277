/* auth_api.c - sign-in by OpenID Connect: its routes, its cookies, and who a request is of by them.
 *
 * A cookie goes with every request that a browser sends here, whichever page had it sent. So it
 * counts only beside AUTH_CONSOLE_HEADER, which a page of another origin cannot send: the browser
 * asks first, and the answer allows no credentials. What a browser says of the request's origin
 * must agree, too. */
#include <errno.h>
#include <stdio.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"
#include "server/http/server_internal.h"
#include "server/oidc/oidc.h"

#define SESSION_COOKIE "osb_session"
#define LOGIN_COOKIE   "osb_login"
#define OSB_COOKIE     "osb_command_line" /* the command line that began the sign-in, if one did */
#define CONSOLE_PATH   "/console/"
#define LOGIN_PATH     "/auth/login"

enum { COOKIE_BYTES_MAX = 512, SESSION_BYTES_MAX = 16 * 1024, QUERY_ARENA_MAX = 64 * 1024 };

/* --- cookies --- */

/* A page of a subdomain can set a cookie for all of a domain, but none with this prefix. */
static struct str prefix_of(const struct oidc *o)
{
    return oidc_is_secure(o) ? STR("__Host-") : STR("");
}

static bool is_named(const struct oidc *o, struct str pair, const char *name, struct str *ret_value)
{
    struct str prefix = prefix_of(o), said = STR_NONE;

    pair = str_trim(pair);
    if (!str_cut(&pair, '=', &said) || !pair.p || !str_starts(said, prefix) ||
        !str_eq(str_skip(said, prefix.n), str_of(name)))
        return false;
    *ret_value = pair;
    return true;
}

static struct str cookie_of(const struct oidc *o, const struct http_req *req, const char *name)
{
    const struct http_headers *h = &req->head.headers;
    struct str value;

    for (size_t i = 0; i < h->count; i++) {
        struct str rest = h->rows[i].value, pair;

        if (!str_eq_nocase(h->rows[i].name, STR("Cookie")))
            continue;
        while (str_cut(&rest, ';', &pair))
            if (is_named(o, pair, name, &value))
                return value;
    }
    return STR_NONE;
}

/* The value "" removes it. */
static void set_cookie(const struct oidc *o, struct http_req *req, const char *name,
                       const char *value, int64_t seconds)
{
    AUTO_BUF(text, COOKIE_BYTES_MAX);

    (void)buf_addf(&text, "%.*s%s=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%lld%s",
                   STR_ARG(prefix_of(o)), name, value, (long long)(value[0] ? seconds : 0),
                   oidc_is_secure(o) ? "; Secure" : "");
    (void)http_reply_header(req, STR("Set-Cookie"), buf_str(&text));
}

/* Whether the request is of a page of this server's own. */
static bool is_own_page(const struct oidc *o, const struct http_req *req)
{
    struct str site = http_req_header(req, STR("Sec-Fetch-Site"));
    struct str origin = http_req_header(req, STR("Origin"));

    return http_req_header(req, STR(AUTH_CONSOLE_HEADER)).n > 0 &&
           (!site.n || str_eq(site, STR("same-origin"))) &&
           (!origin.n || str_eq_nocase(origin, str_of(oidc_config(o)->auth_oidc.public_url)));
}

/* --- who a request is of --- */

static bool has_tenant(const struct server *s, const struct principal *p)
{
    return tenants_find(s->tenants, str_of(p->tenant)) != NULL;
}

const struct principal *auth_session(const struct server *s, const struct http_req *req)
{
    const struct principal *found;

    if (!s->oidc || !is_own_page(s->oidc, req))
        return NULL;
    found = sessions_find(oidc_sessions(s->oidc), cookie_of(s->oidc, req, SESSION_COOKIE),
                          time_wall_us() / TIME_US_PER_S);
    return found && has_tenant(s, found) ? found : NULL;
}

const struct principal *auth_principal(const struct server *s, struct http_req *req,
                                       struct err *why)
{
    const struct str scheme = STR("Bearer ");
    struct str value = http_req_header(req, STR("Authorization"));
    struct principal *found;

    if (!s->oidc || value.n <= scheme.n || !oidc_config(s->oidc)->auth_oidc.api_audience[0] ||
        !str_eq_nocase(str_make(value.p, scheme.n), scheme))
        return auth_session(s, req);
    found = arena_new(&req->arena, struct principal);
    if (!found)
        (void)err_set(why, ENOMEM, "out of memory for this request");
    else if (oidc_check_bearer(s->oidc, str_trim(str_skip(value, scheme.n)), found, why) < 0)
        found = NULL;
    else if (!has_tenant(s, found))
        (void)err_set(why, EACCES, "there is no tenant '%s'", found->tenant);
    return why->code ? NULL : found;
}

/* --- answers --- */

void auth_redirect(struct http_req *req, struct str to)
{
    (void)http_reply_header(req, STR("Location"), to);
    (void)http_reply_header(req, STR("Cache-Control"), STR("no-store"));
    (void)http_reply_header(req, STR("Referrer-Policy"), STR("no-referrer"));
    http_reply(req, 303, STR_NONE, STR_NONE);
}

/* The console says it in words; the log has the reason. */
static void refuse(struct http_req *req, const char *word, const char *why)
{
    AUTO_BUF(to, COOKIE_BYTES_MAX);
    struct server *s = server_of(req);

    if (log_limit_pass(&s->sign_in_limit, loop_now_ns(s->loop)))
        log_event(LOG_WARN, "a sign-in was refused", LOG_STR("reason", word), LOG_STR("error", why),
                  LOG_STR("request_id", req->id));
    (void)buf_addf(&to, CONSOLE_PATH "?signin=%s", word);
    auth_redirect(req, buf_str(&to));
}

static bool require_oidc(struct http_req *req)
{
    if (server_of(req)->oidc)
        return true;
    http_reply_error(req, 404, "NOT_FOUND",
                     "nobody signs in here: auth.oidc.issuer is not set, see docs/guides/teams.md");
    return false;
}

/* --- the routes --- */

void handle_auth_session_get(struct http_req *req)
{
    const struct server *s = server_of(req);
    const struct principal *p = auth_session(s, req);
    AUTO_BUF(body, SESSION_BYTES_MAX);
    AUTO_BUF(url, SESSION_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_bool(&w, STR("signedIn"), p != NULL);
    if (p)
        json_member_string(&w, STR("user"), str_of(p->user));
    if (s->oidc) {
        json_write_key(&w, STR("signIn"));
        json_write_object(&w);
        json_member_string(&w, STR("name"), str_of(oidc_config(s->oidc)->auth_oidc.name));
        json_member_string(&w, STR("path"), STR(LOGIN_PATH));
        (void)buf_addf(&url, "%s" LOGIN_PATH, oidc_config(s->oidc)->auth_oidc.public_url);
        json_member_string(&w, STR("url"), buf_str(&url));
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
    (void)http_reply_header(req, STR("Cache-Control"), STR("no-store"));
    reply_json(req, 200, &body, json_write_end(&w));
}

static void on_begun(void *user, const struct login *login, struct str url, const struct err *e)
{
    struct pending *p = user;
    struct http_req *req = p->req;

    if (req && e) {
        refuse(req, "unavailable", e->msg);
    } else if (req) {
        AUTO_ARENA(arena, QUERY_ARENA_MAX);
        struct api_fail f = {0};
        struct str line = STR_NONE;

        (void)auth_command_line(req, &arena, &line, &f); /* was checked */
        set_cookie(p->server->oidc, req, LOGIN_COOKIE, login->cookie, LOGIN_S);
        set_cookie(p->server->oidc, req, OSB_COOKIE, line.n ? line.p : "", LOGIN_S);
        auth_redirect(req, url);
    }
    pending_end(p);
}

static struct pending *pending_new(struct http_req *req)
{
    struct pending *p = mem_new(struct pending);

    pending_init(p, req, NULL);
    return p;
}

void handle_auth_login_get(struct http_req *req)
{
    AUTO_ARENA(arena, QUERY_ARENA_MAX);
    struct api_fail f = {0};
    struct str line;

    if (!require_oidc(req))
        return;
    if (auth_command_line(req, &arena, &line, &f) < 0)
        reply_fail(req, &f);
    else
        oidc_begin(server_of(req)->oidc, on_begun, pending_new(req));
}

static void sign_in(struct server *s, struct http_req *req, const struct principal *p)
{
    int64_t now_s = time_wall_us() / TIME_US_PER_S;
    int64_t seconds = oidc_config(s->oidc)->auth_oidc.session_seconds;
    struct str line = cookie_of(s->oidc, req, OSB_COOKIE);
    char secret[SESSION_TEXT_MAX];

    guard_set_principal(req, p);
    if (!has_tenant(s, p)) {
        refuse(req, "no_role", "the user's tenant does not exist");
        return;
    }
    if (line.n) {
        set_cookie(s->oidc, req, OSB_COOKIE, "", 0);
        auth_lead_back(req, p, line);
        return;
    }
    if (sessions_add(oidc_sessions(s->oidc), p, now_s, now_s + seconds, secret) < 0) {
        refuse(req, "unavailable", "out of memory");
        return;
    }
    log_event(LOG_INFO, "signed in", LOG_STR("by", p->key_id), LOG_STR("user", p->user),
              LOG_STR("tenant", p->tenant), LOG_STR("role", principal_role_name(p->role)),
              LOG_STR("request_id", req->id));
    set_cookie(s->oidc, req, SESSION_COOKIE, secret, seconds);
    auth_redirect(req, STR(CONSOLE_PATH));
}

static void on_signed_in(void *user, const struct principal *principal, const struct err *e)
{
    struct pending *p = user;
    struct http_req *req = p->req;

    if (req)
        set_cookie(p->server->oidc, req, LOGIN_COOKIE, "", 0);
    if (req && principal)
        sign_in(p->server, req, principal);
    else if (req)
        refuse(req,
               e->code == EACCES   ? "no_role"
               : e->code == EINVAL ? "expired"
                                   : "failed",
               e->msg);
    pending_end(p);
}

/* A parameter of the query; STR_NONE when it is missing, or broken. */
static struct str param(struct http_req *req, struct arena *a, const char *name)
{
    struct str value = STR_NONE;

    return url_query_get(req->head.query, str_of(name), a, &value) == 1 ? value : STR_NONE;
}

void handle_auth_callback_get(struct http_req *req)
{
    struct oidc *o = server_of(req)->oidc;
    AUTO_ARENA(arena, QUERY_ARENA_MAX);
    struct str error, issuer;

    if (!require_oidc(req))
        return;
    error = param(req, &arena, "error");
    issuer = param(req, &arena, "iss");
    if (error.n) {
        set_cookie(o, req, LOGIN_COOKIE, "", 0);
        refuse(req, "declined", "the provider refused it");
    } else if (issuer.n && !str_eq(issuer, str_of(oidc_config(o)->auth_oidc.issuer))) {
        refuse(req, "failed", "the answer is of another issuer");
    } else {
        oidc_end(o, cookie_of(o, req, LOGIN_COOKIE), param(req, &arena, "state"),
                 param(req, &arena, "code"), on_signed_in, pending_new(req));
    }
}

void handle_auth_logout_post(struct http_req *req)
{
    struct server *s = server_of(req);
    const struct principal *p = auth_session(s, req);

    if (!require_oidc(req))
        return;
    if (!p) {
        http_reply_error(req, 401, "MISSING_API_KEY", "nobody is signed in, or another page asks");
        return;
    }
    guard_set_principal(req, p);
    sessions_end(oidc_sessions(s->oidc), cookie_of(s->oidc, req, SESSION_COOKIE));
    set_cookie(s->oidc, req, SESSION_COOKIE, "", 0);
    http_reply(req, 204, STR_NONE, STR_NONE);
}
