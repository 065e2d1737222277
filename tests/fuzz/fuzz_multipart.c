/* fuzz_multipart.c - a form read whole equals the same form read in pieces by a sink that fills up.
 *
 * Byte 0 seeds the splits. A Content-Type value follows up to the first LF; without one of its own
 * the form has a fixed one. The rest is the body. */
#include <string.h>

#include "base/mem.h"
#include "fuzz.h"
#include "net/multipart.h"

enum { LOG_BYTES_MAX = 64 << 20 };

static const struct multipart_limits limits = {
    .parts_max = 20, .part_header_bytes_max = 400, .preamble_bytes_max = 100};

struct reading {
    struct buf log;
    uint32_t seed;
    bool split;
};

static size_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static void log_str(struct buf *log, struct str s)
{
    FUZZ_CHECK(buf_addf(log, "%d %zu ", s.p != NULL, s.n) == 0);
    FUZZ_CHECK(buf_add(log, s) == 0);
}

static int part_begin(void *ctx, const struct multipart_part *part)
{
    struct reading *rd = ctx;

    FUZZ_CHECK(part->header_count <= MULTIPART_HEADERS_MAX);
    log_str(&rd->log, part->name);
    log_str(&rd->log, part->filename);
    log_str(&rd->log, part->content_type);
    for (size_t i = 0; i < part->header_count; i++) {
        log_str(&rd->log, part->headers[i].name);
        log_str(&rd->log, part->headers[i].value);
    }
    return 0;
}

static ssize_t part_data(void *ctx, struct str piece)
{
    struct reading *rd = ctx;
    size_t n = rd->split ? min_size(piece.n, next_random(&rd->seed) % 9) : piece.n;

    FUZZ_CHECK(piece.n > 0);
    FUZZ_CHECK(buf_add(&rd->log, str_make(piece.p, n)) == 0);
    return (ssize_t)n;
}

static int part_end(void *ctx)
{
    struct reading *rd = ctx;

    return buf_addf(&rd->log, "<end>");
}

static int form_end(void *ctx)
{
    struct reading *rd = ctx;

    return buf_addf(&rd->log, "<form end>");
}

static const struct multipart_ops ops = {part_begin, part_data, part_end, form_end};

/* Feeds one exact-size copy until it is used up, a bounded number of times. */
static int feed_piece(struct multipart *m, struct str piece, struct err *e)
{
    auto_free char *copy = mem_alloc(piece.n);
    size_t at = 0, idle = 0;

    memcpy(copy, piece.p, piece.n);
    while (at < piece.n) {
        ssize_t r = multipart_feed(m, str_make(copy + at, piece.n - at), e);

        if (r < 0)
            return (int)r;
        FUZZ_CHECK((size_t)r <= piece.n - at);
        at += (size_t)r;
        idle = r ? 0 : idle + 1;
        FUZZ_CHECK(idle < 1000);
    }
    return 0;
}

static int read_form(struct reading *rd, struct str type, struct str body, struct err *e)
{
    struct multipart m;
    int r;

    buf_init(&rd->log, LOG_BYTES_MAX);
    r = multipart_init(&m, type, &ops, rd, &limits, e);
    if (r < 0)
        return r;
    while (body.n && r == 0) {
        size_t n = rd->split ? min_size(body.n, 1 + next_random(&rd->seed) % 13) : body.n;

        r = feed_piece(&m, str_make(body.p, n), e);
        body = str_skip(body, n);
    }
    if (r == 0)
        r = multipart_end(&m, e);
    multipart_done(&m);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str body = str_make((const char *)data, size), type;
    struct reading whole = {0}, split = {.split = true};
    struct err whole_err = {0}, split_err = {0};

    if (size < 1)
        return 0;
    split.seed = data[0];
    body = str_skip(body, 1);
    if (!str_cut(&body, '\n', &type) || !body.p)
        return 0;
    if (!type.n)
        type = STR("multipart/form-data; boundary=xYz");

    FUZZ_CHECK(read_form(&whole, type, body, &whole_err) ==
               read_form(&split, type, body, &split_err));
    FUZZ_CHECK(strcmp(whole_err.msg, split_err.msg) == 0);
    FUZZ_CHECK(str_eq(buf_str(&whole.log), buf_str(&split.log)));
    buf_done(&whole.log);
    buf_done(&split.log);
    return 0;
}
