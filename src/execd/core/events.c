#include "execd/core/events.h"

#include <errno.h>

#include "base/json_write.h"
#include "base/time.h"
#include "base/utf8.h"

enum { EVENT_REST_BYTES = 128 }; /* more than an event needs besides its text and type */

static void event_begin(struct json_writer *w, struct buf *out, const char *type)
{
    json_write_begin(w, out);
    json_write_object(w);
    json_member_string(w, STR("type"), str_of(type));
}

static void write_timestamp(struct json_writer *w)
{
    json_member_i64(w, STR("timestamp"), time_wall_us() / TIME_US_PER_MS);
}

/* Ends the object and adds two line feeds; on failure restores the buffer. */
static int event_end(struct json_writer *w)
{
    struct buf *out = w->out;
    size_t start = w->start;
    int r;

    json_write_object_end(w);
    r = json_write_end(w);
    if (r == 0)
        r = buf_add(out, STR("\n\n"));
    if (r < 0)
        buf_cut(out, start);
    return r;
}

static int event_of_text(struct buf *out, const char *type, struct str text)
{
    struct json_writer w;

    event_begin(&w, out, type);
    json_member_string(&w, STR("text"), text);
    write_timestamp(&w);
    return event_end(&w);
}

int event_init(struct buf *out, const char *id)
{
    return event_of_text(out, "init", str_of(id));
}

int event_ping(struct buf *out)
{
    return event_of_text(out, "ping", STR("pong"));
}

/* Appends; the caller has made sure that it fits. */
static char *put(char *at, struct str s)
{
    memcpy(at, s.p, s.n);
    return at + s.n;
}

static char *put_digits(char *at, uint64_t v)
{
    char text[20];
    size_t n = sizeof(text);

    do {
        text[--n] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    return put(at, str_make(text + n, sizeof(text) - n));
}

/* Writes the same bytes as event_of_text, but faster: most events are plain lines. */
static int event_of_plain(struct buf *out, struct str type, struct str text, bool continues,
                          bool unfinished)
{
    int r = buf_reserve(out, type.n + text.n + EVENT_REST_BYTES);
    char *at = out->p + out->n;

    if (r < 0)
        return r;
    at = put(put(at, STR("{\"type\":\"")), type);
    at = put(put(at, STR("\",\"text\":\"")), text);
    at = put(at, STR("\",\"timestamp\":"));
    at = put_digits(at, (uint64_t)(time_wall_us() / TIME_US_PER_MS));
    if (continues)
        at = put(at, STR(",\"continues\":true"));
    if (unfinished)
        at = put(at, STR(",\"unfinished\":true"));
    at = put(at, STR("}\n\n"));
    buf_claim(out, (size_t)(at - (out->p + out->n)));
    return 0;
}

int event_output(struct buf *out, const char *type, struct str text, bool continues,
                 bool unfinished)
{
    struct json_writer w;

    if (json_plain_bytes(text) == text.n)
        return event_of_plain(out, str_of(type), text, continues, unfinished);
    event_begin(&w, out, type);
    json_member_string(&w, STR("text"), text);
    write_timestamp(&w);
    if (continues)
        json_member_bool(&w, STR("continues"), true);
    if (unfinished)
        json_member_bool(&w, STR("unfinished"), true);
    return event_end(&w);
}

static void write_run(struct json_writer *w, const struct event_run *run)
{
    if (!run)
        return;
    json_member_string(w, STR("run_id"), str_of(run->id));
    json_member_i64(w, STR("exit_code"), run->exit_code);
    json_member_time(w, STR("started_at"), run->started_us);
    json_member_time(w, STR("finished_at"), run->finished_us);
}

int event_complete(struct buf *out, uint64_t execution_time_ms, const struct event_run *run)
{
    struct json_writer w;

    event_begin(&w, out, "execution_complete");
    if (execution_time_ms > 0)
        json_member_u64(&w, STR("execution_time"), execution_time_ms);
    write_timestamp(&w);
    write_run(&w, run);
    return event_end(&w);
}

int event_error(struct buf *out, const char *name, const char *value, const char *traceback,
                const struct event_run *run)
{
    struct json_writer w;

    event_begin(&w, out, "error");
    write_timestamp(&w);
    json_write_key(&w, STR("error"));
    json_write_object(&w);
    json_member_string(&w, STR("ename"), str_of(name));
    json_member_string(&w, STR("evalue"), str_of(value));
    json_write_key(&w, STR("traceback"));
    json_write_array(&w);
    json_write_string(&w, str_of(traceback));
    json_write_array_end(&w);
    json_write_object_end(&w);
    write_run(&w, run);
    return event_end(&w);
}

/* --- code execution --- */

enum { SHORT_BYTES = 64 << 10 }; /* a value is cut to this when its event is too long */

int event_status(struct buf *out, struct str text)
{
    return event_of_text(out, "status", text);
}

int event_count(struct buf *out, uint64_t execution_count)
{
    struct json_writer w;

    event_begin(&w, out, "execution_count");
    json_member_u64(&w, STR("execution_count"), execution_count);
    write_timestamp(&w);
    return event_end(&w);
}

/* Writes at most `bytes_max` bytes of the text. */
static void write_short(struct json_writer *w, struct str text, size_t bytes_max)
{
    AUTO_BUF(cut, SHORT_BYTES + 64);
    struct str head = str_make(text.p, min_size(text.n, bytes_max));

    if (text.n <= bytes_max) {
        json_write_string(w, text);
        return;
    }
    head.n -= utf8_cut_tail(head);
    if (buf_addf(&cut, "%.*s... (%zu bytes, cut)", STR_ARG(head), text.n) < 0)
        buf_clear(&cut); /* no memory: write an empty text */
    json_write_string(w, buf_str(&cut));
}

/* Writes the value as a string; other JSON types as their JSON text. */
static void write_value(struct json_writer *w, const struct json *value, size_t bytes_max)
{
    AUTO_BUF(text, EVENT_LINE_BYTES_MAX);
    struct json_writer inner;
    struct str s;

    if (json_to_str(value, &s) < 0) {
        json_write_begin(&inner, &text);
        json_write_value(&inner, value);
        s = json_write_end(&inner) < 0 ? STR("null") : buf_str(&text);
    }
    write_short(w, s, bytes_max);
}

/* A part of an image is useless: a value that is no text is left out instead of shortened. */
static bool is_left_out(const struct json *value, size_t bytes_max)
{
    struct str s;

    return bytes_max != SIZE_MAX && !str_starts(value->key, STR("text/")) &&
           (json_to_str(value, &s) < 0 || s.n > bytes_max);
}

static void write_bundle(struct json_writer *w, const struct json *bundle, size_t bytes_max)
{
    const struct json *plain = json_get(bundle, STR("text/plain"));

    json_write_key(w, STR("results"));
    json_write_object(w);
    if (plain) {
        json_write_key(w, STR("text"));
        write_value(w, plain, bytes_max);
    }
    json_each(value, bundle)
    {
        if (is_left_out(value, bytes_max))
            continue;
        json_write_key(w, value->key);
        write_value(w, value, bytes_max);
    }
    json_write_object_end(w);
}

static int write_result(struct buf *out, const struct json *bundle,
                        const struct event_display *display, size_t bytes_max)
{
    struct json_writer w;

    event_begin(&w, out, "result");
    write_timestamp(&w);
    write_bundle(&w, bundle, bytes_max);
    if (display) {
        json_write_key(&w, STR("display"));
        json_write_object(&w);
        json_member_string(&w, STR("id"), display->id);
        json_member_bool(&w, STR("update"), display->update);
        json_write_object_end(&w);
    }
    if (bytes_max != SIZE_MAX)
        json_member_bool(&w, STR("shortened"), true);
    return event_end(&w);
}

int event_result(struct buf *out, const struct json *bundle, const struct event_display *display)
{
    int r = write_result(out, bundle, display, SIZE_MAX);

    return r == -EMSGSIZE ? write_result(out, bundle, display, SHORT_BYTES) : r;
}

static int write_failure(struct buf *out, struct str name, struct str value,
                         const struct json *traceback, size_t bytes_max)
{
    struct json_writer w;
    size_t left = bytes_max;

    event_begin(&w, out, "error");
    write_timestamp(&w);
    json_write_key(&w, STR("error"));
    json_write_object(&w);
    json_write_key(&w, STR("ename"));
    write_short(&w, name, bytes_max);
    json_write_key(&w, STR("evalue"));
    write_short(&w, value, bytes_max);
    json_write_key(&w, STR("traceback"));
    json_write_array(&w);
    json_each(line, traceback)
    {
        if (left == 0)
            break;
        write_value(&w, line, left);
        left -= min_size(left, line->type == JSON_STRING ? line->string.n + 1 : 1);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
    return event_end(&w);
}

int event_failure(struct buf *out, struct str name, struct str value, const struct json *traceback)
{
    int r = write_failure(out, name, value, traceback, SIZE_MAX);

    return r == -EMSGSIZE ? write_failure(out, name, value, traceback, SHORT_BYTES) : r;
}
