/* cmd_code.c - osb code: cells of code in a sandbox, from an option, a file, or typed. */
#include "osb/commands.h"

#include <errno.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"

enum { CELL_BYTES_MAX = 16 * 1024 * 1024 };

/* What the code prints, and the value of a cell as text. */
static int on_event(void *user, const struct osb_event *event)
{
    enum osb_event_type type = osb_event_type(event);
    size_t bytes = 0;
    const char *text = osb_event_text(event, &bytes);

    if (type == OSB_EVENT_STDOUT && text)
        return cli_write(text, bytes);
    if (type == OSB_EVENT_STDERR && text)
        return io_write_full(STDERR_FILENO, str_make(text, bytes), DEADLINE_NEVER);
    text = type == OSB_EVENT_RESULT ? osb_event_result(event, "text/plain") : NULL;
    if (!text)
        return 0;
    return cli_write(text, strlen(text)) < 0 ? -EPIPE : cli_write("\n", 1);
}

static int run_cell(struct cli *cli, const char *context, const char *code)
{
    struct osb_execution *execution = NULL;
    struct osb_code cell = {
        OSB_CODE,
        .code = code,
        .context_id = context,
        .timeout_ms = cli_number(cli, "timeout", 0) * 1000,
        .on_event = on_event,
        .discard = true,
    };
    int r, status = EXIT_OK;

    cli_interruptible(cli, true);
    r = osb_code_run(cli->sandbox, &cell, &execution);
    if (cli_interruptible(cli, false) && r < 0) {
        /* The cell ends, its context stays. */
        if (osb_code_interrupt(cli->sandbox, context) < 0)
            return cli_failed(cli);
        return 128 + 2;
    }
    if (r < 0)
        return cli_failed(cli);
    if (osb_execution_failed(execution)) {
        const char *trace = osb_execution_traceback(execution);

        fprintf(stderr, "%s%s%s: %s\n", trace, trace[0] ? "\n" : "",
                osb_execution_error_name(execution), osb_execution_error_value(execution));
        status = EXIT_FAILED;
    }
    osb_execution_free(execution);
    return status;
}

/* A cell is a line, or lines up to an empty one when the first ends in ':' or '{'. */
static int read_cell(const char *prompt, struct buf *cell)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    bool block = false;
    int r = -ENODATA;

    buf_clear(cell);
    for (;;) {
        if (isatty(STDIN_FILENO))
            fprintf(stderr, "%s", block ? "... " : prompt);
        n = getline(&line, &size, stdin);
        if (n <= 0)
            break;
        r = buf_add(cell, str_make(line, (size_t)n));
        if (r < 0)
            break;
        if (!block && n >= 2)
            block = line[n - 2] == ':' || line[n - 2] == '{';
        else if (block && n == 1)
            block = false;
        if (!block)
            break;
    }
    free(line);
    return r;
}

static int repl(struct cli *cli, const char *language, const char *context)
{
    AUTO_BUF(cell, CELL_BYTES_MAX);
    const char *prompt = arena_printf(&cli->arena, "%s> ", language);
    int status = EXIT_OK;

    while (read_cell(prompt, &cell) == 0)
        if (str_trim(buf_str(&cell)).n > 1)
            status = run_cell(cli, context, cell.p);
    if (isatty(STDIN_FILENO))
        fputc('\n', stderr);
    return status;
}

int code(struct cli *cli)
{
    const char *language = cli_text(cli, "language"), *text = cli_text(cli, "code");
    const char *file = cli_text(cli, "file");
    char context[OSB_ID_MAX];
    int r = cli_connect(cli);

    if (r)
        return r;
    if (!language)
        language = "python";
    if (file) {
        text = cli_read_file(cli, file).p;
        if (!text)
            return EXIT_FAILED;
    }
    if (osb_context_create(cli->sandbox,
                           &(struct osb_context){OSB_CONTEXT, .language = language,
                                                 .cwd = cli_text(cli, "workdir")},
                           context) < 0)
        return cli_failed(cli);
    r = text ? run_cell(cli, context, text) : repl(cli, language, context);
    if (osb_context_delete(cli->sandbox, context) < 0 && cli->verbose)
        cli_failed(cli);
    return r;
}
