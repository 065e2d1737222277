/* h1_parse.c - prints how we parse HTTP/1.1 requests, for comparison with other parsers.
 *
 * stdin: messages, each a 32-bit big-endian length and that many bytes. stdout: a JSON object per
 * message. Bytes are in hexadecimal, since they need not be text:
 *
 *     {"method":"474554","target":"2f","minor":1,"headers":[["486f7374","68"]],"body":"","used":27}
 *     {"error":"BARE_LF","status":400}
 *
 * "AGAIN" is the error of an incomplete message. */
#include <stdio.h>

#include "base/buf.h"
#include "base/defs.h"
#include "net/h1.h"
#include "net/h1_chunked.h"

enum { MESSAGE_BYTES_MAX = 1 << 20 };

static void print_hex(const char *before, struct str s, const char *after)
{
    fputs(before, stdout);
    for (size_t i = 0; i < s.n; i++)
        printf("%02x", (unsigned char)s.p[i]);
    fputs(after, stdout);
}

static enum h1_error read_chunked(struct str in, struct buf *body, size_t *ret_used)
{
    struct h1_chunked c = {0};

    *ret_used = 0;
    for (;;) {
        struct str data;
        size_t used;
        enum h1_error e = h1_chunked_next(&c, str_skip(in, *ret_used), &data, &used);

        if (e)
            return e;
        *ret_used += used;
        if (buf_add(body, data) < 0)
            return H1_CHUNK_TOO_LARGE;
        if (h1_chunked_ended(&c))
            return H1_OK;
    }
}

static enum h1_error read_body(const struct h1_framing *framing, struct str in, struct buf *body,
                               size_t *ret_used)
{
    *ret_used = (size_t)framing->body_bytes;
    if (framing->body == H1_BODY_CHUNKED)
        return read_chunked(in, body, ret_used);
    if (framing->body_bytes > in.n)
        return H1_AGAIN;
    return buf_add(body, str_make(in.p, *ret_used)) < 0 ? H1_LENGTH_TOO_LARGE : H1_OK;
}

static void print_request(const struct h1_request *req, const struct buf *body, size_t used)
{
    print_hex("{\"method\":\"", req->method_name, "\",");
    print_hex("\"target\":\"", req->target, "\",");
    printf("\"minor\":%d,\"headers\":[", req->minor);
    for (size_t i = 0; i < req->headers.count; i++) {
        print_hex(i ? ",[\"" : "[\"", req->headers.rows[i].name, "\",");
        print_hex("\"", req->headers.rows[i].value, "\"]");
    }
    print_hex("],\"body\":\"", buf_str(body), "\",");
    printf("\"used\":%zu}\n", used);
}

static void parse_message(struct str in)
{
    struct http_header rows[H1_HEADERS_MAX];
    struct http_headers room = {rows, 0, ARRAY_LEN(rows)};
    struct h1_framing framing;
    struct h1_request req;
    struct h1_scan scan = {0};
    struct str head = STR_NONE;
    size_t used = 0, at;
    AUTO_BUF(body, MESSAGE_BYTES_MAX);
    enum h1_error e = h1_find_head(in, &h1_default_limits, &scan, &head);

    if (!e)
        e = h1_parse_request(head, &h1_default_limits, &room, &req);
    if (!e)
        e = h1_request_framing(&req, &framing);
    at = e ? 0 : (size_t)(head.p - in.p) + head.n;
    if (!e)
        e = read_body(&framing, str_skip(in, at), &body, &used);
    if (e)
        printf("{\"error\":\"%s\",\"status\":%d}\n", h1_error_name(e), h1_error_status(e));
    else
        print_request(&req, &body, at + used);
}

int main(void)
{
    unsigned char prefix[4];

    while (fread(prefix, sizeof(prefix), 1, stdin) == 1) {
        size_t n =
            (size_t)prefix[0] << 24 | (size_t)prefix[1] << 16 | (size_t)prefix[2] << 8 | prefix[3];
        AUTO_BUF(message, MESSAGE_BYTES_MAX);

        if (buf_reserve(&message, n) < 0 || fread(message.p, 1, n, stdin) != n) {
            fprintf(stderr, "h1_parse: a message is cut short or larger than 1 MiB\n");
            return 1;
        }
        buf_claim(&message, n);
        parse_message(buf_str(&message));
    }
    return 0;
}
