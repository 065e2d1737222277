/* command_request.h - the body of POST /command, read, checked and made ready to run. */
#pragma once

#include "base/arena.h"
#include "execd/command/command.h"
#include "net/http_server.h"

enum { COMMAND_BODY_BYTES_MAX = 4 << 20 };

struct command_request {
    struct str text;
    bool background;
    struct command_spec spec; /* in the arena; but for .user.groups, see below */
    gid_t *groups;            /* the caller frees it, as soon as the command runs */
};

/* Answers the request itself when it returns an error. Reads small files: EXECD_ENVS, passwd and
 * group. `ours` is the daemon's environment. */
int command_request_read(struct http_req *req, struct arena *a, const char *const *ours,
                         struct command_request *ret) MUST_USE;

/* The file of bash, or sh, on the PATH of this environment. */
int command_find_shell(struct arena *a, const char *const *env, const char **ret,
                       struct err *e) MUST_USE;
