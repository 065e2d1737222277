/* resolv.h - the host's name servers, for sandboxes without configured ones. */
#pragma once

#include "base/str.h"

/* Parses resolv.conf text into IPv4 addresses, network order, at most `max`. Skips addresses that
 * only this host can reach (127.0.0.0/8, 0.0.0.0). Returns how many. */
size_t resolv_parse(struct str text, uint32_t *ret, size_t max);

/* Reads /etc/resolv.conf. If that names only a resolver on this host, reads the file in which
 * systemd-resolved lists its upstream servers. Blocks; for start-up. */
size_t resolv_servers(uint32_t *ret, size_t max);
