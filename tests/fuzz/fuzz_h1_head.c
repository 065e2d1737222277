/* fuzz_h1_head.c - heads of requests and responses: what is parsed lies inside the input, is found
 * alike when it arrives in two pieces, and means the same once written and parsed again. */
#include "fuzz.h"

#include "net/h1.h"
#include "net/h1_write.h"

enum { ROWS = 40 };

static void check_inside(struct str s, struct str in)
{
    FUZZ_CHECK(!s.p || (s.p >= in.p && s.p + s.n <= in.p + in.n));
}

static void check_headers(const struct http_headers *got, const struct http_headers *again)
{
    FUZZ_CHECK(got->count == again->count);
    for (size_t i = 0; i < got->count; i++) {
        FUZZ_CHECK(str_eq(got->rows[i].name, again->rows[i].name));
        FUZZ_CHECK(str_eq(got->rows[i].value, again->rows[i].value));
    }
}

static void write_headers(struct buf *b, const struct http_headers *headers, struct str in)
{
    for (size_t i = 0; i < headers->count; i++) {
        check_inside(headers->rows[i].name, in);
        check_inside(headers->rows[i].value, in);
        FUZZ_CHECK(h1_write_header(b, headers->rows[i].name, headers->rows[i].value) == 0);
    }
    FUZZ_CHECK(h1_write_end(b) == 0);
}

/* Every cut gives the same end, or the same refusal, as the whole. */
static void check_split(struct str in, size_t cut, enum h1_error want, struct str want_head)
{
    struct h1_scan scan = {0};
    struct str head = STR_NONE;
    enum h1_error e = h1_find_head(str_make(in.p, cut), &h1_default_limits, &scan, &head);

    if (e == H1_AGAIN)
        e = h1_find_head(in, &h1_default_limits, &scan, &head);
    FUZZ_CHECK(e == want);
    FUZZ_CHECK(e != H1_OK || (head.p == want_head.p && head.n == want_head.n));
}

static void check_request(struct str head)
{
    struct http_header rows[ROWS], rows_again[ROWS];
    struct http_headers room = {rows, 0, ROWS}, room_again = {rows_again, 0, ROWS};
    struct h1_request req, again;
    struct h1_framing framing, framing_again;
    enum h1_error e;
    AUTO_BUF(b, 256 << 10);

    if (h1_parse_request(head, &h1_default_limits, &room, &req))
        return;
    check_inside(req.target, head);
    check_inside(req.query, head);
    check_inside(req.host, head);
    FUZZ_CHECK(h1_write_request_line(&b, req.method_name, req.target) == 0);
    b.p[b.n - 3] = (char)('0' + req.minor);
    write_headers(&b, &req.headers, head);
    FUZZ_CHECK(h1_parse_request(buf_str(&b), &h1_default_limits, &room_again, &again) == H1_OK);
    check_headers(&req.headers, &again.headers);
    FUZZ_CHECK(str_eq(req.target, again.target) && str_eq(req.path, again.path));
    FUZZ_CHECK(str_eq(req.query, again.query) && str_eq(req.host, again.host));
    FUZZ_CHECK(req.method == again.method && req.minor == again.minor && req.form == again.form);
    e = h1_request_framing(&req, &framing);
    FUZZ_CHECK(e == h1_request_framing(&again, &framing_again));
    FUZZ_CHECK(e ||
               (framing.body == framing_again.body && framing.body != H1_BODY_CLOSE &&
                framing.body_bytes == framing_again.body_bytes && framing.body_bytes <= INT64_MAX));
}

static void check_response(struct str head)
{
    struct http_header rows[ROWS], rows_again[ROWS];
    struct http_headers room = {rows, 0, ROWS}, room_again = {rows_again, 0, ROWS};
    struct h1_response res, again;
    struct h1_framing framing;
    AUTO_BUF(b, 256 << 10);

    if (h1_parse_response(head, &h1_default_limits, &room, &res))
        return;
    check_inside(res.reason, head);
    FUZZ_CHECK(h1_write_status(&b, res.status) == 0);
    write_headers(&b, &res.headers, head);
    FUZZ_CHECK(h1_parse_response(buf_str(&b), &h1_default_limits, &room_again, &again) == H1_OK);
    check_headers(&res.headers, &again.headers);
    FUZZ_CHECK(res.status == again.status);
    for (int m = 0; m < HTTP_METHOD_COUNT; m++)
        if (h1_response_framing((enum http_method)m, &res, &framing) == H1_OK)
            FUZZ_CHECK(framing.body_bytes <= INT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = str_make((const char *)data, size), head = STR_NONE;
    struct h1_scan scan = {0};
    enum h1_error e = h1_find_head(in, &h1_default_limits, &scan, &head);

    for (size_t cut = 0; cut < size; cut += 1 + size / 16)
        check_split(in, cut, e, head);
    check_request(in); /* unchecked bytes must not harm either */
    check_response(in);
    if (e == H1_OK) {
        check_inside(head, in);
        check_request(head);
        check_response(head);
    }
    return 0;
}
