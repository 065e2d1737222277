#include "execd/pty/pty_client.h"

#include <errno.h>

#include "base/mem.h"
#include "execd/pty/pty.h"
#include "net/ws.h"

enum {
    CLOSE_TAKEN_OVER = 4001,
    TYPE_SHOWN_BYTES_MAX = 64, /* of an unknown frame type, in an error */
};

struct pty_client {
    struct list link;
    struct ws *ws; /* NULL during the handshake */
    struct ptys *ptys;
    char id[ID_UUID_MAX]; /* of the session, which may be removed before we view it */
    struct pty *pty;      /* the session we view; NULL: not yet, or no longer */
    bool lost;            /* no longer */
    int64_t since;
    bool is_pty;
    struct buf text;  /* a text frame that comes in pieces */
    bool too_long;    /* it exceeds the limit and is discarded */
    int channel;      /* of the current binary frame; -1 before its first byte */
    struct buf input; /* not accepted by the shell yet */
    bool pong_due;    /* waits because the queue was full */
};

static void client_let_go(struct pty_client *c)
{
    c->pty = NULL;
    c->lost = true;
    buf_done(&c->input);
    if (c->ws)
        ws_resume(c->ws); /* to receive its close frame */
}

/* --- frames to the client --- */

static void client_push(struct pty_client *c, enum ws_opcode opcode, const struct str *pieces,
                        size_t count)
{
    int r = ws_push(c->ws, opcode, pieces, count);

    if (r == -ENOMEM || r == -EMSGSIZE)
        ws_cut(c->ws, -r); /* a new connection can ask for the missing part */
}

static void client_push_text(struct pty_client *c, const struct buf *b, int r)
{
    struct str text = buf_str(b);

    if (r < 0)
        ws_cut(c->ws, -r);
    else
        client_push(c, WS_OP_TEXT, &text, 1);
}

static void client_push_error(struct pty_client *c, const char *code, struct str message)
{
    AUTO_BUF(b, PTY_PRINT_BYTES_MAX);

    client_push_text(c, &b, pty_print_error(&b, code, message));
}

/* Errors that a client can provoke repeatedly are dropped while the queue is full. */
static void client_complain(struct pty_client *c, const char *code, struct str message)
{
    if (ws_room(c->ws) > 0)
        client_push_error(c, code, message);
}

static void client_pong(struct pty_client *c)
{
    AUTO_BUF(b, PTY_PRINT_BYTES_MAX);

    c->pong_due = ws_room(c->ws) == 0;
    if (!c->pong_due)
        client_push_text(c, &b, pty_print_pong(&b));
}

static bool client_on_ready(void *user)
{
    struct pty_client *c = user;
    char head[PTY_REPLAY_HEAD_BYTES];
    struct str pieces[3] = {
        {head, sizeof(head)},
        STR_NONE, STR_NONE
    };
    AUTO_BUF(b, PTY_PRINT_BYTES_MAX);

    if (c->pty->proc.is_pty)
        pty_replay_silence(&c->pty->replay);
    pty_print_replay_head(head, pty_replay_get(&c->pty->replay, c->since, pieces + 1));
    if (pieces[1].n)
        client_push(c, WS_OP_BINARY, pieces, ARRAY_LEN(pieces));
    pty_replay_mark_sent(&c->pty->replay);
    client_push_text(c, &b, pty_print_connected(&b, c->pty->id, c->pty->proc.is_pty));
    return ws_room(c->ws) > 0;
}

static bool client_on_output(void *user, enum pty_channel from, struct str data)
{
    struct pty_client *c = user;
    char channel = (char)from;

    client_push(c, WS_OP_BINARY,
                (struct str[]){
                    {&channel, 1},
                    data
    },
                2);
    return ws_room(c->ws) > 0;
}

static void client_on_end(void *user, int exit_code)
{
    struct pty_client *c = user;
    AUTO_BUF(b, PTY_PRINT_BYTES_MAX);

    client_let_go(c);
    client_push_text(c, &b, pty_print_exit(&b, exit_code));
    ws_close(c->ws, WS_CLOSE_NORMAL, STR("process exited"));
}

static void client_on_fail(void *user, const struct err *why)
{
    struct pty_client *c = user;

    client_let_go(c);
    client_push_error(c, "START_FAILED", str_of(why->msg));
    ws_close(c->ws, WS_CLOSE_INTERNAL_ERROR, STR("START_FAILED"));
}

static void client_on_lost(void *user, bool taken_over)
{
    struct pty_client *c = user;

    client_let_go(c);
    if (!c->ws)
        return; /* client_on_open() closes it */
    if (taken_over)
        ws_close(c->ws, CLOSE_TAKEN_OVER, STR("TAKEN_OVER"));
    else
        ws_close(c->ws, WS_CLOSE_GOING_AWAY, STR("SESSION_GONE"));
}

/* --- frames from the client --- */

static void client_input_failed(struct pty_client *c)
{
    buf_done(&c->input);
    client_complain(c, "STDIN_WRITE_FAILED", STR("the process does not read its input any more"));
}

/* Returns the bytes accepted: by the shell, or into the queue, which may hold `most`. */
static size_t client_input(struct pty_client *c, struct str data, size_t most)
{
    ssize_t n = c->input.n == 0 ? pty_write(c->pty, data) : 0;
    struct str rest;

    if (n < 0) {
        client_input_failed(c);
        return data.n;
    }
    rest = str_skip(data, (size_t)n);
    rest.n = min_size(rest.n, most - min_size(most, c->input.n));
    if (rest.n && buf_add(&c->input, rest) < 0) {
        ws_cut(c->ws, ENOMEM);
        return data.n;
    }
    return (size_t)n + rest.n;
}

static void client_on_room(void *user)
{
    struct pty_client *c = user;
    ssize_t n = c->input.n ? pty_write(c->pty, buf_str(&c->input)) : 0;

    if (n < 0)
        client_input_failed(c);
    else
        buf_drop_front(&c->input, (size_t)n);
    if (c->input.n)
        return;
    buf_done(&c->input);
    ws_resume(c->ws);
}

static const struct pty_viewer_ops viewer_ops = {
    .on_ready = client_on_ready,
    .on_fail = client_on_fail,
    .on_output = client_on_output,
    .on_room = client_on_room,
    .on_end = client_on_end,
    .on_lost = client_on_lost,
};

static void client_unknown(struct pty_client *c, struct str type)
{
    AUTO_BUF(text, 2 * TYPE_SHOWN_BYTES_MAX);

    type.n = min_size(type.n, TYPE_SHOWN_BYTES_MAX);
    type.n = utf8_prefix(type);
    (void)buf_addf(&text, "unknown frame type \"%.*s\"", STR_ARG(type));
    client_complain(c, "INVALID_FRAME", buf_str(&text));
}

static void client_text(struct pty_client *c, struct str text)
{
    AUTO_ARENA(arena, 8 * (size_t)PTY_TEXT_BYTES_MAX);
    struct pty_frame frame;

    pty_frame_read(text, &arena, &frame);
    switch (frame.type) {
    case PTY_FRAME_IGNORE:
        break;
    case PTY_FRAME_UNKNOWN:
        client_unknown(c, frame.text);
        break;
    case PTY_FRAME_STDIN:
        (void)client_input(c, frame.text, SIZE_MAX);
        if (c->input.n >= PTY_INPUT_BYTES_MAX)
            ws_pause(c->ws);
        break;
    case PTY_FRAME_RESIZE:
        pty_proc_resize(&c->pty->proc, frame.cols, frame.rows);
        break;
    case PTY_FRAME_SIGNAL:
        pty_proc_signal(&c->pty->proc, frame.signo);
        break;
    case PTY_FRAME_PING:
        client_pong(c);
        break;
    }
}

static void client_text_piece(struct pty_client *c, const struct ws_piece *piece)
{
    if (piece->first && piece->last) { /* the usual case: no copy */
        client_text(c, piece->data);
        return;
    }
    if (piece->first)
        c->too_long = false;
    c->too_long = c->too_long || buf_add(&c->text, piece->data) < 0;
    if (!piece->last)
        return;
    if (c->too_long)
        client_complain(c, "INVALID_FRAME", STR("a text frame of more than 1 MiB"));
    else
        client_text(c, buf_str(&c->text));
    buf_done(&c->text);
}

static size_t client_binary_piece(struct pty_client *c, const struct ws_piece *piece)
{
    struct str data = piece->data;
    size_t head = 0;

    if (piece->first)
        c->channel = -1;
    if (c->channel < 0 && data.n > 0) {
        c->channel = (uint8_t)data.p[0];
        head = 1;
    }
    if (c->channel != PTY_CHANNEL_STDIN)
        return data.n;
    return head + client_input(c, str_skip(data, head), PTY_INPUT_BYTES_MAX);
}

static size_t client_on_piece(struct ws *ws, const struct ws_piece *piece)
{
    struct pty_client *c = ws_user(ws);

    if (!c->pty)
        return piece->data.n;
    if (piece->opcode == WS_OP_BINARY)
        return client_binary_piece(c, piece);
    client_text_piece(c, piece);
    return piece->data.n;
}

/* --- connection --- */

static void client_on_open(struct ws *ws)
{
    struct pty_client *c = ws_user(ws);

    c->ws = ws;
    if (!c->pty && !c->lost) {
        c->pty = ptys_find(c->ptys, str_of(c->id));
        if (c->pty)
            pty_hold(c->pty, &viewer_ops, c);
    }
    if (c->pty)
        pty_begin(c->pty, c->is_pty);
    else /* the session was removed during the handshake */
        ws_close(ws, WS_CLOSE_GOING_AWAY, STR("SESSION_GONE"));
}

static void client_on_drain(struct ws *ws)
{
    struct pty_client *c = ws_user(ws);

    if (c->pong_due)
        client_pong(c);
    if (c->pty)
        pty_resume(c->pty);
}

/* The client no longer reads, but input it has sent still goes to the shell. */
static void client_on_hangup(struct ws *ws)
{
    struct pty_client *c = ws_user(ws);

    if (c->pty)
        pty_note_hangup(c->pty);
}

static void client_on_close(struct ws *ws, uint16_t code UNUSED, struct str reason UNUSED,
                            const struct err *error UNUSED)
{
    struct pty_client *c = ws_user(ws);

    if (c->pty)
        pty_release(c->pty);
    list_remove(&c->link);
    buf_done(&c->text);
    buf_done(&c->input);
    free(c);
}

static const struct ws_ops client_ws_ops = {
    .on_open = client_on_open,
    .on_piece = client_on_piece,
    .on_drain = client_on_drain,
    .on_close = client_on_close,
    .on_hangup = client_on_hangup,
};

void pty_client_accept(struct http_req *req, const struct pty_client_conf *conf)
{
    static const struct ws_conf ws_conf = {
        .message_bytes_max = INT64_MAX, /* input is passed on in pieces */
        .ping_ms = PTY_PING_MS,
        .idle_ms = PTY_IDLE_MS,
        .close_ms = PTY_CLOSE_MS,
        .stall_ms = PTY_IDLE_MS,
        .queue_bytes_max = PTY_QUEUE_BYTES_MAX,
    };
    struct pty_client *c = mem_new(struct pty_client);

    *c = (struct pty_client){.ptys = conf->ptys, .since = conf->since, .is_pty = conf->is_pty};
    memcpy(c->id, conf->pty->id, sizeof(c->id));
    buf_init(&c->text, PTY_TEXT_BYTES_MAX);
    buf_init(&c->input, PTY_TEXT_BYTES_MAX + PTY_INPUT_BYTES_MAX);
    list_push(conf->clients, &c->link);
    if (ws_accept(req, &ws_conf, &client_ws_ops, c) < 0) {
        list_remove(&c->link);
        free(c);
    } else if (!pty_is_held(conf->pty)) {
        pty_hold(conf->pty, &viewer_ops, c);
        c->pty = conf->pty;
    }
}

void pty_clients_cut(struct list *clients, struct loop *loop)
{
    LIST_EACH(clients, at)
    {
        struct pty_client *c = container_of(at, struct pty_client, link);

        if (c->ws)
            ws_cut(c->ws, ECANCELED);
    }
    loop_settle(loop);
}
