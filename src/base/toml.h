/* toml.h - a TOML 1.0.0 parser: text into a tree of values that lives in an arena.
 *
 * The tree copies what it needs, so the caller may free the text. Every value records its file,
 * line and column, for error messages. Parsing takes linear time for any input. A tree is read-only
 * and may be shared by threads. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include <stdbool.h>

enum {
    TOML_TEXT_BYTES_MAX = 4 * 1024 * 1024,
    TOML_VALUES_MAX = 200 * 1000, /* keys, tables and array elements together */
    TOML_DEPTH_MAX = 100,         /* levels of tables and arrays below the root */
    TOML_NUMBER_DIGITS_MAX = 4096,
};

enum toml_type {
    TOML_STRING,
    TOML_INTEGER,
    TOML_FLOAT,
    TOML_BOOL,
    TOML_OFFSET_DATETIME,
    TOML_LOCAL_DATETIME,
    TOML_LOCAL_DATE,
    TOML_LOCAL_TIME,
    TOML_ARRAY,
    TOML_TABLE,
    TOML_TYPE_COUNT,
};

struct toml_pos {
    uint32_t line, column; /* from 1; columns count characters, not bytes */
};

/* A date, a time or both; fields that its type does not have are 0. */
struct toml_time {
    int year, month, day;
    int hour, minute, second; /* a leap second is 60 */
    int nanosecond;           /* digits beyond the ninth are cut off */
    int offset_minutes;       /* east of UTC */
    struct str text;          /* as written */
};

struct toml;

/* Parses a whole document. `filename` is for messages only; they read
 * "config.toml:3:7: expected '=' after the key, found ']'". -EINVAL when the text is not TOML,
 * -E2BIG past a limit above, -ENOMEM when the arena is full. */
int toml_parse(struct arena *a, struct str text, const char *filename, struct toml **ret_root,
               struct err *e);
/* The same, but *ret_at has the place of an error, and the message only what is wrong. Line 0: it
 * has no place. */
int toml_parse_at(struct arena *a, struct str text, const char *filename, struct toml **ret_root,
                  struct toml_pos *ret_at, struct err *e);

enum toml_type toml_type(const struct toml *v);
const char *toml_type_name(enum toml_type type); /* with its article: "an integer" */

/* Position of the value; for a table made by a header or dotted key, that of its key. */
struct toml_pos toml_pos(const struct toml *v);
struct toml_pos toml_key_pos(const struct toml *v); /* for an array element: toml_pos */
struct str toml_key(const struct toml *v);          /* STR_NONE for the root and array elements */

/* Children of a table or array in source order: for (c = toml_first(v); c; c = toml_next(c)). Other
 * types have none. All accept NULL. */
const struct toml *toml_first(const struct toml *v);
const struct toml *toml_next(const struct toml *v);
size_t toml_count(const struct toml *v);

/* NULL when `table` is NULL, not a table, or has no such key. */
const struct toml *toml_get(const struct toml *table, struct str key);
/* Follows keys joined by dots ("server.port"); the keys themselves must not contain dots. */
const struct toml *toml_get_path(const struct toml *table, struct str path);

/* Typed reads. -EINVAL for a value of another type, -ERANGE for a number outside the range; the
 * message has the position: "config.toml:3:8: expected an integer, found a string". */
int toml_to_str(const struct toml *v, struct str *ret, struct err *e); /* NUL-terminated */
int toml_to_i64(const struct toml *v, int64_t *ret, struct err *e);
int toml_to_i64_range(const struct toml *v, int64_t min, int64_t max, int64_t *ret, struct err *e);
int toml_to_double(const struct toml *v, double *ret, struct err *e); /* also from an integer */
int toml_to_bool(const struct toml *v, bool *ret, struct err *e);
int toml_to_time(const struct toml *v, struct toml_time *ret, struct err *e); /* all four types */

/* Set an error "file:line:column: " and the message, at the value or at its key. */
int toml_fail(const struct toml *v, struct err *e, int code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
int toml_fail_key(const struct toml *v, struct err *e, int code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
