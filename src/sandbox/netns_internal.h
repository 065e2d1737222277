/* netns_internal.h - what the parts of netns share: names, addresses, settings. */
#pragma once

#include "sandbox/netlink.h"
#include "sandbox/netns.h"
#include <net/if.h>

enum { NETNS_MAC_BYTES = 6 };

/* An address as all its forms: of a slot, or of the bridge (see netns_gateway). */
struct netns_addr {
    struct in_addr v4;
    struct in6_addr v6;
    uint8_t mac[NETNS_MAC_BYTES];
};

/* The MAC ends in the last two bytes of both IP addresses: rules tell from it alone which address
 * is the sender's own, without a row per sandbox. */
struct netns_addr netns_addr_of(const struct netns_conf *conf, uint32_t slot);
struct netns_addr netns_gateway(const struct netns_conf *conf);
extern const uint8_t netns_mac_prefix[4];
enum { NETNS_V6_BITS = 112 }; /* those of the network; the rest is the IPv4 address's end */

/* "osb0-17": the host's end of slot 17's veth. No bridge name holds a '-', so none is ambiguous. */
void netns_port_name(const struct netns_conf *conf, uint32_t slot, char ret[IFNAMSIZ]);

/* Refuses what the rest relies on: the names fit, the network holds slots. */
int netns_conf_check(const struct netns_conf *conf, struct err *e);

/* Writes a file of /proc/sys. What lies below net there is that of the calling thread's namespace,
 * or of the one `dirfd` was opened in. */
int netns_sysctl_write(int dirfd, const char *path, const char *value, struct err *e);
bool netns_has_v6(void); /* the kernel speaks IPv6 */

struct netns_link {
    unsigned index;
    uint8_t mac[NETNS_MAC_BYTES];
};
int netns_link_find(struct netlink *nl, const char *name, struct netns_link *ret, struct err *e);

/* Tells an interface where `addr` is, so that it need not ask. */
void netns_add_neighbours(struct netlink_batch *b, unsigned index, const struct netns_addr *addr,
                          bool v6);

/* The two tables of rules, replaced as one transaction; or removed, absent is fine. */
int netns_rules_apply(const struct netns_conf *conf, struct err *e);
int netns_rules_remove(const struct netns_conf *conf, struct err *e);
