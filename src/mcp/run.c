/* run.c - collects the events of a run, and writes the execution. */
#include "mcp/run.h"

#include <errno.h>
#include <stdio.h>

#include "base/utf8.h"

enum {
    LINE_COST = 64, /* bytes that a line takes in an answer beside its text */
    TEXT_BYTES_MAX = OUTPUT_BYTES_MAX,
    LINES_BYTES_MAX = 64 << 20,
    PROGRESS_EVERY_MS = 250,
    TITLE_MAX = 96,
};

struct run_line {
    size_t at, n; /* in the text, without the line feed */
    int64_t timestamp_ms;
};

void run_init(struct run *r, struct call *c)
{
    *r = (struct run){.call = c};
    buf_init(&r->out.text, TEXT_BYTES_MAX);
    buf_init(&r->err.text, TEXT_BYTES_MAX);
    buf_init(&r->out.lines, LINES_BYTES_MAX);
    buf_init(&r->err.lines, LINES_BYTES_MAX);
}

void run_done(struct run *r)
{
    buf_done(&r->out.text);
    buf_done(&r->err.text);
    buf_done(&r->out.lines);
    buf_done(&r->err.lines);
}

int64_t run_timeout_ms(const struct call *c)
{
    double own = call_number(c, "timeout_seconds"), most = c->mcp->options->call_timeout_s;

    return (int64_t)((own > 0 && own < most ? own : most) * 1000);
}

/* --- as it comes --- */

static size_t line_count(const struct run_output *o)
{
    return o->lines.n / sizeof(struct run_line);
}

static struct run_line *line_at(const struct run_output *o, size_t i)
{
    return (struct run_line *)(void *)o->lines.p + i;
}

static void add_line(struct run_output *o, struct str text, bool continues, int64_t timestamp_ms)
{
    struct run_line line = {o->text.n, text.n, timestamp_ms};

    if (continues && o->text.n)
        buf_cut(&o->text, o->text.n - 1); /* its line feed */
    if (o->dropped || buf_reserve(&o->text, text.n + 1) < 0 ||
        (!continues && buf_reserve(&o->lines, sizeof(line)) < 0)) {
        o->dropped += text.n + 1;
        if (continues)
            (void)buf_add_char(&o->text, '\n');
        return;
    }
    (void)buf_add(&o->text, text);
    (void)buf_add_char(&o->text, '\n');
    if (continues && line_count(o))
        line_at(o, line_count(o) - 1)->n += text.n;
    else
        (void)buf_add(&o->lines, str_make((const char *)&line, sizeof(line)));
}

int run_on_event(void *user, const struct osb_event *event)
{
    struct run *r = user;
    enum osb_event_type type = osb_event_type(event);
    char note[TITLE_MAX];
    size_t n = 0;
    const char *text = osb_event_text(event, &n);

    if (type == OSB_EVENT_INIT && text)
        r->id = arena_strdup(&r->call->message->arena, str_make(text, n));
    if (type != OSB_EVENT_STDOUT && type != OSB_EVENT_STDERR)
        return 0;
    add_line(type == OSB_EVENT_STDOUT ? &r->out : &r->err, str_make(text, n),
             osb_event_continues(event), osb_event_timestamp_ms(event));
    if (time_mono_ms() - r->call->progress_ms >= PROGRESS_EVERY_MS) {
        (void)snprintf(note, sizeof(note), "%.*s", (int)min_size(n, sizeof(note) - 1), text);
        call_progress(r->call, r->call->progress + 1, note);
    }
    return 0;
}

/* --- as an answer --- */

static void write_line(struct json_writer *w, struct str text, int64_t timestamp_ms, bool is_error)
{
    json_write_object(w);
    json_member_string(w, STR("text"), text);
    json_member_i64(w, STR("timestamp"), timestamp_ms);
    json_member_bool(w, STR("is_error"), is_error);
    json_write_object_end(w);
}

/* Of a line that does not fit, its first or its last bytes. */
static struct str cut_line(struct str text, size_t room, bool last)
{
    if (text.n <= room)
        return text;
    if (last)
        return outputs_part(text, text.n - room, room);
    text.n = room;
    text.n -= utf8_cut_tail(text);
    return text;
}

static struct str line_text(const struct run_output *o, size_t i)
{
    return str_make(o->text.p + line_at(o, i)->at, line_at(o, i)->n);
}

/* The first of the lines at the end that fit into `room`; the one before may fit in part. */
static size_t tail_begin(const struct run_output *o, size_t from, size_t room, size_t *ret_left)
{
    size_t i = line_count(o);

    while (i > from && line_at(o, i - 1)->n + LINE_COST <= room)
        room -= line_at(o, --i)->n + LINE_COST;
    *ret_left = room > LINE_COST ? room - LINE_COST : 0;
    return i;
}

/* Returns whether something was left out. */
static bool write_lines(struct json_writer *w, const struct run_output *o, bool is_error,
                        size_t room)
{
    size_t count = line_count(o), half = room / 2, i = 0, left, tail, shown = 0;
    char note[TITLE_MAX];

    if (o->text.n + count * LINE_COST <= room && !o->dropped) {
        for (; i < count; i++)
            write_line(w, line_text(o, i), line_at(o, i)->timestamp_ms, is_error);
        return false;
    }
    for (; i < count && line_at(o, i)->n + LINE_COST <= half; i++) {
        half -= line_at(o, i)->n + LINE_COST;
        shown += line_at(o, i)->n + 1;
        write_line(w, line_text(o, i), line_at(o, i)->timestamp_ms, is_error);
    }
    if (i < count && half > LINE_COST) {
        struct str head = cut_line(line_text(o, i), half - LINE_COST, false);

        shown += head.n;
        write_line(w, head, line_at(o, i)->timestamp_ms, is_error);
    }
    tail = tail_begin(o, i < count ? i + 1 : i, room / 2, &left);
    for (size_t k = tail; k < count; k++)
        shown += line_at(o, k)->n + 1;
    shown += tail > i && left ? min_size(left, line_at(o, tail - 1)->n) : 0;
    (void)snprintf(note, sizeof(note), "[... %zu bytes left out ...]",
                   o->text.n + o->dropped > shown ? o->text.n + o->dropped - shown : 0);
    write_line(w, str_of(note), i < count ? line_at(o, i)->timestamp_ms : 0, is_error);
    if (tail > i && left)
        write_line(w, cut_line(line_text(o, tail - 1), left, true),
                   line_at(o, tail - 1)->timestamp_ms, is_error);
    for (; tail < count; tail++)
        write_line(w, line_text(o, tail), line_at(o, tail)->timestamp_ms, is_error);
    return true;
}

/* Of a result: what is an image becomes content of its own. */
static int write_result(struct call *c, const char *text, struct json_writer *w)
{
    AUTO_ARENA(arena, MCP_REPLY_BYTES_MAX);
    struct json *v = NULL;
    int r = json_parse(&arena, str_of(text), NULL, &v, NULL);

    if (r < 0)
        return r;
    if (v->type != JSON_OBJECT) {
        json_write_value(w, v);
        return 0;
    }
    json_write_object(w);
    json_each(item, v)
    {
        json_write_key(w, item->key);
        if (item->type == JSON_STRING && str_starts(item->key, STR("image/")) &&
            !str_eq(item->key, STR("image/svg+xml"))) {
            AUTO_BUF(data, MCP_REPLY_BYTES_MAX);

            for (size_t i = 0; i < item->string.n && r == 0; i++)
                if (item->string.p[i] != '\n')
                    r = buf_add_char(&data, item->string.p[i]);
            if (r == 0)
                r = call_image(c, item->key, buf_str(&data));
            json_write_string(w, STR("(an image of this answer)"));
        } else {
            json_write_value(w, item);
        }
    }
    json_write_object_end(w);
    return r;
}

static int write_results(struct call *c, const struct osb_execution *x, struct json_writer *w)
{
    int r = 0;

    json_write_key(w, STR("result"));
    json_write_array(w);
    for (size_t i = 0; i < osb_execution_result_count(x) && r == 0; i++)
        r = write_result(c, osb_execution_result_json(x, i), w);
    json_write_array_end(w);
    return r;
}

static void write_error(const struct osb_execution *x, struct json_writer *w)
{
    struct str rest = str_of(osb_execution_traceback(x)), line;

    json_write_key(w, STR("error"));
    if (!osb_execution_failed(x)) {
        json_write_null(w);
        return;
    }
    json_write_object(w);
    json_member_string(w, STR("name"), str_of(osb_execution_error_name(x)));
    json_member_string(w, STR("value"), str_of(osb_execution_error_value(x)));
    json_member_i64(w, STR("timestamp"), time_wall_us() / TIME_US_PER_MS);
    json_write_key(w, STR("traceback"));
    json_write_array(w);
    while (rest.n && str_cut(&rest, '\n', &line))
        json_write_string(w, line);
    json_write_array_end(w);
    json_write_object_end(w);
}

static int write_link(struct run *r, struct run_output *o, const char *stream,
                      struct json_writer *w)
{
    char name[TITLE_MAX];
    const char *uri;
    int e;

    (void)snprintf(name, sizeof(name), "%s of %.64s", stream, r->id ? r->id : "a run");
    e = call_link(r->call, name, buf_str(&o->text), &uri);
    if (e < 0)
        return e;
    json_write_object(w);
    json_member_string(w, STR("stream"), str_of(stream));
    json_member_string(w, STR("uri"), str_of(uri));
    json_member_u64(w, STR("bytes"), o->text.n);
    json_write_object_end(w);
    return 0;
}

static int write_logs(struct run *r, struct json_writer *w)
{
    size_t room = r->call->mcp->options->output_bytes;
    size_t err_room = min_size(room / 2, r->err.text.n + line_count(&r->err) * LINE_COST);
    bool out_cut, err_cut;
    int e = 0;

    json_write_key(w, STR("logs"));
    json_write_object(w);
    json_write_key(w, STR("stdout"));
    json_write_array(w);
    out_cut = write_lines(w, &r->out, false, room - err_room);
    json_write_array_end(w);
    json_write_key(w, STR("stderr"));
    json_write_array(w);
    err_cut = write_lines(w, &r->err, true, err_room);
    json_write_array_end(w);
    json_write_object_end(w);
    if (!out_cut && !err_cut)
        return 0;
    json_member_bool(w, STR("truncated"), true);
    json_write_key(w, STR("whole_output"));
    json_write_array(w);
    if (out_cut)
        e = write_link(r, &r->out, "stdout", w);
    if (err_cut && e == 0)
        e = write_link(r, &r->err, "stderr", w);
    json_write_array_end(w);
    return e;
}

int run_write(struct run *r, const struct osb_execution *x, struct json_writer *w)
{
    int e;

    json_write_object(w);
    json_member_string(w, STR("id"), str_of(osb_execution_id(x)));
    json_write_key(w, STR("execution_count"));
    if (osb_execution_count(x))
        json_write_i64(w, osb_execution_count(x));
    else
        json_write_null(w);
    e = write_results(r->call, x, w);
    write_error(x, w);
    json_write_key(w, STR("complete"));
    json_write_object(w);
    json_member_i64(w, STR("timestamp"), time_wall_us() / TIME_US_PER_MS);
    json_member_i64(w, STR("execution_time_in_millis"), osb_execution_time_ms(x));
    json_write_object_end(w);
    json_write_key(w, STR("exit_code"));
    if (osb_execution_exit_code(x) >= 0)
        json_write_i64(w, osb_execution_exit_code(x));
    else
        json_write_null(w);
    if (e == 0)
        e = write_logs(r, w);
    json_write_object_end(w);
    return e;
}
