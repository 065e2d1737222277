/* config_text.c - valid forms of texts in a configuration. Pure. */
#include <arpa/inet.h>
#include <errno.h>

#include "api/limits.h"
#include "image/platform.h"
#include "server/config/config_internal.h"

/* --- forms --- */

static bool is_one_of(struct str text, const char *words)
{
    struct str rest = str_of(words), word;

    while (str_cut(&rest, '|', &word))
        if (str_eq(text, word))
            return true;
    return false;
}

static bool is_visible(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] > '~')
            return false;
    return true;
}

static bool fits_any(struct str text UNUSED)
{
    return true;
}

static bool fits_some(struct str text)
{
    return text.n > 0;
}

static bool fits_absolute(struct str text)
{
    return text.p[0] == '/';
}

static bool fits_host(struct str text)
{
    return is_visible(text) && str_find(text, '/') == text.n && str_find(text, '*') == text.n;
}

static bool fits_address(struct str text)
{
    return is_visible(text) && str_find_str(text, STR("://")) == text.n;
}

static bool fits_level(struct str text)
{
    enum log_level level;

    return config_level_parse(text, &level) == 0;
}

static bool fits_ipv4(struct str text)
{
    char copy[INET_ADDRSTRLEN];
    struct in_addr addr;

    return str_copy(copy, sizeof(copy), text) == 0 && inet_pton(AF_INET, copy, &addr) == 1;
}

static bool fits_account(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (!ascii_is_alpha(text.p[i]) && !ascii_is_digit(text.p[i]) &&
            !(i > 0 && text.p[i] == '-') && text.p[i] != '_' && text.p[i] != '.')
            return false;
    return text.n <= 64;
}

static bool fits_size(struct str text)
{
    uint64_t bytes;

    return config_bytes_parse(text, &bytes) == 0;
}

static bool fits_provider(struct str text)
{
    return is_one_of(text, "batchsandbox|agent-sandbox");
}

static bool fits_platform(struct str text)
{
    struct image_platform platform;

    return image_platform_parse(text, &platform, NULL) == 0;
}

static bool fits_key_id(struct str text)
{
    return text.n == 1 && (ascii_is_digit(text.p[0]) || (text.p[0] >= 'a' && text.p[0] <= 'z'));
}

/* Blank means no key. Others are sent in a header, whose value HTTP trims. */
static bool fits_key(struct str text)
{
    struct str inner = str_trim(text);

    if (inner.n == 0)
        return true;
    if (inner.n != text.n)
        return false;
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] < ' ' || text.p[i] > '~')
            return false;
    return text.n <= 1024;
}

static const struct {
    const char *expects;
    bool (*fits)(struct str text); /* text is not empty, except for FORM_SOME */
} forms[FORM_COUNT] = {
    [FORM_ANY] = {"a text",                                                           fits_any     },
    [FORM_SOME] = {"a text that is not empty",                                         fits_some    },
    [FORM_PATH] = {"a path",                                                           fits_any     },
    [FORM_ABSOLUTE] = {"a path that begins with /",                                        fits_absolute},
    [FORM_HOST] = {"an address or a host name, such as 127.0.0.1",                     fits_host    },
    [FORM_ADDRESS] = {"a host or host:port without a scheme, or *.domain",                fits_address },
    [FORM_LEVEL] = {"one of debug, info, warning, error, critical",                     fits_level   },
    [FORM_IPV4] = {"an IPv4 address, such as 9.9.9.9",                                 fits_ipv4    },
    [FORM_ACCOUNT] = {"the name or number of an account",                                 fits_account },
    [FORM_SIZE] = {"a size, such as 512Mi or 2Gi",                                     fits_size    },
    [FORM_PLATFORM] = {"a platform, such as linux/amd64",                                  fits_platform},
    [FORM_PROVIDER] = {"batchsandbox or agent-sandbox",                                    fits_provider},
    [FORM_KEY_ID] = {"one of the characters 0-9 and a-z",                                fits_key_id  },
    [FORM_KEY] = {"up to 1024 printable ASCII characters without blanks around them", fits_key     },
    [FORM_SECRET] = {"a text",                                                           fits_any     },
};

bool config_form_fits(enum config_form form, struct str text)
{
    if (text.n == 0)
        return form != FORM_SOME;
    return forms[form].fits(text);
}

const char *config_form_expects(enum config_form form)
{
    return forms[form].expects;
}

/* --- quantities and levels --- */

int config_bytes_parse(struct str text, uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    int r = str_eq(text, STR("0")) || text.n == 0 ? 0 : api_bytes_parse(text, &bytes);

    if (r == 0 && bytes > (uint64_t)CONFIG_BYTES_MAX)
        r = -ERANGE;
    if (r == 0)
        *ret_bytes = bytes;
    return r;
}

int config_cpu_parse(struct str text, uint32_t *ret_millicores)
{
    uint32_t millicores = 0;
    int r = str_eq(text, STR("0")) || text.n == 0 ? 0 : api_millicores_parse(text, &millicores);

    if (r == 0 && millicores > CONFIG_MILLICORES_MAX)
        r = -ERANGE;
    if (r == 0)
        *ret_millicores = millicores;
    return r;
}

int config_level_parse(struct str text, enum log_level *ret)
{
    static const struct {
        const char *name;
        enum log_level level;
    } levels[] = {
        {"debug",    LOG_DEBUG},
        {"info",     LOG_INFO },
        {"warn",     LOG_WARN },
        {"warning",  LOG_WARN },
        {"error",    LOG_ERROR},
        {"critical", LOG_ERROR},
        {"fatal",    LOG_ERROR},
    };

    for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
        if (!str_eq_nocase(text, str_of(levels[i].name)))
            continue;
        *ret = levels[i].level;
        return 0;
    }
    return -EINVAL;
}

/* --- similarity --- */

unsigned config_distance(struct str a, struct str b)
{
    enum { TEXT_MAX = 64 };
    size_t rows[3][TEXT_MAX + 1] = {0}; /* the current row and the two before it, in rotation */

    if (a.n > TEXT_MAX || b.n > TEXT_MAX)
        return TEXT_MAX;
    for (size_t j = 0; j <= b.n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            row[j] = min_size(min_size(above[j], row[j - 1]) + 1,
                              above[j - 1] + (a.p[i - 1] != b.p[j - 1]));
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
                row[j] = min_size(row[j], before[j - 2] + 1);
        }
    }
    return (unsigned)rows[a.n % 3][b.n];
}
