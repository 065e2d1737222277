/* run.c - follows the events of a command or a cell of code to its end, and keeps what they say. */
#include <errno.h>

#include "api/execd.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "sdk.h"

enum { KEPT_ARENA_BYTES_MAX = 256 << 20 };

struct osb_event {
    struct api_event e;
    enum osb_event_type type;
    struct arena *arena;
    struct str line;
};

struct osb_execution {
    struct arena arena;
    const char *id, *error_name, *error_value, *traceback;
    struct buf out, err;
    int exit_code;
    uint32_t count;
    int64_t time_ms;
    bool failed, complete, truncated;
    const struct json **results;
    const char **result_texts;
    size_t result_count, result_room;
};

/* --- events as the caller sees them --- */

static const enum osb_event_type shown_types[] = {
    [API_EVENT_OTHER] = OSB_EVENT_OTHER,   [API_EVENT_INIT] = OSB_EVENT_INIT,
    [API_EVENT_STDOUT] = OSB_EVENT_STDOUT, [API_EVENT_STDERR] = OSB_EVENT_STDERR,
    [API_EVENT_RESULT] = OSB_EVENT_RESULT, [API_EVENT_EXECUTION_COUNT] = OSB_EVENT_COUNT,
    [API_EVENT_ERROR] = OSB_EVENT_ERROR,   [API_EVENT_COMPLETE] = OSB_EVENT_COMPLETE,
};

enum osb_event_type osb_event_type(const struct osb_event *event)
{
    return event->type;
}

const char *osb_event_text(const struct osb_event *event, size_t *ret_bytes)
{
    if (ret_bytes)
        *ret_bytes = event->e.text.n;
    return event->e.text.n ? event->e.text.p : "";
}

bool osb_event_continues(const struct osb_event *event)
{
    return event->e.continues;
}

bool osb_event_unfinished(const struct osb_event *event)
{
    return event->e.unfinished;
}

int64_t osb_event_timestamp_ms(const struct osb_event *event)
{
    return event->e.timestamp_ms;
}

/* Clients call plain text "text" or by its MIME type. */
static const char *result_text(const struct json *results, const char *mime)
{
    const struct json *v = json_get(results, str_of(mime));

    if (!v && strcmp(mime, "text/plain") == 0)
        v = json_get(results, STR("text"));
    return v && v->type == JSON_STRING ? v->string.p : NULL;
}

const char *osb_event_result(const struct osb_event *event, const char *mime)
{
    return result_text(event->e.results, mime);
}

bool osb_event_is_display(const struct osb_event *event)
{
    return event->e.display;
}

const char *osb_event_error_name(const struct osb_event *event)
{
    return event->e.error_name.n ? event->e.error_name.p : "";
}

const char *osb_event_error_value(const struct osb_event *event)
{
    return event->e.error_value.n ? event->e.error_value.p : "";
}

const char *osb_event_json(const struct osb_event *event)
{
    const char *copy = arena_strdup(event->arena, event->line);

    return copy ? copy : "";
}

/* --- keeping --- */

static int no_memory(struct osb_client *c)
{
    return fail(c, ENOMEM, "no memory left for what the run said");
}

static const char *keep(struct osb_execution *x, struct str s)
{
    const char *copy = arena_strdup(&x->arena, s);

    return copy ? copy : "";
}

/* Output of commands comes line by line without line ends; an empty line is "\n". Code sends what
 * it prints as it is. */
static void keep_output(struct osb_execution *x, struct buf *out, const struct api_event *e,
                        bool is_code)
{
    struct str text = e->text;
    bool is_line = !is_code && !str_eq(text, STR("\n"));

    if (is_line && e->continues && out->n && out->p[out->n - 1] == '\n')
        buf_cut(out, out->n - 1);
    if (text.n + is_line > out->max - out->n) {
        text.n = min_size(text.n, out->max - out->n);
        x->truncated = true;
        is_line = false;
    }
    if (buf_add(out, text) < 0 || (is_line && buf_add_char(out, '\n') < 0))
        x->truncated = true;
}

static int keep_result(struct osb_client *c, struct osb_execution *x, const struct api_event *e)
{
    AUTO_BUF(text, SDK_LINE_BYTES_MAX * 2);
    struct json_writer w;
    struct json *copy;

    if (x->result_count == SDK_RESULTS_MAX) {
        x->truncated = true;
        return 0;
    }
    json_write_begin(&w, &text);
    json_write_value(&w, e->results);
    if (json_write_end(&w) < 0)
        return no_memory(c);
    if (!x->results) {
        x->results = arena_new_array(&x->arena, const struct json *, SDK_RESULTS_MAX);
        x->result_texts = arena_new_array(&x->arena, const char *, SDK_RESULTS_MAX);
    }
    if (!x->results || !x->result_texts || json_parse(&x->arena, buf_str(&text), NULL, &copy, NULL))
        return no_memory(c);
    x->results[x->result_count] = copy;
    x->result_texts[x->result_count++] = keep(x, buf_str(&text));
    return 0;
}

static int keep_error(struct osb_client *c, struct osb_execution *x, const struct api_event *e)
{
    AUTO_BUF(lines, SDK_LINE_BYTES_MAX * 2);
    int64_t code;

    for (size_t i = 0; i < e->traceback_count; i++)
        if (buf_addf(&lines, "%.*s\n", STR_ARG(e->traceback[i])) < 0)
            return no_memory(c);
    x->failed = true;
    x->error_name = keep(x, e->error_name);
    x->error_value = keep(x, e->error_value);
    x->traceback = keep(x, buf_str(&lines));
    if (str_to_i64_range(e->error_value, -1, 255, &code) == 0)
        x->exit_code = (int)code;
    return 0;
}

static int keep_event(struct osb_client *c, struct osb_execution *x, const struct api_event *e,
                      const struct run_spec *spec)
{
    switch (e->type) {
    case API_EVENT_INIT:
        x->id = keep(x, e->text);
        return 0;
    case API_EVENT_STDOUT:
    case API_EVENT_STDERR:
        if (!spec->discard)
            keep_output(x, e->type == API_EVENT_STDOUT ? &x->out : &x->err, e, spec->is_code);
        return 0;
    case API_EVENT_RESULT:
        return e->results ? keep_result(c, x, e) : 0;
    case API_EVENT_EXECUTION_COUNT:
        x->count = e->execution_count;
        return 0;
    case API_EVENT_ERROR:
        return keep_error(c, x, e);
    case API_EVENT_COMPLETE:
        x->complete = true;
        x->time_ms = e->execution_time_ms;
        if (!spec->is_code && !spec->background && !x->failed)
            x->exit_code = 0;
        return 0;
    default:
        return 0;
    }
}

/* --- the stream --- */

static int handle(struct events *ev, const struct json *doc, struct str line,
                  struct osb_execution *x, const struct run_spec *spec)
{
    struct osb_event event = {.arena = &ev->arena, .line = line};
    struct err e;
    int r;

    if (api_event_read(&ev->arena, doc, &event.e, &e) < 0)
        return fail(ev->client, EBADMSG, "%s: an event that does not fit: %s",
                    ev->x->site->authority, e.msg);
    if (event.e.type == API_EVENT_PING)
        return 0;
    r = keep_event(ev->client, x, &event.e, spec);
    if (r < 0 || !spec->on_event)
        return r;
    event.type =
        event.e.type < ARRAY_LEN(shown_types) ? shown_types[event.e.type] : OSB_EVENT_OTHER;
    if (spec->on_event(spec->user, &event) != 0)
        return fail(ev->client, ECANCELED, "the receiver of the events ended the call");
    return 0;
}

static int follow(struct exchange *x, struct osb_execution *done, const struct run_spec *spec)
{
    struct events ev;
    struct json *doc;
    struct str line;
    int r;

    events_init(&ev, x);
    while ((r = events_next(&ev, &doc, &line)) == 1) {
        r = handle(&ev, doc, line, done, spec);
        if (r < 0)
            break;
    }
    if (r == 0 && !done->complete && !done->failed)
        r = fail(x->client, EPROTO,
                 "%s: the stream ended without its last event; it may still run, as '%s'",
                 x->site->authority, done->id);
    events_done(&ev);
    return r;
}

static struct osb_execution *execution_new(const struct run_spec *spec)
{
    size_t max = spec->output_bytes_max ? spec->output_bytes_max : SDK_OUTPUT_BYTES_MAX;
    struct osb_execution *x = mem_new(struct osb_execution);

    arena_init(&x->arena, KEPT_ARENA_BYTES_MAX);
    buf_init(&x->out, max);
    buf_init(&x->err, max);
    x->id = x->error_name = x->error_value = x->traceback = "";
    x->exit_code = -1;
    return x;
}

int run_stream(struct osb_sandbox *sb, const struct run_spec *spec, struct osb_execution **ret)
{
    struct osb_client *c = sb->client;
    struct exchange_spec http = {
        .method = HTTP_POST,
        .target = buf_str(&spec->target->text),
        .content_type = STR("application/json"),
        .streams_body = true,
        .body_length = spec->body->n,
        .streams = true,
        .idle_ms = c->idle_ms,
    };
    struct osb_execution *done = execution_new(spec);
    struct exchange x = {0};
    int r;

    r = spec->target->error < 0 ? fail(c, -spec->target->error, "an id is empty or too long")
        : spec->body_error < 0  ? fail(c, -spec->body_error, "the request is too large")
                                : sandbox_site(sb, OSB_PORT_EXECD, &http.site);
    if (r == 0) {
        r = exchange_start(&x, c, &http);
        if (r == 0)
            r = exchange_write(&x, buf_str(spec->body));
        if (r >= 0)
            r = exchange_head(&x);
        if (r == 0)
            r = follow(&x, done, spec);
        exchange_close(&x);
    }
    target_done(spec->target);
    if (r == 0 && ret)
        *ret = done;
    else
        osb_execution_free(done);
    return r;
}

/* --- how it ended --- */

void osb_execution_free(struct osb_execution *execution)
{
    if (!execution)
        return;
    buf_done(&execution->out);
    buf_done(&execution->err);
    arena_done(&execution->arena);
    free(execution);
}

const char *osb_execution_id(const struct osb_execution *execution)
{
    return execution->id;
}

int osb_execution_exit_code(const struct osb_execution *execution)
{
    return execution->exit_code;
}

bool osb_execution_failed(const struct osb_execution *execution)
{
    return execution->failed;
}

const char *osb_execution_stdout(const struct osb_execution *execution)
{
    return execution->out.p;
}

const char *osb_execution_stderr(const struct osb_execution *execution)
{
    return execution->err.p;
}

bool osb_execution_truncated(const struct osb_execution *execution)
{
    return execution->truncated;
}

int64_t osb_execution_time_ms(const struct osb_execution *execution)
{
    return execution->time_ms;
}

int osb_execution_count(const struct osb_execution *execution)
{
    return (int)execution->count;
}

const char *osb_execution_error_name(const struct osb_execution *execution)
{
    return execution->error_name;
}

const char *osb_execution_error_value(const struct osb_execution *execution)
{
    return execution->error_value;
}

const char *osb_execution_traceback(const struct osb_execution *execution)
{
    return execution->traceback;
}

size_t osb_execution_result_count(const struct osb_execution *execution)
{
    return execution->result_count;
}

const char *osb_execution_result(const struct osb_execution *execution, size_t index,
                                 const char *mime)
{
    return index < execution->result_count ? result_text(execution->results[index], mime) : NULL;
}

const char *osb_execution_result_json(const struct osb_execution *execution, size_t index)
{
    return index < execution->result_count ? execution->result_texts[index] : NULL;
}
