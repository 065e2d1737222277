/* json.h - a strict RFC 8259 parser; the tree lives in an arena.
 *
 * The tree keeps its own copy of the text, so the caller may free the text. The tree is read-only.
 * Its strings have a NUL after their n bytes, and may contain NULs from \u0000. Nothing here
 * blocks. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

enum json_number {
    JSON_INT,  /* an integer that fits int64_t, in i64 */
    JSON_UINT, /* an integer above INT64_MAX that fits uint64_t, in u64 */
    JSON_REAL, /* has a fraction or exponent, or fits neither of the above: rounded, in real */
};

struct json {
    uint8_t type;      /* enum json_type */
    uint8_t number;    /* enum json_number, of a JSON_NUMBER */
    uint32_t at;       /* offset in the text: of the key for a member, else of the value */
    struct str key;    /* of an object's member; key.p is NULL elsewhere */
    struct json *next; /* sibling, in source order */
    union {
        bool boolean;
        struct str string;
        struct {
            union {
                int64_t i64;
                uint64_t u64;
                double real;
            };
            struct str text; /* the number as written in the text */
        };
        struct {
            struct json *first; /* of an array or object */
            size_t count;
        };
    };
};

enum json_duplicates {
    JSON_DUPLICATES_REJECT,
    JSON_DUPLICATES_LAST,  /* the last value, at the position of the first */
    JSON_DUPLICATES_FIRST, /* the first value; later ones are dropped */
};

enum {
    JSON_DEPTH_CEILING = 512, /* upper bound for depth_max */
};

/* 0 means the default. Depth counts open arrays and objects: [[1]] has 2. */
struct json_limits {
    size_t text_bytes_max;   /* default 16 MiB; below 4 GiB */
    size_t string_bytes_max; /* of one decoded string or key; default text_bytes_max */
    size_t nodes_max;        /* values, arrays and objects; default 1 Mi */
    unsigned depth_max;      /* default 64 */
    enum json_duplicates duplicates;
    bool first_only;      /* ignore everything after the first value */
    bool replace_invalid; /* read each byte of invalid UTF-8 and each lone surrogate as U+FFFD */
};

/* Parses one document. `limits` may be NULL. -EBADMSG for invalid JSON, with line and column
 * (counted in characters from 1); -EMSGSIZE past a limit; -ENOMEM when the arena is full. A number
 * outside the range of a double is -EBADMSG too. */
int json_parse(struct arena *a, struct str text, const struct json_limits *limits,
               struct json **ret, struct err *e);

/* "a string", "null", ...: for messages. */
const char *json_type_name(const struct json *v);

/* The member called `key`. NULL when there is none, or when `object` is NULL or not an object.
 * Linear search. */
const struct json *json_get(const struct json *object, struct str key);

/* Convert a value. -ENOENT when v is NULL, -EINVAL for another type (a number with a fraction or
 * exponent is not an integer), -ERANGE when it does not fit. */
int json_to_bool(const struct json *v, bool *ret);
int json_to_str(const struct json *v, struct str *ret);
int json_to_i64(const struct json *v, int64_t *ret);
int json_to_u64(const struct json *v, uint64_t *ret);
int json_to_double(const struct json *v, double *ret); /* integers beyond 2^53 are rounded */

/* Elements of an array or members of an object; NULL or 0 for anything else. */
static inline const struct json *json_first(const struct json *v)
{
    return v && (v->type == JSON_ARRAY || v->type == JSON_OBJECT) ? v->first : NULL;
}

static inline size_t json_count(const struct json *v)
{
    return v && (v->type == JSON_ARRAY || v->type == JSON_OBJECT) ? v->count : 0;
}

/* The element or member at `index`, or NULL. Linear search. */
const struct json *json_at(const struct json *v, size_t index);

/* for each element or member: json_each(item, list) { ... } */
#define json_each(item, v) for (const struct json *item = json_first(v); item; item = item->next)
