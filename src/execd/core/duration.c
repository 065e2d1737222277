#include "execd/core/duration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    struct str name;
    int64_t ns;
} units[] = {
    {STR_INIT("ns"),  1            },
    {STR_INIT("us"),  1000         },
    {STR_INIT("µs"), 1000         },
    {STR_INIT("μs"), 1000         }, /* Greek mu; the one above is the micro sign */
    {STR_INIT("ms"),  1000000      },
    {STR_INIT("s"),   1000000000   },
    {STR_INIT("m"),   60000000000  },
    {STR_INIT("h"),   3600000000000},
};

static size_t digits(struct str s)
{
    size_t n = 0;

    while (n < s.n && ascii_is_digit(s.p[n]))
        n++;
    return n;
}

/* Takes the unit off the front of *s. Its nanoseconds, or 0 when there is none. "m" also begins
 * "ms". */
static int64_t take_unit(struct str *s)
{
    size_t n = 0;

    while (n < s->n && !ascii_is_digit(s->p[n]) && s->p[n] != '.')
        n++;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (!str_eq(str_make(s->p, n), units[i].name))
            continue;
        *s = str_skip(*s, n);
        return units[i].ns;
    }
    return 0;
}

/* Takes a part such as "1.5s" off the front of *s. */
static int take_part(struct str *s, int64_t *ret_ns)
{
    size_t n = digits(*s);
    struct str whole = str_make(s->p, n), fraction = STR("");
    uint64_t value = 0;
    int64_t unit, rest = 0, scale;

    *s = str_skip(*s, n);
    if (s->n > 0 && s->p[0] == '.') {
        *s = str_skip(*s, 1);
        fraction = str_make(s->p, digits(*s));
        *s = str_skip(*s, fraction.n);
    }
    unit = take_unit(s);
    if (unit == 0 || whole.n + fraction.n == 0)
        return -EINVAL;
    if (whole.n > 0 && str_to_u64_range(whole, 0, (uint64_t)(INT64_MAX / unit), &value) < 0)
        return -ERANGE;
    scale = unit;
    for (size_t i = 0; i < fraction.n; i++) {
        scale /= 10;
        rest += (fraction.p[i] - '0') * scale;
    }
    if (__builtin_add_overflow((int64_t)value * unit, rest, ret_ns))
        return -ERANGE;
    return 0;
}

int duration_parse(struct str text, int64_t *ret_ns)
{
    bool negative = text.n > 0 && text.p[0] == '-';
    int64_t sum = 0, part;

    if (text.n > 0 && (negative || text.p[0] == '+'))
        text = str_skip(text, 1);
    if (text.n == 0)
        return -EINVAL;
    if (str_eq(text, STR("0")))
        text = str_skip(text, 1);
    while (text.n > 0) {
        int r = take_part(&text, &part);

        if (r < 0)
            return r;
        if (__builtin_add_overflow(sum, part, &sum))
            return -ERANGE;
    }
    *ret_ns = negative ? -sum : sum;
    return 0;
}

struct duration_text duration_text_of_ms(uint64_t ms)
{
    unsigned long long hours = ms / 3600000, minutes = ms / 60000 % 60, seconds = ms / 1000 % 60;
    struct duration_text out;
    char rest[8] = "";
    size_t n;

    if (ms > 0 && ms < 1000) {
        (void)snprintf(out.s, sizeof(out.s), "%llums", (unsigned long long)ms);
        return out;
    }
    if (ms % 1000) {
        (void)snprintf(rest, sizeof(rest), ".%03u", (unsigned)(ms % 1000));
        for (n = strlen(rest); rest[n - 1] == '0'; n--)
            rest[n - 1] = '\0';
    }
    if (hours)
        (void)snprintf(out.s, sizeof(out.s), "%lluh%llum%llu%ss", hours, minutes, seconds, rest);
    else if (minutes)
        (void)snprintf(out.s, sizeof(out.s), "%llum%llu%ss", minutes, seconds, rest);
    else
        (void)snprintf(out.s, sizeof(out.s), "%llu%ss", seconds, rest);
    return out;
}
