/* measure.h - a process that counts what is below a directory, beside the workers. */
#pragma once

#include "broker/broker.h"

/* Starts to count and returns a socket, on which one struct broker_copied arrives. Closing it stops
 * the work. -EBUSY when this worker has JOBS_COUNTS_MAX of them. */
int measure_start(struct broker *b, int dir, struct err *e);
