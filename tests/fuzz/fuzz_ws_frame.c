/* fuzz_ws_frame.c - frames told whole equal frames told in pieces; what is encoded decodes to
 * itself.
 *
 * Byte 0 chooses role and limit, byte 1 seeds the splits, the rest is the wire. */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "fuzz.h"
#include "net/ws_frame.h"

enum { LOG_BYTES_MAX = 64 << 20 };

static size_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static void log_event(struct buf *log, struct buf *message, const struct ws_event *ev)
{
    if (ev->type == WS_DATA) {
        FUZZ_CHECK(buf_add(message, ev->payload) == 0);
        if (!ev->last)
            return;
        FUZZ_CHECK(buf_addf(log, "%d message %zu ", ev->opcode, message->n) == 0);
        FUZZ_CHECK(buf_add(log, buf_str(message)) == 0);
        buf_clear(message);
        return;
    }
    FUZZ_CHECK(buf_addf(log, "%d %d %zu ", ev->type, ev->close_code, ev->payload.n) == 0);
    FUZZ_CHECK(buf_add(log, ev->payload) == 0);
}

/* Decodes an exact-size copy of each piece; returns true when the wire was good to its end. */
static bool decode(struct ws_decoder *d, struct str wire, uint32_t *seed, struct buf *log)
{
    AUTO_BUF(message, LOG_BYTES_MAX);
    struct ws_event ev = {.type = WS_MORE};

    while (wire.n && ev.type != WS_ERROR) {
        size_t n = seed ? min_size(wire.n, 1 + next_random(seed) % 17) : wire.n, at = 0;
        auto_free char *piece = mem_alloc(n);

        memcpy(piece, wire.p, n);
        do {
            at += ws_decode(d, piece + at, n - at, &ev);
            FUZZ_CHECK(at <= n);
            if (ev.type != WS_MORE)
                log_event(log, &message, &ev);
        } while (ev.type != WS_MORE && ev.type != WS_ERROR);
        FUZZ_CHECK(ev.type == WS_ERROR || at == n);
        wire = str_skip(wire, n);
    }
    return ev.type != WS_ERROR;
}

static void check_round_trip(struct str payload, uint8_t flags)
{
    AUTO_BUF(frame, LOG_BYTES_MAX);
    uint8_t mask[4] = {flags, 0x5a, (uint8_t)payload.n, 0};
    bool masked = flags & 1;
    struct ws_decoder d;
    struct ws_event ev;
    size_t head;

    FUZZ_CHECK(buf_reserve(&frame, WS_HEADER_MAX + payload.n) == 0);
    head = ws_frame_header(frame.p, WS_OP_BINARY, true, payload.n, masked ? mask : NULL);
    buf_claim(&frame, head);
    FUZZ_CHECK(buf_add(&frame, payload) == 0);
    if (masked)
        ws_mask(frame.p + head, payload.n, mask, 0);

    ws_decoder_init(&d, masked ? WS_SERVER : WS_CLIENT, 0);
    FUZZ_CHECK(ws_decode(&d, frame.p, frame.n, &ev) == frame.n);
    FUZZ_CHECK(ev.type == WS_DATA && ev.first && ev.last);
    FUZZ_CHECK(str_eq(ev.payload, payload));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_BUF(whole, LOG_BYTES_MAX);
    AUTO_BUF(split, LOG_BYTES_MAX);
    struct ws_decoder a, b;
    enum ws_role role;
    uint64_t max;
    uint32_t seed;
    struct str wire;

    if (size < 2)
        return 0;
    role = data[0] & 1 ? WS_SERVER : WS_CLIENT;
    max = data[0] >> 1; /* 0 is the default */
    seed = data[1];
    wire = str_make((const char *)data + 2, size - 2);

    ws_decoder_init(&a, role, max);
    ws_decoder_init(&b, role, max);
    FUZZ_CHECK(decode(&a, wire, NULL, &whole) == decode(&b, wire, &seed, &split));
    FUZZ_CHECK(str_eq(buf_str(&whole), buf_str(&split)));
    check_round_trip(wire, data[0]);
    return 0;
}
