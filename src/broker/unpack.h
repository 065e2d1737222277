/* unpack.h - the process that watches over the unpacking of a layer. */
#pragma once

#include "broker/broker.h"

struct unpack_job {
    struct unpack_limits limits;
    int blob, target; /* the caller's; the blob may be any file that is open for reading */
};

/* Starts unpacking in the background and returns a socket, on which one struct unpack_report
 * arrives. Closing it stops the work. */
int unpack_watch(struct broker *b, uid_t caller, const struct unpack_job *job, struct err *e);
