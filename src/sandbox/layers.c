#include "sandbox/layers.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/mount_api.h"

enum { LINK_BYTES_MAX = 64 };

/* A detached mount of `dir` and what is below. */
static int base_clone(struct mounts *m, int dir, struct err *e)
{
    int base;

    if (m->base_count == MOUNTS_BASES_MAX)
        return err_set(e, E2BIG, "the layers are on more than %d mounts", MOUNTS_BASES_MAX);
    base = mnt_clone(dir, "", AT_EMPTY_PATH);
    if (base < 0)
        return err_sys(e, -base, "clone a layer");
    return m->bases[m->base_count++] = base;
}

/* Maps its ids, and makes it read-only. From then on even we may not pass directories whose owner
 * is not mapped, such as those above shifted layers: what is below must be open already. */
static int base_map(int base, int userns, struct err *e)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .userns_fd = (uint64_t)userns,
    };
    int r = mnt_set(base, &attr, AT_EMPTY_PATH);

    return r < 0 ? err_sys(e, -r, "map the ids of a layer") : 0;
}

int layers_prepare_one(struct mounts *m, int dir, int userns, struct err *e)
{
    auto_fd ours = mounts_reopen(dir, O_DIRECTORY, e), layer = -EBADF;
    int base = ours < 0 ? ours : base_clone(m, ours, e), r;

    if (base < 0)
        return ours < 0 ? err_wrap(e, base, "a layer") : base;
    layer = fd_open_at(base, ".", O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
    r = layer < 0 ? layer : base_map(base, userns, e);
    return r < 0 ? r : take_fd(&layer);
}

/* --- layers below one directory --- */

/* Layers whose ids are mapped in the same way. */
struct group {
    size_t common; /* length of the directory that all paths of the group begin with */
    size_t count;
};

static int path_read(int fd, char path[PATH_MAX], struct err *e)
{
    char link[LINK_BYTES_MAX];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, PATH_MAX - 1);
    if (n < 0)
        return err_sys(e, errno, "find a layer");
    path[n] = '\0';
    return 0;
}

/* Shortens g->common to the directories that it and `path` begin with. */
static void group_add(struct group *g, const char *first, const char *path)
{
    size_t same = 0, dirs = 0;

    if (g->count++ == 0) {
        g->common = strlen(path);
        return;
    }
    while (same < g->common && first[same] == path[same])
        same++;
    if (same == g->common && (path[same] == '/' || path[same] == '\0'))
        return;
    for (size_t i = 0; i < same; i++)
        if (first[i] == '/')
            dirs = i;
    g->common = dirs ? dirs : 1; /* "/" */
}

static bool is_same(int one, int other)
{
    struct stat a, b;

    return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* The mount of the group's common directory, or -errno: then each layer has a mount of its own. */
static int group_base(struct mounts *m, const struct group *g, const char *first)
{
    char path[PATH_MAX];
    auto_fd dir = -EBADF;

    if (g->count < 2)
        return -ENOENT;
    memcpy(path, first, g->common);
    path[g->common] = '\0';
    dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? -errno : base_clone(m, dir, NULL);
}

/* Opens a layer below the common directory. It may be on another mount, or its path may lead
 * elsewhere by now: then it is not found, or is not the same. */
static int layer_below(int base, const char *below, int given)
{
    auto_fd found = -EBADF;

    while (*below == '/')
        below++;
    found = fd_open_at(base, *below ? below : ".", O_PATH | O_DIRECTORY, 0, PATH_STRICT, NULL);
    return found >= 0 && is_same(found, given) ? take_fd(&found) : -ENOENT;
}

/* Closes the layers of a base whose ids cannot be mapped, and the base. */
static void group_undo(struct mounts *m, const struct plan *plan, size_t first)
{
    for (size_t i = first; i < plan->layer_count; i++)
        if (plan->layer_flags[i] == plan->layer_flags[first])
            fd_close(take_fd(&m->lowers[i]));
    fd_close(m->bases[--m->base_count]);
}

/* Opens the layers with the same flags as layer `first`, which is the first of them. */
static int group_open(struct mounts *m, const struct plan *plan, const int *layers,
                      char (*paths)[PATH_MAX], size_t first, int userns, struct err *e)
{
    struct group g = {0};
    int base, r = 0;

    for (size_t i = first; i < plan->layer_count; i++)
        if (plan->layer_flags[i] == plan->layer_flags[first])
            group_add(&g, paths[first], paths[i]);
    base = group_base(m, &g, paths[first]);
    for (size_t i = first; base >= 0 && i < plan->layer_count; i++)
        if (plan->layer_flags[i] == plan->layer_flags[first])
            m->lowers[i] = layer_below(base, paths[i] + g.common, layers[i]);
    if (base >= 0 && base_map(base, userns, NULL) < 0)
        group_undo(m, plan, first);
    for (size_t i = first; r >= 0 && i < plan->layer_count; i++)
        if (plan->layer_flags[i] == plan->layer_flags[first] && m->lowers[i] < 0)
            m->lowers[i] = r = layers_prepare_one(m, layers[i], userns, e);
    return r < 0 ? r : 0;
}

int layers_prepare(struct mounts *m, const struct spawn_slot *slot, const struct plan *plan,
                   const int *layers, struct err *e)
{
    auto_free char(*paths)[PATH_MAX] = NULL;
    int r = 0;

    if (plan->layer_count == 0)
        return 0;
    paths = mem_alloc(plan->layer_count * sizeof(paths[0]));
    for (; r >= 0 && m->lower_count < plan->layer_count; m->lower_count++) {
        m->lowers[m->lower_count] = -EBADF;
        r = path_read(layers[m->lower_count], paths[m->lower_count], e);
    }
    for (size_t i = 0; r >= 0 && i < plan->layer_count; i++) {
        bool shifted = plan->layer_flags[i] & PLAN_LAYER_SHIFTED;

        if (m->lowers[i] < 0)
            r = group_open(m, plan, layers, paths, i, shifted ? slot->layer_userns : slot->userns,
                           e);
    }
    return r;
}
