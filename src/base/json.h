/* json.h - a strict RFC 8259 reader into a tree that lives in an arena.
 *
 * The tree owns a private copy of the text, so the caller's may go. It is read-only, and its
 * strings carry a NUL behind their n bytes (and may hold one inside, from \u0000). Nothing here
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
    uint32_t at;       /* offset in the text: of the key when it has one, else of the value */
    struct str key;    /* of an object's member; key.p is NULL elsewhere */
    struct json *next; /* sibling, in the order of the text */
    union {
        bool boolean;
        struct str string;
        struct {
            union {
                int64_t i64;
                uint64_t u64;
                double real;
            };
            struct str text; /* the number as it was written */
        };
        struct {
            struct json *first; /* of an array or object */
            size_t count;
        };
    };
};

enum json_duplicates {
    JSON_DUPLICATES_REJECT,
    JSON_DUPLICATES_LAST,  /* the last value, at the place of the first */
    JSON_DUPLICATES_FIRST, /* later ones are dropped */
};

enum {
    JSON_DEPTH_CEILING = 512, /* what depth_max may be at most */
};

/* A 0 stands for the default. Depth counts open arrays and objects: [[1]] has 2. */
struct json_limits {
    size_t text_bytes_max;   /* default 16 MiB; below 4 GiB */
    size_t string_bytes_max; /* of one decoded string or key; default text_bytes_max */
    size_t nodes_max;        /* values, arrays and objects; default 1 Mi */
    unsigned depth_max;      /* default 64 */
    enum json_duplicates duplicates;
    bool first_only;      /* what stands behind the first value is not looked at */
    bool replace_invalid; /* each byte of invalid UTF-8 and each lone surrogate reads as U+FFFD */
};

/* Reads one document. `limits` may be NULL. -EBADMSG for what is not JSON, with line and column
 * (counted in characters from 1); -EMSGSIZE for what exceeds a limit; -ENOMEM when the arena is
 * full. A number beyond the range of a double is -EBADMSG too. */
int json_parse(struct arena *a, struct str text, const struct json_limits *limits,
               struct json **ret, struct err *e);

/* "a string", "null", ... for messages. */
const char *json_type_name(const struct json *v);

/* The member called `key`, or NULL; NULL too when `object` is NULL or no object. Linear. */
const struct json *json_get(const struct json *object, struct str key);

/* The value as a C type. -ENOENT when v is NULL, -EINVAL when it is of another type (a number with
 * a fraction or exponent is no integer), -ERANGE when it does not fit. */
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

/* The element or member at `index`, or NULL. Linear. */
const struct json *json_at(const struct json *v, size_t index);

/* for each element or member: json_each(item, list) { ... } */
#define json_each(item, v) for (const struct json *item = json_first(v); item; item = item->next)
