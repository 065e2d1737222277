/* hello.h - reads the first bytes of a connection: is it TLS, HTTP or something else, and which
 * name does a TLS client ask for (SNI)?
 *
 * Pure. It does not replace the parser of the TLS library, which sees the same bytes afterwards and
 * must find the same name (tls_mint.h). */
#pragma once

#include "base/str.h"

enum {
    HELLO_BYTES_MAX = 16 * 1024, /* of a ClientHello, without the headers of its records */
    HELLO_INPUT_MAX = HELLO_BYTES_MAX + 1024,
    HELLO_NAME_MAX = 253,
};

enum hello_kind {
    HELLO_AGAIN, /* more bytes are needed */
    HELLO_TLS,
    HELLO_HTTP,  /* begins as a request does */
    HELLO_OTHER, /* some other protocol */
    HELLO_BAD,   /* TLS, but malformed, or of a kind that hides its name */
};

struct hello {
    char name[HELLO_NAME_MAX + 1]; /* lower case, without a dot at its end; "" = no SNI */
    bool has_ech;   /* encrypted_client_hello is there; browsers send it as noise, too */
    bool has_http1; /* ALPN is absent, or has http/1.1 */
};

enum hello_kind hello_read(struct str in, struct hello *ret);
