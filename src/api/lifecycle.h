/* lifecycle.h - bodies and queries of the lifecycle API, into C and back: all of it at once.
 *
 * Parsers check everything a request can get wrong by itself; what depends on the server's state or
 * runtime is not theirs. All strings borrow from the arena or the input. On failure they return
 * -errno and fill `f` with the answer. */
#pragma once

#include "api/answer.h"
#include "api/create.h"
#include "api/metadata.h"
#include "api/query.h"
#include "api/request.h"
#include "api/signed.h"
