/* command_input.h - writes to the standard input of a running command. Loop thread only.
 *
 * The input given at the start of the command is written first. One writer at a time: the bytes of
 * two would mix. */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct command;

struct command_writer {
    struct command *command; /* NULL: nothing is claimed */
    void (*on_room)(struct command_writer *w);
    /* No process will read any more: the command ended or closed its input. The claim is released.
     */
    void (*on_gone)(struct command_writer *w);
};

/* Makes `w` the writer. -ENOTCONN when the input is not open or the command ended; -EBUSY when
 * there is another writer. The claim lasts until command_input_release or on_gone. */
int command_input_claim(struct command *c, struct command_writer *w, struct err *e) MUST_USE;
/* Returns the bytes written. Fewer than given: on_room follows. -EPIPE when no process reads;
 * on_gone is not called then. */
ssize_t command_input_write(struct command_writer *w, struct str data);
/* Releases the claim; with `eof` also closes the input. No-op when nothing is claimed. */
void command_input_release(struct command_writer *w, bool eof);
