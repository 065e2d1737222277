#include "sandbox/host_root.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/sha.h"
#include "base/time.h"

enum { COPY_DEPTH_MAX = 6, COPY_FILES_MAX = 4096, COPY_BYTES_MAX = 4 << 20 };

/* --- contents --- */

static const char *const usr_links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static const struct {
    const char *path;
    mode_t mode;
} root_dirs[] = {
    {"dev",                  0755 },
    {"etc",                  0755 },
    {"home",                 0755 },
    {"media",                0755 },
    {"mnt",                  0755 },
    {"opt",                  0755 },
    {"opt/code-interpreter", 0755 },
    {"opt/opensandbox",      0755 },
    {"proc",                 0555 },
    {"root",                 0700 },
    {"run",                  0755 },
    {"srv",                  0755 },
    {"sys",                  0555 },
    {"tmp",                  01777},
    {"usr",                  0755 },
    {"usr/bin",              0755 },
    {"var",                  0755 },
    {"var/cache",            0755 },
    {"var/lib",              0755 },
    {"var/log",              0755 },
    {"var/spool",            0755 },
    {"var/tmp",              01777},
    {"workspace",            0755 },
};

#define PASSWD                                                                                     \
    "root:x:0:0:root:/root:/bin/bash\n"                                                            \
    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"                                            \
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
#define GROUP    "root:x:0:\ntty:x:5:\nusers:x:100:\nnogroup:x:65534:\n"
#define NSSWITCH "passwd: files\ngroup: files\nhosts: files dns\n"
#define PIP      "[global]\nbreak-system-packages = true\n" /* it affects only this sandbox */
#define PROFILE                                                                                    \
    "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin\n"

/* What clients start in an image of the code interpreter, and what they source before they use a
 * language. execd provides the interpreters, in one version each, so neither has anything to do. */
#define INTERPRETER     "#!/bin/sh\nexec tail -f /dev/null\n"
#define INTERPRETER_ENV ": one version of each language is there, and in PATH\n"

static const struct {
    const char *path;
    mode_t mode;
    const char *text;
} root_files[] = {
    {"etc/passwd",                                   0644, PASSWD         },
    {"etc/group",                                    0644, GROUP          },
    {"etc/nsswitch.conf",                            0644, NSSWITCH       },
    {"etc/pip.conf",                                 0644, PIP            },
    {"etc/profile",                                  0644, PROFILE        },
    {"opt/code-interpreter/code-interpreter.sh",     0755, INTERPRETER    },
    {"opt/code-interpreter/code-interpreter-env.sh", 0755, INTERPRETER_ENV},
    {"opt/opensandbox/code-interpreter.sh",          0755, INTERPRETER    },
    {"opt/opensandbox/code-interpreter-env.sh",      0755, INTERPRETER_ENV},
};

/* Names that Python images have and Debian's packages do not install. Those in /usr are in a layer
 * below the host's own: a host that has /usr/bin/python keeps it. */
static const struct {
    const char *path, *target;
} root_links[] = {
    {"usr/bin/pip",    "pip3"   },
    {"usr/bin/python", "python3"},
};

/* Files of the host's /etc that programs need for libraries, certificates, names and settings. No
 * other file of it exists inside. */
static const char *const etc_copies[] = {
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "host.conf",
    "inputrc",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "locale.alias",
    "lsb-release",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "rpc",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
};

void host_root_name(char out[HOST_ROOT_NAME_BYTES])
{
    uint8_t hash[SHA256_BYTES];
    struct sha256 s;

    sha256_init(&s);
    for (size_t i = 0; i < ARRAY_LEN(usr_links); i++)
        sha256_add(&s, str_of(usr_links[i]));
    for (size_t i = 0; i < ARRAY_LEN(root_dirs); i++) {
        sha256_add(&s, str_of(root_dirs[i].path));
        sha256_add(&s, str_make((const char *)&root_dirs[i].mode, sizeof(mode_t)));
    }
    for (size_t i = 0; i < ARRAY_LEN(root_files); i++) {
        sha256_add(&s, str_of(root_files[i].path));
        sha256_add(&s, str_make((const char *)&root_files[i].mode, sizeof(mode_t)));
        sha256_add(&s, str_of(root_files[i].text));
    }
    for (size_t i = 0; i < ARRAY_LEN(root_links); i++) {
        sha256_add(&s, str_of(root_links[i].path));
        sha256_add(&s, str_of(root_links[i].target));
    }
    for (size_t i = 0; i < ARRAY_LEN(etc_copies); i++)
        sha256_add(&s, str_of(etc_copies[i]));
    sha256_end(&s, hash);
    (void)snprintf(out, HOST_ROOT_NAME_BYTES, "host-root-%02x%02x%02x%02x", hash[0], hash[1],
                   hash[2], hash[3]);
}

/* --- copying --- */

struct copy {
    size_t files;
    struct err *e;
};

static int copy_link(int from, int to, const char *name, struct err *e)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

    if (n < 0)
        return err_sys(e, errno, "read link '%s'", name);
    target[n] = '\0';
    return symlinkat(target, to, name) < 0 ? err_sys(e, errno, "link '%s'", name) : 0;
}

static int copy_file(int from, int to, const char *name, const struct stat *st, struct err *e)
{
    auto_fd in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    auto_fd out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    off_t left = st->st_size;

    if (in < 0 || out < 0)
        return err_sys(e, errno, "copy '%s'", name);
    while (left > 0) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);

        if (n <= 0)
            return err_sys(e, n < 0 ? errno : EIO, "copy '%s'", name);
        left -= n;
    }
    return 0;
}

static int copy_entry(struct copy *c, int from, int to, const char *name, int depth);

/* Copies a directory, at most COPY_DEPTH_MAX deep. */
static int copy_dir(struct copy *c, int from, int to, const char *name, int depth)
{
    auto_fd inner = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;

    if (!dir) {
        r = err_sys(c->e, errno, "copy directory '%s'", name);
        fd_close(fd);
        return r;
    }
    if (inner < 0)
        r = err_sys(c->e, errno, "copy directory '%s'", name);
    for (struct dirent *d; r == 0 && (d = readdir(dir));)
        if (d->d_name[0] != '.')
            r = copy_entry(c, dirfd(dir), inner, d->d_name, depth + 1);
    closedir(dir);
    return r;
}

/* Skips entries that are absent, of another kind, or not readable by every user. */
static int copy_entry(struct copy *c, int from, int to, const char *name, int depth)
{
    struct stat st;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(c->e, errno, "look at '%s'", name);
    if (++c->files > COPY_FILES_MAX)
        return err_set(c->e, E2BIG, "more than %d files to copy", COPY_FILES_MAX);
    if (S_ISLNK(st.st_mode))
        return copy_link(from, to, name, c->e);
    if (!(st.st_mode & S_IROTH))
        return 0;
    if (S_ISREG(st.st_mode))
        return st.st_size > COPY_BYTES_MAX ? 0 : copy_file(from, to, name, &st, c->e);
    if (!S_ISDIR(st.st_mode) || depth >= COPY_DEPTH_MAX)
        return 0;
    if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
        return err_sys(c->e, errno, "make '%s'", name);
    return copy_dir(c, from, to, name, depth);
}

/* "ssl/certs": makes the parent, and copies nothing else of it. */
static int copy_etc(struct copy *c, int from, int to, const char *path)
{
    const char *slash = strchr(path, '/');
    char parent[32];
    auto_fd from_parent = -EBADF, to_parent = -EBADF;

    if (!slash)
        return copy_entry(c, from, to, path, 0);
    if (str_copy(parent, sizeof(parent), str_make(path, (size_t)(slash - path))) < 0)
        return err_set(c->e, EINVAL, "copy '%s'", path);
    from_parent = openat(from, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from_parent < 0)
        return 0;
    if (mkdirat(to, parent, 0755) < 0 && errno != EEXIST)
        return err_sys(c->e, errno, "make '%s'", parent);
    to_parent = openat(to, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return to_parent < 0 ? err_sys(c->e, errno, "open '%s'", parent)
                         : copy_entry(c, from_parent, to_parent, slash + 1, 0);
}

/* --- making --- */

static int make_usr_links(int dir, struct err *e)
{
    auto_fd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    for (size_t i = 0; i < ARRAY_LEN(usr_links); i++) {
        struct stat st;
        int r = 0;

        if (fstatat(root, usr_links[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (!S_ISLNK(st.st_mode))
            return err_set(e, ENOTSUP,
                           "/%s of this host is not a link into /usr: use a dir: root instead",
                           usr_links[i]);
        r = copy_link(root, dir, usr_links[i], e);
        if (r < 0)
            return r;
    }
    return 0;
}

int host_root_make(int dir, struct err *e)
{
    struct copy c = {.e = e};
    auto_fd from = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), to = -EBADF;
    int r = make_usr_links(dir, e);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(root_dirs); i++)
        if (mkdirat(dir, root_dirs[i].path, 0755) < 0 ||
            fchmodat(dir, root_dirs[i].path, root_dirs[i].mode, 0) < 0)
            r = err_sys(e, errno, "make /%s", root_dirs[i].path);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(root_files); i++) {
        auto_fd fd = openat(dir, root_files[i].path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        r = fd < 0 ? -errno : io_write_full(fd, str_of(root_files[i].text), DEADLINE_NEVER);
        if (r == 0 && fchmod(fd, root_files[i].mode) < 0)
            r = -errno;
        if (r < 0)
            r = err_sys(e, -r, "write /%s", root_files[i].path);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(root_links); i++)
        if (symlinkat(root_links[i].target, dir, root_links[i].path) < 0)
            r = err_sys(e, errno, "link /%s", root_links[i].path);
    if (r < 0)
        return r;
    to = openat(dir, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || to < 0)
        return err_sys(e, errno, "open /etc");
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(etc_copies); i++)
        r = copy_etc(&c, from, to, etc_copies[i]);
    return r;
}
