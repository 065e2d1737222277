#include "execd/isolated/isolated_layer.h"

#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

void layer_path(const struct isolated *s, char out[LAYER_PATH_MAX])
{
    /* "/." because a walk does not start at a symlink, which /proc/self/fd/N is. */
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

/* Overlay uses trusted.* with CAP_SYS_ADMIN in the initial user namespace, and user.* otherwise. */
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
