/* webhook.h - tells a URL which names were denied: one POST per name, in order.
 *
 *   {"hostname":"bad.example","timestamp":"2026-01-02T03:04:05Z","source":"opensandbox-egress",
 *    "sandboxId":"sb-1"}
 *
 * A request is tried WEBHOOK_TRIES times, with pauses of 1, 2 and 4 s, as long as the answer is a
 * transport error or 5xx. Loop thread only. */
#pragma once

#include "egress/outcall.h"

struct webhook;

enum { WEBHOOK_QUEUE_MAX = 256, WEBHOOK_TRIES = 4, WEBHOOK_TIMEOUT_MS = 5000 };

/* Of `conf` type and timeout are ours. */
int webhook_new(const struct outcall_conf *conf, struct webhook **ret, struct err *e);
void webhook_free(struct webhook *w); /* NULL is fine; what waits is lost */
/* Queues a report. The root name is not reported; with a full queue the report is dropped. NULL is
 * fine. */
void webhook_denied(struct webhook *w, struct str hostname, struct str sandbox);

struct webhook_stats {
    uint64_t sent, failed, dropped;
    size_t waiting;
};
void webhook_stats(const struct webhook *w, struct webhook_stats *ret);
