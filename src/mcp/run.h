/* run.h - what commands and code print: line by line as it comes, cut when it is too long. */
#pragma once

#include "mcp/tools.h"

struct run_output {
    struct buf text;  /* lines, each with its line feed */
    struct buf lines; /* struct run_line, of each */
    size_t dropped;   /* bytes for which there was no room */
};

struct run {
    struct call *call;
    struct run_output out, err;
    char *id; /* in the arena of the call; NULL before it began */
    bool background;
};

void run_init(struct run *r, struct call *c);
void run_done(struct run *r);
int run_on_event(void *user, const struct osb_event *event);
/* The execution of the contract: id, logs and so on, up to the end of the object. Text beyond the
 * limit of an answer is left out in the middle, and all of it is linked. */
int run_write(struct run *r, const struct osb_execution *execution, struct json_writer *w);
/* Of a call that takes timeout_seconds, in milliseconds: that, or the limit of the program. */
int64_t run_timeout_ms(const struct call *c);
