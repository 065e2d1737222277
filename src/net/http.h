/* http.h - basic types of HTTP (RFC 9110): methods, statuses, header fields, byte ranges.
 *
 * Nothing here allocates, blocks or touches a socket; every str is borrowed. */
#pragma once

#include "base/str.h"

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_PATCH,
    HTTP_CONNECT,
    HTTP_TRACE,
    HTTP_OTHER, /* any other token; the request has its name */
    HTTP_METHOD_COUNT,
};

/* Sets of methods, for route tables: HTTP_BIT(HTTP_GET) | HTTP_BIT(HTTP_HEAD). */
#define HTTP_BIT(method) (1U << (method))
#define HTTP_ANY_METHOD  (HTTP_BIT(HTTP_METHOD_COUNT) - 1)

enum http_method http_method_of(struct str name);     /* case matters: "get" is HTTP_OTHER */
struct str http_method_name(enum http_method method); /* "" for HTTP_OTHER */

/* "Not Found" for 404; "" for a status without a registered phrase. */
struct str http_status_reason(int status);
/* The whole status line, "HTTP/1.1 404 Not Found\r\n"; STR_NONE for an unregistered status. */
struct str http_status_line(int status);

struct http_header {
    struct str name, value; /* value without surrounding white space */
};

/* Header fields in the order of the message. The caller owns the array. */
struct http_headers {
    struct http_header *rows;
    size_t count, max;
};

/* The first field of that name (case-insensitive), or NULL. */
const struct http_header *http_header_find(const struct http_headers *headers, struct str name);
/* The next field of the same name after `row`, or NULL: fields may repeat. */
const struct http_header *http_header_next(const struct http_headers *headers,
                                           const struct http_header *row);
/* Whether a person may add it to a request: it is well-formed, and none of those that the client
 * itself sets, or that say how a message is framed. */
bool http_header_is_free(const struct http_header *row);
/* The first value of that name, or STR_NONE; an empty value has p != NULL. */
struct str http_header_get(const struct http_headers *headers, struct str name);

/* Whether a comma list such as "keep-alive, Upgrade" contains the token; case-insensitive. */
bool http_token_list_has(struct str value, struct str token);
/* The same over all fields of that name: repeated fields form one list. */
bool http_headers_have_token(const struct http_headers *headers, struct str name, struct str token);

/* tchar and field-vchar of RFC 9110 5.6.2 and 5.5; a value may also hold space, tab, 0x80-0xff. */
bool http_is_token(struct str s); /* false for "" */
bool http_is_value(struct str s); /* without NUL, CR, LF and other control bytes; "" is valid */

/* A host as in Host and in an absolute target: name, IPv4 or [IPv6], then optionally ":port". A
 * name has letters, digits and "-._~"; the sub-delimiters and percent codes of RFC 3986 are
 * refused, as no real host name uses them. False for "". */
bool http_is_authority(struct str s);

#define HTTP_UNKNOWN_LENGTH UINT64_MAX /* of a body: unknown before its end */

struct http_range {
    uint64_t offset, bytes; /* bytes > 0; offset + bytes <= size */
};

/* Picks the first satisfiable range of a Range header for content of `size` bytes, with its end
 * clipped to the size. -EINVAL when any part is malformed ("bytes=5-2", another unit), -ERANGE when
 * all ranges are well-formed but outside the content (always for size 0). */
int http_range_parse(struct str value, uint64_t size, struct http_range *ret_range);
