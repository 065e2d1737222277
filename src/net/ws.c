/* ws.c - a WebSocket connection from its first frame to its end; ws_handshake.c opens it.
 *
 *   CONNECTING --> OPEN --ws_close--> CLOSING --their close--> ENDING --> over
 *                    `--their close, or a violation------------^
 *
 * In ENDING both closes were exchanged, or cannot be: a server closes the socket when its queue is
 * sent, a client waits for that. */
#include "net/ws.h"

#include <assert.h>
#include <errno.h>

#include "base/id.h"
#include "base/mem.h"
#include "net/ws_internal.h"

enum {
    CLOSE_CODE_BYTES = 2,
    MASK_BYTES = 4,
};

static void ws_on_timer(struct loop_timer *t);
static void ws_expect_life(struct ws *ws);

/* --- sending --- */

/* An unpredictable mask; the kernel provides random bytes in batches. */
static void ws_next_mask(struct ws *ws, uint8_t mask[MASK_BYTES])
{
    if (ws->masks_left == 0) {
        id_random_bytes(ws->masks, WS_MASKS_BYTES);
        ws->masks_left = WS_MASKS_BYTES;
    }
    ws->masks_left -= MASK_BYTES;
    memcpy(mask, ws->masks + ws->masks_left, MASK_BYTES);
}

static int ws_queue_pieces(struct ws *ws, enum ws_opcode opcode, bool fin, const struct str *pieces,
                           size_t count)
{
    struct buf *out = stream_out(&ws->stream);
    bool masked = ws->decoder.role == WS_CLIENT;
    char header[WS_HEADER_MAX];
    uint8_t mask[MASK_BYTES];
    size_t n, bytes = 0;
    int r;

    for (size_t i = 0; i < count; i++)
        bytes += min_size(pieces[i].n, STREAM_OUT_BYTES_MAX + (size_t)1); /* no overflow */
    if (masked)
        ws_next_mask(ws, mask);
    n = ws_frame_header(header, opcode, fin, bytes, masked ? mask : NULL);
    r = bytes > STREAM_OUT_BYTES_MAX ? -EMSGSIZE : buf_reserve(out, n + bytes);
    if (r < 0)
        return r;
    (void)buf_add(out, str_make(header, n)); /* there is room */
    for (size_t i = 0; i < count; i++)
        (void)buf_add(out, pieces[i]);
    if (masked)
        ws_mask(out->p + out->n - bytes, bytes, mask, 0);
    stream_flush_soon(&ws->stream);
    return 0;
}

static int ws_queue_frame(struct ws *ws, enum ws_opcode opcode, bool fin, struct str data)
{
    return ws_queue_pieces(ws, opcode, fin, &data, 1);
}

static bool ws_may_send(const struct ws *ws)
{
    return ws->state == WS_STATE_OPEN && stream_is_open(&ws->stream);
}

static void ws_want_drain(struct ws *ws)
{
    if (ws_room(ws) > 0)
        return;
    ws->drain_due = true;
    stream_want_drain(&ws->stream);
}

static int ws_send_frame(struct ws *ws, enum ws_opcode opcode, bool fin, struct str data)
{
    int r;

    if (!ws_may_send(ws))
        return -EPIPE;
    r = ws_room(ws) == 0 ? -EAGAIN : ws_queue_frame(ws, opcode, fin, data);
    ws_want_drain(ws);
    return r;
}

int ws_send_part(struct ws *ws, enum ws_opcode opcode, struct str data, bool last)
{
    int r = ws_send_frame(ws, ws->in_parts ? WS_OP_CONTINUATION : opcode, last, data);

    if (r == 0)
        ws->in_parts = !last;
    return r;
}

int ws_send(struct ws *ws, enum ws_opcode opcode, struct str data)
{
    assert(!ws->in_parts && (opcode == WS_OP_TEXT || opcode == WS_OP_BINARY));
    return ws_send_frame(ws, opcode, true, data);
}

int ws_push(struct ws *ws, enum ws_opcode opcode, const struct str *pieces, size_t count)
{
    int r;

    assert(!ws->in_parts && (opcode == WS_OP_TEXT || opcode == WS_OP_BINARY));
    if (!ws_may_send(ws))
        return -EPIPE;
    r = ws_queue_pieces(ws, opcode, true, pieces, count);
    ws_want_drain(ws);
    return r;
}

int ws_ping(struct ws *ws, struct str data)
{
    return data.n > WS_CONTROL_BYTES_MAX ? -EMSGSIZE : ws_send_frame(ws, WS_OP_PING, true, data);
}

/* Pings that come while the queue is full share one pong, for the latest (RFC 6455, 5.5.3): a peer
 * that pings without reading must not make the queue grow without limit. */
static void ws_answer_ping(struct ws *ws, struct str data)
{
    if (!ws_may_send(ws))
        return;
    if (ws_room(ws) > 0 && ws_queue_frame(ws, WS_OP_PONG, true, data) == 0)
        return;
    if (data.n)
        memcpy(ws->pong, data.p, data.n);
    ws->pong_bytes = (uint8_t)data.n;
    ws->pong_due = true;
    stream_want_drain(&ws->stream);
}

static void ws_send_close(struct ws *ws, uint16_t code, struct str reason)
{
    char payload[WS_CONTROL_BYTES_MAX];
    size_t n = 0;

    if (code && code != WS_CLOSE_NO_STATUS) {
        payload[0] = (char)(code >> 8);
        payload[1] = (char)code;
        if (reason.n > sizeof(payload) - CLOSE_CODE_BYTES) {
            reason.n = sizeof(payload) - CLOSE_CODE_BYTES;
            reason.n = utf8_prefix(reason);
        }
        if (reason.n)
            memcpy(payload + CLOSE_CODE_BYTES, reason.p, reason.n);
        n = CLOSE_CODE_BYTES + reason.n;
    }
    if (ws_queue_frame(ws, WS_OP_CLOSE, true, str_make(payload, n)) < 0)
        stream_close(&ws->stream, ENOMEM);
}

/* --- the end --- */

void ws_note_error(struct ws *ws, int error, const char *story)
{
    if (ws->err)
        return; /* the first error is the cause of the others */
    ws->err = mem_new(struct err);
    (void)err_sys(ws->err, error, "%s", story);
}

static void ws_arm(struct ws *ws, uint32_t ms)
{
    loop_timer_after(ws->loop, &ws->timer, ms, ws_on_timer);
}

/* From now on input is dropped and must not be held back by a pause. */
static void ws_stop_delivery(struct ws *ws)
{
    buf_done(&ws->message);
    ws->held = false;
    loop_timer_stop(ws->loop, &ws->idle); /* the close has its own timeout */
    stream_resume(&ws->stream);
}

/* Both closes were exchanged, or the peer's will not come. */
static void ws_begin_end(struct ws *ws)
{
    ws->state = WS_STATE_ENDING;
    ws_stop_delivery(ws);
    ws_arm(ws, ws->conf.close_ms);
    if (ws->decoder.role == WS_SERVER || ws->err)
        stream_finish(&ws->stream, ws->err != NULL);
}

static void ws_on_task(struct loop_task *t);

void ws_end_soon(struct ws *ws)
{
    ws->state = WS_STATE_OVER;
    loop_timer_stop(ws->loop, &ws->timer);
    loop_timer_stop(ws->loop, &ws->idle);
    loop_defer(ws->loop, &ws->task, ws_on_task);
}

/* The peer violated the protocol: send the close code and close. */
static void ws_violated(struct ws *ws, uint16_t code)
{
    static const struct {
        uint16_t code;
        int error;
        const char *text;
    } rows[] = {
        {WS_CLOSE_PROTOCOL_ERROR, EPROTO,   "the peer broke the protocol"         },
        {WS_CLOSE_BAD_TEXT,       EILSEQ,   "the peer sent text that is not UTF-8"},
        {WS_CLOSE_TOO_BIG,        EMSGSIZE, "the peer sent too large a message"   },
        {WS_CLOSE_INTERNAL_ERROR, ENOMEM,   "no memory for a message"             },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].code != code)
            continue;
        ws_note_error(ws, rows[i].error, rows[i].text);
        if (ws->state == WS_STATE_OPEN)
            ws_send_close(ws, code, STR_NONE);
        ws->close_code = code;
        ws_begin_end(ws);
        return;
    }
    assert(!"a code from our own decoder");
}

static void ws_closed_by_peer(struct ws *ws, uint16_t code, struct str reason)
{
    ws->close_code = code;
    ws->close_reason = reason; /* borrowed from the decoder, which gets no more input */
    if (ws->state == WS_STATE_OPEN)
        ws_send_close(ws, code, STR_NONE);
    ws_begin_end(ws);
}

void ws_close(struct ws *ws, uint16_t code, struct str reason)
{
    assert(code == 0 || ws_close_code_is_valid(code));
    if (ws->state == WS_STATE_CONNECTING)
        ws_cut(ws, ECANCELED);
    if (ws->state != WS_STATE_OPEN)
        return;
    ws_send_close(ws, code, reason);
    ws->state = WS_STATE_CLOSING;
    ws->bytes_seen = ws->stream.bytes_out;
    ws_stop_delivery(ws);
    ws_arm(ws, ws->conf.close_ms);
}

void ws_cut(struct ws *ws, int error)
{
    if (ws->state == WS_STATE_OVER)
        return;
    ws_note_error(ws, error, "the connection was given up");
    if (ws->state != WS_STATE_CONNECTING) {
        stream_reset(&ws->stream, error);
    } else if (ws->call) {
        http_call_cancel(take_ptr(&ws->call));
        ws_end_soon(ws);
    }
}

void ws_free(struct ws *ws)
{
    buf_done(&ws->message);
    free(ws->masks);
    free(ws->err);
    free(ws);
}

/* --- receiving --- */

/* A peer that sends nothing is gone, except while we are paused or our output is still queued: our
 * pings wait behind it, and the stall timeout applies. */
static void ws_on_idle(struct loop_timer *t)
{
    struct ws *ws = container_of(t, struct ws, idle);

    if (ws->stream.paused || ws_queued(ws) > 0) {
        ws_expect_life(ws);
        return;
    }
    ws_note_error(ws, ETIMEDOUT, "the peer says nothing");
    stream_reset(&ws->stream, ETIMEDOUT);
}

static void ws_expect_life(struct ws *ws)
{
    if (ws->conf.idle_ms)
        loop_timer_after(ws->loop, &ws->idle, ws->conf.idle_ms, ws_on_idle);
}

static void ws_hold(struct ws *ws, const struct ws_piece *piece, size_t taken)
{
    struct str rest = str_skip(piece->data, taken);

    ws->held = true;
    ws->held_opcode = (uint8_t)piece->opcode;
    ws->held_first = piece->first && taken == 0;
    ws->held_last = piece->last;
    stream_pause(&ws->stream);
    if (buf_add(&ws->message, rest) < 0)
        ws_violated(ws, WS_CLOSE_INTERNAL_ERROR);
}

static void ws_take_piece(struct ws *ws, const struct ws_event *event)
{
    struct ws_piece piece = {event->opcode, event->first, event->last, event->payload};
    size_t taken = ws->ops->on_piece(ws, &piece);

    assert(taken <= piece.data.n);
    if (taken < piece.data.n && ws->state == WS_STATE_OPEN)
        ws_hold(ws, &piece, taken);
}

static void ws_deliver(struct ws *ws, enum ws_opcode opcode, struct str data)
{
    if (ws->ops->on_message)
        ws->ops->on_message(ws, opcode, data);
}

/* A message in one piece, as most are, is not copied. */
static void ws_collect(struct ws *ws, const struct ws_event *event)
{
    struct buf message;

    if (event->first && event->last) {
        ws_deliver(ws, event->opcode, event->payload);
        return;
    }
    if (!ws->message.cap)
        loop_buf_borrow(ws->loop, &ws->message);
    if (buf_add(&ws->message, event->payload) < 0) {
        ws_violated(ws, WS_CLOSE_INTERNAL_ERROR);
        return;
    }
    if (!event->last)
        return;
    message = ws->message; /* so that closing in the callback does not free it */
    buf_init(&ws->message, message.max);
    ws_deliver(ws, event->opcode, buf_str(&message));
    loop_buf_return(ws->loop, &message);
}

static void ws_handle(struct ws *ws, const struct ws_event *event)
{
    switch (event->type) {
    case WS_MORE:
    case WS_PONG: /* any byte counts as a sign of life: see ws_on_timer */
        break;
    case WS_DATA:
        if (ws->state != WS_STATE_OPEN)
            break;
        if (ws->ops->on_piece)
            ws_take_piece(ws, event);
        else
            ws_collect(ws, event);
        break;
    case WS_PING:
        ws_answer_ping(ws, event->payload);
        break;
    case WS_CLOSE:
        ws_closed_by_peer(ws, event->close_code, event->payload);
        break;
    case WS_ERROR:
        ws_violated(ws, event->close_code);
        break;
    }
}

static size_t ws_on_data(struct stream *st, char *p, size_t n)
{
    struct ws *ws = container_of(st, struct ws, stream);
    struct ws_event event;
    int budget = stream_pieces_max(st);
    size_t used = 0;

    if (ws->state == WS_STATE_OPEN)
        ws_expect_life(ws);
    while (used < n && stream_is_open(st) && !st->paused) {
        if (budget-- == 0) {
            stream_yield(st);
            break;
        }
        used += ws_decode(&ws->decoder, p + used, n - used, &event);
        if (ws->state != WS_STATE_ENDING)
            ws_handle(ws, &event);
    }
    return stream_is_open(st) ? used : n;
}

static void ws_offer_held(struct ws *ws)
{
    struct ws_piece piece = {
        .opcode = ws->held_opcode,
        .first = ws->held_first,
        .last = ws->held_last,
        .data = buf_str(&ws->message),
    };
    size_t taken;

    taken = ws->ops->on_piece(ws, &piece);
    if (!ws->held) /* closed in the callback */
        return;
    assert(taken <= piece.data.n);
    ws->held_first = ws->held_first && taken == 0;
    buf_drop_front(&ws->message, taken);
    ws->held = ws->message.n > 0;
    if (!ws->held)
        loop_buf_return(ws->loop, &ws->message);
}

void ws_pause(struct ws *ws)
{
    if (ws->state != WS_STATE_OPEN)
        return;
    ws->paused = true;
    stream_pause(&ws->stream);
}

void ws_resume(struct ws *ws)
{
    if (ws->state != WS_STATE_OPEN)
        return;
    ws->paused = false;
    loop_defer(ws->loop, &ws->task, ws_on_task);
}

/* Continues after ws_resume, or reports the end. */
static void ws_on_task(struct loop_task *t)
{
    struct ws *ws = container_of(t, struct ws, task);

    if (ws->state == WS_STATE_OVER) {
        if (ws->ops->on_close)
            ws->ops->on_close(ws, ws->close_code, ws->close_reason, ws->err);
        ws_free(ws);
        return;
    }
    if (ws->state != WS_STATE_OPEN || ws->paused)
        return;
    if (ws->held)
        ws_offer_held(ws);
    if (ws->held || ws->paused || ws->state != WS_STATE_OPEN)
        return;
    stream_resume(&ws->stream);
}

/* --- other events --- */

static void ws_on_drain(struct stream *st)
{
    struct ws *ws = container_of(st, struct ws, stream);

    if (ws->pong_due && ws_may_send(ws)) {
        ws->pong_due = false;
        ws_answer_ping(ws, str_make(ws->pong, ws->pong_bytes));
    }
    if (ws->drain_due && ws_may_send(ws)) {
        ws->drain_due = false;
        if (ws->ops->on_drain)
            ws->ops->on_drain(ws);
    }
}

static void ws_on_hangup(struct stream *st)
{
    struct ws *ws = container_of(st, struct ws, stream);

    if (ws->state == WS_STATE_OPEN && ws->ops->on_hangup)
        ws->ops->on_hangup(ws);
}

static void ws_on_eof(struct stream *st)
{
    struct ws *ws = container_of(st, struct ws, stream);

    stream_close(st, ws->state == WS_STATE_ENDING ? 0 : ECONNRESET);
}

static void ws_on_close(struct stream *st, int error)
{
    struct ws *ws = container_of(st, struct ws, stream);

    if (error && ws->state != WS_STATE_ENDING)
        ws_note_error(ws, error, "the connection ended without a close");
    ws_end_soon(ws);
}

static const struct stream_ops ws_stream_ops = {
    .on_data = ws_on_data,
    .on_eof = ws_on_eof,
    .on_drain = ws_on_drain,
    .on_close = ws_on_close,
    .on_hangup = ws_on_hangup,
};

/* Any byte from the peer counts as an answer. A ping that waits behind other output has no timeout,
 * as the stall timeout applies; nor has one whose answer we do not read while paused. */
static void ws_on_ping_timer(struct ws *ws)
{
    const struct ws_conf *conf = &ws->conf;
    bool queued = ws_queued(ws) > 0;

    if (!ws->ping_out) {
        if (ws_room(ws) > 0)
            ws->ping_out = ws_queue_frame(ws, WS_OP_PING, true, STR_NONE) == 0 && !queued &&
                           !conf->idle_ms; /* with idle_ms, ws_on_idle checks for the answer */
        ws->bytes_seen = ws->stream.bytes_in;
        ws_arm(ws, ws->ping_out ? conf->pong_ms : conf->ping_ms);
        return;
    }
    if (ws->stream.bytes_in == ws->bytes_seen && !stream_is_held(&ws->stream)) {
        ws_note_error(ws, ETIMEDOUT, "the peer does not answer pings");
        stream_reset(&ws->stream, ETIMEDOUT);
        return;
    }
    ws->ping_out = false;
    ws_arm(ws, conf->ping_ms > conf->pong_ms ? conf->ping_ms - conf->pong_ms : 0);
}

static void ws_on_timer(struct loop_timer *t)
{
    struct ws *ws = container_of(t, struct ws, timer);

    if (ws->state == WS_STATE_OPEN) {
        ws_on_ping_timer(ws);
    } else if (ws->state == WS_STATE_ENDING) {
        stream_close(&ws->stream, 0); /* closes were exchanged, but the peer stays */
    } else if (ws_queued(ws) > 0 && ws->stream.bytes_out != ws->bytes_seen) {
        ws->bytes_seen = ws->stream.bytes_out; /* our close is still being sent */
        ws_arm(ws, ws->conf.close_ms);
    } else {
        ws_note_error(ws, ETIMEDOUT, "the peer does not answer a close");
        stream_reset(&ws->stream, ETIMEDOUT);
    }
}

/* --- beginning --- */

struct ws *ws_new(struct loop *loop, enum ws_role role, const struct ws_conf *conf,
                  const struct ws_ops *ops, void *user)
{
    struct ws *ws = mem_new(struct ws);

    ws->loop = loop;
    ws->conf = *conf;
    ws->conf.pong_ms = conf->pong_ms ? conf->pong_ms : 10 * 1000;
    ws->conf.close_ms = conf->close_ms ? conf->close_ms : 2 * 1000;
    ws->conf.stall_ms = conf->stall_ms ? conf->stall_ms : STREAM_STALL_MS_DEFAULT;
    ws->ops = ops;
    ws->user = user;
    ws->close_code = WS_CLOSE_ABNORMAL;
    ws_decoder_init(&ws->decoder, role, conf->message_bytes_max);
    buf_init(&ws->message, max_size(ws->decoder.message_bytes_max, STREAM_IN_BYTES_MAX));
    if (role == WS_CLIENT)
        ws->masks = mem_alloc(WS_MASKS_BYTES);
    return ws;
}

void ws_open(struct ws *ws, struct stream_parts *parts, struct str first_words)
{
    struct err e = {0};
    int r = stream_attach(&ws->stream, ws->loop, parts, &ws_stream_ops, &e);

    if (r < 0) {
        ws_note_error(ws, -r, e.msg);
        ws_end_soon(ws);
        return;
    }
    ws->stream.stall_ms = ws->conf.stall_ms;
    if (ws->conf.queue_bytes_max)
        stream_set_high(&ws->stream, ws->conf.queue_bytes_max);
    ws->state = WS_STATE_OPEN;
    r = stream_write(&ws->stream, first_words);
    if (r < 0) {
        stream_close(&ws->stream, -r);
        return;
    }
    if (ws->conf.ping_ms)
        ws_arm(ws, ws->conf.ping_ms);
    ws_expect_life(ws);
    if (ws->ops->on_open)
        ws->ops->on_open(ws);
}

void *ws_user(const struct ws *ws)
{
    return ws->user;
}

struct str ws_protocol(const struct ws *ws)
{
    return ws->protocol;
}

size_t ws_room(const struct ws *ws)
{
    return stream_room(&ws->stream);
}

size_t ws_queued(const struct ws *ws)
{
    return stream_queued(&ws->stream);
}
