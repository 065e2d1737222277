/* netns_internal.h - shared by the netns files: names, addresses, settings. */
#pragma once

#include "sandbox/netlink.h"
#include "sandbox/netns.h"
#include <net/if.h>

enum { NETNS_MAC_BYTES = 6 };

/* All addresses of a slot, or of the bridge (see netns_gateway). */
struct netns_addr {
    struct in_addr v4;
    struct in6_addr v6;
    uint8_t mac[NETNS_MAC_BYTES];
};

/* The MAC ends with the last two bytes of both IP addresses: so rules can check a sender's address
 * by its MAC, without a rule per sandbox. */
struct netns_addr netns_addr_of(const struct netns_conf *conf, uint32_t slot);
struct netns_addr netns_gateway(const struct netns_conf *conf);
extern const uint8_t netns_mac_prefix[4];
enum { NETNS_V6_BITS = 112 }; /* network part; the rest is the end of the IPv4 address */

/* "osb0-17": the host's end of slot 17's veth. Bridge names have no '-', so it is unambiguous. */
void netns_port_name(const struct netns_conf *conf, uint32_t slot, char ret[IFNAMSIZ]);

/* Checks what other code relies on: the names fit, the network has room for slots. */
int netns_conf_check(const struct netns_conf *conf, struct err *e);

/* Writes a file of /proc/sys. Files below net/ are those of the calling thread's network namespace,
 * or of the one in which `dirfd` was opened. */
int netns_sysctl_write(int dirfd, const char *path, const char *value, struct err *e);
bool netns_has_v6(void); /* the kernel supports IPv6 */

struct netns_link {
    unsigned index;
    uint8_t mac[NETNS_MAC_BYTES];
};
int netns_link_find(struct netlink *nl, const char *name, struct netns_link *ret, struct err *e);

/* Adds permanent neighbour entries for `addr`, so that the interface needs no ARP or discovery. */
void netns_add_neighbours(struct netlink_batch *b, unsigned index, const struct netns_addr *addr,
                          bool v6);

/* Replaces the two tables of rules in one transaction, or removes them; absent is fine. */
int netns_rules_apply(const struct netns_conf *conf, struct err *e);
int netns_rules_remove(const struct netns_conf *conf, struct err *e);
