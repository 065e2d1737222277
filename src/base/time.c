/* time.c - clocks, civil dates, and one pattern scanner for all text forms. */
#include "base/time.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>

enum {
    SECONDS_PER_DAY = 86400,
    DAYS_TO_EPOCH = 719162, /* from 0001-01-01 to 1970-01-01 */
    DAYS_PER_400_YEARS = 146097,
    DAYS_PER_100_YEARS = 36524, /* without the leap day at the end of every fourth century */
    DAYS_PER_4_YEARS = 1461,
};

/* Unix time as text: seconds up to this value, milliseconds above. */
static const int64_t unix_seconds_max = INT64_C(20000000000);

struct civil {
    int year, month, day, hour, minute, second; /* month and day from 1 */
    int micros;
    int offset_minutes; /* east of UTC */
};

static const char month_names[12][4] = {
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
};
static const char *const day_names[7] = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    int r = clock_gettime(clock, &ts);

    assert(r == 0); /* both clocks exist on every Linux */
    (void)r;
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

uint64_t time_mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t time_mono_ms(void)
{
    return time_mono_ns() / 1000000U;
}

int64_t time_wall_us(void)
{
    return (int64_t)(clock_ns(CLOCK_REALTIME) / 1000U);
}

uint64_t deadline_in_ms(uint64_t ms)
{
    uint64_t ns;

    if (__builtin_mul_overflow(ms, UINT64_C(1000000), &ns) ||
        __builtin_add_overflow(ns, time_mono_ns(), &ns))
        return DEADLINE_NEVER;
    return ns;
}

int deadline_left_ms(uint64_t deadline)
{
    uint64_t now, left_ms;

    if (deadline == DEADLINE_NEVER)
        return -1;
    now = time_mono_ns();
    if (now >= deadline)
        return 0;
    left_ms = (deadline - now - 1) / 1000000U + 1;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in_month(int year, int month)
{
    static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 0001-01-01 to the date. */
static int64_t civil_to_days(int year, int month, int day)
{
    int64_t past = year - 1;
    int64_t days = past * 365 + past / 4 - past / 100 + past / 400;

    for (int m = 1; m < month; m++)
        days += days_in_month(year, m);
    return days + day - 1;
}

static int take_quotient(int64_t *n, int divisor, int max)
{
    int64_t q = *n / divisor;

    if (q > max)
        q = max; /* the last day of a leap period still belongs to it */
    *n -= q * divisor;
    return (int)q;
}

static void civil_from_days(int64_t days, struct civil *ret)
{
    int year = 1, month = 1;

    year += 400 * take_quotient(&days, DAYS_PER_400_YEARS, INT_MAX);
    year += 100 * take_quotient(&days, DAYS_PER_100_YEARS, 3);
    year += 4 * take_quotient(&days, DAYS_PER_4_YEARS, INT_MAX);
    year += take_quotient(&days, 365, 3);
    while (days >= days_in_month(year, month))
        days -= days_in_month(year, month++);
    ret->year = year;
    ret->month = month;
    ret->day = (int)days + 1;
}

/* Splits a time, clamped to the printable range; *ret_weekday counts from Sunday. */
static struct civil civil_from_us(int64_t us, int *ret_weekday)
{
    struct civil c = {0};
    int64_t since_year_1, seconds, days;

    us = us < TIME_MIN_US ? TIME_MIN_US : us > TIME_MAX_US ? TIME_MAX_US : us;
    since_year_1 = us - TIME_MIN_US;
    seconds = since_year_1 / TIME_US_PER_S;
    days = seconds / SECONDS_PER_DAY;
    civil_from_days(days, &c);
    c.hour = (int)(seconds % SECONDS_PER_DAY / 3600);
    c.minute = (int)(seconds % 3600 / 60);
    c.second = (int)(seconds % 60);
    c.micros = (int)(since_year_1 % TIME_US_PER_S);
    *ret_weekday = (int)((days + 1) % 7); /* 0001-01-01 was a Monday */
    return c;
}

/* Checks every field and the resulting time. */
static int civil_to_us(const struct civil *c, int64_t *ret_us, struct err *e)
{
    int minute_utc;
    int64_t seconds, us;

    if (c->year < 1 || c->month < 1 || c->month > 12 || c->day < 1 ||
        c->day > days_in_month(c->year, c->month))
        return err_set(e, ERANGE, "no such date: %04d-%02d-%02d", c->year, c->month, c->day);
    minute_utc = (c->hour * 60 + c->minute - c->offset_minutes + 2 * 1440) % 1440;
    if (c->hour > 23 || c->minute > 59 || c->second > 60 || (c->second == 60 && minute_utc != 1439))
        return err_set(e, ERANGE, "no such time of day: %02d:%02d:%02d", c->hour, c->minute,
                       c->second);
    seconds = (civil_to_days(c->year, c->month, c->day) - DAYS_TO_EPOCH) * SECONDS_PER_DAY;
    seconds += c->hour * 3600 + (c->minute - c->offset_minutes) * 60 + c->second;
    us = seconds * TIME_US_PER_S + c->micros;
    if (us < TIME_MIN_US || us > TIME_MAX_US)
        return err_set(e, ERANGE, "time is not within the years 0001 to 9999");
    *ret_us = us;
    return 0;
}

static bool scan_digits(struct str *s, size_t count, int *ret)
{
    uint64_t v;

    if (s->n < count || str_to_u64(str_make(s->p, count), &v) < 0)
        return false;
    *ret = (int)v;
    *s = str_skip(*s, count);
    return true;
}

/* asctime pads the day with a space. */
static bool scan_padded(struct str *s, int *ret)
{
    if (s->n == 0 || s->p[0] != ' ')
        return scan_digits(s, 2, ret);
    *s = str_skip(*s, 1);
    return scan_digits(s, 1, ret);
}

static bool scan_char(struct str *s, char c)
{
    if (s->n == 0 || s->p[0] != c)
        return false;
    *s = str_skip(*s, 1);
    return true;
}

static bool scan_month(struct str *s, int *ret)
{
    for (int i = 0; i < 12; i++)
        if (str_starts(*s, str_make(month_names[i], 3))) {
            *ret = i + 1;
            *s = str_skip(*s, 3);
            return true;
        }
    return false;
}

static bool scan_weekday(struct str *s, bool full)
{
    for (int i = 0; i < 7; i++) {
        struct str name = full ? str_of(day_names[i]) : str_make(day_names[i], 3);

        if (str_starts(*s, name)) {
            *s = str_skip(*s, name.n);
            return true;
        }
    }
    return false;
}

static bool scan_field(struct str *s, char field, struct civil *c)
{
    switch (field) {
    case 'Y':
        return scan_digits(s, 4, &c->year);
    case 'y':
        return scan_digits(s, 2, &c->year);
    case 'm':
        return scan_digits(s, 2, &c->month);
    case 'b':
        return scan_month(s, &c->month);
    case 'd':
        return scan_digits(s, 2, &c->day);
    case 'e':
        return scan_padded(s, &c->day);
    case 'H':
        return scan_digits(s, 2, &c->hour);
    case 'M':
        return scan_digits(s, 2, &c->minute);
    case 'S':
        return scan_digits(s, 2, &c->second);
    case 'a':
    case 'A':
        return scan_weekday(s, field == 'A');
    default:
        assert(!"a pattern names a field that exists");
        return false;
    }
}

/* Parses the start of *s by `pattern`: %X is a field, any other character matches itself. On false,
 * *s and *c are partly advanced. */
static bool scan(struct str *s, const char *pattern, struct civil *c)
{
    for (; *pattern; pattern++) {
        bool is_field = *pattern == '%';

        if (is_field ? !scan_field(s, *++pattern, c) : !scan_char(s, *pattern))
            return false;
    }
    return true;
}

/* Reads the digits after a decimal point and keeps six. */
static bool scan_fraction(struct str *s, int *ret_micros)
{
    int micros = 0, kept = 0;
    size_t n = 0;

    for (; n < s->n && ascii_is_digit(s->p[n]); n++)
        if (kept < 6) {
            micros = micros * 10 + (s->p[n] - '0');
            kept++;
        }
    if (n == 0)
        return false;
    for (; kept < 6; kept++)
        micros *= 10;
    *ret_micros = micros;
    *s = str_skip(*s, n);
    return true;
}

static bool scan_offset(struct str *s, bool lenient, struct civil *c)
{
    struct civil off = {0};
    bool west;

    if (scan_char(s, 'Z') || scan_char(s, 'z'))
        return true;
    west = s->n > 0 && s->p[0] == '-';
    if (!scan_char(s, '+') && !scan_char(s, '-'))
        return false;
    if (!scan(s, "%H", &off) || !(scan_char(s, ':') || lenient) || !scan(s, "%M", &off) ||
        off.hour > 23 || off.minute > 59)
        return false;
    c->offset_minutes = (off.hour * 60 + off.minute) * (west ? -1 : 1);
    return true;
}

/* The time of day, after the T. */
static bool scan_clock(struct str *s, bool lenient, struct civil *c)
{
    if (!scan(s, "%H:%M", c))
        return false;
    if (scan_char(s, ':')) {
        if (!scan(s, "%S", c) || (scan_char(s, '.') && !scan_fraction(s, &c->micros)))
            return false;
    } else if (!lenient) {
        return false;
    }
    return (lenient && s->n == 0) || scan_offset(s, lenient, c);
}

static bool scan_rfc3339(struct str s, bool lenient, struct civil *c)
{
    if (!scan(&s, "%Y-%m-%d", c))
        return false;
    if (lenient && s.n == 0)
        return true;
    if (!scan_char(&s, 'T') && !scan_char(&s, 't') && !(lenient && scan_char(&s, ' ')))
        return false;
    return scan_clock(&s, lenient, c) && s.n == 0;
}

static int time_parse_text(struct str s, bool lenient, int64_t *ret_us, struct err *e)
{
    struct civil c = {0};

    if (!scan_rfc3339(s, lenient, &c))
        return err_set(e, EINVAL, "not a time: expected the form 2026-01-02T03:04:05Z");
    return civil_to_us(&c, ret_us, e);
}

int time_parse(struct str s, int64_t *ret_us, struct err *e)
{
    return time_parse_text(s, false, ret_us, e);
}

/* -EINVAL, without setting e, when `s` is not a decimal number. */
static int time_parse_unix(struct str s, int64_t *ret_us, struct err *e)
{
    bool negative = scan_char(&s, '-');
    struct str fraction = s, whole;
    uint64_t n;
    int64_t us;
    int micros = 0, r;

    str_cut(&fraction, '.', &whole);
    if (fraction.p && (!scan_fraction(&fraction, &micros) || fraction.n > 0))
        return -EINVAL;
    r = str_to_u64(whole, &n);
    if (r == -EINVAL)
        return r;
    if (r < 0 || n > (uint64_t)TIME_MAX_US)
        return err_set(e, ERANGE, "time is not within the years 0001 to 9999");
    if (n <= (uint64_t)unix_seconds_max)
        us = (int64_t)n * TIME_US_PER_S + micros;
    else if (__builtin_mul_overflow((int64_t)n, TIME_US_PER_MS, &us))
        us = INT64_MAX;
    else
        us += micros / 1000;
    us = negative ? -us : us;
    if (us < TIME_MIN_US || us > TIME_MAX_US)
        return err_set(e, ERANGE, "time is not within the years 0001 to 9999");
    *ret_us = us;
    return 0;
}

int time_parse_lenient(struct str s, int64_t *ret_us, struct err *e)
{
    int r = s.p ? time_parse_unix(s, ret_us, e) : -EINVAL;

    return r == -EINVAL ? time_parse_text(s, true, ret_us, e) : r;
}

/* Writes a character and a number with this many digits. Returns the end. */
static char *put_field(char *at, char before, int value, int digits)
{
    *at = before;
    for (int i = digits; i > 0; i--) {
        at[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return at + 1 + digits;
}

/* Listings consist mostly of times; printf would be half of their cost. */
static size_t put_time(const struct civil *c, int fraction, int digits, char out[TIME_TEXT_MAX])
{
    char text[1 + TIME_TEXT_MAX]; /* put_field writes one unused character first */
    char *at = put_field(text, ' ', c->year, 4);

    at = put_field(at, '-', c->month, 2);
    at = put_field(at, '-', c->day, 2);
    at = put_field(at, 'T', c->hour, 2);
    at = put_field(at, ':', c->minute, 2);
    at = put_field(at, ':', c->second, 2);
    if (digits)
        at = put_field(at, '.', fraction, digits);
    *at++ = 'Z';
    *at++ = '\0';
    assert(at <= text + sizeof(text));
    memcpy(out, text + 1, (size_t)(at - text - 1));
    return (size_t)(at - text - 2);
}

size_t time_format(int64_t us, char out[TIME_TEXT_MAX])
{
    int weekday;
    struct civil c = civil_from_us(us, &weekday);

    return put_time(&c, c.micros, c.micros ? 6 : 0, out);
}

size_t time_format_ms(int64_t us, char out[TIME_TEXT_MAX])
{
    int weekday;
    struct civil c = civil_from_us(us, &weekday);

    return put_time(&c, c.micros / 1000, 3, out);
}

size_t time_format_http(int64_t us, char out[TIME_HTTP_MAX])
{
    int weekday, n;
    struct civil c = civil_from_us(us, &weekday);
    char text[128];

    n = snprintf(text, sizeof(text), "%.3s, %02d %s %04d %02d:%02d:%02d GMT", day_names[weekday],
                 c.day, month_names[c.month - 1], c.year, c.hour, c.minute, c.second);
    assert(n < TIME_HTTP_MAX);
    memcpy(out, text, (size_t)n + 1);
    return (size_t)n;
}

/* The year with these last two digits that is at most 50 years ahead (RFC 9110, 5.6.7). */
static int year_of_two_digits(int two)
{
    int weekday, now = civil_from_us(time_wall_us(), &weekday).year;
    int year = now - now % 100 + 100 + two;

    while (year > now + 50)
        year -= 100;
    return year;
}

int time_parse_http(struct str s, int64_t *ret_us, struct err *e)
{
    static const struct {
        const char *pattern;
        bool two_digit_year;
    } forms[] = {
        {"%a, %d %b %Y %H:%M:%S GMT", false}, /* IMF-fixdate */
        {"%A, %d-%b-%y %H:%M:%S GMT", true }, /* RFC 850 */
        {"%a %b %e %H:%M:%S %Y",      false}, /* asctime */
    };

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct civil c = {0};
        struct str rest = s;

        if (!scan(&rest, forms[i].pattern, &c) || rest.n > 0)
            continue;
        if (forms[i].two_digit_year)
            c.year = year_of_two_digits(c.year);
        return civil_to_us(&c, ret_us, e);
    }
    return err_set(e, EINVAL, "not an HTTP date");
}
