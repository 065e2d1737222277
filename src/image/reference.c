#include "image/reference.h"

#include <errno.h>
#include <stdio.h>

#include "base/url.h"

enum { SHOWN_MAX = 100 };

static bool is_alnum_lower(char c)
{
    return ascii_is_digit(c) || (c >= 'a' && c <= 'z');
}

static bool is_word(char c)
{
    return ascii_is_digit(c) || ascii_is_alpha(c) || c == '_';
}

/* --- registries --- */

bool image_name_is_registry(struct str first)
{
    for (size_t i = 0; i < first.n; i++)
        if (first.p[i] == '.' || first.p[i] == ':' || (first.p[i] >= 'A' && first.p[i] <= 'Z'))
            return true;
    return str_eq(first, STR("localhost"));
}

struct str image_registry_canonical(struct str registry)
{
    static const struct str aliases[] = {
        STR_INIT("index.docker.io"),
        STR_INIT("registry-1.docker.io"),
        STR_INIT("registry.hub.docker.com"),
    };
    struct str host;

    if (str_starts(registry, STR("https://")))
        registry = str_skip(registry, 8);
    else if (str_starts(registry, STR("http://")))
        registry = str_skip(registry, 7);
    (void)str_cut(&registry, '/', &host);
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (str_eq_nocase(host, aliases[i]))
            return STR("docker.io");
    return host;
}

/* Labels of letters, digits and inner hyphens, between dots. */
static bool is_host_name(struct str host)
{
    struct str label;

    if (host.n == 0 || host.n > URL_HOST_BYTES_MAX)
        return false;
    while (str_cut(&host, '.', &label)) {
        if (label.n == 0 || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
            return false;
        for (size_t i = 0; i < label.n; i++)
            if (!ascii_is_digit(label.p[i]) && !ascii_is_alpha(label.p[i]) && label.p[i] != '-')
                return false;
    }
    return true;
}

static bool is_ipv6(struct str s)
{
    size_t colons = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (ascii_hex_value(s.p[i]) < 0 && s.p[i] != ':' && s.p[i] != '.')
            return false;
        colons += s.p[i] == ':';
    }
    return colons >= 2 && s.n <= 45;
}

static int parse_registry(struct str text, char *ret, struct err *e)
{
    size_t host_n = str_find(text, ':');
    struct str port;
    uint64_t number;
    bool good;

    if (text.n && text.p[0] == '[') {
        host_n = str_find(text, ']');
        good = host_n < text.n && is_ipv6(str_make(text.p + 1, host_n - 1));
        host_n += good;
    } else {
        good = is_host_name(str_make(text.p, host_n));
    }
    if (!good)
        return err_set(e, EINVAL, "registry '%.*s' is not a host name or an address",
                       (int)min_size(text.n, SHOWN_MAX), text.p);
    port = str_skip(text, host_n);
    if (port.n && (port.p[0] != ':' || str_to_u64_range(str_skip(port, 1), 1, 65535, &number) < 0))
        return err_set(e, EINVAL, "registry '%.*s' has no port from 1 to 65535 after its colon",
                       (int)min_size(text.n, SHOWN_MAX), text.p);
    if (str_eq(image_registry_canonical(text), STR("docker.io")))
        text = STR("docker.io");
    if (str_copy(ret, IMAGE_REGISTRY_MAX, text) < 0)
        return err_set(e, EINVAL, "the registry's name is too long");
    for (char *c = ret; *c; c++) /* names of hosts have no case, and credentials go by this one */
        *c = ascii_lower(*c);
    /* ... unless its case is all that tells it from an owner. */
    return image_name_is_registry(str_of(ret)) ? 0 : str_copy(ret, IMAGE_REGISTRY_MAX, text);
}

/* --- repositories and tags --- */

/* Runs of a-z and 0-9 with one '.', one or two '_', or any number of '-' between them. */
static bool is_component(struct str s)
{
    size_t i = 0;

    while (i < s.n && is_alnum_lower(s.p[i])) {
        size_t from;

        while (i < s.n && is_alnum_lower(s.p[i]))
            i++;
        if (i == s.n)
            return true;
        from = i;
        while (i < s.n && s.p[i] == s.p[from])
            i++;
        if (s.p[from] != '-' && (s.p[from] != '.' || i - from > 1) &&
            (s.p[from] != '_' || i - from > 2))
            return false;
    }
    return false;
}

static int parse_repository(struct str text, struct image_reference *ret, struct err *e)
{
    bool official = strcmp(ret->registry, "docker.io") == 0 && str_find(text, '/') == text.n;
    struct str rest = text, component;
    int n;

    while (str_cut(&rest, '/', &component))
        if (!is_component(component))
            return err_set(e, EINVAL,
                           "'%.*s' in image name '%.*s' is not one: expected a-z, 0-9, and inside "
                           "'.', '_', '__' or '-'",
                           (int)min_size(component.n, SHOWN_MAX), component.p ? component.p : "",
                           (int)min_size(text.n, SHOWN_MAX), text.p ? text.p : "");
    n = snprintf(ret->repository, sizeof(ret->repository), "%s%.*s", official ? "library/" : "",
                 STR_ARG(text));
    if (n >= (int)sizeof(ret->repository))
        return err_set(e, EINVAL, "an image's name has at most %d characters",
                       IMAGE_REPOSITORY_MAX - 1);
    return 0;
}

static int parse_tag(struct str tag, char *ret, struct err *e)
{
    bool good = tag.n > 0 && tag.n < IMAGE_TAG_MAX && is_word(tag.p[0]);

    for (size_t i = 0; good && i < tag.n; i++)
        good = is_word(tag.p[i]) || tag.p[i] == '.' || tag.p[i] == '-';
    if (!good)
        return err_set(e, EINVAL,
                       "tag '%.*s' is not one: expected up to 128 letters, digits, '_', '.' and "
                       "'-', the first a letter, digit or '_'",
                       (int)min_size(tag.n, SHOWN_MAX), tag.p ? tag.p : "");
    return str_copy(ret, IMAGE_TAG_MAX, tag);
}

/* The tag follows the last colon, unless a slash follows that: then it is a port. */
static struct str cut_tag(struct str *name)
{
    for (size_t i = name->n; i > 0 && name->p[i - 1] != '/'; i--) {
        if (name->p[i - 1] == ':') {
            struct str tag = str_skip(*name, i);

            name->n = i - 1;
            return tag;
        }
    }
    return STR_NONE;
}

static int parse_name(struct str name, struct image_reference *ret, struct err *e)
{
    struct str rest = name, first;
    int r = 0;

    (void)str_cut(&rest, '/', &first);
    if (rest.p && image_name_is_registry(first)) {
        r = parse_registry(first, ret->registry, e);
        name = rest;
    } else {
        r = str_copy(ret->registry, sizeof(ret->registry), STR("docker.io"));
    }
    return r < 0 ? r : parse_repository(name, ret, e);
}

int image_reference_parse(struct str text, struct image_reference *ret, struct err *e)
{
    struct image_reference made = {0};
    struct str digest = text, name = STR_NONE, tag;
    int r = 0;

    if (text.n == 0)
        return err_set(e, EINVAL, "an image's name is empty: expected one such as python:3.12");
    if (text.n > IMAGE_NAME_MAX || str_has_nul(text))
        return err_set(e, EINVAL, "an image's name has at most %d characters, none of them NUL",
                       IMAGE_NAME_MAX);
    (void)str_cut(&digest, '@', &name);
    if (str_find_str(name, STR("://")) < name.n)
        return err_set(e, EINVAL, "'%.*s' is an address: leave out what is before its host",
                       (int)min_size(text.n, SHOWN_MAX), text.p);
    if (digest.p)
        r = image_digest_parse(digest, &made.digest, e);
    tag = cut_tag(&name);
    if (r == 0 && (tag.p || !digest.p))
        r = parse_tag(tag.p ? tag : STR("latest"), made.tag, e);
    if (r == 0)
        r = parse_name(name, &made, e);
    if (r < 0)
        return r == -ENOTSUP ? r : -EINVAL;
    *ret = made;
    return 0;
}

void image_reference_format(const struct image_reference *r, char out[IMAGE_REFERENCE_TEXT_MAX])
{
    snprintf(out, IMAGE_REFERENCE_TEXT_MAX, "%s/%s%s%s%s%s", r->registry, r->repository,
             r->tag[0] ? ":" : "", r->tag, r->digest.text[0] ? "@" : "", r->digest.text);
}

const char *image_reference_version(const struct image_reference *r)
{
    return r->digest.text[0] ? r->digest.text : r->tag;
}
