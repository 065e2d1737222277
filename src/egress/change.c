/* change.c - puts policies in force: turns them into what the broker takes, one change of a sandbox
 * after the other. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha.h"
#include "egress/egress.h"

enum {
    KEEP_S = 60,       /* at least, for addresses that an earlier policy had learned */
    REMEMBER_S = 3600, /* for connections that outlive the time of their address */
    LEARNED_ENTRIES_MAX = 1024,
    DOH_PORT = 443,
    DNS_PORT = 53,
    MARK_TEXT_BYTES_MAX = 4 * POLICY_TEXT_BYTES_MAX,
    NS_PER_S = 1000000000,
};

struct change {
    struct list link;
    struct pool_job job;
    struct guarded *guarded;
    struct policy *policy; /* NULL: the one it has */
    struct netns_policy *rules;
    struct broker_sandbox at;
    change_done_fn *done;
    void *user;
    struct err err;
    int result;
    bool store;
    bool programmed; /* the broker has it, whatever happened afterwards */
};

/* --- calls to the broker --- */

static int connect_broker(struct egress *g, struct err *e)
{
    const struct broker_config config = {.role = BROKER_ROLE_EGRESS};

    if (!g->conf.broker)
        return g->conf.broker_fd >= 0 ? broker_adopt(&g->client, take_fd(&g->conf.broker_fd), e)
                                      : err_set(e, EPIPE, "the connection to the broker is lost");
    return broker_connect(&g->client, g->conf.broker, &config, e);
}

int broker_call(struct egress *g, broker_fn *fn, void *user, struct err *e)
{
    int r = -EPIPE;

    for (int tries = 0; tries < 2; tries++) {
        r = g->client.sock < 0 ? connect_broker(g, e) : 0;
        if (r == 0)
            r = fn(g, &g->client, user, e);
        if (g->client.sock >= 0 || r == -ETIMEDOUT)
            break;
    }
    return r;
}

/* --- policies as entries --- */

static void put(struct netns_policy *p, const struct netns_entry *entry)
{
    if (p->count < NETNS_POLICY_ENTRIES_MAX)
        p->entries[p->count++] = *entry;
}

static struct netns_entry entry_of(const struct policy_rule *rule)
{
    struct netns_entry entry = {
        .kind = rule->action == POLICY_ALLOW ? NETNS_ALLOW : NETNS_DENY,
        .family = rule->net.family,
        .bits = rule->net.bits,
        .protocol = rule->protocol,
    };

    memcpy(entry.addr, rule->net.addr, sizeof(entry.addr));
    return entry;
}

static void put_rules(struct netns_policy *p, const struct policy *policy, uint16_t only_port)
{
    for (size_t i = 0; i < policy->count; i++) {
        const struct policy_rule *rule = &policy->rules[i];
        struct netns_entry entry;

        if (rule->kind != POLICY_NET)
            continue;
        entry = entry_of(rule);
        entry.port_from = entry.port_to = only_port;
        if (rule->port_count == 0)
            put(p, &entry);
        for (size_t k = 0; k < rule->port_count; k++) {
            entry.port_from = rule->ports[k].from;
            entry.port_to = rule->ports[k].to;
            put(p, &entry);
        }
    }
}

/* All of TCP port 443: encrypted DNS cannot be told from other traffic. */
static void put_no_https(struct netns_policy *p)
{
    static const uint8_t families[] = {AF_INET, AF_INET6};

    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        put(p, &(struct netns_entry){.kind = NETNS_DENY,
                                     .family = families[i],
                                     .protocol = IPPROTO_TCP,
                                     .port_from = DOH_PORT,
                                     .port_to = DOH_PORT});
}

size_t change_entries(const struct policy_rule *rule, int family, const void *addr,
                      uint32_t seconds, struct netns_entry *ret, size_t max)
{
    static const uint8_t both[] = {IPPROTO_TCP, IPPROTO_UDP};
    struct netns_entry entry = {.kind = NETNS_LEARNED,
                                .family = (uint8_t)family,
                                .bits = family == AF_INET ? 32 : 128,
                                .seconds = seconds};
    size_t n = 0;

    memcpy(entry.addr, addr, family == AF_INET ? 4 : 16);
    if (!rule || rule->port_count == 0) {
        entry.protocol = rule ? rule->protocol : 0;
        if (n < max)
            ret[n++] = entry;
        return n;
    }
    for (size_t i = 0; i < rule->port_count; i++)
        for (size_t k = 0; k < ARRAY_LEN(both) && n < max; k++) {
            if (rule->protocol && rule->protocol != both[k])
                continue;
            entry.protocol = both[k];
            entry.port_from = entry.port_to = rule->ports[i].from;
            ret[n++] = entry;
        }
    return n;
}

/* Addresses of names that the policy still allows, so that their connections go on. */
static void put_learned(struct netns_policy *p, const struct guarded *b,
                        const struct policy *policy)
{
    uint64_t now = loop_now_ns(b->egress->loop);
    size_t before = p->count;

    for (struct list *at = b->learned.prev; at != &b->learned; at = at->prev) { /* newest first */
        const struct learned *l = container_of(at, struct learned, link);
        const struct policy_rule *rule = NULL;
        uint64_t left = l->ends_ns > now ? (l->ends_ns - now) / NS_PER_S : 0;

        if (l->ends_ns + (uint64_t)REMEMBER_S * NS_PER_S < now ||
            policy_judge_name(b->egress->always, policy, str_of(l->name), &rule) != POLICY_ALLOW ||
            p->count - before >= LEARNED_ENTRIES_MAX)
            continue;
        p->count += (uint32_t)change_entries(
            rule, l->family, l->addr, left < KEEP_S ? KEEP_S : (uint32_t)left,
            &p->entries[p->count], NETNS_POLICY_ENTRIES_MAX - p->count);
    }
}

static uint32_t random_mark(void)
{
    uint32_t mark;

    while (getrandom(&mark, sizeof(mark), 0) != sizeof(mark) || mark == 0)
        ;
    return mark;
}

/* The same for the same rules: connections outlive a restart of a sidecar, which has no memory of
 * the addresses that names led to. */
static uint32_t mark_of(const struct policy *always, const struct policy *policy)
{
    AUTO_BUF(text, MARK_TEXT_BYTES_MAX);
    uint8_t digest[SHA256_BYTES];
    uint32_t mark;

    if (policy_write(always, &text) < 0 || policy_write(policy, &text) < 0)
        return random_mark();
    sha256_of(buf_str(&text), digest);
    memcpy(&mark, digest, sizeof(mark));
    return mark ? mark : 1;
}

static struct netns_policy *compile(const struct guarded *b, const struct policy *policy)
{
    const struct egress *g = b->egress;
    struct netns_policy *p = mem_alloc(sizeof(*p));

    p->count = 0;
    p->flags = (policy->default_action == POLICY_ALLOW ? NETNS_DEFAULT_ALLOW : 0) |
               (g->conf.block_quic ? NETNS_NO_QUIC : 0) | (b->intercept ? NETNS_INTERCEPT : 0);
    p->mark = g->only ? mark_of(g->always, policy) : random_mark();
    put_rules(p, g->always, 0);
    put_rules(p, policy, 0);
    put_rules(p, g->doh, DOH_PORT);
    if (g->exempt)
        put_rules(p, g->exempt, DNS_PORT);
    if (g->conf.block_doh && g->doh->count == 0)
        put_no_https(p);
    put_learned(p, b, policy);
    return p;
}

/* --- one change --- */

/* Program, then store: what a client was told is in force and stays so. If storing fails the old
 * policy, which the loop has kept, is put in force again. */
static void change_work(struct pool_job *job)
{
    struct change *c = container_of(job, struct change, job);
    struct guarded *b = c->guarded;

    c->result = b->egress->enforcer->set(b, c->rules, &c->at, &c->err);
    c->programmed = c->result == 0;
    if (c->result == -ENOENT && c->store)
        c->result = 0; /* not running: in force when it does */
    if (c->result < 0)
        (void)err_wrap(&c->err, c->result, "failed to apply nftables policy");
    if (c->result == 0 && c->store) {
        c->result = b->egress->enforcer->save(b, c->policy ? c->policy : b->policy, &c->err);
        if (c->result < 0)
            (void)err_wrap(&c->err, c->result, "failed to persist policy");
    }
}

static void change_next(struct guarded *b);

static void change_free(struct change *c)
{
    policy_free(c->policy);
    free(c->rules);
    free(c);
}

/* Of a sandbox that was removed. */
static void change_drop_all(struct guarded *b)
{
    struct list *at;

    while ((at = list_take(&b->changes))) {
        struct change *c = container_of(at, struct change, link);

        b->change_count--;
        (void)err_set(&c->err, ENOENT, "the sandbox was removed");
        c->done(c->user, -ENOENT, &c->err);
        change_free(c);
    }
}

static void change_ignore(void *user UNUSED, int result UNUSED, const struct err *e UNUSED)
{
}

static void change_done(struct pool_job *job, int error)
{
    struct change *c = container_of(job, struct change, job);
    struct guarded *b = c->guarded;

    if (error)
        c->result = err_set(&c->err, error, "shutting down");
    list_remove(&c->link);
    b->change_count--;
    if (c->result == 0) {
        if (c->policy) {
            struct policy *old = b->policy;

            b->policy = c->policy;
            b->given = true;
            c->policy = old;
            catcher_policy_changed(b);
        }
        if (c->at.address.s_addr && !b->gone)
            guarded_place(b, &c->at);
        b->egress->stats.changes++;
        b->egress->stats.updates++;
        b->egress->stats.rules = c->rules->count;
    } else if (c->result != -ENOENT) {
        b->egress->stats.broker_errors++;
    }
    c->done(c->user, c->result, &c->err);
    if (c->result < 0 && c->programmed && !b->gone) /* stored it is not: back to the old one */
        change_start(b, NULL, false, change_ignore, NULL);
    else if (!b->gone)
        change_next(b);
    else
        change_drop_all(b);
    change_free(c);
    guarded_unref_job(b);
}

/* Starts the first change that waits. */
static void change_next(struct guarded *b)
{
    struct egress *g = b->egress;
    struct list *at;

    while ((at = list_first(&b->changes))) {
        struct change *c = container_of(at, struct change, link);

        b->jobs++;
        c->rules = compile(b, c->policy ? c->policy : b->policy);
        if (pool_submit(g->pool, &c->job, g->loop, change_work, change_done, 0) == 0)
            return;
        b->jobs--;
        list_remove(&c->link);
        b->change_count--;
        (void)err_set(&c->err, EAGAIN, "too much to do");
        c->done(c->user, -EAGAIN, &c->err);
        change_free(c);
    }
    resolver_go_on(b);
}

void change_start(struct guarded *b, struct policy *policy, bool store, change_done_fn *done,
                  void *user)
{
    struct change *c = mem_new(struct change);
    bool first = list_empty(&b->changes);

    *c =
        (struct change){.guarded = b, .policy = policy, .store = store, .done = done, .user = user};
    list_push(&b->changes, &c->link);
    b->change_count++;
    if (first)
        change_next(b);
}
