/* spans.h - finished spans that wait for their export, as OTLP JSON. Beyond a limit new ones are
 * dropped. Loop thread only. */
#pragma once

#include "base/otlp_json.h"

enum {
    SPANS_BYTES_MAX = 1 << 20,
    SPANS_BATCH_MAX = 512, /* in one export */
};

struct spans {
    struct buf waiting; /* one object per line */
    size_t sending;     /* bytes at the front that are being sent */
    uint64_t dropped;
};

void spans_init(struct spans *s);
void spans_done(struct spans *s);
void spans_add(struct spans *s, const struct trace_row *row);
/* Appends the body of a request with the oldest spans: 0, -EAGAIN when there is none, -errno. */
int spans_send(struct spans *s, const struct otlp_conf *conf, struct buf *body) MUST_USE;
/* The collector took them, or they wait on. */
void spans_sent(struct spans *s, bool taken);
