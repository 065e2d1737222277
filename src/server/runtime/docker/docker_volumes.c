/* docker_volumes.c - what a sandbox mounts: directories of the engine's machine that are allowed,
 * and named volumes of the engine.
 *
 * The engine opens a directory by its path, as root, and follows symbolic links. A sandbox that may
 * write below an allowed directory could plant one, so a path with a link is refused, and one that
 * the server's account cannot look at as well. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/time.h"
#include "base/url.h"
#include "server/config/config.h"
#include "server/runtime/docker/docker_internal.h"

#define MANAGED "server"

enum { LABEL_MAX = 64 << 10 };

/* --- checks --- */

static bool is_below(struct str path, struct str prefix)
{
    while (prefix.n > 0 && prefix.p[prefix.n - 1] == '/')
        prefix.n--;
    return str_starts(path, prefix) && (path.n == prefix.n || path.p[prefix.n] == '/');
}

static int host_path(const struct api_volume *v, char out[PATH_MAX])
{
    AUTO_BUF(path, PATH_MAX - 1);
    int r = buf_add(&path, v->host_path);

    if (r == 0 && v->sub_path.n)
        r = buf_addf(&path, "/%.*s", STR_ARG(v->sub_path));
    return r < 0 ? r : str_copy(out, PATH_MAX, buf_str(&path));
}

static bool is_allowed(const struct config *c, struct str path)
{
    for (size_t i = 0; i < c->storage.allowed_host_paths.count; i++)
        if (is_below(path, str_of(c->storage.allowed_host_paths.at[i])))
            return true;
    return false;
}

/* Opens it without following links: 1, 0 when it is not there yet, or -errno. On an engine
 * elsewhere there is nothing to look at. */
static int look_at(const struct docker *d, const char *path)
{
    int fd;

    if (engine_place(d->engine)->host[0])
        return 1;
    fd = fd_open_at(AT_FDCWD, path, O_PATH, 0, PATH_REAL, NULL);
    fd_close(fd);
    return fd == -ENOENT ? 0 : fd < 0 ? fd : 1;
}

static int check_host(const struct docker *d, size_t i, const struct api_volume *v,
                      struct api_fail *f)
{
    char path[PATH_MAX];
    int r;

    if (!is_allowed(d->config, v->host_path))
        return api_fail_set(f, 400, "VOLUME::HOST_PATH_NOT_ALLOWED",
                            "volumes[%zu].host.path: not below a directory of "
                            "storage.allowed_host_paths of the server",
                            i);
    if (host_path(v, path) < 0 || strchr(path, ':'))
        return api_fail_set(f, 400, "VOLUME::INVALID_HOST_PATH",
                            "volumes[%zu].host.path: it is too long, or contains ':'", i);
    r = look_at(d, path);
    if (r == -ELOOP)
        return api_fail_set(f, 400, "VOLUME::HOST_PATH_NOT_ALLOWED",
                            "volumes[%zu]: host.path or subPath leads through a symbolic link; "
                            "name the directory itself",
                            i);
    if (r < 0)
        return api_fail_set(f, 400, "VOLUME::HOST_PATH_NOT_ALLOWED",
                            "volumes[%zu].host.path: the server's account cannot look at it (%s), "
                            "so it cannot know where it leads",
                            i, strerror(-r));
    return 0;
}

/* 1 when it exists, 0 when not. */
static int inspect(struct docker *d, struct arena *a, struct str name, struct json **ret,
                   struct err *e)
{
    AUTO_BUF(target, 1024);
    int r = url_encode(name, URL_SET_SEGMENT, &target);

    if (r < 0)
        return err_set(e, EINVAL, "the name is too long");
    r = docker_get(d, a, ret, e, "/volumes/%s", target.p);
    return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static int check_sub_path(const struct json *volume, size_t i, const struct api_volume *v,
                          char out[PATH_MAX], struct api_fail *f)
{
    struct str driver = STR(""), point = STR("");
    AUTO_BUF(path, PATH_MAX - 1);

    (void)!json_to_str(json_get(volume, STR("Driver")), &driver);
    (void)!json_to_str(json_get(volume, STR("Mountpoint")), &point);
    if (!str_eq(driver, STR("local")) || !point.n)
        return api_fail_set(f, 400, "VOLUME::PVC_SUBPATH_UNSUPPORTED_DRIVER",
                            "volumes[%zu].subPath: volumes of driver '%s' have none", i,
                            api_show(driver).text);
    if (buf_addf(&path, "%.*s/%.*s", STR_ARG(point), STR_ARG(v->sub_path)) < 0 ||
        str_copy(out, PATH_MAX, buf_str(&path)) < 0 || strchr(out, ':'))
        return api_fail_set(f, 400, "VOLUME::INVALID_SUB_PATH",
                            "volumes[%zu].subPath: it is too long, or contains ':'", i);
    return 0;
}

static int check_claim(struct docker *d, size_t i, const struct api_volume *v, struct api_fail *f)
{
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    struct json *volume = NULL;
    char path[PATH_MAX];
    struct err e = {0};
    int r;

    if (str_starts(v->claim_name, STR("opensandbox-")))
        return api_fail_set(f, 400, "VOLUME::INVALID_PVC_NAME",
                            "volumes[%zu].pvc.claimName: names that begin with opensandbox- are "
                            "the server's own",
                            i);
    r = inspect(d, &arena, v->claim_name, &volume, &e);
    if (r < 0)
        return api_fail_set(f, 500, "VOLUME::PVC_INSPECT_FAILED", "volumes[%zu].pvc: %s", i, e.msg);
    if (r == 0 && !v->create_if_missing)
        return api_fail_set(f, 400, "VOLUME::PVC_NOT_FOUND",
                            "volumes[%zu].pvc.claimName: the Docker engine has no volume '%s'; set "
                            "createIfNotExists to make it",
                            i, api_show(v->claim_name).text);
    if (v->sub_path.n && r == 0)
        return api_fail_set(f, 400, "VOLUME::INVALID_SUB_PATH",
                            "volumes[%zu].subPath: no such directory in a volume that does not "
                            "exist yet",
                            i);
    if (!v->sub_path.n)
        return 0;
    r = check_sub_path(volume, i, v, path, f);
    if (r < 0)
        return r;
    r = look_at(d, path);
    if (r == -ELOOP)
        return api_fail_set(f, 400, "VOLUME::INVALID_SUB_PATH",
                            "volumes[%zu].subPath: it leads through a symbolic link", i);
    /* A sandbox that writes to the volume could plant a link to a directory of the host. */
    if (r == -EACCES)
        return api_fail_set(f, 400, "VOLUME::INVALID_SUB_PATH",
                            "volumes[%zu].subPath: the server's account may not read '%s', so it "
                            "cannot rule out a symbolic link; mount the volume without subPath",
                            i, path);
    return r < 0 ? api_fail_set(f, 400, "VOLUME::INVALID_SUB_PATH", "volumes[%zu].subPath: %s", i,
                                strerror(-r))
                 : 0;
}

static bool is_place(struct str path)
{
    static const struct str taken[] = {STR_INIT("/proc"), STR_INIT("/sys"), STR_INIT("/dev"),
                                       STR_INIT("/opt/opensandbox")};

    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (is_below(path, taken[i]))
            return false;
    return path.n > 1 && path.p[0] == '/' && str_find(path, ':') == path.n;
}

int docker_volumes_check(struct docker *d, const struct api_create *spec, struct api_fail *f)
{
    for (size_t i = 0; i < spec->volumes_count; i++) {
        const struct api_volume *v = &spec->volumes[i];

        if (!is_place(v->mount_path))
            return api_fail_set(f, 400, "VOLUME::INVALID_MOUNT_PATH",
                                "volumes[%zu].mountPath: expected an absolute path without ':', "
                                "outside /proc, /sys, /dev and /opt/opensandbox",
                                i);
        if ((v->kind == API_VOLUME_HOST ? check_host(d, i, v, f) : check_claim(d, i, v, f)) < 0)
            return -EBADMSG;
    }
    return 0;
}

/* --- for a container --- */

static int write_bind(const struct docker *d, const struct api_volume *v, struct json_writer *w,
                      struct err *e)
{
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    AUTO_BUF(text, 2 * PATH_MAX);
    struct json *volume = NULL;
    struct api_fail f = {0};
    char source[PATH_MAX];
    int r = 0;

    if (v->kind == API_VOLUME_HOST)
        r = host_path(v, source);
    else if (!v->sub_path.n)
        r = str_copy(source, sizeof(source), v->claim_name);
    else if (inspect((struct docker *)d, &arena, v->claim_name, &volume, e) <= 0 ||
             check_sub_path(volume, 0, v, source, &f) < 0)
        r = -ENOENT;
    if (r < 0)
        return err_set(e, EINVAL, "volume '%.*s' cannot be mounted", STR_ARG(v->name));
    r = buf_addf(&text, "%s:%.*s:%s", source, STR_ARG(v->mount_path), v->read_only ? "ro" : "rw");
    json_write_string(w, buf_str(&text));
    return r < 0 ? err_set(e, EMSGSIZE, "the path of a volume is too long") : 0;
}

int docker_volumes_write(const struct docker *d, const struct api_create *spec,
                         struct json_writer *w, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->volumes_count; i++)
        r = write_bind(d, &spec->volumes[i], w, e);
    return r;
}

int docker_volumes_label(const struct api_create *spec, struct str id, struct buf *out)
{
    char shared[DOCKER_NAME_MAX];
    struct json_writer w;
    size_t count = 0;

    json_write_begin(&w, out);
    json_write_array(&w);
    for (size_t i = 0; i < spec->volumes_count; i++)
        if (spec->volumes[i].kind == API_VOLUME_PVC && spec->volumes[i].create_if_missing &&
            spec->volumes[i].delete_with_sandbox) {
            json_write_string(&w, spec->volumes[i].claim_name);
            count++;
        }
    if (spec->credential_proxy) {
        docker_runtime_volume(id, shared);
        json_write_string(&w, str_of(shared));
        count++;
    }
    json_write_array_end(&w);
    if (json_write_end(&w) < 0)
        return -EMSGSIZE;
    if (!count)
        buf_clear(out);
    return 0;
}

int docker_volume_make(struct docker *d, struct str name, struct str made_for, struct err *e)
{
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(body, LABEL_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("Name"), name);
    json_write_key(&w, STR("Labels"));
    json_write_object(&w);
    json_member_string(&w, STR(LABEL_VOLUMES), STR(MANAGED));
    json_member_string(&w, STR(LABEL_OWNER), str_of(d->owner));
    if (made_for.n)
        json_member_string(&w, STR(LABEL_ID), made_for);
    json_write_object_end(&w);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        return err_set(e, EMSGSIZE, "the name is too long");
    return engine_call(d->engine,
                       &(struct engine_request){.method = HTTP_POST,
                                                .target = "/volumes/create",
                                                .body = buf_str(&body)},
                       &answer, e);
}

int docker_volumes_make(struct docker *d, const struct runtime_create *c, struct err *e)
{
    for (size_t i = 0; i < c->spec->volumes_count; i++) {
        AUTO_ARENA(arena, DOCKER_ARENA_MAX);
        const struct api_volume *v = &c->spec->volumes[i];
        struct json *volume = NULL;
        int r = 1;

        if (v->kind == API_VOLUME_PVC && v->create_if_missing)
            r = inspect(d, &arena, v->claim_name, &volume, e);
        if (r == 0)
            r = docker_volume_make(d, v->claim_name, v->delete_with_sandbox ? c->id : STR_NONE, e);
        if (r < 0)
            return err_wrap(e, r, "volume '%.*s'", STR_ARG(v->name));
    }
    return 0;
}

static bool has_label(const struct json *volume, struct str key, struct str wanted)
{
    struct str value;

    return json_to_str(json_get(json_get(volume, STR("Labels")), key), &value) == 0 &&
           str_eq(value, wanted);
}

/* Of this installation, by createIfNotExists or by POST /volumes. */
static bool is_ours(const struct docker *d, const struct json *volume)
{
    return has_label(volume, STR(LABEL_VOLUMES), STR(MANAGED)) &&
           has_label(volume, STR(LABEL_OWNER), str_of(d->owner));
}

/* What a sandbox shares with its sidecar: no volume that a request names. */
static bool is_internal(const struct json *volume)
{
    struct str name;

    return json_to_str(json_get(volume, STR("Name")), &name) == 0 &&
           str_starts(name, STR("opensandbox-"));
}

/* If it was made for this sandbox: it may have been there before, or be another's. */
static void drop(struct docker *d, const struct json *volume, struct str sandbox_id)
{
    struct err e = {0};
    struct str name;

    if (is_ours(d, volume) && has_label(volume, STR(LABEL_ID), sandbox_id) &&
        json_to_str(json_get(volume, STR("Name")), &name) == 0 &&
        docker_volume_remove(&d->base, name, &e) < 0)
        log_event(LOG_WARN, "a volume made for a sandbox stays", LOG_STR("error", e.msg));
}

void docker_volumes_drop(struct docker *d, struct str sandbox_id, struct str label)
{
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    struct json *list = NULL, *volume = NULL;
    struct str name;

    if (!label.n || json_parse(&arena, label, NULL, &list, NULL) < 0)
        return;
    json_each(item, list)
    {
        if (json_to_str(item, &name) == 0 && inspect(d, &arena, name, &volume, NULL) > 0)
            drop(d, volume, sandbox_id);
    }
}

void docker_volumes_drop_all(struct docker *d, struct str sandbox_id)
{
    AUTO_ARENA(arena, 4 * DOCKER_ARENA_MAX);
    AUTO_BUF(label, 256);
    AUTO_BUF(query, 1024);
    struct json *list = NULL;
    struct err e = {0};

    (void)buf_addf(&label, LABEL_ID "=%.*s", STR_ARG(sandbox_id));
    if (docker_add_filters(&query, (const char *const[]){"label", label.p, NULL}) < 0 ||
        docker_get(d, &arena, &list, &e, "/volumes?%s", query.p) < 0) {
        log_event(LOG_WARN, "volumes made for a sandbox may stay", LOG_STR("error", e.msg));
        return;
    }
    json_each(item, json_get(list, STR("Volumes")))
    {
        drop(d, item, sandbox_id);
    }
}

/* --- volumes by name --- */

static void show(struct docker *d, const struct json *volume, runtime_volume_visit_fn *visit,
                 void *user)
{
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    AUTO_BUF(query, 1024);
    char name[256];
    struct runtime_volume v = {0};
    struct json *list = NULL;
    struct str created;

    if (json_to_str(json_get(volume, STR("Name")), &v.name) < 0 ||
        str_copy(name, sizeof(name), v.name) < 0)
        return;
    if (json_to_str(json_get(volume, STR("CreatedAt")), &created) == 0)
        (void)!time_parse(created, &v.created_us, NULL);
    if (docker_add_filters(&query, (const char *const[]){"volume", name, NULL}) == 0)
        (void)!docker_get(d, &arena, &list, NULL, "/containers/json?all=1&%s", query.p);
    v.used_by = arena_new_array(&arena, struct str, json_count(list) + 1);
    json_each(item, list)
    {
        if (v.used_by && json_to_str(json_get(json_get(item, STR("Labels")), STR(LABEL_ID)),
                                     &v.used_by[v.used_by_count]) == 0)
            v.used_by_count++;
    }
    visit(user, &v);
}

static int by_name(const void *a, const void *b)
{
    struct str x = STR(""), y = STR("");

    (void)!json_to_str(json_get(*(const struct json *const *)a, STR("Name")), &x);
    (void)!json_to_str(json_get(*(const struct json *const *)b, STR("Name")), &y);
    return str_cmp(x, y);
}

int docker_volume_list(struct runtime *r, uint64_t skip, uint64_t count,
                       runtime_volume_visit_fn *visit, void *user, uint64_t *ret_total,
                       struct err *e)
{
    struct docker *d = docker_of(r);
    AUTO_ARENA(arena, 4 * DOCKER_ARENA_MAX);
    AUTO_BUF(query, 1024);
    struct json *tree = NULL;
    const struct json *all, **ours;
    size_t n = 0;
    int result;

    if (docker_add_filters(&query,
                           (const char *const[]){"label", LABEL_VOLUMES "=" MANAGED, NULL}) < 0)
        return err_set(e, EMSGSIZE, "the query is too long");
    result = docker_get(d, &arena, &tree, e, "/volumes?%s", query.p);
    if (result < 0)
        return result;
    all = json_get(tree, STR("Volumes"));
    ours = arena_new_array(&arena, const struct json *, json_count(all) + 1);
    if (!ours)
        return err_set(e, ENOMEM, "too many volumes");
    json_each(item, all)
    {
        if (is_ours(d, item) && !is_internal(item))
            ours[n++] = item;
    }
    qsort(ours, n, sizeof(*ours), by_name);
    *ret_total = n;
    for (uint64_t i = skip; i < n && i - skip < count; i++)
        show(d, ours[i], visit, user);
    return 0;
}

static int find_ours(struct docker *d, struct arena *a, struct str name, struct json **ret,
                     struct err *e)
{
    int r = inspect(d, a, name, ret, e);

    if (r < 0)
        return r;
    return r > 0 && is_ours(d, *ret)
               ? 0
               : err_set(e, ENOENT, "there is no volume '%s' of this server", api_show(name).text);
}

int docker_volume_get(struct runtime *r, struct str name, runtime_volume_visit_fn *visit,
                      void *user, struct err *e)
{
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    struct json *volume = NULL;
    int result = find_ours(docker_of(r), &arena, name, &volume, e);

    if (result == 0)
        show(docker_of(r), volume, visit, user);
    return result;
}

int docker_volume_create(struct runtime *r, struct str name, uint64_t size_bytes, struct err *e)
{
    struct docker *d = docker_of(r);
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    struct json *volume = NULL;
    int result;

    if (size_bytes)
        return err_set(e, ENOTSUP, "volumes of the Docker engine have no limit of size");
    if (str_starts(name, STR("opensandbox-")))
        return err_set(e, EINVAL, "names that begin with opensandbox- are the server's own");
    result = inspect(d, &arena, name, &volume, e);
    if (result > 0)
        return err_set(e, EEXIST, "the Docker engine has a volume '%s' already",
                       api_show(name).text);
    return result < 0 ? result : docker_volume_make(d, name, STR_NONE, e);
}

int docker_volume_remove(struct runtime *r, struct str name, struct err *e)
{
    struct docker *d = docker_of(r);
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    AUTO_BUF(text, 1024);
    struct json *volume = NULL;
    int result = find_ours(d, &arena, name, &volume, e);

    if (result < 0)
        return result;
    if (url_encode(name, URL_SET_SEGMENT, &text) < 0)
        return err_set(e, EINVAL, "the name is too long");
    result = docker_ask(d, HTTP_DELETE, 0, e, "/volumes/%s", text.p);
    if (result == -ESTALE)
        return err_set(e, EBUSY, "sandboxes mount the volume: %s", e->msg);
    return result < 0 ? result : 0;
}
