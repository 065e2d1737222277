/* redact.c - one pass over the text. At each position one of these rules applies, or the byte is
 * copied:
 *
 * - "://": a URL. Masks up to the last '@' before the end of the host.
 * - [A-Za-z0-9_-]+: a name. Masks the value after it if the name suggests a secret and '=' or ':'
 *   follows, or if a blank follows and the name is an option or "bearer". Of LTAI..., AKIA... and
 *   AKID... inside a name, only these four letters are kept. */
#include "execd/log/redact.h"

#include <errno.h>

static const struct str MASK = STR_INIT("****");

enum { KEY_PREFIX = 4, KEY_BYTES_MIN = 12 };

struct redactor {
    struct str rest; /* of the text, not yet read */
    struct buf *out;
    int error; /* the first one; nothing is added after it */
};

static void put(struct redactor *r, struct str s)
{
    if (r->error == 0)
        r->error = buf_add(r->out, s);
}

/* Copies n bytes of the text. */
static void keep(struct redactor *r, size_t n)
{
    put(r, str_make(r->rest.p, n));
    r->rest = str_skip(r->rest, n);
}

/* Replaces n bytes by the mask. */
static void mask(struct redactor *r, size_t n)
{
    if (n > 0)
        put(r, MASK);
    r->rest = str_skip(r->rest, n);
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'' || c == '`';
}

static bool is_name_char(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c) || c == '_' || c == '-';
}

static size_t name_length(struct str s)
{
    size_t n = 0;

    while (n < s.n && is_name_char(s.p[n]))
        n++;
    return n;
}

/* Blanks within a line; a backslash before the line end continues it, as in a shell. */
static size_t blank_length(struct str s)
{
    size_t n = 0;

    while (n < s.n)
        if (s.p[n] == ' ' || s.p[n] == '\t')
            n++;
        else if (s.p[n] == '\\' && n + 1 < s.n && s.p[n + 1] == '\n')
            n += 2;
        else
            break;
    return n;
}

/* --- length of values --- */

/* Length from an opening quote to the closing one, both included. A text in escaped quotes ends at
 * the next quote; a text in plain quotes may contain escaped ones. */
static size_t quoted_length(struct str s, bool escaped)
{
    for (size_t i = 1; i < s.n; i++)
        if (s.p[i] == s.p[0])
            return i + 1;
        else if (s.p[i] == '\\' && !escaped)
            i++;
    return s.n;
}

/* Length up to an unquoted blank. Other characters that end a shell word may be part of a value
 * elsewhere. */
static size_t word_length(struct str s)
{
    size_t i = 0;

    while (i < s.n && !is_blank(s.p[i]))
        if (s.p[i] == '\\')
            i += i + 2 < s.n && is_quote(s.p[i + 1]) ? 1 + quoted_length(str_skip(s, i + 1), true)
                                                     : 2;
        else
            i += is_quote(s.p[i]) ? quoted_length(str_skip(s, i), false) : 1;
    return min_size(i, s.n);
}

/* Whether a quoted JSON text ends here, and is not just part of a word. */
static bool ends_member(char c)
{
    return is_blank(c) || is_quote(c) || (c && strchr(",:;)]}\\", c));
}

/* Length of the value after a colon: a JSON text or a word. */
static size_t member_length(struct str s)
{
    size_t n = 0;

    while (n < s.n && s.p[n] == '\\')
        n++;
    if (n == s.n || !is_quote(s.p[n]))
        return word_length(s);
    n += quoted_length(str_skip(s, n), n > 0);
    return n == s.n || ends_member(s.p[n]) ? n : n + word_length(str_skip(s, n));
}

/* A header's value has blanks and may have quotes. It ends at the quote that encloses the header,
 * or at the line end. `before` is the character before its name. */
static size_t header_length(struct str s, char before)
{
    size_t line = str_find(s, '\n');

    if (s.n && (is_quote(s.p[0]) || s.p[0] == '\\'))
        return member_length(s);
    return is_quote(before) ? min_size(line, str_find(s, before)) : line;
}

/* --- names --- */

/* `word` is in lower case, with '_' for '-'. */
static bool name_has(struct str name, const char *word)
{
    size_t n = strlen(word);

    for (size_t at = 0; at + n <= name.n; at++) {
        size_t i = 0;

        while (i < n && (name.p[at + i] == '-' ? '_' : ascii_lower(name.p[at + i])) == word[i])
            i++;
        if (i == n)
            return true;
    }
    return false;
}

static bool name_has_any(struct str name, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (name_has(name, words[i]))
            return true;
    return false;
}

static bool is_secret(struct str name)
{
    static const char *const words[] = {
        "password", "passwd",     "passphrase", "passcode",    "_pwd",       "secret",
        "token",    "credential", "api_key",    "apikey",      "access_key", "accesskey",
        "auth_key", "authkey",    "signature",  "private_key", "privatekey", "session_key",
    };

    return name_has_any(name, words, ARRAY_LEN(words));
}

static bool is_header(struct str name)
{
    static const char *const words[] = {"authorization", "cookie"};

    return name_has_any(name, words, ARRAY_LEN(words));
}

static bool is_option(struct str name)
{
    return name.p[0] == '-';
}

/* Bytes between a name and its value if '=', ':', ":=" or "=>" separates them; else 0. The name may
 * be in quotes, escaped or not. */
static size_t separator_length(struct str s, char *ret_sign)
{
    size_t i = 0;
    bool spaced;

    while (i < s.n && (is_quote(s.p[i]) || s.p[i] == '\\' || s.p[i] == ' '))
        i++;
    if (i == s.n || (s.p[i] != '=' && s.p[i] != ':'))
        return 0;
    *ret_sign = s.p[i];
    spaced = i > 0 || s.p[i] == ':'; /* in a shell, NAME= VALUE does not assign VALUE */
    while (i < s.n && (s.p[i] == '=' || s.p[i] == ':' || s.p[i] == '>'))
        i++;
    return spaced ? i + blank_length(str_skip(s, i)) : i;
}

/* Masks the value after a name that was already copied. */
static void redact_value(struct redactor *r, struct str name, char before)
{
    bool header = is_header(name), secret = is_secret(name);
    char sign = ' ';
    size_t n = header || secret ? separator_length(r->rest, &sign) : 0;

    if (n == 0 && !str_eq_nocase(name, STR("bearer")) && !(is_option(name) && (header || secret)))
        return;
    keep(r, n ? n : blank_length(r->rest));
    if (header)
        mask(r, header_length(r->rest, before));
    else
        mask(r, sign == ':' ? member_length(r->rest) : word_length(r->rest));
}

static bool is_part_end(char c)
{
    return c == '-' || c == '_';
}

/* Position of a cloud provider's access key id within a name, by its prefix; name.n = none. */
static size_t cloud_key_find(struct str name)
{
    static const struct str prefixes[] = {STR_INIT("LTAI"), STR_INIT("AKIA"), STR_INIT("AKID")};

    for (size_t at = 0; at + KEY_BYTES_MIN <= name.n; at++)
        for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
            if ((at == 0 || is_part_end(name.p[at - 1])) &&
                str_starts(str_skip(name, at), prefixes[i]))
                return at;
    return name.n;
}

static void redact_name(struct redactor *r, size_t n, char before)
{
    struct str name = str_make(r->rest.p, n);
    size_t key = cloud_key_find(name);

    if (key < n) {
        keep(r, key + KEY_PREFIX);
        mask(r, n - key - KEY_PREFIX);
    } else {
        keep(r, n);
    }
    redact_value(r, name, before);
}

/* --- URLs --- */

static void redact_url(struct redactor *r)
{
    size_t user = 0;

    keep(r, 3); /* "://" */
    for (size_t i = 0; i < r->rest.n; i++) {
        char c = r->rest.p[i];

        if (c == '@')
            user = i;
        if (is_blank(c) || is_quote(c) || (c && strchr("/?#", c)))
            break;
    }
    mask(r, user);
}

int redact(struct str text, struct buf *out)
{
    struct redactor r = {.rest = text, .out = out};

    while (r.rest.n > 0 && r.error == 0) {
        size_t n = name_length(r.rest);

        if (n > 0)
            redact_name(&r, n, r.rest.p > text.p ? r.rest.p[-1] : ' ');
        else if (str_starts(r.rest, STR("://")))
            redact_url(&r);
        else
            keep(&r, 1);
    }
    return r.error;
}
