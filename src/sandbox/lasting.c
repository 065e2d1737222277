#include "sandbox/lasting.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/mount_api.h"
#include "sandbox/disk.h"
#include "sandbox/layer_ids.h"

#define LINK_NAME  "layer"
#define DISK_LINK  "disk:" /* begins the link to a volume of limited size; its id follows */
#define OWNER_NAME "owner"

/* What overlayfs makes for itself belongs to this id on disk, root on the mount. */
enum { WORK_ID = LAYER_UID_COUNT };

/* --- its directories --- */

static int give_away(int parent, const char *name, uint32_t id, struct err *e)
{
    return fchownat(parent, name, LAYER_UID_FIRST + id, LAYER_UID_FIRST + id, AT_SYMLINK_NOFOLLOW) <
                   0
               ? err_sys(e, errno, "give '%s' away", name)
               : 0;
}

/* A directory may have any number of files, which its maker may want back: it gets another name. */
static int move_away(int parent, const char *name, bool is_dir, struct err *e)
{
    char other[NAME_MAX + 1];
    uint64_t random;

    if (!is_dir)
        return unlinkat(parent, name, 0) < 0 ? err_sys(e, errno, "replace '%s'", name) : 0;
    id_random_bytes(&random, sizeof(random));
    (void)snprintf(other, sizeof(other), "%s.moved-%016" PRIx64, name, random);
    return renameat(parent, name, parent, other) < 0 ? err_sys(e, errno, "move '%s' away", name)
                                                     : 0;
}

/* Whether it is what ensure() leaves when it is killed before it could give it away. Nothing else
 * of root is given away: a caller that may write the parent could have moved it here. */
static bool is_unfinished(const struct stat *st)
{
    return st->st_uid == 0 && (S_ISDIR(st->st_mode) || (st->st_size == 0 && st->st_nlink == 1));
}

/* Makes parent/name, a directory or an empty file, instead of anything else that may be there. */
static int ensure(int parent, const char *name, mode_t mode, uint32_t id, struct err *e)
{
    struct stat st;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        int r;

        if ((st.st_mode & S_IFMT) == (mode & S_IFMT))
            return is_unfinished(&st) ? give_away(parent, name, id, e) : 0;
        r = move_away(parent, name, S_ISDIR(st.st_mode), e);
        if (r < 0)
            return r;
    }
    if (S_ISDIR(mode) ? mkdirat(parent, name, mode & 0777) < 0 : mknodat(parent, name, mode, 0) < 0)
        return err_sys(e, errno, "make '%s'", name);
    return give_away(parent, name, id, e);
}

static int open_dir(int parent, const char *name, struct err *e)
{
    return fd_open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, PATH_STRICT, e);
}

/* Files that each start writes. */
static int make_etc(int dir, struct err *e)
{
    static const char *const names[] = {"hostname", "hosts", "resolv.conf"};
    auto_fd upper = open_dir(dir, "upper", e), etc = -EBADF;
    int r = upper < 0 ? upper : ensure(upper, "etc", S_IFDIR | 0755, 0, e);

    if (r == 0)
        r = etc = open_dir(upper, "etc", e);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(names); i++)
        r = ensure(etc, names[i], S_IFREG | 0644, 0, e);
    return r < 0 ? err_wrap(e, r, "/etc") : 0;
}

static int make_dirs(int dir, struct err *e)
{
    static const struct {
        const char *name;
        mode_t mode;
        uint32_t id;
    } rows[] = {
        {"upper",   S_IFDIR | 0755, 0      },
        {"work",    S_IFDIR | 0700, WORK_ID},
        {"usr",     S_IFDIR | 0755, 0      },
        {"usrwork", S_IFDIR | 0700, WORK_ID},
    };
    int r = 0;

    /* Ids that the mount does not map would be locked out. */
    if (fchown(dir, LAYER_UID_FIRST + WORK_ID, LAYER_UID_FIRST + WORK_ID) < 0 ||
        fchmod(dir, 0755) < 0)
        return err_sys(e, errno, "take the directory over");
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(rows); i++)
        r = ensure(dir, rows[i].name, rows[i].mode, rows[i].id, e);
    return r < 0 ? r : make_etc(dir, e);
}

/* --- which processes use it --- */

static int take_over(int dir, const struct slot_owner *owner, struct err *e)
{
    auto_fd fd = fd_open_at(dir, OWNER_NAME, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, PATH_STRICT, e);
    struct slot_owner last = {0};

    if (fd < 0)
        return fd;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 ||
        (pread(fd, &last, sizeof(last), 0) == (ssize_t)sizeof(last) && slot_owner_alive(&last)))
        return err_set(e, EBUSY, "another sandbox uses this writable layer");
    if (pwrite(fd, owner, sizeof(*owner), 0) != (ssize_t)sizeof(*owner))
        return err_sys(e, errno, "note who uses the writable layer");
    return 0;
}

/* The id of the volume that `fd` is on. */
static bool volume_id(int fd, char ret_id[DISK_VOLUME_ID_BYTES])
{
    uint64_t device, inode;

    return disk_volume_of(fd, ret_id, &device, &inode);
}

/* "<device>:<inode>:<path>", to know it again. */
static int link_text(int dir, char text[PATH_MAX], struct err *e)
{
    char link[64], path[PATH_MAX];
    struct stat st;
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
    n = readlink(link, path, sizeof(path) - 1);
    if (n < 0 || fstat(dir, &st) < 0)
        return err_sys(e, errno, "find the writable layer");
    path[n] = '\0';
    n = snprintf(text, PATH_MAX, "%" PRIx64 ":%" PRIx64 ":%s", (uint64_t)st.st_dev,
                 (uint64_t)st.st_ino, path);
    return n >= PATH_MAX ? err_set(e, ENAMETOOLONG, "the path of the writable layer is too long")
                         : 0;
}

static int note_link(int slot_dir, int dir, struct err *e)
{
    char text[PATH_MAX], id[DISK_VOLUME_ID_BYTES];
    int r = 0;

    if (volume_id(dir, id)) /* which has no path */
        (void)snprintf(text, sizeof(text), DISK_LINK "%s", id);
    else
        r = link_text(dir, text, e);
    if (r < 0)
        return r;
    if (symlinkat(text, slot_dir, LINK_NAME) < 0 || mkdirat(slot_dir, "disk", 0700) < 0)
        return err_sys(e, errno, "note the writable layer");
    return 0;
}

/* --- opening --- */

/* A volume is a detached mount already, which the caller made for this sandbox. */
static int mount_of(int dir, int given)
{
    char id[DISK_VOLUME_ID_BYTES];
    int fd;

    if (!volume_id(given, id))
        return mnt_clone(dir, "", AT_EMPTY_PATH);
    fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

int lasting_open(int dir, int given, const struct spawn_slot *slot, int slot_dir,
                 const struct slot_owner *owner, struct err *e)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .userns_fd = (uint64_t)slot->layer_userns,
    };
    auto_fd mount = -EBADF;
    int r = take_over(dir, owner, e);

    if (r == 0)
        r = make_dirs(dir, e);
    if (r == 0)
        r = note_link(slot_dir, dir, e);
    if (r < 0)
        return r;
    mount = mount_of(dir, given);
    r = mount < 0 ? mount : mnt_set(mount, &attr, AT_EMPTY_PATH);
    if (r == -EINVAL)
        return err_set(e, ENOTSUP, "its file system cannot map user ids");
    return r < 0 ? err_sys(e, -r, "map its ids") : take_fd(&mount);
}

/* All mounts of an image are of one file system, also while a sandbox uses another. */
static int find_on_disk(int disks, const char *id, struct err *e)
{
    auto_fd disk = fd_open_at(disks, id, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
    auto_fd mount = disk < 0 ? disk : disk_volume_mount(disk, id, e);

    return mount < 0 ? mount : open_dir(mount, "files", e);
}

int lasting_find(int slot_dir, int disks, struct err *e)
{
    char text[PATH_MAX];
    ssize_t n = readlinkat(slot_dir, LINK_NAME, text, sizeof(text) - 1);
    uint64_t device, inode;
    auto_fd fd = -EBADF;
    struct stat st;
    int at = 0;

    if (n < 0)
        return errno == ENOENT ? -ENOENT : err_sys(e, errno, "find the writable layer");
    text[n] = '\0';
    if (str_starts(str_of(text), STR(DISK_LINK)))
        return find_on_disk(disks, text + sizeof(DISK_LINK) - 1, e);
    if (sscanf(text, "%" SCNx64 ":%" SCNx64 ":%n", &device, &inode, &at) != 2 || at == 0)
        return err_set(e, EBADMSG, "the link to the writable layer is damaged");
    fd = fd_open_at(AT_FDCWD, text + at, O_RDONLY | O_DIRECTORY, 0, PATH_REAL, e);
    if (fd < 0)
        return fd == -ENOENT ? err_set(e, ESTALE, "the writable layer was moved away") : fd;
    if (fstat(fd, &st) < 0 || st.st_dev != device || st.st_ino != inode)
        return err_set(e, ESTALE, "'%s' is another directory now", text + at);
    return take_fd(&fd);
}
