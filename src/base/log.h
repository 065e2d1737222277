/* log.h - structured logging: one line per event, with typed fields, to a descriptor or a sink.
 *
 *   log_event(LOG_INFO, "sandbox created", LOG_STR("sandbox", id), LOG_U64("ms", 3));
 *
 *   2026-01-02T03:04:05.000120Z INFO server: sandbox created sandbox=5bcf ms=3 request_id=9f2c
 *   {"time":"2026-...","level":"info","area":"server","message":"sandbox created","sandbox":...}
 *   {"level":"info","ts":"2026-01-02T03:04:05.000Z","msg":"sandbox created","sandbox":"5bcf",...}
 *
 * Lines within a sampled trace (trace.h) also have trace_id and span_id.
 *
 * A line is a single write(2) of at most LOG_LINE_MAX bytes, so lines of different threads and
 * processes do not mix, even in a pipe; a longer line is cut and marked. Line breaks and terminal
 * control bytes are escaped. Libraries return errors; programs log an error once, where they handle
 * it. May block when the descriptor does; a line that cannot be written is lost. Thread-safe. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { LOG_LINE_MAX = 4096, LOG_REQUEST_ID_MAX = 64 };

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON, LOG_JSON_BRIEF /* execd's: other field names, no area */ };

/* Receives a line with its newline. Must not log; must be thread-safe if several threads log. */
typedef void log_sink(void *user, enum log_level level, const char *message, struct str line);

struct log_conf {
    enum log_level level; /* the most verbose level that is written */
    enum log_format format;
    int fd;           /* borrowed from the caller */
    const char *area; /* the program's name; must stay valid for ever */
    log_sink *sink;   /* receives the lines instead of fd; NULL = none */
    void *sink_user;
};

/* Gets each event as well, before it is a line, on the thread that logs. Must not log. */
struct log_field;
typedef void log_tap(void *user, enum log_level level, const char *message,
                     const struct log_field *fields);
/* Call it before other threads start, and with NULL after they have ended. */
void log_set_tap(log_tap *tap, void *user);

/* Call before other threads start. Default: text, LOG_INFO and above, standard error. */
void log_init(const struct log_conf *conf);
void log_set_level(enum log_level level); /* any time, any thread */

/* Sets the request id of this thread's lines. Copied, cut to LOG_REQUEST_ID_MAX bytes; STR_NONE
 * clears it. */
void log_request_id_set(struct str id);
struct str log_request_id(void); /* valid until the next set on this thread */

enum log_field_kind {
    LOG_FIELD_STR,
    LOG_FIELD_U64,
    LOG_FIELD_I64,
    LOG_FIELD_BOOL,
    LOG_FIELD_SECRET
};

struct log_field {
    const char *key; /* a constant of the program: [a-z0-9_]+ */
    enum log_field_kind kind;
    union {
        struct str str;
        uint64_t u64;
        int64_t i64;
        bool yes;
    };
};

static inline struct str log_str_same(struct str s)
{
    return s;
}

/* `v` is a struct str or a C string. */
#define LOG_STR(name, v)                                                                           \
    ((struct log_field){.key = (name),                                                             \
                        .kind = LOG_FIELD_STR,                                                     \
                        .str = _Generic((v), struct str                                            \
                                        : log_str_same, default                                    \
                                        : str_of)(v)})
#define LOG_U64(name, v)  ((struct log_field){.key = (name), .kind = LOG_FIELD_U64, .u64 = (v)})
#define LOG_I64(name, v)  ((struct log_field){.key = (name), .kind = LOG_FIELD_I64, .i64 = (v)})
#define LOG_BOOL(name, v) ((struct log_field){.key = (name), .kind = LOG_FIELD_BOOL, .yes = (v)})
/* Logs that there was a value, without reading it. */
#define LOG_SECRET(name, v)                                                                        \
    ((struct log_field){.key = (name), .kind = LOG_FIELD_SECRET, .u64 = sizeof(v)})

/* Read at every log site, written by log_init and log_set_level. */
extern _Atomic int log_level_now;

static inline bool log_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

/* The arguments after the level are evaluated only when the line will be written. */
#define log_event(level, ...)                                                                      \
    do {                                                                                           \
        if (log_enabled(level))                                                                    \
            log_event_fields((level), LOG_FIELDS(__VA_ARGS__, {.key = NULL}));                     \
    } while (0)
#define LOG_FIELDS(message, ...)                                                                   \
    (message), (const struct log_field[])                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* Called by log_event. `fields` ends with a NULL key. */
void log_event_fields(enum log_level level, const char *message, const struct log_field *fields);

/* Writes the line to another descriptor, at any level and not to the sink. */
void log_fields_to(int fd, enum log_level level, const char *message,
                   const struct log_field *fields);

/* Rate limit for one kind of line: LOG_LIMIT_LINES per second pass, the others are counted. All
 * zero is a valid initial value. */
enum { LOG_LIMIT_LINES = 20 };

struct log_limit {
    uint64_t begin_ns; /* start of the second that `passed` counts */
    uint64_t left_out;
    uint32_t passed;
};

bool log_limit_pass(struct log_limit *l, uint64_t now_ns); /* monotonic time */
uint64_t log_limit_take(struct log_limit *l);              /* lines left out since the last call */

/* Logs "context: what happened" at LOG_ERROR and returns -e->code. */
int log_err(const struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
