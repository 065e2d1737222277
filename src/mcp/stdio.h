/* stdio.h - MCP on standard input and output: one message on each line. */
#pragma once

#include "mcp/mcp.h"

/* Until standard input ends, or *stop. */
int stdio_serve(struct mcp *m, const bool *stop, struct err *e);
