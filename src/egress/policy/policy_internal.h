/* policy_internal.h - shared by the files of src/egress/policy. */
#pragma once

#include "base/json_write.h"
#include "egress/policy/policy.h"

/* --- policy_http.c: "methods" and "paths" of a rule --- */

/* Reads either member into the rule. -EBADMSG, -ENOMEM. */
int policy_http_read(struct policy *p, const struct json *member, struct policy_rule *rule,
                     struct err *e);
/* Checks the whole rule; gives one that allows the ports that are intercepted. */
int policy_http_check(struct policy *p, struct policy_rule *rule, struct err *e);
int policy_http_copy(struct policy *p, const struct policy_rule *from, struct policy_rule *to);
void policy_http_write(struct json_writer *w, const struct policy_rule *rule);
