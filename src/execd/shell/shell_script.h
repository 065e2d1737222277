/* shell_script.h - the text protocol between execd and a shell; no I/O.
 *
 * The shell is interactive and reads its commands from a pipe. Only an interactive shell returns to
 * its reader, with all its state, after something that would end a script: an interrupt, an unset
 * variable, a syntax error. The text that it reads is a loop:
 *
 *     report the last status and wait for a line on `control`
 *     source the code of that run as a script, with every descriptor of execd closed
 *
 * When the loop is broken off, the shell reads the next line of the pipe, which is the loop again:
 * execd keeps one in the pipe.
 *
 *     execd  ──► shell   "r NONCE."  run what is in the code file     "s NONCE."  answer
 *     shell  ──► execd   "NONCE STATUS LOOP TRACE"
 *
 * NONCE is that of the run, STATUS its exit status. LOOP is "-", "sync" for the answer, or, after
 * the loop was restarted, the status that broke off the previous loop. TRACE is "x" under set -x,
 * which the loop turns off for itself. */
#pragma once

#include "base/buf.h"
#include "base/json_bind.h"

enum {
    SHELL_NONCE_MAX = 16 + 1,
    SHELL_REPORT_BYTES_MAX = 128,
};

/* The signal (SIGRTMAX-1) that makes a shell interrupt itself. SIGINT from outside has two
 * problems. If it reaches bash 5.2 just before bash waits for a child, bash sends itself SIGINT for
 * ever: the handler of that moment passes the signal on to itself. And busybox leaves its handler
 * by longjmp, even from inside the allocator, whose lock then stays taken: a deadlock. */
#define SHELL_BREAK 63

/* Precedes the name of a builtin, so that no function or alias of a client replaces it. */
#define SHELL_AS "\"$__execd_as\" "

/* Descriptors in the shell; all are closed while client code runs. */
enum shell_fd { SHELL_FD_CONTROL, SHELL_FD_STATE, SHELL_FD_CODE, SHELL_FDS };

/* A program that can be the shell. */
struct shell_kind {
    const char *program;     /* looked for on PATH */
    const char *const *argv; /* NULL-terminated */
    const char *loop;        /* the line of the loop; `begin` precedes the first */
    const char *begin;
    const char *before_code; /* precedes the code on its first line */
    int fds[SHELL_FDS];
};

/* In order of preference. A shell other than bash may only know one-digit descriptors. */
extern const struct shell_kind shell_kinds[];
extern const size_t shell_kind_count;

struct shell_report {
    struct str nonce;
    int status;
    bool sync, begun; /* an answer to "s"; the loop was restarted */
    bool trace;
};

/* Parses a line without its line end. -EBADMSG when it is malformed. */
int shell_report_parse(struct str line, struct shell_report *ret) MUST_USE;

/* Appends `text` in quotes, so that a shell reads it literally. It contains no NUL. */
int shell_quote(struct buf *out, struct str text) MUST_USE;

/* Appends what precedes the code of a run: changes to `cwd` (NULL: stay) and exports variables that
 * shell_check_envs accepted. Appends nothing when there is neither. */
int shell_setup(struct buf *out, const char *cwd, const struct json_pair *envs,
                size_t count) MUST_USE;
bool shell_is_name(struct str name);
/* -EINVAL and a message when one of them cannot be a shell variable. */
int shell_check_envs(const struct json_pair *envs, size_t count, struct err *e) MUST_USE;
