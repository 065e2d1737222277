/* command_input.h - the standard input of a command that runs: who writes to it, at whose pace.
 * Loop thread only.
 *
 * What the command was started with goes first. One writer at a time: two would mix their bytes. */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct command;

struct command_writer {
    struct command *command; /* NULL: it has nothing claimed */
    void (*on_room)(struct command_writer *w);
    /* Nobody will read any more: the command ended, or closed its input. Nothing is claimed then.
     */
    void (*on_gone)(struct command_writer *w);
};

/* -ENOTCONN when its input is not open, or the command ended; -EBUSY when somebody else writes.
 * The writer stays in place until it releases, or is told that there is nothing left. */
int command_input_claim(struct command *c, struct command_writer *w, struct err *e) MUST_USE;
/* Bytes taken. Fewer than given: on_room will come. -EPIPE when nobody reads, and on_gone will not
 * come. */
ssize_t command_input_write(struct command_writer *w, struct str data);
/* Lets another one write, or with `eof` ends the input. Nothing claimed is fine. */
void command_input_release(struct command_writer *w, bool eof);
