/* access.c - whether a principal may request a route. Handlers decide whether what the path names
 * exists for it. */
#include "server/http/routes.h"
#include "server/http/server_internal.h"

static bool is_allowed(const struct principal *p, unsigned flags)
{
    enum principal_role needed = (flags & ROUTE_ROLE_MASK) >> ROUTE_ROLE_SHIFT;

    if (needed == ROLE_NONE)
        return true;
    if (p->role == ROLE_SANDBOX)
        return flags & ROUTE_OF_SANDBOX;
    return p->role >= needed && (p->everywhere || !(flags & ROUTE_GLOBAL));
}

static void refuse(struct http_req *req, const struct principal *p, unsigned flags)
{
    enum principal_role needed = (flags & ROUTE_ROLE_MASK) >> ROUTE_ROLE_SHIFT;

    if (p->role >= needed)
        http_reply_error(req, 403, "FORBIDDEN",
                         "this needs a key of all tenants, and this one is of tenant '%s'",
                         p->tenant);
    else
        http_reply_error(req, 403, "FORBIDDEN", "this needs the role %s, and this key has %s",
                         principal_role_name(needed), principal_role_name(p->role));
}

bool access_check(struct http_req *req)
{
    const struct principal *p = guard_principal(req);
    unsigned flags = req->route->flags;
    uint32_t wait_ms;
    AUTO_BUF(seconds, 16);

    if (!(flags & ROUTE_ROLE_MASK))
        return true;
    if (!is_allowed(p, flags)) {
        refuse(req, p, flags);
        return false;
    }
    if (audit_is_full(server_of(req)->audit)) {
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE",
                         "the audit record cannot be written, so nothing is served");
        return false;
    }
    wait_ms = tenants_rate(server_of(req)->tenants, p->tenant);
    if (!wait_ms)
        return true;
    (void)buf_addf(&seconds, "%u", (wait_ms + 999) / 1000);
    (void)http_reply_header(req, STR("Retry-After"), buf_str(&seconds));
    http_reply_error(req, 429, "RATE_LIMITED",
                     "tenant '%s' sends more requests than it may; try again in %u ms", p->tenant,
                     wait_ms);
    return false;
}
