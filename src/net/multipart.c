/* multipart.c - finds boundaries in a stream and passes on the parts between them.
 *
 *   preamble, CRLF--boundary   PREAMBLE
 *   rest of the boundary line  LINE_END
 *   headers, CRLF CRLF         HEADERS
 *   data, CRLF--boundary       DATA; then LINE_END again, or EPILOGUE after CRLF--boundary--
 *
 * The delimiter has CR only as its first byte. So a partial match that fails is all data, and only
 * the byte that broke it can begin another match. No input is stored: withheld bytes can be copied
 * from the delimiter itself. */
#include "net/multipart.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum stage { STAGE_PREAMBLE, STAGE_LINE_END, STAGE_HEADERS, STAGE_DATA, STAGE_EPILOGUE };

static const struct multipart_limits default_limits = {
    .parts_max = 1000,
    .part_header_bytes_max = 8 << 10,
    .preamble_bytes_max = 8 << 10,
};

/* Shift table: how far the search moves for a byte at the delimiter's last position; 0 for a
 * match. */
static void set_steps(struct multipart *m)
{
    uint8_t last = (uint8_t)(m->delimiter_n - 1);
    uint8_t *matching = &m->steps[(uint8_t)m->delimiter[last]];

    memset(m->steps, m->delimiter_n, sizeof(m->steps));
    for (uint8_t i = 0; i < last; i++)
        m->steps[(uint8_t)m->delimiter[i]] = (uint8_t)(last - i);
    m->last_step = *matching;
    *matching = 0;
}

int multipart_init(struct multipart *m, struct str content_type, const struct multipart_ops *ops,
                   void *ctx, const struct multipart_limits *limits, struct err *e)
{
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    struct multipart_limits l = limits ? *limits : default_limits;
    int r;

    r = multipart_boundary_parse(content_type, boundary, e);
    if (r < 0)
        return r;
    if (!l.parts_max)
        l.parts_max = default_limits.parts_max;
    if (!l.part_header_bytes_max)
        l.part_header_bytes_max = default_limits.part_header_bytes_max;
    if (!l.preamble_bytes_max)
        l.preamble_bytes_max = default_limits.preamble_bytes_max;

    *m = (struct multipart){.ops = ops, .ctx = ctx, .limits = l, .stage = STAGE_PREAMBLE};
    m->delimiter_n = (uint8_t)(4 + strlen(boundary));
    snprintf(m->delimiter, sizeof(m->delimiter), "\r\n--%s--", boundary);
    set_steps(m);
    m->held_from = m->held_until = 2; /* the body's first line needs no CRLF before it */
    buf_init(&m->head, 2 * l.part_header_bytes_max);
    return 0;
}

void multipart_done(struct multipart *m)
{
    buf_done(&m->head);
}

/* Passes on bytes that are not a boundary; returns how many were taken. */
static ssize_t emit(struct multipart *m, struct str piece, struct err *e)
{
    ssize_t taken;

    if (m->stage == STAGE_DATA) {
        taken = m->ops->part_data(m->ctx, piece);
        assert(taken <= (ssize_t)piece.n);
        m->full = taken < (ssize_t)piece.n;
        return taken;
    }
    m->preamble_bytes += piece.n;
    if (m->preamble_bytes > m->limits.preamble_bytes_max)
        return err_set(e, EMSGSIZE, "no boundary in the first %zu bytes of the form",
                       m->limits.preamble_bytes_max);
    return (ssize_t)piece.n;
}

static int end_part(struct multipart *m)
{
    if (!m->in_part)
        return 0;
    m->in_part = false;
    return m->ops->part_end(m->ctx);
}

/* Resets the match and enters the stage after a delimiter. */
static void enter(struct multipart *m, enum stage stage)
{
    m->stage = (uint8_t)stage;
    m->held_from = m->held_until = 0;
    m->saw_cr = false;
}

/* Index at which the delimiter, or its part at the end of the input, begins; or s.n.
 *
 * Horspool's search: the byte at the delimiter's last position tells how far to move, usually the
 * delimiter's whole length. The delimiter begins with its only CR, so comparisons rarely get past
 * that byte, and hostile content costs at most one step per byte. */
static size_t find_delimiter(const struct multipart *m, struct str s)
{
    size_t last = m->delimiter_n - 1U, end = last;
    const char *cr;

    while (end < s.n) {
        size_t step = m->steps[(uint8_t)s.p[end]];

        if (step == 0) {
            const char *at = s.p + end - last;

            if (*at == '\r' && memcmp(at, m->delimiter, last) == 0)
                return end - last;
            step = m->last_step;
        }
        end += step;
    }
    for (size_t at = end - last; at < s.n; at++) { /* too short for a complete delimiter */
        cr = memchr(s.p + at, '\r', s.n - at);
        if (!cr)
            return s.n;
        at = (size_t)(cr - s.p);
        if (memcmp(cr, m->delimiter, s.n - at) == 0)
            return at;
    }
    return s.n;
}

/* The withheld bytes are content. 1 when all of them are passed on, 0 when full. */
static int flush_held(struct multipart *m, struct err *e)
{
    size_t n = (size_t)(m->held_until - m->held_from);
    ssize_t taken = n ? emit(m, str_make(m->delimiter + m->held_from, n), e) : 0;

    if (taken < 0)
        return (int)taken;
    m->held_from = (uint8_t)(m->held_from + taken);
    if (m->held_from < m->held_until)
        return 0;
    m->held_from = m->held_until = 0;
    return 1;
}

/* Extends the match as far as bytes agree; "--" after the boundary closes the form. */
static ssize_t take_matching(struct multipart *m, struct str s)
{
    size_t full = m->delimiter_n + 2U, n = 0;
    int r;

    while (n < s.n && m->held_until < full && s.p[n] == m->delimiter[m->held_until]) {
        m->held_until++;
        n++;
    }
    if (m->held_until == full) {
        enter(m, STAGE_EPILOGUE);
        r = end_part(m);
        if (r >= 0)
            r = m->ops->form_end(m->ctx);
        if (r < 0)
            return r;
    }
    return (ssize_t)n;
}

static ssize_t read_content(struct multipart *m, struct str s, struct err *e)
{
    size_t n;
    ssize_t r;

    if (m->held_until) {
        r = take_matching(m, s);
        if (r != 0)
            return r;
        if (m->held_until == m->delimiter_n &&
            (s.p[0] == '\r' || s.p[0] == ' ' || s.p[0] == '\t')) {
            enter(m, STAGE_LINE_END);
            m->saw_cr = s.p[0] == '\r';
            r = end_part(m);
            return r < 0 ? r : 1;
        }
        /* The byte that broke the match stays in the input, so part_data may be full here. */
        r = flush_held(m, e);
        if (r <= 0)
            return r;
    }
    n = find_delimiter(m, s);
    return n ? emit(m, str_make(s.p, n), e) : take_matching(m, s);
}

/* After a boundary: white space that a transport may have added, then CRLF. */
static ssize_t read_line_end(struct multipart *m, struct str s, struct err *e)
{
    char c = s.p[0];

    if (!m->saw_cr && (c == ' ' || c == '\t' || c == '\r')) {
        m->saw_cr = c == '\r';
        return 1;
    }
    if (!m->saw_cr || c != '\n')
        return err_set(e, EBADMSG, "text follows a boundary on its line");
    if (++m->part_count > m->limits.parts_max)
        return err_set(e, EMSGSIZE, "the form has more than %zu parts", m->limits.parts_max);
    buf_clear(&m->head);
    enter(m, STAGE_HEADERS);
    return 1;
}

static int begin_part(struct multipart *m, struct err *e)
{
    int r;

    r = multipart_part_parse(&m->head, &m->part, e);
    if (r < 0)
        return err_wrap(e, r, "part %zu", m->part_count);
    enter(m, STAGE_DATA);
    /* Without content, the empty line may also be the start of the next boundary. */
    m->held_from = m->held_until = 2;
    m->in_part = true;
    return m->ops->part_begin(m->ctx, &m->part);
}

static ssize_t read_headers(struct multipart *m, struct str s, struct err *e)
{
    size_t n = min_size(str_find(s, '\n') + 1, s.n);
    struct str head;
    int r;

    if (n > m->limits.part_header_bytes_max - m->head.n)
        return err_set(e, EMSGSIZE, "the headers of part %zu exceed %zu bytes", m->part_count,
                       m->limits.part_header_bytes_max);
    r = buf_add(&m->head, str_make(s.p, n));
    if (r < 0)
        return err_set(e, -r, "no memory for the headers of part %zu", m->part_count);
    head = buf_str(&m->head);
    if (str_ends(head, STR("\n")) && !str_ends(head, STR("\r\n")))
        return err_set(e, EBADMSG, "part %zu: a header line does not end in CRLF", m->part_count);
    if (str_ends(head, STR("\r\n\r\n")) || str_eq(head, STR("\r\n"))) {
        r = begin_part(m, e);
        if (r < 0)
            return r;
    }
    return (ssize_t)n;
}

static ssize_t skip_epilogue(struct multipart *m, struct str s, struct err *e)
{
    return (ssize_t)s.n;
}

ssize_t multipart_feed(struct multipart *m, struct str bytes, struct err *e)
{
    static ssize_t (*const readers[])(struct multipart *, struct str, struct err *) = {
        [STAGE_PREAMBLE] = read_content,  [STAGE_LINE_END] = read_line_end,
        [STAGE_HEADERS] = read_headers,   [STAGE_DATA] = read_content,
        [STAGE_EPILOGUE] = skip_epilogue,
    };
    size_t used = 0;
    ssize_t r;

    if (m->failed)
        return err_set(e, -m->failed, "the form has failed before");
    m->full = false;
    while (used < bytes.n && !m->full) {
        r = readers[m->stage](m, str_skip(bytes, used), e);
        if (r < 0)
            return m->failed = (int)r;
        used += (size_t)r;
    }
    return (ssize_t)used;
}

int multipart_end(const struct multipart *m, struct err *e)
{
    static const char *const places[] = {
        [STAGE_PREAMBLE] = "before its first boundary",
        [STAGE_LINE_END] = "behind a boundary",
        [STAGE_HEADERS] = "in the headers of a part",
        [STAGE_DATA] = "in the content of a part",
    };

    if (m->failed)
        return err_set(e, -m->failed, "the form has failed before");
    if (m->stage == STAGE_EPILOGUE)
        return 0;
    return err_set(e, EBADMSG, "the form ends %s", places[m->stage]);
}
