/* toml_internal.h - shared by the files of the TOML parser: the node, the scanner, the parser.
 *
 *   toml.c        documents, headers, key/value pairs, the rules on defining a table twice
 *   toml_value.c  numbers, booleans, dates and times
 *   toml_scan.c   characters, positions, strings and keys
 *   toml_node.c   the tree: key index, iteration, typed reads */
#pragma once

#include <errno.h>

#include "base/buf.h"
#include "base/toml.h"

/* What defined a table or array; this decides what may still add to it. */
enum toml_origin {
    TOML_BY_VALUE,   /* written as a value: nothing may be added */
    TOML_BY_PASSING, /* an inner name of a header, [here.not]; its own header may follow */
    TOML_BY_HEADER,  /* [table], or an element of [[tables]] */
    TOML_BY_DOTS,    /* here.not = value; more dotted keys of the same section may add to it */
    TOML_BY_HEADERS, /* the array of [[tables]] */
};

struct toml_doc {
    const char *filename;
};

struct toml {
    struct toml *next; /* sibling in source order */
    const struct toml_doc *doc;
    struct str key;
    struct toml_pos key_at, at;
    uint8_t type;   /* enum toml_type */
    uint8_t origin; /* enum toml_origin */
    uint16_t depth;
    uint32_t fork_bit; /* bit that this node of the parent's key index tests, see toml_node.c */
    struct toml *fork[2];
    union {
        struct str string;
        int64_t integer;
        double number;
        bool boolean;
        struct toml_time *time;
        struct {
            struct toml *first, *last;
            struct toml *index; /* of a table: its key index */
            size_t count;
        } kids;
    } u;
};

/* Adds the child at the end. For a table, its key is set and not in the table yet. */
void toml_append(struct toml *parent, struct toml *child);
struct toml *toml_find(const struct toml *table, struct str key);

/* The text and the current position. */
struct toml_scan {
    const char *at, *end;
    const char *line_start;
    const char *mark;     /* a position on this line with a known column, so that */
    uint32_t mark_column; /* computing columns along a long line stays linear */
    uint32_t line;
    const char *filename;
    struct err *e;
    struct toml_pos *fail_at; /* for the place of an error; NULL = it goes into the message */
};

struct toml_parser {
    struct toml_scan s;
    struct arena *arena;
    struct toml_doc *doc;
    struct buf scratch; /* the string being decoded */
    size_t values;
};

int toml_scan_init(struct toml_scan *s, struct str text, const char *filename,
                   struct toml_pos *fail_at, struct err *e);
struct toml_pos toml_scan_pos(struct toml_scan *s); /* of s->at */

/* The next byte, or -1 at the end. */
static inline int toml_peek(const struct toml_scan *s)
{
    return s->at < s->end ? (unsigned char)*s->at : -1;
}

static inline bool toml_at_newline(const struct toml_scan *s)
{
    int c = toml_peek(s);

    return c == '\n' || c == '\r'; /* toml_scan_init refuses a lone CR */
}

bool toml_accept(struct toml_scan *s, char c);        /* steps over c if it comes next */
void toml_skip_blanks(struct toml_scan *s);           /* spaces and tabs */
void toml_skip_newline(struct toml_scan *s);          /* must be at one */
void toml_skip_comment(struct toml_scan *s);          /* if at one, to the end of the line */
void toml_skip_blanks_and_lines(struct toml_scan *s); /* comments too */

/* Sets the error; returns -EINVAL. */
int toml_fail_at(struct toml_scan *s, struct toml_pos at, const char *fmt, ...) PRINTF_LIKE(3, 4);
int toml_fail_expected(struct toml_scan *s, const char *what); /* here; names what was found */

static inline int toml_fail_limit(struct toml_scan *s, const char *what) /* here: at s->at */
{
    struct toml_pos at = toml_scan_pos(s);

    return err_set(s->e, E2BIG, "%s:%u:%u: %s", s->filename, at.line, at.column, what);
}

static inline int toml_fail_memory(struct toml_scan *s)
{
    return err_set(s->e, ENOMEM, "%s:%u: the document needs too much memory", s->filename, s->line);
}

/* Strings and keys are copied into the arena. The scanner must be at their first character. */
int toml_scan_string(struct toml_parser *p, struct str *ret);
int toml_scan_key(struct toml_parser *p, struct str *ret);

/* A name for a message: shortened, without control characters. */
struct toml_shown {
    char text[68];
};
struct toml_shown toml_show(struct str name);

/* Fills in type and value of anything but a string, array or table. */
int toml_scan_scalar(struct toml_parser *p, struct toml *v);
