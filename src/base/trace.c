#include "base/trace.h"

#include <errno.h>

#include "base/codec.h"
#include "base/id.h"
#include "base/time.h"

enum { VERSION_AT = 0, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, FLAG_SAMPLED = 1 };

/* Set before threads start, read-only until they have ended. */
static struct {
    trace_sink *take;
    void *user;
} trace_to;

static _Thread_local struct trace_context trace_now;

/* --- traceparent --- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Lower case only, as the recommendation demands. */
static bool read_hex(struct str s, size_t at, uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        int high = hex_digit(s.p[at + 2 * i]), low = hex_digit(s.p[at + 2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool is_zero(const uint8_t *p, size_t n)
{
    uint8_t all = 0;

    for (size_t i = 0; i < n; i++)
        all |= p[i];
    return all == 0;
}

int trace_parse(struct str s, struct trace_context *ret)
{
    struct trace_context c = {0};
    uint8_t version, flags;

    if (s.n < TRACE_PARENT_LEN || !read_hex(s, VERSION_AT, &version, 1) ||
        !read_hex(s, TRACE_AT, c.trace_id, sizeof(c.trace_id)) ||
        !read_hex(s, SPAN_AT, c.span_id, sizeof(c.span_id)) || !read_hex(s, FLAGS_AT, &flags, 1))
        return -EINVAL;
    if (s.p[TRACE_AT - 1] != '-' || s.p[SPAN_AT - 1] != '-' || s.p[FLAGS_AT - 1] != '-')
        return -EINVAL;
    if (version == 0xff || (version == 0 && s.n != TRACE_PARENT_LEN) ||
        (s.n > TRACE_PARENT_LEN && s.p[TRACE_PARENT_LEN] != '-'))
        return -EINVAL;
    if (is_zero(c.trace_id, sizeof(c.trace_id)) || is_zero(c.span_id, sizeof(c.span_id)))
        return -EINVAL;
    c.sampled = flags & FLAG_SAMPLED;
    *ret = c;
    return 0;
}

void trace_format(const struct trace_context *c, char out[TRACE_PARENT_MAX])
{
    memcpy(out, "00-", TRACE_AT);
    (void)hex_encode(str_make((const char *)c->trace_id, sizeof(c->trace_id)), out + TRACE_AT);
    out[SPAN_AT - 1] = '-';
    (void)hex_encode(str_make((const char *)c->span_id, sizeof(c->span_id)), out + SPAN_AT);
    memcpy(out + FLAGS_AT - 1, c->sampled ? "-01" : "-00", 4);
}

/* --- tracestate --- */

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '*' ||
           c == '/';
}

static bool is_key_part(struct str s, size_t max, bool digit_first)
{
    if (s.n == 0 || s.n > max ||
        !((s.p[0] >= 'a' && s.p[0] <= 'z') || (digit_first && s.p[0] >= '0' && s.p[0] <= '9')))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!is_key_char(s.p[i]))
            return false;
    return true;
}

/* "vendor", or "tenant@system". */
static bool is_state_key(struct str s)
{
    size_t at = str_find(s, '@');

    if (at == s.n)
        return is_key_part(s, 256, false);
    return is_key_part(str_make(s.p, at), 241, true) && is_key_part(str_skip(s, at + 1), 14, false);
}

static bool is_state_value(struct str s)
{
    if (s.n == 0 || s.n > 256 || s.p[s.n - 1] == ' ')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < ' ' || s.p[i] > '~' || s.p[i] == '=' || s.p[i] == ',')
            return false;
    return true;
}

static struct str trim_blanks(struct str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = str_skip(s, 1);
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

bool trace_state_is_valid(struct str state)
{
    struct str keys[TRACE_STATE_MEMBERS_MAX];
    size_t count = 0;

    if (state.n > TRACE_STATE_BYTES_MAX)
        return false;
    while (state.n > 0) {
        size_t end = str_find(state, ',');
        struct str member = trim_blanks(str_make(state.p, end)), key;

        state = str_skip(state, end < state.n ? end + 1 : end);
        if (member.n == 0)
            continue; /* an empty member is allowed */
        if (count == TRACE_STATE_MEMBERS_MAX || str_find(member, '=') == member.n)
            return false;
        key = str_make(member.p, str_find(member, '='));
        if (!is_state_key(key) || !is_state_value(str_skip(member, key.n + 1)))
            return false;
        for (size_t i = 0; i < count; i++)
            if (str_eq(keys[i], key))
                return false;
        keys[count++] = key;
    }
    return true;
}

/* --- contexts --- */

struct trace_context trace_context_new(const struct trace_context *parent)
{
    struct trace_context c = {0};

    if (parent)
        c = *parent;
    else
        do
            id_random_bytes(c.trace_id, sizeof(c.trace_id));
        while (is_zero(c.trace_id, sizeof(c.trace_id)));
    do
        id_random_bytes(c.span_id, sizeof(c.span_id));
    while (is_zero(c.span_id, sizeof(c.span_id)));
    return c;
}

/* The last 7 bytes are random in every kind of trace id. */
static bool ratio_takes(double ratio, const uint8_t trace_id[TRACE_ID_BYTES])
{
    uint64_t random = 0;

    for (size_t i = TRACE_ID_BYTES - 7; i < TRACE_ID_BYTES; i++)
        random = random << 8 | trace_id[i];
    return ratio >= 1 || (double)random < ratio * (double)(UINT64_C(1) << 56);
}

bool trace_sample(enum trace_sampler sampler, double ratio, const struct trace_context *parent,
                  const uint8_t trace_id[TRACE_ID_BYTES])
{
    if (parent && sampler >= TRACE_PARENT_ALWAYS_ON)
        return parent->sampled;
    if (sampler == TRACE_RATIO || sampler == TRACE_PARENT_RATIO)
        return ratio_takes(ratio, trace_id);
    return sampler == TRACE_ALWAYS_ON || sampler == TRACE_PARENT_ALWAYS_ON;
}

const struct trace_context *trace_current(void)
{
    return trace_is_some(&trace_now) ? &trace_now : NULL;
}

struct trace_context trace_enter(const struct trace_context *c)
{
    struct trace_context before = trace_now;

    trace_now = c ? *c : (struct trace_context){0};
    return before;
}

/* --- spans --- */

void trace_set_sink(trace_sink *sink, void *user)
{
    trace_to.take = sink;
    trace_to.user = user;
}

bool trace_is_on(void)
{
    return trace_to.take;
}

struct trace_span trace_begin(const struct trace_context *parent)
{
    struct trace_span s = {0};

    if (!trace_to.take || !parent || !parent->sampled)
        return s;
    s.context = trace_context_new(parent);
    memcpy(s.parent_id, parent->span_id, sizeof(s.parent_id));
    s.begin_ns = time_mono_ns();
    return s;
}

void trace_end_at(const struct trace_span *s, uint64_t end_ns, const struct trace_note *note)
{
    uint64_t now = time_mono_ns(), wall = (uint64_t)time_wall_us() * 1000;
    struct trace_row row = {.span = s, .note = note};

    if (!s->begin_ns || !trace_to.take)
        return;
    row.end_ns = wall - (now - end_ns);
    row.begin_ns = row.end_ns - (end_ns - s->begin_ns);
    trace_to.take(trace_to.user, &row);
}

void trace_end(const struct trace_span *s, const struct trace_note *note)
{
    if (s->begin_ns)
        trace_end_at(s, time_mono_ns(), note);
}
