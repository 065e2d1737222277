/* url.h - percent-encoding, query strings, absolute URLs, and normalised request paths.
 *
 * Everything here is strict: a '%' without two hexadecimal digits is -EINVAL. Results point into
 * the input where possible. Decoded text may be any bytes: the caller checks for UTF-8. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum url_decode_flags {
    URL_PLUS_IS_SPACE = 1 << 0, /* as in forms and query strings */
    URL_ALLOW_NUL = 1 << 1,     /* without it %00 is -EINVAL */
};

/* Appends the decoded text, never longer than `s`. -EINVAL, or the errors of buf_add; the buffer is
 * then unchanged. */
int url_decode(struct str s, unsigned flags, struct buf *b) MUST_USE;
/* The same into an arena; text without escapes is returned as it is. */
int url_decode_in(struct arena *a, struct str s, unsigned flags, struct str *ret) MUST_USE;

/* Which bytes url_encode leaves as they are. */
enum url_set {
    URL_SET_SEGMENT,     /* path segment: escapes '/', '?', '#'; "." and ".." stay as they are */
    URL_SET_QUERY_VALUE, /* key or value in a query: letters, digits and - . _ ~ */
    URL_SET_ATTR_CHAR,   /* RFC 5987: filename*=UTF-8''... */
};

int url_encode(struct str s, enum url_set set, struct buf *b) MUST_USE;

/* Iterates over "a=1&b=&c": pairs separated by '&' (';' is an ordinary character); empty pairs are
 * skipped. A pair without '=' has an empty value. '+' is a space. */
struct url_query_iter {
    struct str raw_key, raw_value; /* as sent */
    struct str key, value;         /* decoded; in the arena if different from raw */
    struct str rest;
    struct arena *arena;
};

void url_query_init(struct url_query_iter *it, struct str query, struct arena *a);
/* 1 for a pair, 0 at the end. -EINVAL for a pair that does not decode (raw_* are set, the next call
 * continues after it), -ENOMEM when the arena is full. */
int url_query_next(struct url_query_iter *it) MUST_USE;
/* The decoded value of the first pair with this key: 1 and *ret, or 0 when there is none. Fails at
 * an invalid pair before it. */
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
    bool host_is_ipv6; /* a Host header then needs the brackets */
    uint16_t port;     /* the scheme's default when absent */
    struct str path;   /* still encoded; "" when absent */
    struct str query;  /* still encoded, without '?'; p == NULL when absent */
};

enum { URL_HOST_BYTES_MAX = 253 };

/* Splits an absolute URL. A fragment is checked and dropped. -EINVAL and a message for other
 * schemes, user names, hosts that are not a name or address, ports outside 1..65535, and bytes that
 * a request line must not contain. */
int url_split(struct str s, struct url *ret, struct err *e) MUST_USE;

/* True when a path segment is "." or "..", each dot also as %2e. */
bool url_path_has_dot_segment(struct str path);

/* Appends the normalised request path, for comparison with routes. Decodes escapes of letters,
 * digits and - . _ ~; writes other escapes in upper case but keeps them, so that %2F never becomes
 * a separator here (a segment decoded later may contain one). Collapses and resolves nothing.
 * -EINVAL for a path that does not begin with '/', has an invalid escape, %00, or a byte that must
 * be escaped; -EPERM for a dot segment. */
int url_path_normalize(struct str path, struct buf *b) MUST_USE;
