/* tools_code.c - tools for code: cells in contexts that remember, with rich results. */
#include <errno.h>

#include "mcp/run.h"

/* clang-format off */
static const struct field code_fields[] = {
    FIELD_SANDBOX_ID,
    {"code", FIELD_STRING, true, "What to run"},
    {"language", FIELD_STRING, false, "python, javascript, bash and so on", "\"python\""},
    {"context_id", FIELD_STRING, false,
     "Context of code_context_create; else one that all runs in this language share"},
    {"timeout_seconds", FIELD_NUMBER, false, "After which it is interrupted", NULL, 0, 604800},
    FIELD_CONNECT,
};
/* clang-format on */

static int run_code(struct call *c, struct json_writer *w)
{
    struct osb_execution *execution = NULL;
    struct osb_sandbox *sandbox;
    struct run run;
    const char *context = call_text(c, "context_id"), *language = call_text(c, "language");
    const struct osb_code code = {
        OSB_CODE,
        .code = call_text(c, "code"),
        .context_id = context,
        .language = context    ? NULL
                    : language ? language
                               : "python",
        .timeout_ms = call_arg(c, "timeout_seconds") ? run_timeout_ms(c) : 0,
        .on_event = run_on_event,
        .user = &run,
    };
    int r = call_box(c, &sandbox);

    if (r < 0)
        return r;
    run_init(&run, c);
    osb_client_set_timeout(c->mcp->client, run_timeout_ms(c) + 10 * 1000);
    r = osb_code_run(sandbox, &code, &execution);
    osb_client_set_timeout(c->mcp->client, 0);
    if (r == 0)
        r = run_write(&run, execution, w);
    else if ((r == -ECANCELED || r == -ETIMEDOUT) && (context || run.id))
        (void)osb_code_interrupt(sandbox, context ? context : run.id);
    osb_execution_free(execution);
    run_done(&run);
    return r;
}

static const struct field create_fields[] = {
    FIELD_SANDBOX_ID,
    {"language", FIELD_STRING, false,              "python, javascript, bash and so on", "\"python\""},
    {"working_directory",          FIELD_STRING,    false, "Where it begins"                            },
    FIELD_CONNECT,
};

static int run_context_create(struct call *c, struct json_writer *w)
{
    const char *language = call_text(c, "language");
    const struct osb_context context = {
        OSB_CONTEXT,
        .language = language ? language : "python",
        .cwd = call_text(c, "working_directory"),
    };
    struct osb_sandbox *sandbox;
    char id[OSB_ID_MAX];
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_context_create(sandbox, &context, id);
    if (r < 0)
        return r;
    json_write_object(w);
    json_member_string(w, STR("context_id"), str_of(id));
    json_member_string(w, STR("language"), str_of(context.language));
    json_write_object_end(w);
    return 0;
}

static const struct field context_fields[] = {
    FIELD_SANDBOX_ID,
    {"context_id", FIELD_STRING, true, "Id of code_context_create"},
    FIELD_CONNECT,
};

static int run_context_delete(struct call *c, struct json_writer *w)
{
    struct osb_sandbox *sandbox;
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_context_delete(sandbox, call_text(c, "context_id"));
    if (r == 0)
        tools_write_status(w, "deleted");
    return r;
}

static int run_code_interrupt(struct call *c, struct json_writer *w)
{
    struct osb_sandbox *sandbox;
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_code_interrupt(sandbox, call_text(c, "context_id"));
    if (r == 0)
        tools_write_status(w, "interrupted");
    return r;
}

static const struct tool tools[] = {
    {"code_run",
     "Run code. Variables stay for the next run in the same context; images come as images.", TOOL_DESTROYS, SCHEMA(code_fields),    run_code          },
    {"code_context_create", "Make a context: a session of an interpreter.",                   0,
     SCHEMA(create_fields),                                                                                                          run_context_create},
    {"code_context_delete", "End a context and all that it remembers.",                       TOOL_DESTROYS,
     SCHEMA(context_fields),                                                                                                         run_context_delete},
    {"code_interrupt",      "Interrupt the code that runs in a context.",                     0,             SCHEMA(context_fields),
     run_code_interrupt                                                                                                                                },
};
const struct tool_group code_tools = {tools, ARRAY_LEN(tools)};
