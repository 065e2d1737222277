/* json_bind.h - fills C structs from JSON objects and writes them back, driven by one table.
 *
 *   static const struct json_field renew_fields[] = {
 *       JSON_FIELD("expiresAt", JSON_AS_CUSTOM, JSON_REQUIRED, struct renew, expires_at,
 *                  .parse = renew_parse_time),
 *       JSON_FIELD("reason", JSON_AS_STR, JSON_NULLABLE, struct renew, reason, .max = 200),
 *       JSON_LIST("tags", JSON_AS_ARRAY, 0, struct renew, tags, .element = &tag_element),
 *   };
 *   static const struct json_table renew = JSON_TABLE(struct renew, renew_fields, JSON_STRICT);
 *
 * Strings and raw values borrow from the tree; arrays and maps are allocated in the arena. */
#pragma once

#include "base/json.h"
#include "base/json_write.h"

/* The C type of the target. */
enum json_as {
    JSON_AS_STR,    /* struct str */
    JSON_AS_BOOL,   /* bool */
    JSON_AS_I64,    /* int64_t, and so on: integers without fraction or exponent */
    JSON_AS_I32,    /* int32_t */
    JSON_AS_U64,    /* uint64_t */
    JSON_AS_U32,    /* uint32_t */
    JSON_AS_U16,    /* uint16_t */
    JSON_AS_DOUBLE, /* double */
    JSON_AS_RAW,    /* const struct json *; also for null */
    JSON_AS_ENUM,   /* int, by .names */
    JSON_AS_OBJECT, /* a struct, by .table */
    JSON_AS_ARRAY,  /* T *, by .element, and its count */
    JSON_AS_MAP,    /* struct json_pair *, an object of strings, and its count */
    JSON_AS_CUSTOM, /* what .parse stores */
};

enum json_field_flags {
    JSON_REQUIRED = 1 << 0,
    JSON_NULLABLE = 1 << 1, /* null counts as absent */
    JSON_ANY_CASE = 1 << 2, /* of an enum: names match in any case */
};

enum json_table_flags {
    JSON_STRICT = 1 << 0, /* refuse keys without a row; otherwise they are ignored */
    JSON_SNAKE = 1 << 1,  /* accept "claim_name" when there is no "claimName" */
};

struct json_field;
struct json_table;

/* Reads `v` into *ret. On failure sets `e`, to which the binder prepends the path, and returns
 * -errno. */
typedef int json_parse_fn(struct arena *a, const struct json *v, const struct json_field *f,
                          void *ret, struct err *e);

/* Writes the member of a custom row, key and value, or nothing when it holds nothing to say. */
typedef void json_print_fn(struct json_writer *w, const struct json_field *f, const void *from);

struct json_name { /* a row of an enum; the last has a NULL name */
    const char *name;
    int value;
};

struct json_pair {
    struct str key, value;
};

struct json_field {
    const char *name; /* NULL in an .element */
    enum json_as as;
    unsigned flags;
    size_t at; /* offset of the target */
    /* Inclusive bounds; both 0: only those of the type. They limit the value of a number, the bytes
     * of a string, the elements of an array or map. */
    int64_t min;
    uint64_t max;
    size_t seen_at;  /* JSON_SEEN(type, member): a bool set to whether the field was given */
    size_t count_at; /* offset of the size_t count of an array or map */
    const struct json_field *element;
    const struct json_table *table;
    const struct json_name *names;
    json_parse_fn *parse;
    json_print_fn *print; /* NULL for a row that is only read */
    size_t size;          /* of an .element that is a list, a map or custom */
    const void *arg;      /* for .parse */
};

struct json_table {
    const struct json_field *fields;
    size_t count, size;
    unsigned flags;
};

/* Rows. After the member come the fields that this kind needs, as designated initialisers. */
#define JSON_FIELD(name, as, flags, type, member, ...)                                             \
    {                                                                                              \
        name, as, flags, offsetof(type, member), __VA_ARGS__                                       \
    }
/* A row for an array or a map; its count is the member <member>_count. */
#define JSON_LIST(name, as, flags, type, member, ...)                                              \
    JSON_FIELD(name, as, flags, type, member, .count_at = offsetof(type, member##_count),          \
               __VA_ARGS__)
#define JSON_SEEN(type, member) (offsetof(type, member) + 1)
#define JSON_TABLE(type, fields, flags)                                                            \
    {                                                                                              \
        (fields), ARRAY_LEN(fields), sizeof(type), (flags)                                         \
    }

/* Fills the struct at `ret`. Absent fields keep their values, so the caller sets defaults first,
 * also in nested objects; array elements start zeroed. -EBADMSG when a value does not fit its row,
 * with its path ("networkPolicy.egress[2].target: expected a string, got a number"); -EMSGSIZE when
 * tables nest deeper than 32; -ENOMEM; or what a custom row returned. After a failure *ret is
 * partly filled. */
int json_bind(struct arena *a, const struct json *v, const struct json_table *t, void *ret,
              struct err *e);

/* The other direction: writes the struct at `from` as an object, rows in the order of the table.
 * Left out are fields that were not given: by their .seen_at where the row has one; otherwise empty
 * strings, lists and objects, zero, false and NULL, unless the row is JSON_REQUIRED. */
void json_bind_write(struct json_writer *w, const struct json_table *t, const void *from);
