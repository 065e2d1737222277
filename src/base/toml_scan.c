/* toml_scan.c - characters, positions, strings and keys of a TOML text. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/toml_internal.h"
#include "base/utf8.h"

/* Length of the character at s->at, which is not the end; 0 if it is invalid. */
static size_t toml_char_bytes(const struct toml_scan *s)
{
    uint32_t code;
    int n = utf8_decode(str_make(s->at, (size_t)(s->end - s->at)), &code);

    return n < 0 ? 0 : (size_t)n;
}

struct toml_pos toml_scan_pos(struct toml_scan *s)
{
    if (s->at < s->mark) {
        s->mark = s->line_start;
        s->mark_column = 1;
    }
    for (; s->mark < s->at; s->mark++)
        s->mark_column += ((unsigned char)*s->mark & 0xc0) != 0x80;
    return (struct toml_pos){s->line, s->mark_column};
}

static void toml_start_line(struct toml_scan *s)
{
    s->line_start = s->mark = s->at;
    s->mark_column = 1;
}

int toml_fail_at(struct toml_scan *s, struct toml_pos at, const char *fmt, ...)
{
    char what[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    if (!s->fail_at)
        return err_set(s->e, EINVAL, "%s:%u:%u: %s", s->filename, at.line, at.column, what);
    *s->fail_at = at;
    return err_set(s->e, EINVAL, "%s", what);
}

int toml_fail_expected(struct toml_scan *s, const char *what)
{
    struct toml_pos at = toml_scan_pos(s);

    if (s->at == s->end)
        return toml_fail_at(s, at, "expected %s, found the end of the file", what);
    if (toml_at_newline(s))
        return toml_fail_at(s, at, "expected %s, found the end of the line", what);
    if (*s->at == '\t')
        return toml_fail_at(s, at, "expected %s, found a tab", what);
    return toml_fail_at(s, at, "expected %s, found '%.*s'", what, (int)toml_char_bytes(s), s->at);
}

struct toml_shown toml_show(struct str name)
{
    struct toml_shown shown;
    size_t n = min_size(name.n, sizeof(shown.text) - 4);

    while (n < name.n && n > 0 && ((unsigned char)name.p[n] & 0xc0) == 0x80)
        n--;
    for (size_t i = 0; i < n; i++)
        shown.text[i] = (unsigned char)name.p[i] < 0x20 || name.p[i] == 0x7f ? '?' : name.p[i];
    memcpy(shown.text + n, n < name.n ? "..." : "", n < name.n ? 4 : 1);
    return shown;
}

/* Checks the whole text once for what is not allowed anywhere: invalid UTF-8, control characters, a
 * CR without LF. Later steps need not check again. */
static int toml_check_text(struct toml_scan *s)
{
    while (s->at < s->end) {
        unsigned char c = (unsigned char)*s->at;
        size_t n = toml_char_bytes(s);

        if (n == 0)
            return toml_fail_at(s, toml_scan_pos(s), "not valid UTF-8 (byte 0x%02x)", c);
        if (c == '\r' && (s->at + 1 == s->end || s->at[1] != '\n'))
            return toml_fail_at(s, toml_scan_pos(s), "expected a line feed after carriage return");
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
            return toml_fail_at(s, toml_scan_pos(s), "control character U+%04X is not allowed", c);
        if (c == '\n')
            toml_skip_newline(s);
        else
            s->at += n;
    }
    return 0;
}

int toml_scan_init(struct toml_scan *s, struct str text, const char *filename,
                   struct toml_pos *fail_at, struct err *e)
{
    const struct str bom = STR_INIT("\xef\xbb\xbf");
    int r;

    if (str_starts(text, bom))
        text = str_skip(text, bom.n);
    if (!text.p)
        text = STR("");
    *s = (struct toml_scan){text.p, text.p + text.n, text.p, text.p, 1, 1, filename, e, fail_at};
    r = toml_check_text(s);
    if (r < 0)
        return r;
    s->at = text.p;
    s->line = 1;
    toml_start_line(s);
    return 0;
}

bool toml_accept(struct toml_scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

void toml_skip_blanks(struct toml_scan *s)
{
    while (toml_accept(s, ' ') || toml_accept(s, '\t'))
        ;
}

void toml_skip_newline(struct toml_scan *s)
{
    toml_accept(s, '\r');
    if (toml_accept(s, '\n')) {
        s->line++;
        toml_start_line(s);
    }
}

void toml_skip_comment(struct toml_scan *s)
{
    if (toml_peek(s) != '#')
        return;
    while (s->at < s->end && !toml_at_newline(s))
        s->at++;
}

void toml_skip_blanks_and_lines(struct toml_scan *s)
{
    for (;;) {
        toml_skip_blanks(s);
        toml_skip_comment(s);
        if (!toml_at_newline(s))
            return;
        toml_skip_newline(s);
    }
}

/* Adds to the string being decoded. */
static int toml_add(struct toml_parser *p, struct str piece)
{
    return buf_add(&p->scratch, piece) < 0 ? toml_fail_memory(&p->s) : 0;
}

/* The digits of \uXXXX or \UXXXXXXXX; `start` is the position of the backslash. */
static int toml_scan_unicode(struct toml_parser *p, int digits, struct toml_pos start)
{
    struct toml_scan *s = &p->s;
    uint32_t code = 0;
    char utf8[UTF8_BYTES_MAX];

    for (int i = 0; i < digits; i++, s->at++) {
        int value = s->at < s->end ? ascii_hex_value(*s->at) : -1;

        if (value < 0)
            return toml_fail_expected(s, digits == 4 ? "4 hexadecimal digits after \\u"
                                                     : "8 hexadecimal digits after \\U");
        code = code << 4 | (uint32_t)value;
    }
    if (code > UTF8_CODE_MAX || (code >= 0xd800 && code <= 0xdfff))
        return toml_fail_at(s, start, "escape U+%04X is not a Unicode character", code);
    return toml_add(p, str_make(utf8, utf8_encode(code, utf8)));
}

/* A backslash at the end of a line: skips the line break and all following white space. */
static int toml_scan_continuation(struct toml_scan *s, struct toml_pos start)
{
    toml_skip_blanks(s);
    if (!toml_at_newline(s))
        return toml_fail_at(s, start, "expected only spaces after a backslash that ends a line");
    while (toml_at_newline(s)) {
        toml_skip_newline(s);
        toml_skip_blanks(s);
    }
    return 0;
}

static int toml_scan_escape(struct toml_parser *p, bool multi_line)
{
    static const char names[] = "btnfr\"\\", values[] = "\b\t\n\f\r\"\\";
    struct toml_scan *s = &p->s;
    struct toml_pos start = toml_scan_pos(s);
    const char *hit;
    int c;

    s->at++;
    c = toml_peek(s);
    if (multi_line && (toml_at_newline(s) || c == ' ' || c == '\t'))
        return toml_scan_continuation(s, start);
    hit = c > 0 ? strchr(names, c) : NULL;
    if (!hit && c != 'u' && c != 'U')
        return toml_fail_expected(s, "an escape (one of b t n f r \" \\ u U)");
    s->at++;
    if (!hit)
        return toml_scan_unicode(p, c == 'u' ? 4 : 8, start);
    return toml_add(p, str_make(&values[hit - names], 1));
}

/* Reads the closing quotes of a multi-line string. Up to two more quotes before them belong to the
 * string; fewer than three quotes are text. */
static int toml_close_multi_line(struct toml_parser *p, char quote, bool *ret_closed)
{
    struct toml_scan *s = &p->s;
    size_t run = 0, kept;

    while (run < 5 && s->at + run < s->end && s->at[run] == quote)
        run++;
    *ret_closed = run >= 3;
    kept = run >= 3 ? run - 3 : run;
    s->at += run;
    return toml_add(p, str_make(s->at - run, kept));
}

/* A run of bytes without special meaning. */
static int toml_scan_plain(struct toml_parser *p, char quote)
{
    struct toml_scan *s = &p->s;
    const char *start = s->at;

    while (s->at < s->end && *s->at != quote && !toml_at_newline(s) &&
           !(quote == '"' && *s->at == '\\'))
        s->at++;
    return toml_add(p, str_make(start, (size_t)(s->at - start)));
}

static int toml_scan_multi_line(struct toml_parser *p, char quote, struct toml_pos start)
{
    struct toml_scan *s = &p->s;
    bool closed = false;
    int r = 0;

    if (toml_at_newline(s))
        toml_skip_newline(s); /* a line break right after the opening quotes is dropped */
    while (r >= 0 && !closed) {
        if (s->at == s->end)
            return toml_fail_at(s, start, "multi-line string is never closed, expected %c%c%c",
                                quote, quote, quote);
        if (*s->at == quote) {
            r = toml_close_multi_line(p, quote, &closed);
        } else if (quote == '"' && *s->at == '\\') {
            r = toml_scan_escape(p, true);
        } else if (toml_at_newline(s)) {
            toml_skip_newline(s);
            r = toml_add(p, STR("\n")); /* CRLF too: the value is the same on all systems */
        } else {
            r = toml_scan_plain(p, quote);
        }
    }
    return r;
}

static int toml_scan_single_line(struct toml_parser *p, char quote, struct toml_pos start)
{
    struct toml_scan *s = &p->s;
    int r;

    while (!toml_accept(s, quote)) {
        if (s->at == s->end || toml_at_newline(s))
            return toml_fail_at(s, start, "string is never closed, expected %c on the same line",
                                quote);
        r = quote == '"' && *s->at == '\\' ? toml_scan_escape(p, false) : toml_scan_plain(p, quote);
        if (r < 0)
            return r;
    }
    return 0;
}

static int toml_keep_string(struct toml_parser *p, struct str s, struct str *ret)
{
    struct str kept = arena_str(p->arena, s);

    if (!kept.p)
        return toml_fail_memory(&p->s);
    *ret = kept;
    return 0;
}

int toml_scan_string(struct toml_parser *p, struct str *ret)
{
    struct toml_scan *s = &p->s;
    struct toml_pos start = toml_scan_pos(s);
    char quote = *s->at;
    int r;

    buf_clear(&p->scratch);
    s->at++;
    if (s->end - s->at >= 2 && s->at[0] == quote && s->at[1] == quote) {
        s->at += 2;
        r = toml_scan_multi_line(p, quote, start);
    } else {
        r = toml_scan_single_line(p, quote, start);
    }
    return r < 0 ? r : toml_keep_string(p, buf_str(&p->scratch), ret);
}

static bool toml_is_bare(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c) || c == '_' || c == '-';
}

int toml_scan_key(struct toml_parser *p, struct str *ret)
{
    struct toml_scan *s = &p->s;
    struct toml_pos start = toml_scan_pos(s);
    const char *from = s->at;
    int c = toml_peek(s), r;

    if (c == '"' || c == '\'') {
        buf_clear(&p->scratch);
        s->at++;
        if (s->end - s->at >= 2 && s->at[0] == c && s->at[1] == c)
            return toml_fail_at(s, start, "expected a key, found a multi-line string");
        r = toml_scan_single_line(p, (char)c, start);
        return r < 0 ? r : toml_keep_string(p, buf_str(&p->scratch), ret);
    }
    while (s->at < s->end && toml_is_bare(*s->at))
        s->at++;
    if (s->at == from)
        return toml_fail_expected(s, "a key");
    return toml_keep_string(p, str_make(from, (size_t)(s->at - from)), ret);
}
