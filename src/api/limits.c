#include "api/limits.h"

#include <errno.h>

/* Removes the digits from the front. -EINVAL when there are none, -ERANGE past 64 bits. */
static int take_digits(struct str *s, uint64_t *ret)
{
    size_t n = 0;
    int r;

    while (n < s->n && ascii_is_digit(s->p[n]))
        n++;
    r = str_to_u64(str_make(s->p, n), ret);
    *s = str_skip(*s, n);
    return r;
}

/* --- bytes --- */

static int unit_factor(struct str unit, uint64_t *ret)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } units[] = {
        {"",   1            },
        {"b",  1            },
        {"k",  1000         },
        {"kb", 1000         },
        {"ki", 1ULL << 10   },
        {"m",  1000000      },
        {"mb", 1000000      },
        {"mi", 1ULL << 20   },
        {"g",  1000000000   },
        {"gb", 1000000000   },
        {"gi", 1ULL << 30   },
        {"t",  1000000000000},
        {"tb", 1000000000000},
        {"ti", 1ULL << 40   },
    };

    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (str_eq_nocase(unit, str_of(units[i].name))) {
            *ret = units[i].factor;
            return 0;
        }
    return -EINVAL;
}

int api_bytes_parse(struct str text, uint64_t *ret_bytes)
{
    uint64_t number, factor, bytes;
    int r;

    text = str_trim(text);
    r = take_digits(&text, &number);
    if (r < 0)
        return r;
    if (number == 0 || unit_factor(text, &factor) < 0)
        return -EINVAL;
    if (__builtin_mul_overflow(number, factor, &bytes) || bytes > INT64_MAX)
        return -ERANGE;
    *ret_bytes = bytes;
    return 0;
}

/* --- processors --- */

/* Reads `places` digits of a fraction as an integer; *ret_more when a later digit is not 0. */
static int take_fraction(struct str *s, unsigned places, uint64_t *ret, bool *ret_more)
{
    uint64_t value = 0;
    size_t n = 0;

    *ret_more = false;
    for (; n < s->n && ascii_is_digit(s->p[n]); n++) {
        if (n < places)
            value = value * 10 + (uint64_t)(s->p[n] - '0');
        else if (s->p[n] != '0')
            *ret_more = true;
    }
    for (size_t i = n; i < places; i++)
        value *= 10;
    *s = str_skip(*s, n);
    *ret = value;
    return n ? 0 : -EINVAL;
}

int api_millicores_parse(struct str text, uint32_t *ret_millicores)
{
    uint64_t whole, fraction = 0, value;
    bool milli, more = false;
    int r;

    text = str_trim(text);
    milli = str_ends(text, STR("m"));
    text.n -= milli;
    r = take_digits(&text, &whole);
    if (r >= 0 && str_starts(text, STR("."))) {
        text = str_skip(text, 1);
        r = take_fraction(&text, milli ? 0 : 3, &fraction, &more);
    }
    if (r < 0)
        return r;
    if (text.n)
        return -EINVAL;
    if (whole > UINT32_MAX)
        return -ERANGE;
    value = whole * (milli ? 1 : 1000) + fraction + more;
    if (value == 0)
        return -EINVAL;
    if (value > UINT32_MAX)
        return -ERANGE;
    *ret_millicores = (uint32_t)value;
    return 0;
}

int api_gpus_parse(struct str text, int32_t *ret_gpus)
{
    int64_t n;
    int r;

    text = str_trim(text);
    if (str_eq_nocase(text, STR("all"))) {
        *ret_gpus = -1;
        return 0;
    }
    r = str_to_i64(text, &n);
    if (r < 0)
        return r;
    if (n <= 0)
        return -EINVAL;
    if (n > INT32_MAX)
        return -ERANGE;
    *ret_gpus = (int32_t)n;
    return 0;
}

/* --- the map --- */

static int limit_memory(struct str text, struct api_limits *limits)
{
    return api_bytes_parse(text, &limits->memory_bytes);
}

static int limit_disk(struct str text, struct api_limits *limits)
{
    uint64_t bytes;
    int r = api_bytes_parse(text, &bytes);

    if (r >= 0 && (limits->disk_bytes == 0 || bytes < limits->disk_bytes))
        limits->disk_bytes = bytes;
    return r;
}

static int limit_cpu(struct str text, struct api_limits *limits)
{
    return api_millicores_parse(text, &limits->cpu_millicores);
}

static int limit_gpu(struct str text, struct api_limits *limits)
{
    return api_gpus_parse(text, &limits->gpus);
}

#define BYTES_EXPECTED "a whole number of bytes above 0, or one with a unit, like 512Mi or 2G"

static const struct limit_key {
    const char *name;
    int (*parse)(struct str text, struct api_limits *limits);
    const char *expected;
} limit_keys[] = {
    {"memory",            limit_memory, BYTES_EXPECTED                                             },
    {"disk",              limit_disk,   BYTES_EXPECTED                                             },
    {"storage",           limit_disk,   BYTES_EXPECTED                                             },
    {"ephemeral-storage", limit_disk,   BYTES_EXPECTED                                             },
    {"cpu",               limit_cpu,    "cores above 0, like 2 or 0.5, or millicores, like 500m"   },
    {"gpu",               limit_gpu,    "a whole number above 0, or all; leave it out to have none"},
};

static int limit_parse(const struct json_pair *pair, struct api_limits *limits, struct api_fail *f)
{
    for (size_t i = 0; i < ARRAY_LEN(limit_keys); i++) {
        const struct limit_key *key = &limit_keys[i];
        int r;

        if (!str_eq(pair->key, str_of(key->name)))
            continue;
        r = key->parse(pair->value, limits);
        if (r == 0)
            return 0;
        return api_fail_invalid(f, "resourceLimits.%s: expected %s, got '%s'%s", key->name,
                                key->expected, api_show(pair->value).text,
                                r == -ERANGE ? ", which is too large" : "");
    }
    return 0;
}

int api_limits_parse(const struct json_pair *pairs, size_t count, struct api_limits *ret,
                     struct api_fail *f)
{
    struct api_limits limits = {0};

    for (size_t i = 0; i < count; i++) {
        int r = limit_parse(&pairs[i], &limits, f);

        if (r < 0)
            return r;
    }
    *ret = limits;
    return 0;
}
