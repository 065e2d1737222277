/* relay.h - moves bytes between two connections, both ways, by splice: they never enter our memory.
 * Where one of the two has TLS they must, and are copied from stream to stream.
 *
 * A slow reader stops the other side's sender, through the pipe between them. End of input is
 * passed on (shutdown), so half-closed connections finish. Loop thread only. An idle relay holds
 * two sockets and no pipe. */
#pragma once

#include "base/err.h"
#include "net/loop.h"
#include "net/stream.h"

struct relay;

struct relay_result {
    int error; /* 0 when both sides ended cleanly, else a positive errno */
    uint64_t bytes_a_to_b, bytes_b_to_a;
};

struct relay_conf {
    uint32_t idle_ms; /* without a byte either way; 0 = no deadline */
    /* Once, at the end of a turn; the relay and both sockets are freed afterwards. */
    void (*on_done)(void *user, const struct relay_result *result);
    void *user;
};

/* Takes over both connections, with their unsent output and undelivered input. On failure they stay
 * with the caller. */
int relay_start(struct loop *loop, struct stream_parts *a, struct stream_parts *b,
                const struct relay_conf *conf, struct relay **ret_relay, struct err *e);
void relay_stop(struct relay *r, int error); /* cuts both; on_done still comes */
/* Takes `b` for ended, once what it sent before is passed on: it may have gone without a word. */
void relay_end_b(struct relay *r);
