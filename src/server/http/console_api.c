/* console_api.c - the web console at /console, from memory, and the addresses of previews.
 *
 * The console's files are built into the program, each as it is and packed by gzip. Their headers
 * let the page load nothing but these files and talk to nothing but this server. */
#include <string.h>

#include "base/json_write.h"
#include "base/time.h"
#include "server/http/console_files.h"
#include "server/http/server_internal.h"

static const char content_security_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

static const struct console_file *find_file(struct str path)
{
    for (size_t i = 0; i < console_file_count; i++)
        if (str_eq(path, str_of(console_files[i].path)))
            return &console_files[i];
    return NULL;
}

static void reply_file(struct http_req *req, const struct console_file *f)
{
    bool packed = http_headers_have_token(&req->head.headers, STR("Accept-Encoding"), STR("gzip"));
    struct str known = http_req_header(req, STR("If-None-Match"));

    (void)http_reply_header(req, STR("Content-Security-Policy"), str_of(content_security_policy));
    (void)http_reply_header(req, STR("X-Content-Type-Options"), STR("nosniff"));
    (void)http_reply_header(req, STR("Referrer-Policy"), STR("no-referrer"));
    (void)http_reply_header(req, STR("Cross-Origin-Opener-Policy"), STR("same-origin"));
    (void)http_reply_header(req, STR("Cross-Origin-Resource-Policy"), STR("same-origin"));
    (void)http_reply_header(req, STR("Vary"), STR("Accept-Encoding"));
    (void)http_reply_header(req, STR("ETag"), str_of(f->etag));
    (void)http_reply_header(req, STR("Cache-Control"),
                            f->immutable ? STR("public, max-age=31536000, immutable")
                                         : STR("no-cache"));
    if (str_eq(known, str_of(f->etag))) {
        http_reply(req, 304, STR_NONE, STR_NONE);
        return;
    }
    if (packed)
        (void)http_reply_header(req, STR("Content-Encoding"), STR("gzip"));
    http_reply(req, 200, str_of(f->type),
               packed ? str_make(f->gzip, f->gzip_len) : str_make(f->raw, f->raw_len));
}

void handle_console_get(struct http_req *req)
{
    struct str path = http_req_param(req, "*");
    const struct console_file *f = find_file(path.n ? path : STR("index.html"));

    if (f)
        reply_file(req, f);
    else if (console_file_count == 0)
        http_reply_error(req, 404, "NOT_FOUND",
                         "this server was built without the console; building it needs node and "
                         "npm, see docs/guides/console.md");
    else
        http_reply_error(req, 404, "NOT_FOUND", "the console has no file of that name");
}

/* Ports that control the sandbox have no preview: a page in a browser has no business there. */
void handle_preview_post(struct http_req *req)
{
    int64_t now_s = time_wall_us() / TIME_US_PER_S;
    const struct preview *preview;
    struct api_fail f = {0};
    struct json_writer w;
    struct sandbox *sb;
    uint16_t port;
    AUTO_BUF(path, 256);
    AUTO_BUF(body, 1024);

    sb = require_sandbox(req);
    if (!sb)
        return;
    if (api_port_parse(http_req_param(req, "port"), &port, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    if (port == GATEWAY_EXECD_PORT || port == GATEWAY_EGRESS_PORT) {
        http_reply_error(req, 400, "SANDBOX::INVALID_PARAMETER",
                         "port %u controls the sandbox and has no preview; previews are for ports "
                         "of programs inside",
                         port);
        return;
    }
    preview = previews_add(server_of(req)->previews, str_of(sb->id), port, now_s);
    if (!preview) {
        http_reply_error(req, 500, "GENERAL::UNKNOWN_ERROR", "the sandbox's id is too long");
        return;
    }
    /* Other servers see by it where the sandbox is. */
    (void)buf_addf(&path, server_of(req)->cluster ? "/preview/%s.%s/" : "/preview/%s/",
                   preview->ticket, sb->id);
    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("path"), buf_str(&path));
    json_member_time(&w, STR("expiresAt"), preview->ends_s * TIME_US_PER_S);
    json_write_object_end(&w);
    (void)http_reply_header(req, STR("Cache-Control"), STR("no-store"));
    reply_json(req, 201, &body, json_write_end(&w));
}
