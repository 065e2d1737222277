/* json_internal.h - shared by the files of the JSON parser: json_scan.c reads tokens, json.c the
 * structure.
 *
 * The text is validated as UTF-8 in one pass and copied. The copy ends in NUL bytes, which no token
 * contains, so the scanner needs no other end check. Strings are decoded in place: no escape is
 * shorter than the character it encodes. */
#pragma once

#include "base/json.h"

enum { JSON_PAD_BYTES = 8 }; /* NULs after the copy: the scanner reads whole words */

/* An open array or object, or at index 0 the document itself. */
struct json_frame {
    struct json *node;
    struct json **tail; /* where the next child is linked */
    size_t count;
    uint64_t seen; /* a bit set of key hashes, see json_key_bit() */
    bool suspect;  /* two keys have the same bit: check for duplicates */
};

struct json_parser {
    struct arena *arena;
    struct json_limits limits;
    struct err *e;
    struct str text; /* the original text, for line and column */
    char *copy, *at; /* the tree's copy, and the cursor in it */
    struct str key;  /* of the member whose value comes next */
    uint32_t key_at;
    size_t nodes;
    unsigned depth;
    struct json_frame stack[JSON_DEPTH_CEILING + 1];
};

/* Each fills p->e with line, column and the text, and returns the negative code. */
int json_fail_at(struct json_parser *p, int code, size_t offset, const char *what);
int json_fail(struct json_parser *p, const char *what);          /* -EBADMSG at the cursor */
int json_fail_limit(struct json_parser *p, const char *what);    /* -EMSGSIZE at the cursor */
int json_fail_expected(struct json_parser *p, const char *what); /* and names what was found */

static inline void json_skip_space(struct json_parser *p)
{
    while (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t')
        p->at++;
}

/* Reads the string whose opening quote is at the cursor. */
int json_read_string(struct json_parser *p, struct str *ret);
/* Reads the number at the cursor into a node of that type. */
int json_read_number(struct json_parser *p, struct json *v);
