/* doc.h - JSON trees that are built and changed in an arena, beside those of json_parse.
 *
 * A tree of json_parse is read-only by contract; doc_copy makes one that may be changed. Nothing
 * here blocks. Past the arena's limit a function returns NULL, and accepts NULL from another, so
 * that a caller checks once, at the end. */
#pragma once

#include "base/json.h"

struct json *doc_object(struct arena *a);
struct json *doc_array(struct arena *a);
struct json *doc_string(struct arena *a, struct str s); /* copied */
struct json *doc_int(struct arena *a, int64_t v);
struct json *doc_bool(struct arena *a, bool v);
struct json *doc_copy(struct arena *a, const struct json *v); /* NULL stays NULL; without its key */

/* Sets a member: replaces one of that key in place, or adds it at the end. `value` becomes part of
 * the object. -ENOMEM when either is NULL. */
int doc_set(struct arena *a, struct json *object, struct str key, struct json *value);
int doc_push(struct json *array, struct json *value);
bool doc_remove(struct json *object, struct str key);
/* The member as one that may be changed; made as an object when it is absent or of another
 * type. */
struct json *doc_object_at(struct arena *a, struct json *object, struct str key);
struct json *doc_member(struct json *object, struct str key); /* NULL when absent */

int doc_set_string(struct arena *a, struct json *object, struct str key, struct str value);

bool doc_equal(const struct json *x, const struct json *y); /* members in any order */

/* The tree as text in the arena; p is NULL past a limit. */
struct str doc_text(struct arena *a, const struct json *v);
