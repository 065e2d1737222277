/* netlink.h - requests to the kernel over netlink: built in a buffer of fixed size, sent as one
 * batch, each acknowledged.
 *
 * A batch is filled by calls that cannot fail; one that outgrows its room says so when it is sent
 * (-EMSGSIZE), and nothing of it reaches the kernel. The kernel works while we send, so replies are
 * there when we ask for them. No allocation. Single-threaded. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <linux/netlink.h>
#include <stdbool.h>

enum { NETLINK_MESSAGES_MAX = 160, NETLINK_NESTING_MAX = 8 };

struct netlink {
    int fd; /* speaks to the network namespace it was opened in, wherever its user went since */
    uint32_t seq;
};

/* `protocol` is NETLINK_ROUTE or NETLINK_NETFILTER. */
int netlink_open(int protocol, struct netlink *ret, struct err *e) MUST_USE;
void netlink_close(struct netlink *nl); /* NETLINK_NONE is fine */

#define NETLINK_NONE ((struct netlink){-1, 0})
#define auto_netlink __attribute__((cleanup(netlink_close))) struct netlink

struct netlink_batch {
    char *p; /* the caller's */
    size_t n, cap;
    size_t message; /* where the last message begins */
    size_t nest[NETLINK_NESTING_MAX];
    size_t nesting;
    const char *what[NETLINK_MESSAGES_MAX]; /* of each message, for its error; borrowed */
    size_t count;
    bool full;
};

/* A batch with room of its own on the stack. */
#define NETLINK_BATCH(name, bytes)                                                                 \
    _Alignas(struct nlmsghdr) char name##_room[bytes];                                             \
    struct netlink_batch name;                                                                     \
    netlink_batch_init(&name, name##_room, sizeof(name##_room))
void netlink_batch_init(struct netlink_batch *b, void *room, size_t room_bytes);

/* Begins a message; `what` names it in an error ("add address"). NLM_F_REQUEST is added; without
 * NLM_F_ACK only its failure is answered. */
void netlink_begin(struct netlink_batch *b, const char *what, uint16_t type, uint16_t flags,
                   const void *header, size_t header_bytes);
void netlink_add(struct netlink_batch *b, uint16_t attr, const void *data, size_t n);
void netlink_add_str(struct netlink_batch *b, uint16_t attr, const char *s); /* with its NUL */
void netlink_add_u8(struct netlink_batch *b, uint16_t attr, uint8_t v);
void netlink_add_u32(struct netlink_batch *b, uint16_t attr, uint32_t v);
void netlink_add_be32(struct netlink_batch *b, uint16_t attr, uint32_t v); /* nftables' order */
/* Attributes up to the matching end lie within `attr`. */
void netlink_nest(struct netlink_batch *b, uint16_t attr);
void netlink_nest_end(struct netlink_batch *b);
/* Bytes that belong to no attribute, such as the header some attributes begin with. */
void netlink_add_raw(struct netlink_batch *b, const void *data, size_t n);

/* Sends all messages and collects their acknowledgements. The first that failed is the result: its
 * errno, and "<what>: <reason>: <the kernel's own words>" in e. rtnetlink carries out those behind
 * it all the same, nftables none. The batch is empty afterwards. */
int netlink_send(struct netlink *nl, struct netlink_batch *b, struct err *e);

/* Sends the one message in `b`, with NLM_F_DUMP or else NLM_F_ACK, and hands over each answer. What
 * changes meanwhile may be missed. A visit that returns < 0 is not called again; that is the
 * result. */
int netlink_query(struct netlink *nl, struct netlink_batch *b,
                  int (*visit)(void *user, const struct nlmsghdr *message), void *user,
                  struct err *e);

/* The value of an attribute of a received message behind its header; STR_NONE when it has none. */
struct str netlink_attr(const struct nlmsghdr *message, size_t header_bytes, uint16_t attr);
