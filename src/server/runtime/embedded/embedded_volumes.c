/* embedded_volumes.c - what a sandbox mounts of the host: allowed paths, and volumes by name.
 *
 * The broker opens each path (BROKER_REACH), name by name below an allowed directory or a claim,
 * and follows no symbolic link: a workload may plant links in what it mounts, even after the check.
 * The broker does it because the server's account may lack access to root's directories. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "sandbox/disk.h"
#include "server/runtime/embedded/embedded_internal.h"

/* Whether `path` is `prefix` or lies below; *ret_rest is what follows, without a leading slash. */
static bool is_below(struct str path, struct str prefix, struct str *ret_rest)
{
    while (prefix.n > 0 && prefix.p[prefix.n - 1] == '/')
        prefix.n--;
    if (!str_starts(path, prefix) || (path.n > prefix.n && path.p[prefix.n] != '/'))
        return false;
    *ret_rest = str_skip(path, prefix.n);
    while (ret_rest->n > 0 && ret_rest->p[0] == '/')
        *ret_rest = str_skip(*ret_rest, 1);
    return true;
}

static const struct embedded_path *find_allowed(const struct embedded *em, struct str path,
                                                struct str *ret_rest)
{
    for (size_t i = 0; i < em->conf.host_path_count; i++)
        if (is_below(path, str_of(em->conf.host_paths[i].path), ret_rest))
            return &em->conf.host_paths[i];
    return NULL;
}

static int refuse_path(const struct embedded *em, size_t i, struct api_fail *f)
{
    AUTO_BUF(list, 256);

    for (size_t k = 0; k < em->conf.host_path_count; k++)
        (void)buf_addf(&list, "%s%s", k ? ", " : "", em->conf.host_paths[k].path);
    return api_fail_set(f, 400, "VOLUME::HOST_PATH_NOT_ALLOWED",
                        "volumes[%zu].host.path: not below an allowed directory; "
                        "storage.allowed_host_paths of the server allows: %s",
                        i, list.n ? list.p : "nothing");
}

/* rest/sub as one relative path; "." when both are empty. */
static int relative_path(struct str rest, struct str sub, char out[PATH_MAX])
{
    AUTO_BUF(path, PATH_MAX - 1);
    int r = buf_add(&path, rest);

    if (r == 0 && rest.n && sub.n)
        r = buf_add_char(&path, '/');
    if (r == 0)
        r = buf_add(&path, sub);
    if (r == 0 && path.n == 0)
        r = buf_add_char(&path, '.');
    return r < 0 ? r : str_copy(out, PATH_MAX, buf_str(&path));
}

static int refuse_link(size_t i, const struct api_volume *v, struct api_fail *f)
{
    if (v->kind == API_VOLUME_HOST)
        return api_fail_set(
            f, 400, "VOLUME::HOST_PATH_NOT_ALLOWED",
            "volumes[%zu]: host.path or subPath leads through a symbolic link below "
            "the allowed directory; links are not followed there, name the "
            "directory itself",
            i);
    return api_fail_set(f, 400, "VOLUME::INVALID_SUB_PATH",
                        "volumes[%zu].subPath: it leads through a symbolic link; links in a volume "
                        "are not followed, name the directory itself",
                        i);
}

/* Opens a path below an allowed directory, and makes it where allowed. */
static int reach_host(struct embedded *em, const struct api_volume *v, bool make, struct err *e)
{
    char path[PATH_MAX];
    struct str rest;
    const struct embedded_path *allowed = find_allowed(em, v->host_path, &rest);

    if (!allowed)
        return err_set(e, EACCES, "the path is not allowed");
    if (relative_path(rest, v->sub_path, path) < 0)
        return err_set(e, ENAMETOOLONG, "the path is too long");
    return embedded_reach(em, allowed->fd, path, make, e);
}

static int check_host(struct embedded *em, size_t i, const struct api_volume *v, struct api_fail *f)
{
    struct err e = {0};
    struct str rest;
    int fd;

    if (!find_allowed(em, v->host_path, &rest))
        return refuse_path(em, i, f);
    fd = reach_host(em, v, false, &e);
    fd_close(fd);
    if (fd == -ENAMETOOLONG)
        return api_fail_set(f, 400, "VOLUME::INVALID_HOST_PATH", "volumes[%zu].host.path: %s", i,
                            e.msg);
    if (fd == -EPERM)
        return api_fail_set(
            f, 400, "VOLUME::HOST_PATH_NOT_ALLOWED",
            "volumes[%zu].host.path: the server allows it, its broker does not: %s; "
            "start the broker with --allow for that directory",
            i, e.msg);
    return fd == -ELOOP || fd == -EXDEV ? refuse_link(i, v, f) : 0;
}

/* Opens claim/sub_path in em->volumes. Each name is looked up in the directory before it, so a
 * sub-path cannot leave its claim. */
static int reach_claim(struct embedded *em, const struct api_volume *v, struct err *e)
{
    char path[PATH_MAX];

    if (relative_path(v->claim_name, v->sub_path, path) < 0)
        return err_set(e, ENAMETOOLONG, "the path is too long");
    return embedded_reach(em, em->volumes, path, false, e);
}

static int check_sub_path(struct embedded *em, size_t i, const struct api_volume *v,
                          struct api_fail *f)
{
    struct err e = {0};
    int fd = reach_claim(em, v, &e);

    fd_close(fd);
    if (fd >= 0)
        return 0;
    if (fd == -ELOOP || fd == -EXDEV)
        return refuse_link(i, v, f);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return api_fail_set(f, 400, "VOLUME::INVALID_SUB_PATH",
                            "volumes[%zu].subPath: no such file or directory in the volume", i);
    if (fd == -ENAMETOOLONG)
        return api_fail_set(f, 400, "VOLUME::INVALID_SUB_PATH", "volumes[%zu].subPath: %s", i,
                            e.msg);
    return api_fail_set(f, 500, "VOLUME::PVC_INSPECT_FAILED", "volumes[%zu].subPath: %s", i, e.msg);
}

static int check_claim(struct embedded *em, size_t i, const struct api_volume *v,
                       struct api_fail *f)
{
    char claim[NAME_MAX + 1];
    struct stat st = {0};
    bool found;

    if (str_copy(claim, sizeof(claim), v->claim_name) < 0)
        return api_fail_set(f, 400, "VOLUME::INVALID_PVC_NAME",
                            "volumes[%zu].pvc.claimName: it is too long", i);
    found = fstatat(em->volumes, claim, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!found && !v->create_if_missing)
        return api_fail_set(f, 400, "VOLUME::PVC_NOT_FOUND",
                            "volumes[%zu].pvc.claimName: there is no volume '%s'; set "
                            "createIfNotExists to make it",
                            i, claim);
    if (!found && v->size_bytes > DISK_VOLUME_BYTES_MAX)
        return api_fail_invalid(f, "volumes[%zu].pvc.storage: at most %lluTi can be granted", i,
                                (unsigned long long)(DISK_VOLUME_BYTES_MAX >> 40));
    if (found && !S_ISDIR(st.st_mode))
        return api_fail_set(f, 500, "VOLUME::PVC_INSPECT_FAILED",
                            "volumes[%zu].pvc.claimName: '%s' is not a directory on the server", i,
                            claim);
    return v->sub_path.n == 0 ? 0 : check_sub_path(em, i, v, f);
}

static int make_host(struct embedded *em, size_t i, const struct api_volume *v, struct api_fail *f)
{
    struct err e = {0};
    int fd = reach_host(em, v, true, &e);

    fd_close(fd);
    if (fd == -ELOOP || fd == -EXDEV) /* changed since the check */
        return refuse_link(i, v, f);
    return fd < 0 ? api_fail_set(f, 500, "VOLUME::HOST_PATH_CREATE_FAILED",
                                 "volumes[%zu].host.path: cannot make it: %s", i, e.msg)
                  : 0;
}

int embedded_volumes_check(struct embedded *em, const struct api_create *spec, struct api_fail *f)
{
    for (size_t i = 0; i < spec->volumes_count; i++) {
        const struct api_volume *v = &spec->volumes[i];
        int r;

        if (!plan_target_is_valid(v->mount_path))
            return api_fail_set(f, 400, "VOLUME::INVALID_MOUNT_PATH",
                                "volumes[%zu].mountPath: expected an absolute path of at most %d "
                                "bytes, without '//', '.' and '..', and outside /proc, /sys and "
                                "/dev",
                                i, PLAN_TARGET_MAX - 1);
        r = v->kind == API_VOLUME_HOST    ? check_host(em, i, v, f)
            : v->kind == API_VOLUME_OSSFS ? embedded_objects_check(em, i, spec, f)
                                          : check_claim(em, i, v, f);
        if (r < 0)
            return r;
    }
    return 0;
}

int embedded_volumes_make(struct embedded *em, const struct api_create *spec, struct api_fail *f)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->volumes_count; i++)
        if (spec->volumes[i].kind == API_VOLUME_HOST)
            r = make_host(em, i, &spec->volumes[i], f);
    return r;
}

static int write_note(int sandbox, const char *prefix, const char *claim, struct err *e)
{
    char note[NAME_MAX + 1];
    int n = snprintf(note, sizeof(note), "%s%s", prefix, claim);
    int fd;

    if (n < 0 || (size_t)n >= sizeof(note))
        return err_set(e, ENAMETOOLONG, "the name is too long");
    fd = openat(sandbox, note, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "note that the sandbox has the volume");
    fd_close(fd);
    return 0;
}

/* Records the mount, and whether to erase the claim with the sandbox: if asked, and it is new. */
static int note_claim(const struct embedded *em, const struct api_volume *v, int sandbox,
                      struct err *e)
{
    char claim[NAME_MAX + 1];
    int r;

    if (str_copy(claim, sizeof(claim), v->claim_name) < 0)
        return err_set(e, ENAMETOOLONG, "the name is too long");
    r = write_note(sandbox, EMBEDDED_USES_PREFIX, claim, e);
    if (r < 0 || !v->delete_with_sandbox || embedded_claim_exists(em, claim))
        return r;
    return write_note(sandbox, EMBEDDED_ERASE_PREFIX, claim, e);
}

/* The size of a new volume. `storage` says how much is wanted at least, as in a claim of
 * Kubernetes: what is too little for a file system gets the least there is. */
static uint64_t claim_bytes(const struct api_volume *v)
{
    return v->size_bytes && v->size_bytes < DISK_VOLUME_BYTES_MIN ? DISK_VOLUME_BYTES_MIN
                                                                  : v->size_bytes;
}

static int make_claim(struct embedded *em, const struct api_volume *v, struct err *e)
{
    char claim[NAME_MAX + 1];

    if (str_copy(claim, sizeof(claim), v->claim_name) < 0)
        return err_set(e, ENAMETOOLONG, "the name is too long");
    if (embedded_claim_exists(em, claim))
        return 0;
    if (!v->create_if_missing)
        return err_set(e, ENOENT, "there is no volume '%s'", claim);
    return embedded_claim_make(em, claim, claim_bytes(v), e);
}

/* When several requests name a new claim, one of them makes it, and its sandbox removes it. */
static int note_and_open(struct embedded *em, const struct api_volume *v, int sandbox,
                         struct err *e)
{
    int r;

    if (v->kind == API_VOLUME_OSSFS)
        return embedded_objects_open(em, v, e);
    if (v->kind != API_VOLUME_PVC)
        return reach_host(em, v, false, e);
    (void)pthread_mutex_lock(&em->claims);
    r = note_claim(em, v, sandbox, e);
    if (r == 0)
        r = make_claim(em, v, e);
    if (r == 0)
        r = reach_claim(em, v, e);
    (void)pthread_mutex_unlock(&em->claims);
    return r;
}

int embedded_volumes_open(struct embedded *em, struct runtime_create *create, int sandbox,
                          int fds[PLAN_BINDS_MAX], struct err *e)
{
    const struct api_create *spec = create->spec;

    for (size_t i = 0; i < spec->volumes_count; i++) {
        fds[i] = note_and_open(em, &spec->volumes[i], sandbox, e);
        if (fds[i] < 0) {
            int r;

            create->objects_failed = spec->volumes[i].kind == API_VOLUME_OSSFS;
            r = err_wrap(e, fds[i], "volume '%.*s'", STR_ARG(spec->volumes[i].name));
            while (i > 0)
                fd_close(fds[--i]);
            return r;
        }
    }
    return 0;
}

/* Keeps a claim that another sandbox mounts. Under em->claims, so that no mount begins now. */
static int erase_unused(struct embedded *em, int sandbox, const char *claim,
                        struct broker_client *client, struct err *e)
{
    char note[NAME_MAX + 1];
    int r = 0;

    (void)snprintf(note, sizeof(note), EMBEDDED_USES_PREFIX "%s", claim);
    (void)pthread_mutex_lock(&em->claims);
    (void)unlinkat(sandbox, note, 0);
    if (!embedded_claim_is_used(em, claim))
        r = embedded_claim_erase(em, claim, client, e);
    if (r == -ENOENT)
        r = 0;
    /* A second call would erase a new volume that another sandbox made under this name. */
    (void)snprintf(note, sizeof(note), EMBEDDED_ERASE_PREFIX "%s", claim);
    if (r == 0)
        (void)unlinkat(sandbox, note, 0);
    (void)pthread_mutex_unlock(&em->claims);
    return r;
}

int embedded_volumes_erase(struct embedded *em, int sandbox, struct broker_client *client,
                           struct err *e)
{
    DIR *dir = fdopendir(fcntl(sandbox, F_DUPFD_CLOEXEC, 0));
    struct dirent *entry;
    int r = 0;

    if (!dir)
        return err_sys(e, errno, "look for volumes to remove");
    rewinddir(dir);
    while (r == 0 && (entry = readdir(dir)))
        if (strncmp(entry->d_name, EMBEDDED_ERASE_PREFIX, sizeof(EMBEDDED_ERASE_PREFIX) - 1) == 0)
            r = erase_unused(em, sandbox, entry->d_name + sizeof(EMBEDDED_ERASE_PREFIX) - 1, client,
                             e);
    (void)closedir(dir);
    return r;
}
