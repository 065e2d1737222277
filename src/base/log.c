/* log.c - builds a line on the stack and writes it with one call.
 *
 * A line has a reserve after its limit. Once something does not fit, the line is cut: only its
 * closing text and the request id are still added, into the reserve, so that a cut JSON line is
 * valid JSON. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/time.h"
#include "base/trace.h"
#include "base/utf8.h"

enum {
    RESERVE_TAIL = sizeof("\",\"cut\":true}\n"), /* the longest closing text */
    RESERVE_TRACE =
        sizeof(",\"trace_id\":\"\",\"span_id\":\"\"") + 2 * TRACE_ID_BYTES + 2 * TRACE_SPAN_BYTES,
    RESERVE_ID = sizeof(",\"request_id\":\"\"") + 6 * LOG_REQUEST_ID_MAX + /* every byte escaped */
                 RESERVE_TRACE,
    LIMIT_FIELDS = LOG_LINE_MAX - RESERVE_TAIL - RESERVE_ID,
    LIMIT_ID = LOG_LINE_MAX - RESERVE_TAIL,
    ERR_TEXT_MAX = 1024,
};

_Atomic int log_level_now = LOG_INFO;

/* Written by log_init before threads start, read-only afterwards. */
static struct log_conf log_conf = {LOG_INFO, LOG_TEXT, STDERR_FILENO, "main"};

/* Set by log_set_tap before threads start. */
static struct {
    log_tap *take;
    void *user;
} log_tapped;

static bool is_json(void)
{
    return log_conf.format != LOG_TEXT;
}

static _Thread_local char log_id[LOG_REQUEST_ID_MAX];
static _Thread_local size_t log_id_n;

struct line {
    size_t n, limit;
    bool cut;
    char p[LOG_LINE_MAX];
};

static const struct {
    const char *text, *json;
} level_names[] = {
    [LOG_ERROR] = {"ERROR", "error"},
    [LOG_WARN] = {"WARN",  "warn" },
    [LOG_INFO] = {"INFO",  "info" },
    [LOG_DEBUG] = {"DEBUG", "debug"},
};

void log_init(const struct log_conf *conf)
{
    log_conf = *conf;
    if (!log_conf.area)
        log_conf.area = "main";
    log_set_level(conf->level);
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&log_level_now, (int)level, memory_order_relaxed);
}

void log_set_tap(log_tap *tap, void *user)
{
    log_tapped.take = tap;
    log_tapped.user = user;
}

void log_request_id_set(struct str id)
{
    log_id_n = min_size(id.n, sizeof(log_id));
    if (log_id_n)
        memcpy(log_id, id.p, log_id_n);
}

struct str log_request_id(void)
{
    return str_make(log_id, log_id_n);
}

/* Adds all of `s`; if it does not fit, cuts the line, and later calls add nothing. */
static void line_put(struct line *l, struct str s)
{
    if (l->cut || l->n > l->limit || s.n > l->limit - l->n) { /* n may be in the reserve */
        l->cut = true;
        return;
    }
    memcpy(l->p + l->n, s.p, s.n);
    l->n += s.n;
}

/* Adds to the reserve, which is large enough. */
static void line_close(struct line *l, struct str s)
{
    memcpy(l->p + l->n, s.p, s.n);
    l->n += s.n;
}

/* C0, DEL and C1: bytes that a terminal or a line reader would interpret. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

static PRINTF_LIKE(2, 3) void line_put_escape(struct line *l, const char *fmt, ...)
{
    char escape[16];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(escape, sizeof(escape), fmt, ap);
    va_end(ap);
    line_put(l, str_make(escape, (size_t)n));
}

/* Adds a string, with everything escaped that is invalid in JSON or in a line of text. The only
 * place that implements these rules. */
static void line_put_escaped(struct line *l, struct str s)
{
    bool json = is_json();

    while (s.n && !l->cut) {
        uint32_t code = 0; /* stays 0 for a malformed byte, which is escaped like a control */
        int n = utf8_decode(s, &code);

        if (n < 0 && json) {
            line_put(l, STR("\\ufffd"));
        } else if (code == '"' || code == '\\') {
            line_put_escape(l, "\\%c", (int)code);
        } else if (code == '\n') {
            line_put(l, STR("\\n"));
        } else if (is_control(code) && json) {
            line_put_escape(l, "\\u%04x", code);
        } else if (is_control(code)) {
            line_put_escape(l, "\\x%02x", s.p[0] & 0xff);
            n = 1; /* the second byte of a C1 control is malformed on its own */
        } else {
            line_put(l, str_make(s.p, (size_t)n));
        }
        s = str_skip(s, n < 0 ? 1 : (size_t)n);
    }
}

/* Whether text format can show the value without quotes, unambiguously. */
static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] >= 0x7f || strchr("\"\\=", s.p[i]))
            return false;
    return s.n > 0;
}

static void line_put_string(struct line *l, struct str s)
{
    if (!is_json() && is_plain(s) && l->n + s.n <= l->limit) {
        line_put(l, s);
        return;
    }
    line_put(l, STR("\""));
    if (l->cut)
        return;
    line_put_escaped(l, s);
    line_close(l, STR("\""));
}

static void line_put_value(struct line *l, const struct log_field *f)
{
    char number[24];

    switch (f->kind) {
    case LOG_FIELD_STR:
        line_put_string(l, f->str);
        break;
    case LOG_FIELD_U64:
        snprintf(number, sizeof(number), "%llu", (unsigned long long)f->u64);
        line_put(l, str_of(number));
        break;
    case LOG_FIELD_I64:
        snprintf(number, sizeof(number), "%lld", (long long)f->i64);
        line_put(l, str_of(number));
        break;
    case LOG_FIELD_BOOL:
        line_put(l, f->yes ? STR("true") : STR("false"));
        break;
    case LOG_FIELD_SECRET:
        line_put_string(l, STR("<redacted>"));
        break;
    }
}

/* Adds the field with its value, perhaps cut, or nothing at all. */
static void line_put_field(struct line *l, const struct log_field *f)
{
    bool json = is_json();
    size_t mark = l->n, value;

    line_put(l, json ? STR(",\"") : STR(" "));
    line_put(l, str_of(f->key));
    line_put(l, json ? STR("\":") : STR("="));
    value = l->n;
    if (!l->cut)
        line_put_value(l, f);
    if (l->cut && l->n <= value)
        l->n = mark;
}

static void line_put_head_text(struct line *l, enum log_level level, const char *message)
{
    char now[TIME_TEXT_MAX];

    line_put(l, str_make(now, time_format(time_wall_us(), now)));
    line_put(l, STR(" "));
    line_put(l, str_of(level_names[level].text));
    line_put(l, STR(" "));
    line_put_escaped(l, str_of(log_conf.area));
    line_put(l, STR(": "));
    line_put_escaped(l, str_of(message));
}

static void line_put_head_json(struct line *l, enum log_level level, const char *message)
{
    char now[TIME_TEXT_MAX];

    line_put(l, STR("{\"time\":\""));
    line_put(l, str_make(now, time_format(time_wall_us(), now)));
    line_put(l, STR("\",\"level\":\""));
    line_put(l, str_of(level_names[level].json));
    line_put(l, STR("\",\"area\":"));
    line_put_string(l, str_of(log_conf.area));
    line_put(l, STR(",\"message\":"));
    line_put_string(l, str_of(message));
}

static void line_put_head_brief(struct line *l, enum log_level level, const char *message)
{
    char now[TIME_TEXT_MAX];

    line_put(l, STR("{\"level\":\""));
    line_put(l, str_of(level_names[level].json));
    line_put(l, STR("\",\"ts\":\""));
    line_put(l, str_make(now, time_format_ms(time_wall_us(), now)));
    line_put(l, STR("\",\"msg\":"));
    line_put_string(l, str_of(message));
}

static void (*const line_put_head[])(struct line *l, enum log_level level, const char *message) = {
    [LOG_TEXT] = line_put_head_text,
    [LOG_JSON] = line_put_head_json,
    [LOG_JSON_BRIEF] = line_put_head_brief,
};

static void line_put_trace(struct line *l, const struct trace_context *c)
{
    char trace[2 * TRACE_ID_BYTES + 1] = "", span[2 * TRACE_SPAN_BYTES + 1] = "";
    struct log_field ids[] = {
        LOG_STR("trace_id", str_make(trace, sizeof(trace) - 1)),
        LOG_STR("span_id", str_make(span, sizeof(span) - 1)),
    };

    (void)hex_encode(str_make((const char *)c->trace_id, sizeof(c->trace_id)), trace);
    (void)hex_encode(str_make((const char *)c->span_id, sizeof(c->span_id)), span);
    line_put_field(l, &ids[0]);
    line_put_field(l, &ids[1]);
}

/* These ids connect related lines, so they have reserved room in a cut line. */
static void line_put_ids(struct line *l)
{
    struct log_field id = LOG_STR("request_id", log_request_id());
    const struct trace_context *trace = trace_current();
    bool was_cut = l->cut;

    if (trace && !trace->sampled)
        trace = NULL;
    if (log_id_n == 0 && !trace)
        return;
    l->cut = false;
    l->limit = LIMIT_ID;
    if (log_id_n > 0)
        line_put_field(l, &id);
    if (trace)
        line_put_trace(l, trace);
    l->cut |= was_cut;
}

static void line_end(struct line *l)
{
    bool json = is_json();

    if (l->cut)
        line_close(l, json ? STR(",\"cut\":true") : STR(" (cut)"));
    line_close(l, json ? STR("}\n") : STR("\n"));
}

static void line_make(struct line *l, enum log_level level, const char *message,
                      const struct log_field *fields)
{
    l->limit = LIMIT_FIELDS;
    line_put_head[log_conf.format](l, level, message);
    for (; fields->key; fields++)
        line_put_field(l, fields);
    line_put_ids(l);
    line_end(l);
}

static void line_write(const struct line *l, int fd)
{
    ssize_t r;

    do
        r = write(fd, l->p, l->n);
    while (r < 0 && errno == EINTR);
}

/* Both preserve errno: a log line between a call and its check must not change the result. */

void log_event_fields(enum log_level level, const char *message, const struct log_field *fields)
{
    struct line l = {0};
    int saved = errno;

    if (log_tapped.take)
        log_tapped.take(log_tapped.user, level, message, fields);
    line_make(&l, level, message, fields);
    if (log_conf.sink)
        log_conf.sink(log_conf.sink_user, level, message, str_make(l.p, l.n));
    else
        line_write(&l, log_conf.fd);
    errno = saved;
}

void log_fields_to(int fd, enum log_level level, const char *message,
                   const struct log_field *fields)
{
    struct line l = {0};
    int saved = errno;

    line_make(&l, level, message, fields);
    line_write(&l, fd);
    errno = saved;
}

bool log_limit_pass(struct log_limit *l, uint64_t now_ns)
{
    if (l->passed == 0 || now_ns - l->begin_ns >= 1000 * TIME_NS_PER_MS) {
        l->begin_ns = now_ns;
        l->passed = 0;
    }
    if (l->passed < LOG_LIMIT_LINES) {
        l->passed++;
        return true;
    }
    l->left_out++;
    return false;
}

uint64_t log_limit_take(struct log_limit *l)
{
    uint64_t left_out = l->left_out;

    l->left_out = 0;
    return left_out;
}

int log_err(const struct err *e, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list ap;
    size_t n;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    n = strnlen(text, sizeof(text) - 1);
    snprintf(text + n, sizeof(text) - n, "%s%s", n ? ": " : "", e->msg);
    log_event(LOG_ERROR, text, LOG_I64("errno", e->code));
    return -e->code;
}
