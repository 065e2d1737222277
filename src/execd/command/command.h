/* command.h - shell commands: started, watched, ended, and remembered for a while. Loop thread
 * only.
 *
 *   new ──► starting ──the shell runs──► running ──its exit, reaped──► draining ──► ended
 *              └──it cannot run──────────────────────────────────────────────────────┘
 *
 * A command is over when its leader is, whoever else holds its pipes: what is in them at that
 * moment is delivered, then its end. Afterwards the pipes are read on for those who still write,
 * since a closed one would kill them, and go on into the logs.
 *
 * A foreground command has a pipe and a log for each of stdout and stderr, whose order between them
 * is that of reading; a background one has a single pipe, and its log is in the order of writing.
 * A log is made for the first byte that goes there.
 *
 * A record stays until COMMANDS_KEPT_MAX others ended after it, or their texts take more than
 * COMMANDS_TEXT_BYTES_MAX. Of ended commands the newest COMMAND_LOGS_MAX logs stay, as long as all
 * together take no more than COMMAND_LOGS_BYTES_MAX; those of running ones always. */
#pragma once

#include "base/err.h"
#include "base/id.h"
#include "execd/command/command_log.h"
#include "execd/core/child.h"
#include "execd/core/reaper.h"
#include "net/loop.h"

enum {
    COMMANDS_RUNNING_MAX = 1000,
    COMMANDS_KEPT_MAX = 1000,
    COMMANDS_TEXT_BYTES_MAX = 512 << 10,
    COMMANDS_HELD_BYTES_MAX = 16 << 20, /* texts of running commands, and input they did not read */
    COMMAND_LOGS_MAX = 200,
    COMMAND_LOGS_BYTES_MAX = 256 << 20,
    /* What one call of on_output brings at most. As short lines, that makes some 30 KiB of events,
     * for which the loop keeps a warm buffer. */
    COMMAND_READ_BYTES = 16 << 10,
    COMMAND_ID_MAX = 32 + 1,
    COMMAND_CANNOT_START = 255, /* the exit code of what never ran */
};

enum command_stream { COMMAND_STDOUT, COMMAND_STDERR, COMMAND_STREAMS };

struct buf;
struct commands; /* the table of all */
struct run;
struct command_pipe;
struct telemetry;

/* All read-only for others. */
struct command {
    char id[COMMAND_ID_MAX];   /* 32 hexadecimal digits */
    char session[ID_UUID_MAX]; /* the isolated one it runs in; "" = none */
    bool background, running;
    bool started;  /* its shell ran */
    int exit_code; /* -1: ended by a signal */
    char *text;    /* as it was asked for */
    size_t text_bytes;
    char *error;        /* "exit status 3", "signal: killed", ...; NULL = none */
    int64_t started_us; /* wall clock */
    int64_t ended_us;
    struct command_log logs[COMMAND_STREAMS]; /* a background command's first has all it printed */

    /* The rest is ours. */
    struct commands *all;
    struct run *run; /* NULL once it ended */
    struct command_pipe *pipes[COMMAND_STREAMS];
    struct list link; /* among the ended, oldest first */
};

struct command_spec {                /* borrowed for the call */
    const char *shell;               /* the file to run as `shell -c text`, or with argv */
    const char *const *argv;         /* NULL-terminated; NULL = as a shell */
    const char *const *env;          /* NULL-terminated */
    const char *cwd;                 /* NULL = ours */
    const struct child_place *place; /* an isolated session's; NULL = that of all others */
    const char *session;             /* its id */
    struct child_user user;
    uint64_t timeout_ms; /* then SIGKILL to its group; 0 = none */
    bool has_input;      /* its standard input is a pipe; else /dev/null */
    bool input_open;     /* which stays open for command_input.h; else it ends with `input` */
    struct str input;    /* what it reads first; copied */
};

/* Whoever follows a command. on_output is for foreground ones. */
struct command_ops {
    void (*on_start)(void *user, struct command *c); /* the shell runs */
    /* Borrowed, COMMAND_READ_BYTES at most. False: no more until command_resume. */
    bool (*on_output)(void *user, enum command_stream from, struct str data);
    /* It ended, or could not start; all of its output was given. The last call. */
    void (*on_end)(void *user, const struct command *c);
};

void commands_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                  struct commands **ret);
/* NULL is fine. Kills the groups of those that run, without a word to anyone. */
void commands_free(struct commands *all);
void commands_signal(struct commands *all, int signo); /* to the group of each that runs */
void commands_observe(struct commands *all, struct telemetry *t); /* it hears of every end */

struct command *commands_find(const struct commands *all, struct str id); /* NULL = unknown */
size_t commands_running(const struct commands *all);
size_t commands_count(const struct commands *all); /* running and remembered */

/* Makes a record that can be found from now on. -EAGAIN when too many run; -ENOMEM. The next call
 * must be command_run. `text` is copied and holds no NUL. */
int command_new(struct commands *all, struct str text, bool background, struct command **ret,
                struct err *e) MUST_USE;
/* Starts it. Whether that works, ops tell: also from within this call, but for on_start. */
void command_run(struct command *c, const struct command_spec *spec, const struct command_ops *ops,
                 void *user);
void command_resume(struct command *c); /* on_output may come again */
/* Whether on_output is still to be given something that was printed by now. */
bool command_has_output(const struct command *c, enum command_stream from);
/* Nobody follows any more; its output is dropped. It runs on. */
void command_forget(struct command *c);

/* The id of its process group; 0 when it does not run. */
pid_t command_group(const struct command *c);
int command_kill_signal(const struct command *c); /* for that group, to end all of it at once */

/* The file behind a name on PATH that we may execute, appended to `out`. False when there is none.
 */
bool command_find_program(struct str path, const char *name, struct buf *out);
