/* fuzz_zmtp.c - frames read whole equal frames read in pieces; what is written reads back.
 *
 * Byte 0 chooses the ceiling of a message, byte 1 seeds the splits, the rest is the wire behind the
 * greeting, or, when byte 0 is odd, with it. */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "execd/code/jupyter/zmtp.h"
#include "fuzz.h"

enum { LOG_BYTES_MAX = 64 << 20 };

static size_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static void log_event(struct buf *log, const struct zmtp_reader *r, enum zmtp_event event)
{
    FUZZ_CHECK(buf_addf(log, "%d ", event) == 0);
    if (event == ZMTP_EVENT_COMMAND) {
        struct str value;

        FUZZ_CHECK(buf_add(log, r->name) == 0 && buf_add(log, r->data) == 0);
        if (zmtp_property(r->data, STR("Socket-Type"), &value) == 0)
            FUZZ_CHECK(buf_add(log, value) == 0);
    }
    if (event != ZMTP_EVENT_MESSAGE)
        return;
    FUZZ_CHECK(buf_addf(log, "%d %llu:", r->cut, (unsigned long long)r->message_bytes) == 0);
    for (size_t i = 0; i < r->frame_count; i++)
        FUZZ_CHECK(buf_addf(log, "%zu ", r->frames[i].n) == 0 && buf_add(log, r->frames[i]) == 0);
}

/* Reads an exact-size copy of each piece; returns true when the wire was good to its end. */
static bool read_all(struct zmtp_reader *r, struct str wire, uint32_t *seed, struct buf *log)
{
    int result = 0;

    while (wire.n && result >= 0) {
        size_t n = seed ? min_size(wire.n, 1 + next_random(seed) % 17) : wire.n;
        auto_free char *piece = mem_alloc(n);
        struct str in = str_make(piece, n);
        enum zmtp_event event = ZMTP_EVENT_GREETING;

        memcpy(piece, wire.p, n);
        while (result >= 0 && event != ZMTP_EVENT_NONE) {
            result = zmtp_read(r, &in, &event, NULL);
            if (result >= 0 && event != ZMTP_EVENT_NONE)
                log_event(log, r, event);
        }
        FUZZ_CHECK(result < 0 || in.n == 0);
        wire = str_skip(wire, n);
    }
    zmtp_reader_release(r);
    return result >= 0;
}

static void greet(struct zmtp_reader *r)
{
    AUTO_BUF(greeting, ZMTP_GREETING_BYTES);
    enum zmtp_event event;
    struct str in;

    FUZZ_CHECK(zmtp_write_greeting(&greeting) == 0);
    in = buf_str(&greeting);
    FUZZ_CHECK(zmtp_read(r, &in, &event, NULL) == 0 && event == ZMTP_EVENT_GREETING);
}

static void check_round_trip(struct str body)
{
    AUTO_BUF(wire, LOG_BYTES_MAX);
    struct zmtp_reader r;
    enum zmtp_event event;
    struct str in;

    FUZZ_CHECK(zmtp_write_frame(&wire, body, true) == 0 &&
               zmtp_write_frame(&wire, STR(""), false) == 0);
    zmtp_reader_init(&r, 0);
    greet(&r);
    in = buf_str(&wire);
    FUZZ_CHECK(zmtp_read(&r, &in, &event, NULL) == 0 && event == ZMTP_EVENT_MESSAGE);
    FUZZ_CHECK(in.n == 0 && r.frame_count == 2 && str_eq(r.frames[0], body));
    zmtp_reader_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_BUF(whole, LOG_BYTES_MAX);
    AUTO_BUF(split, LOG_BYTES_MAX);
    struct zmtp_reader a, b;
    uint32_t seed;
    struct str wire;

    if (size < 2)
        return 0;
    seed = data[1];
    wire = str_make((const char *)data + 2, size - 2);
    zmtp_reader_init(&a, data[0] >> 1);
    zmtp_reader_init(&b, data[0] >> 1);
    if (!(data[0] & 1)) {
        greet(&a);
        greet(&b);
    }
    FUZZ_CHECK(read_all(&a, wire, NULL, &whole) == read_all(&b, wire, &seed, &split));
    FUZZ_CHECK(str_eq(buf_str(&whole), buf_str(&split)));
    check_round_trip(wire);
    zmtp_reader_done(&a);
    zmtp_reader_done(&b);
    return 0;
}
