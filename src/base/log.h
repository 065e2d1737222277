/* log.h - one line per event, with typed fields, to one descriptor, or wherever a sink takes it.
 *
 *     log_event(LOG_INFO, "sandbox created", LOG_STR("sandbox", id), LOG_U64("ms", 3));
 *
 *     2026-01-02T03:04:05.000120Z INFO server: sandbox created sandbox=5bcf ms=3 request_id=9f2c
 *     {"time":"2026-...","level":"info","area":"server","message":"sandbox created","sandbox":...}
 *     {"level":"info","ts":"2026-01-02T03:04:05.000Z","msg":"sandbox created","sandbox":"5bcf",...}
 *
 * A line is a single write(2) of at most LOG_LINE_MAX bytes, so lines of threads and processes
 * never mix, also in a pipe; a longer one is cut and says so. Bytes that could forge a line, or
 * move a terminal's cursor, are escaped. Libraries return errors; programs log, once, where they
 * decide. May block when the descriptor does; a line that cannot be written is lost. Thread-safe.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { LOG_LINE_MAX = 4096, LOG_REQUEST_ID_MAX = 64 };

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON, LOG_JSON_BRIEF /* execd's: other names, no area */ };

/* Takes a line with its newline. Must not log, and must be thread-safe where threads do. */
typedef void log_sink(void *user, enum log_level level, const char *message, struct str line);

struct log_conf {
    enum log_level level; /* the most talkative that is written */
    enum log_format format;
    int fd;           /* stays the caller's */
    const char *area; /* the program; borrowed for good */
    log_sink *sink;   /* gets the lines instead of fd; NULL = none */
    void *sink_user;
};

/* Before other threads start. Without it: text, LOG_INFO and above, standard error. */
void log_init(const struct log_conf *conf);
void log_set_level(enum log_level level); /* any time, any thread */

/* The id that this thread's lines carry from now on. Copied, cut to LOG_REQUEST_ID_MAX bytes;
 * STR_NONE clears it. */
void log_request_id_set(struct str id);
struct str log_request_id(void); /* borrowed until the next set on this thread */

enum log_field_kind {
    LOG_FIELD_STR,
    LOG_FIELD_U64,
    LOG_FIELD_I64,
    LOG_FIELD_BOOL,
    LOG_FIELD_SECRET
};

struct log_field {
    const char *key; /* ours, plain: [a-z0-9_]+ */
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

/* A struct str or a C string. */
#define LOG_STR(name, v)                                                                           \
    ((struct log_field){.key = (name),                                                             \
                        .kind = LOG_FIELD_STR,                                                     \
                        .str = _Generic((v), struct str                                            \
                                        : log_str_same, default                                    \
                                        : str_of)(v)})
#define LOG_U64(name, v)  ((struct log_field){.key = (name), .kind = LOG_FIELD_U64, .u64 = (v)})
#define LOG_I64(name, v)  ((struct log_field){.key = (name), .kind = LOG_FIELD_I64, .i64 = (v)})
#define LOG_BOOL(name, v) ((struct log_field){.key = (name), .kind = LOG_FIELD_BOOL, .yes = (v)})
/* Says that there was one. The value is not even looked at. */
#define LOG_SECRET(name, v)                                                                        \
    ((struct log_field){.key = (name), .kind = LOG_FIELD_SECRET, .u64 = sizeof(v)})

/* Read at every log site, written by log_init and log_set_level. */
extern _Atomic int log_level_now;

static inline bool log_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

/* Arguments behind the level are evaluated only when the line will be written. */
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

/* What the macro calls: fields up to the one whose key is NULL. */
void log_event_fields(enum log_level level, const char *message, const struct log_field *fields);

/* The same line to another descriptor, whatever the level that is written; no sink gets it. */
void log_fields_to(int fd, enum log_level level, const char *message,
                   const struct log_field *fields);

/* Bounds the lines of one kind: in a second, those up to LOG_LIMIT_LINES pass, the rest is counted.
 * All zero is a valid start. */
enum { LOG_LIMIT_LINES = 20 };

struct log_limit {
    uint64_t begin_ns; /* of the second that `passed` counts */
    uint64_t left_out;
    uint32_t passed;
};

bool log_limit_pass(struct log_limit *l, uint64_t now_ns); /* monotonic time */
uint64_t log_limit_take(struct log_limit *l);              /* lines left out since the last call */

/* "context: what happened" at LOG_ERROR; returns -e->code, ready for return. */
int log_err(const struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
