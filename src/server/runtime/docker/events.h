/* events.h - the engine's stream of events: it tells at once when a container of this installation
 * has ended, or has been changed behind the server's back. Loop thread.
 *
 * When the stream ends, a new one is asked for, with growing pauses; and once that is there, what
 * may have been missed is looked up. */
#pragma once

#include "base/str.h"
#include "net/http_client.h"

struct docker;
struct docker_events;

int docker_events_start(struct docker *d, struct docker_events **ret, struct err *e);
/* Loop thread, before the pool of workers ends. NULL is fine. */
void docker_events_stop(struct docker_events *ev);
void docker_events_free(struct docker_events *ev); /* after the pool has ended */

/* Whether the stream is up, so the engine is there. Any thread. */
bool docker_events_are_up(const struct docker_events *ev);

/* The sandbox that an event, a line of the stream, is about; in `out`. False when it does not
 * matter: a line that is no event, or of another kind. */
bool docker_event_read(struct str line, char *out, size_t out_size);
