#include "image/platform.h"

#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>

static const struct arch_row {
    const char *name, *arch, *variant; /* a machine's name of it; Go's name of it */
    int usual;                         /* N of "vN" when no variant is given */
} arch_rows[] = {
    {"amd64",   "amd64",   "",   1},
    {"x86_64",  "amd64",   "",   1},
    {"x86-64",  "amd64",   "",   1},
    {"arm64",   "arm64",   "",   8},
    {"aarch64", "arm64",   "",   8},
    {"arm",     "arm",     "",   7},
    {"armhf",   "arm",     "v7", 7},
    {"armv7l",  "arm",     "v7", 7},
    {"armv6l",  "arm",     "v6", 7},
    {"armel",   "arm",     "v6", 7},
    {"i386",    "386",     "",   0},
    {"i686",    "386",     "",   0},
    {"riscv64", "riscv64", "",   0},
    {"ppc64le", "ppc64le", "",   0},
    {"s390x",   "s390x",   "",   0},
};

static const struct arch_row *find_arch(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(arch_rows); i++)
        if (str_eq_nocase(name, str_of(arch_rows[i].name)))
            return &arch_rows[i];
    return NULL;
}

static bool is_word(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) && !strchr("_.-", s.p[i]))
            return false;
    return s.n > 0 && s.n < IMAGE_PLATFORM_WORD_MAX;
}

/* Words here were measured, or are cut: an unknown machine matches nothing. */
static void set_word(char out[IMAGE_PLATFORM_WORD_MAX], struct str word)
{
    word.n = min_size(word.n, IMAGE_PLATFORM_WORD_MAX - 1);
    if (str_copy(out, IMAGE_PLATFORM_WORD_MAX, word) < 0)
        out[0] = '\0';
}

static void set_arch(struct image_platform *p, struct str name)
{
    const struct arch_row *row = find_arch(name);

    set_word(p->arch, row ? str_of(row->arch) : name);
    if (row && !p->variant[0])
        set_word(p->variant, str_of(row->variant));
}

int image_platform_parse(struct str text, struct image_platform *ret, struct err *e)
{
    struct image_platform p = {.os = "linux"};
    struct str rest = text, words[3], word;
    size_t n = 0;
    bool good = true;

    while (str_cut(&rest, '/', &word)) {
        good = good && n < ARRAY_LEN(words) && is_word(word);
        if (good)
            words[n++] = word;
    }
    if (!good || n == 0 || (n == 1 && !find_arch(words[0])))
        return err_set(e, EINVAL,
                       "'%.*s' is not a platform: expected one such as linux/amd64 or linux/arm/v7",
                       (int)min_size(text.n, 60), text.p ? text.p : "");
    if (n > 1)
        set_word(p.os, words[0]);
    if (n > 2)
        set_word(p.variant, words[2]);
    set_arch(&p, n > 1 ? words[1] : words[0]);
    *ret = p;
    return 0;
}

void image_platform_host(struct image_platform *ret)
{
    struct utsname name;

    *ret = (struct image_platform){.os = "linux"};
    set_arch(ret, uname(&name) == 0 ? str_of(name.machine) : STR("unknown"));
}

void image_platform_format(const struct image_platform *p, char out[IMAGE_PLATFORM_TEXT_MAX])
{
    snprintf(out, IMAGE_PLATFORM_TEXT_MAX, "%s/%s%s%s", p->os, p->arch, p->variant[0] ? "/" : "",
             p->variant);
}

/* N of "vN", that of the processor's usual variant for "", -1 for other words. */
static int variant_number(const struct image_platform *p)
{
    const struct arch_row *row = find_arch(str_of(p->arch));
    uint64_t n;

    if (!p->variant[0])
        return row ? row->usual : 0;
    if (p->variant[0] != 'v' || str_to_u64_range(str_of(p->variant + 1), 0, 99, &n) < 0)
        return -1;
    return (int)n;
}

int image_platform_match(const struct image_platform *want, const struct image_platform *have)
{
    int wanted = variant_number(want), had = variant_number(have);

    if (strcmp(want->os, have->os) != 0 || strcmp(want->arch, have->arch) != 0)
        return 0;
    if (strcmp(want->variant, have->variant) == 0)
        return 200;
    return wanted >= 0 && had >= 0 && had <= wanted ? 100 + had : 0;
}
