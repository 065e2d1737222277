/* exporter.h - sends spans, log records or metrics to an OpenTelemetry collector, in batches, by
 * OTLP over HTTP with JSON.
 *
 * Items wait in a queue of EXPORTER_QUEUE_BYTES; what does not fit is dropped and counted. Every
 * delay_ms, or sooner when much waits, a worker wraps and compresses them, and the loop posts them.
 * A batch that meets no answer, 429, 502, 503 or 504 is tried EXPORTER_TRIES times, with growing
 * pauses or those of Retry-After; after that, and after any other refusal, it is dropped and
 * counted. No caller ever waits. */
#pragma once

#include "base/err.h"
#include "base/otlp_json.h"
#include "net/http.h"
#include "net/pool.h"

struct exporter;

enum {
    EXPORTER_QUEUE_BYTES = 4 << 20,
    EXPORTER_EARLY_BYTES = 512 << 10, /* send before the delay is over */
    EXPORTER_TRIES = 5,
    EXPORTER_PAUSE_MS = 1000, /* before the second try; doubled for each further one */
    EXPORTER_PAUSE_MS_MAX = 60 * 1000,
    EXPORTER_HEADERS_MAX = 16,
};

struct exporter_conf { /* copied; what it points to must outlive the exporter */
    struct loop *loop;
    struct pool *pool;
    enum otlp_signal signal;
    const struct otlp_conf *resource;
    const char *url;                   /* http or https */
    const char *ca_file;               /* for https, besides the system's authorities; "" = none */
    const struct http_header *headers; /* at most EXPORTER_HEADERS_MAX */
    size_t header_count;
    uint32_t delay_ms, timeout_ms, pause_ms; /* pause_ms: EXPORTER_PAUSE_MS */
    bool gzip;
    void (*on_idle)(void *user); /* nothing waits any more; may be NULL */
    void *user;
};

/* -EINVAL when the URL is none. */
int exporter_new(const struct exporter_conf *conf, struct exporter **ret, struct err *e);
/* What waits is lost. After the workers have ended; NULL is fine. */
void exporter_free(struct exporter *x);

/* Any thread: adds `count` objects of JSON, separated by commas. Must not log. */
void exporter_add(struct exporter *x, struct str items, uint64_t count);
/* Sends what waits now, not after the delay. Loop thread. */
void exporter_hurry(struct exporter *x);

struct exporter_stats {
    uint64_t sent, dropped, failures; /* items; batches that were not taken at a try */
    bool idle;                        /* nothing waits, and nothing is under way */
};
void exporter_stats(struct exporter *x, struct exporter_stats *ret); /* any thread */
