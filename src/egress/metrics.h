/* metrics.h - figures of egress: as Prometheus text, and for OpenTelemetry collectors over
 * OTLP/HTTP. Loop thread only. */
#pragma once

#include "base/otlp.h"
#include "egress/egress.h"

/* Appends all figures of the process. */
int metrics_text(const struct egress *g, struct buf *out);
/* Appends those of one sandbox. */
int metrics_text_of(const struct guarded *b, struct buf *out);

struct metrics_export;

struct metrics_export_conf { /* strings are copied by reference: they outlive the export */
    struct egress *egress;
    struct str url;
    bool is_base; /* /v1/metrics is added to its path */
    uint32_t interval_ms;
    int (*on_socket)(void *user, int fd);
    void *user;
    struct str sandbox_id; /* may be empty */
    const struct otlp_attribute *attrs;
    size_t attr_count;
};

/* Exports every interval, from one interval on. A collector that fails is warned of, and gets all
 * of it the next time: figures are cumulative. */
int metrics_export_start(const struct metrics_export_conf *conf, struct metrics_export **ret,
                         struct err *e);
void metrics_export_stop(struct metrics_export *x); /* NULL is fine */
