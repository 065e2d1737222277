/* cmd_command.c - osb command: commands in a sandbox and shell sessions. */
#include "osb/commands.h"

#include <errno.h>
#include <unistd.h>

/* What the options of run and session run have in common. */
static struct osb_run make_run(struct cli *cli, size_t first_word)
{
    struct osb_run run = {OSB_RUN};
    const struct value *uid = parsed_value(&cli->line, "uid");
    const struct value *gid = parsed_value(&cli->line, "gid");

    run.command = cli_quote(cli, cli_arguments(cli, first_word));
    run.cwd = cli_text(cli, "workdir");
    run.timeout_ms = cli_number(cli, "timeout", 0) * 1000;
    run.env = cli_pairs(cli, "env", &run.env_count);
    run.has_uid = uid != NULL;
    run.uid = uid ? (uint32_t)uid->number : 0;
    run.has_gid = gid != NULL;
    run.gid = gid ? (uint32_t)gid->number : 0;
    if (cli_flag(cli, "argv")) {
        run.command = NULL;
        run.argv = cli_arguments(cli, first_word);
    }
    return run;
}

static int refuse_format(struct cli *cli, const char *allowed)
{
    return cli_error(cli, "Usage", "This command does not support `-o %s`. Allowed values: %s.",
                     cli_text(cli, "output"), allowed);
}

static int run_in_background(struct cli *cli, struct osb_run *run)
{
    struct osb_execution *execution = NULL;
    struct doc doc;
    int r;

    if (cli->format == FORMAT_RAW)
        return refuse_format(cli, "table, json, yaml");
    r = cli_connect(cli);
    if (r)
        return r;
    run->background = true;
    if (osb_command_run(cli->sandbox, run, &execution) < 0)
        return cli_failed(cli);
    if (osb_execution_failed(execution)) {
        r = cli_error(cli, "Execution Error", "%s: %s", osb_execution_error_name(execution),
                      osb_execution_error_value(execution));
        osb_execution_free(execution);
        return r;
    }
    doc_begin(&doc);
    doc_text(&doc, "execution_id", osb_execution_id(execution));
    doc_text(&doc, "sandbox_id", cli_argument(cli, 0));
    doc_text(&doc, "mode", "background");
    osb_execution_free(execution);
    return cli_panel(cli, "Background Command Started", &doc);
}

int command_run(struct cli *cli)
{
    struct osb_run run = make_run(cli, 1);
    int r;

    if (cli_flag(cli, "background"))
        return run_in_background(cli, &run);
    if (cli_text(cli, "output") && cli->format != FORMAT_RAW)
        return refuse_format(cli, "raw");
    cli->format = FORMAT_RAW;
    run.keep_stdin_open = cli_flag(cli, "interactive");
    r = cli_connect(cli);
    return r ? r : cli_run(cli, &run, NULL);
}

int command_status(struct cli *cli)
{
    struct osb_answer *answer = NULL;
    const struct json *v;
    struct doc doc;
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_command_status(cli->sandbox, cli_argument(cli, 1), &answer) < 0)
        return cli_failed(cli);
    v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    osb_answer_free(answer);
    buf_init(&doc.text, DOC_BYTES_MAX);
    json_write_begin(&doc.w, &doc.text);
    shape_write(&doc.w, v, SHAPE_COMMAND);
    return cli_object(cli, "Command Status", &doc);
}

/* Prints what is new until the command has ended, then all that was left. */
static int follow(struct cli *cli, const char *id, int64_t cursor)
{
    for (;;) {
        struct osb_answer *status = NULL, *logs = NULL;
        const char *text;
        size_t bytes;
        bool running;
        int r;

        if (osb_command_status(cli->sandbox, id, &status) < 0)
            return cli_failed(cli);
        running = osb_answer_bool(status, "running", false);
        r = (int)osb_answer_int(status, "exit_code", 0);
        osb_answer_free(status);
        if (osb_command_logs(cli->sandbox, id, NULL, cursor, &logs, &cursor) < 0)
            return cli_failed(cli);
        text = osb_answer_body(logs, &bytes);
        if (cli_write(text, bytes) < 0)
            return EXIT_FAILED;
        osb_answer_free(logs);
        if (!running)
            return r < 0 ? EXIT_FAILED : r;
        if (bytes == 0 && osb_sleep(cli->client, 200) < 0)
            return cli_failed(cli);
    }
}

int command_logs(struct cli *cli)
{
    const char *id = cli_argument(cli, 1), *text;
    struct osb_answer *answer = NULL;
    int64_t cursor = cli_number(cli, "cursor", 0);
    size_t bytes;
    struct doc doc;
    int r = cli_connect(cli);

    if (r)
        return r;
    if (cli_flag(cli, "follow"))
        return follow(cli, id, cursor);
    if (osb_command_logs(cli->sandbox, id, NULL, cursor, &answer, &cursor) < 0)
        return cli_failed(cli);
    text = osb_answer_body(answer, &bytes);
    if (cli->format == FORMAT_RAW || cli->format == FORMAT_TABLE) {
        if (cli->format == FORMAT_TABLE)
            r = cli_write("--- Command Logs ---\n", 21);
        if (r >= 0)
            r = cli_write(text, bytes);
        if (r >= 0 && (bytes == 0 || text[bytes - 1] != '\n'))
            r = cli_write("\n", 1);
        osb_answer_free(answer);
        return r < 0 ? EXIT_FAILED : EXIT_OK;
    }
    doc_begin(&doc);
    json_member_string(&doc.w, STR("content"), str_make(text, bytes));
    json_member_i64(&doc.w, STR("cursor"), cursor);
    osb_answer_free(answer);
    return cli_object(cli, NULL, &doc);
}

int command_interrupt(struct cli *cli)
{
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_command_interrupt(cli->sandbox, cli_argument(cli, 1)) < 0)
        return cli_failed(cli);
    return cli_message(cli, "Interrupted: %s", cli_argument(cli, 1));
}

int session_create(struct cli *cli)
{
    char id[OSB_ID_MAX];
    struct doc doc;
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_session_create(cli->sandbox, cli_text(cli, "workdir"), id) < 0)
        return cli_failed(cli);
    doc_begin(&doc);
    doc_text(&doc, "sandbox_id", cli_argument(cli, 0));
    doc_text(&doc, "session_id", id);
    doc_text(&doc, "working_directory", cli_text(cli, "workdir"));
    return cli_panel(cli, "Session Created", &doc);
}

int session_run(struct cli *cli)
{
    struct osb_run run = make_run(cli, 2);
    int r = cli_connect(cli);

    return r ? r : cli_run(cli, &run, cli_argument(cli, 1));
}

int session_delete(struct cli *cli)
{
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_session_delete(cli->sandbox, cli_argument(cli, 1)) < 0)
        return cli_failed(cli);
    return cli_message(cli, "Deleted session: %s", cli_argument(cli, 1));
}

/* --- logs --- */

/* The logs of the sandbox itself, printed from where the last look ended. */
static int follow_sandbox(struct cli *cli, const char *scope)
{
    size_t seen = 0;

    cli_interruptible(cli, cli_flag(cli, "follow"));
    for (;;) {
        struct osb_answer *answer = NULL;
        const char *text;
        size_t n;

        if (osb_diagnostics_get(cli->client, cli_argument(cli, 0), "logs", scope, &answer) < 0)
            return cli_interruptible(cli, false) ? EXIT_OK : cli_failed(cli);
        text = osb_answer_text(answer, "content");
        n = text ? strlen(text) : 0;
        if (n < seen)
            seen = 0; /* it was cut at its beginning: all of it again */
        if (n > seen && cli_write(text + seen, n - seen) < 0)
            return EXIT_FAILED;
        seen = n;
        osb_answer_free(answer);
        if (!cli_flag(cli, "follow"))
            return EXIT_OK;
        if (osb_sleep(cli->client, 500) < 0)
            return cli_interruptible(cli, false) ? EXIT_OK : cli_failed(cli);
    }
}

int logs(struct cli *cli)
{
    const char *scope = cli_text(cli, "scope");

    cli->format = FORMAT_RAW;
    if (cli_argument(cli, 1))
        return command_logs(cli);
    return follow_sandbox(cli, scope ? scope : "container");
}
