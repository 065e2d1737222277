/* oidc_sign_in.c - the authorization code flow: the way to the provider, and back with a code. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/mem.h"
#include "base/url.h"
#include "server/oidc/claims.h"
#include "server/oidc/oidc_internal.h"

enum { CODE_BYTES_MAX = 4096, FORM_BYTES_MAX = 32 * 1024, SIGN_IN_ARENA_MAX = 512 * 1024 };

struct sign_in {
    struct list link; /* of oidc.sign_ins */
    struct oidc *o;
    struct oidc_wait wait;
    struct login login;
    struct arena arena;
    struct str code;
    struct fetch fetch;
    struct jwt token;
    oidc_begun_fn *begun;
    oidc_signed_in_fn *signed_in;
    void *user;
};

static void sign_in_free(struct sign_in *s)
{
    fetch_done(&s->fetch);
    list_remove(&s->wait.link);
    list_remove(&s->link);
    s->o->sign_in_count--;
    arena_wipe(&s->arena);
    free(s);
}

static void fail(struct sign_in *s, const struct err *e)
{
    struct sign_in was = *s;

    sign_in_free(s);
    if (was.begun)
        was.begun(was.user, NULL, STR_NONE, e);
    else
        was.signed_in(was.user, NULL, e);
}

static struct sign_in *sign_in_new(struct oidc *o, void *user, struct err *e)
{
    struct sign_in *s;

    if (o->sign_in_count >= OIDC_SIGN_INS_MAX) {
        (void)err_set(e, EAGAIN, "%d sign-ins are under way", OIDC_SIGN_INS_MAX);
        return NULL;
    }
    s = mem_new(struct sign_in);
    s->o = o;
    s->user = user;
    arena_init(&s->arena, SIGN_IN_ARENA_MAX);
    list_init(&s->wait.link);
    list_push(&o->sign_ins, &s->link);
    o->sign_in_count++;
    return s;
}

void oidc_sign_ins_cancel(struct oidc *o)
{
    struct err e = {0};

    (void)err_set(&e, ECANCELED, "the server is stopping");
    LIST_EACH(&o->sign_ins, at)
    {
        fail(container_of(at, struct sign_in, link), &e);
    }
}

/* --- texts --- */

static int add_param(struct buf *b, const char *name, struct str value)
{
    int r = b->n && b->p[b->n - 1] != '?' ? buf_add_char(b, '&') : 0;

    if (r == 0)
        r = buf_addf(b, "%s=", name);
    return r < 0 ? r : url_encode(value, URL_SET_QUERY_VALUE, b);
}

struct param {
    const char *name;
    struct str value;
};

static int add_params(struct buf *b, const struct param *params, size_t count)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++)
        r = add_param(b, params[i].name, params[i].value);
    return r;
}

static struct str redirect_uri(struct sign_in *s)
{
    return str_of(
        arena_printf(&s->arena, "%s" OIDC_CALLBACK, s->o->conf.config->auth_oidc.public_url));
}

static struct str scopes(struct sign_in *s)
{
    const struct config_list *list = &s->o->conf.config->auth_oidc.scopes;
    AUTO_BUF(text, OIDC_URL_MAX);

    for (size_t i = 0; i < list->count; i++)
        (void)buf_addf(&text, "%s%s", i ? " " : "", list->at[i]);
    return arena_str(&s->arena, buf_str(&text));
}

/* --- the way there --- */

static int write_url(struct sign_in *s, struct buf *out)
{
    const struct param params[] = {
        {"response_type",         STR_INIT("code")                              },
        {"client_id",             str_of(s->o->conf.config->auth_oidc.client_id)},
        {"redirect_uri",          redirect_uri(s)                               },
        {"scope",                 scopes(s)                                     },
        {"state",                 str_of(s->login.state)                        },
        {"nonce",                 str_of(s->login.nonce)                        },
        {"code_challenge",        str_of(s->login.challenge)                    },
        {"code_challenge_method", STR_INIT("S256")                              },
    };
    struct str to = s->o->metadata.authorization_endpoint;
    int r = buf_addf(out, "%.*s%s", STR_ARG(to), str_find(to, '?') < to.n ? "" : "?");

    return r < 0 ? r : add_params(out, params, ARRAY_LEN(params));
}

static void begin_known(struct oidc_wait *w, const struct err *e)
{
    struct sign_in *s = container_of(w, struct sign_in, wait);
    AUTO_BUF(url, OIDC_URL_MAX);
    struct err why = {0};
    struct sign_in was;

    if (!e && write_url(s, &url) < 0) {
        (void)err_set(&why, EMSGSIZE, "the address of the provider is too long");
        e = &why;
    }
    if (e) {
        fail(s, e);
        return;
    }
    was = *s;
    sign_in_free(s);
    was.begun(was.user, &was.login, buf_str(&url), NULL);
}

void oidc_begin(struct oidc *o, oidc_begun_fn *done, void *user)
{
    struct err e = {0};
    struct sign_in *s = sign_in_new(o, user, &e);

    if (!s) {
        done(user, NULL, STR_NONE, &e);
        return;
    }
    s->begun = done;
    login_begin(o->login_key, oidc_now_s(), &s->login);
    oidc_when_known(o, &s->wait, begin_known);
}

/* --- the way back --- */

static void check_token(struct sign_in *s, bool last);

static void check_token_again(struct oidc_wait *w, const struct err *e)
{
    struct sign_in *s = container_of(w, struct sign_in, wait);

    if (e)
        fail(s, e);
    else
        check_token(s, true);
}

/* Once more with keys of now, when the token's is not known. */
static void check_token(struct sign_in *s, bool last)
{
    const struct config *config = s->o->conf.config;
    const struct jwt_rules rules = {
        .issuer = str_of(config->auth_oidc.issuer),
        .audience = str_of(config->auth_oidc.client_id),
        .nonce = str_of(s->login.nonce),
        .is_id_token = true,
        .now_s = oidc_now_s(),
    };
    struct err e = {0};
    struct principal p;
    struct sign_in was;
    int r = oidc_verify(s->o, &s->token, &rules, &e);

    if (r == -ENOENT && !last) {
        oidc_when_read_again(s->o, &s->wait, check_token_again);
        return;
    }
    if (r < 0)
        e.code = EBADMSG; /* the provider's fault, or somebody's in between */
    else
        r = claims_principal(s->token.claims, config, &p, &e);
    if (r < 0) {
        fail(s, &e);
        return;
    }
    was = *s;
    sign_in_free(s);
    was.signed_in(was.user, &p, NULL);
}

static void on_token(struct fetch *f, int error, const struct err *e)
{
    struct sign_in *s = f->user;
    struct err why = {0};
    struct str text;
    int r = -error;

    if (!error) {
        e = &why;
        r = metadata_id_token(&s->arena, buf_str(&f->body), &text, &why);
        if (r == 0)
            r = jwt_parse(&s->arena, text, &s->token, &why);
    }
    if (r < 0)
        fail(s, e);
    else
        check_token(s, false);
}

/* "Basic " and the base64 of both, each encoded as in a form (RFC 6749, 2.3.1). */
static struct str basic_of(struct sign_in *s)
{
    AUTO_BUF(pair, FORM_BYTES_MAX);
    char *text;
    int r = url_encode(str_of(s->o->conf.config->auth_oidc.client_id), URL_SET_QUERY_VALUE, &pair);

    buf_keep_secret(&pair);
    if (r == 0)
        r = buf_add_char(&pair, ':');
    if (r == 0)
        r = url_encode(buf_str(&s->o->secret), URL_SET_QUERY_VALUE, &pair);
    text = r < 0 ? NULL : arena_alloc(&s->arena, BASE64_TEXT_MAX(pair.n));
    if (!text)
        return STR_NONE;
    (void)base64_encode(buf_str(&pair), BASE64_STD, text);
    return str_of(arena_printf(&s->arena, "Basic %s", text));
}

static void ask_for_token(struct oidc_wait *w, const struct err *e)
{
    struct sign_in *s = container_of(w, struct sign_in, wait);
    struct oidc *o = s->o;
    bool in_body = o->secret.n && o->metadata.secret_in_body;
    const struct param params[] = {
        {"grant_type",    STR_INIT("authorization_code")             },
        {"code",          s->code                                    },
        {"redirect_uri",  redirect_uri(s)                            },
        {"client_id",     str_of(o->conf.config->auth_oidc.client_id)},
        {"code_verifier", str_of(s->login.verifier)                  },
        {"client_secret", buf_str(&o->secret)                        },
    };
    struct http_header headers[3] = {
        {STR_INIT("Content-Type"), STR_INIT("application/x-www-form-urlencoded")},
        {STR_INIT("Accept"),       STR_INIT("application/json")                 },
    };
    struct fetch_spec spec;
    AUTO_BUF(form, FORM_BYTES_MAX);
    struct err why = {0};

    buf_keep_secret(&form);
    if (!e && add_params(&form, params, ARRAY_LEN(params) - !in_body) < 0) {
        (void)err_set(&why, EMSGSIZE, "the request for a token is too long");
        e = &why;
    }
    if (e) {
        fail(s, e);
        return;
    }
    spec = oidc_fetch_spec(o, o->metadata.token_endpoint);
    spec.form = buf_str(&form);
    spec.headers = headers;
    spec.header_count = 2;
    if (o->secret.n && !in_body)
        headers[spec.header_count++] = (struct http_header){STR("Authorization"), basic_of(s)};
    fetch_start(&s->fetch, &spec, on_token, s);
}

void oidc_end(struct oidc *o, struct str cookie, struct str state, struct str code,
              oidc_signed_in_fn *done, void *user)
{
    struct err e = {0};
    struct sign_in *s = sign_in_new(o, user, &e);

    if (!s) {
        done(user, NULL, &e);
        return;
    }
    s->signed_in = done;
    s->code = code.n <= CODE_BYTES_MAX ? arena_str(&s->arena, code) : STR_NONE;
    if (!code.n || !s->code.p)
        (void)err_set(&e, EINVAL, "the provider sent no code");
    else if (login_resume(o->login_key, cookie, state, oidc_now_s(), &s->login, &e) < 0)
        e.code = EINVAL;
    if (e.code)
        fail(s, &e);
    else
        oidc_when_known(o, &s->wait, ask_for_token);
}

/* --- codes for a command line --- */

int oidc_code_make(struct oidc *o, const struct principal *p, struct str challenge,
                   char ret[OIDC_CODE_MAX])
{
    int64_t now_s = oidc_now_s();
    char secret[SESSION_TEXT_MAX], tag[LOGIN_TEXT_MAX];
    int r = sessions_add(o->codes, p, now_s, now_s + OIDC_CODE_S, secret);

    if (r < 0)
        return r;
    login_code_tag(o->login_key, str_of(secret), challenge, tag);
    (void)snprintf(ret, OIDC_CODE_MAX, "%s.%s", secret, tag);
    return 0;
}

int oidc_code_take(struct oidc *o, struct str code, struct str verifier, struct principal *ret)
{
    char challenge[LOGIN_TEXT_MAX], tag[LOGIN_TEXT_MAX];
    const struct principal *found;
    struct str secret = STR_NONE;

    if (!str_cut(&code, '.', &secret) || !code.p)
        return -ENOENT;
    login_challenge_of(verifier, challenge);
    login_code_tag(o->login_key, secret, str_of(challenge), tag);
    if (!str_eq_secret(code, str_of(tag)))
        return -ENOENT;
    found = sessions_find(o->codes, secret, oidc_now_s());
    if (!found)
        return -ENOENT;
    *ret = *found;
    sessions_end(o->codes, secret);
    return 0;
}
