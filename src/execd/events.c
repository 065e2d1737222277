#include "execd/events.h"

#include "base/json_write.h"
#include "base/time.h"

static void event_begin(struct json_writer *w, struct buf *out, const char *type)
{
    json_write_begin(w, out);
    json_write_object(w);
    json_write_key(w, STR("type"));
    json_write_string(w, str_of(type));
}

static void write_text(struct json_writer *w, struct str text)
{
    json_write_key(w, STR("text"));
    json_write_string(w, text);
}

static void write_timestamp(struct json_writer *w)
{
    json_write_key(w, STR("timestamp"));
    json_write_i64(w, time_wall_us() / TIME_US_PER_MS);
}

/* The end of the object and its two line feeds, or the buffer as it was. */
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
    write_text(&w, text);
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

int event_output(struct buf *out, const char *type, struct str text, bool continues)
{
    struct json_writer w;

    if (!continues)
        return event_of_text(out, type, text);
    event_begin(&w, out, type);
    write_text(&w, text);
    write_timestamp(&w);
    json_write_key(&w, STR("continues"));
    json_write_bool(&w, true);
    return event_end(&w);
}

int event_complete(struct buf *out, uint64_t execution_time_ms)
{
    struct json_writer w;

    event_begin(&w, out, "execution_complete");
    if (execution_time_ms > 0) {
        json_write_key(&w, STR("execution_time"));
        json_write_u64(&w, execution_time_ms);
    }
    write_timestamp(&w);
    return event_end(&w);
}

int event_error(struct buf *out, const char *name, const char *value, const char *traceback)
{
    struct json_writer w;

    event_begin(&w, out, "error");
    write_timestamp(&w);
    json_write_key(&w, STR("error"));
    json_write_object(&w);
    json_write_key(&w, STR("ename"));
    json_write_string(&w, str_of(name));
    json_write_key(&w, STR("evalue"));
    json_write_string(&w, str_of(value));
    json_write_key(&w, STR("traceback"));
    json_write_array(&w);
    json_write_string(&w, str_of(traceback));
    json_write_array_end(&w);
    json_write_object_end(&w);
    return event_end(&w);
}
