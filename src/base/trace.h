/* trace.h - traces: the W3C trace context of a request, and spans of work that belongs to it.
 *
 *   struct trace_span span = trace_begin(trace_current());
 *   ...
 *   trace_end(&span, &(struct trace_note){.name = STR("broker spawn"), .kind = TRACE_CLIENT});
 *
 * A program that exports spans sets a sink. Without one, and below a parent that is not sampled,
 * trace_begin() returns a span of zeros, for which trace_end() does nothing. Any thread. */
#pragma once

#include <stdbool.h>

#include "base/str.h"

enum {
    TRACE_ID_BYTES = 16,
    TRACE_SPAN_BYTES = 8,
    TRACE_PARENT_MAX = sizeof("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    TRACE_PARENT_LEN = TRACE_PARENT_MAX - 1,
    TRACE_STATE_MEMBERS_MAX = 32,
    TRACE_STATE_BYTES_MAX = 4096,
};

struct trace_context { /* all 0 = none */
    uint8_t trace_id[TRACE_ID_BYTES], span_id[TRACE_SPAN_BYTES];
    bool sampled; /* its spans are recorded */
};

/* --- the headers traceparent and tracestate (W3C Trace Context) --- */

/* -EINVAL, with *ret unchanged, for what the recommendation calls invalid: then the request has no
 * parent. Of a version after 00 it reads what version 00 has. */
int trace_parse(struct str traceparent, struct trace_context *ret) MUST_USE;
void trace_format(const struct trace_context *c, char out[TRACE_PARENT_MAX]);
/* Whether all of it is valid: at most TRACE_STATE_MEMBERS_MAX members and TRACE_STATE_BYTES_MAX
 * bytes, no key twice. */
bool trace_state_is_valid(struct str tracestate);

static inline bool trace_is_some(const struct trace_context *c)
{
    static const uint8_t none[TRACE_ID_BYTES];

    return memcmp(c->trace_id, none, sizeof(none)) != 0;
}

/* A new trace, or with a parent the next span of its trace, which is sampled as the parent is. */
struct trace_context trace_context_new(const struct trace_context *parent);

/* --- sampling --- */

enum trace_sampler { /* in the order of OTEL_TRACES_SAMPLER's words */
                     TRACE_ALWAYS_ON,
                     TRACE_ALWAYS_OFF,
                     TRACE_RATIO,
                     TRACE_PARENT_ALWAYS_ON,
                     TRACE_PARENT_ALWAYS_OFF,
                     TRACE_PARENT_RATIO,
};

/* Whether a request is recorded. parent: what it came with, NULL = none. The ratio decides by the
 * trace id, so that all programs decide alike. */
bool trace_sample(enum trace_sampler sampler, double ratio, const struct trace_context *parent,
                  const uint8_t trace_id[TRACE_ID_BYTES]);

/* --- the current context of this thread: new spans and log lines belong to it --- */

const struct trace_context *trace_current(void); /* NULL = none */
/* Makes it the current one, NULL for none, and returns the one before. */
struct trace_context trace_enter(const struct trace_context *c);

/* --- spans --- */

enum trace_kind { TRACE_INTERNAL = 1, TRACE_SERVER = 2, TRACE_CLIENT = 3 }; /* as in OTLP */

struct trace_span { /* all 0 = not recorded */
    struct trace_context context;
    uint8_t parent_id[TRACE_SPAN_BYTES]; /* all 0 = none */
    uint64_t begin_ns;                   /* monotonic */
};

struct trace_attribute {
    const char *key;
    struct str text; /* p == NULL: the value is `number` */
    int64_t number;
};

enum { TRACE_ATTRIBUTES_MAX = 12 };

/* What a span is to say at its end. Never text of users, such as commands, paths of files or
 * values of variables: spans leave the machine. */
struct trace_note {
    struct str name;
    enum trace_kind kind;
    bool failed;
    const struct trace_attribute *attributes; /* at most TRACE_ATTRIBUTES_MAX */
    size_t attribute_count;
};

struct trace_row { /* a finished span; borrowed */
    const struct trace_span *span;
    const struct trace_note *note;
    uint64_t begin_ns, end_ns; /* since 1970 */
};

/* Takes finished spans, on any thread; must not log. */
typedef void trace_sink(void *user, const struct trace_row *row);
/* Call it before other threads start, and with NULL after they have ended. */
void trace_set_sink(trace_sink *sink, void *user);
bool trace_is_on(void); /* there is a sink */

/* A span below `parent`, which may be NULL. */
struct trace_span trace_begin(const struct trace_context *parent);
void trace_end(const struct trace_span *s, const struct trace_note *note);
/* One that has ended earlier: monotonic times. */
void trace_end_at(const struct trace_span *s, uint64_t end_ns, const struct trace_note *note);
static inline bool trace_is_recorded(const struct trace_span *s)
{
    return s->begin_ns > 0;
}
