/* route.h - which port of which sandbox a request is for, read from its header, host or path.
 *
 * Pure: bytes in, result out. Strings of a result point into the input. */
#pragma once

#include "base/buf.h"

enum route_mode {
    ROUTE_BY_HEADER,  /* by a header, or by the first label of the host */
    ROUTE_BY_PATH,    /* by the first segments of the path */
    ROUTE_BY_NOTHING, /* a mode that does not exist: every request is refused */
};

#define ROUTE_HEADER     "OpenSandbox-Ingress-To"
#define ROUTE_HEADER_OLD "OPEN-SANDBOX-INGRESS"

enum { ROUTE_ID_MAX = 253 }; /* of a Kubernetes object's name */

struct route {
    struct str id; /* not empty, at most ROUTE_ID_MAX bytes */
    uint16_t port; /* not 0 */
    bool is_signed;
    uint64_t expires_s; /* if signed, as the next */
    struct str signature;
    char key_id;
    /* By path only: what follows the route, "" or with '/' at its beginning; and the same if the
     * signature is not read as one. */
    struct str rest, rest_unsigned;
};

/* "id-port", "id-port-expires-signature", with or without "https://" in front and a domain behind:
 * a value of ROUTE_HEADER, or a host. 0, or -EINVAL with the reason in *ret_why. */
int route_parse_label(struct str text, struct route *ret, const char **ret_why) MUST_USE;

/* "/id/port[/rest]" or "/id/port/expires/signature[/rest]". */
int route_parse_path(struct str path, struct route *ret, const char **ret_why) MUST_USE;

/* Resolves empty segments, "." and ".." of a path that is still encoded. Returns 1 and appends the
 * clean path, if it is another; 0 when the path is clean; -errno of buf_add(). */
int route_clean_path(struct str path, struct buf *out) MUST_USE;

/* The request target for logs: values of a query become ***, and so does the signature of a signed
 * path (`by_path`). Fails as buf_add() does. */
int route_redact(struct str path, struct str query, bool by_path, struct buf *out) MUST_USE;

enum { ROUTE_DNS_MAX = 63 + 1 };
/* The id as a DNS-1035 label, as the lifecycle server names objects of agent-sandbox. */
void route_dns_label(struct str id, char out[ROUTE_DNS_MAX]);
