/* serve.h - what the operator answers over HTTP: probes and figures. Loop thread only. */
#pragma once

#include "base/buf.h"
#include "operator/operator.h"

struct serve;

/* Listens on options.probe_bind and options.metrics_bind; "0" or "" = not at all. /healthz answers
 * while the loop turns; /readyz from the first complete list on. */
int serve_start(struct operator* op, struct serve **ret, struct err *e);
void serve_stop(struct serve *s); /* NULL is fine */

int serve_metrics(const struct operator* op, struct buf *out); /* Prometheus text */
