/* config.c - the table as rows, and the order of loading a configuration: defaults, file,
 * environment, options, then derived values. */
#include "server/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/io.h"
#include "base/mem.h"
#include "server/config/config_internal.h"

enum { ARENA_BYTES_MAX = 32 * 1024 * 1024, WARNINGS_MAX = 20, ERRORS_MAX = 50 };

/* --- the rows --- */

enum section_id {
#define CONF_SECTION(section, path, help) SECTION_##section,
#define CONF(...)
#define CONF_END(section)
#include "server/config/config_table.inc"
    SECTION_COUNT,
};

const struct config_section config_sections[] = {
#define CONF_SECTION(section, path, help) [SECTION_##section] = {path, help},
#define CONF(...)
#define CONF_END(section)
#include "server/config/config_table.inc"
};
const size_t config_section_count = SECTION_COUNT;

#define NONE              .form = FORM_ANY
#define FORM(name)        .form = FORM_##name
#define WORDS(list)       .words = list
#define RANGE(low, high)  .min = low, .max = high
#define OFF_OR(low, high) .min = low, .max = high, .zero_is_off = true

#define DEFAULT_TEXT(v)  .fallback = v
#define DEFAULT_LIST(v)  .fallback = v
#define DEFAULT_PAIRS(v) .fallback = v
#define DEFAULT_KEYS(v)  .fallback = v
#define DEFAULT_BYTES(v) .fallback = v
#define DEFAULT_CPU(v)   .fallback = v
#define DEFAULT_WORD(v)  .number = v
#define DEFAULT_INT(v)   .number = v
#define DEFAULT_REAL(v)  .number = v
#define DEFAULT_BOOL(v)  .number = v

const struct config_row config_rows[CONFIG_ROW_COUNT] = {
#define CONF_SECTION(section, path, help)
#define CONF(in, name, type, value, limits, text)                                                  \
    {.key = #name,                                                                                 \
     .help = text,                                                                                 \
     .section = SECTION_##in,                                                                      \
     .kind = CONFIG_##type,                                                                        \
     .offset = offsetof(struct config, in.name),                                                   \
     DEFAULT_##type(value),                                                                        \
     limits},
#define CONF_END(section)
#include "server/config/config_table.inc"
};

const char *config_row_name(const struct config_row *row, char out[CONFIG_NAME_MAX])
{
    (void)snprintf(out, CONFIG_NAME_MAX, "%s.%s", config_sections[row->section].path, row->key);
    return out;
}

const struct config_row *config_row_find(struct str name)
{
    char known[CONFIG_NAME_MAX];

    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++)
        if (str_eq(name, str_of(config_row_name(&config_rows[i], known))))
            return &config_rows[i];
    return NULL;
}

struct str config_word(const char *words, int index)
{
    struct str rest = str_of(words), word;

    while (str_cut(&rest, '|', &word))
        if (index-- == 0)
            return word;
    return STR_NONE;
}

/* --- reporting --- */

void config_report_init(struct config_report *report)
{
    *report = (struct config_report){0};
    buf_init(&report->lines, CONFIG_REPORT_BYTES_MAX);
}

void config_report_done(struct config_report *report)
{
    buf_done(&report->lines);
}

/* A line that does not fit is dropped, but counted. */
static PRINTF_LIKE(4, 0) void report_add(struct config_report *report,
                                         const struct config_place *at, const char *severity,
                                         const char *fmt, va_list ap)
{
    size_t start = report->lines.n;
    int r = 0;

    if (at && at->pos.line)
        r = buf_addf(&report->lines, "%s:%u:%u: ", at->file, at->pos.line, at->pos.column);
    if (r == 0)
        r = buf_addf(&report->lines, "%s: ", severity);
    if (r == 0)
        r = buf_vaddf(&report->lines, fmt, ap);
    if (r == 0)
        r = buf_add_char(&report->lines, '\n');
    if (r < 0)
        buf_cut(&report->lines, start);
}

void config_error(struct config_report *report, const struct config_place *at, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (++report->errors <= ERRORS_MAX)
        report_add(report, at, "error", fmt, ap);
    va_end(ap);
}

void config_warn(struct config_report *report, const struct config_place *at, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (++report->warnings <= WARNINGS_MAX)
        report_add(report, at, "warning", fmt, ap);
    va_end(ap);
}

/* --- loading --- */

/* The table's defaults are valid; a unit test checks that. */
static void set_default(struct config *c, const struct config_row *row)
{
    void *field = config_field(c, row);

    switch ((enum config_kind)row->kind) {
    case CONFIG_TEXT:
        *(const char **)field = row->fallback;
        break;
    case CONFIG_WORD:
        *(int *)field = (int)row->number;
        break;
    case CONFIG_INT:
        *(int64_t *)field = (int64_t)row->number;
        break;
    case CONFIG_REAL:
        *(double *)field = row->number;
        break;
    case CONFIG_BOOL:
        *(bool *)field = row->number != 0;
        break;
    case CONFIG_BYTES:
        (void)!config_bytes_parse(str_of(row->fallback), field);
        break;
    case CONFIG_CPU:
        (void)!config_cpu_parse(str_of(row->fallback), field);
        break;
    case CONFIG_LIST:
    case CONFIG_PAIRS:
    case CONFIG_KEYS:
        break; /* empty, with one exception: see set_default_list */
    }
}

static void set_default_list(struct config *c, const struct config_row *row)
{
    struct str rest = str_of(row->fallback), item;
    struct config_list *list = config_field(c, row);
    const char **items;

    if (rest.n == 0)
        return;
    items = arena_new_array(&c->arena, const char *, rest.n);
    while (items && str_cut(&rest, ',', &item))
        items[list->count++] = arena_strdup(&c->arena, item);
    list->at = items;
}

struct config *config_new(void)
{
    struct config *c = mem_new(struct config);

    arena_init(&c->arena, ARENA_BYTES_MAX);
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        set_default(c, &config_rows[i]);
        if (config_rows[i].kind == CONFIG_LIST)
            set_default_list(c, &config_rows[i]);
    }
    return c;
}

void config_free(struct config *config)
{
    if (!config)
        return;
    arena_done(&config->arena);
    free(config);
}

static void config_freep(struct config **c)
{
    config_free(*c);
}
#define auto_config __attribute__((cleanup(config_freep))) struct config

static int finish(struct config **c, const struct config_report *report, struct config **ret_config)
{
    if (report->errors)
        return -EINVAL;
    *ret_config = take_ptr(c);
    return 0;
}

/* NULL when it is not TOML. */
static const struct toml *read_document(struct config *c, struct str text, const char *file,
                                        struct config_report *report)
{
    struct toml *root = NULL;
    struct config_place at = {.file = file};
    struct err e = {0};

    if (toml_parse_at(&c->arena, text, file, &root, &at.pos, &e) < 0)
        config_error(report, &at, "%s", e.msg);
    else
        config_bind(c, root, file, report);
    return root;
}

int config_parse(struct str text, const char *filename, struct config **ret_config,
                 struct config_report *report)
{
    auto_config *c = config_new();
    const struct toml *root = read_document(c, text, filename, report);

    c->path = arena_strdup(&c->arena, str_of(filename));
    if (root)
        config_settle(c, root, report);
    return finish(&c, report, ret_config);
}

/* Variables that override a key. */
static const struct {
    const char *name, *key;
} variables[] = {
    {"OPENSANDBOX_SERVER_API_KEY",          "server.api_key"               },
    {"PENDING_FAILURE_TTL",                 "runtime.failed_ttl_seconds"   },
    {"DOCKER_HOST",                         "docker.host"                  },
    {"DOCKER_CERT_PATH",                    "docker.cert_path"             },
    {"OTEL_EXPORTER_OTLP_ENDPOINT",         "telemetry.endpoint"           },
    {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",  "telemetry.traces_endpoint"    },
    {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "telemetry.metrics_endpoint"   },
    {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",    "telemetry.logs_endpoint"      },
    {"OTEL_TRACES_EXPORTER",                "telemetry.traces"             },
    {"OTEL_METRICS_EXPORTER",               "telemetry.metrics"            },
    {"OTEL_LOGS_EXPORTER",                  "telemetry.logs"               },
    {"OTEL_SDK_DISABLED",                   "telemetry.disabled"           },
    {"OTEL_EXPORTER_OTLP_HEADERS",          "telemetry.headers"            },
    {"OTEL_EXPORTER_OTLP_CERTIFICATE",      "telemetry.certificate"        },
    {"OTEL_EXPORTER_OTLP_COMPRESSION",      "telemetry.compression"        },
    {"OTEL_EXPORTER_OTLP_TIMEOUT",          "telemetry.timeout_ms"         },
    {"OTEL_BSP_SCHEDULE_DELAY",             "telemetry.delay_ms"           },
    {"OTEL_METRIC_EXPORT_INTERVAL",         "telemetry.metric_interval_ms" },
    {"OTEL_SERVICE_NAME",                   "telemetry.service_name"       },
    {"OTEL_RESOURCE_ATTRIBUTES",            "telemetry.resource_attributes"},
    {"OTEL_TRACES_SAMPLER",                 "telemetry.traces_sampler"     },
    {"OTEL_TRACES_SAMPLER_ARG",             "telemetry.traces_sampler_arg" },
};

/* OpenTelemetry takes an empty variable for one that is not set. */
static bool is_blank_variable(const char *name)
{
    return str_starts(str_of(name), STR("OTEL_")) && str_trim(str_of(getenv(name))).n == 0;
}

static void override_all(struct config *c, const struct config_options *options,
                         struct config_report *report)
{
    const struct {
        const char *name, *key, *value;
    } rows[] = {
        {"--host",  "server.host",  options->host },
        {"--port",  "server.port",  options->port },
        {"--state", "server.state", options->state},
    };
    const char *insecure = getenv("OPENSANDBOX_INSECURE_SERVER");

    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        if (getenv(variables[i].name) && !is_blank_variable(variables[i].name))
            config_override(c, variables[i].key, getenv(variables[i].name), variables[i].name,
                            report);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value)
            config_override(c, rows[i].key, rows[i].value, rows[i].name, report);
    c->insecure = insecure && strcmp(insecure, "YES") == 0;
}

int config_load(const struct config_options *options, struct config **ret_config,
                struct config_report *report)
{
    auto_config *c = config_new();
    AUTO_BUF(text, CONFIG_FILE_BYTES_MAX);
    const struct toml *root = NULL;
    struct err e = {0};
    bool named = false;
    int r;

    c->path = config_file_find(&c->arena, options->path, &named);
    if (c->path) {
        r = io_read_file(AT_FDCWD, c->path, CONFIG_FILE_BYTES_MAX, &text, &e);
        if (r < 0) {
            config_error(report, NULL, "%s%s", e.msg, named ? "" : " (found in its default place)");
            return r;
        }
        root = read_document(c, buf_str(&text), c->path, report);
    }
    override_all(c, options, report);
    if (root || !c->path)
        config_settle(c, root, report);
    return finish(&c, report, ret_config);
}
