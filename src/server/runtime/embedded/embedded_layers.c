#include "server/runtime/embedded/embedded_layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/runtime/embedded/embedded_internal.h"

enum {
    SOURCE_BYTES_MAX = 64 << 10,
    SOURCE_ARENA_MAX = 1 << 20,
    LAYERS_MAX = 1 << 20, /* more than there can be sandboxes and snapshots */
};

#define SNAPSHOT_SUFFIX ".json"

/* --- files that name layers --- */

static int source_parse(struct str text, struct embedded_source *ret, struct err *e)
{
    AUTO_ARENA(arena, SOURCE_ARENA_MAX);
    struct json *root = NULL;
    struct str base;
    int r = json_parse(&arena, text, NULL, &root, e);

    if (r < 0)
        return r;
    *ret = (struct embedded_source){0};
    (void)!json_to_u64(json_get(root, STR("sizeBytes")), &ret->size_bytes);
    (void)!json_to_u64(json_get(root, STR("frozenUs")), &ret->frozen_us);
    if (json_to_str(json_get(root, STR("base")), &base) < 0 ||
        str_copy(ret->base, sizeof(ret->base), base) < 0)
        return err_set(e, EBADMSG, "base: expected a text");
    json_each(v, json_get(root, STR("layers")))
    {
        struct str id;

        if (ret->count == PLAN_LAYERS_MAX || json_to_str(v, &id) < 0 ||
            str_copy(ret->layers[ret->count], ID_UUID_MAX, id) < 0 || !plan_id_is_valid(id))
            return err_set(e, EBADMSG, "layers: expected at most %d ids", PLAN_LAYERS_MAX);
        ret->count++;
    }
    return 0;
}

static int source_print(const struct embedded_source *s, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("base"), str_of(s->base));
    json_write_key(&w, STR("layers"));
    json_write_array(&w);
    for (size_t i = 0; i < s->count; i++)
        json_write_string(&w, str_of(s->layers[i]));
    json_write_array_end(&w);
    if (s->size_bytes)
        json_member_u64(&w, STR("sizeBytes"), s->size_bytes);
    if (s->frozen_us)
        json_member_u64(&w, STR("frozenUs"), s->frozen_us);
    json_write_object_end(&w);
    return json_write_end(&w);
}

int embedded_source_read(int dir, const char *name, struct embedded_source *ret, struct err *e)
{
    AUTO_BUF(text, SOURCE_BYTES_MAX);
    int r = io_read_regular(dir, name, SOURCE_BYTES_MAX, &text, e);

    if (r < 0)
        return r;
    if (text.n == 0) /* the server was killed before it wrote it, and before the sandbox began */
        return err_set(e, ENOENT, "'%s' is empty", name);
    r = source_parse(buf_str(&text), ret, e);
    return r < 0 ? err_wrap(e, r, "'%s'", name) : 0;
}

/* A sandbox does not survive a power cut, so its file need not either. */
static int write_plainly(int dir, const char *name, struct str text, struct err *e)
{
    auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : io_write_full(fd, text, DEADLINE_NEVER);

    return r < 0 ? err_sys(e, -r, "write '%s'", name) : 0;
}

/* --- counting; with the lock held --- */

/* Counts are kept as the values themselves. */
static uintptr_t users_of(const struct embedded_layers *l, const char *layer)
{
    return (uintptr_t)map_get(&l->users, str_of(layer));
}

static int set_users(struct embedded_layers *l, const char *layer, uintptr_t count)
{
    if (count)
        return map_set(&l->users, str_of(layer), (void *)count);
    (void)map_remove(&l->users, str_of(layer));
    return 0;
}

/* Changes them by -1. */
static void forget_users(struct embedded_layers *l, const struct embedded_source *s, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (users_of(l, s->layers[i]))
            (void)!set_users(l, s->layers[i], users_of(l, s->layers[i]) - 1);
}

static int add_users(struct embedded_layers *l, const struct embedded_source *s, struct err *e)
{
    for (size_t i = 0; i < s->count; i++)
        if (set_users(l, s->layers[i], users_of(l, s->layers[i]) + 1) < 0) {
            forget_users(l, s, i);
            return err_set(e, ENOMEM, "too many layers of snapshots");
        }
    return 0;
}

static void erase_unused(struct embedded *em, const struct embedded_source *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct err e = {0};

        if (!em->layers.doubtful && !users_of(&em->layers, s->layers[i]) &&
            embedded_layer_erase(em, s->layers[i], &e) < 0)
            log_event(LOG_WARN,
                      "cannot erase a layer that nothing uses, the next start tries again",
                      LOG_STR("layer", s->layers[i]), LOG_STR("error", e.msg));
    }
}

/* --- users --- */

/* An image that is a base must stay, too. */
static int hold_image(struct embedded *em, const struct embedded_source *s, struct err *e)
{
    struct image_digest id;
    int r = embedded_source_image(s, &id);

    return r == 1 ? images_hold(em->base.images, &id, e) : 0;
}

static void release_image(struct embedded *em, const struct embedded_source *s)
{
    struct image_digest id;

    if (embedded_source_image(s, &id) == 1)
        images_release(em->base.images, &id);
}

int embedded_source_image(const struct embedded_source *s, struct image_digest *ret)
{
    struct str base = str_of(s->base);

    return str_starts(base, STR(EMBEDDED_IMAGE_PREFIX)) &&
           image_digest_parse(str_skip(base, STR(EMBEDDED_IMAGE_PREFIX).n), ret, NULL) == 0;
}

static bool has_all_layers(const struct embedded_layers *l, const struct embedded_source *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (!users_of(l, s->layers[i]))
            return false;
    return true;
}

/* With the lock held. */
static int write_counted(struct embedded *em, int dir, const char *name,
                         const struct embedded_source *s, bool lasting, struct err *e)
{
    AUTO_BUF(text, SOURCE_BYTES_MAX);
    int r = source_print(s, &text) < 0 ? err_set(e, EMSGSIZE, "'%s' is too large", name) : 0;

    if (r == 0)
        r = hold_image(em, s, e);
    if (r < 0)
        return r;
    r = add_users(&em->layers, s, e);
    if (r < 0) {
        release_image(em, s);
        return r;
    }
    r = lasting ? io_write_file_atomic(dir, name, buf_str(&text), 0600, e)
                : write_plainly(dir, name, buf_str(&text), e);
    if (r < 0) {
        forget_users(&em->layers, s, s->count);
        release_image(em, s);
    }
    return r;
}

int embedded_source_write(struct embedded *em, int dir, const char *name,
                          const struct embedded_source *s, bool lasting, struct err *e)
{
    int r = 0;

    (void)pthread_mutex_lock(&em->layers.lock);
    if (!lasting && !has_all_layers(&em->layers, s))
        r = err_set(e, ESTALE, "the snapshot was deleted meanwhile");
    if (r == 0)
        r = write_counted(em, dir, name, s, lasting, e);
    if (r < 0)
        (void)unlinkat(dir, name, 0);
    (void)pthread_mutex_unlock(&em->layers.lock);
    return r;
}

int embedded_source_replace(struct embedded *em, int dir, const char *name,
                            const struct embedded_source *s, struct err *e)
{
    auto_free struct embedded_source *old = mem_new(struct embedded_source);
    int r;

    (void)pthread_mutex_lock(&em->layers.lock);
    r = embedded_source_read(dir, name, old, e);
    if (r == -ENOENT)
        r = 0;
    if (r == 0 && !has_all_layers(&em->layers, s))
        r = err_set(e, ESTALE, "the snapshot was deleted meanwhile");
    if (r == 0)
        r = write_counted(em, dir, name, s, true, e);
    if (r == 0) {
        forget_users(&em->layers, old, old->count);
        release_image(em, old);
        erase_unused(em, old);
    }
    (void)pthread_mutex_unlock(&em->layers.lock);
    return r;
}

int embedded_source_remove(struct embedded *em, int dir, const char *name, struct err *e)
{
    auto_free struct embedded_source *s = mem_new(struct embedded_source);
    int r;

    (void)pthread_mutex_lock(&em->layers.lock);
    r = embedded_source_read(dir, name, s, e);
    if (r == 0 && unlinkat(dir, name, 0) < 0)
        r = err_sys(e, errno, "remove '%s'", name);
    if (r == 0) {
        forget_users(&em->layers, s, s->count);
        release_image(em, s);
        erase_unused(em, s);
    }
    (void)pthread_mutex_unlock(&em->layers.lock);
    return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

int embedded_source_hold(struct embedded *em, int dir, const char *name,
                         struct embedded_source *ret, struct err *e)
{
    int r;

    (void)pthread_mutex_lock(&em->layers.lock);
    r = embedded_source_read(dir, name, ret, e);
    if (r == 0)
        r = hold_image(em, ret, e);
    if (r == 0) {
        r = add_users(&em->layers, ret, e);
        if (r < 0)
            release_image(em, ret);
    }
    (void)pthread_mutex_unlock(&em->layers.lock);
    return r;
}

void embedded_source_release(struct embedded *em, const struct embedded_source *s)
{
    (void)pthread_mutex_lock(&em->layers.lock);
    forget_users(&em->layers, s, s->count);
    release_image(em, s);
    erase_unused(em, s);
    (void)pthread_mutex_unlock(&em->layers.lock);
}

int embedded_source_open(struct embedded *em, const struct embedded_source *s, int *fds,
                         struct err *e)
{
    for (size_t i = 0; i < s->count; i++) {
        fds[i] =
            openat(em->layers.dir, s->layers[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fds[i] < 0) {
            int r = err_sys(e, errno, "open the layer '%s'", s->layers[i]);

            while (i > 0)
                fd_close(fds[--i]);
            return r;
        }
    }
    return 0;
}

/* --- erasing --- */

struct erasure {
    int dir;
    const char *name;
};

static int call_erase(void *user, struct broker_client *client, struct err *e)
{
    struct erasure *x = user;

    return broker_erase(client, x->dir, x->name, e);
}

int embedded_layer_erase(struct embedded *em, const char *name, struct err *e)
{
    struct erasure x = {em->layers.dir, name};
    int r = faccessat(x.dir, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0
                ? -ENOENT
                : embedded_call(em, call_erase, &x, e);

    return r == -ENOENT ? 0 : r;
}

/* --- start-up --- */

/* Calls visit for each name in the directory but those that begin with a dot. */
static int each_name(int dir, void (*visit)(struct embedded *em, const char *name),
                     struct embedded *em, struct err *e)
{
    DIR *list = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *entry;

    if (!list)
        return err_sys(e, errno, "list a directory");
    while ((entry = readdir(list)))
        if (entry->d_name[0] != '.')
            visit(em, entry->d_name);
    (void)closedir(list);
    return 0;
}

static void count_file(struct embedded *em, int dir, const char *name)
{
    auto_free struct embedded_source *s = mem_new(struct embedded_source);
    struct err e = {0};
    int r = embedded_source_read(dir, name, s, &e);

    if (r == 0)
        r = add_users(&em->layers, s, &e);
    if (r == 0 && hold_image(em, s, &e) < 0)
        log_event(LOG_WARN, "the image of a snapshot or sandbox is not whole any more",
                  LOG_STR("file", name), LOG_STR("error", e.msg));
    if (r == 0 || r == -ENOENT)
        return;
    em->layers.doubtful = true;
    log_event(LOG_ERROR, "cannot tell the layers of a snapshot or sandbox, so none is erased",
              LOG_STR("file", name), LOG_STR("error", e.msg));
}

static void count_snapshot(struct embedded *em, const char *name)
{
    if (str_ends(str_of(name), STR(SNAPSHOT_SUFFIX)))
        count_file(em, em->layers.dir, name);
}

static void count_sandbox(struct embedded *em, const char *name)
{
    auto_fd dir = openat(em->sandboxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir >= 0)
        count_file(em, dir, EMBEDDED_SOURCE_FILE);
}

/* Whether it holds the files of a sandbox that is there. */
static bool is_of_sandbox(const struct embedded *em, const char *name)
{
    struct str id = str_of(name);
    char text[PLAN_ID_MAX];

    if (!str_ends(id, STR(EMBEDDED_FILES_SUFFIX)))
        return false;
    id.n -= STR(EMBEDDED_FILES_SUFFIX).n;
    return str_copy(text, sizeof(text), id) < 0 ||
           faccessat(em->sandboxes, text, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether it holds the memory of a snapshot that is there. */
static bool is_of_snapshot(const struct embedded *em, const char *name)
{
    struct str id = str_of(name);
    char file[NAME_MAX + 1];

    if (!str_ends(id, STR(EMBEDDED_MEMORY_SUFFIX)))
        return false;
    id.n -= STR(EMBEDDED_MEMORY_SUFFIX).n;
    (void)snprintf(file, sizeof(file), "%.*s" SNAPSHOT_SUFFIX, STR_ARG(id));
    return faccessat(em->layers.dir, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What a server left that was killed while it made or erased a layer. */
static void sweep_name(struct embedded *em, const char *name)
{
    struct err e = {0};

    if (str_ends(str_of(name), STR(SNAPSHOT_SUFFIX)) || users_of(&em->layers, name) ||
        is_of_sandbox(em, name) || is_of_snapshot(em, name))
        return;
    if (embedded_layer_erase(em, name, &e) < 0)
        log_event(LOG_WARN, "cannot erase a layer that nothing uses, the next start tries again",
                  LOG_STR("layer", name), LOG_STR("error", e.msg));
}

/* Temporary files of io_write_file_atomic() that a kill left: .<id>.json.<random>. */
static void sweep_temporary(const struct embedded *em)
{
    DIR *list = fdopendir(openat(em->layers.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const struct dirent *entry;

    while (list && (entry = readdir(list)))
        if (entry->d_name[0] == '.' &&
            str_find_str(str_of(entry->d_name), STR(SNAPSHOT_SUFFIX ".")) < strlen(entry->d_name))
            (void)unlinkat(em->layers.dir, entry->d_name, 0);
    if (list)
        (void)closedir(list);
}

int embedded_layers_open(struct embedded *em, struct err *e)
{
    (void)pthread_mutex_init(&em->layers.lock, NULL);
    (void)pthread_mutex_init(&em->layers.work_lock, NULL);
    map_init(&em->layers.users, LAYERS_MAX, NULL);
    em->layers.dir = embedded_open_dir(em->conf.dir, "snapshots", e);
    return em->layers.dir < 0 ? em->layers.dir : 0;
}

int embedded_layers_load(struct embedded *em, struct err *e)
{
    int r = each_name(em->layers.dir, count_snapshot, em, e);

    sweep_temporary(em);
    if (r == 0)
        r = each_name(em->sandboxes, count_sandbox, em, e);
    return r < 0 || em->layers.doubtful ? r : each_name(em->layers.dir, sweep_name, em, e);
}

void embedded_layers_done(struct embedded_layers *l)
{
    fd_close(l->dir);
    map_done(&l->users);
    (void)pthread_mutex_destroy(&l->work_lock);
    (void)pthread_mutex_destroy(&l->lock);
}
