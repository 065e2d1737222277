/* oidc.h - sign-in by an OpenID Connect provider: its documents and keys, the code flow with PKCE,
 * access tokens.
 *
 * The provider's documents are read when they are needed and kept for OIDC_FRESH_S. A token of a
 * key that is not known has them read again, at most once per OIDC_RETRY_S: keys change, and
 * strangers send tokens. Loop thread only; verifying a signature takes tens of microseconds. */
#pragma once

#include "image/proxy.h"
#include "net/pool.h"
#include "server/config/config.h"
#include "server/oidc/login.h"
#include "server/oidc/sessions.h"
#include "server/tenants/principal.h"

struct oidc;

enum {
    OIDC_FRESH_S = 3600,
    OIDC_RETRY_S = 30,
    OIDC_SIGN_INS_MAX = 64, /* under way at a time */
    OIDC_URL_MAX = 8192,
};

#define OIDC_CALLBACK "/auth/callback"

struct oidc_conf {
    struct loop *loop;
    struct pool *pool;
    const struct config *config;   /* outlives it */
    struct image_proxy_conf proxy; /* on the way to the provider */
};

/* With auth.oidc.issuer set. Reads files of the configuration, and begins to read the provider's
 * documents. BLOCKS for the files. */
int oidc_new(const struct oidc_conf *conf, struct oidc **ret, struct err *e) MUST_USE;
/* What is under way ends with ECANCELED. NULL is fine. */
void oidc_free(struct oidc *o);

struct sessions *oidc_sessions(struct oidc *o);
const struct config *oidc_config(const struct oidc *o); /* of the start */
bool oidc_is_secure(const struct oidc *o);              /* browsers come by https */

/* Begins a sign-in: `url` is where the browser must go, with the cookie of `login`. Called once,
 * possibly at once; on failure url is empty and e says why. */
typedef void oidc_begun_fn(void *user, const struct login *login, struct str url,
                           const struct err *e);
void oidc_begin(struct oidc *o, oidc_begun_fn *done, void *user);

/* Ends one: the code that the provider sent the browser back with is given for a token, which is
 * checked. Called once, possibly at once; p is NULL on failure: e->code is EACCES for a user that
 * the provider identified and that no group lets in, else another. */
typedef void oidc_signed_in_fn(void *user, const struct principal *p, const struct err *e);
void oidc_end(struct oidc *o, struct str cookie, struct str state, struct str code,
              oidc_signed_in_fn *done, void *user);

/* --- a command line that a browser signs in: RFC 8252 --- */

enum { OIDC_CODE_S = 60, OIDC_CODE_MAX = SESSION_TEXT_MAX + LOGIN_TEXT_MAX };

/* A code for the principal. The verifier of `challenge` redeems it, once, for OIDC_CODE_S seconds.
 * -ENOMEM. */
int oidc_code_make(struct oidc *o, const struct principal *p, struct str challenge,
                   char ret[OIDC_CODE_MAX]) MUST_USE;
/* -ENOENT: it is none, or another's, or was redeemed, or is too old. */
int oidc_code_take(struct oidc *o, struct str code, struct str verifier,
                   struct principal *ret) MUST_USE;

/* The principal of an access token, of auth.oidc.api_audience. -EACCES with the reason. */
int oidc_check_bearer(struct oidc *o, struct str token, struct principal *ret,
                      struct err *e) MUST_USE;
