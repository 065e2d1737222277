/* tools_command.c - tools for commands: run, interrupt, and what those in the background do. */
#include <errno.h>

#include "mcp/run.h"

static const struct field run_fields[] = {
    FIELD_SANDBOX_ID,
    {"command",    FIELD_STRING, true,               "For the shell of the sandbox"},
    {"background", FIELD_BOOL,   false,
      "Return at once; see command_status and command_logs for what it does",         "false"},
    {"working_directory",            FIELD_STRING,      false, "Where it runs"                    },
    {"timeout_seconds",            FIELD_NUMBER,        false,   "After which it is killed", NULL, 0, 604800},
    {"env",        FIELD_STRING_MAP,                   false,                               "Environment variables"                                                            },
    FIELD_CONNECT,
};

static int run_run(struct call *c, struct json_writer *w)
{
    struct osb_execution *execution = NULL;
    struct osb_sandbox *sandbox;
    struct run run;
    struct osb_run what = {
        OSB_RUN,
        .command = call_text(c, "command"),
        .cwd = call_text(c, "working_directory"),
        .background = call_bool(c, "background"),
        .timeout_ms = call_arg(c, "timeout_seconds") ? run_timeout_ms(c) : 0,
        .on_event = run_on_event,
        .user = &run,
        .discard = true,
    };
    int r = call_box(c, &sandbox);

    if (r < 0)
        return r;
    what.env = call_pairs(c, call_arg(c, "env"), &what.env_count);
    run_init(&run, c);
    /* The sandbox ends it first, so that what it printed is not lost. */
    osb_client_set_timeout(c->mcp->client, run_timeout_ms(c) + 10 * 1000);
    r = osb_command_run(sandbox, &what, &execution);
    osb_client_set_timeout(c->mcp->client, 0);
    if (r == 0)
        r = run_write(&run, execution, w);
    else if ((r == -ECANCELED || r == -ETIMEDOUT) && run.id && !what.background)
        (void)osb_command_interrupt(sandbox, run.id); /* nobody waits for it any more */
    osb_execution_free(execution);
    run_done(&run);
    return r;
}

static const struct field execution_fields[] = {
    FIELD_SANDBOX_ID,
    {"execution_id", FIELD_STRING, true, "The id in the answer of command_run"},
    FIELD_CONNECT,
};

static int run_interrupt(struct call *c, struct json_writer *w)
{
    struct osb_sandbox *sandbox;
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_command_interrupt(sandbox, call_text(c, "execution_id"));
    if (r == 0)
        tools_write_status(w, "interrupted");
    return r;
}

static int run_status(struct call *c, struct json_writer *w)
{
    struct osb_answer *answer = NULL;
    struct osb_sandbox *sandbox;
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_command_status(sandbox, call_text(c, "execution_id"), &answer);
    if (r == 0)
        r = tools_write_answer(w, answer, "");
    osb_answer_free(answer);
    return r;
}

static const struct field logs_fields[] = {
    FIELD_SANDBOX_ID,
    {"execution_id",                                     FIELD_STRING, true, "The id in the answer of command_run"},
    { "cursor", FIELD_INTEGER, false,             "Where to go on: the cursor of the answer before",                                                                                                     "0", 0,
      INT64_MAX},
    FIELD_CONNECT,
};

static int run_logs(struct call *c, struct json_writer *w)
{
    int64_t cursor = call_int(c, "cursor"), next = cursor;
    struct osb_answer *answer = NULL;
    struct osb_sandbox *sandbox;
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_command_logs(sandbox, call_text(c, "execution_id"), NULL, cursor, &answer, &next);
    if (r == 0) {
        size_t n, limit = c->mcp->options->output_bytes;
        const char *body = osb_answer_body(answer, &n);
        struct str part = outputs_part(str_make(body, n), 0, limit);

        /* What does not fit is read by the next call: the cursor counts bytes. */
        json_write_object(w);
        json_member_string(w, STR("content"), part);
        json_member_i64(w, STR("cursor"), part.n < n ? cursor + (int64_t)part.n : next);
        json_member_bool(w, STR("more"), part.n < n);
        json_write_object_end(w);
    }
    osb_answer_free(answer);
    return r;
}

static const struct tool tools[] = {
    {"command_run",
     "Run a shell command and wait for its end, or start it in the background. A command that "
     "fails is a normal result with its exit_code.",                              TOOL_DESTROYS, SCHEMA(run_fields),       run_run   },
    {"command_interrupt", "Interrupt a command that runs.",                       0,             SCHEMA(execution_fields),
     run_interrupt                                                                                                                   },
    {"command_status",    "Whether a command still runs, and how it ended.",      TOOL_READS,
     SCHEMA(execution_fields),                                                                                             run_status},
    {"command_logs",      "What a background command printed, from a cursor on.", TOOL_READS,
     SCHEMA(logs_fields),                                                                                                  run_logs  },
};
const struct tool_group command_tools = {tools, ARRAY_LEN(tools)};
