/* confine.h - the privileges that the broker needs, and how it drops all others. */
#pragma once

#include "base/err.h"

/* On failure the error names all missing privileges in one sentence. */
int broker_check_privileges(struct err *e);
/* Drops all capabilities that no operation needs, for good. */
int broker_confine(struct err *e);
