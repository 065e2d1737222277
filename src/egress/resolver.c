/* resolver.c - answers the DNS of sandboxes.
 *
 *   question ─► sandbox, by its address ─► policy ─► cache or upstream ─► addresses judged
 *            ─► addresses programmed by the broker ─► answer
 *
 * A question waits while a change of its sandbox's policy is under way, and is judged after it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/dns/message.h"
#include "egress/egress.h"
#include "egress/webhook.h"

enum {
    SOCKETS_MAX = 2, /* IPv4, IPv6 */
    DATAGRAMS_PER_EVENT = 32,
    QUESTIONS_MAX = 64, /* of one sandbox, under way */
    STRANGERS_MAX = 64, /* of addresses that are not known yet */
    STRANGER_MS = 3 * 1000,
    CLIENTS_MAX = 512, /* TCP connections */
    CLIENT_IDLE_MS = 10 * 1000,
    LENGTH_BYTES = 2,
    TTL_S_MAX = 300, /* of answers: a sandbox asks again before its address is forgotten */
    LEARN_S_MORE = 60,
    LEARN_S_MIN = 60,
    LEARN_S_MAX = 360,
    NEGATIVE_TTL_S = 30,
    LONG_LABEL = 40,      /* bytes of a label, or ... */
    LONG_NAME = 120,      /* ... of a name that may carry data out */
    DATA_TOKENS = 30,     /* of questions that may carry data: at once, and ... */
    DATA_TOKEN_MS = 2000, /* ... one more in this time */
    LISTEN_BACKLOG = 64,
    ADDRESSES_SHOWN = 128,
    NS_PER_S = 1000000000,
};

struct resolver {
    struct egress *egress;
    struct udp_socket {
        struct resolver *r;
        struct loop_io io;
        int fd;
    } udp[SOCKETS_MAX];
    struct tcp_socket {
        struct resolver *r;
        struct sock_listener listener;
    } tcp[SOCKETS_MAX];
    size_t count;          /* of each */
    struct list questions; /* all that have a sandbox and do not wait */
    struct list strangers;
    size_t stranger_count;
    struct loop_timer stranger_timer;
    struct list clients;
    size_t client_count;
};

struct client { /* a TCP connection */
    struct list link;
    struct resolver *r;
    struct loop_io io;
    struct loop_timer idle;
    struct loop_task next_task, free_task;
    int fd;
    struct sock_addr from;
    struct buf in;
    struct buf out; /* the rest of an answer that the socket did not take; no question meanwhile */
    struct question *question; /* one at a time */
};

struct question {
    struct list link;
    struct resolver *r;
    struct guarded *guarded; /* NULL = not known yet, or gone */
    struct dns_query q;
    struct buf message;
    struct sock_addr from;
    int sock;              /* UDP */
    struct client *client; /* or TCP; NULL when that is gone */
    bool tcp, counted, in_job;
    struct dns_ask *ask;
    struct buf answer;
    uint32_t age_s;
    const struct policy_rule *rule; /* valid within a turn */
    const char *refused;            /* why the answer is not given */
    uint64_t begin_ns;
    char addresses[ADDRESSES_SHOWN]; /* of the answer, for the log */
    size_t addresses_n;
    struct netns_entry entries[NETNS_LEARN_MAX];
    size_t entry_count;
    struct pool_job job;
    struct err err;
    int result;
};

static void question_start(struct question *q);
static void on_next(struct loop_task *task);

static void question_free(struct question *q)
{
    struct client *client = q->client;

    list_remove(&q->link);
    if (q->ask)
        dns_ask_cancel(q->ask);
    if (q->counted)
        q->guarded->questions--;
    buf_done(&q->message);
    buf_done(&q->answer);
    free(q);
    if (client) {
        client->question = NULL;
        loop_defer(client->r->egress->loop, &client->next_task, on_next);
    }
}

/* --- sending --- */

static void client_close(struct client *c);

static void send_tcp(struct client *c, struct str message)
{
    const char length[LENGTH_BYTES] = {(char)(message.n >> 8), (char)message.n};
    struct iovec parts[] = {
        {(void *)(uintptr_t)length,    sizeof(length)},
        {(void *)(uintptr_t)message.p, message.n     }
    };
    const struct msghdr all = {.msg_iov = parts, .msg_iovlen = ARRAY_LEN(parts)};
    ssize_t sent = sendmsg(c->fd, &all, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent < 0 && errno == EAGAIN)
        sent = 0;
    if (sent < 0) {
        client_close(c);
    } else if ((size_t)sent < message.n + LENGTH_BYTES) {
        (void)buf_add(&c->out, str_make(length, sizeof(length))); /* both fit: `out` was empty */
        (void)buf_add(&c->out, message);
        buf_drop_front(&c->out, (size_t)sent);
        loop_io_set(c->r->egress->loop, &c->io, EPOLLOUT);
    }
}

static void question_send(struct question *q, struct str message)
{
    if (q->tcp && q->client)
        send_tcp(q->client, message);
    else if (!q->tcp)
        (void)sendto(q->sock, message.p, message.n, MSG_DONTWAIT | MSG_NOSIGNAL, &q->from.any,
                     q->from.size);
    question_free(q);
}

static void question_refuse(struct question *q, enum dns_rcode rcode)
{
    char out[DNS_NAME_MAX + 64];
    size_t n = dns_refusal_write(buf_str(&q->message), q->q.question_end, rcode, out);

    question_send(q, str_make(out, n));
}

static void question_deny(struct question *q, enum dns_rcode rcode, const char *reason)
{
    struct guarded *b = q->guarded;

    b->denied++;
    b->egress->stats.denied++;
    guarded_event(b, "egress.deny", reason, str_of(q->q.name));
    webhook_denied(b->egress->webhook, str_of(q->q.name),
                   b->egress->only ? b->egress->sandbox_id : str_of(b->id));
    question_refuse(q, rcode);
}

static void note_duration(const struct question *q)
{
    struct egress_stats *s = &q->r->egress->stats;
    double seconds = (double)(loop_now_ns(q->r->egress->loop) - q->begin_ns) / NS_PER_S;
    size_t i = 0;

    while (i < EGRESS_DURATION_BOUNDS && seconds > egress_duration_bounds[i])
        i++;
    s->duration_buckets[i]++;
    s->duration_sum += seconds;
    if (s->duration_count == 0 || seconds < s->duration_min)
        s->duration_min = seconds;
    if (seconds > s->duration_max)
        s->duration_max = seconds;
    s->duration_count++;
}

/* An allowed question got no answer. */
static void question_fail(struct question *q, const char *why)
{
    note_duration(q);
    guarded_allowed(q->guarded, str_of(q->q.name), STR(""), why);
    question_refuse(q, DNS_SERVFAIL);
}

static void question_answer(struct question *q)
{
    q->guarded->egress->stats.answered++;
    note_duration(q);
    guarded_allowed(q->guarded, str_of(q->q.name), str_make(q->addresses, q->addresses_n), NULL);
    dns_answer_adapt(q->answer.p, q->answer.n, q->q.id, q->age_s, TTL_S_MAX);
    if (!q->tcp && q->answer.n > q->q.udp_bytes)
        buf_cut(&q->answer, dns_answer_truncate(q->answer.p, q->answer.n, q->q.question_end));
    question_send(q, buf_str(&q->answer));
}

/* --- judging the answer --- */

static void learn(struct question *q, const struct dns_record *record)
{
    struct guarded *b = q->guarded;
    uint32_t ttl = record->ttl > q->age_s ? record->ttl - q->age_s : 0;
    uint32_t seconds = ttl > TTL_S_MAX ? LEARN_S_MAX : ttl + LEARN_S_MORE;

    if (seconds < LEARN_S_MIN)
        seconds = LEARN_S_MIN;
    if (guarded_learn(b, str_of(q->q.name), record->family, record->addr, seconds))
        q->entry_count +=
            change_entries(q->rule, record->family, record->addr, seconds,
                           &q->entries[q->entry_count], NETNS_LEARN_MAX - q->entry_count);
}

/* Only a rule lets a name lead to an address inside: otherwise the owner of the name chooses what a
 * sandbox may reach. */
static bool is_refused_address(const struct guarded *b, const struct dns_record *record)
{
    const struct policy *always = b->egress->always;
    bool allowed = false;

    if (policy_judge_addr(always, b->policy, record->family, record->addr, 0, 0) == POLICY_DENY)
        return true;
    if (b->policy->default_action == POLICY_ALLOW ||
        !guarded_addr_is_inside(b, record->family, record->addr))
        return false;
    for (size_t i = 0; i < b->policy->count + always->count && !allowed; i++) {
        const struct policy_rule *rule =
            i < b->policy->count ? &b->policy->rules[i] : &always->rules[i - b->policy->count];

        allowed = rule->kind == POLICY_NET && rule->action == POLICY_ALLOW &&
                  policy_net_has(&rule->net, record->family, record->addr);
    }
    return !allowed;
}

static void show_address(struct question *q, const struct dns_record *record)
{
    char text[INET6_ADDRSTRLEN];
    int n;

    if (!inet_ntop(record->family, record->addr, text, sizeof(text)))
        return;
    n = snprintf(q->addresses + q->addresses_n, sizeof(q->addresses) - q->addresses_n, "%s%s",
                 q->addresses_n ? "," : "", text);
    if (n > 0 && (size_t)n < sizeof(q->addresses) - q->addresses_n)
        q->addresses_n += (size_t)n;
}

static int check_record(void *user, const struct dns_record *record)
{
    struct question *q = user;
    const struct guarded *b = q->guarded;
    const struct policy_rule *rule = NULL;

    if (record->type == DNS_CNAME &&
        policy_judge_name(b->egress->always, b->policy, str_of(record->target), &rule) ==
            POLICY_DENY &&
        rule)
        q->refused = "alias of a denied name";
    else if (record->family && is_refused_address(b, record))
        q->refused = "address is not public, and no rule allows it";
    if (record->family)
        show_address(q, record);
    return 0;
}

static int learn_record(void *user, const struct dns_record *record)
{
    if (record->family)
        learn(user, record);
    return 0;
}

static void learn_work(struct pool_job *job)
{
    struct question *q = container_of(job, struct question, job);

    q->result =
        q->guarded->egress->enforcer->learn(q->guarded, q->entries, q->entry_count, &q->err);
}

static void learn_done(struct pool_job *job, int error)
{
    struct question *q = container_of(job, struct question, job);
    struct guarded *b = q->guarded;
    bool gone = b->gone;

    q->in_job = false;
    if (error || q->result < 0) {
        b->egress->stats.broker_errors++;
        if (!gone)
            log_event(LOG_WARN, "cannot open the addresses of a name, answering with an error",
                      LOG_STR("sandbox", b->id), LOG_STR("error", q->err.msg));
        LIST_EACH(&b->learned, at) /* the kernel may not have them */
        container_of(at, struct learned, link)->ends_ns = 0;
        question_fail(q, "the addresses could not be opened");
    } else {
        b->egress->stats.learned += q->entry_count;
        b->egress->stats.updates++;
        question_answer(q);
    }
    guarded_unref_job(b);
}

/* With the answer complete: checks it, programs its addresses, sends it. */
static void question_settle(struct question *q)
{
    struct guarded *b = q->guarded;
    struct egress *g = b->egress;
    struct str answer = buf_str(&q->answer);
    bool closed = b->policy->default_action == POLICY_DENY;

    (void)dns_answer_read(answer, answer, &q->q, check_record, q);
    if (q->refused) {
        question_deny(q, DNS_NXDOMAIN, q->refused);
        return;
    }
    if (closed || q->rule)
        (void)dns_answer_read(answer, answer, &q->q, learn_record, q);
    if (!closed || q->entry_count == 0) {
        question_answer(q);
        return;
    }
    b->jobs++;
    q->in_job = true;
    if (pool_submit(g->pool, &q->job, g->loop, learn_work, learn_done, 0) == 0)
        return;
    q->in_job = false;
    b->jobs--;
    question_refuse(q, DNS_SERVFAIL);
}

static void on_upstream(void *user, struct str answer)
{
    struct question *q = user;
    struct egress *g = q->r->egress;
    uint32_t ttl;

    q->ask = NULL;
    if (!answer.p || buf_add(&q->answer, answer) < 0) {
        g->stats.failed++;
        question_fail(q, "no resolver answered");
        return;
    }
    ttl = dns_ttl_min(answer);
    if (!q->tcp && !dns_is_truncated(answer))
        dns_cache_put(g->cache, buf_str(&q->message), answer, loop_now_ns(g->loop),
                      ttl == UINT32_MAX ? NEGATIVE_TTL_S : ttl);
    question_start(q); /* the policy may have changed meanwhile */
}

/* --- judging the question --- */

/* Questions of types without a use for connections, and long ones, may carry data to the owner of a
 * name. */
static bool may_carry_data(const struct dns_query *q)
{
    static const uint16_t usual[] = {1, 2, 5, 6, 12, 15, 28, 33, 64, 65};

    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (q->type == usual[i])
            return q->label_max >= LONG_LABEL || strlen(q->name) >= LONG_NAME;
    return true;
}

static bool take_token(struct guarded *b)
{
    uint64_t now = loop_now_ns(b->egress->loop);
    uint64_t more = (now - b->tokens_at_ns) / ((uint64_t)DATA_TOKEN_MS * 1000000);

    if (b->tokens_at_ns == 0 || b->tokens + more > DATA_TOKENS) {
        b->tokens = DATA_TOKENS;
        b->tokens_at_ns = now;
    } else {
        b->tokens += more;
        b->tokens_at_ns += more * DATA_TOKEN_MS * 1000000;
    }
    if (b->tokens == 0)
        return false;
    b->tokens--;
    return true;
}

/* NULL, or why the question is refused. */
static const char *reason_to_refuse(struct question *q)
{
    struct guarded *b = q->guarded;

    if (b->policy->default_action == POLICY_ALLOW)
        return NULL;
    if (q->q.type == DNS_AXFR || q->q.type == DNS_IXFR || q->q.type == DNS_ANY)
        return "type of question";
    if (may_carry_data(&q->q) && !take_token(b))
        return "too many questions that may carry data";
    return NULL;
}

static void ask_upstream(struct question *q)
{
    struct egress *g = q->r->egress;
    uint32_t age = 0;
    struct str cached = dns_cache_get(g->cache, buf_str(&q->message), loop_now_ns(g->loop), &age);
    const char *reason = reason_to_refuse(q);

    if (reason) {
        question_deny(q, DNS_REFUSED, reason);
        return;
    }
    if (cached.p && buf_add(&q->answer, cached) == 0) {
        q->age_s = age;
        g->stats.cached++;
        question_settle(q);
        return;
    }
    q->ask = dns_forward_ask(g->forward, buf_str(&q->message), q->tcp, on_upstream, q);
    if (!q->ask)
        question_refuse(q, DNS_SERVFAIL);
}

/* Judges a question of a known sandbox; with its answer if there is one already. */
static void question_start(struct question *q)
{
    struct guarded *b = q->guarded;

    if (!list_empty(&b->changes)) {
        list_remove(&q->link);
        list_push(&b->waiting, &q->link);
        return;
    }
    if (policy_judge_name(b->egress->always, b->policy, str_of(q->q.name), &q->rule) !=
        POLICY_ALLOW)
        question_deny(q, DNS_NXDOMAIN, "name is not allowed");
    else if (q->answer.n)
        question_settle(q);
    else
        ask_upstream(q);
}

static void question_of(struct question *q, struct guarded *b)
{
    q->guarded = b;
    list_remove(&q->link);
    list_push(&q->r->questions, &q->link);
    b->queries++;
    b->egress->stats.queries++;
    if (b->questions >= QUESTIONS_MAX) {
        question_refuse(q, DNS_SERVFAIL);
        return;
    }
    b->questions++;
    q->counted = true;
    question_start(q);
}

static void on_strangers(struct loop_timer *timer)
{
    struct resolver *r = container_of(timer, struct resolver, stranger_timer);
    struct list *at;

    while ((at = list_take(&r->strangers))) {
        r->stranger_count--;
        question_free(container_of(at, struct question, link));
    }
}

void resolver_go_on(struct guarded *b)
{
    struct resolver *r = b->egress->resolver;
    struct list *first;

    while (list_empty(&b->changes) && (first = list_take(&b->waiting))) {
        struct question *q = container_of(first, struct question, link);

        list_push(&r->questions, &q->link);
        question_start(q);
    }
    if (!r || !b->attached)
        return;
    LIST_EACH(&r->strangers, at)
    {
        struct question *q = container_of(at, struct question, link);

        if (guarded_by_addr(b->egress, &q->from) == b) {
            r->stranger_count--;
            question_of(q, b);
        }
    }
}

static void drop_of(struct guarded *b, struct list *head)
{
    LIST_EACH(head, at)
    {
        struct question *q = container_of(at, struct question, link);

        if (q->guarded == b && !q->in_job)
            question_free(q);
    }
}

void resolver_forget(struct guarded *b)
{
    drop_of(b, &b->waiting);
    if (b->egress->resolver)
        drop_of(b, &b->egress->resolver->questions);
}

/* Takes a message; the question answers or frees itself. */
static void take_message(struct resolver *r, struct str message, const struct sock_addr *from,
                         int sock, struct client *client)
{
    struct guarded *b = guarded_by_addr(r->egress, from);
    struct dns_query read;
    int rcode = dns_query_read(message, &read);
    struct question *q;

    if (rcode < 0 || (!b && r->stranger_count >= STRANGERS_MAX)) {
        if (client)
            client_close(client);
        return;
    }
    q = mem_new(struct question);
    q->r = r;
    q->q = read;
    q->from = *from;
    q->begin_ns = loop_now_ns(r->egress->loop);
    q->sock = sock;
    q->tcp = client != NULL;
    q->client = client;
    if (client)
        client->question = q;
    buf_init(&q->message, DNS_MESSAGE_MAX);
    buf_init(&q->answer, DNS_MESSAGE_MAX);
    list_push(&r->strangers, &q->link);
    if (buf_add(&q->message, message) < 0) {
        question_free(q);
    } else if (rcode > 0) {
        question_refuse(q, (enum dns_rcode)rcode);
    } else if (b) {
        question_of(q, b);
    } else { /* it may have been made just now */
        r->stranger_count++;
        if (!loop_timer_armed(&r->stranger_timer))
            loop_timer_after(r->egress->loop, &r->stranger_timer, STRANGER_MS, on_strangers);
    }
}

/* --- UDP --- */

static void on_udp(struct loop_io *io, uint32_t events UNUSED)
{
    struct udp_socket *u = container_of(io, struct udp_socket, io);
    struct loop *loop = u->r->egress->loop;

    for (int i = 0; i < DATAGRAMS_PER_EVENT; i++) {
        char *room = loop_scratch(loop);
        struct sock_addr from = {.size = sizeof(from.v6)};
        ssize_t n = recvfrom(u->fd, room, DNS_MESSAGE_MAX, MSG_DONTWAIT, &from.any, &from.size);

        if (n < 0)
            return;
        take_message(u->r, str_make(room, (size_t)n), &from, u->fd, NULL);
    }
}

/* --- TCP --- */

static void client_free(struct loop_task *task)
{
    struct client *c = container_of(task, struct client, free_task);

    buf_done(&c->in);
    buf_done(&c->out);
    free(c);
}

static void client_close(struct client *c)
{
    if (c->fd < 0)
        return;
    if (c->question)
        c->question->client = NULL;
    loop_io_stop(c->r->egress->loop, &c->io);
    loop_timer_stop(c->r->egress->loop, &c->idle);
    fd_close(take_fd(&c->fd));
    list_remove(&c->link);
    c->r->client_count--;
    loop_defer(c->r->egress->loop, &c->free_task, client_free);
}

static void on_idle(struct loop_timer *timer)
{
    client_close(container_of(timer, struct client, idle));
}

/* Takes the messages that are complete, until one is under way or its answer is not taken. */
static void client_go_on(struct client *c)
{
    while (c->fd >= 0 && !c->question && c->out.n == 0 && c->in.n >= LENGTH_BYTES) {
        size_t length = (size_t)((uint8_t)c->in.p[0] << 8 | (uint8_t)c->in.p[1]);
        AUTO_BUF(message, DNS_MESSAGE_MAX);

        if (c->in.n < LENGTH_BYTES + length)
            return;
        if (buf_add(&message, str_make(c->in.p + LENGTH_BYTES, length)) < 0) {
            client_close(c);
            return;
        }
        buf_drop_front(&c->in, LENGTH_BYTES + length);
        loop_timer_after(c->r->egress->loop, &c->idle, CLIENT_IDLE_MS, on_idle);
        take_message(c->r, buf_str(&message), &c->from, -EBADF, c);
    }
}

/* Not nested in the end of the question before: a client may send very many at once. */
static void on_next(struct loop_task *task)
{
    client_go_on(container_of(task, struct client, next_task));
}

/* A client that does not read its answers is not read from, either. */
static void on_room(struct client *c)
{
    ssize_t n = send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        client_close(c);
    if (n <= 0)
        return;
    buf_drop_front(&c->out, (size_t)n);
    if (c->out.n > 0)
        return;
    loop_io_set(c->r->egress->loop, &c->io, EPOLLIN);
    client_go_on(c);
}

static void on_input(struct client *c)
{
    char *room = loop_scratch(c->r->egress->loop);
    ssize_t n = recv(c->fd, room, DNS_MESSAGE_MAX, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || buf_add(&c->in, str_make(room, (size_t)n)) < 0)
        client_close(c); /* an answer that is under way is dropped */
    else
        client_go_on(c);
}

static void on_tcp(struct loop_io *io, uint32_t events UNUSED)
{
    struct client *c = container_of(io, struct client, io);

    if (c->out.n > 0)
        on_room(c);
    else
        on_input(c);
}

static void on_accept(struct sock_listener *l, int fd, const struct sock_addr *peer)
{
    struct tcp_socket *t = container_of(l, struct tcp_socket, listener);
    struct resolver *r = t->r;
    struct client *c;

    if (r->client_count >= CLIENTS_MAX) {
        fd_close(fd);
        return;
    }
    c = mem_new(struct client);
    *c = (struct client){.r = r, .fd = fd, .from = *peer};
    buf_init(&c->in, LENGTH_BYTES + 2 * DNS_MESSAGE_MAX);
    buf_init(&c->out, LENGTH_BYTES + DNS_MESSAGE_MAX);
    list_push(&r->clients, &c->link);
    r->client_count++;
    loop_timer_after(r->egress->loop, &c->idle, CLIENT_IDLE_MS, on_idle);
    if (loop_io_start(r->egress->loop, &c->io, fd, EPOLLIN, on_tcp, NULL) < 0)
        client_close(c);
}

/* --- life --- */

int resolver_socket(const struct sock_addr *at, int type, struct err *e)
{
    auto_fd fd = socket(at->any.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    bool v4 = at->any.sa_family == AF_INET;

    if (fd < 0)
        return err_sys(e, errno, "make a socket for sandboxes");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_FREEBIND : IPV6_FREEBIND, &on,
                   sizeof(on)) < 0 ||
        bind(fd, &at->any, at->size) < 0 ||
        (type == SOCK_STREAM && listen(fd, LISTEN_BACKLOG) < 0)) {
        char text[SOCK_ADDR_TEXT_MAX];
        int error = errno;

        sock_addr_format(at, text);
        return err_sys(e, error, "listen for sandboxes at %s", text);
    }
    return take_fd(&fd);
}

static int listen_at(struct resolver *r, const struct sock_addr *at, struct err *e)
{
    struct udp_socket *u = &r->udp[r->count];
    struct tcp_socket *t = &r->tcp[r->count];
    int fd = resolver_socket(at, SOCK_DGRAM, e);
    int result;

    if (fd < 0)
        return fd;
    u->r = t->r = r;
    u->fd = fd;
    r->count++;
    result = loop_io_start(r->egress->loop, &u->io, fd, EPOLLIN, on_udp, e);
    fd = result < 0 ? result : resolver_socket(at, SOCK_STREAM, e);
    return fd < 0 ? fd : sock_listener_start(&t->listener, r->egress->loop, fd, on_accept, e);
}

int resolver_start(struct egress *g, const struct broker_info *info, struct err *e)
{
    struct resolver *r = mem_new(struct resolver);
    struct sock_addr v4 = {.size = sizeof(v4.v4)}, v6 = {.size = sizeof(v6.v6)};
    int result;

    r->egress = g;
    list_init(&r->questions);
    list_init(&r->strangers);
    list_init(&r->clients);
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        r->udp[i].fd = r->tcp[i].listener.io.fd = -EBADF;
    g->resolver = r;
    v4.v4.sin_family = AF_INET;
    v4.v4.sin_port = htons(NETNS_DNS_PORT);
    v4.v4.sin_addr = info->gateway;
    v6.v6.sin6_family = AF_INET6;
    v6.v6.sin6_port = htons(NETNS_DNS_PORT);
    v6.v6.sin6_addr = info->gateway6;
    result = listen_at(r, &v4, e);
    if (result >= 0 && !IN6_IS_ADDR_UNSPECIFIED(&info->gateway6))
        result = listen_at(r, &v6, e);
    return result;
}

void resolver_free(struct resolver *r)
{
    struct list *lists[2], *at;

    if (!r)
        return;
    lists[0] = &r->questions;
    lists[1] = &r->strangers;
    loop_timer_stop(r->egress->loop, &r->stranger_timer);
    while (!list_empty(&r->clients))
        client_close(container_of(r->clients.next, struct client, link));
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        while ((at = list_take(lists[i])))
            question_free(container_of(at, struct question, link));
    for (size_t i = 0; i < r->count; i++) {
        loop_io_stop(r->egress->loop, &r->udp[i].io);
        fd_close(r->udp[i].fd);
        sock_listener_stop(&r->tcp[i].listener);
    }
    loop_settle(r->egress->loop);
    r->egress->resolver = NULL;
    free(r);
}
