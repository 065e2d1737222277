/* command_input_api.c - POST /command/{id}/stdin: writes a request body to a command's input. */
#include <errno.h>

#include "base/url.h"
#include "execd/command/command.h"
#include "execd/command/command_api.h"
#include "execd/command/command_input.h"
#include "execd/core/answer.h"
#include "execd/core/routes.h"

/* The state of one request, in its arena. */
struct sender {
    struct command_writer writer;
    struct http_req *req;
    uint64_t sent_bytes;
    bool eof;  /* close the input after the body */
    bool over; /* the reply was sent; the rest of the body is dropped */
};

static void sender_fail(struct sender *s)
{
    s->over = true;
    answer_error(s->req, 409, "STDIN_CLOSED",
                 "the command no longer reads its standard input: it took %llu bytes of this body",
                 (unsigned long long)s->sent_bytes);
}

static void sender_on_room(struct command_writer *w)
{
    http_req_resume(container_of(w, struct sender, writer)->req);
}

static void sender_on_gone(struct command_writer *w)
{
    struct sender *s = container_of(w, struct sender, writer);

    sender_fail(s);
    http_req_resume(s->req);
}

static ssize_t sender_on_body(struct http_req *req, struct str piece)
{
    struct sender *s = req->user;
    ssize_t n;

    if (s->over)
        return (ssize_t)piece.n;
    n = command_input_write(&s->writer, piece);
    if (n < 0) {
        sender_fail(s);
        return (ssize_t)piece.n;
    }
    s->sent_bytes += (uint64_t)n;
    return n;
}

static void sender_on_body_end(struct http_req *req)
{
    struct sender *s = req->user;

    if (s->over)
        return;
    s->over = true;
    command_input_release(&s->writer, s->eof);
    answer_empty(req);
}

/* If the client disconnects, the part already written stays; another request may continue. */
static void sender_on_close(struct http_req *req, int error UNUSED)
{
    struct sender *s = req->user;

    s->over = true;
    command_input_release(&s->writer, false);
}

static const struct http_req_ops sender_ops = {
    .on_body = sender_on_body,
    .on_body_end = sender_on_body_end,
    .on_close = sender_on_close,
};

static bool wants_eof(struct http_req *req)
{
    struct str text = STR_NONE;

    return url_query_get(req->head.query, STR("eof"), &req->arena, &text) > 0 &&
           (str_eq(text, STR("true")) || str_eq(text, STR("1")));
}

void post_command_stdin(struct http_req *req)
{
    const struct execd_api *api = req->server_user;
    struct str id = http_req_param(req, "id");
    struct command *c = commands_find(api->commands, id);
    struct sender *s = arena_new(&req->arena, struct sender);
    struct err e = {0};
    int r;

    if (!c || !s) {
        answer_error(req, c ? 500 : 404, c ? "RUNTIME_ERROR" : "COMMAND_NOT_FOUND",
                     c ? "no memory for the input of %.*s" : "command not found: %.*s",
                     STR_ARG(id));
        return;
    }
    *s = (struct sender){
        {.on_room = sender_on_room, .on_gone = sender_on_gone},
        req
    };
    s->eof = wants_eof(req);
    r = command_input_claim(c, &s->writer, &e);
    if (r < 0) {
        answer_error(req, 409, r == -EBUSY ? "STDIN_BUSY" : "STDIN_CLOSED", "%s", e.msg);
        return;
    }
    http_req_be_patient(req); /* no timeout: the command may read as slowly as it likes */
    req->user = s;
    req->ops = &sender_ops;
    if (req->body_state == HTTP_BODY_DONE)
        sender_on_body_end(req);
}
