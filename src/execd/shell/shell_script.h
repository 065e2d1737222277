/* shell_script.h - what execd and a living shell say to each other: text only, no I/O.
 *
 * The shell is an interactive one that reads its commands from a pipe, since only such a shell
 * comes back to its reader when something fails that would end a script (an interrupt, an unset
 * variable, a syntax error), with all its state. What it reads is a loop:
 *
 *     report the last status and wait for a line on `control`
 *     read the code of that run as a script, with every descriptor of ours closed
 *
 * Whenever the loop is broken off the shell reads the next line of the pipe, which is the loop
 * again: execd keeps one in the pipe.
 *
 *     execd  ──► shell   "r NONCE."  run what is in the code file     "s NONCE."  answer
 *     shell  ──► execd   "NONCE STATUS LOOP TRACE"
 *
 * NONCE is that of the run, STATUS its exit status. LOOP is "-", "sync" for the answer, or, when
 * the loop began anew, the status that its predecessor was broken off with. TRACE is "x" under set
 * -x, which the loop turns off for itself. */
#pragma once

#include "base/buf.h"
#include "base/json_bind.h"

enum {
    SHELL_NONCE_MAX = 16 + 1,
    SHELL_REPORT_BYTES_MAX = 128,
};

/* The signal, SIGRTMAX-1, that makes a shell interrupt itself. SIGINT from outside would be
 * quicker, but one that reaches bash 5.2 while it sets out to wait for a child makes it send itself
 * SIGINT for ever: the handler of that moment passes on what it finds no other handler for, to
 * itself. And busybox jumps out of its handler, wherever that found it: in the allocator it leaves
 * a lock behind and waits for itself. */
#define SHELL_BREAK 63

/* What precedes the name of a builtin, so that nothing a client defined stands in for it. */
#define SHELL_AS "\"$__execd_as\" "

/* Descriptors of the shell, all of them closed while code of a client runs. */
enum shell_fd { SHELL_FD_CONTROL, SHELL_FD_STATE, SHELL_FD_CODE, SHELL_FDS };

/* A program that can be one. */
struct shell_kind {
    const char *program;     /* looked for on PATH */
    const char *const *argv; /* NULL-terminated */
    const char *loop;        /* a line, and what precedes the first */
    const char *begin;
    const char *before_code; /* in front of it, on its first line */
    int fds[SHELL_FDS];
};

/* By preference. A shell other than bash knows descriptors of one digit only. */
extern const struct shell_kind shell_kinds[];
extern const size_t shell_kind_count;

struct shell_report {
    struct str nonce;
    int status;
    bool sync, begun; /* an answer; the loop began anew */
    bool trace;
};

/* Reads a line without its end. -EBADMSG when it is not of that form. */
int shell_report_parse(struct str line, struct shell_report *ret) MUST_USE;

/* Appends 'text', so quoted that a shell reads it as it is. It holds no NUL. */
int shell_quote(struct buf *out, struct str text) MUST_USE;

/* What precedes the code of a run: changes to `cwd` (NULL stays) and exports variables, whose names
 * shell_check_envs took. Nothing at all when there is neither. */
int shell_setup(struct buf *out, const char *cwd, const struct json_pair *envs,
                size_t count) MUST_USE;
bool shell_is_name(struct str name);
/* -EINVAL and a sentence when one of them cannot be a variable of a shell. */
int shell_check_envs(const struct json_pair *envs, size_t count, struct err *e) MUST_USE;
