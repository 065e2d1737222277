/* url.h - percent-encoding, query strings, absolute URLs, and request paths made safe to route.
 *
 * Everything here is strict: a '%' without two hexadecimal digits is -EINVAL, not a character that
 * stands for itself. Pieces point into the input. Bytes are bytes: whether decoded text is UTF-8 is
 * for the caller to ask. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum url_decode_flags {
    URL_PLUS_IS_SPACE = 1 << 0, /* as in forms and query strings */
    URL_ALLOW_NUL = 1 << 1,     /* without it %00 is -EINVAL */
};

/* Appends the decoded text, never longer than `s`. -EINVAL, or the buffer's errors; it is unchanged
 * then. */
int url_decode(struct str s, unsigned flags, struct buf *b) MUST_USE;
/* The same into an arena; text without anything to decode is returned as it is. */
int url_decode_in(struct arena *a, struct str s, unsigned flags, struct str *ret) MUST_USE;

/* Which bytes may stand as they are. */
enum url_set {
    URL_SET_SEGMENT,     /* of a path: no '/', '?', '#'; "." and ".." keep their meaning */
    URL_SET_QUERY_VALUE, /* key or value in a query: letters, digits and - . _ ~ */
    URL_SET_ATTR_CHAR,   /* RFC 5987: filename*=UTF-8''... */
};

int url_encode(struct str s, enum url_set set, struct buf *b) MUST_USE;

/* Walks "a=1&b=&c": pairs between '&' (';' is an ordinary character), empty ones left out. A pair
 * without '=' has an empty value. '+' is a space. */
struct url_query_iter {
    struct str raw_key, raw_value; /* as sent */
    struct str key, value;         /* decoded, in the arena when that makes a difference */
    struct str rest;
    struct arena *arena;
};

void url_query_init(struct url_query_iter *it, struct str query, struct arena *a);
/* 1 for a pair, 0 at the end. -EINVAL for a pair that does not decode (raw_* are set, the next call
 * goes on behind it), -ENOMEM when the arena is full. */
int url_query_next(struct url_query_iter *it) MUST_USE;
/* The decoded value of the first pair with this key: 1 and *ret, 0 when there is none. Fails on the
 * first broken pair before it. */
int url_query_get(struct str query, struct str key, struct arena *a, struct str *ret) MUST_USE;

enum url_scheme {
    URL_HTTP,
    URL_HTTPS,
    URL_WS,
    URL_WSS,
};

struct url {
    enum url_scheme scheme;
    struct str host;   /* name or address; an IPv6 address without its brackets */
    bool host_is_ipv6; /* and so needs them in a Host header */
    uint16_t port;     /* the scheme's own when none was written */
    struct str path;   /* still encoded; "" when none was written */
    struct str query;  /* still encoded, without '?'; p == NULL when there is none */
};

enum { URL_HOST_BYTES_MAX = 253 };

/* Splits an absolute URL. A fragment is checked and dropped. -EINVAL and a sentence for other
 * schemes, user names, hosts that are no name or address, ports outside 1..65535, and for any byte
 * that must not stand in a request line. */
int url_split(struct str s, struct url *ret, struct err *e) MUST_USE;

/* True when a segment of the path is "." or "..", each dot also as %2e. */
bool url_path_has_dot_segment(struct str path);

/* Appends the one spelling of a request path that routes are compared with: escapes of letters,
 * digits and - . _ ~ decoded, other escapes in capitals and otherwise kept, so that %2F never turns
 * into a separator here (a segment that is decoded later may hold one). Nothing is collapsed or
 * resolved. -EINVAL for a path that does not begin with
 * '/', holds a broken escape, %00, or a byte that must be escaped; -EPERM for a dot segment. */
int url_path_normalize(struct str path, struct buf *b) MUST_USE;
