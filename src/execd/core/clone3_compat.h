/* clone3_compat.h - makes clone3(2) fail with ENOSYS, for us and all we start: what old libraries
 * in new containers (or the other way round) need, to fall back to clone(2). */
#pragma once

#include "base/err.h"

/* As $EXECD_CLONE3_COMPAT says: "1", "true", "yes" and "on" install the filter, "reexec" does so
 * and then runs this program anew, once; "", "0", "false", "off" and "no" do nothing. -EINVAL for
 * other words. */
int clone3_compat_apply(const char *const *argv, struct err *e) MUST_USE;
