/* config_image.c - maps an image name to its root. Pure. */
#include "server/config/config.h"

#include "image/reference.h"

/* `*` matches any run of characters, ? any single one. A star is tried with the shortest run first
 * and extended on a mismatch after it; an earlier star never needs another try. */
static bool glob_matches(struct str pattern, struct str text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, taken = 0;

    while (t < text.n) {
        if (p < pattern.n && pattern.p[p] == '*') {
            star = p++;
            taken = t;
        } else if (p < pattern.n && (pattern.p[p] == '?' || pattern.p[p] == text.p[t])) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++taken;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*')
        p++;
    return p == pattern.n;
}

/* --- names, as Docker interprets them --- */

enum { NAME_ROOM = 512 };

/* Whether the last component has a colon. */
static bool has_tag(struct str name)
{
    struct str rest = name, last = name;

    while (str_cut(&rest, '/', &last))
        continue;
    return str_find(last, ':') < last.n;
}

/* Removes the first component if it is a registry: "ghcr.io/me/app" -> "me/app". */
static bool cut_registry(struct str *name)
{
    struct str rest = *name, first;

    if (!str_cut(&rest, '/', &first) || !rest.p || !image_name_is_registry(first))
        return false;
    *name = rest;
    return true;
}

/* The name without registries, as a mirror may precede another registry. Official images get their
 * owner, `library`; a pattern that begins with a star matches any owner. */
static int name_without_registry(struct str name, struct buf *out)
{
    while (cut_registry(&name))
        continue;
    return buf_addf(out, "%s%.*s",
                    str_find(name, '/') == name.n && !str_starts(name, STR("*")) ? "library/" : "",
                    STR_ARG(name));
}

/* The name with its registry, by default docker.io, and there with its owner. */
static int name_with_registry(struct str name, struct buf *out)
{
    struct str rest = name;

    if (cut_registry(&rest) && !str_starts(name, STR("docker.io/")) &&
        !str_starts(name, STR("index.docker.io/")))
        return buf_add(out, name);
    (void)buf_add(out, STR("docker.io/"));
    return name_without_registry(rest, out);
}

/* --- the table --- */

/* Whether a pattern matches a name as written, or with both as Docker interprets them. A pattern
 * without a registry matches every registry. */
static bool pattern_matches(struct str pattern, struct str name)
{
    struct str rest = pattern;
    int (*in_full)(struct str, struct buf *) =
        cut_registry(&rest) ? name_with_registry : name_without_registry;
    AUTO_BUF(full_pattern, NAME_ROOM);
    AUTO_BUF(full_name, NAME_ROOM);

    return glob_matches(pattern, name) ||
           (in_full(pattern, &full_pattern) == 0 && in_full(name, &full_name) == 0 &&
            glob_matches(buf_str(&full_pattern), buf_str(&full_name)));
}

/* The first entry that matches this name; image_count when none does. */
static size_t find_name(const struct config *c, struct str name)
{
    size_t i = 0;

    while (i < c->image_count && !pattern_matches(str_of(c->images[i].pattern), name))
        i++;
    return i;
}

/* The first pattern wins that matches any form of the name: without its digest if it has a tag,
 * without the tag `latest`, with `latest` if it has neither tag nor digest. A digest without a tag
 * counts as a tag that only a star matches. */
const struct config_image *config_image_find(const struct config *config, struct str image)
{
    static const struct config_image host = {"host", CONFIG_IMAGE_HOST, NULL};
    struct str digest = image, name;
    AUTO_BUF(tagged, NAME_ROOM);
    size_t i;

    if (str_eq(image, STR("host")))
        return &host;
    if (!str_cut(&digest, '@', &name) || name.n == 0)
        return NULL;
    i = find_name(config, image);
    if (has_tag(name)) {
        i = min_size(i, find_name(config, name));
        if (str_ends(name, STR(":latest")))
            i = min_size(i, find_name(config, str_make(name.p, name.n - STR(":latest").n)));
    } else if (buf_addf(&tagged, "%.*s:%.*s", STR_ARG(name),
                        STR_ARG(digest.p ? digest : STR("latest"))) == 0) {
        i = min_size(i, find_name(config, buf_str(&tagged)));
    }
    return i < config->image_count ? &config->images[i] : NULL;
}
