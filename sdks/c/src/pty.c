/* pty.c - a terminal over WebSocket. What comes is queued, up to a limit, until it is read. */
#include <errno.h>
#include <stdio.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "net/ws.h"
#include "sdk.h"

enum {
    QUEUE_BYTES_MAX = 24 << 20, /* a message of 16 MiB fits on top of the limit below */
    PAUSE_BYTES = 1 << 20,      /* queued from here on, the peer waits */
    PIECE_HEAD_BYTES = 1 + 4,   /* kind and length, before the bytes */
    REPLAY_HEAD_BYTES = 1 + 8,
    PTY_PING_MS = 20 * 1000,
    TAKEN_OVER = 4001, /* close code */
};

/* The first byte of a binary frame. */
enum frame { FRAME_STDIN = 0, FRAME_STDOUT = 1, FRAME_STDERR = 2, FRAME_REPLAY = 3 };

struct osb_pty {
    struct osb_client *client;
    struct ws *ws;    /* NULL once it is closed */
    struct list link; /* in the client's while there is a connection */
    struct osb_task *reader, *writer;
    struct buf queue; /* pieces: kind, length, bytes */
    size_t at;        /* read of the queue */
    size_t piece_left;
    enum frame piece_kind;
    int64_t offset;
    int exit_code;
    bool open, exited, paused, was_stderr, lost;
    uint16_t close_code;
    int refused_status;
    int error;
    char why[252];
};

/* --- callbacks of the loop --- */

static void on_open(struct ws *ws)
{
    struct osb_pty *p = ws_user(ws);

    p->open = true;
    client_wake(&p->reader);
}

static bool queue_piece(struct osb_pty *p, enum frame kind, struct str data)
{
    char head[PIECE_HEAD_BYTES] = {(char)kind};
    uint32_t n = (uint32_t)data.n;

    memcpy(head + 1, &n, sizeof(n));
    return buf_add(&p->queue, str_make(head, sizeof(head))) == 0 && buf_add(&p->queue, data) == 0;
}

static uint64_t read_be64(const char *p)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

static bool on_binary(struct osb_pty *p, struct str data)
{
    switch (data.n ? data.p[0] : -1) {
    case FRAME_STDOUT:
    case FRAME_STDERR:
        return data.n == 1 || queue_piece(p, (enum frame)data.p[0], str_skip(data, 1));
    case FRAME_REPLAY:
        if (data.n < REPLAY_HEAD_BYTES)
            return false;
        p->offset = (int64_t)read_be64(data.p + 1);
        data = str_skip(data, REPLAY_HEAD_BYTES);
        return data.n == 0 || queue_piece(p, FRAME_STDOUT, data);
    default:
        return true; /* of a later version */
    }
}

static bool on_text(struct osb_pty *p, struct str text)
{
    AUTO_ARENA(a, 4 << 20);
    struct str type = STR_NONE, why = STR_NONE;
    struct json *v;
    int64_t code = -1;

    if (json_parse(&a, text, NULL, &v, NULL) < 0)
        return false;
    (void)json_to_str(json_get(v, STR("type")), &type);
    if (str_eq(type, STR("exit"))) {
        (void)json_to_i64(json_get(v, STR("exit_code")), &code);
        p->exited = true;
        p->exit_code = (int)code;
    } else if (str_eq(type, STR("error"))) {
        (void)json_to_str(json_get(v, STR("error")), &why);
        (void)snprintf(p->why, sizeof(p->why), "%.*s", STR_ARG(why));
    }
    return true;
}

static void on_message(struct ws *ws, enum ws_opcode opcode, struct str data)
{
    struct osb_pty *p = ws_user(ws);
    bool good = opcode == WS_OP_BINARY ? on_binary(p, data) : on_text(p, data);

    if (!good)
        ws_close(ws, WS_CLOSE_PROTOCOL_ERROR, STR("a message that does not fit"));
    if (p->queue.n - p->at > PAUSE_BYTES && !p->paused) {
        p->paused = true;
        ws_pause(ws);
    }
    client_wake(&p->reader);
}

static void on_drain(struct ws *ws)
{
    struct osb_pty *p = ws_user(ws);

    client_wake(&p->writer);
}

static void on_close(struct ws *ws, uint16_t code, struct str reason UNUSED,
                     const struct err *error)
{
    struct osb_pty *p = ws_user(ws);

    p->ws = NULL;
    list_remove(&p->link);
    if (p->lost) { /* the handle is gone already */
        buf_done(&p->queue);
        free(p);
        return;
    }
    p->close_code = code;
    p->refused_status = ws_refused_status(ws);
    if (error) {
        p->error = error->code;
        (void)snprintf(p->why, sizeof(p->why), "%s", error->msg);
    }
    client_wake(&p->reader);
    client_wake(&p->writer);
}

static const struct ws_ops pty_ops = {
    .on_open = on_open,
    .on_message = on_message,
    .on_drain = on_drain,
    .on_close = on_close,
};

/* --- opening --- */

static int fail_over(struct osb_pty *p)
{
    struct osb_client *c = p->client;

    if (p->refused_status == 409)
        return fail(c, EBUSY, "somebody views this terminal already; takeover ends that");
    if (p->refused_status)
        return fail_http(c, p->refused_status, str_of(p->why), STR(""), STR(""));
    if (p->close_code == TAKEN_OVER)
        return fail(c, EBUSY, "another client took the terminal over");
    return fail(c, p->error ? p->error : EPROTO, "the terminal's connection ended: %s",
                p->why[0] ? p->why : "without saying why");
}

static int connect_pty(struct osb_pty *p, const struct site *site, struct str target)
{
    struct osb_client *c = p->client;
    struct http_header rows[SDK_HEADERS_MAX];
    struct ws_connect_spec spec = {
        .target = target,
        .tls_host = str_of(site->name),
        .host = str_of(site->authority),
        .headers = rows,
        .open_ms = c->request_ms,
        .conf = {.ping_ms = PTY_PING_MS},
    };
    struct sock_addr addr;
    struct err e;
    int r = client_headers(c, site, rows, &spec.header_count);

    if (r == 0)
        r = client_security(c, site, &spec.tls);
    if (r == 0)
        r = client_resolve(c, site, &addr);
    if (r < 0)
        return r;
    spec.addr = &addr;
    if (ws_connect(c->http, &spec, &pty_ops, p, &p->ws, &e) < 0)
        return fail_err(c, &e);
    list_push(&c->ptys, &p->link);
    while (r == 0 && !p->open && p->ws)
        r = client_wait(c, &p->reader, deadline_in_ms(c->request_ms));
    if (r < 0)
        return fail_wait(c, r, "open a terminal");
    return p->open ? 0 : fail_over(p);
}

int osb_pty_open(struct osb_sandbox *sandbox, const char *id, const struct osb_pty_open *open,
                 struct osb_pty **ret_pty)
{
    OPTIONS_COPY(struct osb_pty_open, o, open);
    struct osb_client *c = sandbox->client;
    AUTO_BUF(target, SDK_TARGET_BYTES_MAX);
    const struct site *site;
    struct osb_pty *p;
    struct target t;
    int r = sandbox_site(sandbox, OSB_PORT_EXECD, &site);

    if (r < 0)
        return r;
    target_init(&t, site->path);
    target_add(&t, "/pty/");
    target_segment(&t, id);
    target_add(&t, "/ws");
    target_query_i64(&t, "since", o.since < 0 ? INT64_MAX : o.since);
    if (o.takeover)
        target_query(&t, "takeover", "1");
    if (o.pipes)
        target_query(&t, "pty", "0");
    p = mem_new(struct osb_pty);
    p->client = c;
    list_init(&p->link);
    p->exit_code = -1;
    p->offset = o.since < 0 ? 0 : o.since;
    buf_init(&p->queue, QUEUE_BYTES_MAX);
    loop_refresh(c->loop);
    r = t.error < 0 ? fail(c, -t.error, "the id of a terminal is empty or too long")
                    : connect_pty(p, site, buf_str(&t.text));
    target_done(&t);
    if (r < 0) {
        osb_pty_close(p);
        return r;
    }
    *ret_pty = p;
    return 0;
}

void osb_pty_close(struct osb_pty *pty)
{
    if (!pty)
        return;
    pty->lost = true;
    if (pty->ws) { /* on_close frees it */
        loop_refresh(pty->client->loop);
        ws_resume(pty->ws);
        ws_close(pty->ws, WS_CLOSE_NORMAL, STR(""));
        return;
    }
    buf_done(&pty->queue);
    free(pty);
}

void client_cut_ptys(struct osb_client *c)
{
    if (list_empty(&c->ptys))
        return;
    loop_settle(c->loop); /* sends what osb_pty_close queued */
    while (!list_empty(&c->ptys)) {
        struct osb_pty *p = container_of(c->ptys.next, struct osb_pty, link);

        list_remove(&p->link);
        ws_cut(p->ws, ECANCELED);
    }
}

/* --- reading --- */

static bool next_piece(struct osb_pty *p)
{
    uint32_t n;

    while (p->piece_left == 0) {
        if (p->queue.n - p->at < PIECE_HEAD_BYTES)
            return false;
        p->piece_kind = (enum frame)p->queue.p[p->at];
        memcpy(&n, p->queue.p + p->at + 1, sizeof(n));
        p->at += PIECE_HEAD_BYTES;
        p->piece_left = n;
    }
    return true;
}

static void drop_read(struct osb_pty *p)
{
    if (p->at == p->queue.n) {
        buf_clear(&p->queue);
        p->at = 0;
    } else if (p->at > PAUSE_BYTES) {
        buf_drop_front(&p->queue, p->at);
        p->at = 0;
    }
    if (p->paused && p->queue.n - p->at < PAUSE_BYTES / 4) {
        p->paused = false;
        if (p->ws)
            ws_resume(p->ws);
    }
}

long osb_pty_read(struct osb_pty *pty, char *out, size_t size, int timeout_ms)
{
    uint64_t deadline = timeout_ms < 0 ? DEADLINE_NEVER : deadline_in_ms((uint64_t)timeout_ms);
    size_t n;

    loop_refresh(pty->client->loop);
    while (!next_piece(pty)) {
        int r;

        if (!pty->ws)
            return pty->exited ? 0 : fail_over(pty);
        r = client_wait(pty->client, &pty->reader, deadline);
        if (r < 0)
            return fail_wait(pty->client, r, "read a terminal");
    }
    n = min_size(size, pty->piece_left);
    memcpy(out, pty->queue.p + pty->at, n);
    pty->at += n;
    pty->piece_left -= n;
    pty->offset += (int64_t)n;
    pty->was_stderr = pty->piece_kind == FRAME_STDERR;
    drop_read(pty);
    return (long)n;
}

bool osb_pty_was_stderr(const struct osb_pty *pty)
{
    return pty->was_stderr;
}

int64_t osb_pty_offset(const struct osb_pty *pty)
{
    return pty->offset;
}

int osb_pty_exit_code(const struct osb_pty *pty)
{
    return pty->exit_code;
}

/* --- writing --- */

static int send_frame(struct osb_pty *p, enum ws_opcode opcode, struct str data)
{
    int r;

    loop_refresh(p->client->loop);
    while (p->ws && (r = ws_send(p->ws, opcode, data)) == -EAGAIN) {
        r = client_wait(p->client, &p->writer, DEADLINE_NEVER);
        if (r < 0)
            return fail_wait(p->client, r, "write to a terminal");
    }
    if (!p->ws)
        return fail_over(p);
    return r < 0 ? fail(p->client, -r, "write to a terminal: %s", strerror(-r)) : 0;
}

int osb_pty_write(struct osb_pty *pty, const void *data, size_t bytes)
{
    enum { CHUNK = 32 << 10 };
    auto_free char *frame = mem_alloc(1 + CHUNK);
    const char *p = data;
    int r = 0;

    frame[0] = FRAME_STDIN;
    while (r == 0 && bytes > 0) {
        size_t n = min_size(bytes, CHUNK);

        memcpy(frame + 1, p, n);
        r = send_frame(pty, WS_OP_BINARY, str_make(frame, 1 + n));
        p += n;
        bytes -= n;
    }
    return r;
}

int osb_pty_resize(struct osb_pty *pty, uint16_t columns, uint16_t rows)
{
    AUTO_BUF(text, 128);

    if (columns == 0 || rows == 0)
        return fail(pty->client, EINVAL, "columns, rows: expected at least 1");
    if (buf_addf(&text, "{\"type\":\"resize\",\"cols\":%u,\"rows\":%u}", columns, rows) < 0)
        return fail(pty->client, ENOMEM, "no memory left");
    return send_frame(pty, WS_OP_TEXT, buf_str(&text));
}

int osb_pty_signal(struct osb_pty *pty, const char *name)
{
    AUTO_BUF(text, 256);
    struct json_writer w;

    json_write_begin(&w, &text);
    json_write_object(&w);
    json_member_string(&w, STR("type"), STR("signal"));
    json_member_string(&w, STR("signal"), str_of(name));
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        return fail(pty->client, EINVAL, "signal: expected a name such as SIGINT");
    return send_frame(pty, WS_OP_TEXT, buf_str(&text));
}
