/* access.h - whether a request may reach a sandbox: its token, or a signed route.
 *
 * Pure, but for the clock that the caller passes. Secrets are compared in constant time. */
#pragma once

#include "base/err.h"
#include "ingress/route.h"
#include "net/http.h"

#define ACCESS_HEADER "OpenSandbox-Secure-Access"

enum { ACCESS_KEYS_MAX = 36, ACCESS_SECRET_MAX = 1024, ACCESS_KEYS_TEXT_MAX = 64 * 1024 };

struct access_keys {
    struct access_key {
        char id;
        uint16_t bytes;
        char secret[ACCESS_SECRET_MAX];
    } at[ACCESS_KEYS_MAX];
    size_t count;
};

/* Reads "a=BASE64,b=BASE64" into *ret: a key id is one of 0-9a-z; of two keys with one id the later
 * counts. Line breaks separate, too, and lines that begin with '#' are skipped. -EINVAL. */
int access_keys_parse(struct str text, struct access_keys *ret, struct err *e);

struct access_rules {
    const struct access_keys *keys;
    uint64_t now_s;
    uint64_t ahead_max_s; /* a route that expires later than this from now is refused; 0 = none */
};

struct access_verdict {
    int status;         /* 0 = allowed */
    const char *reason; /* of a refusal */
    bool guessed;       /* a wrong secret was shown: counts against the source */
};

/* token: of the sandbox; blank = it is not protected. */
struct access_verdict access_check(const struct access_rules *rules, struct str token,
                                   const struct http_headers *headers, const struct route *route);
