/* judge.c - asks a policy. */
#include <string.h>
#include <sys/socket.h>

#include "egress/policy/policy.h"

bool policy_rule_matches(const struct policy_rule *rule, struct str name)
{
    if (rule->kind == POLICY_NAME)
        return str_eq_nocase(rule->name, name);
    if (rule->kind != POLICY_SUFFIX || name.n < rule->name.n + 2)
        return false;
    return name.p[name.n - rule->name.n - 1] == '.' &&
           str_eq_nocase(str_skip(name, name.n - rule->name.n), rule->name);
}

const struct policy_rule *policy_rule_of_name(const struct policy *p, struct str name)
{
    for (size_t i = 0; p && i < p->count; i++) {
        const struct policy_rule *rule = &p->rules[i];

        if (policy_rule_matches(rule, name) &&
            (rule->action == POLICY_ALLOW || !policy_rule_is_http(rule)))
            return rule;
    }
    return NULL;
}

enum policy_action policy_judge_name(const struct policy *always, const struct policy *p,
                                     struct str name, const struct policy_rule **ret_rule)
{
    const struct policy_rule *rule = policy_rule_of_name(always, name);

    if (!rule)
        rule = policy_rule_of_name(p, name);
    if (ret_rule)
        *ret_rule = rule;
    return rule ? rule->action : p->default_action;
}

bool policy_rule_covers(const struct policy_rule *rule, uint8_t protocol, uint16_t port)
{
    if (rule->protocol && rule->protocol != protocol)
        return false;
    for (size_t i = 0; i < rule->port_count; i++)
        if (port >= rule->ports[i].from && port <= rule->ports[i].to)
            return true;
    return rule->port_count == 0;
}

bool policy_net_has(const struct policy_net *net, int family, const void *addr)
{
    const uint8_t *a = addr;
    size_t whole = net->bits / 8, rest = net->bits % 8;

    if (net->family != family || memcmp(a, net->addr, whole) != 0)
        return false;
    return rest == 0 || (a[whole] & (0xff << (8 - rest) & 0xff)) == net->addr[whole];
}

static bool any_net(const struct policy *p, enum policy_action action, int family, const void *addr,
                    uint8_t protocol, uint16_t port)
{
    for (size_t i = 0; p && i < p->count; i++) {
        const struct policy_rule *r = &p->rules[i];

        if (r->kind == POLICY_NET && r->action == action && policy_net_has(&r->net, family, addr) &&
            policy_rule_covers(r, protocol, port))
            return true;
    }
    return false;
}

enum policy_action policy_judge_addr(const struct policy *always, const struct policy *p,
                                     int family, const void *addr, uint8_t protocol, uint16_t port)
{
    if (any_net(always, POLICY_DENY, family, addr, protocol, port) ||
        any_net(p, POLICY_DENY, family, addr, protocol, port))
        return POLICY_DENY;
    return any_net(always, POLICY_ALLOW, family, addr, protocol, port) ||
                   any_net(p, POLICY_ALLOW, family, addr, protocol, port)
               ? POLICY_ALLOW
               : POLICY_NO_RULE;
}

/* Whether a rule allows all that `host` stands for, whatever rules before it say. */
static bool covers_host(const struct policy *p, struct str host, bool wildcard)
{
    for (size_t i = 0; p && i < p->count; i++) {
        const struct policy_rule *r = &p->rules[i];

        if (r->action != POLICY_ALLOW || r->kind == POLICY_NET)
            continue;
        if (!wildcard && policy_rule_matches(r, host))
            return true;
        if (wildcard && r->kind == POLICY_SUFFIX &&
            (str_eq_nocase(r->name, host) || policy_rule_matches(r, host)))
            return true;
    }
    return false;
}

bool policy_allows_explicitly(const struct policy *always, const struct policy *p, struct str host)
{
    bool wildcard = str_starts(host, STR("*."));
    struct str name = wildcard ? str_skip(host, 2) : host;
    char probe[POLICY_NAME_BYTES_MAX + sizeof("probe.")];

    if (name.n == 0 || name.n > POLICY_NAME_BYTES_MAX ||
        (!covers_host(always, name, wildcard) && !covers_host(p, name, wildcard)))
        return false;
    if (wildcard) {
        memcpy(probe, "probe.", sizeof("probe.") - 1);
        memcpy(probe + sizeof("probe.") - 1, name.p, name.n);
        name = str_make(probe, sizeof("probe.") - 1 + name.n);
    }
    return policy_judge_name(always, p, name, NULL) == POLICY_ALLOW;
}

const char *policy_mode(const struct policy *p)
{
    if (p->count)
        return "enforcing";
    return p->default_action == POLICY_ALLOW ? "allow_all" : "deny_all";
}

/* --- addresses that a name must not lead to --- */

static const struct policy_net special[] = {
    {AF_INET,  8,  {0}                        },
    {AF_INET,  8,  {10}                       },
    {AF_INET,  10, {100, 64}                  }, /* shared, and Alibaba */
    {AF_INET,  8,  {127}                      },
    {AF_INET,  16, {169, 254}                 }, /* metadata */
    {AF_INET,  12, {172, 16}                  },
    {AF_INET,  32, {168, 63, 129, 16}         }, /* Azure */
    {AF_INET,  24, {192, 0, 0}                },
    {AF_INET,  16, {192, 168}                 },
    {AF_INET,  15, {198, 18}                  }, /* benchmarks */
    {AF_INET,  4,  {224}                      }, /* multicast */
    {AF_INET,  4,  {240}                      },
    {AF_INET6, 96, {0}                        }, /* ::, ::1, ::a.b.c.d */
    {AF_INET6, 96, {[10] = 0xff, [11] = 0xff} }, /* ::ffff:a.b.c.d */
    {AF_INET6, 96, {[8] = 0xff, [9] = 0xff}   }, /* SIIT */
    {AF_INET6, 48, {0, 0x64, 0xff, 0x9b, 0, 1}}, /* local NAT64 */
    {AF_INET6, 32, {0x20, 0x01}               }, /* Teredo */
    {AF_INET6, 7,  {0xfc}                     }, /* private */
    {AF_INET6, 10, {0xfe, 0x80}               }, /* link-local */
    {AF_INET6, 10, {0xfe, 0xc0}               }, /* site-local */
    {AF_INET6, 8,  {0xff}                     }, /* multicast */
};

static bool in_special(int family, const void *addr)
{
    for (size_t i = 0; i < ARRAY_LEN(special); i++)
        if (policy_net_has(&special[i], family, addr))
            return true;
    return false;
}

bool policy_addr_is_special(int family, const void *addr)
{
    static const struct policy_net nat64 = {
        AF_INET6, 96, {0, 0x64, 0xff, 0x9b}
    };
    static const struct policy_net six_to_four = {
        AF_INET6, 16, {0x20, 0x02}
    };
    const uint8_t *a = addr;

    if (in_special(family, addr))
        return true;
    if (policy_net_has(&nat64, family, addr))
        return in_special(AF_INET, a + 12);
    return policy_net_has(&six_to_four, family, addr) && in_special(AF_INET, a + 2);
}

bool policy_addr_is_private(int family, const void *addr)
{
    static const struct policy_net nets[] = {
        {AF_INET,  8,  {10}      },
        {AF_INET,  10, {100, 64} },
        {AF_INET,  12, {172, 16} },
        {AF_INET,  16, {192, 168}},
        {AF_INET6, 7,  {0xfc}    },
    };

    for (size_t i = 0; i < ARRAY_LEN(nets); i++)
        if (policy_net_has(&nets[i], family, addr))
            return true;
    return false;
}
