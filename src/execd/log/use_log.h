/* use_log.h - logs the requests of clients and, at the most verbose level, their commands, with
 * secrets removed (redact.h). Never the output of a command. Used where execd runs in an image of
 * the user: elsewhere the log belongs to the host, where a sandbox must leave no trace. */
#pragma once

#include "net/http_server.h"

/* For http_server_conf.on_done. The query is not logged below /proxy/, where another program
 * answers, nor for a request without a route. */
void use_log_request(struct http_req *req, int error);

void use_log_command(const struct http_req *req, struct str text);
