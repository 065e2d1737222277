#include "egress/dns/message.h"

#include <arpa/inet.h>
#include <errno.h>

#include "test.h"

#define BYTES(literal) str_make(literal, sizeof(literal) - 1)

/* A question for www.Example.org, type A. */
#define QUESTION "\3www\7Example\3org\0\0\1\0\1"
static const char query[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0" QUESTION;
/* Its answer: an alias to the compressed name edge.org, and its address. */
#define ANSWER_HEAD "\x12\x34\x81\x80\0\1\0\2\0\0\0\0"
static const char answer[] = ANSWER_HEAD QUESTION "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\7"
                                                  "\4edge\xc0\x18"
                                                  "\xc0\x2d\0\1\0\1\0\0\1\0\0\4\xcb\0\x71\x09";

static struct str query_str(void)
{
    return BYTES(query);
}

TEST(dns_message, reads_a_question)
{
    struct dns_query q;

    CHECK_EQ(dns_query_read(query_str(), &q), 0);
    CHECK_STR(q.name, "www.example.org");
    CHECK_EQ(q.id, 0x1234);
    CHECK_EQ(q.type, DNS_A);
    CHECK_EQ(q.label_max, 7);
    CHECK_EQ(q.question_end, sizeof(query) - 1);
    CHECK_EQ(q.udp_bytes, DNS_UDP_BYTES);
}

TEST(dns_message, keeps_odd_bytes_out_of_names)
{
    struct dns_query q;

    /* A label with a dot in it is not two labels. */
    CHECK_EQ(dns_query_read(BYTES("\0\1\1\0\0\1\0\0\0\0\0\0\7a.b*\xff c\3org\0\0\1\0\1"), &q), 0);
    CHECK_STR(q.name, "a?b???c.org");
    CHECK_EQ(dns_query_read(BYTES("\0\1\1\0\0\1\0\0\0\0\0\0\0\0\1\0\1"), &q), 0);
    CHECK_STR(q.name, "");
}

TEST(dns_message, answers_or_ignores_what_is_no_question)
{
    struct dns_query q;

    CHECK_EQ(dns_query_read(BYTES("short"), &q), -EBADMSG);
    CHECK_EQ(dns_query_read(BYTES("\0\1\x81\0\0\1\0\0\0\0\0\0" QUESTION), &q), -EBADMSG);
    CHECK_EQ(dns_query_read(BYTES("\0\1\x28\0\0\1\0\0\0\0\0\0" QUESTION), &q), DNS_NOTIMP);
    CHECK_EQ(dns_query_read(BYTES("\0\1\1\0\0\2\0\0\0\0\0\0" QUESTION), &q), DNS_FORMERR);
    CHECK_EQ(dns_query_read(BYTES("\0\1\1\0\0\1\0\0\0\0\0\0\3ww"), &q), DNS_FORMERR);
    CHECK_EQ(dns_query_read(BYTES("\0\1\1\0\0\1\0\0\0\0\0\0\xc0\x0c\0\1\0\1"), &q), DNS_FORMERR);
}

TEST(dns_message, refuses_with_the_question_and_nothing_else)
{
    char out[sizeof(query)];
    size_t n = dns_refusal_write(query_str(), sizeof(query) - 1, DNS_NXDOMAIN, out);

    CHECK_EQ(n, sizeof(query) - 1);
    CHECK_EQ(memcmp(out, "\x12\x34\x81\3\0\1\0\0\0\0\0\0" QUESTION, n), 0);
}

struct seen {
    size_t count;
    struct dns_record last;
    char alias[DNS_NAME_MAX];
};

static int see(void *user, const struct dns_record *record)
{
    struct seen *s = user;

    s->count++;
    s->last = *record;
    if (record->type == DNS_CNAME)
        memcpy(s->alias, record->target, sizeof(s->alias));
    return 0;
}

TEST(dns_message, reads_the_records_of_an_answer)
{
    struct dns_query q;
    struct seen s = {0};
    struct in_addr want;

    CHECK_EQ(dns_query_read(query_str(), &q), 0);
    CHECK_EQ(dns_answer_read(BYTES(answer), query_str(), &q, see, &s), DNS_NOERROR);
    CHECK_EQ(s.count, 2);
    CHECK_STR(s.alias, "edge.org");
    CHECK_EQ(s.last.family, AF_INET);
    CHECK_EQ(inet_pton(AF_INET, "203.0.113.9", &want), 1);
    CHECK_EQ(memcmp(s.last.addr, &want, 4), 0);
    CHECK_EQ(dns_ttl_min(BYTES(answer)), 60);
}

TEST(dns_message, takes_no_answer_to_another_question)
{
    struct dns_query q;
    char other[sizeof(answer)];

    CHECK_EQ(dns_query_read(query_str(), &q), 0);
    for (size_t i = 0; i < sizeof(ANSWER_HEAD QUESTION) - 1; i++) {
        if ((i >= 2 && i < 12) || i == 12 || i == 16 || i == 24 || i == 28)
            continue; /* flags and counts; lengths of labels */
        memcpy(other, answer, sizeof(answer));
        other[i] ^= 1;
        CHECK_EQ(dns_answer_read(BYTES(other), query_str(), &q, NULL, NULL), -EBADMSG);
    }
    for (size_t n = 0; n < sizeof(answer) - 1; n++)
        CHECK_EQ(dns_answer_read(str_make(answer, n), query_str(), &q, NULL, NULL), -EBADMSG);
}

TEST(dns_message, adapts_id_and_times)
{
    char copy[sizeof(answer)];
    struct dns_query q;
    struct seen s = {0};

    memcpy(copy, answer, sizeof(answer));
    dns_answer_adapt(copy, sizeof(answer) - 1, 0x1234, 10, 100);
    CHECK_EQ(dns_ttl_min(str_make(copy, sizeof(answer) - 1)), 50);
    CHECK_EQ(dns_query_read(query_str(), &q), 0);
    CHECK_EQ(dns_answer_read(BYTES(copy), query_str(), &q, see, &s), 0);
    CHECK_EQ(s.last.ttl, 100); /* 256 - 10, at most 100 */
    CHECK_EQ(dns_answer_truncate(copy, sizeof(answer) - 1, q.question_end), q.question_end);
    CHECK(dns_is_truncated(str_make(copy, q.question_end)));
}
