/* subnet.h - picks the bridge's IPv4 network so that it hides no address the host can reach. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <netinet/in.h>

enum {
    SUBNET_BITS = 16,
    SUBNET_COUNT = 25, /* 10.231.0.0/16 to 10.255.0.0/16 */
};

/* Keeps the network that the bridge has, as sandboxes may use it. Else picks the first from number
 * `start` on (then from 0) that overlaps no route except default routes, and has no name server.
 * routes: the text of /proc/net/route; resolv: that of /etc/resolv.conf. -EADDRNOTAVAIL when all
 * are in use. */
int subnet_pick(struct str routes, struct str resolv, const char *bridge, unsigned start,
                struct in_addr *ret_net, struct err *e);
