#include "server/oidc/login.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/id.h"
#include "base/sha.h"

static_assert(LOGIN_TEXT_MAX >= BASE64_TEXT_MAX(SHA256_BYTES) - 1, "a hash without padding fits");

static void write_text(const uint8_t digest[SHA256_BYTES], char ret[LOGIN_TEXT_MAX])
{
    (void)base64_encode(str_make((const char *)digest, SHA256_BYTES), BASE64_URL | BASE64_NO_PAD,
                        ret);
}

static void derive(const unsigned char key[LOGIN_KEY_BYTES], const char *what, const char *cookie,
                   char ret[LOGIN_TEXT_MAX])
{
    uint8_t digest[SHA256_BYTES];
    struct hmac_sha256 h;

    hmac_sha256_init(&h, str_make((const char *)key, LOGIN_KEY_BYTES));
    hmac_sha256_add(&h, str_of(what));
    hmac_sha256_add(&h, STR(":"));
    hmac_sha256_add(&h, str_of(cookie));
    hmac_sha256_end(&h, digest);
    write_text(digest, ret);
}

void login_challenge_of(struct str verifier, char ret[LOGIN_TEXT_MAX])
{
    uint8_t digest[SHA256_BYTES];

    sha256_of(verifier, digest);
    write_text(digest, ret);
}

void login_code_tag(const unsigned char key[LOGIN_KEY_BYTES], struct str code, struct str challenge,
                    char ret[LOGIN_TEXT_MAX])
{
    uint8_t digest[SHA256_BYTES];
    struct hmac_sha256 h;

    hmac_sha256_init(&h, str_make((const char *)key, LOGIN_KEY_BYTES));
    hmac_sha256_add(&h, STR("code:"));
    hmac_sha256_add(&h, code);
    hmac_sha256_add(&h, STR(":"));
    hmac_sha256_add(&h, challenge);
    hmac_sha256_end(&h, digest);
    write_text(digest, ret);
}

static void derive_all(const unsigned char key[LOGIN_KEY_BYTES], struct login *l)
{
    derive(key, "state", l->cookie, l->state);
    derive(key, "nonce", l->cookie, l->nonce);
    derive(key, "verifier", l->cookie, l->verifier);
    login_challenge_of(str_of(l->verifier), l->challenge);
}

void login_begin(const unsigned char key[LOGIN_KEY_BYTES], int64_t now_s, struct login *ret)
{
    char token[ID_TOKEN_MAX];

    id_token(token);
    (void)snprintf(ret->cookie, sizeof(ret->cookie), LOGIN_PREFIX "%lld.%s", (long long)now_s,
                   token);
    derive_all(key, ret);
}

int login_resume(const unsigned char key[LOGIN_KEY_BYTES], struct str cookie, struct str state,
                 int64_t now_s, struct login *ret, struct err *e)
{
    struct str rest, made = STR_NONE;
    int64_t at_s;

    if (!str_starts(cookie, STR(LOGIN_PREFIX)) ||
        str_copy(ret->cookie, sizeof(ret->cookie), cookie) < 0)
        return err_set(e, EACCES, "this browser began no sign-in");
    rest = str_skip(cookie, strlen(LOGIN_PREFIX));
    if (!str_cut(&rest, '.', &made) || str_to_i64(made, &at_s) < 0)
        return err_set(e, EACCES, "this browser began no sign-in");
    derive_all(key, ret);
    if (!str_eq_secret(state, str_of(ret->state))) /* covers the time, too */
        return err_set(e, EACCES, "this is not the sign-in that this browser began");
    if (at_s > now_s || now_s - at_s > LOGIN_S)
        return err_set(e, EACCES, "the sign-in was begun more than %d s ago", LOGIN_S);
    return 0;
}
