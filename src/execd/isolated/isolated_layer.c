#include "execd/isolated/isolated_layer.h"

#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

void layer_path(const struct isolated *s, char out[LAYER_PATH_MAX])
{
    /* A walk does not begin at a link, which the number alone is. */
    (void)snprintf(out, LAYER_PATH_MAX, "/proc/self/fd/%d/.", s->box.fds[BOX_FD_UPPER]);
}

struct str layer_below(struct str path, const char *root)
{
    struct str below = str_skip(path, min_size(path.n, strlen(root)));

    while (below.n > 0 && below.p[0] == '/')
        below = str_skip(below, 1);
    return below;
}

bool layer_is_gone(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* The attribute's name tells who was allowed to set it: root of the machine, or of a part of it. */
bool layer_is_opaque(int dir, const char *name)
{
    static const char *const marks[] = {"user.overlay.opaque", "trusted.overlay.opaque"};
    char path[LAYER_PATH_MAX + NAME_MAX + 1], value[2];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (lgetxattr(path, marks[i], value, sizeof(value)) == 1 && value[0] == 'y')
            return true;
    return false;
}
