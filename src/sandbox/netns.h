/* netns.h - network namespaces of sandboxes, and the host's side of them.
 *
 * Only a descriptor and the processes inside hold a namespace: when they are gone the kernel
 * removes it and its veth pair, so a killed broker leaves nothing behind. The host has one bridge,
 * and one nftables table of ours per family (inet, bridge), made by netlink without other programs.
 * Names and addresses are derived from the slot number, and rules use only these: making or losing
 * a sandbox changes no rule.
 *
 * No sandbox needs ARP or neighbour discovery: each side is given the other's MAC. So a sandbox may
 * send only IP, from its own addresses, to the bridge's MAC; everything else is dropped where it
 * enters the bridge. Single-threaded: making one switches the caller's namespace and back. */
#pragma once

#include "base/err.h"
#include "sandbox/plan.h"
#include <netinet/in.h>

struct netns_conf {
    char bridge[16];       /* "osb0": 1 to 9 of [a-z0-9]; other names get their own tables */
    struct in_addr v4_net; /* 10.231.0.0: slot k gets .k+2; the bridge has .1 */
    uint8_t v4_bits;       /* 16 to 29 */
    uint32_t flows_max;    /* tracked connections (conntrack) per sandbox */
    bool v6;               /* also fd4f:7362:<v4_net>::/112; otherwise no IPv6 inside */
};
extern const struct netns_conf netns_conf_default;

/* Makes the bridge with its address and rules. May be repeated, even while sandboxes run, and then
 * repairs changes by other programs. Needed for PLAN_NET_BRIDGE only. Replaces the rules in one
 * transaction; never touches other tables, and what these drop stays dropped. The error says what
 * is missing (nftables in the kernel, ...).
 *
 * Apart from the bridge it changes only forwarding, where the host does not forward yet, and never
 * resets it: IPv4 on the interfaces of default routes; IPv6, if there is such a route, likewise
 * where the kernel can (Linux 6.17), else on all, with accept_ra = 2 where it was 1. */
int netns_host_setup(const struct netns_conf *conf, struct err *e);
/* Removes bridge and rules; running sandboxes lose their network. Absent is fine. */
int netns_host_remove(const struct netns_conf *conf, struct err *e);

/* Makes a namespace with loopback up and unprivileged ports and pings allowed; with PLAN_NET_BRIDGE
 * also eth0 with the slot's addresses and a default route. Replaces a veth that the slot's last
 * namespace left. Returns its descriptor. Blocks for about a millisecond. */
int netns_make(const struct netns_conf *conf, enum plan_net net, uint32_t slot, struct err *e);

/* The address of a slot's eth0, network order. */
struct in_addr netns_slot_v4(const struct netns_conf *conf, uint32_t slot);
struct in6_addr netns_slot_v6(const struct netns_conf *conf, uint32_t slot);
/* The addresses of the bridge. */
void netns_gateways(const struct netns_conf *conf, struct in_addr *ret_v4, struct in6_addr *ret_v6);
/* Removes a veth that a slot left on the host (its namespace died half-made, or is being removed);
 * absent is fine. The bridge's neighbour entry stays: the slot's next owner has the same. */
int netns_release(const struct netns_conf *conf, uint32_t slot, struct err *e);
/* Calls visit for each slot that has a veth on the host; for the sweep. */
int netns_each_slot(const struct netns_conf *conf, void (*visit)(void *user, uint32_t slot),
                    void *user, struct err *e);
