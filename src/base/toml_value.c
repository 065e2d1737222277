/* toml_value.c - the TOML values written without quotes or brackets.
 *
 * Such a value is one word of letters, digits and + - . : _ (a date and a time may have a space in
 * between). Its first characters decide its type. */
#include <errno.h>
#include <math.h>

#include "base/toml_internal.h"

/* A cursor in the word; the scanner stays at the word's start, for error positions. */
struct word {
    struct toml_parser *p;
    const char *start, *at, *end;
};

/* Fails at the cursor. */
static int word_fail(struct word *w, const char *expected)
{
    w->p->s.at = w->at;
    return toml_fail_expected(&w->p->s, expected);
}

static int word_fail_start(struct word *w, const char *message)
{
    w->p->s.at = w->start;
    return toml_fail_at(&w->p->s, toml_scan_pos(&w->p->s), "%s", message);
}

static int word_peek(const struct word *w)
{
    return w->at < w->end ? (unsigned char)*w->at : -1;
}

static bool word_accept(struct word *w, char c)
{
    if (word_peek(w) != c)
        return false;
    w->at++;
    return true;
}

static bool word_is_char(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c) || (c && strchr("+-.:_", c));
}

static const char *word_find_end(const char *at, const char *end)
{
    while (at < end && word_is_char(*at))
        at++;
    return at;
}

static bool word_digits_at(const struct word *w, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++)
        if ((size_t)(w->end - w->start) <= i || !ascii_is_digit(w->start[i]))
            return false;
    return true;
}

static bool word_char_at(const struct word *w, size_t i, char c)
{
    return (size_t)(w->end - w->start) > i && w->start[i] == c;
}

static bool word_is_date(const struct word *w)
{
    return word_digits_at(w, 0, 4) && word_char_at(w, 4, '-');
}

static bool word_is_time(const struct word *w)
{
    return word_digits_at(w, 0, 2) && word_char_at(w, 2, ':');
}

static struct word word_start(struct toml_parser *p)
{
    struct toml_scan *s = &p->s;
    struct word w = {p, s->at, s->at, word_find_end(s->at, s->end)};

    if (word_is_date(&w) && w.end - w.start == 10 && s->end - w.end >= 2 && w.end[0] == ' ' &&
        ascii_is_digit(w.end[1]))
        w.end = word_find_end(w.end + 1, s->end);
    return w;
}

/* Exactly `count` digits with a value in [min, max]. */
static int word_number(struct word *w, int count, int min, int max, const char *what, int *ret)
{
    const char *from = w->at;
    int value = 0;

    for (int i = 0; i < count; i++, w->at++) {
        if (w->at == w->end || !ascii_is_digit(*w->at))
            return word_fail(w, what);
        value = value * 10 + (*w->at - '0');
    }
    if (value < min || value > max) {
        w->at = from;
        w->p->s.at = from;
        return toml_fail_at(&w->p->s, toml_scan_pos(&w->p->s), "expected %s, found %.*s", what,
                            count, from);
    }
    *ret = value;
    return 0;
}

/* One field of a date or time: the character before it, its width, range and target. */
struct time_part {
    char before; /* 0 = nothing */
    int digits, min, max;
    const char *what;
    size_t offset;
};

#define PART(before, digits, min, max, what, field)                                                \
    {                                                                                              \
        before, digits, min, max, what, offsetof(struct toml_time, field)                          \
    }
static const struct time_part date_parts[] = {
    PART(0, 4, 0, 9999, "a year of 4 digits", year),
    PART('-', 2, 1, 12, "a month from 01 to 12", month),
    PART('-', 2, 1, 31, "a day from 01 to 31", day),
};
static const struct time_part clock_parts[] = {
    PART(0, 2, 0, 23, "an hour from 00 to 23", hour),
    PART(':', 2, 0, 59, "a minute from 00 to 59", minute),
    PART(':', 2, 0, 60, "a second from 00 to 60", second),
};

static int word_time_parts(struct word *w, const struct time_part *parts, size_t n,
                           struct toml_time *t)
{
    for (size_t i = 0; i < n; i++) {
        int value, r;

        if (parts[i].before && !word_accept(w, parts[i].before))
            return word_fail(w, parts[i].before == ':' ? "':' (a time is HH:MM:SS)"
                                                       : "'-' (a date is YYYY-MM-DD)");
        r = word_number(w, parts[i].digits, parts[i].min, parts[i].max, parts[i].what, &value);
        if (r < 0)
            return r;
        memcpy((char *)t + parts[i].offset, &value, sizeof(value));
    }
    return 0;
}

static int toml_days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap);
}

static int word_date(struct word *w, struct toml_time *t)
{
    int r = word_time_parts(w, date_parts, ARRAY_LEN(date_parts), t);

    if (r < 0)
        return r;
    if (t->day > toml_days_in_month(t->year, t->month))
        return word_fail_start(w, "the month has no such day");
    return 0;
}

static int word_clock(struct word *w, struct toml_time *t)
{
    int scale = 100 * 1000 * 1000;
    int r = word_time_parts(w, clock_parts, ARRAY_LEN(clock_parts), t);

    if (r < 0 || !word_accept(w, '.'))
        return r;
    if (w->at == w->end || !ascii_is_digit(*w->at))
        return word_fail(w, "a digit after the point");
    for (; w->at < w->end && ascii_is_digit(*w->at); w->at++, scale /= 10)
        t->nanosecond += (*w->at - '0') * scale;
    return 0;
}

static int word_offset(struct word *w, struct toml_time *t)
{
    int sign = *w->at == '-' ? -1 : 1, hours, minutes, r;

    w->at++;
    r = word_number(w, 2, 0, 23, "an offset hour from 00 to 23", &hours);
    if (r < 0)
        return r;
    if (!word_accept(w, ':'))
        return word_fail(w, "':' (an offset is +HH:MM)");
    r = word_number(w, 2, 0, 59, "an offset minute from 00 to 59", &minutes);
    if (r < 0)
        return r;
    t->offset_minutes = sign * (hours * 60 + minutes);
    return 0;
}

/* A date, optionally followed by a time and an offset. */
static int word_datetime(struct word *w, struct toml_time *t, enum toml_type *ret_type)
{
    int r = word_date(w, t), c;

    if (r < 0)
        return r;
    *ret_type = TOML_LOCAL_DATE;
    c = word_peek(w);
    if (c != 'T' && c != 't' && c != ' ')
        return 0;
    w->at++;
    r = word_clock(w, t);
    if (r < 0)
        return r;
    *ret_type = TOML_LOCAL_DATETIME;
    c = word_peek(w);
    if (c != 'Z' && c != 'z' && c != '+' && c != '-')
        return 0;
    *ret_type = TOML_OFFSET_DATETIME;
    if (word_accept(w, 'Z') || word_accept(w, 'z'))
        return 0;
    return word_offset(w, t);
}

static int word_to_time(struct word *w, struct toml *v)
{
    struct toml_time *t = arena_new(w->p->arena, struct toml_time);
    enum toml_type type = TOML_LOCAL_TIME;
    int r;

    if (!t)
        return toml_fail_memory(&w->p->s);
    r = word_is_time(w) ? word_clock(w, t) : word_datetime(w, t, &type);
    if (r < 0)
        return r;
    t->text = arena_str(w->p->arena, str_make(w->start, (size_t)(w->at - w->start)));
    if (!t->text.p)
        return toml_fail_memory(&w->p->s);
    v->type = (uint8_t)type;
    v->u.time = t;
    return 0;
}

/* Reads digits of a base, with single underscores between them, and writes only the digits to
 * out[*n...]. */
static int word_digits(struct word *w, int base, char *out, size_t *n)
{
    bool after_digit = false;

    for (; w->at < w->end; w->at++) {
        int value = ascii_hex_value(*w->at);

        if (*w->at == '_' && after_digit) {
            after_digit = false;
            continue;
        }
        if (value < 0 || value >= base)
            break;
        if (*n >= TOML_NUMBER_DIGITS_MAX) {
            w->p->s.at = w->start;
            return toml_fail_limit(&w->p->s, "the number has too many digits");
        }
        out[(*n)++] = *w->at;
        after_digit = true;
    }
    return after_digit ? 0 : word_fail(w, "a digit");
}

static int word_integer(struct word *w, struct str digits, int base, bool negative, struct toml *v)
{
    uint64_t limit = (uint64_t)INT64_MAX + negative, magnitude = 0;

    for (size_t i = 0; i < digits.n; i++)
        if (__builtin_mul_overflow(magnitude, (uint64_t)base, &magnitude) ||
            __builtin_add_overflow(magnitude, (uint64_t)ascii_hex_value(digits.p[i]), &magnitude) ||
            magnitude > limit)
            return word_fail_start(w, "the integer does not fit in 64 bits");
    v->type = TOML_INTEGER;
    v->u.integer = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 0;
}

/* 0x, 0o, 0b; the cursor is at the zero. */
static int word_based_integer(struct word *w, struct toml *v)
{
    char digits[TOML_NUMBER_DIGITS_MAX];
    int base = w->at[1] == 'x' ? 16 : w->at[1] == 'o' ? 8 : 2;
    size_t n = 0;
    int r;

    w->at += 2;
    r = word_digits(w, base, digits, &n);
    return r < 0 ? r : word_integer(w, str_make(digits, n), base, false, v);
}

static bool word_infinity_or_nan(struct word *w, bool negative, struct toml *v)
{
    struct str rest = str_make(w->at, (size_t)(w->end - w->at));
    bool inf = str_eq(rest, STR("inf"));

    if (!inf && !str_eq(rest, STR("nan")))
        return false;
    w->at = w->end;
    v->type = TOML_FLOAT;
    v->u.number = inf ? (negative ? -(double)INFINITY : (double)INFINITY) : (double)NAN;
    return true;
}

/* Fraction and exponent after text[0..n), then converts all of it to a double. */
static int word_float(struct word *w, char *text, size_t n, bool negative, struct toml *v)
{
    double value;
    int r = 0;

    if (word_accept(w, '.')) {
        text[n++] = '.';
        r = word_digits(w, 10, text, &n);
    }
    if (r >= 0 && (word_accept(w, 'e') || word_accept(w, 'E'))) {
        text[n++] = 'e';
        if (word_peek(w) == '+' || word_peek(w) == '-')
            text[n++] = *w->at++;
        r = word_digits(w, 10, text, &n);
    }
    if (r < 0)
        return r;
    text[n] = '\0';
    value = strtod(text, NULL); /* our programs use the C locale */
    if (isinf(value))
        return word_fail_start(w, "the float is too large");
    v->type = TOML_FLOAT;
    v->u.number = negative ? -value : value;
    return 0;
}

static int word_to_number(struct word *w, struct toml *v)
{
    char text[TOML_NUMBER_DIGITS_MAX + 8]; /* the digits and . e + */
    bool negative = word_accept(w, '-');
    bool sign = negative || word_accept(w, '+');
    size_t n = 0;
    int c, r;

    if (word_infinity_or_nan(w, negative, v))
        return 0;
    c = w->end - w->at >= 2 && w->at[0] == '0' ? w->at[1] : 0;
    if (c == 'x' || c == 'o' || c == 'b')
        return sign ? word_fail_start(w, "a number with 0x, 0o or 0b takes no sign")
                    : word_based_integer(w, v);
    if (!ascii_is_digit((char)word_peek(w)))
        return word_fail(w, sign ? "a digit" : "a value");
    r = word_digits(w, 10, text, &n);
    if (r < 0)
        return r;
    if (n > 1 && text[0] == '0')
        return word_fail_start(w, "a decimal number must not begin with 0");
    c = word_peek(w);
    if (c == '.' || c == 'e' || c == 'E')
        return word_float(w, text, n, negative, v);
    return word_integer(w, str_make(text, n), 10, negative, v);
}

static bool word_to_bool(struct word *w, struct toml *v)
{
    struct str word = str_make(w->start, (size_t)(w->end - w->start));
    bool yes = str_eq(word, STR("true"));

    if (!yes && !str_eq(word, STR("false")))
        return false;
    w->at = w->end;
    v->type = TOML_BOOL;
    v->u.boolean = yes;
    return true;
}

int toml_scan_scalar(struct toml_parser *p, struct toml *v)
{
    struct word w = word_start(p);
    int r = 0;

    if (!word_to_bool(&w, v))
        r = word_is_date(&w) || word_is_time(&w) ? word_to_time(&w, v) : word_to_number(&w, v);
    if (r < 0)
        return r;
    if (w.at < w.end)
        return word_fail(&w, "the end of the value");
    p->s.at = w.at;
    return 0;
}
