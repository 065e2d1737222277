#include "server/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "broker/client.h"
#include "server/runtime/embedded/embedded.h"

enum {
    BROKER_ARGS_MAX = 256,
    BROKER_WORKERS_MAX = 16,
    LINKS_MAX = 40, /* the kernel's limit */
};

/* --- directories --- */

/* The descriptor for `path` that an older set opened as root, if any. */
static int find_opened(const struct roots *older, const char *path)
{
    for (; older; older = older->next)
        for (size_t i = 0; i < older->config->image_count; i++)
            if (older->images[i].dir >= 0 && strcmp(older->config->images[i].dir, path) == 0)
                return older->images[i].dir;
    return -ENOENT;
}

static int open_shown(const char *path, const struct roots *older)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && errno == EACCES)
        fd = find_opened(older, path);
    if (fd < 0)
        log_event(LOG_WARN, "cannot open a directory of the configuration, going on without",
                  LOG_STR("path", path), LOG_STR("error", strerror(errno)));
    return fd;
}

/* Walks to a directory and creates those that are missing. */
struct way {
    int dir;         /* the directory reached so far */
    bool made;       /* dir was missing and has been created */
    struct buf rest; /* path that is still to be walked */
    int links;       /* symbolic links followed so far */
};

/* Removes the next name from the rest of the path. False at its end. */
static bool way_next(struct way *w, char ret_name[PATH_MAX])
{
    struct str rest = buf_str(&w->rest), name = STR("");
    bool found;

    while (name.n == 0 && str_cut(&rest, '/', &name))
        continue;
    found = name.n > 0 && str_copy(ret_name, PATH_MAX, name) == 0;
    buf_drop_front(&w->rest, w->rest.n - rest.n);
    return found;
}

/* Whether only root can have changed the entries of this directory. */
static bool is_of_root_alone(int dir)
{
    struct stat st;

    return fstat(dir, &st) == 0 && st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Continues at the target of a symbolic link. As root, follows only links that root made. */
static int way_follow(struct way *w, const char *name)
{
    AUTO_BUF(path, PATH_MAX);
    char target[PATH_MAX];
    ssize_t n = readlinkat(w->dir, name, target, sizeof(target));

    if (n < 0)
        return errno == EINVAL ? -ENOTDIR : -errno; /* not a symbolic link */
    if (geteuid() == 0 && !is_of_root_alone(w->dir))
        return -EPERM;
    if (w->links++ == LINKS_MAX)
        return -ELOOP;
    if (buf_addf(&path, "%.*s/%.*s", (int)n, target, (int)w->rest.n, w->rest.p) < 0)
        return -ENAMETOOLONG;
    if (target[0] == '/') {
        fd_close(w->dir);
        w->dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    buf_clear(&w->rest);
    return buf_add(&w->rest, buf_str(&path));
}

static int way_step(struct way *w, const char *name, mode_t mode)
{
    bool made = mkdirat(w->dir, name, w->rest.n > 0 ? 0755 : mode) == 0;
    struct stat st;
    int fd;

    if (!made && errno != EEXIST)
        return -errno;
    fd = openat(w->dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOTDIR ? way_follow(w, name) : -errno;
    fd_close(w->dir);
    w->dir = fd;
    /* A user with write access to the parent may have replaced it since. */
    w->made = made && fstat(fd, &st) == 0 && st.st_uid == geteuid();
    return 0;
}

/* mkdir -p. Returns the directory, O_PATH; *ret_made tells whether it was missing. */
static int make_dirs(const char *path, mode_t mode, bool *ret_made, struct err *e)
{
    struct way w = {.dir = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    char name[PATH_MAX];
    int r;

    buf_init(&w.rest, PATH_MAX);
    r = w.dir < 0 ? -errno : buf_add(&w.rest, str_of(path));
    while (r >= 0 && way_next(&w, name))
        r = way_step(&w, name, mode);
    buf_done(&w.rest);
    if (r >= 0) {
        *ret_made = w.made;
        return w.dir;
    }
    fd_close(w.dir);
    if (r == -EPERM)
        return err_set(e, EPERM, "'%s' leads over a link that others than root can have put there",
                       path);
    return err_sys(e, -r, "make the directory '%s'", path);
}

/* A directory that sandboxes may mount need not exist yet, nor need those below it. */
static int open_host_path(const char *path)
{
    struct err e = {0};
    bool made;
    int fd;

    if (geteuid() != 0 || access(path, F_OK) == 0)
        return open_shown(path, NULL);
    fd = make_dirs(path, 0755, &made, &e);
    if (fd < 0)
        log_event(LOG_WARN, "cannot make a directory of the configuration, going on without",
                  LOG_STR("path", path), LOG_STR("error", e.msg));
    return fd;
}

struct roots *roots_open(const struct config *config, struct roots *older)
{
    const struct config_list *paths = &config->storage.allowed_host_paths;
    struct roots *r = mem_new(struct roots);

    r->config = config;
    r->next = older;
    r->images = mem_new_array(struct embedded_root, config->image_count + 1);
    r->host_paths = mem_new_array(struct embedded_path, paths->count + 1);
    for (size_t i = 0; i < config->image_count; i++) {
        const struct config_image *image = &config->images[i];

        r->images[i].host = image->kind == CONFIG_IMAGE_HOST;
        r->images[i].dir = r->images[i].host ? -EBADF : open_shown(image->dir, older);
    }
    for (size_t i = 0; i < paths->count; i++) {
        int fd = open_host_path(paths->at[i]);

        if (fd >= 0)
            r->host_paths[r->host_path_count++] = (struct embedded_path){paths->at[i], fd};
    }
    return r;
}

/* Changes the directory's owner to the account if we created it. Leaves other owners alone. */
static int hand_over(int dir, const char *path, bool made, uid_t uid, gid_t gid, struct err *e)
{
    auto_fd fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "open the directory '%s'", path);
    if (!made && st.st_uid != uid)
        return err_set(e, EPERM,
                       "the directory '%s' belongs to user %u, and the server runs as %u: give it "
                       "one of its own, or chown this one",
                       path, st.st_uid, uid);
    if (fchown(fd, uid, gid) < 0 || fchmod(fd, 0700) < 0)
        return err_sys(e, errno, "hand the directory '%s' over", path);
    return 0;
}

/* Creates a directory for the account the server will run as. */
static int prepare_dir(const struct config *config, const char *path, struct err *e)
{
    bool made;
    auto_fd dir = make_dirs(path, 0700, &made, e);
    uid_t uid;
    gid_t gid;
    int r = dir < 0 ? dir : config_account(config, &uid, &gid, e);

    if (r < 0 || geteuid() != 0)
        return r;
    return hand_over(dir, path, made, uid, gid, e);
}

int data_dir_prepare(const struct config *config, struct err *e)
{
    return prepare_dir(config, config->dir, e);
}

static bool is_at_or_below(const char *path, const char *dir)
{
    struct str prefix = str_of(dir);

    while (str_ends(prefix, STR("/")))
        prefix.n--;
    return str_starts(str_of(path), prefix) && (!path[prefix.n] || path[prefix.n] == '/');
}

/* Whether a broker that was started with these roots knows the path. */
static bool is_known(const struct roots *roots, const char *path)
{
    for (size_t i = 0; i < roots->config->image_count; i++)
        if (roots->images[i].dir >= 0 && is_at_or_below(path, roots->config->images[i].dir))
            return true;
    for (size_t i = 0; i < roots->host_path_count; i++)
        if (is_at_or_below(path, roots->host_paths[i].path))
            return true;
    return false;
}

static void warn_unless_known(const struct roots *roots, const char *path)
{
    if (!is_known(roots, path))
        log_event(LOG_WARN,
                  "a directory of the configuration is new, and the broker refuses it: what it may "
                  "use is said at its start, restart it with the server",
                  LOG_STR("path", path));
}

void roots_warn_new(const struct roots *now)
{
    const struct config_list *paths = &now->config->storage.allowed_host_paths;
    const struct roots *first = now;

    while (first->next)
        first = first->next;
    for (size_t i = 0; i < now->config->image_count; i++)
        if (now->config->images[i].kind == CONFIG_IMAGE_DIR)
            warn_unless_known(first, now->config->images[i].dir);
    for (size_t i = 0; i < paths->count; i++)
        warn_unless_known(first, paths->at[i]);
}

/* --- the broker --- */

/* Whether a broker answers that was not started by another server. */
static bool broker_answers(const struct config *config)
{
    struct broker_config none = {.version = BROKER_WIRE_VERSION};
    struct broker_client client = {-EBADF};
    struct broker_info info = {0};
    bool answers = broker_connect(&client, config->embedded.broker, &none, NULL) == 0 &&
                   broker_info(&client, &info, NULL) >= 0 && !info.tied;

    broker_close(&client);
    return answers;
}

struct args {
    const char *at[BROKER_ARGS_MAX];
    size_t count;
};

static void add_arg(struct args *args, const char *name, const char *value)
{
    if (args->count + 3 > ARRAY_LEN(args->at))
        return;
    args->at[args->count++] = name;
    args->at[args->count++] = value;
}

static void add_allowed(struct args *args, const struct roots *roots, const char *volumes)
{
    add_arg(args, "--allow", volumes);
    for (size_t i = 0; i < roots->config->image_count; i++)
        if (roots->images[i].dir >= 0)
            add_arg(args, "--allow", roots->config->images[i].dir);
    for (size_t i = 0; i < roots->host_path_count; i++)
        add_arg(args, "--allow", roots->host_paths[i].path);
}

static int spawn_broker(const struct roots *roots, const char *volumes, uid_t uid, int tie,
                        struct proc *ret, struct err *e)
{
    const struct config *config = roots->config;
    char workers[16], caller[16];
    struct args args = {0};
    struct proc_spec spec = PROC_SPEC(config->embedded.broker_program, args.at);
    long cores = get_nprocs();
    int64_t count = config->embedded.broker_workers ? config->embedded.broker_workers : cores;

    (void)snprintf(workers, sizeof(workers), "%d",
                   (int)(count < 1                    ? 1
                         : count > BROKER_WORKERS_MAX ? BROKER_WORKERS_MAX
                                                      : count));
    (void)snprintf(caller, sizeof(caller), "%u", uid);
    args.at[args.count++] = config->embedded.broker_program;
    add_arg(&args, "--state", config->embedded.state);
    add_arg(&args, "--socket", config->embedded.broker);
    add_arg(&args, "--execd", config->embedded.execd_program);
    add_arg(&args, "--workers", workers);
    add_arg(&args, "--caller", caller);
    add_arg(&args, "--until-eof", "0");
    add_allowed(&args, roots, volumes);
    spec.env = (const char *const[]){"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    spec.stdio[0] = tie;
    spec.stdio[1] = STDERR_FILENO;
    spec.stdio[2] = STDERR_FILENO;
    spec.flags = PROC_NEW_SESSION; /* Ctrl-C is for the server; the broker ends with it */
    return proc_spawn(&spec, ret, e);
}

int broker_start(const struct roots *roots, struct proc *ret_broker, int *ret_tie, struct err *e)
{
    const struct config *config = roots->config;
    char volumes[PATH_MAX];
    int ends[2];
    uid_t uid;
    gid_t gid;
    int r;

    if (config->embedded.start_broker == CONFIG_START_NEVER ||
        (config->embedded.start_broker == CONFIG_START_AUTO &&
         (geteuid() != 0 || broker_answers(config))))
        return 0;
    r = config_account(config, &uid, &gid, e);
    if (r < 0)
        return r;
    (void)snprintf(volumes, sizeof(volumes), "%s/volumes", config->dir);
    r = prepare_dir(config, volumes, e);
    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    r = spawn_broker(roots, volumes, uid, ends[0], ret_broker, e);
    fd_close(ends[0]);
    if (r < 0) {
        fd_close(ends[1]);
        return err_wrap(e, r, "start the broker");
    }
    *ret_tie = ends[1];
    return 1;
}

/* --- dropping root --- */

int privileges_drop(const struct config *config, struct err *e)
{
    uid_t uid;
    gid_t gid;
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, errno, "set no_new_privs");
    if (geteuid() != 0)
        return 0;
    r = config_account(config, &uid, &gid, e);
    if (r < 0)
        return r;
    if (uid == 0)
        return err_set(e, EINVAL, "embedded.user must not be root");
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return err_sys(e, errno, "become user %u", uid);
    return 0;
}
