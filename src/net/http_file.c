/* http_file.c - a file as a reply: ranges and conditions of RFC 9110, sent by sendfile. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/time.h"
#include "net/http_server.h"
#include "net/http_server_internal.h"

static void file_header(struct http_req *req, struct str name, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static void file_header(struct http_req *req, struct str name, const char *fmt, ...)
{
    char value[96];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(value, sizeof(value), fmt, ap);
    va_end(ap);
    (void)http_reply_header(req, name, str_of(value));
}

/* Compares a date header with the file's time, in whole seconds as HTTP dates. */
static bool file_newer_than(const struct http_req *req, struct str header, int64_t mtime_s,
                            bool *ret_newer)
{
    int64_t us;

    if (time_parse_http(http_req_header(req, header), &us, NULL) < 0)
        return false; /* absent or invalid: no condition */
    *ret_newer = mtime_s > us / TIME_US_PER_S;
    return true;
}

/* 304, 412, or 0 when the file is to be sent. */
static int file_condition(const struct http_req *req, int64_t mtime_s)
{
    bool newer;

    if (file_newer_than(req, STR("If-Unmodified-Since"), mtime_s, &newer) && newer)
        return 412;
    if (file_newer_than(req, STR("If-Modified-Since"), mtime_s, &newer) && !newer)
        return 304;
    return 0;
}

/* The Range header, if it applies: for GET, in bytes, and the file is the one the client knows. */
static struct str file_range_wanted(const struct http_req *req, int64_t mtime_s)
{
    const struct str unit = STR("bytes=");
    struct str wanted = http_req_header(req, STR("Range"));
    struct str known = http_req_header(req, STR("If-Range"));
    int64_t us;

    if (req->head.method != HTTP_GET || wanted.n < unit.n ||
        !str_eq_nocase(str_make(wanted.p, unit.n), unit))
        return STR_NONE;
    if (known.p && (time_parse_http(known, &us, NULL) < 0 || us / TIME_US_PER_S != mtime_s))
        return STR_NONE;
    return wanted;
}

static void file_send(struct http_req *req, int fd, int status, struct str type,
                      struct http_range range)
{
    http_reply_begin(req, status, type, range.bytes);
    if (req->reply_state != HTTP_REPLY_LENGTH || range.bytes == 0) {
        req->reply_left = 0; /* HEAD, or nothing to send */
        fd_close(fd);
        http_reply_end(req, 0);
        return;
    }
    req->reply_state = HTTP_REPLY_FILE;
    req->file_fd = fd;
    stream_send_file(&req->conn->stream, fd, (int64_t)range.offset, range.bytes);
}

static void file_send_range(struct http_req *req, int fd, struct str type, uint64_t size,
                            struct str wanted)
{
    struct http_range range;
    int r = http_range_parse(wanted, size, &range);

    if (r < 0) {
        fd_close(fd);
        file_header(req, STR("Content-Range"), "bytes */%llu", (unsigned long long)size);
        http_reply_error(req, 416, NULL, "%s: expected bytes=FROM-TO within %llu bytes",
                         r == -EINVAL ? "malformed Range" : "Range outside the file",
                         (unsigned long long)size);
        return;
    }
    file_header(req, STR("Content-Range"), "bytes %llu-%llu/%llu", (unsigned long long)range.offset,
                (unsigned long long)(range.offset + range.bytes - 1), (unsigned long long)size);
    file_send(req, fd, 206, type, range);
}

void http_reply_file(struct http_req *req, int fd, struct str type)
{
    struct str wanted;
    char date[TIME_HTTP_MAX];
    struct stat st;
    int status;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        fd_close(fd);
        http_reply_error(req, 500, NULL, "not a regular file");
        return;
    }
    status = file_condition(req, st.st_mtime);
    if (status) {
        fd_close(fd);
        http_reply(req, status, STR_NONE, STR_NONE);
        return;
    }
    time_format_http((int64_t)st.st_mtime * TIME_US_PER_S, date);
    file_header(req, STR("Accept-Ranges"), "bytes");
    file_header(req, STR("Last-Modified"), "%s", date);
    wanted = file_range_wanted(req, st.st_mtime);
    if (wanted.p && st.st_size > 0)
        file_send_range(req, fd, type, (uint64_t)st.st_size, wanted);
    else
        file_send(req, fd, 200, type, (struct http_range){0, (uint64_t)st.st_size});
}
