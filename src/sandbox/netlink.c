#include "sandbox/netlink.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    REPLY_BYTES_MAX = 32 * 1024, /* the kernel's maximum for one datagram of a dump */
    REPLIES_MAX = 100 * 1000,    /* datagrams of one dump: bounds the loop */
    REPLY_TIMEOUT_S = 10,        /* replies are available at once; this is only a safeguard */
};

int netlink_open(int protocol, struct netlink *ret, struct err *e)
{
    const struct timeval timeout = {.tv_sec = REPLY_TIMEOUT_S};
    const int on = 1;
    auto_fd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd < 0)
        return err_sys(e, errno, "netlink socket");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0)
        return err_sys(e, errno, "netlink socket");
    /* Both only improve error messages, and older kernels lack them. */
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
    *ret = (struct netlink){.fd = take_fd(&fd), .seq = 1};
    return 0;
}

void netlink_close(struct netlink *nl)
{
    fd_close(take_fd(&nl->fd));
}

void netlink_batch_init(struct netlink_batch *b, void *room, size_t room_bytes)
{
    b->p = room;
    b->cap = room_bytes;
    b->n = b->message = b->nesting = b->count = 0;
    b->full = false;
}

/* Room for n bytes and padding, zeroed; NULL once the batch is full. */
static char *batch_grow(struct netlink_batch *b, size_t n)
{
    char *at = b->p + b->n;
    size_t padded = NLMSG_ALIGN(n);

    if (b->full || padded > b->cap - b->n) {
        b->full = true;
        return NULL;
    }
    memset(at, 0, padded);
    b->n += padded;
    return at;
}

static void put_u16(struct netlink_batch *b, size_t at, size_t v)
{
    uint16_t v16 = (uint16_t)v;

    if (v > UINT16_MAX)
        b->full = true;
    else
        memcpy(b->p + at, &v16, sizeof(v16));
}

static void message_seal(struct netlink_batch *b)
{
    uint32_t length = (uint32_t)(b->n - b->message);

    assert(b->nesting == 0);
    if (b->count > 0 && !b->full)
        memcpy(b->p + b->message + offsetof(struct nlmsghdr, nlmsg_len), &length, sizeof(length));
}

void netlink_begin(struct netlink_batch *b, const char *what, uint16_t type, uint16_t flags,
                   const void *header, size_t header_bytes)
{
    struct nlmsghdr h = {.nlmsg_type = type, .nlmsg_flags = flags | NLM_F_REQUEST};
    char *at;

    message_seal(b);
    if (b->count == NETLINK_MESSAGES_MAX)
        b->full = true;
    at = batch_grow(b, sizeof(h));
    if (!at)
        return;
    b->message = (size_t)(at - b->p);
    b->what[b->count++] = what;
    memcpy(at, &h, sizeof(h));
    netlink_add_raw(b, header, header_bytes);
}

void netlink_add_raw(struct netlink_batch *b, const void *data, size_t n)
{
    char *at = batch_grow(b, n);

    if (at && n > 0)
        memcpy(at, data, n);
}

void netlink_add(struct netlink_batch *b, uint16_t attr, const void *data, size_t n)
{
    struct nlattr a = {.nla_type = attr};
    char *at = batch_grow(b, NLA_HDRLEN + n);

    if (!at)
        return;
    memcpy(at, &a, sizeof(a));
    put_u16(b, (size_t)(at - b->p), NLA_HDRLEN + n); /* nla_len is the first field */
    if (n > 0)
        memcpy(at + NLA_HDRLEN, data, n);
}

void netlink_add_str(struct netlink_batch *b, uint16_t attr, const char *s)
{
    netlink_add(b, attr, s, strlen(s) + 1);
}

void netlink_add_u8(struct netlink_batch *b, uint16_t attr, uint8_t v)
{
    netlink_add(b, attr, &v, sizeof(v));
}

void netlink_add_u32(struct netlink_batch *b, uint16_t attr, uint32_t v)
{
    netlink_add(b, attr, &v, sizeof(v));
}

void netlink_add_be32(struct netlink_batch *b, uint16_t attr, uint32_t v)
{
    netlink_add_u32(b, attr, htonl(v));
}

void netlink_nest(struct netlink_batch *b, uint16_t attr)
{
    assert(b->nesting < NETLINK_NESTING_MAX);
    b->nest[b->nesting++] = b->n;
    netlink_add(b, attr | NLA_F_NESTED, NULL, 0);
}

void netlink_nest_end(struct netlink_batch *b)
{
    size_t at;

    assert(b->nesting > 0);
    at = b->nest[--b->nesting];
    if (!b->full)
        put_u16(b, at, b->n - at);
}

/* Numbers the messages, and counts those to be acknowledged. */
static size_t batch_number(struct netlink_batch *b, uint32_t seq)
{
    size_t at = 0, acks = 0;

    for (size_t i = 0; i < b->count; i++) {
        struct nlmsghdr *h = (struct nlmsghdr *)(b->p + at);

        h->nlmsg_seq = seq + (uint32_t)i;
        acks += (h->nlmsg_flags & NLM_F_ACK) != 0;
        at += NLMSG_ALIGN(h->nlmsg_len);
    }
    assert(at == b->n);
    return acks;
}

static int batch_submit(struct netlink *nl, struct netlink_batch *b, uint32_t *ret_seq,
                        size_t *ret_acks, struct err *e)
{
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    ssize_t sent;

    message_seal(b);
    if (b->full)
        return err_set(e, EMSGSIZE, "netlink request of more than %zu bytes", b->cap);
    *ret_seq = nl->seq;
    *ret_acks = batch_number(b, nl->seq);
    nl->seq += (uint32_t)b->count;
    do
        sent = sendto(nl->fd, b->p, b->n, 0, (const struct sockaddr *)&kernel, sizeof(kernel));
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? err_sys(e, errno, "send netlink request") : 0;
}

static ssize_t receive(const struct netlink *nl, char *room, struct err *e)
{
    ssize_t n;

    do
        n = recv(nl->fd, room, REPLY_BYTES_MAX, MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, errno == EAGAIN ? ETIMEDOUT : errno, "receive netlink reply");
    if (n > REPLY_BYTES_MAX)
        return err_set(e, EMSGSIZE, "netlink reply of %zd bytes", n);
    return n;
}

struct str netlink_attr(const struct nlmsghdr *message, size_t header_bytes, uint16_t attr)
{
    struct str rest = str_make((const char *)message, message->nlmsg_len);
    size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(header_bytes);
    struct nlattr a;

    if (skip > rest.n)
        return STR_NONE;
    rest = str_skip(rest, skip);
    while (rest.n >= sizeof(a)) {
        memcpy(&a, rest.p, sizeof(a));
        if (a.nla_len < sizeof(a) || a.nla_len > rest.n)
            break;
        if ((a.nla_type & NLA_TYPE_MASK) == attr)
            return str_make(rest.p + NLA_HDRLEN, a.nla_len - (size_t)NLA_HDRLEN);
        rest = str_skip(rest, min_size(NLA_ALIGN(a.nla_len), rest.n));
    }
    return STR_NONE;
}

/* The result in an NLMSG_ERROR: 0 for an acknowledgement. */
static int reply_error(const struct nlmsghdr *reply, const char *what, struct err *e)
{
    struct nlmsgerr answer;
    struct str words = STR_NONE;

    if (reply->nlmsg_len < NLMSG_LENGTH(sizeof(answer)))
        return err_set(e, EPROTO, "%s: short netlink reply", what);
    memcpy(&answer, NLMSG_DATA(reply), sizeof(answer));
    if (answer.error == 0)
        return 0;
    if ((reply->nlmsg_flags & (NLM_F_ACK_TLVS | NLM_F_CAPPED)) == (NLM_F_ACK_TLVS | NLM_F_CAPPED))
        words = netlink_attr(reply, sizeof(answer), NLMSGERR_ATTR_MSG);
    err_sys(e, -answer.error, "%s", what);
    if (e && words.n > 1)
        err_set(e, -answer.error, "%s: %.*s", e->msg, (int)words.n - 1, words.p);
    return answer.error;
}

/* Calls visit for every message of a datagram. */
static int each_reply(const char *room, size_t n,
                      int (*visit)(void *user, const struct nlmsghdr *h), void *user)
{
    int r = 0;

    for (size_t at = 0; r >= 0 && n - at >= sizeof(struct nlmsghdr);) {
        const struct nlmsghdr *h = (const struct nlmsghdr *)(room + at);

        if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > n - at)
            break;
        r = visit(user, h);
        at += min_size(NLMSG_ALIGN(h->nlmsg_len), n - at);
    }
    return r;
}

struct collection {
    const struct netlink_batch *batch;
    uint32_t seq;
    size_t acks_missing;
    int result;
    struct err *e;
};

static int collect_ack(void *user, const struct nlmsghdr *h)
{
    struct collection *c = user;
    uint32_t index = h->nlmsg_seq - c->seq;

    if (h->nlmsg_type != NLMSG_ERROR || index >= c->batch->count)
        return 0; /* late answer to an earlier request */
    if (c->result == 0)
        c->result = reply_error(h, c->batch->what[index], c->e);
    if (c->acks_missing > 0)
        c->acks_missing--;
    return 0;
}

int netlink_send(struct netlink *nl, struct netlink_batch *b, struct err *e)
{
    _Alignas(struct nlmsghdr) char room[REPLY_BYTES_MAX];
    struct collection c = {.batch = b, .e = e};
    int r = batch_submit(nl, b, &c.seq, &c.acks_missing, e);

    while (r >= 0 && c.acks_missing > 0 && c.result == 0) {
        ssize_t n = receive(nl, room, e);

        r = n < 0 ? (int)n : each_reply(room, (size_t)n, collect_ack, &c);
    }
    netlink_batch_init(b, b->p, b->cap);
    return r < 0 ? r : c.result;
}

struct dump {
    uint32_t seq;
    const char *what;
    bool done;
    int (*visit)(void *user, const struct nlmsghdr *message);
    void *user;
    struct err *e;
};

static int dump_message(void *user, const struct nlmsghdr *h)
{
    struct dump *d = user;

    if (h->nlmsg_seq != d->seq)
        return 0;
    if (h->nlmsg_type == NLMSG_ERROR || h->nlmsg_type == NLMSG_DONE)
        d->done = true;
    if (h->nlmsg_type == NLMSG_ERROR)
        return reply_error(h, d->what, d->e);
    return d->done ? 0 : d->visit(d->user, h);
}

int netlink_query(struct netlink *nl, struct netlink_batch *b,
                  int (*visit)(void *user, const struct nlmsghdr *message), void *user,
                  struct err *e)
{
    _Alignas(struct nlmsghdr) char room[REPLY_BYTES_MAX];
    struct dump d = {.what = b->what[0], .visit = visit, .user = user, .e = e};
    size_t acks;
    int r;

    assert(b->count == 1);
    r = batch_submit(nl, b, &d.seq, &acks, e);
    for (int i = 0; r >= 0 && !d.done && i < REPLIES_MAX; i++) {
        ssize_t n = receive(nl, room, e);

        r = n < 0 ? (int)n : each_reply(room, (size_t)n, dump_message, &d);
    }
    netlink_batch_init(b, b->p, b->cap);
    return r;
}
