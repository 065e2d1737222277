/* use_log.h - what clients make us do, in our log: requests and, at its most talkative, commands,
 * without what looks like a secret (redact.h). Never what a command says. For a daemon in somebody
 * else's image: elsewhere the log is the host's, where a sandbox shall leave no trace. */
#pragma once

#include "net/http_server.h"

/* For http_server_conf.on_done. A query is left out where another program answers, below /proxy/,
 * and where no route did. */
void use_log_request(struct http_req *req, int error);

void use_log_command(const struct http_req *req, struct str text);
