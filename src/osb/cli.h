/* cli.h - what a command of osb works with: the command line, settings, client and output.
 *
 * A command returns the exit status of the program. One thread; calls block. */
#pragma once

#include <opensandbox/opensandbox.h>

#include "base/json_write.h"
#include "osb/command.h"

enum exit_status { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_TIMED_OUT = 124 };

enum format { FORMAT_TABLE, FORMAT_JSON, FORMAT_YAML, FORMAT_RAW };

struct settings {
    const char *api_key, *domain, *protocol; /* NULL = unset */
    int64_t request_timeout_s;
    bool use_server_proxy, color;
    const char *image, *timeout; /* of sandboxes to be made; NULL = unset */
    const char *format;          /* of the output; NULL = unset */
    const char *path;            /* of the file */
    bool file_exists;
};

struct cli {
    struct arena arena; /* lives as long as the program */
    struct parsed line;
    struct settings settings;
    struct osb_client *client; /* NULL until cli_client */
    struct osb_sandbox *sandbox;
    enum format format; /* of results */
    enum format errors; /* JSON or YAML when -o says so, also where results have no such format */
    bool color, verbose;
    bool detached; /* the user left a terminal, which goes on */
};

/* --- the command line (cli.c) --- */

const char *cli_argument(const struct cli *cli, size_t index); /* or NULL */
/* Arguments from `index` on, NULL-terminated. */
const char *const *cli_arguments(const struct cli *cli, size_t index);
const char *cli_text(const struct cli *cli, const char *name); /* of an option, or NULL */
bool cli_flag(const struct cli *cli, const char *name);
int64_t cli_number(const struct cli *cli, const char *name, int64_t otherwise);
/* All values of an option that repeats: NULL-terminated, or NULL when there are none. */
const char *const *cli_texts(struct cli *cli, const char *name, size_t *ret_count);
struct osb_pair *cli_pairs(struct cli *cli, const char *name, size_t *ret_count);

/* --- the server (cli.c) --- */

/* Opens the client on the first call; 0, or an exit status after it said why not. */
int cli_client(struct cli *cli);
/* The sandbox that the first argument names; 0 or an exit status. */
int cli_connect(struct cli *cli);
int cli_connect_to(struct cli *cli, const char *id);
/* Reports the last error of the client: EXIT_FAILED. */
int cli_failed(struct cli *cli);
/* Any request: 0 and the answer, or an exit status after it said why not. */
int cli_request(struct cli *cli, const struct osb_request *request, struct osb_answer **ret_answer);

/* A whole file, or standard input for "-"; NULL after it said why not. */
enum { CLI_FILE_BYTES_MAX = 16 * 1024 * 1024 };
struct str cli_read_file(struct cli *cli, const char *path);
/* A JSON document of such a file; NULL after it said why not. */
const struct json *cli_read_json(struct cli *cli, const char *path);
/* The same, also of YAML; no error repeats what is in the file. */
const struct json *cli_read_yaml(struct cli *cli, const char *path);
/* A JSON document in the arena; NULL when it is none. */
const struct json *cli_parse(struct cli *cli, struct str text);

/* Opens a page in the user's browser (cmd_open.c); false when there is no display, or it failed. */
bool cli_open_browser(const char *url);

/* --- settings (settings.c) --- */

/* Flags before environment before file before defaults. -EINVAL when the file cannot be read. */
int settings_load(struct cli *cli, struct err *e);
/* Returns `text` with section.field set to `value`, in the arena; NULL when it is too long. */
struct str settings_set(struct arena *a, struct str text, struct str section, struct str field,
                        struct str value);
/* Replaces the file, which holds a secret, so that only its owner can read it; 0 or an exit status
 * after it said why not. */
int settings_write(struct cli *cli, struct str text);
extern const char settings_template[];

/* --- output (print.c) --- */

/* A document under construction, for the functions below. */
struct doc {
    struct buf text;
    struct json_writer w;
};
enum { DOC_BYTES_MAX = 256 * 1024 * 1024 };
void doc_begin(struct doc *doc); /* an object */
void doc_begin_array(struct doc *doc);
void doc_text(struct doc *doc, const char *key, const char *value); /* NULL = null */
void doc_done(struct doc *doc);

/* Prints the document and frees it: as an object with a title, as key and value rows, or as rows
 * with these columns ("id status"). EXIT_OK. */
int cli_panel(struct cli *cli, const char *title, struct doc *doc);
int cli_object(struct cli *cli, const char *title, struct doc *doc);
int cli_rows(struct cli *cli, const char *title, const char *columns, struct doc *doc);
/* The same of a value, whatever it is. */
void cli_print(struct cli *cli, const struct json *v);
void cli_print_table(struct cli *cli, const char *columns, const struct json *rows);
int cli_message(struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);
int cli_info(struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);
int cli_warning(struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* EXIT_FAILED. */
int cli_error(struct cli *cli, const char *title, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Bytes to standard output; not 0 when it is closed. */
int cli_write(const char *data, size_t bytes);

/* --- shapes (shape.c) --- */

/* Writes the members that `shape` names of a JSON object of the API, in snake case, null for what
 * is missing: "id status{state reason} image{image=uri}" */
void shape_write(struct json_writer *w, const struct json *v, const char *shape);
extern const char SHAPE_SANDBOX[], SHAPE_SNAPSHOT[], SHAPE_PAGE[], SHAPE_FILE[], SHAPE_COMMAND[],
    SHAPE_DIAGNOSTIC[], SHAPE_TEMPLATE[];
/* The value with all its keys in snake case, except those below "metadata", "headers", "env". */
void shape_snake(struct json_writer *w, const struct json *v);

/* --- formats (format.c) --- */

void format_json(struct buf *out, const struct json *v);
void format_json_line(struct buf *out, const struct json *v);
void format_yaml(struct buf *out, const struct json *v);
/* A box of rows; columns as for cli_rows. */
void format_table(struct buf *out, const char *columns, const struct json *rows, bool color);
void format_pairs(struct buf *out, const struct json *object, bool color);

/* --- commands that others use --- */

/* Words as a shell command, each quoted when it must be; in the arena. */
const char *cli_quote(struct cli *cli, const char *const *words);
/* Runs, streams, and returns the exit status of the command (stream.c). With keep_stdin_open
 * standard input goes to the command as it comes. */
int cli_run(struct cli *cli, const struct osb_run *run, const char *session);
/* Between on and off, Ctrl-C ends the call in progress with -ECANCELED. Off returns the signal that
 * came, or 0. */
int cli_interruptible(struct cli *cli, bool on);
/* From now on the first SIGINT, SIGTERM or SIGHUP does not end the program: it ends the call in
 * progress where that is interruptible, and is remembered. For programs that must clean up. */
void cli_guard(void);
int cli_interrupted(void); /* the last of these signals; 0 = none */
/* Fills what `sandbox create`, `run` and others share; 0 or an exit status. */
int cli_fill_create(struct cli *cli, struct osb_create *create);
/* defaults.timeout of the settings: seconds, -1 for none, 0 when unset; 0 or an exit status. */
int cli_default_timeout(struct cli *cli, int64_t *ret_seconds);
/* Fills the request of `sandbox create --file` or --template (cmd_template.c), and beside it what
 * is shown of it; 0 or an exit status. *ret_template is the template, or NULL. */
int cli_fill_request(struct cli *cli, struct osb_create *create, const char **ret_template);
/* Splits "ID:/path"; false when it is none: the id has no slash. Text in the arena. */
bool cli_split_place(struct cli *cli, const char *place, const char **ret_id,
                     const char **ret_path);
/* A terminal in the sandbox on the terminal of osb; its exit status (terminal.c). */
int cli_terminal(struct cli *cli, const char *pty, int64_t since);
