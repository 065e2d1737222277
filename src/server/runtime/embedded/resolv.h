/* resolv.h - the host's name servers, for sandboxes that get no others. */
#pragma once

#include "base/str.h"

/* IPv4 addresses of resolv.conf's text, network order, up to `max`; what only this host can reach
 * (127.0.0.0/8, 0.0.0.0) is left out. Returns how many. */
size_t resolv_parse(struct str text, uint32_t *ret, size_t max);

/* From /etc/resolv.conf, or, where that names only a resolver on this host, from the file of
 * systemd-resolved that has the servers behind it. Blocks; for start-up. */
size_t resolv_servers(uint32_t *ret, size_t max);
