/* confine.h - what the process gives up once it serves, by a seccomp filter: it parses messages of
 * sandboxes under the server's account, and a mistake there must not reach what that account may.
 *
 * From then on it can make no unix socket, so that it cannot connect to the broker or to others;
 * start no program; trace no process, and take no descriptor or memory of one. Its connection to
 * the broker has the role of egress, for good. */
#pragma once

#include "base/err.h"

/* For this process, all threads; they exist already. Cannot be undone. */
int egress_confine(struct err *e);
