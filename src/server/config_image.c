/* config_image.c - which root an image name stands for. Pure. */
#include "server/config.h"

/* * matches any run of characters, ? any one. A star is tried with the shortest run first and
 * extended on a mismatch behind it; an earlier star never needs another try. */
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

/* --- names, as Docker reads them --- */

enum { NAME_ROOM = 512 };

/* A colon in the last component. */
static bool has_tag(struct str name)
{
    struct str rest = name, last = name;

    while (str_cut(&rest, '/', &last))
        continue;
    return str_find(last, ':') < last.n;
}

static bool is_registry(struct str first)
{
    return str_find(first, '.') < first.n || str_find(first, ':') < first.n ||
           str_eq(first, STR("localhost"));
}

/* Adds what a name leaves out: the registry docker.io, and the owner `library` there. The star of a
 * pattern is any owner. */
static int name_expand(struct str name, struct buf *out)
{
    struct str rest = name, first;
    bool official;

    (void)str_cut(&rest, '/', &first);
    if (!rest.p || !is_registry(first))
        rest = name;
    else if (!str_eq(first, STR("docker.io")) && !str_eq(first, STR("index.docker.io")))
        return buf_add(out, name);
    official = str_find(rest, '/') == rest.n && !str_starts(rest, STR("*"));
    return buf_addf(out, "docker.io/%s%.*s", official ? "library/" : "", STR_ARG(rest));
}

/* --- the table --- */

/* The first image that goes by this name, as it is or in full; image_count when there is none. */
static size_t find_name(const struct config *c, struct str name)
{
    AUTO_BUF(full, NAME_ROOM);
    bool has_full = name_expand(name, &full) == 0;

    for (size_t i = 0; i < c->image_count; i++) {
        struct str pattern = str_of(c->images[i].pattern);
        AUTO_BUF(full_pattern, NAME_ROOM);

        if (glob_matches(pattern, name) || (has_full && name_expand(pattern, &full_pattern) == 0 &&
                                            glob_matches(buf_str(&full_pattern), buf_str(&full))))
            return i;
    }
    return c->image_count;
}

/* With a tag it may be without its digest, too. One that has none is then tried with it: a digest
 * may be that of any tag, which only a star matches. `latest` is what no tag stands for. */
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
        if (digest.p)
            i = min_size(i, find_name(config, name));
        if (i == config->image_count && str_ends(name, STR(":latest")))
            i = find_name(config, str_make(name.p, name.n - STR(":latest").n));
    } else if (i == config->image_count &&
               buf_addf(&tagged, "%.*s:%.*s", STR_ARG(name),
                        STR_ARG(digest.p ? digest : STR("latest"))) == 0) {
        i = find_name(config, buf_str(&tagged));
    }
    return i < config->image_count ? &config->images[i] : NULL;
}
