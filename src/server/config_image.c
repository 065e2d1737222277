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

/* A colon in the last component, or a digest. */
static bool has_tag(struct str image)
{
    struct str rest = image, last = image;

    while (str_cut(&rest, '/', &last))
        continue;
    return str_find(last, ':') < last.n || str_find(last, '@') < last.n;
}

static const struct config_image *find_exact(const struct config *c, struct str name)
{
    for (size_t i = 0; i < c->image_count; i++)
        if (glob_matches(str_of(c->images[i].pattern), name))
            return &c->images[i];
    return NULL;
}

const struct config_image *config_image_find(const struct config *config, struct str image)
{
    static const struct config_image host = {"host", CONFIG_IMAGE_HOST, NULL};
    enum { NAME_ROOM = 512 };
    AUTO_BUF(tagged, NAME_ROOM);
    const struct config_image *found;

    if (str_eq(image, STR("host")))
        return &host;
    found = find_exact(config, image);
    if (found || image.n == 0 || has_tag(image))
        return found;
    if (buf_add(&tagged, image) < 0 || buf_add(&tagged, STR(":latest")) < 0)
        return NULL;
    return find_exact(config, buf_str(&tagged));
}
