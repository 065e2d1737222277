/* routes.h - what execd answers to, and with what. */
#pragma once

#include "net/router.h"

extern const struct http_route execd_routes[];
extern const size_t execd_route_count;
