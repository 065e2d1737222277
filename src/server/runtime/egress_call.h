/* egress_call.h - a request to opensandbox-egress, on a connection of its own. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct egress_answer {
    int status;
    struct buf text; /* head and body; the caller gives it a limit, and frees it */
    struct str body;
};

/* `header` is a line with its end, or "". Any status but 2xx is an error, with the answer's text:
 * -ENOENT for 404, -EBADMSG for other 4xx, -EIO. BLOCKS up to the deadline; fd does not. */
int egress_call(int fd, const char *method, const char *path, struct str header, struct str body,
                struct egress_answer *a, uint64_t deadline, struct err *e);
