#include "egress/hooks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "egress/dns/message.h"

enum { DOH_PORT = 443, QUERY_MAX = 512 };

struct target {
    int family;
    const uint8_t *addr;
    uint16_t port;
};

static struct target target_of(const struct sock_addr *to)
{
    bool v6 = to->any.sa_family == AF_INET6;

    return (struct target){
        .family = v6 ? AF_INET6 : AF_INET,
        .addr = v6 ? (const uint8_t *)&to->v6.sin6_addr : (const uint8_t *)&to->v4.sin_addr,
        .port = sock_addr_port(to),
    };
}

static bool is_same(const struct learned *l, const struct target *t)
{
    return l->family == t->family && memcmp(l->addr, t->addr, t->family == AF_INET ? 4 : 16) == 0;
}

/* Whether an allowed name, this one unless it is empty, led to the address. */
static bool was_learned(const struct guarded *b, struct str name, const struct target *t)
{
    for (const struct list *at = b->learned.next; at != &b->learned; at = at->next) {
        const struct learned *l = container_of(at, struct learned, link);
        const struct policy_rule *rule = NULL;

        if (!is_same(l, t) || (name.n && !str_eq_nocase(str_of(l->name), name)))
            continue;
        if (policy_judge_name(b->egress->always, b->policy, str_of(l->name), &rule) ==
                POLICY_ALLOW &&
            (!rule || policy_rule_covers(rule, IPPROTO_TCP, t->port)))
            return true;
    }
    return false;
}

/* NULL, or why not. */
static const char *reason_against(const struct guarded *b, struct str name, const struct target *t)
{
    const struct egress *g = b->egress;
    enum policy_action by_addr =
        policy_judge_addr(g->always, b->policy, t->family, t->addr, IPPROTO_TCP, t->port);

    if (by_addr == POLICY_DENY)
        return "address is denied";
    if (t->port == DOH_PORT &&
        (policy_judge_addr(g->doh, g->doh, t->family, t->addr, 0, 0) == POLICY_DENY ||
         (g->conf.block_doh && g->doh->count == 0)))
        return "address is of encrypted DNS";
    if (name.n && policy_judge_name(g->always, b->policy, name, NULL) != POLICY_ALLOW)
        return "name is not allowed";
    if (by_addr == POLICY_ALLOW || b->policy->default_action == POLICY_ALLOW ||
        was_learned(b, name, t))
        return NULL;
    return name.n ? "address is not one of the name" : "address is not allowed";
}

int hooks_may_connect(struct guarded *b, struct str name, const struct sock_addr *to, struct err *e)
{
    const struct target t = target_of(to);
    const char *reason = reason_against(b, name, &t);
    char text[SOCK_ADDR_TEXT_MAX];

    if (!reason)
        return 0;
    sock_addr_format(to, text);
    b->denied++;
    b->egress->stats.denied++;
    guarded_event(b, "egress.deny", reason, name.n ? name : str_of(text));
    return err_set(e, EACCES, "%s: %s", text, reason);
}

bool hooks_host_allowed(const struct guarded *b, const struct policy *policy, struct str host)
{
    return policy_allows_explicitly(b->egress->always, policy, host);
}

/* --- whose address --- */

struct asking {
    struct dns_query asked;
    char addr[16];
    int family;
    bool found;
    hooks_done_fn *done;
    void *user;
};

static int compare_record(void *user, const struct dns_record *record)
{
    struct asking *a = user;

    if (record->family == a->family &&
        memcmp(record->addr, a->addr, a->family == AF_INET ? 4 : 16) == 0)
        a->found = true;
    return 0;
}

static void on_answer(void *user, struct str answer)
{
    struct asking *a = user;
    int rcode = answer.p ? dns_answer_read(answer, answer, &a->asked, compare_record, a) : -EIO;

    a->done(a->user, rcode == DNS_NXDOMAIN || a->found);
    free(a);
}

/* A question for the addresses of a name; 0 when it is no name. */
static size_t write_question(struct str name, uint16_t type, char out[QUERY_MAX])
{
    static const char head[12] = {0, 1, 1, 0, 0, 1};
    struct str label;
    size_t n = sizeof(head);

    memcpy(out, head, sizeof(head));
    while (str_cut(&name, '.', &label)) {
        if (label.n == 0 || label.n > 63 || n + label.n + 6 > QUERY_MAX / 2)
            return 0;
        out[n++] = (char)label.n;
        memcpy(out + n, label.p, label.n);
        n += label.n;
    }
    memcpy(out + n, (const char[]){0, (char)(type >> 8), (char)type, 0, 1}, 5);
    return n + 5;
}

void hooks_is_address_of(struct guarded *b, struct str name, const struct sock_addr *to,
                         hooks_done_fn *done, void *user)
{
    const struct target t = target_of(to);
    struct asking *a;
    char question[QUERY_MAX];
    size_t n = write_question(name, t.family == AF_INET ? DNS_A : DNS_AAAA, question);

    if (was_learned(b, name, &t) || n == 0) {
        done(user, n != 0);
        return;
    }
    a = mem_new(struct asking);
    *a = (struct asking){.family = t.family, .done = done, .user = user};
    memcpy(a->addr, t.addr, t.family == AF_INET ? 4 : 16);
    if (dns_query_read(str_make(question, n), &a->asked) != 0 ||
        !dns_forward_ask(b->egress->forward, str_make(question, n), false, on_answer, a)) {
        free(a);
        done(user, false);
    }
}
