/* json_write.h - a streaming JSON writer into a buf, without white space.
 *
 * The writer adds commas and colons. Calls out of order (a value in place of a key, an unmatched
 * end) are programming errors and fail an assertion. The writer stores the first run-time error;
 * json_write_end() returns it. */
#pragma once

#include "base/buf.h"
#include "base/json.h"

enum { JSON_WRITE_DEPTH_MAX = 1024 };

struct json_writer {
    struct buf *out;
    size_t start; /* length of `out` at json_write_begin */
    int error;
    unsigned depth;
    bool first; /* the open array or object is empty: no comma yet */
    bool keyed; /* a key was written, its value is due */
    uint64_t objects[JSON_WRITE_DEPTH_MAX / 64]; /* a bit per open level: 1 object, 0 array */
};

/* Starts one document after what `out` already holds; `out` must outlive the writer. */
void json_write_begin(struct json_writer *w, struct buf *out);

/* Ends the document: 0, or the first error, and then `out` is as before. -EMSGSIZE past the limit
 * of `out`, -ENOMEM, -EDOM for NaN or an infinite double, -ELOOP when nested too deeply. */
int json_write_end(struct json_writer *w) MUST_USE;

void json_write_object(struct json_writer *w);
void json_write_object_end(struct json_writer *w);
void json_write_array(struct json_writer *w);
void json_write_array_end(struct json_writer *w);

/* Escapes `"` `\` and control characters, `<` `>` `&`, U+0085, U+2028 and U+2029; each byte of
 * invalid UTF-8 becomes \ufffd. */
void json_write_key(struct json_writer *w, struct str key);
void json_write_string(struct json_writer *w, struct str s);
size_t json_plain_bytes(struct str s); /* length of the prefix that is ASCII and needs no escape */
void json_write_i64(struct json_writer *w, int64_t v);
void json_write_u64(struct json_writer *w, uint64_t v);
/* The fewest digits that read back as the same double; an exponent below 1e-6 and from 1e21. */
void json_write_double(struct json_writer *w, double v);
void json_write_bool(struct json_writer *w, bool v);
void json_write_null(struct json_writer *w);
void json_write_raw(struct json_writer *w, struct str json); /* one valid value, verbatim */

/* Write a member of an object: the key, then the value. */
void json_member_string(struct json_writer *w, struct str key, struct str s);
void json_member_time(struct json_writer *w, struct str key, int64_t us); /* as time_format */
void json_member_i64(struct json_writer *w, struct str key, int64_t v);
void json_member_u64(struct json_writer *w, struct str key, uint64_t v);
void json_member_double(struct json_writer *w, struct str key, double v);
void json_member_bool(struct json_writer *w, struct str key, bool v);
/* Writes a tree of json_parse; numbers keep their original text. */
void json_write_value(struct json_writer *w, const struct json *v);
