/* h1.h - heads of HTTP/1.1 messages (RFC 9112): find, parse, decide how the body is framed.
 *
 * Pure functions over received bytes. Nothing is copied: every str of a result points into the
 * head, with one exception (h1_request.path). The parser is strict: it refuses whatever two parsers
 * could read differently, with an error that has a name, a status and a message. A receiver does
 *
 *   while ((e = h1_find_head(received, &limits, &scan, &head)) == H1_AGAIN)
 *       receive more;
 *   e = h1_parse_request(head, &limits, &rows, &request);
 *   e = h1_request_framing(&request, &framing);
 *
 * The body, or the next message, is at head.p + head.n. */
#pragma once

#include "net/http.h"

/* clang-format off */
#define H1_ERRORS(X)                                                                               \
    X(OK,                 200, "The message is complete.")                                         \
    X(AGAIN,              408, "The message is incomplete.")                                       \
    X(BARE_LF,            400, "A line of the message head ends in LF without CR.")                \
    X(BARE_CR,            400, "A CR in the message head is not followed by LF.")                  \
    X(EMPTY_LINES,        400, "Too many empty lines stand before the request line.")              \
    X(HEAD_TOO_LARGE,     431, "The message head is too large.")                                   \
    X(TOO_MANY_HEADERS,   431, "The message has too many header fields.")                          \
    X(TARGET_TOO_LONG,    414, "The request target is too long.")                                  \
    X(BAD_START_LINE,     400, "The first line of the message is malformed.")                      \
    X(BAD_METHOD,         400, "The request method is not a token of at most 32 bytes.")           \
    X(BAD_TARGET,         400, "The request target is malformed.")                                 \
    X(BAD_TARGET_BYTE,    400, "The request target holds a byte that must be percent-encoded.")    \
    X(FRAGMENT,           400, "The request target has a fragment.")                               \
    X(TARGET_FORM,        400, "This form of request target does not belong to this method.")      \
    X(BAD_VERSION,        400, "The HTTP version is malformed.")                                   \
    X(OTHER_VERSION,      505, "Only HTTP/1.1 and HTTP/1.0 are spoken here.")                      \
    X(HTTP2_PREFACE,      505, "HTTP/2 without TLS is not spoken here; use HTTP/1.1.")             \
    X(BAD_STATUS,         400, "The response status is malformed.")                                \
    X(OBS_FOLD,           400, "A header line begins with white space (obsolete folding).")        \
    X(SPACE_BEFORE_COLON, 400, "White space stands between a header name and its colon.")          \
    X(BAD_HEADER_NAME,    400, "A header name is empty or holds a byte that no name may hold.")    \
    X(NO_COLON,           400, "A header line has no colon.")                                      \
    X(BAD_VALUE_BYTE,     400, "A header value holds a control byte.")                             \
    X(NO_HOST,            400, "The request has no Host header.")                                  \
    X(MANY_HOSTS,         400, "The request has more than one Host header.")                       \
    X(BAD_HOST,           400, "The request's host is empty or malformed.")                        \
    X(BAD_LENGTH,         400, "Content-Length is not a plain decimal number.")                    \
    X(MANY_LENGTHS,       400, "Content-Length is given more than once.")                          \
    X(LENGTH_TOO_LARGE,   413, "Content-Length is larger than any body can be.")                   \
    X(LENGTH_AND_CODING,  400, "Content-Length and Transfer-Encoding are both given.")             \
    X(BAD_CODING,         400, "Transfer-Encoding does not end in exactly one 'chunked'.")         \
    X(OTHER_CODING,       501, "No transfer coding but 'chunked' is implemented.")                 \
    X(CODING_IN_1_0,      400, "Transfer-Encoding is given in an HTTP/1.0 message.")               \
    X(OTHER_EXPECT,       417, "No expectation but '100-continue' can be met.")                    \
    X(BAD_CHUNK_SIZE,     400, "A chunk size is not a hexadecimal number of at most 16 digits.")   \
    X(CHUNK_TOO_LARGE,    413, "A chunk is larger than any body can be.")                          \
    X(BAD_CHUNK_LINE,     400, "A chunk size line is malformed.")                                  \
    X(EXTENSIONS_TOO_LARGE, 400, "The chunk extensions of the message are too large.")             \
    X(BAD_CHUNK_END,      400, "A chunk does not end in CRLF.")                                    \
    X(BAD_TRAILER,        400, "A trailer line is malformed.")                                     \
    X(TRAILERS_TOO_LARGE, 431, "The trailer section is too large.")
/* clang-format on */

enum h1_error {
#define H1_ERROR_NAME(name, status, text) H1_##name,
    H1_ERRORS(H1_ERROR_NAME)
#undef H1_ERROR_NAME
        H1_ERROR_COUNT,
};

int h1_error_status(enum h1_error error);       /* status of the server's reply */
struct str h1_error_text(enum h1_error error);  /* a message for the user */
const char *h1_error_name(enum h1_error error); /* "BARE_LF", for logs and tests */

struct h1_limits {
    size_t head_bytes_max;   /* first line, headers and the empty line */
    size_t target_bytes_max; /* the request target */
    size_t headers_max;      /* header fields; the array given to the parser is a limit, too */
};

enum { H1_HEAD_BYTES_MAX = 32 << 10, H1_TARGET_BYTES_MAX = 16 << 10, H1_HEADERS_MAX = 100 };

extern const struct h1_limits h1_default_limits; /* the three limits above */

/* State of a search for the head; all zero before the first byte of a message. */
struct h1_scan {
    size_t start; /* offset of the first line, after empty lines */
    size_t pos;   /* all bytes before it were examined */
    bool in_headers;
};

/* Finds the head at the start of `in`, which holds all bytes received of this message so far and
 * may grow, or move, between calls. H1_OK: *ret_head is the part of `in` up to and with the empty
 * line; one or two empty lines before it were skipped (RFC 9112 2.2). H1_AGAIN: incomplete; each
 * byte is examined once over all calls. Any other result: refuse the message. */
enum h1_error h1_find_head(struct str in, const struct h1_limits *limits, struct h1_scan *scan,
                           struct str *ret_head);

/* The header fields that decide about framing and connection, recorded by the parser. */
enum h1_field {
    H1_HOST,
    H1_CONTENT_LENGTH,
    H1_TRANSFER_ENCODING,
    H1_CONNECTION,
    H1_EXPECT,
    H1_UPGRADE,
    H1_FIELD_COUNT,
};

struct h1_fields {
    struct str value[H1_FIELD_COUNT];   /* of the first field of that name, or STR_NONE */
    unsigned int count[H1_FIELD_COUNT]; /* fields of that name */
};

enum h1_target_form { H1_ORIGIN_FORM, H1_ABSOLUTE_FORM, H1_AUTHORITY_FORM, H1_ASTERISK_FORM };

struct h1_request {
    enum http_method method;
    enum h1_target_form form;
    int minor;              /* the N of HTTP/1.N: 0 or 1 */
    struct str method_name; /* as sent, also for HTTP_OTHER */
    struct str target;      /* as sent */
    struct str path;  /* not decoded. "/" for http://host, and then not part of the head; "*" in
                         asterisk form; empty in authority form */
    struct str query; /* after the '?', not decoded; STR_NONE without '?' */
    struct str host;  /* "name:port" of the target or else of Host; STR_NONE without both, only in
                         HTTP/1.0 */
    struct http_headers headers;
    struct h1_fields fields;
};

struct h1_response {
    int status; /* 100..599 */
    int minor;
    struct str reason; /* may be empty */
    struct http_headers headers;
    struct h1_fields fields;
};

/* Parse a complete head as returned by h1_find_head; bytes after its empty line are an error.
 * `room` gives the array to fill (count is ignored); the array and the head must outlive *ret.
 * Never returns H1_AGAIN: a truncated head is malformed. */
enum h1_error h1_parse_request(struct str head, const struct h1_limits *limits,
                               const struct http_headers *room, struct h1_request *ret);
enum h1_error h1_parse_response(struct str head, const struct h1_limits *limits,
                                const struct http_headers *room, struct h1_response *ret);

enum h1_body {
    H1_BODY_NONE,
    H1_BODY_LENGTH,  /* exactly body_bytes, which may be 0 */
    H1_BODY_CHUNKED, /* see h1_chunked.h */
    H1_BODY_CLOSE,   /* until the peer closes the connection; responses only */
};

struct h1_framing {
    enum h1_body body;
    bool keep_alive;      /* the connection may carry another message after this one */
    bool expect_continue; /* the client waits for "100 Continue" before it sends the body */
    uint64_t body_bytes;  /* at most INT64_MAX; 0 unless H1_BODY_LENGTH */
};

enum h1_error h1_request_framing(const struct h1_request *request, struct h1_framing *ret);

/* `method` is that of the request: HEAD and CONNECT change what follows. An upgraded connection
 * (101, or 2xx to CONNECT) has no body; what follows its head is not HTTP. */
enum h1_error h1_response_framing(enum http_method method, const struct h1_response *response,
                                  struct h1_framing *ret);
