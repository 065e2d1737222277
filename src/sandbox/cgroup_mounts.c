/* Chooses mounts of cgroup file systems by /proc/self/mountinfo and /proc/self/cgroup.
 *
 * A hierarchy may be mounted more than once: a chroot has a bind mount of /sys/fs/cgroup, a
 * container has one of a part of it, and a mount may hide another at the same place. Of the visible
 * ones, the one that shows our own group is used. */
#include <stdlib.h>

#include "base/mem.h"
#include "sandbox/cgroup_internal.h"

enum { MOUNTINFO_FIELDS = 16 };

static const struct {
    const char *name;
    enum cgroup_controller controller;
} v1_controllers[] = {
    {"memory",  CONTROLLER_MEMORY },
    {"cpu",     CONTROLLER_CPU    },
    {"cpuacct", CONTROLLER_CPUACCT},
    {"pids",    CONTROLLER_PIDS   },
    {"blkio",   CONTROLLER_IO     },
    {"freezer", CONTROLLER_FREEZER},
};

static unsigned controllers_in(struct str list)
{
    struct str word;
    unsigned found = 0;

    while (str_cut(&list, ',', &word))
        for (size_t i = 0; i < ARRAY_LEN(v1_controllers); i++)
            if (str_eq(word, str_of(v1_controllers[i].name)))
                found |= 1U << v1_controllers[i].controller;
    return found;
}

/* The path of our own group, from the hierarchy's root: the line "7:cpu,cpuacct:/path" or
 * "0::/path" of /proc/self/cgroup. "/.." leads out of our cgroup namespace. */
static struct str own_path(struct str groups, const struct cgroup_mount *m)
{
    struct str line, id, list;

    while (str_cut(&groups, '\n', &line)) {
        if (!str_cut(&line, ':', &id) || !str_cut(&line, ':', &list))
            continue;
        if (m->version == &cgroup_v2 ? str_eq(id, STR("0"))
                                     : (controllers_in(list) & m->controllers) != 0)
            return str_starts(line, STR("/..")) ? STR_NONE : line;
    }
    return STR_NONE;
}

/* Whether a mount with the root `root` shows `path`; then *ret is the path below the mount. */
static bool covers(struct str root, struct str path, struct str *ret)
{
    if (str_eq(root, STR("/")))
        root = STR("");
    if (path.n == 0 || !str_starts(path, root))
        return false;
    path = str_skip(path, root.n);
    if (path.n > 0 && path.p[0] != '/')
        return false; /* "/a" is no parent of "/ab" */
    *ret = str_eq(path, STR("/")) ? STR("") : path;
    return true;
}

static char *str_dup(struct str s)
{
    char *copy = mem_alloc(s.n + 1);

    if (s.n)
        memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return copy;
}

static void mount_done(struct cgroup_mount *m)
{
    free(m->point);
    free(m->own);
}

void cgroup_mounts_done(struct cgroup_mounts *all)
{
    while (all->count > 0)
        mount_done(&all->at[--all->count]);
}

/* "36 35 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory" */
static bool mount_parse(struct str line, struct str groups, struct cgroup_mount *ret)
{
    struct str f[MOUNTINFO_FIELDS], own = STR("");
    struct cgroup_mount m = {0};
    size_t n = 0, dash = 6;

    while (n < ARRAY_LEN(f) && str_cut(&line, ' ', &f[n]))
        n++;
    while (dash < n && !str_eq(f[dash], STR("-")))
        dash++;
    if (dash + 3 >= n)
        return false;
    if (str_eq(f[dash + 1], STR("cgroup2")))
        m.version = &cgroup_v2;
    else if (str_eq(f[dash + 1], STR("cgroup")))
        m.version = &cgroup_v1;
    else
        return false;
    if (m.version == &cgroup_v1) {
        m.controllers = controllers_in(f[dash + 3]);
        if (!m.controllers)
            return false;
    }
    m.rank = covers(f[3], own_path(groups, &m), &own) ? CGROUP_MOUNT_COVERS : 0;
    m.rank |= str_starts(f[5], STR("rw")) ? CGROUP_MOUNT_WRITABLE : 0;
    m.rank |= str_starts(f[4], STR("/sys/fs/cgroup")) ? CGROUP_MOUNT_USUAL : 0;
    m.point = str_dup(f[4]);
    m.own = str_dup(own);
    *ret = m;
    return true;
}

static bool same_hierarchy(const struct cgroup_mount *a, const struct cgroup_mount *b)
{
    return a->version == b->version &&
           (a->version == &cgroup_v2 || (a->controllers & b->controllers) != 0);
}

static void mounts_add(struct cgroup_mounts *all, struct cgroup_mount *m)
{
    for (size_t i = 0; i < all->count; i++) {
        if (!same_hierarchy(&all->at[i], m))
            continue;
        if (m->rank > all->at[i].rank) {
            mount_done(&all->at[i]);
            all->at[i] = *m;
        } else {
            mount_done(m);
        }
        return;
    }
    if (all->count < CGROUP_MOUNTS_MAX)
        all->at[all->count++] = *m;
    else
        mount_done(m);
}

/* Whether a later line has a mount at the same place. */
static bool is_hidden(struct str later, const char *point)
{
    struct str line, field;

    while (str_cut(&later, '\n', &line)) {
        for (int i = 0; i < 5; i++)
            if (!str_cut(&line, ' ', &field))
                field = STR_NONE;
        if (str_eq(field, str_of(point)))
            return true;
    }
    return false;
}

void cgroup_mounts_parse(struct str mountinfo, struct str groups, struct cgroup_mounts *ret)
{
    struct cgroup_mount m;
    struct str line;

    while (str_cut(&mountinfo, '\n', &line)) {
        if (!mount_parse(line, groups, &m))
            continue;
        if (is_hidden(mountinfo, m.point))
            mount_done(&m);
        else
            mounts_add(ret, &m);
    }
}
