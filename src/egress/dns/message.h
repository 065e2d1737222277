/* message.h - DNS messages (RFC 1035): reads queries and answers, writes refusals. Pure: bytes in,
 * result out. Every name and record is checked against the end of the message; pointers of
 * compressed names lead backwards only. */
#pragma once

#include "base/str.h"
#include <netinet/in.h>
#include <stdbool.h>

enum {
    DNS_NAME_MAX = 256, /* as text, with the NUL */
    DNS_MESSAGE_MAX = 65535,
    DNS_UDP_BYTES = 512, /* of an answer to a client that does not say more */
    DNS_RECORDS_MAX = 512,
};

enum dns_type {
    DNS_A = 1,
    DNS_CNAME = 5,
    DNS_NULL = 10,
    DNS_TXT = 16,
    DNS_AAAA = 28,
    DNS_OPT = 41,
    DNS_IXFR = 251,
    DNS_AXFR = 252,
    DNS_ANY = 255,
};

enum dns_rcode {
    DNS_NOERROR,
    DNS_FORMERR,
    DNS_SERVFAIL,
    DNS_NXDOMAIN,
    DNS_NOTIMP,
    DNS_REFUSED,
};

struct dns_query {
    uint16_t id, type, class;
    char name[DNS_NAME_MAX]; /* lower-case, without final dot; a byte no host name has is '?' */
    size_t label_max;        /* bytes of the longest label */
    size_t question_end;     /* offset behind the question */
    uint16_t udp_bytes;      /* answers over UDP up to this size */
};

/* 0; a positive dns_rcode to answer with, if id and question_end are set; -EBADMSG for bytes that
 * deserve no answer. */
int dns_query_read(struct str message, struct dns_query *ret);

/* Writes a question for a name, with recursion desired and id 1; returns its length, 0 when the
 * text is no name or does not fit. */
size_t dns_query_write(struct str name, uint16_t type, char *out, size_t max);

/* Writes the answer to a query that has only a code: header and question. Returns its length; `out`
 * has room for the query's length. */
size_t dns_refusal_write(struct str query, size_t question_end, enum dns_rcode rcode, char *out);

struct dns_record {
    uint16_t type;
    uint32_t ttl;
    int family; /* AF_INET or AF_INET6 for addresses, else 0 */
    uint8_t addr[16];
    char target[DNS_NAME_MAX]; /* of DNS_CNAME, as struct dns_query.name */
};

/* Checks that `message` answers `query`: id, question, all sections whole. Calls visit, which may
 * be NULL, for each record of the answer section. The code of the answer, or -EBADMSG, or what
 * visit returned below 0. */
int dns_answer_read(struct str message, struct str query, struct dns_query *asked,
                    int (*visit)(void *user, const struct dns_record *record), void *user);
bool dns_is_truncated(struct str message);

/* For a checked answer: the lowest TTL of its records, other than OPT; UINT32_MAX without any. */
uint32_t dns_ttl_min(struct str message);
/* Sets the id, and each TTL: less `age_s`, at most `ttl_max`. */
void dns_answer_adapt(char *message, size_t n, uint16_t id, uint32_t age_s, uint32_t ttl_max);
/* Cuts a checked answer to its question and sets the truncation bit; returns the new length. */
size_t dns_answer_truncate(char *message, size_t n, size_t question_end);
