#include "execd/pty/pty_frames.h"

#include <signal.h>

#include "base/json_write.h"
#include "execd/core/answer.h"

/* --- frames to execd --- */

struct text_frame {
    struct str type, data, signal;
    int64_t cols, rows;
};

static const struct json_field text_frame_fields[] = {
    JSON_FIELD("type", JSON_AS_STR, JSON_NULLABLE, struct text_frame, type, .min = 0),
    JSON_FIELD("data", JSON_AS_STR, JSON_NULLABLE, struct text_frame, data, .min = 0),
    JSON_FIELD("signal", JSON_AS_STR, JSON_NULLABLE, struct text_frame, signal, .min = 0),
    JSON_FIELD("cols", JSON_AS_I64, JSON_NULLABLE, struct text_frame, cols, .min = 0),
    JSON_FIELD("rows", JSON_AS_I64, JSON_NULLABLE, struct text_frame, rows, .min = 0),
};
static const struct json_table text_frame_table =
    JSON_TABLE(struct text_frame, text_frame_fields, 0);

static bool read_stdin(const struct text_frame *f, struct pty_frame *ret)
{
    ret->text = f->data;
    return f->data.n > 0;
}

static bool read_resize(const struct text_frame *f, struct pty_frame *ret)
{
    ret->cols = (uint16_t)f->cols;
    ret->rows = (uint16_t)f->rows;
    return f->cols > 0 && f->cols <= UINT16_MAX && f->rows > 0 && f->rows <= UINT16_MAX;
}

static bool read_signal(const struct text_frame *f, struct pty_frame *ret)
{
    static const struct {
        struct str name;
        int signo;
    } rows[] = {
        {STR_INIT("SIGINT"),  SIGINT },
        {STR_INIT("SIGTERM"), SIGTERM},
        {STR_INIT("SIGKILL"), SIGKILL},
        {STR_INIT("SIGQUIT"), SIGQUIT},
        {STR_INIT("SIGHUP"),  SIGHUP },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq(f->signal, rows[i].name))
            ret->signo = rows[i].signo;
    return ret->signo != 0;
}

static bool read_ping(const struct text_frame *f UNUSED, struct pty_frame *ret UNUSED)
{
    return true;
}

static const struct {
    struct str name;
    enum pty_frame_type type;
    bool (*read)(const struct text_frame *f, struct pty_frame *ret); /* false: ignore the frame */
} frame_types[] = {
    {STR_INIT("stdin"),  PTY_FRAME_STDIN,  read_stdin },
    {STR_INIT("resize"), PTY_FRAME_RESIZE, read_resize},
    {STR_INIT("signal"), PTY_FRAME_SIGNAL, read_signal},
    {STR_INIT("ping"),   PTY_FRAME_PING,   read_ping  },
};

void pty_frame_read(struct str text, struct arena *a, struct pty_frame *ret)
{
    struct text_frame f = {.type = STR("")};

    *ret = (struct pty_frame){.type = PTY_FRAME_IGNORE};
    if (answer_read_json(text, a, &text_frame_table, &f, NULL) < 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(frame_types); i++) {
        if (!str_eq(f.type, frame_types[i].name))
            continue;
        if (frame_types[i].read(&f, ret))
            ret->type = frame_types[i].type;
        return;
    }
    ret->type = PTY_FRAME_UNKNOWN;
    ret->text = f.type;
}

/* --- frames from execd --- */

void pty_print_replay_head(char out[PTY_REPLAY_HEAD_BYTES], uint64_t offset)
{
    out[0] = PTY_CHANNEL_REPLAY;
    for (size_t i = 1; i < PTY_REPLAY_HEAD_BYTES; i++)
        out[i] = (char)(offset >> 8 * (PTY_REPLAY_HEAD_BYTES - 1 - i));
}

static void print_begin(struct json_writer *w, struct buf *out, struct str type)
{
    json_write_begin(w, out);
    json_write_object(w);
    json_member_string(w, STR("type"), type);
}

static int print_end(struct json_writer *w)
{
    struct buf *out = w->out;
    int r;

    json_write_object_end(w);
    r = json_write_end(w);
    return r < 0 ? r : buf_add_char(out, '\n');
}

int pty_print_connected(struct buf *out, const char *id, bool is_pty)
{
    struct json_writer w;

    print_begin(&w, out, STR("connected"));
    json_member_string(&w, STR("session_id"), str_of(id));
    json_member_string(&w, STR("mode"), is_pty ? STR("pty") : STR("pipe"));
    return print_end(&w);
}

int pty_print_exit(struct buf *out, int exit_code)
{
    struct json_writer w;

    print_begin(&w, out, STR("exit"));
    json_member_i64(&w, STR("exit_code"), exit_code);
    return print_end(&w);
}

int pty_print_error(struct buf *out, const char *code, struct str message)
{
    struct json_writer w;

    print_begin(&w, out, STR("error"));
    json_member_string(&w, STR("error"), message);
    json_member_string(&w, STR("code"), str_of(code));
    return print_end(&w);
}

int pty_print_pong(struct buf *out)
{
    struct json_writer w;

    print_begin(&w, out, STR("pong"));
    return print_end(&w);
}
