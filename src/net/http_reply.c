/* http_reply.c - the answer to a request: complete, in pieces, or aborted. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/json_write.h"
#include "base/time.h"
#include "net/http_server.h"
#include "net/http_server_internal.h"

enum { ERROR_MESSAGE_MAX = 512, ERROR_CODE_MAX = 64 };

int http_reply_header(struct http_req *req, struct str name, struct str value)
{
    assert(req->reply_state == HTTP_REPLY_NONE);
    return h1_write_header(&req->reply_headers, name, value);
}

/* --- the head --- */

/* "Date: ...", updated once a second. */
static struct str reply_date_line(struct http_server *s)
{
    uint64_t now = loop_now_ns(s->loop);

    if (now >= s->date_until_ns) {
        char date[TIME_HTTP_MAX];
        int64_t wall_us = time_wall_us();

        time_format_http(wall_us, date);
        snprintf(s->date_line, sizeof(s->date_line), "Date: %s\r\n", date);
        s->date_until_ns = now + (uint64_t)(TIME_US_PER_S - wall_us % TIME_US_PER_S) * 1000;
    }
    return str_make(s->date_line, sizeof(s->date_line) - 1);
}

static bool status_has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

static enum http_reply_state reply_framing(const struct http_req *req, int status, uint64_t length)
{
    if (req->head.method == HTTP_HEAD || !status_has_body(status))
        return HTTP_REPLY_SILENT;
    if (length != HTTP_UNKNOWN_LENGTH)
        return HTTP_REPLY_LENGTH;
    return req->head.minor > 0 ? HTTP_REPLY_CHUNKED : HTTP_REPLY_CLOSE;
}

static int reply_write_framing(struct http_req *req, struct buf *out, int status, uint64_t length)
{
    if (!status_has_body(status))
        return 0;
    if (length != HTTP_UNKNOWN_LENGTH)
        return h1_write_header_u64(out, STR("Content-Length"), length);
    return req->head.minor > 0 ? buf_add(out, STR("Transfer-Encoding: chunked\r\n")) : 0;
}

static int reply_write_connection(const struct http_req *req, struct buf *out)
{
    if (!req->keep_alive)
        return buf_add(out, STR("Connection: close\r\n"));
    return req->head.minor == 0 || req->say_keep_alive
               ? buf_add(out, STR("Connection: keep-alive\r\n"))
               : 0;
}

/* Sets the kind of reply. */
static void reply_start(struct http_req *req, int status, uint64_t length)
{
    assert(req->reply_state == HTTP_REPLY_NONE);
    req->status = status;
    req->reply_state = reply_framing(req, status, length);
    req->reply_left = length;
    if (req->reply_state == HTTP_REPLY_CLOSE || req->conn->server->draining ||
        http_req_body_in_the_way(req))
        req->keep_alive = false;
}

/* A reply whose head could not be queued is aborted. */
static int reply_head_written(struct http_req *req, int r)
{
    struct stream *st = &req->conn->stream;

    if (r == 0)
        r = h1_write_end(&st->out);
    if (r < 0)
        stream_close(st, -r);
    else
        stream_flush_soon(st);
    return r;
}

static int reply_head(struct http_req *req, int status, struct str type, uint64_t length)
{
    struct http_conn *c = req->conn;
    struct buf *out;
    int r;

    reply_start(req, status, length);
    if (!stream_is_open(&c->stream))
        return 0;
    out = stream_out(&c->stream);
    r = h1_write_status(out, status);
    if (r == 0)
        r = buf_add(out, reply_date_line(c->server));
    if (r == 0 && type.n)
        r = h1_write_header(out, STR("Content-Type"), type);
    if (r == 0)
        r = reply_write_framing(req, out, status, length);
    if (r == 0)
        r = reply_write_connection(req, out);
    if (r == 0)
        r = buf_add(out, buf_str(&req->reply_headers));
    return reply_head_written(req, r);
}

void http_reply_continue(struct http_req *req)
{
    req->continue_due = false;
    (void)stream_write(&req->conn->stream, STR("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* --- complete replies --- */

static void reply_done(struct http_req *req)
{
    req->reply_state = HTTP_REPLY_DONE;
    http_req_answered(req);
    if (!req->in_callback)
        http_conn_settle_soon(req->conn);
}

void http_reply(struct http_req *req, int status, struct str type, struct str body)
{
    struct stream *st = &req->conn->stream;

    if (reply_head(req, status, type, body.n) == 0 && req->reply_state != HTTP_REPLY_SILENT &&
        stream_write(st, body) < 0)
        stream_close(st, EMSGSIZE);
    req->reply_bytes = body.n;
    reply_done(req);
}

/* "Not Found" becomes NOT_FOUND. */
static void error_code_of(int status, char out[ERROR_CODE_MAX])
{
    struct str reason = http_status_reason(status);
    size_t n = min_size(reason.n, ERROR_CODE_MAX - 1);

    for (size_t i = 0; i < n; i++) {
        char c = reason.p[i];

        out[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : ascii_is_alpha(c) ? c : '_';
    }
    out[n] = '\0';
}

void http_reply_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
{
    char message[ERROR_MESSAGE_MAX], own_code[ERROR_CODE_MAX];
    AUTO_BUF(body, 8 * ERROR_MESSAGE_MAX);
    struct json_writer w;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    if (!code)
        error_code_of(status, own_code);
    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("code"), str_of(code ? code : own_code));
    json_member_string(&w, STR("message"), str_of(message));
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        buf_clear(&body);
    http_reply(req, status, STR("application/json"), buf_str(&body));
}

/* --- replies in pieces --- */

void http_reply_begin(struct http_req *req, int status, struct str type, uint64_t length)
{
    if (reply_head(req, status, type, length) == 0 && req->reply_state == HTTP_REPLY_SILENT)
        reply_done(req);
}

void http_reply_begin_as(struct http_req *req, int status, struct str reason,
                         const struct http_headers *headers, uint64_t length)
{
    struct stream *st = &req->conn->stream;
    struct buf *out;
    int r;

    reply_start(req, status, length);
    if (!stream_is_open(st))
        return;
    out = stream_out(st);
    r = buf_addf(out, "HTTP/1.1 %d %.*s\r\n", status, STR_ARG(reason));
    for (size_t i = 0; r == 0 && i < headers->count; i++)
        r = h1_write_header(out, headers->rows[i].name, headers->rows[i].value);
    if (r == 0 && req->reply_state == HTTP_REPLY_CHUNKED)
        r = reply_write_framing(req, out, status, length);
    if (r == 0)
        r = reply_write_connection(req, out);
    if (reply_head_written(req, r) == 0 && req->reply_state == HTTP_REPLY_SILENT)
        reply_done(req);
}

/* Data bytes of the last chunk, if all of it is still at the end of the queue and n more bytes fit;
 * else 0. */
static size_t reply_open_chunk(const struct http_req *req, size_t n)
{
    const struct stream *st = &req->conn->stream;
    uint64_t queue_end = st->bytes_out + stream_queued(st);

    if (req->chunk.bytes == 0 || req->chunk.end != queue_end || req->chunk.begin < st->bytes_out ||
        n > HTTP_CHUNK_BYTES_MAX - req->chunk.bytes)
        return 0;
    return req->chunk.bytes;
}

/* Writes that wait for the end of the turn, or for the client, are merged into one chunk: for
 * clients a chunk costs as much as a line in it. The data moves up only when the header needs one
 * more digit: musl's memmove(3) copies byte by byte, also to the same place. */
static int reply_write_chunk(struct http_req *req, struct str data)
{
    struct stream *st = &req->conn->stream;
    struct buf *out = stream_out(st);
    size_t had = reply_open_chunk(req, data.n);
    size_t had_total = had ? (size_t)(req->chunk.end - req->chunk.begin) : 0;
    size_t begin = out->n - had_total, old = had ? had_total - had - H1_CHUNK_END.n : 0;
    char header[H1_CHUNK_HEADER_MAX];
    size_t new = h1_chunk_header(header, had + data.n);
    int r = buf_reserve(out, data.n + H1_CHUNK_HEADER_MAX + H1_CHUNK_END.n);

    if (r < 0)
        return r;
    if (new != old)
        memmove(out->p + begin + new, out->p + begin + old, had);
    memcpy(out->p + begin, header, new);
    out->n = begin + new + had;
    (void)buf_add(out, data);
    (void)buf_add(out, H1_CHUNK_END);
    req->chunk.bytes = (uint32_t)min_size(had + data.n, HTTP_CHUNK_BYTES_MAX);
    req->chunk.end = st->bytes_out + stream_queued(st);
    req->chunk.begin = req->chunk.end - (out->n - begin);
    stream_flush_soon(st);
    return 0;
}

static int reply_write_piece(struct http_req *req, struct str data)
{
    struct stream *st = &req->conn->stream;

    if (req->reply_state != HTTP_REPLY_CHUNKED || !stream_is_open(st))
        return stream_write(st, data); /* a closed stream drops it */
    return reply_write_chunk(req, data);
}

/* The part of a write that can be done now: checked against the announced length and the queue's
 * room. */
static ssize_t reply_write_some(struct http_req *req, struct str data, size_t room)
{
    int r;

    if (req->reply_state == HTTP_REPLY_DONE || !stream_is_open(&req->conn->stream))
        return -EPIPE;
    if (req->reply_state == HTTP_REPLY_LENGTH && data.n > req->reply_left)
        return -EINVAL;
    data.n = min_size(data.n, room);
    if (data.n == 0)
        return 0;
    r = reply_write_piece(req, data);
    if (r < 0) {
        stream_close(&req->conn->stream, -r);
        return r;
    }
    req->reply_bytes += data.n;
    if (req->reply_state == HTTP_REPLY_LENGTH)
        req->reply_left -= data.n;
    return (ssize_t)data.n;
}

ssize_t http_reply_write(struct http_req *req, struct str data)
{
    struct stream *st = &req->conn->stream;
    ssize_t taken = reply_write_some(req, data, stream_room(st));

    if (taken >= 0 && (size_t)taken < data.n)
        stream_want_drain(st);
    return taken;
}

int http_reply_write_all(struct http_req *req, struct str data)
{
    struct stream *st = &req->conn->stream;
    ssize_t taken;

    /* Data larger than the whole queue must fit when on_drain comes, or the caller would spin. */
    if (stream_is_open(st) && data.n > stream_room(st) && stream_queued(st) > stream_low(st)) {
        stream_want_drain(st);
        return -EAGAIN;
    }
    taken = reply_write_some(req, data, data.n);
    return taken < 0 ? (int)taken : 0;
}

int http_reply_push(struct http_req *req, struct str data)
{
    ssize_t taken = reply_write_some(req, data, data.n);

    return taken < 0 ? (int)taken : 0;
}

bool http_reply_is_full(struct http_req *req)
{
    struct stream *st = &req->conn->stream;
    bool full = stream_is_open(st) && stream_room(st) == 0;

    if (full)
        stream_want_drain(st);
    return full;
}

void http_reply_end(struct http_req *req, int error)
{
    struct stream *st = &req->conn->stream;

    assert(req->reply_state != HTTP_REPLY_NONE);
    if (req->reply_state == HTTP_REPLY_DONE)
        return;
    if (req->reply_state == HTTP_REPLY_LENGTH && req->reply_left > 0 && !error)
        error = EPIPE;
    if (error) {
        req->error = error;
        req->keep_alive = false;
        if (req->reply_state == HTTP_REPLY_CLOSE)
            stream_reset(st, error); /* here a clean close would look like success */
    } else if (req->reply_state == HTTP_REPLY_CHUNKED) {
        (void)stream_write(st, H1_LAST_CHUNK);
    }
    reply_done(req);
}

void http_reply_queue_max(struct http_req *req, uint32_t queue_bytes_max)
{
    stream_set_high(&req->conn->stream, queue_bytes_max);
}

void http_reply_cut(struct http_req *req, int error)
{
    stream_reset(&req->conn->stream, error);
}

/* --- files --- */

void http_reply_file_sent(struct http_req *req)
{
    fd_close(take_fd(&req->file_fd));
    req->reply_bytes = req->reply_left;
    reply_done(req);
}
