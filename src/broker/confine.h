/* confine.h - what the broker may do, beyond which it gives everything up. */
#pragma once

#include "base/err.h"

/* Names everything that is missing to make sandboxes, in one sentence. */
int broker_check_privileges(struct err *e);
/* Keeps only the capabilities its operations need, for good. */
int broker_confine(struct err *e);
