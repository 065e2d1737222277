/* api.h - the HTTP API of the task executor. Loop thread only. */
#pragma once

#include "net/http_server.h"
#include "taskexec/task.h"

int api_start(struct loop *loop, struct task_store *store, const char *listen,
              struct http_server **ret, struct err *e);
