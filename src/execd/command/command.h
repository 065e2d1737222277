/* command.h - starts shell commands, follows them, ends them, and keeps a record of them for a
 * while. Loop thread only.
 *
 *   new ──► starting ──the shell runs──► running ──its exit, reaped──► draining ──► ended
 *              └──it cannot run──────────────────────────────────────────────────────┘
 *
 * A command ends with its leader process, even if other processes still hold its pipes: the bytes
 * in the pipes at that moment are delivered, then its end. Afterwards the pipes are still read into
 * the logs, since closing them would kill the remaining writers (SIGPIPE).
 *
 * A foreground command has a pipe and a log each for stdout and stderr; the order between the two
 * is that of reading. A background command has one pipe for both, so its log is in the order of
 * writing. A log file is created for its first byte at the latest.
 *
 * A record is kept until COMMANDS_KEPT_MAX others ended after it, or their texts exceed
 * COMMANDS_TEXT_BYTES_MAX. Of ended commands the newest COMMAND_LOGS_MAX logs are kept, as long as
 * they do not exceed COMMAND_LOGS_BYTES_MAX in total; logs of running commands are always kept. */
#pragma once

#include "base/err.h"
#include "base/id.h"
#include "base/trace.h"
#include "execd/command/command_log.h"
#include "execd/core/child.h"
#include "execd/core/reaper.h"
#include "net/loop.h"

enum {
    COMMANDS_RUNNING_MAX = 1000,
    COMMANDS_KEPT_MAX = 1000,
    COMMANDS_TEXT_BYTES_MAX = 512 << 10,
    COMMANDS_HELD_BYTES_MAX = 16 << 20, /* texts and unread input of running commands */
    COMMAND_LOGS_MAX = 200,
    COMMAND_LOGS_BYTES_MAX = 256 << 20,
    /* The most that one on_output call passes. As short lines this makes about 30 KiB of events,
     * for which the loop keeps a buffer. */
    COMMAND_READ_BYTES = 16 << 10,
    COMMAND_ID_MAX = 32 + 1,
    COMMAND_CANNOT_START = 255, /* the exit code of a command that never ran */
};

enum command_stream { COMMAND_STDOUT, COMMAND_STDERR, COMMAND_STREAMS };

struct buf;
struct commands; /* the table of all commands */
struct run;
struct command_pipe;
struct telemetry;

/* Read-only for callers. */
struct command {
    char id[COMMAND_ID_MAX];   /* 32 hexadecimal digits */
    char session[ID_UUID_MAX]; /* id of its isolated session; "" = none */
    bool background, running;
    bool started;  /* its shell ran */
    int exit_code; /* -1: ended by a signal */
    char *text;    /* as requested */
    size_t text_bytes;
    char *error;            /* "exit status 3", "signal: killed", ...; NULL = none */
    int64_t started_us;     /* wall clock */
    struct trace_span span; /* of the request that started it; all 0 = none */
    int64_t ended_us;
    struct command_log logs[COMMAND_STREAMS]; /* of a background command, [0] has both streams */

    /* The remaining fields are private to the command*.c files. */
    struct commands *all;
    struct run *run; /* NULL once the command ended */
    struct command_pipe *pipes[COMMAND_STREAMS];
    struct list link; /* in commands.ended, oldest first */
};

struct command_spec {                /* borrowed for the call */
    const char *shell;               /* the program to run as `shell -c text`, or with argv */
    const char *const *argv;         /* NULL-terminated; NULL = `shell -c text` */
    const char *const *env;          /* NULL-terminated */
    const char *cwd;                 /* NULL = execd's own */
    const struct child_place *place; /* of an isolated session; NULL = the default place */
    const char *session;             /* id of the isolated session, or NULL */
    struct child_user user;
    uint64_t timeout_ms; /* then its process group gets SIGKILL; 0 = none */
    bool has_input;      /* its standard input is a pipe; else /dev/null */
    bool input_open;     /* stays open for command_input.h; else it is closed after `input` */
    struct str input;    /* written to it first; copied */
};

/* The callbacks of a command's follower. on_output is only for foreground commands. */
struct command_ops {
    void (*on_start)(void *user, struct command *c); /* the shell runs */
    /* `data` is borrowed, at most COMMAND_READ_BYTES. False: no more calls until command_resume. */
    bool (*on_output)(void *user, enum command_stream from, struct str data);
    /* It ended or could not start, and all of its output was delivered. The last call. */
    void (*on_end)(void *user, const struct command *c);
};

void commands_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                  struct commands **ret);
/* NULL is fine. Kills the process groups of running commands; no callback is called. */
void commands_free(struct commands *all);
void commands_signal(struct commands *all,
                     int signo); /* to the process group of each running command */
void commands_observe(struct commands *all, struct telemetry *t); /* reports every end to `t` */

struct command *commands_find(const struct commands *all, struct str id); /* NULL = unknown */
size_t commands_running(const struct commands *all);
size_t commands_count(const struct commands *all); /* running and kept records */

/* Creates a record, which commands_find returns from now on. -EAGAIN when too many run; -ENOMEM.
 * The next call must be command_run. `text` is copied and contains no NUL. */
int command_new(struct commands *all, struct str text, bool background, struct command **ret,
                struct err *e) MUST_USE;
/* Starts it and reports the outcome through ops; all callbacks but on_start may come from within
 * this call. */
void command_run(struct command *c, const struct command_spec *spec, const struct command_ops *ops,
                 void *user);
void command_resume(struct command *c); /* allows on_output calls again */
/* Whether output printed so far has not been passed to on_output yet. */
bool command_has_output(const struct command *c, enum command_stream from);
/* Drops the follower: no more callbacks. The command continues to run and its output is logged. */
void command_forget(struct command *c);

/* The id of its process group; 0 when it does not run. */
pid_t command_group(const struct command *c);
int command_kill_signal(const struct command *c); /* ends all of that group at once */

/* Finds an executable file `name` in the PATH value `path` and appends its name to `out`. False
 * when there is none. */
bool command_find_program(struct str path, const char *name, struct buf *out);
