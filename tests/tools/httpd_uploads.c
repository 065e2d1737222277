#include "httpd_uploads.h"

#include <errno.h>
#include <stdio.h>

#include "base/json_write.h"
#include "base/sha.h"
#include "net/multipart.h"

enum { SIP_BYTES = 16 * 1024, SIP_REST_NS = 1000 * 1000, SUMMARY_BYTES_MAX = 64 * 1024 };

static void reply_count(struct http_req *req, uint64_t count)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu\n", (unsigned long long)count);
    http_reply(req, 200, STR("text/plain"), str_of(text));
}

/* --- count --- */

static ssize_t count_piece(struct http_req *req, struct str piece)
{
    *(uint64_t *)req->user += piece.n;
    return (ssize_t)piece.n;
}

static void count_end(struct http_req *req)
{
    reply_count(req, *(uint64_t *)req->user);
}

static const struct http_req_ops count_ops = {.on_body = count_piece, .on_body_end = count_end};

void httpd_count(struct http_req *req)
{
    req->user = arena_new(&req->arena, uint64_t);
    req->ops = &count_ops;
    if (req->body_state == HTTP_BODY_DONE)
        count_end(req);
}

/* --- refuse, and early --- */

static ssize_t refuse_piece(struct http_req *req, struct str piece UNUSED)
{
    http_reply_error(req, 403, NULL, "not a byte of it");
    return 0;
}

static const struct http_req_ops refuse_ops = {.on_body = refuse_piece};

void httpd_refuse(struct http_req *req)
{
    req->ops = &refuse_ops;
    if (req->body_state == HTTP_BODY_DONE)
        http_reply_error(req, 403, NULL, "not even none of it");
}

void httpd_early(struct http_req *req)
{
    http_reply(req, 200, STR("text/plain"), STR("early\n"));
}

/* --- sip --- */

struct sip {
    struct loop_timer rest;
    struct loop *loop;
    struct http_req *req;
    uint64_t count;
};

static void sip_rested(struct loop_timer *t)
{
    http_req_resume(container_of(t, struct sip, rest)->req);
}

static ssize_t sip_piece(struct http_req *req, struct str piece)
{
    struct sip *sip = req->user;
    size_t n = loop_timer_armed(&sip->rest) ? 0 : min_size(piece.n, SIP_BYTES);

    sip->count += n;
    if (n)
        loop_timer_set(sip->loop, &sip->rest, loop_now_ns(sip->loop) + SIP_REST_NS, sip_rested);
    return (ssize_t)n;
}

static void sip_end(struct http_req *req)
{
    reply_count(req, ((struct sip *)req->user)->count);
}

static void sip_close(struct http_req *req, int error UNUSED)
{
    struct sip *sip = req->user;

    loop_timer_stop(sip->loop, &sip->rest);
}

static const struct http_req_ops sip_ops = {
    .on_body = sip_piece,
    .on_body_end = sip_end,
    .on_close = sip_close,
};

void httpd_sip(struct http_req *req)
{
    struct sip *sip = arena_new(&req->arena, struct sip);

    sip->loop = http_req_loop(req);
    sip->req = req;
    req->user = sip;
    req->ops = &sip_ops;
    if (req->body_state == HTTP_BODY_DONE)
        sip_end(req);
}

/* --- form --- */

struct form {
    struct multipart reader;
    struct json_writer w;
    struct buf summary;
    struct sha256 sha;
    uint64_t bytes;
};

static void write_text(struct json_writer *w, struct str key, struct str value)
{
    json_write_key(w, key);
    if (value.p)
        json_write_string(w, value);
    else
        json_write_null(w);
}

static int form_part_begin(void *ctx, const struct multipart_part *part)
{
    struct form *f = ctx;

    json_write_object(&f->w);
    write_text(&f->w, STR("name"), part->name);
    write_text(&f->w, STR("filename"), part->filename);
    sha256_init(&f->sha);
    f->bytes = 0;
    return 0;
}

static ssize_t form_part_data(void *ctx, struct str piece)
{
    struct form *f = ctx;

    sha256_add(&f->sha, piece);
    f->bytes += piece.n;
    return (ssize_t)piece.n;
}

static int form_part_end(void *ctx)
{
    struct form *f = ctx;
    uint8_t digest[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];

    sha256_end(&f->sha, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    json_write_key(&f->w, STR("bytes"));
    json_write_u64(&f->w, f->bytes);
    write_text(&f->w, STR("sha256"), str_of(hex));
    json_write_object_end(&f->w);
    return 0;
}

static int form_end(void *ctx UNUSED)
{
    return 0;
}

static const struct multipart_ops form_reader_ops = {
    .part_begin = form_part_begin,
    .part_data = form_part_data,
    .part_end = form_part_end,
    .form_end = form_end,
};

static ssize_t form_piece(struct http_req *req, struct str piece)
{
    struct form *f = req->user;
    struct err e = {0};

    if (req->status == 0 && multipart_feed(&f->reader, piece, &e) < 0)
        http_reply_error(req, 400, NULL, "%s", e.msg);
    return (ssize_t)piece.n;
}

static void form_body_end(struct http_req *req)
{
    struct form *f = req->user;
    struct err e = {0};

    if (req->status)
        return;
    if (multipart_end(&f->reader, &e) < 0) {
        http_reply_error(req, 400, NULL, "%s", e.msg);
        return;
    }
    json_write_array_end(&f->w);
    if (json_write_end(&f->w) < 0)
        http_reply_error(req, 413, NULL, "the form has too many parts");
    else
        http_reply(req, 200, STR("application/json"), buf_str(&f->summary));
}

static void form_close(struct http_req *req, int error UNUSED)
{
    struct form *f = req->user;

    multipart_done(&f->reader);
    buf_done(&f->summary);
}

static const struct http_req_ops form_ops = {
    .on_body = form_piece,
    .on_body_end = form_body_end,
    .on_close = form_close,
};

void httpd_form(struct http_req *req)
{
    struct form *f = arena_new(&req->arena, struct form);
    struct err e = {0};

    if (multipart_init(&f->reader, http_req_header(req, STR("Content-Type")), &form_reader_ops, f,
                       NULL, &e) < 0) {
        http_reply_error(req, 400, NULL, "%s", e.msg);
        return;
    }
    buf_init(&f->summary, SUMMARY_BYTES_MAX);
    json_write_begin(&f->w, &f->summary);
    json_write_array(&f->w);
    req->user = f;
    req->ops = &form_ops;
    if (req->body_state == HTTP_BODY_DONE)
        form_body_end(req);
}
