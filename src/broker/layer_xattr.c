#include "broker/layer_xattr.h"

#include <endian.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/str.h"

#define OPAQUE "trusted.overlay.opaque"

enum { NAMES_BYTES_MAX = 64 << 10, VALUE_BYTES_MAX = 64 << 10 }; /* the kernel's limits */

/* A capability of version 3 names the root of the user namespace that it counts in. */
static void shift_capability(const struct shift *s, char *value, size_t n)
{
    struct vfs_ns_cap_data data;

    if (n != sizeof(data))
        return;
    memcpy(&data, value, n);
    data.rootid = htole32(shift_id(s, le32toh(data.rootid)));
    memcpy(value, &data, n);
}

static void shift_acl(const struct shift *s, char *value, size_t n)
{
    struct posix_acl_xattr_entry entry;

    for (size_t at = sizeof(struct posix_acl_xattr_header); at + sizeof(entry) <= n;
         at += sizeof(entry)) {
        memcpy(&entry, value + at, sizeof(entry));
        if (le16toh(entry.e_tag) == ACL_USER || le16toh(entry.e_tag) == ACL_GROUP)
            entry.e_id = htole32(shift_id(s, le32toh(entry.e_id)));
        memcpy(value + at, &entry, sizeof(entry));
    }
}

static const struct row {
    struct str name; /* the beginning of it, if it ends with a dot */
    void (*shift)(const struct shift *s, char *value, size_t n);
} wanted[] = {
    {STR_INIT("user."),                    NULL            },
    {STR_INIT(OPAQUE),                     NULL            },
    {STR_INIT("security.capability"),      shift_capability},
    {STR_INIT("system.posix_acl_access"),  shift_acl       },
    {STR_INIT("system.posix_acl_default"), shift_acl       },
};

static const struct row *find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        struct str w = wanted[i].name;

        if (w.p[w.n - 1] == '.' ? str_starts(name, w) : str_eq(name, w))
            return &wanted[i];
    }
    return NULL;
}

int xattrs_copy(int from, int to, const struct shift *s, struct err *e)
{
    static char names[NAMES_BYTES_MAX], value[VALUE_BYTES_MAX]; /* single-threaded */
    ssize_t n = flistxattr(from, names, sizeof(names));

    if (n < 0)
        return errno == ENOTSUP ? 0 : err_sys(e, errno, "list attributes");
    for (const char *name = names; name < names + n; name += strlen(name) + 1) {
        const struct row *row = find(str_of(name));
        ssize_t size = row ? fgetxattr(from, name, value, sizeof(value)) : 0;

        if (size < 0)
            return err_sys(e, errno, "read attribute '%.64s'", name);
        if (row && row->shift)
            row->shift(s, value, (size_t)size);
        if (row && fsetxattr(to, name, value, (size_t)size, 0) < 0)
            return err_sys(e, errno, "set attribute '%.64s'", name);
    }
    return 0;
}

bool xattr_is_opaque(int dir)
{
    char value[2];

    return fgetxattr(dir, OPAQUE, value, sizeof(value)) == 1 && value[0] == 'y';
}

int xattr_make_opaque(int dir, struct err *e)
{
    return fsetxattr(dir, OPAQUE, "y", 1, 0) < 0 ? err_sys(e, errno, "hide what is below") : 0;
}
