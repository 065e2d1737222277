/* objects_start.c - starts the program for object storage: in a root with /usr, certificates and
 * names of the host, all read-only, as root of a user namespace of one id, without a capability. It
 * uses the host's network, as it must reach the endpoint. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mount_api.h"
#include "sandbox/confined.h"
#include "sandbox/host.h"
#include "sandbox/layer_ids.h"
#include "sandbox/objects.h"
#include "sandbox/userns.h"

/* Its account on the host: behind the ids of layers. */
#define OBJECTS_UID (LAYER_UID_FIRST + (uint32_t)LAYER_UID_COUNT)

#define COPY_NAME "fusermount"

enum {
    OPEN_FILES = 4096,
    OPTION_MAX = 64,
};

struct child {
    const struct host *host;
    const struct objects_spec *spec;
    const char *program;
    int userns, sock, output;
    int root;
};

/* --- the child: system calls only --- */

static const char *const root_dirs[] = {"dev", "etc", "etc/ssl", "mnt", "run", "tmp", "usr"};
static const struct {
    const char *name, *target;
} root_links[] = {
    {"bin",   "usr/bin"  },
    {"lib",   "usr/lib"  },
    {"lib64", "usr/lib64"},
    {"sbin",  "usr/sbin" },
};
static const struct {
    const char *name;
    unsigned minor;
} nodes[] = {
    {"null",    3},
    {"zero",    5},
    {"random",  8},
    {"urandom", 9},
};
/* Of the host, read-only; those that are missing are left out. */
static const struct {
    const char *path;
    bool is_dir;
} binds[] = {
    {"usr",                             true },
    {"usr/bin/fusermount",              false}, /* our own program, see bind_source() */
    {"usr/bin/fusermount3",             false},
    {"etc/ca-certificates",             true },
    {"etc/gai.conf",                    false},
    {"etc/host.conf",                   false},
    {"etc/hosts",                       false},
    {"etc/ld.so.cache",                 false},
    {"etc/nsswitch.conf",               false},
    {"etc/resolv.conf",                 false},
    {"etc/ssl/certs",                   true },
    {"usr/local/share/ca-certificates", true },
};

static int tmpfs_make(const char *size, const char *mode)
{
    auto_fd fs = mnt_fs_open("tmpfs");
    int r = fs < 0 ? fs : mnt_fs_set(fs, "size", size);

    if (r >= 0)
        r = mnt_fs_set(fs, "mode", mode);
    if (r >= 0)
        r = mnt_fs_create(fs);
    return r < 0 ? r : mnt_fs_mount(fs, MOUNT_ATTR_NOSUID);
}

static int bind_source(const struct child *c, const char *path)
{
    char absolute[sizeof(c->host->state_path) + OPTION_MAX];

    if (strncmp(path, "usr/bin/fusermount", sizeof("usr/bin/fusermount") - 1) == 0)
        (void)snprintf(absolute, sizeof(absolute), "%s/" COPY_NAME, c->host->state_path);
    else
        (void)snprintf(absolute, sizeof(absolute), "/%s", path);
    return mnt_clone(AT_FDCWD, absolute, 0);
}

/* What is mounted over /usr must exist in it; the rest is made in our root. */
static int bind_one(const struct child *c, const char *path, bool is_dir, struct err *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    auto_fd mount = bind_source(c, path), place = -EBADF;
    int r;

    if (mount == -ENOENT)
        return 0;
    if (mount < 0)
        return err_sys(e, -mount, "clone /%s", path);
    if (strncmp(path, "usr/", 4) != 0) {
        if (is_dir)
            (void)mkdirat(c->root, path, 0755);
        else
            (void)mknodat(c->root, path, S_IFREG | 0644, 0);
    }
    place = fd_open_at(c->root, path, O_PATH, 0, PATH_IN_ROOT, NULL);
    if (place == -ENOENT)
        return 0;
    r = place < 0 ? place : mnt_set(mount, &attr, AT_EMPTY_PATH);
    if (r >= 0)
        r = mnt_attach(mount, place);
    return r < 0 ? err_sys(e, -r, "bind /%s", path) : 0;
}

static int step_root(void *user, struct err *e)
{
    struct child *c = user;
    auto_fd place = confined_open_place(c->host, e);
    int r;

    if (place < 0)
        return place;
    c->root = r = tmpfs_make("1m", "0755");
    if (r >= 0)
        r = mnt_attach(c->root, place);
    if (r < 0)
        return err_sys(e, -r, "mount the root");
    for (size_t i = 0; i < ARRAY_LEN(root_dirs); i++)
        if (mkdirat(c->root, root_dirs[i], 0755) < 0)
            return err_sys(e, errno, "make /%s", root_dirs[i]);
    for (size_t i = 0; i < ARRAY_LEN(root_links); i++)
        if (symlinkat(root_links[i].target, c->root, root_links[i].name) < 0)
            return err_sys(e, errno, "make /%s", root_links[i].name);
    for (size_t i = 0; i < ARRAY_LEN(binds); i++) {
        r = bind_one(c, binds[i].path, binds[i].is_dir, e);
        if (r < 0)
            return r;
    }
    return fchownat(c->root, "mnt", OBJECTS_UID, OBJECTS_UID, AT_SYMLINK_NOFOLLOW) < 0
               ? err_sys(e, errno, "give the mount point away")
               : 0;
}

static int make_node(int dev, const char *name, unsigned major, unsigned minor)
{
    return mknodat(dev, name, S_IFCHR | 0666, makedev(major, minor)) < 0 ||
                   fchmodat(dev, name, 0666, 0) < 0
               ? -errno
               : 0;
}

static int step_files(void *user, struct err *e)
{
    const struct child *c = user;
    auto_fd tmp = -EBADF, key = -EBADF;
    auto_fd dev = fd_open_at(c->root, "dev", O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
    auto_fd place = fd_open_at(c->root, "tmp", O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
    size_t bytes = strlen(c->spec->key);
    char size[OPTION_MAX];
    int r = dev < 0 ? dev : place < 0 ? place : 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(nodes); i++)
        r = make_node(dev, nodes[i].name, 1, nodes[i].minor);
    if (r == 0)
        r = make_node(dev, "fuse", 10, 229);
    if (r < 0)
        return err_sys(e, -r, "make /dev");
    (void)snprintf(size, sizeof(size), "%d", OBJECTS_TMP_BYTES);
    tmp = r = tmpfs_make(size, "1777");
    if (r >= 0)
        r = mnt_attach(tmp, place);
    if (r < 0)
        return err_sys(e, -r, "mount /tmp");
    key = openat(c->root, "run/key", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    if (key < 0 || write(key, c->spec->key, bytes) != (ssize_t)bytes ||
        fchown(key, OBJECTS_UID, OBJECTS_UID) < 0)
        return err_sys(e, errno, "write the key file");
    return 0;
}

static int step_pivot(void *user, struct err *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    const struct child *c = user;
    int r = confined_pivot(c->root, e);

    if (r < 0)
        return r;
    r = mnt_set(c->root, &attr, AT_EMPTY_PATH);
    return r < 0 ? err_sys(e, -r, "make the root read-only") : 0;
}

static int step_limits(void *user UNUSED, struct err *e)
{
    static const struct confined_limit rows[] = {
        {RLIMIT_CORE,     0         },
        {RLIMIT_NOFILE,   OPEN_FILES},
        {RLIMIT_MSGQUEUE, 0         },
    };

    return confined_limit(rows, ARRAY_LEN(rows), e);
}

static int step_user(void *user, struct err *e)
{
    return confined_enter_user(((const struct child *)user)->userns, 0, e);
}

static int step_exec(void *user, struct err *e)
{
    const struct child *c = user;
    static const char *argv[OBJECTS_ARGS_MAX + 2];
    static const char *const env[] = {"PATH=/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp",
                                      "LC_ALL=C.UTF-8", NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int from[] = {null, c->output, c->output, c->sock};
    const char *at = c->spec->text;

    argv[0] = c->program;
    for (size_t i = 0; i < c->spec->arg_count; i++, at += strlen(at) + 1)
        argv[i + 1] = at;
    for (size_t i = 0; i < ARRAY_LEN(from); i++) {
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 64);
        if (from[i] < 0)
            return err_sys(e, errno, "park descriptors");
    }
    for (int i = 0; i <= OBJECTS_FD; i++)
        if (dup2(from[i], i) < 0)
            return err_sys(e, errno, "place descriptors");
    if (syscall(SYS_close_range, OBJECTS_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return err_sys(e, errno, "close the others");
    (void)execve(c->program, (char *const *)argv, (char *const *)env);
    return err_sys(e, errno, "run %s", c->program);
}

static const struct confined_step steps[] = {
    {"mount root",           step_root  }, /* as real root ... */
    {"make files",           step_files },
    {"pivot",                step_pivot },
    {"set limits",           step_limits},
    {"enter user namespace", step_user  }, /* ... to here */
    {"start",                step_exec  },
};

/* --- the parent --- */

static bool is_as(const struct stat *copy, const struct stat *from)
{
    return copy->st_size == from->st_size && copy->st_mtime >= from->st_mtime;
}

/* <state>/fusermount: a copy of our own program, as it was started in another mount namespace and
 * cannot be mounted from there. */
static int self_copy(const struct host *host, struct err *e)
{
    auto_fd from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = -EBADF;
    char temporary[OPTION_MAX];
    struct stat st, had;

    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, errno, "open our own program");
    if (fstatat(host->state, COPY_NAME, &had, AT_SYMLINK_NOFOLLOW) < 0 || !is_as(&had, &st)) {
        (void)snprintf(temporary, sizeof(temporary), COPY_NAME ".%d", (int)getpid());
        to = openat(host->state, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
        for (off_t at = 0; to >= 0 && at < st.st_size;)
            if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
                return err_sys(e, errno, "copy our own program");
        if (to < 0 || fchmod(to, 0755) < 0 ||
            renameat(host->state, temporary, host->state, COPY_NAME) < 0)
            return err_sys(e, errno, "copy our own program");
    }
    return 0;
}

int objects_start(const struct host *host, const struct objects_spec *spec, struct proc *ret_proc,
                  int *ret_sock, int *ret_output, struct err *e)
{
    auto_fd userns = -EBADF, theirs = -EBADF, output = -EBADF, ours = -EBADF, read_end = -EBADF;
    struct child c = {.host = host, .spec = spec, .root = -EBADF};
    int socks[2], ends[2], r;

    c.program = objects_program_path((enum objects_program)spec->program);
    if (!c.program)
        return err_set(e, ENOTSUP, "no program for object storage is installed on the server");
    r = self_copy(host, e);
    if (r < 0)
        return r;
    userns = userns_make(OBJECTS_UID, 1, e);
    if (userns < 0)
        return userns;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return err_sys(e, errno, "make sockets");
    ours = socks[0];
    theirs = socks[1];
    /* It must not wait for a reader when it reports problems later. */
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(e, errno, "make a pipe");
    read_end = ends[0];
    output = ends[1];
    c.userns = userns;
    c.sock = theirs;
    c.output = output;
    r = confined_start(
        &(struct confined){
            .steps = steps,
            .step_count = ARRAY_LEN(steps),
            .user = &c,
            .steps_ms_max = OBJECTS_STEP_MS_MAX,
        },
        ret_proc, e);
    if (r < 0)
        return r;
    *ret_sock = take_fd(&ours);
    *ret_output = take_fd(&read_end);
    return 0;
}
