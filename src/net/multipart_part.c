/* multipart_part.c - header lines, and the `; name=value` parameters inside two of them. */
#include "net/multipart_part.h"

#include <errno.h>

struct param {
    struct str name, value; /* value: between the quotes, escapes not decoded */
    bool quoted;
};

/* Index of the quote that closes a quoted string, or s.n. */
static size_t find_closing_quote(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"')
            return i;
        if (s.p[i] == '\\' && i + 1 < s.n)
            i++;
    }
    return s.n;
}

static int read_quoted(struct str *rest, struct param *param, struct err *e)
{
    size_t end;

    *rest = str_skip(*rest, 1);
    end = find_closing_quote(*rest);
    if (end == rest->n)
        return err_set(e, EBADMSG, "parameter '%.*s' lacks its closing quote",
                       STR_ARG(param->name));
    param->value = str_make(rest->p, end);
    param->quoted = true;
    *rest = str_trim(str_skip(*rest, end + 1));
    if (rest->n && rest->p[0] != ';')
        return err_set(e, EBADMSG, "text behind the quoted parameter '%.*s'", STR_ARG(param->name));
    return 0;
}

/* Removes the next parameter from *rest, which is at a semicolon or at its end. 1, 0 when none is
 * left, or an error. Unquoted values end at the next semicolon: clients write more into them than
 * the token grammar allows. */
static int next_param(struct str *rest, struct param *ret_param, struct err *e)
{
    struct param param = {0};
    size_t end;
    int r;

    *rest = str_trim(*rest);
    while (rest->n && rest->p[0] == ';')
        *rest = str_trim(str_skip(*rest, 1));
    if (!rest->n)
        return 0;

    end = str_find(*rest, '=');
    param.name = str_trim(str_make(rest->p, end));
    if (end == rest->n || !param.name.n || str_find(param.name, ';') < param.name.n)
        return err_set(e, EBADMSG, "a parameter is not of the form name=value");
    *rest = str_trim(str_skip(*rest, end + 1));

    if (rest->n && rest->p[0] == '"') {
        r = read_quoted(rest, &param, e);
        if (r < 0)
            return r;
    } else {
        end = str_find(*rest, ';');
        param.value = str_trim(str_make(rest->p, end));
        *rest = str_skip(*rest, end);
    }
    *ret_param = param;
    return 1;
}

/* Adds a parameter's value without its escapes. A backslash escapes a quote or a backslash and is
 * literal otherwise (C:\temp); clients that follow the HTML standard write a quote as %22. */
static int add_plain(struct buf *b, const struct param *param)
{
    struct str s = param->value;
    int r = 0;

    for (size_t i = 0; r == 0 && i < s.n; i++) {
        if (param->quoted && str_starts(str_skip(s, i), STR("%22"))) {
            r = buf_add_char(b, '"');
            i += 2;
            continue;
        }
        if (param->quoted && s.p[i] == '\\' && i + 1 < s.n &&
            (s.p[i + 1] == '"' || s.p[i + 1] == '\\'))
            i++;
        r = buf_add_char(b, s.p[i]);
    }
    return r;
}

/* Adds the value of a filename* parameter: charset'language'percent-encoded (RFC 5987). */
static int add_extended(struct buf *b, struct str s, struct err *e)
{
    struct str charset, language;
    int high, low, r = 0;

    if (!str_cut(&s, '\'', &charset) || !str_cut(&s, '\'', &language) || !s.p)
        return err_set(e, EBADMSG, "'filename*' is not of the form charset'language'value");
    if (!str_eq_nocase(charset, STR("utf-8")))
        return err_set(e, EBADMSG, "'filename*' is in '%.*s'; only UTF-8 is understood",
                       STR_ARG(charset));
    for (size_t i = 0; r == 0 && i < s.n; i++) {
        char c = s.p[i];

        if (c == '%') {
            high = i + 2 < s.n ? ascii_hex_value(s.p[i + 1]) : -1;
            low = i + 2 < s.n ? ascii_hex_value(s.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return err_set(e, EBADMSG, "'filename*' holds a broken percent escape");
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || c == '\r' || c == '\n')
            return err_set(e, EBADMSG, "'filename*' holds a NUL or a line end");
        r = buf_add_char(b, c);
    }
    return r;
}

static int add_value(struct buf *b, const struct param *param, bool extended, struct str *ret_value,
                     struct err *e)
{
    size_t from = b->n;
    int r;

    r = extended ? add_extended(b, param->value, e) : add_plain(b, param);
    if (r < 0) {
        buf_cut(b, from);
        return r;
    }
    *ret_value = str_make(b->p + from, b->n - from);
    return 0;
}

enum { PARAM_NAME, PARAM_FILENAME, PARAM_FILENAME_EXT, PARAM_COUNT };

static const struct str param_names[PARAM_COUNT] = {
    [PARAM_NAME] = STR_INIT("name"),
    [PARAM_FILENAME] = STR_INIT("filename"),
    [PARAM_FILENAME_EXT] = STR_INIT("filename*"),
};

/* Collects the known parameters; an unknown one is skipped, a repeated one is an error. */
static int collect_params(struct str rest, struct param params[PARAM_COUNT], struct err *e)
{
    struct param param;
    int r;

    while ((r = next_param(&rest, &param, e)) > 0) {
        for (size_t i = 0; i < PARAM_COUNT; i++) {
            if (!str_eq_nocase(param.name, param_names[i]))
                continue;
            if (params[i].name.p)
                return err_set(e, EBADMSG, "parameter '%s' is given twice", param_names[i].p);
            params[i] = param;
        }
    }
    return r;
}

static int parse_disposition(struct buf *b, struct str value, struct multipart_part *part,
                             struct err *e)
{
    struct param params[PARAM_COUNT] = {0};
    size_t type_n = str_find(value, ';');
    int r;

    if (!str_eq_nocase(str_trim(str_make(value.p, type_n)), STR("form-data")))
        return 0;
    r = collect_params(str_skip(value, type_n), params, e);
    if (r == 0 && params[PARAM_NAME].name.p)
        r = add_value(b, &params[PARAM_NAME], false, &part->name, e);
    if (r < 0)
        return r;

    if (params[PARAM_FILENAME_EXT].name.p) {
        r = add_value(b, &params[PARAM_FILENAME_EXT], true, &part->filename, e);
        if (r != -EBADMSG || !params[PARAM_FILENAME].name.p)
            return r;
        if (e)
            *e = (struct err){0}; /* use the plain form instead */
    }
    if (params[PARAM_FILENAME].name.p)
        r = add_value(b, &params[PARAM_FILENAME], false, &part->filename, e);
    return r;
}

static bool is_field_name(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] <= ' ' || name.p[i] >= 0x7F)
            return false;
    }
    return name.n > 0;
}

/* Joins folded lines, and refuses bytes that would end a line or a string in other parsers. */
static int unfold(struct buf *block, struct err *e)
{
    char *p = block->p;

    for (size_t i = 0; i < block->n; i++) {
        if (p[i] == '\0')
            return err_set(e, EBADMSG, "a part header holds a NUL byte");
        if (p[i] == '\n' || (p[i] == '\r' && (i + 1 == block->n || p[i + 1] != '\n')))
            return err_set(e, EBADMSG, "a part header line does not end in CRLF");
        if (p[i] != '\r')
            continue;
        if (i + 2 < block->n && (p[i + 2] == ' ' || p[i + 2] == '\t'))
            p[i] = p[i + 1] = ' ';
        i++;
    }
    return 0;
}

static int add_header(struct multipart_part *part, struct str line, struct err *e)
{
    size_t colon = str_find(line, ':');
    struct multipart_header h = {.name = str_make(line.p, colon)};

    if (colon == line.n || !is_field_name(h.name))
        return err_set(e, EBADMSG, "a part header line is not of the form name: value");
    if (part->header_count == MULTIPART_HEADERS_MAX)
        return err_set(e, EMSGSIZE, "a part has more than %d headers", MULTIPART_HEADERS_MAX);
    h.value = str_trim(str_skip(line, colon + 1));
    part->headers[part->header_count++] = h;
    return 0;
}

static struct str find_header(const struct multipart_part *part, struct str name)
{
    for (size_t i = 0; i < part->header_count; i++) {
        if (str_eq_nocase(part->headers[i].name, name))
            return part->headers[i].value;
    }
    return STR_NONE;
}

int multipart_part_parse(struct buf *block, struct multipart_part *ret_part, struct err *e)
{
    struct multipart_part part = {0};
    struct str rest, line, disposition;
    int r;

    /* Decoded names are not longer than their header, so the block does not move below. */
    r = buf_reserve(block, block->n);
    if (r < 0)
        return err_set(e, -r, "no memory for a part's headers");
    r = unfold(block, e);
    if (r < 0)
        return r;
    rest = buf_str(block);
    while (str_cut(&rest, '\n', &line)) {
        if (line.n <= 1)
            continue; /* the empty line and the rest */
        r = add_header(&part, str_make(line.p, line.n - 1), e);
        if (r < 0)
            return r;
    }
    part.content_type = find_header(&part, STR("Content-Type"));
    disposition = find_header(&part, STR("Content-Disposition"));
    if (disposition.p) {
        r = parse_disposition(block, disposition, &part, e);
        if (r < 0)
            return err_wrap(e, r, "Content-Disposition");
    }
    *ret_part = part;
    return 0;
}

/* The characters of RFC 2046; the last must not be a space. */
static bool is_boundary(struct str s)
{
    static const char marks[] = "'()+_,-./:=? ";

    for (size_t i = 0; i < s.n; i++) {
        if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) &&
            !memchr(marks, s.p[i], sizeof(marks) - 1))
            return false;
    }
    return s.n >= 1 && s.n <= MULTIPART_BOUNDARY_MAX && s.p[s.n - 1] != ' ';
}

int multipart_boundary_parse(struct str content_type, char ret_boundary[MULTIPART_BOUNDARY_MAX + 1],
                             struct err *e)
{
    size_t type_n = str_find(content_type, ';');
    struct str rest = str_skip(content_type, type_n), boundary = STR_NONE;
    struct param param;
    int r;

    if (!str_eq_nocase(str_trim(str_make(content_type.p, type_n)), STR("multipart/form-data")))
        return err_set(e, EBADMSG, "Content-Type is not multipart/form-data");
    while ((r = next_param(&rest, &param, e)) > 0) {
        if (!str_eq_nocase(param.name, STR("boundary")))
            continue;
        if (boundary.p)
            return err_set(e, EBADMSG, "Content-Type names two boundaries");
        boundary = param.value;
    }
    if (r < 0)
        return err_wrap(e, r, "Content-Type");
    if (!boundary.p)
        return err_set(e, EBADMSG, "Content-Type names no boundary");
    if (!is_boundary(boundary))
        return err_set(e, EBADMSG, "the boundary is not 1 to %d characters of its alphabet",
                       MULTIPART_BOUNDARY_MAX);
    return str_copy(ret_boundary, MULTIPART_BOUNDARY_MAX + 1, boundary);
}
