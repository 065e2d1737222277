#include "execd/code/jupyter/zmtp.h"

#include <errno.h>

enum {
    SIGNATURE_BYTES = 10,
    VERSION_AT = 10,
    MECHANISM_AT = 12,
    MECHANISM_BYTES = 20,
    SHORT_BYTES_MAX = 255,
    PING_TTL_BYTES = 2,
    PING_CONTEXT_BYTES_MAX = 16,
};

static const char null_mechanism[MECHANISM_BYTES] = "NULL";

/* --- reading --- */

void zmtp_reader_init(struct zmtp_reader *r, size_t message_bytes_max)
{
    *r = (struct zmtp_reader){0};
    r->message_bytes_max = message_bytes_max ? message_bytes_max : ZMTP_MESSAGE_BYTES_MAX;
    buf_init(&r->message, r->message_bytes_max);
    buf_init(&r->command, ZMTP_COMMAND_BYTES_MAX);
}

void zmtp_reader_done(struct zmtp_reader *r)
{
    buf_done(&r->message);
    buf_done(&r->command);
}

void zmtp_reader_release(struct zmtp_reader *r)
{
    bool command = r->flags & ZMTP_COMMAND;

    if (!r->told)
        return;
    r->told = false;
    buf_clear(&r->command);
    if (command)
        return; /* a command may come between the frames of a message */
    if (r->message.cap > ZMTP_KEPT_BYTES_MAX)
        buf_done(&r->message);
    buf_clear(&r->message);
    r->frame_count = 0;
    r->message_bytes = 0;
    r->cut = false;
}

/* Copies bytes into the head until it contains `want`. */
static bool fill_head(struct zmtp_reader *r, struct str *in, size_t want)
{
    size_t n = r->head_n < want ? min_size(want - r->head_n, in->n) : 0;

    if (n > 0)
        memcpy(r->head + r->head_n, in->p, n);
    r->head_n += n;
    *in = str_skip(*in, n);
    return r->head_n >= want;
}

/* Checks what has arrived so far, so that another protocol is rejected by its first bytes. */
static int check_greeting(const struct zmtp_reader *r, struct err *e)
{
    if (r->head_n > 0 && r->head[0] != 0xff)
        return err_set(e, EPROTO, "the peer does not speak ZMTP");
    if (r->head_n >= SIGNATURE_BYTES && r->head[SIGNATURE_BYTES - 1] != 0x7f)
        return err_set(e, EPROTO, "the peer does not speak ZMTP 3");
    if (r->head_n > VERSION_AT && r->head[VERSION_AT] < 3)
        return err_set(e, EPROTO, "the peer speaks ZMTP %d, not 3", r->head[VERSION_AT]);
    if (r->head_n == ZMTP_GREETING_BYTES &&
        memcmp(r->head + MECHANISM_AT, null_mechanism, MECHANISM_BYTES) != 0)
        return err_set(e, EPROTO, "the peer wants a security mechanism, not NULL");
    return 0;
}

static int read_greeting(struct zmtp_reader *r, struct str *in, enum zmtp_event *ret, struct err *e)
{
    bool whole = fill_head(r, in, ZMTP_GREETING_BYTES);
    int result = check_greeting(r, e);

    if (result < 0)
        return result;
    *ret = whole ? ZMTP_EVENT_GREETING : ZMTP_EVENT_NONE;
    if (whole) {
        r->greeted = true;
        r->head_n = 0;
    }
    return 0;
}

static uint64_t read_u64(const uint8_t *p)
{
    uint64_t v = 0;

    for (size_t i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return v;
}

static int check_flags(uint8_t flags, struct err *e)
{
    if (flags & ~(ZMTP_MORE | ZMTP_LONG | ZMTP_COMMAND))
        return err_set(e, EPROTO, "a ZMTP frame has the flags %02x", flags);
    if ((flags & ZMTP_COMMAND) && (flags & ZMTP_MORE))
        return err_set(e, EPROTO, "a ZMTP command has more than one frame");
    return 0;
}

/* Decides whether to keep the frame whose header is complete. */
static int begin_body(struct zmtp_reader *r, struct err *e)
{
    uint64_t n = r->flags & ZMTP_LONG ? read_u64(r->head + 1) : r->head[1];

    if (n > INT64_MAX)
        return err_set(e, EPROTO, "a ZMTP frame of more than 2^63 bytes");
    if ((r->flags & ZMTP_COMMAND) && n > ZMTP_COMMAND_BYTES_MAX)
        return err_set(e, EPROTO, "a ZMTP command of %llu bytes", (unsigned long long)n);
    r->left = n;
    r->in_body = true;
    r->skip = false;
    if (r->flags & ZMTP_COMMAND)
        return buf_reserve(&r->command, n);
    /* Once a frame is missing, later ones would be mistaken for it. */
    r->skip =
        r->cut || r->frame_count == ZMTP_FRAMES_MAX || n > r->message_bytes_max - r->message.n;
    r->cut = r->skip;
    r->message_bytes += min_size(n, UINT64_MAX - r->message_bytes);
    return 0;
}

/* Returns 1 when the header is complete. */
static int read_head(struct zmtp_reader *r, struct str *in, struct err *e)
{
    int result;

    if (!fill_head(r, in, 1))
        return 0;
    r->flags = r->head[0];
    result = check_flags(r->flags, e);
    if (result < 0)
        return result;
    if (!fill_head(r, in, r->flags & ZMTP_LONG ? ZMTP_HEADER_BYTES_MAX : 2))
        return 0;
    result = begin_body(r, e);
    return result < 0 ? result : 1;
}

static void read_body(struct zmtp_reader *r, struct str *in)
{
    size_t n = min_size(in->n, r->left);
    struct buf *to = r->flags & ZMTP_COMMAND ? &r->command : &r->message;

    if (!r->skip && buf_add(to, str_make(in->p, n)) < 0) {
        buf_cut(to, r->frame_count ? r->frame_ends[r->frame_count - 1] : 0);
        r->skip = r->cut = true;
    }
    r->left -= n;
    *in = str_skip(*in, n);
}

static int end_command(struct zmtp_reader *r, enum zmtp_event *ret, struct err *e)
{
    struct str body = buf_str(&r->command);
    size_t n = body.n ? (uint8_t)body.p[0] : 0;

    if (body.n < 1 + n || n == 0)
        return err_set(e, EPROTO, "a ZMTP command without a name");
    r->name = str_make(body.p + 1, n);
    r->data = str_skip(body, 1 + n);
    r->told = true;
    *ret = ZMTP_EVENT_COMMAND;
    return 0;
}

static void end_frame(struct zmtp_reader *r, enum zmtp_event *ret)
{
    size_t begin = 0;

    if (!r->skip)
        r->frame_ends[r->frame_count++] = r->message.n;
    if (r->flags & ZMTP_MORE)
        return;
    for (size_t i = 0; i < r->frame_count; i++) {
        r->frames[i] = str_make(r->message.p + begin, r->frame_ends[i] - begin);
        begin = r->frame_ends[i];
    }
    r->told = true;
    *ret = ZMTP_EVENT_MESSAGE;
}

/* Reads one frame, or as much of it as there is. */
static int read_frame(struct zmtp_reader *r, struct str *in, enum zmtp_event *ret, struct err *e)
{
    if (!r->in_body) {
        int result = read_head(r, in, e);

        if (result <= 0)
            return result;
    }
    read_body(r, in);
    if (r->left > 0)
        return 0;
    r->in_body = false;
    r->head_n = 0;
    if (r->flags & ZMTP_COMMAND)
        return end_command(r, ret, e);
    end_frame(r, ret);
    return 0;
}

int zmtp_read(struct zmtp_reader *r, struct str *in, enum zmtp_event *ret, struct err *e)
{
    int result = 0;

    *ret = ZMTP_EVENT_NONE;
    zmtp_reader_release(r);
    if (!r->greeted)
        return read_greeting(r, in, ret, e);
    while (in->n > 0 && *ret == ZMTP_EVENT_NONE && result >= 0)
        result = read_frame(r, in, ret, e);
    return result;
}

static uint32_t read_u32(const char *p)
{
    const uint8_t *b = (const uint8_t *)p;

    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Removes a name and its value from the front. */
static bool cut_property(struct str *data, struct str *ret_name, struct str *ret_value)
{
    size_t name_n = (uint8_t)data->p[0], value_n;

    if (data->n < 1 + name_n + 4)
        return false;
    *ret_name = str_make(data->p + 1, name_n);
    value_n = read_u32(data->p + 1 + name_n);
    *data = str_skip(*data, 1 + name_n + 4);
    if (data->n < value_n)
        return false;
    *ret_value = str_make(data->p, value_n);
    *data = str_skip(*data, value_n);
    return true;
}

int zmtp_property(struct str data, struct str name, struct str *ret)
{
    struct str found, value;

    while (data.n > 0) {
        if (!cut_property(&data, &found, &value))
            return -EPROTO;
        if (!str_eq_nocase(found, name))
            continue;
        *ret = value;
        return 0;
    }
    return -ENOENT;
}

/* --- writing --- */

int zmtp_write_greeting(struct buf *out)
{
    uint8_t greeting[ZMTP_GREETING_BYTES] = {[0] = 0xff, [9] = 0x7f, [VERSION_AT] = 3};

    memcpy(greeting + MECHANISM_AT, null_mechanism, MECHANISM_BYTES);
    return buf_add(out, str_make((const char *)greeting, sizeof(greeting)));
}

static size_t make_header(uint8_t out[ZMTP_HEADER_BYTES_MAX], uint8_t flags, uint64_t n)
{
    if (n <= SHORT_BYTES_MAX) {
        out[0] = flags;
        out[1] = (uint8_t)n;
        return 2;
    }
    out[0] = flags | ZMTP_LONG;
    for (size_t i = 0; i < 8; i++)
        out[1 + i] = (uint8_t)(n >> (56 - 8 * i));
    return ZMTP_HEADER_BYTES_MAX;
}

static int write_frame(struct buf *out, uint8_t flags, struct str body)
{
    uint8_t head[ZMTP_HEADER_BYTES_MAX];
    size_t n = make_header(head, flags, body.n), start = out->n;
    int r = buf_add(out, str_make((const char *)head, n));

    if (r >= 0)
        r = buf_add(out, body);
    if (r < 0)
        buf_cut(out, start);
    return r;
}

int zmtp_write_frame(struct buf *out, struct str body, bool more)
{
    return write_frame(out, more ? ZMTP_MORE : 0, body);
}

static int add_property(struct buf *out, struct str name, struct str value)
{
    uint8_t n[4] = {(uint8_t)(value.n >> 24), (uint8_t)(value.n >> 16), (uint8_t)(value.n >> 8),
                    (uint8_t)value.n};
    int r = buf_add_char(out, (char)name.n);

    if (r >= 0)
        r = buf_add(out, name);
    if (r >= 0)
        r = buf_add(out, str_make((const char *)n, sizeof(n)));
    return r < 0 ? r : buf_add(out, value);
}

int zmtp_write_ready(struct buf *out, struct str socket_type, struct str identity)
{
    AUTO_BUF(body, ZMTP_COMMAND_BYTES_MAX);
    int r = buf_add(&body, STR("\5READY"));

    if (r >= 0)
        r = add_property(&body, STR("Socket-Type"), socket_type);
    if (r >= 0 && identity.n > 0)
        r = add_property(&body, STR("Identity"), identity);
    return r < 0 ? r : write_frame(out, ZMTP_COMMAND, buf_str(&body));
}

int zmtp_write_pong(struct buf *out, struct str ping)
{
    AUTO_BUF(body, ZMTP_COMMAND_BYTES_MAX);
    struct str context = str_skip(ping, min_size(ping.n, PING_TTL_BYTES));
    int r = buf_add(&body, STR("\4PONG"));

    context.n = min_size(context.n, PING_CONTEXT_BYTES_MAX);
    if (r >= 0)
        r = buf_add(&body, context);
    return r < 0 ? r : write_frame(out, ZMTP_COMMAND, buf_str(&body));
}
