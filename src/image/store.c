#include "image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "image/store_internal.h"

enum { PART_SECONDS_MAX = 24 * 3600, HEX_BYTES = 2 * SHA512_BYTES };

/* --- opening --- */

bool image_store_is_hex(const char *name)
{
    size_t n = strlen(name);

    return (n == (size_t)2 * SHA256_BYTES || n == HEX_BYTES) &&
           strspn(name, "0123456789abcdef") == n;
}

static int dir_open(int parent, const char *name, int *ret, struct err *e)
{
    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make '%s'", name);
    *ret = fd_open_at(parent, name, O_RDONLY | O_DIRECTORY, 0, PATH_FREE, e);
    return *ret < 0 ? *ret : 0;
}

int image_store_each(int dir, int (*visit)(struct image_store *s, const char *name, struct err *e),
                     struct image_store *s, struct err *e)
{
    auto_fd fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;

    if (!list)
        return err_sys(e, errno, "list the store");
    (void)take_fd(&fd);
    for (const struct dirent *d; r == 0 && (d = readdir(list));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            r = visit(s, d->d_name, e);
    closedir(list);
    return r;
}

static int blob_note(struct image_store *s, struct str hex, uint64_t bytes)
{
    uint64_t *size = mem_new(uint64_t);
    int r;

    *size = bytes;
    r = map_set(&s->blob_sizes, hex, size);
    if (r < 0)
        free(size);
    return r;
}

/* io_write_file_atomic() leaves temporary names when it is killed. */
static int blob_load(struct image_store *s, const char *name, struct err *e)
{
    struct stat st;
    int r;

    if (fstatat(s->blobs, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (!image_store_is_hex(name) || !S_ISREG(st.st_mode)) {
        (void)unlinkat(s->blobs, name, 0);
        return 0;
    }
    r = blob_note(s, str_of(name), (uint64_t)st.st_size);
    return r < 0 ? err_sys(e, -r, "remember a blob") : 0;
}

static int part_load(struct image_store *s, const char *name, struct err *e UNUSED)
{
    struct stat st;

    if (fstatat(s->parts, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (!image_store_is_hex(name) || st.st_mtime + PART_SECONDS_MAX < time(NULL)))
        (void)unlinkat(s->parts, name, 0);
    return 0;
}

static int open_dirs(struct image_store *s, const char *path, struct err *e)
{
    const struct {
        const char *name;
        int *fd;
    } rows[] = {
        {"blobs",  &s->blobs },
        {"parts",  &s->parts },
        {"layers", &s->layers},
        {"images", &s->images},
    };
    int r = dir_open(AT_FDCWD, path, &s->dir, e);

    if (r == 0 && flock(s->dir, LOCK_EX | LOCK_NB) < 0)
        r = err_set(e, EBUSY, "another process uses '%s'", path);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(rows); i++)
        r = dir_open(s->dir, rows[i].name, rows[i].fd, e);
    return r;
}

static void boot_read(struct image_store *s)
{
    AUTO_BUF(id, sizeof(s->boot) - 1);

    if (io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", sizeof(s->boot) - 1, &id, NULL) <
            0 ||
        str_copy(s->boot, sizeof(s->boot), str_trim(str_make(id.p, str_find(buf_str(&id), '\n')))) <
            0)
        (void)snprintf(s->boot, sizeof(s->boot), "unknown");
}

int image_store_open(const struct image_store_conf *conf, struct image_store **ret, struct err *e)
{
    struct image_store *s = mem_new(struct image_store);
    int r;

    *s = (struct image_store){
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
        .hands = conf->hands,
        .dir = -EBADF,
        .blobs = -EBADF,
        .parts = -EBADF,
        .layers = -EBADF,
        .images = -EBADF,
    };
    map_init(&s->blob_sizes, IMAGE_STORE_BLOBS_MAX, free);
    map_init(&s->layer_states, IMAGE_STORE_BLOBS_MAX, free);
    map_init(&s->records, IMAGE_STORE_IMAGES_MAX, free);
    map_init(&s->pinned, IMAGE_STORE_BLOBS_MAX, free);
    map_init(&s->open_parts, IMAGE_STORE_BLOBS_MAX, NULL);
    boot_read(s);
    r = open_dirs(s, conf->path, e);
    if (r == 0)
        r = image_store_each(s->blobs, blob_load, s, e);
    if (r == 0)
        r = image_store_each(s->parts, part_load, s, e);
    if (r == 0)
        r = image_store_layers_load(s, e);
    if (r == 0)
        r = image_store_records_load(s, e);
    if (r < 0) {
        image_store_close(s);
        return err_wrap(e, r, "image store '%s'", conf->path);
    }
    *ret = s;
    return 0;
}

void image_store_close(struct image_store *s)
{
    if (!s)
        return;
    map_done(&s->blob_sizes);
    map_done(&s->layer_states);
    map_done(&s->records);
    map_done(&s->pinned);
    map_done(&s->open_parts);
    fd_close(s->blobs);
    fd_close(s->parts);
    fd_close(s->layers);
    fd_close(s->images);
    fd_close(s->dir);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->changed);
    free(s);
}

/* --- pins --- */

struct image_store_pins {
    struct image_store *store;
    struct map set; /* by hex */
};

struct image_store_pins *image_store_pins_new(struct image_store *s)
{
    struct image_store_pins *p = mem_new(struct image_store_pins);

    p->store = s;
    map_init(&p->set, IMAGE_STORE_BLOBS_MAX, NULL);
    return p;
}

/* Memory is all that can be missing; then the digest is not pinned, and gc may take it when no
 * record names it. */
void image_store_pins_add(struct image_store_pins *p, const struct image_digest *digest)
{
    struct image_store *s = p->store;
    struct str hex = image_store_hex(digest);
    size_t *count;

    if (!image_digest_is_set(digest) || map_add(&p->set, hex, NULL) < 0)
        return;
    image_store_take_lock(s);
    count = map_get(&s->pinned, hex);
    if (!count) {
        count = mem_new(size_t);
        if (map_add(&s->pinned, hex, count) < 0) {
            free(count);
            count = NULL;
        }
    }
    if (count)
        ++*count;
    image_store_give_lock(s);
}

void image_store_pins_free(struct image_store_pins *p)
{
    struct str hex;
    size_t at = 0;

    if (!p)
        return;
    image_store_take_lock(p->store);
    while (map_next(&p->set, &at, &hex, NULL)) {
        size_t *count = map_get(&p->store->pinned, hex);

        if (count && --*count == 0)
            (void)map_remove(&p->store->pinned, hex);
    }
    image_store_give_lock(p->store);
    map_done(&p->set);
    free(p);
}

bool image_store_is_pinned(const struct image_store *s, struct str hex)
{
    return map_has(&s->pinned, hex);
}

/* --- blobs --- */

int image_store_blob_find(struct image_store *s, const struct image_digest *digest,
                          uint64_t *ret_bytes)
{
    const uint64_t *size;

    image_store_take_lock(s);
    size = map_get(&s->blob_sizes, image_store_hex(digest));
    if (size && ret_bytes)
        *ret_bytes = *size;
    image_store_give_lock(s);
    return size != NULL;
}

static int blob_appeared(struct image_store *s, const struct image_digest *digest, uint64_t bytes,
                         struct err *e)
{
    int r;

    image_store_take_lock(s);
    r = blob_note(s, image_store_hex(digest), bytes);
    image_store_give_lock(s);
    return r < 0 ? err_sys(e, -r, "remember blob %s", digest->text) : 0;
}

int image_store_blob_put(struct image_store *s, const struct image_digest *digest, struct str bytes,
                         struct err *e)
{
    int r = io_write_file_atomic(s->blobs, image_digest_hex(digest), bytes, 0600, e);

    return r < 0 ? err_wrap(e, r, "blob %s", digest->text) : blob_appeared(s, digest, bytes.n, e);
}

int image_store_blob_open(struct image_store *s, const struct image_digest *digest, struct err *e)
{
    return fd_open_at(s->blobs, image_digest_hex(digest), O_RDONLY, 0, PATH_STRICT, e);
}

int image_store_blob_read(struct image_store *s, const struct image_digest *digest,
                          size_t bytes_max, struct buf *out, struct err *e)
{
    int r = io_read_regular(s->blobs, image_digest_hex(digest), bytes_max, out, e);

    return r < 0 ? err_wrap(e, r, "blob %s", digest->text) : 0;
}

int image_store_blob_unlink(struct image_store *s, struct str hex, struct err *e)
{
    char name[HEX_BYTES + 1];

    if (str_copy(name, sizeof(name), hex) < 0)
        return -EINVAL;
    if (unlinkat(s->blobs, name, 0) < 0 && errno != ENOENT)
        return err_sys(e, errno, "remove blob %s", name);
    (void)map_remove(&s->blob_sizes, hex);
    return 0;
}

/* --- blobs in pieces --- */

int image_store_part_open(struct image_store *s, const struct image_digest *digest, int *ret_fd,
                          uint64_t *ret_have, struct err *e)
{
    auto_fd fd = -EBADF;
    struct stat st;
    int r;

    image_store_take_lock(s);
    r = map_add(&s->open_parts, image_store_hex(digest), NULL);
    image_store_give_lock(s);
    if (r < 0)
        return err_set(e, r == -EEXIST ? EBUSY : -r, "blob %s is being fetched already",
                       digest->text);
    fd = fd_open_at(s->parts, image_digest_hex(digest), O_RDWR | O_CREAT, 0600, PATH_STRICT, e);
    r = fd < 0 ? fd : fstat(fd, &st) < 0 ? err_sys(e, errno, "size a part") : 0;
    if (r < 0) {
        image_store_part_abandon(s, digest, -EBADF, true);
        return r;
    }
    *ret_have = (uint64_t)st.st_size;
    *ret_fd = take_fd(&fd);
    return 0;
}

void image_store_part_abandon(struct image_store *s, const struct image_digest *digest, int fd,
                              bool keep)
{
    fd_close(fd);
    if (!keep)
        (void)unlinkat(s->parts, image_digest_hex(digest), 0);
    image_store_take_lock(s);
    (void)map_remove(&s->open_parts, image_store_hex(digest));
    image_store_give_lock(s);
}

/* Closes fd, which is durable, and lets the name appear. */
static int part_publish(struct image_store *s, const struct image_digest *digest, const char *from,
                        uint64_t bytes, struct err *e)
{
    if (renameat(s->parts, from, s->blobs, image_digest_hex(digest)) < 0)
        return err_sys(e, errno, "place blob %s", digest->text);
    if (fsync(s->blobs) < 0)
        return err_sys(e, errno, "place blob %s", digest->text);
    return blob_appeared(s, digest, bytes, e);
}

int image_store_part_commit(struct image_store *s, const struct image_digest *digest, int fd,
                            struct err *e)
{
    struct stat st;
    int r = fsync(fd) < 0 || fstat(fd, &st) < 0
                ? err_sys(e, errno, "write blob %s", digest->text)
                : part_publish(s, digest, image_digest_hex(digest), (uint64_t)st.st_size, e);

    image_store_part_abandon(s, digest, fd, true);
    return r;
}

int image_store_temp_open(struct image_store *s, struct err *e)
{
    int fd = openat(s->parts, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    return fd < 0 ? err_sys(e, errno, "make a file in the image store") : fd;
}

int image_store_temp_commit(struct image_store *s, const struct image_digest *digest, int fd,
                            struct err *e)
{
    auto_fd file = fd;
    char link[64], name[80];
    struct stat st;
    int r;

    if (fsync(file) < 0 || fstat(file, &st) < 0)
        return err_sys(e, errno, "write blob %s", digest->text);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    (void)snprintf(name, sizeof(name), "%s.%d", image_digest_hex(digest), file);
    (void)unlinkat(s->parts, name, 0); /* ours alone: the number of an open file is in it */
    if (linkat(AT_FDCWD, link, s->parts, name, AT_SYMLINK_FOLLOW) < 0)
        return err_sys(e, errno, "name blob %s", digest->text);
    r = part_publish(s, digest, name, (uint64_t)st.st_size, e);
    if (r < 0)
        (void)unlinkat(s->parts, name, 0);
    return r;
}
