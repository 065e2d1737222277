/* drive.h - one sandbox from a benchmark's point of view: asked for, answering, gone. Blocks. */
#pragma once

#include "base/time.h"
#include "broker/client.h"

enum drive_until {
    DRIVE_PING,   /* execd answers GET /ping */
    DRIVE_OUTPUT, /* the entrypoint's first byte is in its log */
};

/* What all sandboxes of a run have in common. */
struct drive {
    const char *broker;  /* socket */
    const char *sockets; /* directory for execd's listeners */
    int root;            /* lower directory, or -EBADF for the host's */
    enum plan_net net;
    enum drive_until until;
    const char *const *argv; /* the entrypoint, NULL-terminated */
};

struct box {
    uint64_t number; /* of this run; names it */
    struct broker_handle handle;
    double ms; /* from the broker's call to drive.until */
};

static inline double drive_ms_since(uint64_t began_ns)
{
    return (double)(time_mono_ns() - began_ns) / 1e6;
}

int drive_create(const struct drive *d, struct broker_client *c, uint64_t number, struct box *ret,
                 struct err *e);
int drive_ping(const struct drive *d, uint64_t number, struct err *e);
int drive_remove(const struct drive *d, struct broker_client *c, struct box *box, struct err *e);
