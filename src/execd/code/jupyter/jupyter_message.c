#include "execd/code/jupyter/jupyter_message.h"

#include <errno.h>

#include "base/codec.h"
#include "base/json_write.h"
#include "base/sha.h"
#include "base/time.h"

/* Frames, counted from the delimiter. */
enum {
    FRAME_DELIMITER,
    FRAME_SIGNATURE,
    FRAME_HEADER,
    FRAME_PARENT,
    FRAME_METADATA,
    FRAME_CONTENT,
    FRAMES,
    FRAMES_SIGNED = FRAMES - FRAME_HEADER,
};

enum { SIGNATURE_MAX = HEX_TEXT_MAX(SHA256_BYTES), HEADER_BYTES_MAX = 1024 };

static const struct str delimiter = STR_INIT("<IDS|MSG>");

void jupyter_session_init(struct jupyter_session *s)
{
    id_uuid(s->key);
    id_uuid(s->id);
}

static void sign(const struct jupyter_session *s, const struct str texts[FRAMES_SIGNED],
                 char ret[SIGNATURE_MAX])
{
    struct hmac_sha256 h;
    uint8_t mac[SHA256_BYTES];

    hmac_sha256_init(&h, str_of(s->key));
    for (size_t i = 0; i < FRAMES_SIGNED; i++)
        hmac_sha256_add(&h, texts[i]);
    hmac_sha256_end(&h, mac);
    hex_encode(str_make((const char *)mac, sizeof(mac)), ret);
}

/* --- writing --- */

static int write_header(const struct jupyter_session *s, const char *type, const char *id,
                        struct buf *out)
{
    struct json_writer w;
    char date[TIME_TEXT_MAX];

    time_format(time_wall_us(), date);
    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("msg_id"), str_of(id));
    json_member_string(&w, STR("session"), str_of(s->id));
    json_member_string(&w, STR("username"), STR("execd"));
    json_member_string(&w, STR("date"), str_of(date));
    json_member_string(&w, STR("msg_type"), str_of(type));
    json_member_string(&w, STR("version"), STR("5.3"));
    json_write_object_end(&w);
    return json_write_end(&w);
}

int jupyter_message_write(const struct jupyter_session *s, const char *type, struct str content,
                          char ret_id[JUPYTER_ID_MAX], struct buf *out)
{
    AUTO_BUF(header, HEADER_BYTES_MAX);
    char id[JUPYTER_ID_MAX], signature[SIGNATURE_MAX];
    struct str frames[FRAMES] = {delimiter};
    size_t start = out->n;
    int r;

    id_uuid(id);
    r = write_header(s, type, id, &header);
    if (r < 0)
        return r;
    frames[FRAME_HEADER] = buf_str(&header);
    frames[FRAME_PARENT] = frames[FRAME_METADATA] = STR("{}");
    frames[FRAME_CONTENT] = content;
    sign(s, frames + FRAME_HEADER, signature);
    frames[FRAME_SIGNATURE] = str_of(signature);
    for (size_t i = 0; i < FRAMES && r >= 0; i++)
        r = zmtp_write_frame(out, frames[i], i + 1 < FRAMES);
    if (r < 0) {
        buf_cut(out, start);
        return r;
    }
    memcpy(ret_id, id, sizeof(id));
    return 0;
}

/* --- reading --- */

static const struct json_limits small_limits = {
    .text_bytes_max = 64 << 10,
    .nodes_max = 1024,
    .duplicates = JSON_DUPLICATES_LAST,
    .replace_invalid = true,
};

static const struct json_limits content_limits = {
    .text_bytes_max = ZMTP_MESSAGE_BYTES_MAX,
    .nodes_max = JUPYTER_NODES_MAX,
    .duplicates = JSON_DUPLICATES_LAST,
    .replace_invalid = true,
};

/* The string value of a member; empty if absent or of another type. */
static struct str member(const struct json *v, const char *key)
{
    struct str s = STR_NONE;

    (void)json_to_str(json_get(v, str_of(key)), &s);
    return s;
}

static int read_heads(struct arena *a, const struct str *frames, struct jupyter_message *m,
                      struct err *e)
{
    struct json *header, *parent;
    int r = json_parse(a, frames[FRAME_HEADER], &small_limits, &header, e);

    if (r >= 0)
        r = json_parse(a, frames[FRAME_PARENT], &small_limits, &parent, e);
    if (r < 0)
        return err_set(e, EBADMSG, "the header of a message is not usable");
    m->type = member(header, "msg_type");
    m->parent = member(parent, "msg_id");
    return m->type.n > 0 ? 0 : err_set(e, EBADMSG, "a message has no type");
}

static void read_content(struct arena *a, struct str text, struct jupyter_message *m)
{
    struct json *content;
    struct err e = {0};
    int r = json_parse(a, text, &content_limits, &content, &e);

    if (r < 0)
        m->lost = r == -EBADMSG ? "it is not JSON" : "it is too large";
    else
        m->content = content;
}

int jupyter_message_read(const struct jupyter_session *s, const struct zmtp_reader *frames,
                         struct arena *a, struct jupyter_message *ret, struct err *e)
{
    struct jupyter_message m = {0};
    char signature[SIGNATURE_MAX];
    const struct str *from;
    size_t at = 0, n;
    int r;

    while (at < frames->frame_count && !str_eq(frames->frames[at], delimiter))
        at++;
    from = frames->frames + at;
    n = frames->frame_count - at;
    if (n < FRAMES && !(frames->cut && n > FRAME_PARENT))
        return err_set(e, EBADMSG, "a message has too few frames");
    if (n >= FRAMES) {
        sign(s, from + FRAME_HEADER, signature);
        if (!str_eq_secret(from[FRAME_SIGNATURE], str_of(signature)))
            return err_set(e, EACCES, "a message has a wrong signature");
    }
    r = read_heads(a, from, &m, e);
    if (r < 0)
        return r;
    if (n >= FRAMES)
        read_content(a, from[FRAME_CONTENT], &m);
    else
        m.lost = "it is too large";
    *ret = m;
    return 0;
}
