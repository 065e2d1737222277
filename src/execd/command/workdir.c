#include "execd/command/workdir.h"

#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "execd/core/child.h"
#include "execd/core/path.h"
#include "execd/tree/fs.h"

enum { DIRECTORY_MODE = 0777 };

/* stat with the same path rules as child_enter(). */
static int look_at(const char *path, struct stat *ret)
{
    auto_fd fd = fd_open_at(AT_FDCWD, path, O_PATH, 0, PATH_BY_NAME, NULL);

    if (fd == -ENOSYS)
        return stat(path, ret) < 0 ? -errno : 0;
    if (fd < 0)
        return fd;
    return fstat(fd, ret) < 0 ? -errno : 0;
}

static int check_directory(struct str cwd, const char *path, struct err *e)
{
    struct stat st;
    int r = look_at(path, &st);

    if (r == -ENOENT)
        return err_set(e, ENOENT,
                       "working directory does not exist: %.*s: stat %s: no such file or directory",
                       STR_ARG(cwd), path);
    if (r < 0)
        return err_sys(e, -r, "cannot access working directory \"%.*s\"", STR_ARG(cwd));
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ENOTDIR, "working directory path is not a directory: %.*s", STR_ARG(cwd));
    return 0;
}

static int make_directory(struct str cwd, const char *path, struct err *e)
{
    struct stat st;
    int r = fs_make_dirs(path, DIRECTORY_MODE, NULL);

    if (r >= 0)
        r = look_at(path, &st);
    if (r < 0)
        return err_set(e, -r, "cannot make working directory \"%.*s\": %s", STR_ARG(cwd),
                       fs_text(-r));
    return 0;
}

static int resolve(struct arena *a, struct str cwd, const char *const *env,
                   int (*look)(struct str, const char *, struct err *), const char **ret_path,
                   struct err *e)
{
    AUTO_BUF(path, EXECD_PATH_BYTES_MAX);
    const char *kept;
    int r;

    if (cwd.n == 0)
        return 0;
    r = path_resolve(cwd, env, &path, e);
    if (r < 0)
        return err_wrap(e, r, "cannot resolve working directory \"%.*s\"", STR_ARG(cwd));
    r = look(cwd, path.p, e);
    if (r < 0)
        return r;
    kept = arena_strdup(a, buf_str(&path));
    if (!kept)
        return err_set(e, ENOMEM, "no memory");
    *ret_path = kept;
    return 0;
}

int workdir_resolve(struct arena *a, struct str cwd, const char *const *env, const char **ret_path,
                    struct err *e)
{
    return resolve(a, cwd, env, check_directory, ret_path, e);
}

int workdir_make(struct arena *a, struct str cwd, const char *const *env,
                 const struct child_user *user, const char **ret_path, struct err *e)
{
    struct child_fs fs;
    int r;

    child_fs_enter(user, &fs);
    r = resolve(a, cwd, env, make_directory, ret_path, e);
    child_fs_leave(&fs);
    return r;
}
