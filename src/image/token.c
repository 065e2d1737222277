/* token.c - the request for a token (the registry's bearer authentication), and what registries
 * say. */
#include "image/registry_internal.h"

#include <errno.h>

#include "base/codec.h"
#include "base/json_bind.h"

enum {
    TOKEN_BYTES_MAX = 16 * 1024,
    URL_BYTES_MAX = 64 * 1024,
    TTL_USUAL_S = 60, /* when the answer does not say */
    TTL_MAX_S = 3600,
    SHOWN_MAX = 80, /* of a registry's own words */
};

const char *image_basic_header(struct arena *a, const struct image_auth *auth)
{
    char *plain, *text;

    if (!auth->username.n)
        return NULL;
    plain = arena_printf(a, "%.*s:%.*s", STR_ARG(auth->username), STR_ARG(auth->password));
    if (!plain)
        return NULL;
    text = arena_alloc(a, BASE64_TEXT_MAX(strlen(plain)));
    if (!text)
        return NULL;
    base64_encode(str_of(plain), BASE64_STD, text);
    return arena_printf(a, "Basic %s", text);
}

static int add_param(struct buf *b, const char *name, struct str value, char before)
{
    int r = buf_addf(b, "%c%s=", before, name);

    return r < 0 ? r : url_encode(value, URL_SET_QUERY_VALUE, b);
}

int image_token_request(struct arena *a, const struct image_challenge *c, struct str repository,
                        const char *actions, const struct image_auth *auth, const char **ret_url,
                        const char **ret_body, struct err *e)
{
    bool posts = auth->identity_token.n > 0;
    struct str scope = str_of(arena_printf(a, "repository:%.*s:%s", STR_ARG(repository), actions));
    AUTO_BUF(url, URL_BYTES_MAX);
    AUTO_BUF(body, URL_BYTES_MAX);
    struct buf *to = posts ? &body : &url;
    int r = buf_add(&url, c->realm);

    if (posts && r == 0)
        r = buf_addf(&body, "grant_type=refresh_token&client_id=opensandbox");
    if (posts && r == 0)
        r = add_param(&body, "refresh_token", auth->identity_token, '&');
    if (r == 0)
        r = add_param(to, "scope", scope,
                      posts || str_find(c->realm, '?') < c->realm.n ? '&' : '?');
    if (r == 0 && c->service.n)
        r = add_param(to, "service", c->service, '&');
    if (r == 0 && !posts && auth->username.n)
        r = add_param(to, "account", auth->username, '&');
    *ret_url = arena_strdup(a, buf_str(&url));
    *ret_body = posts ? arena_strdup(a, buf_str(&body)) : NULL;
    if (r < 0 || !*ret_url || (posts && !*ret_body))
        return err_set(e, EFBIG, "the request for a token is too long");
    return 0;
}

struct token_answer {
    struct str token, access_token;
    uint64_t expires_in;
};

static const struct json_field token_fields[] = {
    JSON_FIELD("token", JSON_AS_STR, JSON_NULLABLE, struct token_answer, token,
               .max = TOKEN_BYTES_MAX),
    JSON_FIELD("access_token", JSON_AS_STR, JSON_NULLABLE, struct token_answer, access_token,
               .max = TOKEN_BYTES_MAX),
    JSON_FIELD("expires_in", JSON_AS_U64, JSON_NULLABLE, struct token_answer, expires_in,
               .max = INT64_MAX),
};
static const struct json_table token_table = JSON_TABLE(struct token_answer, token_fields, 0);

int image_token_parse(struct arena *a, struct str answer, struct str *ret_token,
                      uint64_t *ret_ttl_s, struct err *e)
{
    struct token_answer t = {.expires_in = TTL_USUAL_S};
    struct json *doc;
    int r = json_parse(a, answer, NULL, &doc, e);

    if (r == 0)
        r = json_bind(a, doc, &token_table, &t, e);
    if (r < 0)
        return err_set(e, EPROTO, "its answer to the request for a token: %s", e ? e->msg : "");
    if (!t.token.n)
        t.token = t.access_token;
    if (!t.token.n || !http_is_value(t.token))
        return err_set(e, EPROTO, "it gave no token that can be sent");
    *ret_token = t.token;
    *ret_ttl_s = t.expires_in < TTL_MAX_S ? t.expires_in : TTL_MAX_S;
    return 0;
}

struct str image_answer_message(struct arena *a, struct str answer)
{
    struct json *doc;
    struct str text;
    char *out;

    if (json_parse(a, answer, NULL, &doc, NULL) < 0)
        return STR_NONE;
    if (json_to_str(json_get(json_at(json_get(doc, STR("errors")), 0), STR("message")), &text) <
            0 &&
        json_to_str(json_get(doc, STR("details")), &text) < 0)
        return STR_NONE;
    text.n = min_size(text.n, SHOWN_MAX);
    out = arena_strdup(a, text);
    for (size_t i = 0; out && i < text.n; i++)
        if (out[i] < 0x20 || out[i] > 0x7e || out[i] == '[' || out[i] == ']')
            out[i] = '?';
    return str_of(out);
}
