/* subnet.h - the IPv4 network of a bridge: one that hides nothing the host can reach. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <netinet/in.h>

enum {
    SUBNET_BITS = 16,
    SUBNET_COUNT = 25, /* 10.231.0.0/16 to 10.255.0.0/16 */
};

/* Picks one. What the bridge has already stays, as sandboxes may be on it; else it is the first
 * from number `start` on (then from 0) that overlaps no route but a default one, and holds no name
 * server. routes: the text of /proc/net/route; resolv: that of /etc/resolv.conf. -EADDRNOTAVAIL
 * when each of them is taken. */
int subnet_pick(struct str routes, struct str resolv, const char *bridge, unsigned start,
                struct in_addr *ret_net, struct err *e);
