/* netlink.h - requests to the kernel over netlink: built in a fixed buffer, sent as one batch, each
 * acknowledged.
 *
 * Calls that fill a batch cannot fail. A batch that is too large fails when it is sent (-EMSGSIZE),
 * before any of it reaches the kernel. The kernel handles requests during send(), so replies are
 * available at once. No allocation. Single-threaded. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <linux/netlink.h>
#include <stdbool.h>

enum { NETLINK_MESSAGES_MAX = 512, NETLINK_NESTING_MAX = 8 };

struct netlink {
    int fd; /* belongs to the network namespace it was opened in, even after setns() */
    uint32_t seq;
};

/* `protocol` is NETLINK_ROUTE or NETLINK_NETFILTER. */
int netlink_open(int protocol, struct netlink *ret, struct err *e) MUST_USE;
void netlink_close(struct netlink *nl); /* NETLINK_NONE is fine */

#define NETLINK_NONE ((struct netlink){-1, 0})
#define auto_netlink __attribute__((cleanup(netlink_close))) struct netlink

struct netlink_batch {
    char *p; /* the caller's buffer */
    size_t n, cap;
    size_t message; /* offset of the last message */
    size_t nest[NETLINK_NESTING_MAX];
    size_t nesting;
    const char *what[NETLINK_MESSAGES_MAX]; /* name of each message, for errors; borrowed */
    size_t count;
    bool full;
};

/* A batch with its buffer on the stack. */
#define NETLINK_BATCH(name, bytes)                                                                 \
    _Alignas(struct nlmsghdr) char name##_room[bytes];                                             \
    struct netlink_batch name;                                                                     \
    netlink_batch_init(&name, name##_room, sizeof(name##_room))
void netlink_batch_init(struct netlink_batch *b, void *room, size_t room_bytes);

/* Begins a message; `what` names it in an error ("add address"). Adds NLM_F_REQUEST. Without
 * NLM_F_ACK only a failure is answered. */
void netlink_begin(struct netlink_batch *b, const char *what, uint16_t type, uint16_t flags,
                   const void *header, size_t header_bytes);
void netlink_add(struct netlink_batch *b, uint16_t attr, const void *data, size_t n);
void netlink_add_str(struct netlink_batch *b, uint16_t attr, const char *s); /* including its NUL */
void netlink_add_u8(struct netlink_batch *b, uint16_t attr, uint8_t v);
void netlink_add_u32(struct netlink_batch *b, uint16_t attr, uint32_t v);
void netlink_add_be32(struct netlink_batch *b, uint16_t attr, uint32_t v); /* for nftables */
/* Attributes up to the matching end are nested in `attr`. */
void netlink_nest(struct netlink_batch *b, uint16_t attr);
void netlink_nest_end(struct netlink_batch *b);
/* Adds bytes outside of attributes, such as the header that some attributes begin with. */
void netlink_add_raw(struct netlink_batch *b, const void *data, size_t n);

/* Sends all messages and collects their acknowledgements. Returns the first failure: its errno, and
 * "<what>: <reason>: <the kernel's own words>" in e. rtnetlink executes the messages after it,
 * nftables none. The batch is empty afterwards. */
int netlink_send(struct netlink *nl, struct netlink_batch *b, struct err *e);

/* Sends the one message in `b`, with NLM_F_DUMP or NLM_F_ACK, and visits each answer. A dump may
 * miss concurrent changes. When visit returns < 0 it is not called again, and that is returned. */
int netlink_query(struct netlink *nl, struct netlink_batch *b,
                  int (*visit)(void *user, const struct nlmsghdr *message), void *user,
                  struct err *e);

/* The value of an attribute after the header of a received message; STR_NONE when there is none. */
struct str netlink_attr(const struct nlmsghdr *message, size_t header_bytes, uint16_t attr);
