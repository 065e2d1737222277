/* proxy.h - which HTTP proxy leads to an address, by the rules of HTTP_PROXY, HTTPS_PROXY and
 * NO_PROXY. Pure. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/url.h"

/* Texts as in the environment; NULL or "" = none. */
struct image_proxy_conf {
    const char *http, *https; /* "http://[user:password@]host[:port]" or "host:port" */
    const char *no;           /* "localhost,.corp,10.0.0.0/8,host:5000", or "*" */
};

struct image_proxy {
    struct str host; /* STR_NONE: go there directly */
    uint16_t port;
    struct str auth; /* value of Proxy-Authorization; STR_NONE = none */
};

/* Strings live in the arena. -EINVAL for a proxy's address that is none, or not of http. This
 * machine itself (localhost, 127.x.x.x, ::1) is never behind a proxy. */
int image_proxy_for(const struct image_proxy_conf *conf, const struct url *to, struct arena *a,
                    struct image_proxy *ret, struct err *e);
