#include "dir_blobs.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"

enum { NAME_MAX_BYTES = 80 };

static void blob_name(const struct image_digest *d, const char *end, char out[NAME_MAX_BYTES])
{
    snprintf(out, NAME_MAX_BYTES, "%s%s", image_digest_hex(d), end);
}

static int blobs_begin(void *store, void **ret_session, struct err *e UNUSED)
{
    struct dir_blobs *b = store;

    b->begun++;
    *ret_session = b;
    return 0;
}

static void blobs_end(void *session)
{
    struct dir_blobs *b = session;

    b->ended++;
}

static void record_line(const struct image_reference *reference,
                        const struct image_platform *platform, char *out, size_t size)
{
    char name[IMAGE_REFERENCE_TEXT_MAX], text[IMAGE_PLATFORM_TEXT_MAX];

    image_reference_format(reference, name);
    image_platform_format(platform, text);
    snprintf(out, size, "%s %s sha256:", name, text);
}

static int blobs_find(void *session, const struct image_reference *reference,
                      const struct image_platform *platform, struct image_digest *ret_manifest,
                      struct err *e UNUSED)
{
    struct dir_blobs *b = session;
    char line[1024];
    AUTO_BUF(text, 1 << 20);
    size_t at;

    if (io_read_file(b->dirfd, "images", 1 << 20, &text, NULL) < 0)
        return 0;
    record_line(reference, platform, line, sizeof(line));
    at = str_find_str(buf_str(&text), str_of(line));
    if (at == text.n)
        return 0;
    at += strlen(line) - strlen("sha256:");
    return image_digest_parse(str_make(text.p + at, STR("sha256:").n + 64), ret_manifest, NULL) ==
           0;
}

static int blobs_record(void *session, const struct image_record *record, struct err *e)
{
    struct dir_blobs *b = session;
    char line[1024];
    auto_fd fd = openat(b->dirfd, "images", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    record_line(&record->reference, &record->platform, line, sizeof(line));
    if (fd < 0 || dprintf(fd, "%.*s%s layers=%zu\n", (int)(strlen(line) - strlen("sha256:")), line,
                          record->manifest.text, record->layers_count) < 0)
        return err_sys(e, errno, "record it");
    b->recorded++;
    return 0;
}

static int blobs_has(void *session, const struct image_digest *digest, struct err *e UNUSED)
{
    struct dir_blobs *b = session;

    return faccessat(b->dirfd, image_digest_hex(digest), F_OK, 0) == 0;
}

static int blobs_put(void *session, const struct image_digest *digest, struct str bytes,
                     struct err *e)
{
    struct dir_blobs *b = session;

    return io_write_file_atomic(b->dirfd, image_digest_hex(digest), bytes, 0600, e);
}

static int blobs_read(void *session, const struct image_digest *digest, struct buf *out,
                      struct err *e)
{
    struct dir_blobs *b = session;

    return io_read_file(b->dirfd, image_digest_hex(digest), out->max, out, e);
}

static int blobs_open_part(void *session, const struct image_digest *digest, uint64_t bytes UNUSED,
                           int *ret_fd, uint64_t *ret_have, struct err *e)
{
    struct dir_blobs *b = session;
    char name[NAME_MAX_BYTES];
    struct stat st;
    int fd;

    blob_name(digest, ".part", name);
    if (b->open_error)
        return err_sys(e, b->open_error, "open a part");
    fd = openat(b->dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "open a part");
    b->opened++;
    b->resumed_bytes += (uint64_t)st.st_size;
    *ret_fd = fd;
    *ret_have = (uint64_t)st.st_size;
    return 0;
}

static int blobs_commit(void *session, const struct image_digest *digest, int fd, struct err *e)
{
    struct dir_blobs *b = session;
    char name[NAME_MAX_BYTES];

    blob_name(digest, ".part", name);
    fd_close(fd);
    if (b->commit_error)
        return err_sys(e, b->commit_error, "commit a blob");
    if (renameat(b->dirfd, name, b->dirfd, image_digest_hex(digest)) < 0)
        return err_sys(e, errno, "commit a blob");
    b->committed++;
    return 0;
}

static void blobs_abandon(void *session, const struct image_digest *digest, int fd, bool keep)
{
    struct dir_blobs *b = session;
    char name[NAME_MAX_BYTES];

    blob_name(digest, ".part", name);
    fd_close(fd);
    if (keep) {
        b->abandoned_kept++;
    } else {
        (void)unlinkat(b->dirfd, name, 0);
        b->abandoned_dropped++;
    }
}

/* --- unpacking: waits for the end of a turn, like a helper that is quick --- */

struct unpacking {
    struct loop_timer timer;
    struct dir_blobs *blobs;
    struct image_unpack *unpack;
    int error;
};

static void unpacking_end(struct loop_timer *t)
{
    struct unpacking *u = container_of(t, struct unpacking, timer);
    struct image_unpack *unpack = u->unpack;
    int error = u->error;

    u->blobs->unpacked += error == 0;
    if (error)
        err_sys(&unpack->err, error, "unpack it");
    free(u);
    unpack->done(unpack, error);
}

static int blobs_unpack(void *session, struct image_unpack *unpack, struct err *e UNUSED)
{
    struct dir_blobs *b = session;
    struct unpacking *u = mem_new(struct unpacking);

    u->blobs = b;
    u->unpack = unpack;
    u->error = b->unpack_error;
    unpack->user = u;
    if (!b->unpack_hangs)
        loop_timer_after(b->loop, &u->timer, 0, unpacking_end);
    return 0;
}

static void blobs_unpack_cancel(void *session UNUSED, struct image_unpack *unpack)
{
    struct unpacking *u = unpack->user;

    u->error = ECANCELED;
    loop_timer_after(u->blobs->loop, &u->timer, 0, unpacking_end);
}

const struct image_blobs_ops dir_blobs_ops = {
    .begin = blobs_begin,
    .end = blobs_end,
    .find = blobs_find,
    .record = blobs_record,
    .has = blobs_has,
    .put = blobs_put,
    .read = blobs_read,
    .open_part = blobs_open_part,
    .commit = blobs_commit,
    .abandon = blobs_abandon,
    .unpack = blobs_unpack,
    .unpack_cancel = blobs_unpack_cancel,
};
