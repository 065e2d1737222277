/* h1_framing.c - where a message ends and whether another may follow (RFC 9112 6 and 9). If two
 * servers in a row read these fields differently, a client can smuggle requests past one of them.
 * Hence all of it is in one place and nothing ambiguous is repaired. */
#include <errno.h>

#include "net/h1.h"

/* All members of Transfer-Encoding over all its fields: only "chunked" is accepted. */
static enum h1_error check_coding(const struct http_headers *headers)
{
    const struct http_header *row = http_header_find(headers, STR("transfer-encoding"));
    size_t members = 0, chunked = 0;
    bool is_last = false;

    for (; row; row = http_header_next(headers, row)) {
        struct str list = row->value, member;

        while (str_cut(&list, ',', &member)) {
            member = str_trim(member);
            if (member.n == 0)
                return H1_BAD_CODING;
            is_last = str_eq_nocase(member, STR("chunked"));
            chunked += is_last;
            members++;
        }
    }
    if (chunked > 1 || (chunked == 1 && !is_last))
        return H1_BAD_CODING;
    return chunked == 1 && members == 1 ? H1_OK : H1_OTHER_CODING;
}

static enum h1_error frame_length(struct str value, struct h1_framing *framing)
{
    uint64_t n;
    int r = str_to_u64(value, &n);

    if (r == -EINVAL)
        return H1_BAD_LENGTH;
    if (r < 0 || n > INT64_MAX)
        return H1_LENGTH_TOO_LARGE;
    framing->body = H1_BODY_LENGTH;
    framing->body_bytes = n;
    return H1_OK;
}

/* Common to requests and responses; does not set framing->body when neither field is there. */
static enum h1_error frame_body(const struct http_headers *headers, const struct h1_fields *fields,
                                int minor, struct h1_framing *framing)
{
    if (fields->count[H1_CONTENT_LENGTH] > 1)
        return H1_MANY_LENGTHS;
    if (fields->count[H1_TRANSFER_ENCODING]) {
        if (fields->count[H1_CONTENT_LENGTH])
            return H1_LENGTH_AND_CODING;
        if (minor == 0)
            return H1_CODING_IN_1_0;
        framing->body = H1_BODY_CHUNKED;
        return check_coding(headers);
    }
    if (fields->count[H1_CONTENT_LENGTH])
        return frame_length(fields->value[H1_CONTENT_LENGTH], framing);
    return H1_OK;
}

/* RFC 9112 9.3: close wins, HTTP/1.1 stays open, HTTP/1.0 only when asked to. */
static bool is_kept_alive(const struct http_headers *headers, const struct h1_fields *fields,
                          int minor)
{
    const struct str name = STR("connection");

    if (!fields->count[H1_CONNECTION])
        return minor >= 1;
    if (http_headers_have_token(headers, name, STR("close")))
        return false;
    return minor >= 1 || http_headers_have_token(headers, name, STR("keep-alive"));
}

/* An HTTP/1.0 client cannot wait for 100, even with Expect (RFC 9110 10.1.1). */
static enum h1_error read_expect(const struct h1_request *req, struct h1_framing *framing)
{
    const struct http_header *row = NULL;
    struct str list, member;

    if (req->minor == 0 || !req->fields.count[H1_EXPECT])
        return H1_OK;
    row = http_header_find(&req->headers, STR("expect"));
    for (; row; row = http_header_next(&req->headers, row)) {
        list = row->value;
        while (str_cut(&list, ',', &member))
            if (!str_eq_nocase(str_trim(member), STR("100-continue")))
                return H1_OTHER_EXPECT;
    }
    framing->expect_continue = framing->body == H1_BODY_CHUNKED ||
                               (framing->body == H1_BODY_LENGTH && framing->body_bytes);
    return H1_OK;
}

enum h1_error h1_request_framing(const struct h1_request *request, struct h1_framing *ret)
{
    struct h1_framing framing = {.body = H1_BODY_NONE};
    enum h1_error e = frame_body(&request->headers, &request->fields, request->minor, &framing);

    if (!e)
        e = read_expect(request, &framing);
    if (e)
        return e;
    framing.keep_alive = is_kept_alive(&request->headers, &request->fields, request->minor);
    *ret = framing;
    return H1_OK;
}

static bool has_no_body(enum http_method method, int status)
{
    return method == HTTP_HEAD || status < 200 || status == 204 || status == 304 ||
           (method == HTTP_CONNECT && status < 300);
}

enum h1_error h1_response_framing(enum http_method method, const struct h1_response *response,
                                  struct h1_framing *ret)
{
    struct h1_framing framing = {.body = H1_BODY_CLOSE};
    enum h1_error e = H1_OK;

    if (has_no_body(method, response->status))
        framing.body = H1_BODY_NONE;
    else
        e = frame_body(&response->headers, &response->fields, response->minor, &framing);
    if (e)
        return e;
    framing.keep_alive = framing.body != H1_BODY_CLOSE &&
                         is_kept_alive(&response->headers, &response->fields, response->minor);
    *ret = framing;
    return H1_OK;
}
