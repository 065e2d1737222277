/* command_request.h - parses and checks the body of POST /command and prepares the command. */
#pragma once

#include "base/arena.h"
#include "execd/command/command.h"
#include "net/http_server.h"

enum { COMMAND_BODY_BYTES_MAX = 4 << 20 };

struct command_request {
    struct str text;
    bool background;
    struct command_spec spec; /* in the arena, except .user.groups, see below */
    gid_t *groups;            /* the caller frees it once the command was started */
};

/* Replies to the request itself when it returns an error. Reads small files: EXECD_ENVS, passwd and
 * group. `ours` is execd's environment. */
int command_request_read(struct http_req *req, struct arena *a, const char *const *ours,
                         struct command_request *ret) MUST_USE;
/* The same for a body of nothing but a command and whether it runs in the background. */
int command_request_of(struct http_req *req, struct arena *a, const char *const *ours,
                       struct str text, bool background, struct command_request *ret) MUST_USE;

/* Finds bash, else sh, on the PATH of this environment. */
int command_find_shell(struct arena *a, const char *const *env, const char **ret,
                       struct err *e) MUST_USE;
