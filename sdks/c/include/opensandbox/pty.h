/* pty.h - terminals in a sandbox: shells that outlive their clients, over WebSocket. */
#pragma once

#include <opensandbox/command.h>

#ifdef __cplusplus
extern "C" {
#endif

struct osb_pty;

/* Makes a terminal; its shell starts when it is opened first. command NULL = interactive. */
int osb_pty_create(struct osb_sandbox *sandbox, const char *cwd, const char *command,
                   char ret_id[OSB_ID_MAX]);
/* "running", "output_offset". */
int osb_pty_get(struct osb_sandbox *sandbox, const char *id, struct osb_answer **ret_answer);
int osb_pty_delete(struct osb_sandbox *sandbox, const char *id);

struct osb_pty_open {
    size_t size;
    int64_t since; /* replay from this byte of the output; -1 = nothing */
    bool takeover; /* end the connection of the current client */
    bool pipes;    /* a new shell gets three pipes instead of a terminal */
};
#define OSB_PTY_OPEN .size = sizeof(struct osb_pty_open)

/* Opens it; -EBUSY when somebody views it already. `open` may be NULL: all that was printed is
 * replayed. */
int osb_pty_open(struct osb_sandbox *sandbox, const char *id, const struct osb_pty_open *open,
                 struct osb_pty **ret_pty);
/* Waits for output, at most timeout_ms (-1 = no limit): how many bytes of `out` were filled; 0 at
 * the end, then osb_pty_exit_code has the status; -ETIMEDOUT. -EBUSY when another client took over.
 */
long osb_pty_read(struct osb_pty *pty, char *out, size_t size, int timeout_ms);
/* Whether the bytes of the last read were stderr: with pipes only. */
bool osb_pty_was_stderr(const struct osb_pty *pty);
int64_t osb_pty_offset(const struct osb_pty *pty); /* of the next byte: `since` of a later open */
int osb_pty_exit_code(const struct osb_pty *pty);  /* -1 after a signal, and before the end */
int osb_pty_write(struct osb_pty *pty, const void *data, size_t bytes);
int osb_pty_resize(struct osb_pty *pty, uint16_t columns, uint16_t rows);
int osb_pty_signal(struct osb_pty *pty, const char *name); /* "SIGINT" */
/* Leaves the terminal; its shell goes on. */
void osb_pty_close(struct osb_pty *pty);

#ifdef __cplusplus
}
#endif
