#include "kube/quantity.h"

#include <errno.h>
#include <stdio.h>

#include "base/str.h"

enum { NANO_DIGITS = 9, DIGITS_MAX = 27, EXPONENT_MAX = 100 };

static const __int128 nano_max = (__int128)INT64_MAX * 1000000000;

static const struct suffix {
    const char *name;
    int tens; /* power of ten */
    int twos; /* or of two */
} suffixes[] = {
    {"",   0,  0 },
    {"n",  -9, 0 },
    {"u",  -6, 0 },
    {"m",  -3, 0 },
    {"k",  3,  0 },
    {"M",  6,  0 },
    {"G",  9,  0 },
    {"T",  12, 0 },
    {"P",  15, 0 },
    {"E",  18, 0 },
    {"Ki", 0,  10},
    {"Mi", 0,  20},
    {"Gi", 0,  30},
    {"Ti", 0,  40},
    {"Pi", 0,  50},
    {"Ei", 0,  60},
};

/* A suffix of the table, or an exponent: "e3", "E-2". */
static bool read_suffix(struct str s, int *tens, int *twos)
{
    int64_t exponent;

    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        if (str_eq(s, str_of(suffixes[i].name))) {
            *tens = suffixes[i].tens;
            *twos = suffixes[i].twos;
            return true;
        }
    if (s.n < 2 || ascii_lower(s.p[0]) != 'e')
        return false;
    s = str_skip(s, 1);
    if (s.p[0] == '+')
        s = str_skip(s, 1);
    if (str_to_i64_range(s, -EXPONENT_MAX, EXPONENT_MAX, &exponent) < 0)
        return false;
    *tens = (int)exponent;
    *twos = 0;
    return true;
}

/* digits * 10^tens * 2^twos, rounded up; false when it is too large. `more`: digits were cut. */
static bool scale(unsigned __int128 digits, int tens, int twos, bool more, __int128 *ret)
{
    for (; twos > 0; twos--)
        if (__builtin_mul_overflow(digits, 2, &digits))
            return false;
    for (; tens > 0 && digits; tens--)
        if (__builtin_mul_overflow(digits, 10, &digits))
            return false;
    for (; tens < 0 && digits; tens++) {
        more |= digits % 10 != 0;
        digits /= 10;
    }
    digits += more;
    if (digits > (unsigned __int128)nano_max)
        return false;
    *ret = (__int128)digits;
    return true;
}

/* The digits before the suffix, and by which power of ten they are scaled. */
struct number {
    unsigned __int128 digits;
    int tens;
    bool more; /* digits were left out that are not zero */
};

static bool read_number(struct str *s, struct number *ret)
{
    bool point = false;
    size_t seen = 0;
    int kept = 0;

    for (; s->n && (ascii_is_digit(s->p[0]) || (s->p[0] == '.' && !point)); *s = str_skip(*s, 1)) {
        if (s->p[0] == '.') {
            point = true;
            continue;
        }
        seen++;
        if (kept == DIGITS_MAX) {
            ret->more |= s->p[0] != '0';
            ret->tens += !point;
            continue;
        }
        ret->digits = ret->digits * 10 + (unsigned)(s->p[0] - '0');
        kept += ret->digits != 0;
        ret->tens -= point;
    }
    return seen > 0;
}

int kube_quantity_parse(struct str text, struct kube_quantity *ret, struct err *e)
{
    struct number n = {0};
    struct str s = text;
    bool negative = s.n && s.p[0] == '-';
    int tens, twos;
    __int128 nano;

    if (s.n && (s.p[0] == '-' || s.p[0] == '+'))
        s = str_skip(s, 1);
    if (!read_number(&s, &n) || !read_suffix(s, &tens, &twos))
        return err_set(e, EINVAL,
                       "'%.*s' is no quantity: expected a number, with one of the suffixes n, u, "
                       "m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent",
                       STR_ARG(text));
    if (!scale(n.digits, n.tens + tens + NANO_DIGITS, twos, n.more, &nano))
        return err_set(e, ERANGE, "the quantity '%.*s' is too large", STR_ARG(text));
    *ret = (struct kube_quantity){negative ? -nano : nano, twos > 0};
    return 0;
}

int kube_quantity_of(const struct json *v, struct kube_quantity *ret, struct err *e)
{
    struct str text;

    if (v && v->type == JSON_NUMBER)
        return kube_quantity_parse(v->text, ret, e);
    if (json_to_str(v, &text) < 0)
        return err_set(e, EINVAL, "expected a quantity, got %s", v ? json_type_name(v) : "nothing");
    return kube_quantity_parse(text, ret, e);
}

int kube_quantity_cmp(struct kube_quantity a, struct kube_quantity b)
{
    return (a.nano > b.nano) - (a.nano < b.nano);
}

struct kube_quantity kube_quantity_add(struct kube_quantity a, struct kube_quantity b)
{
    struct kube_quantity sum = {a.nano + b.nano, a.nano ? a.binary : b.binary};

    if (sum.nano > nano_max)
        sum.nano = nano_max;
    if (sum.nano < -nano_max)
        sum.nano = -nano_max;
    return sum;
}

/* Divides, rounding up. */
static int64_t in_units_of(__int128 nano, int64_t unit)
{
    __int128 n = nano / unit + (nano > 0 && nano % unit != 0);

    return n > INT64_MAX ? INT64_MAX : n < INT64_MIN ? INT64_MIN : (int64_t)n;
}

int64_t kube_quantity_units(struct kube_quantity q)
{
    return in_units_of(q.nano, 1000000000);
}

int64_t kube_quantity_milli(struct kube_quantity q)
{
    return in_units_of(q.nano, 1000000);
}

size_t kube_quantity_format(struct kube_quantity q, char out[KUBE_QUANTITY_TEXT_MAX])
{
    static const char *const binary[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    static const char *const decimal[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
    const __int128 nano = 1000000000;
    __int128 n = q.nano;
    size_t at = 0;

    if (n == 0)
        return (size_t)snprintf(out, KUBE_QUANTITY_TEXT_MAX, "0");
    if (q.binary && n % nano == 0 && (n / nano >= 1024 || n / nano <= -1024)) {
        for (n /= nano; at + 1 < ARRAY_LEN(binary) && n % 1024 == 0; at++)
            n /= 1024;
        return (size_t)snprintf(out, KUBE_QUANTITY_TEXT_MAX, "%lld%s", (long long)n, binary[at]);
    }
    for (; at + 1 < ARRAY_LEN(decimal) && n % 1000 == 0; at++)
        n /= 1000;
    if (n > INT64_MAX || n < INT64_MIN) { /* fine digits of a huge number: dropped */
        for (; at < 3; at++)
            n /= 1000;
    }
    return (size_t)snprintf(out, KUBE_QUANTITY_TEXT_MAX, "%lld%s", (long long)n, decimal[at]);
}
