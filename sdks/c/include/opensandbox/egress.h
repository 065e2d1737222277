/* egress.h - what a sandbox may reach: rules by name or address, at its port 18080.
 *
 * A create sets the first policy by network_policy. Answers are those of the egress daemon. */
#pragma once

#include <opensandbox/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

struct osb_rule {
    const char *action; /* "allow" or "deny" */
    const char *target; /* "pypi.org", "*.example.com", "192.0.2.0/24" */
};

/* The answer has "policy.defaultAction" and "policy.egress[0].target" and so on, and "mode". */
int osb_egress_get(struct osb_sandbox *sandbox, struct osb_answer **ret_answer);
/* All of the policy anew, as JSON: {"defaultAction":"deny","egress":[...]}. ret_answer may be NULL,
 * also below. */
int osb_egress_set(struct osb_sandbox *sandbox, const char *policy, struct osb_answer **ret_answer);
/* Adds rules; one for a target that has a rule replaces it. */
int osb_egress_patch(struct osb_sandbox *sandbox, const struct osb_rule *rules, size_t count,
                     struct osb_answer **ret_answer);
/* Removes the rules of these targets; unknown ones are ignored. */
int osb_egress_delete(struct osb_sandbox *sandbox, const char *const *targets, size_t count,
                      struct osb_answer **ret_answer);

#ifdef __cplusplus
}
#endif
