/* fake_registry.h - a registry by script: what a path answers, byte for byte. One thread, one
 * connection at a time; each is closed after its answer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_rule {
    const char *path;  /* the request's target begins with it */
    const char *needs; /* the request's head has this text; NULL = any */
    const char *head;  /* status line and headers, each with \r\n; NULL: closed without a word */
    const void *body;  /* NULL = none */
    size_t body_bytes; /* announced as Content-Length, unless the head has one */
    size_t cut;        /* sends only so many bytes of the body; 0 = all */
    bool stalls;       /* then says nothing, until the client goes */
    unsigned times;    /* answers so many requests, then the next rule counts; 0 = always */
    bool ranges;       /* answers "Range: bytes=N-" with 206 */
    unsigned hits;     /* counted */
};

/* Serves the rules, the first that fits. They must stay in place. Returns the port. */
uint16_t fake_registry_start(struct fake_rule *rules, size_t count);
/* The last request's head. */
const char *fake_registry_last(void);
unsigned fake_registry_requests(void);
