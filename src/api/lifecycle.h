/* lifecycle.h - includes all headers for bodies and queries of the lifecycle API.
 *
 * Parsers check everything that depends only on the request, not on the server's state or runtime.
 * All strings borrow from the arena or the input. On failure they return -errno and fill `f` with
 * the answer. */
#pragma once

#include "api/answer.h"
#include "api/create.h"
#include "api/metadata.h"
#include "api/query.h"
#include "api/request.h"
#include "api/signed.h"
