/* clone3_compat.h - a seccomp filter that makes clone3(2) fail with ENOSYS, for execd and all its
 * children. A libc and a container runtime of different age need it to fall back to clone(2). */
#pragma once

#include "base/err.h"

/* Obeys $EXECD_CLONE3_COMPAT: "1", "true", "yes" and "on" install the filter; "reexec" does so and
 * then executes this program again, once; "", "0", "false", "off" and "no" do nothing. -EINVAL for
 * any other value. */
int clone3_compat_apply(const char *const *argv, struct err *e) MUST_USE;
