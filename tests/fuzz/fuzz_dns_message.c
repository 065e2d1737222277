/* The input is a query and an answer: two bytes say where the query ends. Whatever is read stays
 * inside, names have no byte that a rule could not have, and changes of a checked answer leave a
 * checked answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "egress/dns/message.h"
#include "fuzz.h"

static void check_name(const char *name)
{
    FUZZ_CHECK(strlen(name) < DNS_NAME_MAX);
    for (; *name; name++)
        FUZZ_CHECK(strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.?", *name));
}

static int see(void *user, const struct dns_record *record)
{
    (void)user;
    check_name(record->target);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char refusal[DNS_MESSAGE_MAX + 1];
    struct dns_query q;
    struct str query, answer;
    size_t cut;
    char *copy;
    int r;

    if (size < 2 || size > DNS_MESSAGE_MAX)
        return 0;
    cut = (size_t)(data[0] << 8 | data[1]);
    if (cut > size - 2)
        cut = size - 2;
    query = str_make((const char *)data + 2, cut);
    answer = str_make((const char *)data + 2 + cut, size - 2 - cut);
    r = dns_query_read(query, &q);
    if (r < 0)
        return 0;
    check_name(q.name);
    FUZZ_CHECK(q.question_end <= query.n);
    FUZZ_CHECK(dns_refusal_write(query, q.question_end, DNS_NXDOMAIN, refusal) <= query.n);
    if (r > 0 || dns_answer_read(answer, query, &q, see, NULL) < 0)
        return 0;
    copy = malloc(answer.n);
    FUZZ_CHECK(copy);
    memcpy(copy, answer.p, answer.n);
    dns_answer_adapt(copy, answer.n, q.id, 7, 300);
    FUZZ_CHECK(dns_answer_read(str_make(copy, answer.n), query, &q, see, NULL) >= 0);
    FUZZ_CHECK(dns_ttl_min(answer) == UINT32_MAX || dns_ttl_min(str_make(copy, answer.n)) <= 300);
    FUZZ_CHECK(dns_answer_truncate(copy, answer.n, q.question_end) <= answer.n);
    free(copy);
    return 0;
}
