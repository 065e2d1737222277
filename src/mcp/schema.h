/* schema.h - arguments of tools: one table makes the JSON schema, checks what came, and has the
 * defaults. */
#pragma once

#include "base/json.h"
#include "base/json_write.h"

enum field_type {
    FIELD_STRING,
    FIELD_INTEGER,
    FIELD_NUMBER,
    FIELD_BOOL,
    FIELD_STRINGS,    /* a list */
    FIELD_STRING_MAP, /* an object whose values are strings */
    FIELD_OBJECT,     /* by .fields */
    FIELD_OBJECTS,    /* a list of these */
};

struct field;

struct schema {
    const struct field *fields;
    size_t count;
};
#define SCHEMA(rows)                                                                               \
    {                                                                                              \
        (rows), ARRAY_LEN(rows)                                                                    \
    }

struct field {
    const char *name;
    enum field_type type;
    bool required;
    const char *about;
    const char *otherwise; /* the default, as JSON; NULL = none */
    int64_t min, max;      /* of a number; both 0 = any */
    bool any_bytes;        /* a string that may hold NULs */
    struct schema inner;   /* of FIELD_OBJECT and FIELD_OBJECTS */
};

void schema_write(struct json_writer *w, const struct schema *s);
/* -EINVAL with a sentence that says what was wrong and what would be right. A null counts as
 * absent. `value` may be NULL: no arguments. */
int schema_check(const struct schema *s, const struct json *value, struct err *e) MUST_USE;
