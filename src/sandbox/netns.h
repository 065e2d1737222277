/* netns.h - network namespaces for sandboxes, and the host's side of them.
 *
 * A namespace is held by a descriptor and by the processes in it, by nothing else: when they are
 * gone the kernel removes it and its veth pair, so a killed broker leaves nothing behind. The host
 * has one bridge, and one nftables table of ours per family it takes (inet, bridge). All netlink is
 * spoken by us; names and addresses follow from the slot number, and so do the rules: making or
 * losing a sandbox changes none.
 *
 * No sandbox needs ARP or neighbour discovery: each side is told the other's MAC. So a sandbox may
 * send just IP, from its own addresses, to the bridge's MAC, and anything else is dropped where it
 * enters the bridge. Single-threaded: making one switches the caller's namespace and back. */
#pragma once

#include "base/err.h"
#include "sandbox/plan.h"
#include <netinet/in.h>

struct netns_conf {
    char bridge[16];       /* "osb0": 1 to 9 of [a-z0-9]; other names get tables of their own */
    struct in_addr v4_net; /* 10.231.0.0: slot k gets .k+2; the bridge has .1 */
    uint8_t v4_bits;       /* 16 to 29 */
    uint32_t flows_max;    /* connections of one sandbox that the host keeps track of */
    bool v6;               /* also fd4f:7362:<v4_net>::/112; otherwise there is no IPv6 inside */
};
extern const struct netns_conf netns_conf_default;

/* Makes the bridge with its address and rules; safe to repeat, also under living sandboxes, and
 * then sets right what others changed. Needed for PLAN_NET_BRIDGE only. The rules are replaced in
 * one transaction; tables of others are never touched, and what they drop stays dropped. The error
 * says what is missing (nftables in the kernel, ...).
 *
 * Beyond the bridge it changes only forwarding, where the host does not forward already, and leaves
 * that so: IPv4 on the interfaces of default routes; IPv6, if there is such a route, likewise where
 * the kernel can (Linux 6.17), else on all, with accept_ra = 2 where it was 1. */
int netns_host_setup(const struct netns_conf *conf, struct err *e);
/* Bridge and rules; sandboxes that live have no way out any more. Absent is fine. */
int netns_host_remove(const struct netns_conf *conf, struct err *e);

/* A namespace with loopback up and unprivileged ports and pings allowed; with PLAN_NET_BRIDGE also
 * eth0 with the slot's addresses and a default route. A veth that the slot's last namespace left is
 * replaced: a slot has one owner. Returns its descriptor. Blocks for about a millisecond. */
int netns_make(const struct netns_conf *conf, enum plan_net net, uint32_t slot, struct err *e);

/* The address of a slot's eth0, network order. */
struct in_addr netns_slot_v4(const struct netns_conf *conf, uint32_t slot);
/* Removes a veth a slot may have left on the host (its namespace died half-made, or is about to
 * go); absent is fine. The bridge's neighbour entry stays: it is the same for the slot's next. */
int netns_release(const struct netns_conf *conf, uint32_t slot, struct err *e);
/* Slots that have a veth on the host, for the sweep. */
int netns_each_slot(const struct netns_conf *conf, void (*visit)(void *user, uint32_t slot),
                    void *user, struct err *e);
