/* login.h - the secrets of one sign-in, all derived from one cookie.
 *
 * Also binds a code that the loopback port of a command line gets to the hash with which that
 * command line began (RFC 7636, S256).
 *
 * The browser that began a sign-in has the cookie; state, nonce and the verifier of PKCE are HMACs
 * of it by a key of the server. So the server remembers nothing of sign-ins that were begun, and an
 * answer of the provider that comes with another browser's cookie, or none, is refused. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum {
    LOGIN_KEY_BYTES = 32,
    LOGIN_S = 600, /* from the begin of a sign-in to its end */
    LOGIN_TEXT_MAX = 44,
    LOGIN_COOKIE_MAX = 80,
};

#define LOGIN_PREFIX "osbs_login_" /* of the cookie's value; see SESSION_PREFIX */

struct login {
    char cookie[LOGIN_COOKIE_MAX];
    char state[LOGIN_TEXT_MAX], nonce[LOGIN_TEXT_MAX];
    char verifier[LOGIN_TEXT_MAX];  /* RFC 7636 */
    char challenge[LOGIN_TEXT_MAX]; /* of the method S256 */
};

void login_begin(const unsigned char key[LOGIN_KEY_BYTES], int64_t now_s, struct login *ret);
void login_challenge_of(struct str verifier, char ret[LOGIN_TEXT_MAX]);
/* What stands behind a code, so that only the verifier of this challenge redeems it. */
void login_code_tag(const unsigned char key[LOGIN_KEY_BYTES], struct str code, struct str challenge,
                    char ret[LOGIN_TEXT_MAX]);
/* From the cookie, and the state that the provider gave back. -EACCES: the cookie is none of this
 * server's, or too old, or not that of this state. */
int login_resume(const unsigned char key[LOGIN_KEY_BYTES], struct str cookie, struct str state,
                 int64_t now_s, struct login *ret, struct err *e) MUST_USE;
