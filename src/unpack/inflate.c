#include "unpack/inflate.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"

enum {
    INPUT_BYTES = 256 << 10,
    GZIP_WINDOW = 15 + 16,    /* the largest, with gzip's head */
    ZSTD_WINDOW_LOG_MAX = 27, /* 128 MiB, what zstd itself accepts unless told otherwise */
};

enum form { FORM_PLAIN, FORM_GZIP, FORM_ZSTD };

struct inflate {
    int fd;
    enum form form;
    bool at_end; /* of the blob */
    bool open;   /* within a compressed member or frame */
    uint64_t taken;
    z_stream gzip;
    bool has_gzip;
    ZSTD_DCtx *zstd;
    size_t at, n; /* unread part of the input */
    char input[INPUT_BYTES];
};

void inflate_close(struct inflate *i)
{
    if (!i)
        return;
    if (i->has_gzip)
        (void)inflateEnd(&i->gzip);
    (void)ZSTD_freeDCtx(i->zstd);
    free(i);
}

uint64_t inflate_taken(const struct inflate *i)
{
    return i->taken;
}

/* Reads more of the blob; 0 at its end. */
static int refill(struct inflate *i, struct err *e)
{
    ssize_t n;

    if (i->at < i->n || i->at_end)
        return 0;
    do
        n = read(i->fd, i->input, sizeof(i->input));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, errno, "read the blob");
    i->at = 0;
    i->n = (size_t)n;
    i->at_end = n == 0;
    i->taken += (uint64_t)n;
    return 0;
}

static enum form form_of(const char *p, size_t n)
{
    if (n >= 2 && memcmp(p, "\x1f\x8b", 2) == 0)
        return FORM_GZIP;
    if (n >= 4 && (memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0 ||
                   (memcmp(p + 1, "\x2a\x4d\x18", 3) == 0 && (p[0] & 0xf0) == 0x50)))
        return FORM_ZSTD;
    return FORM_PLAIN;
}

int inflate_open(int fd, struct inflate **ret, struct err *e)
{
    struct inflate *i = mem_alloc(sizeof(*i));
    int r;

    memset(i, 0, offsetof(struct inflate, input));
    i->fd = fd;
    r = refill(i, e);
    if (r == 0)
        i->form = form_of(i->input, i->n);
    if (r == 0 && i->form == FORM_GZIP) {
        i->has_gzip = inflateInit2(&i->gzip, GZIP_WINDOW) == Z_OK;
        i->open = true;
        r = i->has_gzip ? 0 : err_set(e, ENOMEM, "no memory to uncompress");
    }
    if (r == 0 && i->form == FORM_ZSTD) {
        i->zstd = ZSTD_createDCtx();
        r = i->zstd ? 0 : err_set(e, ENOMEM, "no memory to uncompress");
        if (r == 0)
            (void)ZSTD_DCtx_setParameter(i->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
    }
    if (r < 0) {
        inflate_close(i);
        return r;
    }
    *ret = i;
    return 0;
}

static int half_way(struct err *e)
{
    return err_set(e, EBADMSG, "the compressed layer ends half way");
}

/* Each of these returns the number of bytes made, maybe 0, or -errno. */
static ssize_t step_plain(struct inflate *i, char *room, size_t bytes, struct err *e UNUSED)
{
    size_t n = min_size(bytes, i->n - i->at);

    memcpy(room, i->input + i->at, n);
    i->at += n;
    return (ssize_t)n;
}

static ssize_t step_gzip(struct inflate *i, char *room, size_t bytes, struct err *e)
{
    int r;

    if (!i->open) { /* another member */
        if (inflateReset(&i->gzip) != Z_OK)
            return err_set(e, EIO, "cannot uncompress");
        i->open = true;
    }
    i->gzip.next_in = (Bytef *)i->input + i->at;
    i->gzip.avail_in = (uInt)(i->n - i->at);
    i->gzip.next_out = (Bytef *)room;
    i->gzip.avail_out = (uInt)bytes;
    r = inflate(&i->gzip, Z_NO_FLUSH);
    i->at = i->n - i->gzip.avail_in;
    if (r == Z_STREAM_END)
        i->open = false;
    else if (r == Z_MEM_ERROR)
        return err_set(e, ENOMEM, "no memory to uncompress");
    else if (r != Z_OK && r != Z_BUF_ERROR)
        return err_set(e, EBADMSG, "the compressed layer is damaged: %s",
                       i->gzip.msg ? i->gzip.msg : "not gzip");
    return (ssize_t)(bytes - i->gzip.avail_out);
}

static ssize_t step_zstd(struct inflate *i, char *room, size_t bytes, struct err *e)
{
    ZSTD_inBuffer in = {i->input, i->n, i->at};
    ZSTD_outBuffer out = {room, bytes, 0};
    size_t r = ZSTD_decompressStream(i->zstd, &out, &in);

    if (ZSTD_isError(r))
        return err_set(e, EBADMSG, "the compressed layer is damaged: %s", ZSTD_getErrorName(r));
    i->at = in.pos;
    i->open = r != 0;
    return (ssize_t)out.pos;
}

ssize_t inflate_read(struct inflate *i, char *room, size_t bytes, struct err *e)
{
    static ssize_t (*const steps[])(struct inflate * i, char *room, size_t bytes, struct err *e) = {
        [FORM_PLAIN] = step_plain,
        [FORM_GZIP] = step_gzip,
        [FORM_ZSTD] = step_zstd,
    };
    size_t done = 0;

    while (done < bytes) {
        int r = refill(i, e);
        ssize_t n;
        bool had = i->at < i->n;

        if (r < 0)
            return r;
        if (!had && !i->open)
            break;
        n = steps[i->form](i, room + done, bytes - done, e);
        if (n < 0)
            return n;
        if (n == 0 && !had) /* all input was used, and more was expected */
            return half_way(e);
        done += (size_t)n;
    }
    return (ssize_t)done;
}
