/* egress.h - opensandbox-egress as the embedded runtime uses it: a process of the server that
 * judges and filters what sandboxes with a policy send.
 *
 * It is started again when it ends. While it is down, sandboxes with a policy keep the rules that
 * are in the kernel and get no answers to DNS; creates with a policy fail. */
#pragma once

#include "server/runtime/embedded/embedded_internal.h"

/* Starts the process and waits until it serves, if this configuration can have it; then the runtime
 * can enforce policies. BLOCKS. */
int embedded_egress_start(struct embedded *em, struct err *e);
void embedded_egress_stop(struct embedded *em); /* loop thread; ends the process */

/* Whether the policy of a request is one. Worker, BLOCKS. */
int embedded_egress_check(struct embedded *em, const struct api_create *spec, struct api_fail *f);
/* Before a sandbox is made: stores the policy of a new one. 1 if it has to begin closed, else 0.
 * `dir` is the sandbox's directory. */
int embedded_egress_prepare(struct embedded *em, const struct runtime_create *create, int dir,
                            struct err *e);
/* After that, for a sandbox with a credential proxy: tells its init which authority to trust, gives
 * values of its secrets to egress, and their placeholders to its environment. Worker, BLOCKS. */
int embedded_egress_trust(struct embedded *em, const struct runtime_create *create, const char *id,
                          struct plan *plan, struct err *e);
/* After that: opens what the policy allows. Worker, BLOCKS. */
int embedded_egress_attach(struct embedded *em, const char *id, struct err *e);
void embedded_egress_detach(struct embedded *em, const char *id);

/* Asks it; `ret` says whether it answers in time. Worker, BLOCKS for a second or so at most. */
void embedded_egress_figures(struct embedded *em, struct runtime_egress *ret);

/* As in runtime.h. */
void embedded_egress_trouble(struct runtime *r, struct err *ret);
int embedded_egress_endpoint(struct runtime *r, struct str id, struct runtime_endpoint *ret);
int embedded_egress_report(struct runtime *r, struct str id, struct buf *out, struct err *e);
