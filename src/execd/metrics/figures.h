/* figures.h - processes and network traffic of the sandbox, from /proc: all in its own namespaces.
 * A few reads of small files, whatever goes on. */
#pragma once

#include "base/str.h"

struct figures { /* -1: not known */
    int64_t processes;
    int64_t bytes_in, bytes_out; /* of all interfaces but the loopback, since they are there */
    int64_t tcp;                 /* connections that are established */
    int64_t udp;                 /* sockets */
};

void figures_take(struct figures *ret);

/* --- the texts of the files --- */

/* /proc/net/dev. -EINVAL when a row is not as expected; without any but lo it is 0 and 0. */
int figures_parse_traffic(struct str text, int64_t *ret_in, int64_t *ret_out) MUST_USE;
/* /proc/net/snmp: CurrEstab of Tcp, which counts IPv6, too. */
int figures_parse_established(struct str text, int64_t *ret) MUST_USE;
/* /proc/net/sockstat and sockstat6: the number behind "inuse" of that row, such as "UDP". */
int figures_parse_in_use(struct str text, const char *row, int64_t *ret) MUST_USE;
