#include "execd/code/jupyter/jupyter_message.h"

#include "test.h"

/* Made by Python's hmac: hmac.new(key, header + parent + metadata + content, "sha256"). */
static const struct jupyter_session session = {.key = "secret", .id = "s"};
#define HEADER    "{\"msg_id\":\"m\",\"msg_type\":\"stream\"}"
#define PARENT    "{\"msg_id\":\"p\"}"
#define CONTENT   "{\"name\":\"stdout\",\"text\":\"hi\"}"
#define SIGNATURE "14f98a9e055f1c7e9f72332ff863d3602051023895a55b799ee0d2d64747efe4"

static int read_message(const struct str *frames, size_t n, bool cut, struct arena *a,
                        struct jupyter_message *m, struct err *e)
{
    struct zmtp_reader r = {.frame_count = n, .cut = cut};

    CHECK(n <= ZMTP_FRAMES_MAX);
    for (size_t i = 0; i < n; i++)
        r.frames[i] = frames[i];
    return jupyter_message_read(&session, &r, a, m, e);
}

TEST(jupyter_message, reads_what_was_signed_elsewhere)
{
    const struct str frames[] = {STR("kernel.stream"), STR("<IDS|MSG>"), STR(SIGNATURE),
                                 STR(HEADER),          STR(PARENT),      STR("{}"),
                                 STR(CONTENT),         STR("a buffer")};
    AUTO_ARENA(a, 1 << 20);
    struct jupyter_message m;
    struct str text;

    CHECK_EQ(read_message(frames, ARRAY_LEN(frames), false, &a, &m, NULL), 0);
    CHECK_SPAN(m.type, "stream");
    CHECK_SPAN(m.parent, "p");
    CHECK(!m.lost);
    CHECK_EQ(json_to_str(json_get(m.content, STR("text")), &text), 0);
    CHECK_SPAN(text, "hi");
}

TEST(jupyter_message, refuses_a_wrong_signature)
{
    struct str frames[] = {STR("<IDS|MSG>"), STR(SIGNATURE), STR(HEADER),
                           STR(PARENT),      STR("{}"),      STR(CONTENT)};
    AUTO_ARENA(a, 1 << 20);
    struct jupyter_message m;
    struct err e = {0};

    frames[5] = STR("{\"name\":\"stdout\",\"text\":\"ho\"}");
    CHECK_EQ(read_message(frames, ARRAY_LEN(frames), false, &a, &m, &e), -EACCES);
    frames[1] = STR("");
    CHECK_EQ(read_message(frames, ARRAY_LEN(frames), false, &a, &m, &e), -EACCES);
}

TEST(jupyter_message, refuses_what_is_no_message)
{
    const struct str frames[] = {STR("<IDS|MSG>"), STR(SIGNATURE), STR(HEADER), STR(PARENT),
                                 STR("{}")};
    AUTO_ARENA(a, 1 << 20);
    struct jupyter_message m;

    CHECK_EQ(read_message(frames, ARRAY_LEN(frames), false, &a, &m, NULL), -EBADMSG);
    CHECK_EQ(read_message(frames + 1, ARRAY_LEN(frames) - 1, false, &a, &m, NULL), -EBADMSG);
    CHECK_EQ(read_message(frames, 0, true, &a, &m, NULL), -EBADMSG);
}

TEST(jupyter_message, tells_what_a_cut_message_was)
{
    const struct str frames[] = {STR("topic"), STR("<IDS|MSG>"), STR(SIGNATURE),
                                 STR(HEADER),  STR(PARENT),      STR("{}")};
    AUTO_ARENA(a, 1 << 20);
    struct jupyter_message m;

    CHECK_EQ(read_message(frames, ARRAY_LEN(frames), true, &a, &m, NULL), 0);
    CHECK_SPAN(m.type, "stream");
    CHECK_SPAN(m.parent, "p");
    CHECK(m.lost && !m.content);
}

static void check_read_back(struct str wire, const char *id)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(greeting, 64);
    struct zmtp_reader r;
    struct jupyter_message m;
    struct str in;
    enum zmtp_event event;

    zmtp_reader_init(&r, 0);
    CHECK_EQ(zmtp_write_greeting(&greeting), 0);
    in = buf_str(&greeting);
    CHECK_EQ(zmtp_read(&r, &in, &event, NULL), 0);
    CHECK_EQ(zmtp_read(&r, &wire, &event, NULL), 0);
    CHECK_EQ(event, ZMTP_EVENT_MESSAGE);
    CHECK_EQ(r.frame_count, 6);
    CHECK(str_find_str(r.frames[2], str_of(id)) < r.frames[2].n);
    CHECK_EQ(jupyter_message_read(&session, &r, &a, &m, NULL), 0);
    CHECK_SPAN(m.type, "execute_request");
    CHECK_SPAN(m.parent, "");
    zmtp_reader_done(&r);
}

TEST(jupyter_message, writes_what_it_reads)
{
    AUTO_BUF(out, 4096);
    char id[JUPYTER_ID_MAX];

    CHECK_EQ(jupyter_message_write(&session, "execute_request", STR("{\"code\":\"1\"}"), id, &out),
             0);
    check_read_back(buf_str(&out), id);
}

TEST(jupyter_message, writes_all_or_nothing)
{
    AUTO_BUF(out, 200);
    char id[JUPYTER_ID_MAX];

    CHECK_EQ(jupyter_message_write(&session, "x", STR("{}"), id, &out), -EMSGSIZE);
    CHECK_EQ(out.n, 0);
}
