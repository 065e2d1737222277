/* objects.h - a process that starts a program for object storage and hands it to a sandbox. */
#pragma once

#include "broker/broker.h"
#include "sandbox/objects.h"

/* Returns a socket, on which one struct objects_message arrives, OBJECTS_READY or OBJECTS_FAILED.
 * Closing it, or not giving it to BROKER_SPAWN in time, ends the program. */
int objects_watch(struct broker *b, const struct objects_spec *spec, struct err *e);
