/* toml.c - TOML documents: headers, key/value pairs, arrays and inline tables.
 *
 * The parser follows a key path while it reads it: each part enters a table, and the last part
 * defines something. What made a table (enum toml_origin) decides whether it may be entered or
 * defined again:
 *
 *   made by             inner part of [a.b]   end of [a.b]    inner part of a.b = v
 *   passing             enter                 define          enter, now made by dots
 *   header              enter                 refuse          refuse
 *   dots                enter                 refuse          enter
 *   value (inline)      refuse                refuse          refuse
 *   headers ([[ ]])     enter last element    refuse          refuse
 *
 * [[a.b]] adds an element to an array made by headers, and refuses anything else that exists. */
#include "base/toml.h"

#include <assert.h>
#include <errno.h>

#include "base/toml_internal.h"

static int toml_parse_value(struct toml_parser *p, const struct toml *parent, struct toml **ret);

/* A node one level below `parent` (NULL: the root), not yet attached. */
static int toml_new(struct toml_parser *p, const struct toml *parent, enum toml_type type,
                    enum toml_origin origin, struct toml **ret)
{
    struct toml *v;

    if (parent && parent->depth >= TOML_DEPTH_MAX)
        return toml_fail_limit(&p->s, "tables and arrays are nested too deeply");
    if (p->values >= TOML_VALUES_MAX)
        return toml_fail_limit(&p->s, "the document has too many values");
    v = arena_new(p->arena, struct toml);
    if (!v)
        return toml_fail_memory(&p->s);
    p->values++;
    v->doc = p->doc;
    v->type = (uint8_t)type;
    v->origin = (uint8_t)origin;
    v->depth = parent ? parent->depth + 1 : 0;
    v->at = toml_scan_pos(&p->s);
    *ret = v;
    return 0;
}

/* One part of a key path. */
struct toml_part {
    struct str name;
    struct toml_pos at;
    bool last;
};

/* Reads a part and the white space and dot after it. */
static int toml_parse_part(struct toml_parser *p, struct toml_part *ret)
{
    struct toml_part part = {.at = toml_scan_pos(&p->s)};
    int r = toml_scan_key(p, &part.name);

    if (r < 0)
        return r;
    toml_skip_blanks(&p->s);
    part.last = !toml_accept(&p->s, '.');
    if (!part.last)
        toml_skip_blanks(&p->s);
    *ret = part;
    return 0;
}

static int toml_add_part(struct toml_parser *p, struct toml *table, const struct toml_part *part,
                         enum toml_type type, enum toml_origin origin, struct toml **ret)
{
    struct toml *v;
    int r = toml_new(p, table, type, origin, &v);

    if (r < 0)
        return r;
    v->key = part->name;
    v->key_at = v->at = part->at;
    toml_append(table, v);
    *ret = v;
    return 0;
}

static int toml_fail_defined(struct toml_parser *p, const struct toml_part *part,
                             const struct toml *old)
{
    return toml_fail_at(&p->s, part->at, "key '%s' is already defined at line %u",
                        toml_show(part->name).text, old->key_at.line);
}

static int toml_fail_closed(struct toml_parser *p, const struct toml_part *part,
                            const struct toml *old)
{
    const char *what = toml_type_name((enum toml_type)old->type);

    if (old->type == TOML_TABLE)
        what = old->origin == TOML_BY_VALUE ? "an inline table" : "a table with its own header";
    return toml_fail_at(&p->s, part->at, "cannot add to '%s', %s from line %u",
                        toml_show(part->name).text, what, old->key_at.line);
}

/* Enters the table of an inner part of a header. */
static int toml_enter_by_header(struct toml_parser *p, struct toml **table,
                                const struct toml_part *part)
{
    struct toml *v = toml_find(*table, part->name);

    if (!v)
        return toml_add_part(p, *table, part, TOML_TABLE, TOML_BY_PASSING, table);
    if ((v->type != TOML_TABLE && v->type != TOML_ARRAY) || v->origin == TOML_BY_VALUE)
        return toml_fail_closed(p, part, v);
    *table = v->type == TOML_ARRAY ? v->u.kids.last : v;
    return 0;
}

/* Enters the table of an inner part of a dotted key. */
static int toml_enter_by_dots(struct toml_parser *p, struct toml **table,
                              const struct toml_part *part)
{
    struct toml *v = toml_find(*table, part->name);

    if (!v)
        return toml_add_part(p, *table, part, TOML_TABLE, TOML_BY_DOTS, table);
    if (v->type != TOML_TABLE || (v->origin != TOML_BY_DOTS && v->origin != TOML_BY_PASSING))
        return toml_fail_closed(p, part, v);
    if (v->origin == TOML_BY_PASSING) {
        v->origin = TOML_BY_DOTS;
        v->key_at = v->at = part->at;
    }
    *table = v;
    return 0;
}

/* The last part of [a.b]: the table that the following lines fill. */
static int toml_define_table(struct toml_parser *p, struct toml *table,
                             const struct toml_part *part, struct toml **ret)
{
    struct toml *v = toml_find(table, part->name);

    if (!v)
        return toml_add_part(p, table, part, TOML_TABLE, TOML_BY_HEADER, ret);
    if (v->type != TOML_TABLE || v->origin != TOML_BY_PASSING)
        return toml_fail_defined(p, part, v);
    v->origin = TOML_BY_HEADER;
    v->key_at = v->at = part->at;
    *ret = v;
    return 0;
}

/* The last part of [[a.b]]. */
static int toml_define_element(struct toml_parser *p, struct toml *table,
                               const struct toml_part *part, struct toml **ret)
{
    struct toml *array = toml_find(table, part->name), *element;
    int r = 0;

    if (!array)
        r = toml_add_part(p, table, part, TOML_ARRAY, TOML_BY_HEADERS, &array);
    else if (array->origin != TOML_BY_HEADERS)
        r = toml_fail_defined(p, part, array);
    if (r < 0)
        return r;
    r = toml_new(p, array, TOML_TABLE, TOML_BY_HEADER, &element);
    if (r < 0)
        return r;
    element->at = part->at;
    toml_append(array, element);
    *ret = element;
    return 0;
}

/* [a.b] or [[a.b]]; *ret_table is where the following pairs go. */
static int toml_parse_header(struct toml_parser *p, struct toml *root, struct toml **ret_table)
{
    struct toml_scan *s = &p->s;
    struct toml *table = root;
    struct toml_part part;
    bool element;
    int r;

    s->at++;
    element = toml_accept(s, '[');
    do {
        toml_skip_blanks(s);
        r = toml_parse_part(p, &part);
        if (r >= 0 && !part.last)
            r = toml_enter_by_header(p, &table, &part);
        if (r < 0)
            return r;
    } while (!part.last);
    if (!toml_accept(s, ']'))
        return toml_fail_expected(s, element ? "']]' or '.' after the key"
                                             : "']' or '.' after the key");
    if (element && !toml_accept(s, ']'))
        return toml_fail_expected(s, "']]' to end the header");
    return element ? toml_define_element(p, table, &part, ret_table)
                   : toml_define_table(p, table, &part, ret_table);
}

/* a.b = value, into `table`. */
static int toml_parse_pair(struct toml_parser *p, struct toml *table)
{
    struct toml_scan *s = &p->s;
    struct toml_part part;
    struct toml *old, *v;
    int r;

    for (;;) {
        r = toml_parse_part(p, &part);
        if (r < 0)
            return r;
        if (part.last)
            break;
        r = toml_enter_by_dots(p, &table, &part);
        if (r < 0)
            return r;
    }
    old = toml_find(table, part.name);
    if (old)
        return toml_fail_defined(p, &part, old);
    if (!toml_accept(s, '='))
        return toml_fail_expected(s, "'=' after the key");
    toml_skip_blanks(s);
    r = toml_parse_value(p, table, &v);
    if (r < 0)
        return r;
    v->key = part.name;
    v->key_at = part.at;
    toml_append(table, v);
    return 0;
}

/* From '[': elements, comments and lines up to ']'. */
static int toml_parse_array(struct toml_parser *p, struct toml *array)
{
    struct toml_scan *s = &p->s;
    struct toml *v;
    int r;

    array->type = TOML_ARRAY;
    s->at++;
    for (;;) {
        toml_skip_blanks_and_lines(s);
        if (toml_accept(s, ']'))
            return 0;
        r = toml_parse_value(p, array, &v);
        if (r < 0)
            return r;
        toml_append(array, v);
        toml_skip_blanks_and_lines(s);
        if (toml_accept(s, ']'))
            return 0;
        if (!toml_accept(s, ','))
            return toml_fail_expected(s, "',' or ']' in the array");
    }
}

/* From '{': pairs on one line up to '}', no comma at the end. */
static int toml_parse_inline_table(struct toml_parser *p, struct toml *table)
{
    struct toml_scan *s = &p->s;
    int r;

    table->type = TOML_TABLE;
    s->at++;
    toml_skip_blanks(s);
    if (toml_accept(s, '}'))
        return 0;
    do {
        toml_skip_blanks(s);
        r = toml_parse_pair(p, table);
        if (r < 0)
            return r;
        toml_skip_blanks(s);
    } while (toml_accept(s, ','));
    if (!toml_accept(s, '}'))
        return toml_fail_expected(s, "',' or '}' in the inline table");
    return 0;
}

/* Recurses through arrays and inline tables, at most TOML_DEPTH_MAX levels: toml_new counts. */
static int toml_parse_value(struct toml_parser *p, const struct toml *parent, struct toml **ret)
{
    int c = toml_peek(&p->s), r;
    struct toml *v;

    r = toml_new(p, parent, TOML_STRING, TOML_BY_VALUE, &v);
    if (r < 0)
        return r;
    if (c == '"' || c == '\'')
        r = toml_scan_string(p, &v->u.string);
    else if (c == '[')
        r = toml_parse_array(p, v);
    else if (c == '{')
        r = toml_parse_inline_table(p, v);
    else
        r = toml_scan_scalar(p, v);
    if (r < 0)
        return r;
    *ret = v;
    return 0;
}

static int toml_parse_document(struct toml_parser *p, struct toml *root)
{
    struct toml_scan *s = &p->s;
    struct toml *section = root;
    int r;

    for (;;) {
        toml_skip_blanks_and_lines(s);
        if (s->at == s->end)
            return 0;
        r = *s->at == '[' ? toml_parse_header(p, root, &section) : toml_parse_pair(p, section);
        if (r < 0)
            return r;
        toml_skip_blanks(s);
        toml_skip_comment(s);
        if (s->at < s->end && !toml_at_newline(s))
            return toml_fail_expected(s, "the end of the line");
    }
}

static int toml_parse_text(struct arena *a, struct str text, const char *filename,
                           struct toml_pos *fail_at, struct toml **ret_root, struct err *e)
{
    struct toml_parser p = {.arena = a};
    struct toml *root;
    int r;

    assert(filename);
    if (text.n > TOML_TEXT_BYTES_MAX)
        return err_set(e, E2BIG, "%s: longer than %d bytes", filename, TOML_TEXT_BYTES_MAX);
    r = toml_scan_init(&p.s, text, filename, fail_at, e);
    if (r < 0)
        return r;
    p.doc = arena_new(a, struct toml_doc);
    if (!p.doc || !(p.doc->filename = arena_strdup(a, str_of(filename))))
        return toml_fail_memory(&p.s);
    r = toml_new(&p, NULL, TOML_TABLE, TOML_BY_HEADER, &root);
    if (r < 0)
        return r;
    buf_init(&p.scratch, text.n);
    r = toml_parse_document(&p, root);
    buf_done(&p.scratch);
    if (r < 0)
        return r;
    *ret_root = root;
    return 0;
}

int toml_parse(struct arena *a, struct str text, const char *filename, struct toml **ret_root,
               struct err *e)
{
    return toml_parse_text(a, text, filename, NULL, ret_root, e);
}

int toml_parse_at(struct arena *a, struct str text, const char *filename, struct toml **ret_root,
                  struct toml_pos *ret_at, struct err *e)
{
    *ret_at = (struct toml_pos){0};
    return toml_parse_text(a, text, filename, ret_at, ret_root, e);
}
