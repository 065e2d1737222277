/* file_view.h - a process that serves the routes of files inside a session's mount namespace.
 *
 * There every path leads where it leads for the session, links too, and what is read-only there is
 * so for us: nothing has to be resolved by hand. It is a copy of us, without an exec, that serves
 * from a loop of its own, with the rights of the workload. Who asks must know its token: its socket
 * has a name in the network namespace, which everyone shares. */
#pragma once

#include "execd/isolated_box.h"
#include "net/http_server.h"

struct file_view_plan { /* borrowed; the child has its own copy */
    const struct child_place *place;
    struct child_user user;
    const char *workspace; /* all that may be asked for lies in it */
    const char *token;
    uint64_t file_bytes_max; /* 0 = any; more is EFBIG */
    int listener, channel; /* the end of the channel is that of the process, in a second at most */
};

/* What its streams say at their end. */
#define FILE_VIEW_OVER "the session has ended"

/* For proc_spec.prepare, with the plan: returns only when a step fails. */
int file_view_become(void *plan, struct proc_step *ret_step);

/* Whether a path, absolute or from our working directory, lies within the workspace of the process
 * that serves this request; always, when it serves no session. */
bool file_view_allows(const struct http_req *req, struct str path);
