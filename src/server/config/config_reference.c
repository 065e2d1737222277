/* config_reference.c - generates docs/config.md from the table. */
#include "server/config/config_internal.h"

static const char intro[] =
    "<!-- Written by `opensandbox-server --print-reference`; a test compares. -->\n"
    "# Configuration of opensandbox-server\n"
    "\n"
    "One TOML file, and it may be missing: the defaults run the embedded runtime. The first of "
    "these\n"
    "is used: `--config PATH`, `SANDBOX_CONFIG_PATH` in the environment, `~/.sandbox.toml`,\n"
    "`/etc/opensandbox/config.toml`. A file named by an option or variable must exist.\n"
    "\n"
    "```sh\n"
    "opensandbox-server init-config                     # every key, in comments: ~/.sandbox.toml\n"
    "opensandbox-server init-config --example embedded  # a commented example\n"
    "opensandbox-server --check                         # lists errors and warnings\n"
    "opensandbox-server --print-config                  # effective values and their origin\n"
    "```\n"
    "\n"
    "A value that does not fit stops the start, with file, line, what was found and what was\n"
    "expected. An unknown key is ignored, with a warning that names the nearest one. Options\n"
    "override the environment, which overrides the file:\n"
    "\n"
    "| option or variable | overrides |\n"
    "|---|---|\n"
    "| `--host`, `--port`, `--state` | `server.host`, `server.port`, `server.state` |\n"
    "| `OPENSANDBOX_SERVER_API_KEY` | `server.api_key`, also when it is empty |\n"
    "| `PENDING_FAILURE_TTL` | `runtime.failed_ttl_seconds` |\n"
    "| `OPENSANDBOX_INSECURE_SERVER` | exactly `YES`: without any key, none is made or "
    "required |\n"
    "\n"
    "Paths may begin with `~/`; relative ones are taken from where the server was started. An "
    "empty\n"
    "text is the same as a key that is not there.\n"
    "\n"
    "SIGHUP reads the file again, as the account of `server.user`: give it to `root:opensandbox`,\n"
    "mode 0640. Keys that moved are read by their old names too, with a warning.\n";

/* Escapes |, which would end the table cell. */
static int add_cell(struct buf *out, struct str text)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < text.n; i++)
        r = text.p[i] == '|' ? buf_add(out, STR("\\|")) : buf_add_char(out, text.p[i]);
    return r;
}

static int add_row(const struct config_row *row, struct buf *out)
{
    AUTO_BUF(expects, 512);
    AUTO_BUF(fallback, 512);
    int r = config_row_expects(row, &expects);

    if (r == 0)
        r = config_print_default(row, &fallback);
    if (r == 0)
        r = buf_addf(out, "| `%s` | `%s` | ", row->key, fallback.p);
    if (r == 0)
        r = add_cell(out, buf_str(&expects));
    if (r == 0)
        r = buf_add(out, STR(" | "));
    if (r == 0)
        r = add_cell(out, str_of(row->help));
    return r ? r : buf_add(out, STR(" |\n"));
}

int config_print_reference(struct buf *out)
{
    int r = buf_add(out, str_of(intro));

    for (size_t s = 0; r == 0 && s < config_section_count; s++) {
        r = buf_addf(out,
                     "\n## [%s]\n\n%s\n\n| key | default | expects | what |\n|---|---|---|---|\n",
                     config_sections[s].path, config_sections[s].help);
        for (size_t i = 0; r == 0 && i < CONFIG_ROW_COUNT; i++)
            if (config_rows[i].section == s)
                r = add_row(&config_rows[i], out);
    }
    return r;
}
