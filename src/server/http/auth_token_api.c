/* auth_token_api.c - an API key for a command line whose user signs in in a browser.
 *
 * As RFC 8252 has it: the command line listens at a port of its machine's loopback, and has a
 * browser open /auth/login with that port and the hash of a secret. The sign-in then leads the
 * browser to the port, with a code, in place of the console; and POST /auth/token gives a key for
 * code and secret. The key has the user's role and tenant, and ends when a session would. */
#include <stdio.h>

#include "api/body.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"
#include "server/http/server_internal.h"
#include "server/oidc/oidc.h"

enum {
    CHALLENGE_LEN = 43, /* of S256 */
    VERIFIER_LEN_MAX = 128,
    HOST_LEN_MAX = 20,
    NAME_USER_MAX = 28,    /* characters of a user in the name of a key */
    SIGN_IN_KEYS_MAX = 16, /* of one user; one more ends the oldest */
    BODY_ARENA_MAX = 64 * 1024,
};

/* --- the way to the port --- */

static bool is_challenge(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) && s.p[i] != '-' && s.p[i] != '_')
            return false;
    return s.n == CHALLENGE_LEN;
}

int auth_command_line(struct http_req *req, struct arena *a, struct str *ret, struct api_fail *f)
{
    struct str port = STR_NONE, challenge = STR_NONE;
    uint16_t number = 0;
    char *text;

    *ret = STR_NONE;
    if (url_query_get(req->head.query, STR("port"), a, &port) != 1)
        return 0;
    if (str_to_u16(port, &number) < 0 || !number)
        return api_fail_invalid(f, "port: expected a number from 1 to 65535");
    if (url_query_get(req->head.query, STR("challenge"), a, &challenge) != 1 ||
        !is_challenge(challenge))
        return api_fail_invalid(f, "challenge: expected the SHA-256 of a secret in base64url");
    text = arena_printf(a, "%u.%.*s", number, STR_ARG(challenge));
    if (!text)
        return api_fail_memory(f);
    *ret = str_of(text);
    return 0;
}

void auth_lead_back(struct http_req *req, const struct principal *p, struct str command_line)
{
    struct str challenge = command_line, port = STR_NONE;
    char code[OIDC_CODE_MAX];
    uint16_t number = 0;
    char *to = NULL;

    if (!str_cut(&challenge, '.', &port) || str_to_u16(port, &number) < 0 || !number ||
        !is_challenge(challenge)) {
        http_reply_error(req, 400, "BAD_REQUEST", "the cookie of the command line is damaged");
        return;
    }
    if (oidc_code_make(server_of(req)->oidc, p, challenge, code) == 0)
        to = arena_printf(&req->arena, "http://127.0.0.1:%u/?code=%s", number, code);
    if (to)
        auth_redirect(req, str_of(to));
    else
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "out of memory for this request");
    mem_wipe(code, sizeof(code));
}

/* --- the key --- */

struct token_pending {
    struct pending pending;
    struct principal by;
    struct key_request request;
    char name[KEY_NAME_MAX];
};

struct token_body {
    struct str code, verifier, host;
};
static const struct json_field token_fields[] = {
    JSON_FIELD("code", JSON_AS_STR, JSON_REQUIRED, struct token_body, code, .min = 1,
               .max = OIDC_CODE_MAX),
    JSON_FIELD("verifier", JSON_AS_STR, JSON_REQUIRED, struct token_body, verifier,
               .min = CHALLENGE_LEN, .max = VERIFIER_LEN_MAX),
    JSON_FIELD("host", JSON_AS_STR, JSON_NULLABLE, struct token_body, host, .max = HOST_LEN_MAX),
};
static const struct json_table token_table = JSON_TABLE(struct token_body, token_fields, 0);

/* What is no letter, digit or mark of ASCII becomes '_'. */
static void add_plain(struct buf *out, struct str text, size_t max)
{
    for (size_t i = 0; i < text.n && i < max; i++)
        (void)buf_add_char(out, text.p[i] > ' ' && text.p[i] < 0x7f ? text.p[i] : '_');
}

/* "ann@laptop (3f2a91c0)": the digits are the principal's, as names are what users choose. */
static void write_name(const struct principal *by, struct str host, char ret[KEY_NAME_MAX])
{
    AUTO_BUF(name, KEY_NAME_MAX);
    struct str digits = str_skip(str_of(by->key_id), STR("oidc:").n);

    add_plain(&name, str_of(by->user), NAME_USER_MAX);
    (void)buf_add_char(&name, '@');
    add_plain(&name, host.n ? host : STR("osb"), HOST_LEN_MAX);
    (void)buf_addf(&name, " (%.8s)", digits.p);
    (void)!str_copy(ret, KEY_NAME_MAX, buf_str(&name));
}

/* The key that this one replaces: that of the same name, or the oldest of too many. */
static const struct api_key *replaced(struct tenants *t, const struct token_pending *p)
{
    const struct api_key *k, *oldest = NULL;
    size_t at = 0, count = 0;

    while ((k = keys_next(t, &at))) {
        if (!k->principal.user[0] || strcmp(k->created_by, p->by.key_id) != 0)
            continue;
        if (strcmp(k->name, p->name) == 0)
            return k;
        if (!oldest || k->created_us < oldest->created_us)
            oldest = k;
        count++;
    }
    return count >= SIGN_IN_KEYS_MAX ? oldest : NULL;
}

static void on_created(void *user, const struct api_key *k, const char *secret,
                       const struct api_fail *fail)
{
    struct token_pending *p = user;
    struct http_req *req = p->pending.req;

    if (req && fail)
        reply_fail(req, fail);
    else if (req && k)
        reply_key(req, 201, k, secret);
    else if (req)
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "the key is gone");
    pending_end(&p->pending);
}

/* Whether that went well or not: the key's name tells. */
static void on_replaced(void *user, const struct api_key *k UNUSED, const char *secret UNUSED,
                        const struct api_fail *fail UNUSED)
{
    struct token_pending *p = user;

    if (p->pending.req)
        key_create(p->pending.server->tenants, &p->by, &p->request, on_created, p);
    else
        pending_end(&p->pending);
}

static void make_key(struct http_req *req, const struct principal *by, struct str host)
{
    struct server *s = server_of(req);
    struct token_pending *p = mem_new(struct token_pending);
    const struct api_key *old;

    pending_init(&p->pending, req, NULL);
    p->by = *by;
    write_name(by, host, p->name);
    p->request = (struct key_request){
        .name = str_of(p->name),
        .tenant = by->everywhere ? STR_NONE : str_of(p->by.tenant),
        .user = str_of(p->by.user),
        .role = by->role,
        .expires_us =
            time_wall_us() + oidc_config(s->oidc)->auth_oidc.session_seconds * TIME_US_PER_S,
    };
    log_event(LOG_INFO, "signed in for a command line", LOG_STR("by", by->key_id),
              LOG_STR("user", by->user), LOG_STR("tenant", by->tenant),
              LOG_STR("role", principal_role_name(by->role)), LOG_STR("request_id", req->id));
    old = replaced(s->tenants, p);
    if (old)
        key_delete(s->tenants, str_of(old->id), on_replaced, p);
    else
        key_create(s->tenants, &p->by, &p->request, on_created, p);
}

void handle_auth_token_post(struct http_req *req)
{
    struct server *s = server_of(req);
    AUTO_ARENA(arena, BODY_ARENA_MAX);
    struct token_body body = {0};
    struct api_fail f = {0};
    struct principal by;

    if (!s->oidc) {
        http_reply_error(req, 404, "NOT_FOUND",
                         "nobody signs in here: auth.oidc.issuer is not set, see "
                         "docs/guides/teams.md");
    } else if (api_body_bind(&arena, http_req_header(req, STR("Content-Type")), req->body,
                             &token_table, &body, &f) < 0) {
        reply_fail(req, &f);
    } else if (oidc_code_take(s->oidc, body.code, body.verifier, &by) < 0) {
        http_reply_error(req, 401, "INVALID_API_KEY",
                         "the code is none of this server's, or was used, or is more than %d s old",
                         OIDC_CODE_S);
    } else {
        guard_set_principal(req, &by);
        make_key(req, &by, body.host);
    }
}
