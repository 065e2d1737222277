/* command_api.h - the routes of commands: run, interrupt, status, logs, input. Loop thread only. */
#pragma once

#include "execd/command/command.h"
#include "net/http_server.h"

void post_command(struct http_req *req);       /* POST /command */
void get_command_status(struct http_req *req); /* GET /command/status/{id} */
void get_command_logs(struct http_req *req);   /* GET /command/{id}/logs?cursor=&stream= */
void post_command_stdin(struct http_req *req); /* POST /command/{id}/stdin?eof= */

/* Runs a shell command as POST /command does, for another route. */
void command_run_text(struct http_req *req, struct str text, bool background);

/* Replies with the log that ?cursor= and ?stream= select; the response header `header` tells where
 * the next read begins. */
void command_reply_logs(struct http_req *req, const struct command *c, struct str header);

/* DELETE /command?id= and /code?id= for a command: replies when it has ended. Returns false without
 * a reply when the id is not a command's. */
bool command_interrupt_answer(struct http_req *req, struct str id);
