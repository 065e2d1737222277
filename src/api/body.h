/* body.h - checks and parses the JSON body of a request.
 *
 * Stricter than RFC 8259: keys must not repeat, and no string may contain a NUL, so that every
 * string of the API is also a C string. Messages name types, never values, so that they leak no
 * secrets. */
#pragma once

#include "api/fail.h"
#include "base/json_bind.h"

enum { API_BODY_BYTES_MAX = 1 << 20, API_BODY_NODES_MAX = 1 << 14, API_BODY_DEPTH_MAX = 32 };

/* Whether this content type is application/json or application/<something>+json. */
bool api_is_json_type(struct str type);

/* Parses the body of a request with Content-Type `type` into a tree in the arena. */
int api_body_parse(struct arena *a, struct str type, struct str body, struct json **ret,
                   struct api_fail *f);
/* The same, and binds it to the struct at `ret`, which holds the defaults. */
int api_body_bind(struct arena *a, struct str type, struct str body, const struct json_table *t,
                  void *ret, struct api_fail *f);

/* For JSON_AS_CUSTOM rows, as lenient as the contract. An int64_t within .min and .max: an integer,
 * a number with a zero fraction (60.0), either as text, or a boolean. A bool: also 0 and 1, and the
 * words of api_bool_word(). */
int api_parse_integer(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                      struct err *e);
int api_parse_bool(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                   struct err *e);

/* An int64_t of microseconds since 1970: text as of time_parse_lenient, or a Unix time as a number.
 * Written as time_format does, and left out when 0. */
int api_parse_time(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                   struct err *e);
void api_print_time(struct json_writer *w, const struct json_field *f, const void *from);
void api_print_integer(struct json_writer *w, const struct json_field *f, const void *from);
void api_print_bool(struct json_writer *w, const struct json_field *f, const void *from);
/* Both directions of such a row. */
#define API_LENIENT_INTEGER .parse = api_parse_integer, .print = api_print_integer
#define API_LENIENT_BOOL    .parse = api_parse_bool, .print = api_print_bool

/* true 1 on t y yes, false 0 off f n no, case-insensitive. -EINVAL for other words. */
int api_bool_word(struct str word, bool *ret);

/* Parses an object of strings and nulls with at most `max` members; messages name it `path`. A null
 * has value.p == NULL. */
int api_pairs_parse(struct arena *a, const struct json *v, const char *path, size_t max,
                    struct json_pair **ret_pairs, size_t *ret_count, struct api_fail *f);
/* The other direction: a tree in the arena, for a row that is JSON_AS_RAW. NULL when it is full. */
const struct json *api_pairs_tree(struct arena *a, const struct json_pair *pairs, size_t count);
