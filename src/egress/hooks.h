/* hooks.h - what an interceptor of connections asks about a sandbox. Loop thread only. */
#pragma once

#include "egress/egress.h"

/* May the sandbox talk over TCP to this address, for this name (empty: none is known)? 0, or
 * -EACCES with the reason; a refusal becomes an event. Connections of an interceptor leave from
 * outside of the sandbox's rules, so it must ask for each. Under default deny the name must be
 * allowed and have led to the address, or a rule must allow the address. */
int hooks_may_connect(struct guarded *b, struct str name, const struct sock_addr *to,
                      struct err *e);
/* Whether a rule of `policy`, and not the default, allows the host. */
bool hooks_host_allowed(const struct guarded *b, const struct policy *policy, struct str host);
/* Whether `to` belongs to the name: the sandbox learned it, or resolvers say so, or no resolver
 * knows the name. Calls done once, perhaps from inside. */
typedef void hooks_done_fn(void *user, bool belongs);
void hooks_is_address_of(struct guarded *b, struct str name, const struct sock_addr *to,
                         hooks_done_fn *done, void *user);
