/* figures.h - counts processes and network traffic of the sandbox, from /proc of its own
 * namespaces. Always reads only a few small files. */
#pragma once

#include "base/str.h"

struct figures { /* -1: unknown */
    int64_t processes;
    int64_t bytes_in, bytes_out; /* of all interfaces except loopback, since they exist */
    int64_t tcp;                 /* established connections */
    int64_t udp;                 /* sockets */
};

void figures_take(struct figures *ret);

/* --- parsers of the files --- */

/* /proc/net/dev. -EINVAL for an unexpected row; 0 and 0 if there is only lo. */
int figures_parse_traffic(struct str text, int64_t *ret_in, int64_t *ret_out) MUST_USE;
/* /proc/net/snmp: CurrEstab of Tcp, which includes IPv6. */
int figures_parse_established(struct str text, int64_t *ret) MUST_USE;
/* /proc/net/sockstat and sockstat6: the number after "inuse" in `row`, such as "UDP". */
int figures_parse_in_use(struct str text, const char *row, int64_t *ret) MUST_USE;
