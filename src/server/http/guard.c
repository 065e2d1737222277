#include "server/http/guard.h"

#include "base/id.h"

/* --- request ids --- */

/* Whether it is safe in a log line and a header. */
static bool is_request_id(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < ' ' || s.p[i] > '~')
            return false;
    return s.n > 0 && s.n <= GUARD_ID_BYTES_MAX;
}

static void guard_name(struct http_req *req, struct str wanted)
{
    char made[ID_REQUEST_MAX];

    if (is_request_id(wanted)) {
        req->id = wanted; /* points into the head, which lives as long */
    } else {
        id_request(made);
        req->id = arena_str(&req->arena, str_of(made));
    }
    (void)http_reply_header(req, STR(GUARD_ID_HEADER), req->id);
}

void guard_refuse(struct http_req *req)
{
    if (!req->id.p)
        guard_name(req, STR_NONE);
}

/* --- CORS --- */

size_t guard_cors_rows(const struct http_req *req, struct http_header rows[GUARD_CORS_ROWS])
{
    struct str origin = http_req_header(req, STR("Origin"));

    if (!origin.n)
        return 0;
    rows[0] = (struct http_header){STR("Access-Control-Allow-Origin"), origin};
    rows[1] = (struct http_header){STR("Vary"), STR("Origin")};
    return GUARD_CORS_ROWS;
}

/* True when the request has an Origin. */
static bool guard_add_cors(struct http_req *req)
{
    struct http_header rows[GUARD_CORS_ROWS];
    size_t n = guard_cors_rows(req, rows);

    for (size_t i = 0; i < n; i++)
        (void)http_reply_header(req, rows[i].name, rows[i].value);
    return n > 0;
}

static bool is_preflight(const struct http_req *req)
{
    return req->head.method == HTTP_OPTIONS &&
           http_req_header(req, STR("Access-Control-Request-Method")).n > 0;
}

static void reply_preflight(struct http_req *req)
{
    struct str asked = http_req_header(req, STR("Access-Control-Request-Headers"));

    (void)http_reply_header(req, STR("Access-Control-Allow-Methods"),
                            STR("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"));
    (void)http_reply_header(req, STR("Access-Control-Max-Age"), STR("600"));
    if (asked.n)
        (void)http_reply_header(req, STR("Access-Control-Allow-Headers"), asked);
    http_reply(req, 200, STR("text/plain; charset=utf-8"), STR("OK"));
}

/* --- principals --- */

const struct principal *guard_principal(const struct http_req *req)
{
    return req->principal ? req->principal : &principal_nobody;
}

void guard_set_principal(struct http_req *req, const struct principal *principal)
{
    struct principal *copy = arena_new(&req->arena, struct principal);

    if (copy)
        *copy = *principal;
    req->principal = copy;
}

/* --- API keys --- */

void guard_add_key(struct guard *g, struct str key)
{
    if (g->key_count == GUARD_KEYS_MAX)
        return;
    g->keys[g->key_count] = key;
    g->principals[g->key_count++] = principal_of_key(key);
}

const struct principal *guard_find_key(const struct guard *g, struct str key)
{
    const struct principal *found = NULL;

    for (size_t i = 0; i < g->key_count; i++) /* all, so that the time does not show which */
        found = str_eq_secret(key, g->keys[i]) ? &g->principals[i] : found;
    if (!found && key.n > 0 && g->find_more)
        return g->find_more(g->user, key);
    return key.n > 0 ? found : NULL;
}

bool guard_holds_key(const struct guard *g, struct str text)
{
    bool found = false;

    for (size_t i = 0; i < g->key_count; i++)
        found |= str_holds_secret(text, g->keys[i]);
    return found || (g->held_more && g->held_more(text));
}

/* Whether the path is /sandboxes/{id}/proxy/{port} or below, with or without /v1, or that of a
 * preview: exactly what the router gives to the gateway. Compares raw segments: with
 * percent-encoding a path needs a key. */
static bool is_gateway_path(struct str path)
{
    struct str collection = STR_NONE, id = STR_NONE, proxy = STR_NONE, port = STR_NONE;
    struct str rest = path;

    if (str_starts(rest, STR("/preview/")))
        return true;
    if (str_starts(rest, STR("/v1/")))
        rest = str_skip(rest, STR("/v1").n);
    if (!str_starts(rest, STR("/")))
        return false;
    rest = str_skip(rest, 1);
    return str_cut(&rest, '/', &collection) && str_eq(collection, STR("sandboxes")) &&
           str_cut(&rest, '/', &id) && id.n && str_cut(&rest, '/', &proxy) &&
           str_eq(proxy, STR("proxy")) && str_cut(&rest, '/', &port) && port.n;
}

bool guard_is_open_path(struct str path)
{
    static const struct str open_paths[] = {
        STR_INIT("/"),      STR_INIT("/auth/login"),   STR_INIT("/auth/session"),
        STR_INIT("/docs"),  STR_INIT("/console"),      STR_INIT("/v1/auth/session"),
        STR_INIT("/ready"), STR_INIT("/openapi.json"), STR_INIT("/v1/version"),
        STR_INIT("/redoc"), STR_INIT("/version"),      STR_INIT("/health"),
    };

    for (size_t i = 0; i < ARRAY_LEN(open_paths); i++)
        if (str_eq(path, open_paths[i]))
            return true;
    return str_starts(path, STR("/console/")) || guard_is_sign_in_path(path);
}

bool guard_is_sign_in_path(struct str path)
{
    return str_eq(path, STR("/auth/callback")) || str_eq(path, STR("/auth/logout")) ||
           str_eq(path, STR("/auth/token")) || str_eq(path, STR("/v1/auth/token"));
}

static bool needs_key(struct str path)
{
    return !guard_is_open_path(path) && !is_gateway_path(path);
}

/* --- users, named by a trusted proxy --- */

/* The highest of the roles, which are separated by commas. */
static enum principal_role highest_role(struct str roles)
{
    enum principal_role best = ROLE_NONE, role;
    struct str word;

    while (str_cut(&roles, ',', &word))
        if (principal_role_parse(str_trim(word), &role) == 0 && role > best)
            best = role;
    return best;
}

static bool refuse_user(struct http_req *req, const char *header)
{
    http_reply_error(req, 401, "MISSING_USER",
                     "the proxy in front of this server must set header %s", header);
    return false;
}

/* The key is the proxy's; what its user may do is no more than what the key may do. Without a team
 * an admin sees every tenant, if the key does. */
static bool guard_set_user(const struct guard *g, struct http_req *req, const struct principal *key)
{
    struct str user = str_trim(http_req_header(req, STR(GUARD_USER_HEADER)));
    struct str team = str_trim(http_req_header(req, STR(GUARD_TEAM_HEADER)));
    enum principal_role role = highest_role(http_req_header(req, STR(GUARD_ROLES_HEADER)));
    struct principal p = *key;

    if (!user.n || !is_request_id(user) || str_copy(p.user, sizeof(p.user), user) < 0)
        return refuse_user(req, GUARD_USER_HEADER " to a name of up to 63 printable characters");
    if (role < ROLE_READ_ONLY)
        return refuse_user(req, GUARD_ROLES_HEADER " to read_only, operator or service_admin");
    if (role < p.role)
        p.role = role;
    if (!team.n && p.role < ROLE_ADMIN)
        return refuse_user(req, GUARD_TEAM_HEADER " to the name of a tenant");
    if (team.n) {
        bool same = str_eq(team, str_of(key->tenant));

        if ((!key->everywhere && !same) || !g->has_tenant || !g->has_tenant(g->user, team) ||
            str_copy(p.tenant, sizeof(p.tenant), team) < 0) {
            http_reply_error(req, 403, "FORBIDDEN",
                             "there is no tenant '%.*s', or this key is not for it", STR_ARG(team));
            return false;
        }
        p.everywhere = false;
    }
    guard_set_principal(req, &p);
    return true;
}

static bool guard_accept(const struct guard *g, struct http_req *req, const struct principal *found)
{
    if (g->proxied)
        return guard_set_user(g, req, found);
    guard_set_principal(req, found);
    return true;
}

static bool guard_check_key(const struct guard *g, struct http_req *req)
{
    struct str key = http_req_header(req, STR(GUARD_KEY_HEADER));
    const struct principal *found = guard_find_key(g, key);
    struct err why = {0};

    if (!key.n && g->find_user)
        found = g->find_user(g->user, req, &why);
    if (found)
        return guard_accept(g, req, found);
    if (why.code)
        http_reply_error(req, 401, "INVALID_API_KEY", "the access token is refused: %s", why.msg);
    else if (key.n)
        http_reply_error(req, 401, "INVALID_API_KEY",
                         "the API key in header " GUARD_KEY_HEADER " is not one of this server's");
    else
        http_reply_error(req, 401, "MISSING_API_KEY",
                         "this needs an API key in header " GUARD_KEY_HEADER);
    return false;
}

void guard_admit_forwarded(struct http_req *req, const struct principal *by)
{
    guard_name(req, http_req_header(req, STR(GUARD_ID_HEADER)));
    (void)guard_add_cors(req);
    guard_set_principal(req, by);
}

bool guard_admit(const struct guard *g, struct http_req *req)
{
    guard_name(req, http_req_header(req, STR(GUARD_ID_HEADER)));
    if (guard_add_cors(req) && is_preflight(req)) {
        reply_preflight(req);
        return false;
    }
    if (g->key_count == 0 && !g->closed) {
        const struct principal *found =
            guard_find_key(g, http_req_header(req, STR(GUARD_KEY_HEADER)));

        guard_set_principal(req, found ? found : &principal_anyone);
        return !g->proxied || !needs_key(req->head.path) || guard_set_user(g, req, req->principal);
    }
    return !needs_key(req->head.path) || guard_check_key(g, req);
}
