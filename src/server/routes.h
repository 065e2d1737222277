/* routes.h - what the server answers to. */
#pragma once

#include "net/router.h"

/* Every row, those that exist under /v1 too in both spellings. Made once, kept for good. */
const struct http_route *server_routes(size_t *ret_count);
