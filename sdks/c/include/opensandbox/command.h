/* command.h - commands in a sandbox, and shell sessions: run, stream, feed, interrupt. */
#pragma once

#include <opensandbox/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- events of a run, as they come --- */

enum osb_event_type {
    OSB_EVENT_INIT,   /* text: the id of the run */
    OSB_EVENT_STDOUT, /* text: of a command, a line without its end; of code, as printed */
    OSB_EVENT_STDERR,
    OSB_EVENT_RESULT, /* of code: a value in several MIME types */
    OSB_EVENT_COUNT,  /* of code: the number of the cell */
    OSB_EVENT_ERROR,  /* the command failed, or the code raised something */
    OSB_EVENT_COMPLETE,
    OSB_EVENT_OTHER, /* of a type this version does not know */
};

struct osb_event;
enum osb_event_type osb_event_type(const struct osb_event *event);
const char *osb_event_text(const struct osb_event *event, size_t *ret_bytes); /* may be NULL */
bool osb_event_continues(const struct osb_event *event); /* goes on with the line before */
/* The line has not ended yet: the next one continues it, or begins behind its end. Servers of other
 * makers do not tell. */
bool osb_event_unfinished(const struct osb_event *event);
int64_t osb_event_timestamp_ms(const struct osb_event *event);
const char *osb_event_result(const struct osb_event *event, const char *mime); /* or NULL */
bool osb_event_is_display(const struct osb_event *event); /* shown, not the value of the cell */
const char *osb_event_error_name(const struct osb_event *event);
const char *osb_event_error_value(const struct osb_event *event);
const char *osb_event_json(const struct osb_event *event); /* as it came */

/* Not 0 ends the call with -ECANCELED. May make other calls, also to the same sandbox. */
typedef int osb_event_fn(void *user, const struct osb_event *event);

/* --- commands --- */

struct osb_run {
    size_t size;
    const char *command;     /* for bash, or sh: this */
    const char *const *argv; /* or a program and its arguments, NULL-terminated */
    const char *cwd;
    const struct osb_pair *env;
    size_t env_count;
    bool background;       /* ends once it started; see osb_command_status */
    int64_t timeout_ms;    /* after which the sandbox kills it; 0 = none */
    bool has_uid, has_gid; /* whether uid and gid count; a gid needs a uid */
    uint32_t uid, gid;
    const char *input; /* what its standard input holds */
    size_t input_bytes;
    bool keep_stdin_open;   /* it goes on with osb_command_write */
    osb_event_fn *on_event; /* NULL = none */
    void *user;
    bool discard;            /* keep no output for the execution */
    size_t output_bytes_max; /* of each output kept: 16 MiB; what is beyond is dropped */
};
#define OSB_RUN .size = sizeof(struct osb_run)

/* How it ended. A command that fails is no error of the call. */
struct osb_execution;

/* ret_execution may be NULL. A stream that ends without its last event is -EPROTO. */
int osb_command_run(struct osb_sandbox *sandbox, const struct osb_run *run,
                    struct osb_execution **ret_execution);
void osb_execution_free(struct osb_execution *execution);
const char *osb_execution_id(const struct osb_execution *execution);
/* 0 to 255; -1 after a signal, and when there is none: in the background, or of code. */
int osb_execution_exit_code(const struct osb_execution *execution);
bool osb_execution_failed(const struct osb_execution *execution); /* there was an error event */
/* Kept output, NUL-terminated; lines of commands each end with a line feed. */
const char *osb_execution_stdout(const struct osb_execution *execution);
const char *osb_execution_stderr(const struct osb_execution *execution);
bool osb_execution_truncated(const struct osb_execution *execution);
int64_t osb_execution_time_ms(const struct osb_execution *execution);
int osb_execution_count(const struct osb_execution *execution); /* of a cell of code; 0 = none */
const char *osb_execution_error_name(const struct osb_execution *execution);
const char *osb_execution_error_value(const struct osb_execution *execution);
const char *osb_execution_traceback(const struct osb_execution *execution); /* lines */
size_t osb_execution_result_count(const struct osb_execution *execution);
const char *osb_execution_result(const struct osb_execution *execution, size_t index,
                                 const char *mime); /* or NULL */
const char *osb_execution_result_json(const struct osb_execution *execution, size_t index);

int osb_command_interrupt(struct osb_sandbox *sandbox, const char *id);
/* "running", "exit_code", "error", "started_at", "finished_at", "content". */
int osb_command_status(struct osb_sandbox *sandbox, const char *id, struct osb_answer **ret_answer);
/* What it printed from byte `cursor` on, as the body; *ret_cursor is where to go on. stream: NULL,
 * or of a foreground command "stdout" or "stderr". */
int osb_command_logs(struct osb_sandbox *sandbox, const char *id, const char *stream,
                     int64_t cursor, struct osb_answer **ret_answer, int64_t *ret_cursor);
/* To the standard input of a command with keep_stdin_open; `eof` ends it behind these bytes. */
int osb_command_write(struct osb_sandbox *sandbox, const char *id, const void *data, size_t bytes,
                      bool eof);

/* --- shell sessions: one shell that keeps its state from run to run --- */

enum { OSB_ID_MAX = 128 };

int osb_session_create(struct osb_sandbox *sandbox, const char *cwd, char ret_id[OSB_ID_MAX]);
/* Of `run` count command, cwd, env, timeout_ms, on_event and what is kept. */
int osb_session_run(struct osb_sandbox *sandbox, const char *id, const struct osb_run *run,
                    struct osb_execution **ret_execution);
int osb_session_delete(struct osb_sandbox *sandbox, const char *id);

#ifdef __cplusplus
}
#endif
