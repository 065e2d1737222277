#include "egress/dns/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum {
    HEADER_BYTES = 12,
    FLAG_QR = 0x8000,
    FLAG_TC = 0x0200,
    FLAG_RD = 0x0100,
    FLAG_CD = 0x0010,
    FLAG_RA = 0x0080,
    LABEL_MAX = 63,
    NAME_BYTES_MAX = 255, /* on the wire */
    JUMPS_MAX = 64,
    RECORD_HEAD = 10, /* type, class, ttl, length */
};

static uint16_t u16_at(struct str m, size_t at)
{
    const uint8_t *p = (const uint8_t *)m.p + at;

    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t u32_at(struct str m, size_t at)
{
    return (uint32_t)u16_at(m, at) << 16 | u16_at(m, at + 2);
}

static void put_u16(char *at, uint16_t v)
{
    at[0] = (char)(v >> 8);
    at[1] = (char)v;
}

/* A byte as it may stand in a rule; any other can match none. */
static char plain(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c) || c == '-' || c == '_' ? ascii_lower(c) : '?';
}

/* Reads the name at `at`. Returns the offset behind it, or -EBADMSG. text may be NULL. */
static ssize_t name_read(struct str m, size_t at, char *text, size_t *ret_label_max)
{
    size_t end = 0, n = 0, wire = 0, label_max = 0;

    for (unsigned jumps = 0;;) {
        uint8_t length;

        if (at >= m.n)
            return -EBADMSG;
        length = (uint8_t)m.p[at];
        if ((length & 0xc0) == 0xc0) {
            size_t to;

            if (at + 1 >= m.n || ++jumps > JUMPS_MAX)
                return -EBADMSG;
            to = u16_at(m, at) & 0x3fff;
            if (to >= at)
                return -EBADMSG;
            end = end ? end : at + 2;
            at = to;
            continue;
        }
        wire += length + 1U;
        if (length > LABEL_MAX || wire > NAME_BYTES_MAX || at + 1 + length > m.n)
            return -EBADMSG;
        at++;
        if (length == 0)
            break;
        label_max = length > label_max ? length : label_max;
        if (text && n > 0)
            text[n++] = '.';
        for (size_t i = 0; text && i < length; i++)
            text[n++] = plain(m.p[at + i]);
        at += length;
    }
    if (text)
        text[n] = '\0';
    if (ret_label_max)
        *ret_label_max = label_max;
    return (ssize_t)(end ? end : at);
}

/* Reads the question of a message with one. */
static int question_read(struct str m, struct dns_query *ret)
{
    ssize_t at = name_read(m, HEADER_BYTES, ret->name, &ret->label_max);

    if (at < 0 || (size_t)at + 4 > m.n)
        return -EBADMSG;
    ret->type = u16_at(m, (size_t)at);
    ret->class = u16_at(m, (size_t)at + 2);
    ret->question_end = (size_t)at + 4;
    return 0;
}

struct raw_record {
    size_t at; /* of its fixed part: type, class, ttl, length */
    uint16_t type, class;
    uint32_t ttl;
    size_t data, data_bytes, end;
};

static int record_read(struct str m, size_t at, struct raw_record *ret)
{
    ssize_t head = name_read(m, at, NULL, NULL);

    if (head < 0 || (size_t)head + RECORD_HEAD > m.n)
        return -EBADMSG;
    ret->at = (size_t)head;
    ret->type = u16_at(m, ret->at);
    ret->class = u16_at(m, ret->at + 2);
    ret->ttl = u32_at(m, ret->at + 4);
    ret->data = ret->at + RECORD_HEAD;
    ret->data_bytes = u16_at(m, ret->at + 8);
    ret->end = ret->data + ret->data_bytes;
    return ret->end <= m.n ? 0 : -EBADMSG;
}

static size_t record_count(struct str m)
{
    return (size_t)u16_at(m, 6) + u16_at(m, 8) + u16_at(m, 10);
}

/* The size that an OPT record of a query announces. */
static uint16_t announced_bytes(struct str m, size_t at)
{
    size_t count = record_count(m);

    for (size_t i = 0; i < count && i < DNS_RECORDS_MAX; i++) {
        struct raw_record r;

        if (record_read(m, at, &r) < 0)
            break;
        if (r.type == DNS_OPT)
            return r.class < DNS_UDP_BYTES ? DNS_UDP_BYTES : r.class;
        at = r.end;
    }
    return DNS_UDP_BYTES;
}

int dns_query_read(struct str m, struct dns_query *ret)
{
    uint16_t flags;
    unsigned opcode;

    *ret = (struct dns_query){.question_end = HEADER_BYTES};
    if (m.n < HEADER_BYTES)
        return -EBADMSG;
    ret->id = u16_at(m, 0);
    flags = u16_at(m, 2);
    opcode = flags >> 11 & 0xf;
    if (flags & FLAG_QR)
        return -EBADMSG;
    if (opcode != 0 && opcode != 4)
        return DNS_NOTIMP;
    if (u16_at(m, 4) != 1 || question_read(m, ret) < 0) {
        ret->question_end = HEADER_BYTES;
        return DNS_FORMERR;
    }
    ret->udp_bytes = announced_bytes(m, ret->question_end);
    return 0;
}

size_t dns_query_write(struct str name, uint16_t type, char *out, size_t max)
{
    static const char head[] = {0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    const char tail[] = {0, (char)(type >> 8), (char)type, 0, 1};
    struct str label;
    size_t n = sizeof(head);

    if (name.n == 0 || name.n >= DNS_NAME_MAX || max < sizeof(head) + name.n + 1 + sizeof(tail))
        return 0;
    memcpy(out, head, sizeof(head));
    while (str_cut(&name, '.', &label)) {
        if (label.n == 0 || label.n > 63)
            return 0;
        out[n++] = (char)label.n;
        memcpy(out + n, label.p, label.n);
        n += label.n;
    }
    memcpy(out + n, tail, sizeof(tail));
    return n + sizeof(tail);
}

size_t dns_refusal_write(struct str query, size_t question_end, enum dns_rcode rcode, char *out)
{
    uint16_t flags = u16_at(query, 2);

    memcpy(out, query.p, question_end);
    put_u16(out + 2, (uint16_t)(FLAG_QR | (flags & (0x7800 | FLAG_RD | FLAG_CD)) | rcode));
    put_u16(out + 4, question_end > HEADER_BYTES);
    memset(out + 6, 0, 6);
    return question_end;
}

static int visit_record(struct str m, const struct raw_record *raw,
                        int (*visit)(void *user, const struct dns_record *record), void *user)
{
    struct dns_record record = {.type = raw->type, .ttl = raw->ttl};

    if (raw->type == DNS_A || raw->type == DNS_AAAA) {
        if (raw->data_bytes != (raw->type == DNS_A ? 4U : 16U))
            return -EBADMSG;
        record.family = raw->type == DNS_A ? AF_INET : AF_INET6;
        memcpy(record.addr, m.p + raw->data, raw->data_bytes);
    } else if (raw->type == DNS_CNAME) {
        ssize_t end = name_read(m, raw->data, record.target, NULL);

        if (end < 0 || (size_t)end != raw->end)
            return -EBADMSG;
    }
    return visit(user, &record);
}

int dns_answer_read(struct str m, struct str query, struct dns_query *asked,
                    int (*visit)(void *user, const struct dns_record *record), void *user)
{
    struct dns_query got = {0};
    size_t at, answers, count;

    if (m.n < HEADER_BYTES || u16_at(m, 0) != u16_at(query, 0) || !(u16_at(m, 2) & FLAG_QR) ||
        u16_at(m, 4) != 1 || question_read(m, &got) < 0 || got.type != asked->type ||
        got.class != asked->class || strcmp(got.name, asked->name) != 0)
        return -EBADMSG;
    at = got.question_end;
    answers = u16_at(m, 6);
    count = record_count(m);
    if (count > DNS_RECORDS_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < count; i++) {
        struct raw_record raw;
        int r = record_read(m, at, &raw);

        if (r == 0 && i < answers && visit)
            r = visit_record(m, &raw, visit, user);
        if (r < 0)
            return r;
        at = raw.end;
    }
    return u16_at(m, 2) & 0xf;
}

bool dns_is_truncated(struct str m)
{
    return m.n >= HEADER_BYTES && u16_at(m, 2) & FLAG_TC;
}

/* Calls fn for each record of a checked answer. */
static void each_record(struct str m, void (*fn)(void *user, const struct raw_record *raw),
                        void *user)
{
    struct dns_query q = {0};
    size_t count, at;

    if (m.n < HEADER_BYTES || question_read(m, &q) < 0)
        return;
    count = record_count(m);
    at = q.question_end;
    for (size_t i = 0; i < count && i < DNS_RECORDS_MAX; i++) {
        struct raw_record raw;

        if (record_read(m, at, &raw) < 0)
            return;
        if (raw.type != DNS_OPT)
            fn(user, &raw);
        at = raw.end;
    }
}

static void note_ttl(void *user, const struct raw_record *raw)
{
    uint32_t *min = user;

    if (raw->ttl < *min)
        *min = raw->ttl;
}

uint32_t dns_ttl_min(struct str message)
{
    uint32_t min = UINT32_MAX;

    each_record(message, note_ttl, &min);
    return min;
}

struct adapt {
    char *message;
    uint32_t age_s, ttl_max;
};

static void adapt_ttl(void *user, const struct raw_record *raw)
{
    const struct adapt *a = user;
    uint32_t ttl = raw->ttl > a->age_s ? raw->ttl - a->age_s : 0;

    if (ttl > a->ttl_max)
        ttl = a->ttl_max;
    put_u16(a->message + raw->at + 4, (uint16_t)(ttl >> 16));
    put_u16(a->message + raw->at + 6, (uint16_t)ttl);
}

void dns_answer_adapt(char *message, size_t n, uint16_t id, uint32_t age_s, uint32_t ttl_max)
{
    struct adapt a = {message, age_s, ttl_max};

    if (n < HEADER_BYTES)
        return;
    put_u16(message, id);
    each_record(str_make(message, n), adapt_ttl, &a);
}

size_t dns_answer_truncate(char *message, size_t n, size_t question_end)
{
    if (n < HEADER_BYTES || question_end > n)
        return n;
    put_u16(message + 2, u16_at(str_make(message, n), 2) | FLAG_TC);
    memset(message + 6, 0, 6);
    return question_end;
}
