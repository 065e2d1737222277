/* policy.h - what a sandbox may talk to: rules by name and by address, and an action for the rest.
 *
 *   {"defaultAction":"deny","egress":[
 *       {"action":"allow","target":"*.example.org"},
 *       {"action":"allow","target":"203.0.113.0/24","protocol":"tcp","ports":[443,"8000-8080"]},
 *       {"action":"allow","target":"api.test","methods":["GET"],"paths":["/v1/models"]}]}
 *
 * Names: of all rules that match, the first counts. Addresses: any deny counts before any allow.
 * Rules of the operator ("always") come before those of the sandbox. A policy does not change once
 * it is made. Nothing here blocks or touches a socket. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include <netinet/in.h>

enum {
    POLICY_RULES_MAX = 4096,             /* unless the configuration has another limit */
    POLICY_NETS_MAX = 512,               /* rules by address */
    POLICY_PORTS_MAX = 16,               /* ports and ranges of one rule */
    POLICY_NAME_PORTS_MAX = 16,          /* of a rule by name: each port alone */
    POLICY_TEXT_BYTES_MAX = 1024 * 1024, /* of its JSON */
    POLICY_NAME_BYTES_MAX = 253,
    POLICY_HTTP_MAX = 64, /* methods, and paths, of one rule */
};

enum policy_action { POLICY_DENY, POLICY_ALLOW, POLICY_NO_RULE };

/* An address or a network. */
struct policy_net {
    uint8_t family; /* AF_INET, AF_INET6 */
    uint8_t bits;
    uint8_t addr[16]; /* network order; bits behind `bits` are 0 */
};

struct policy_ports {
    uint16_t from, to;
};

struct policy_rule {
    enum policy_action action;
    enum policy_kind {
        POLICY_NAME,   /* "api.example.org" */
        POLICY_SUFFIX, /* "*.example.org": all names below, not example.org itself */
        POLICY_NET,
    } kind;
    struct str target; /* as it was given, trimmed */
    struct str name;   /* lower-case, without "*."; of rules by name */
    struct policy_net net;
    uint8_t protocol; /* IPPROTO_TCP, _UDP, _ICMP (with ICMPv6); 0 = any */
    struct policy_ports *ports;
    size_t port_count; /* 0 = all */
    /* Of HTTP requests, where they are intercepted; none = all. A rule with any of them that denies
     * does not deny the name. */
    struct str *methods, *paths; /* upper case; "/v1/models", and "/v1/" with a star behind it */
    size_t method_count, path_count;
};

struct policy {
    struct arena arena;
    enum policy_action default_action;
    struct policy_rule *rules;
    size_t count, net_count;
};

/* --- making one; the caller frees it; errors name the rule, and say what would be right --- */

void policy_free(struct policy *p); /* accepts NULL */
#define auto_policy __attribute__((cleanup(policy_clean))) struct policy
static inline void policy_clean(struct policy **p)
{
    policy_free(*p);
}

/* A policy without rules. */
struct policy *policy_plain(enum policy_action default_action);
/* "null" and "{}" are deny-all; keys match in any case, unknown ones are ignored. -EBADMSG. */
int policy_parse(struct str json, struct policy **ret, struct err *e);
/* `rules` is a JSON array, not empty: they come first, and later rules of `old` with the same
 * target (in any case) are dropped. -EBADMSG. */
int policy_patch(const struct policy *old, struct str rules, struct policy **ret, struct err *e);
/* `targets` is a JSON array of strings, not empty: drops rules with these targets, in any case.
 * *ret_removed is their number. -EBADMSG. */
int policy_without(const struct policy *old, struct str targets, struct policy **ret,
                   size_t *ret_removed, struct err *e);
/* The operator's lists: targets one by one. The default action is meaningless. */
int policy_always(const struct str *deny, size_t deny_count, const struct str *allow,
                  size_t allow_count, struct policy **ret, struct err *e);

/* Appends {"egress":[...],"defaultAction":"deny"}. */
int policy_write(const struct policy *p, struct buf *out);
/* "deny_all", "allow_all", "enforcing". */
const char *policy_mode(const struct policy *p);

/* --- asking: `always` may be NULL --- */

/* The action for a name, lower or upper case, without final dot; the default if no rule matches.
 * *ret_rule is the rule, or NULL. */
enum policy_action policy_judge_name(const struct policy *always, const struct policy *p,
                                     struct str name, const struct policy_rule **ret_rule);
/* The action of the rules for an address; POLICY_NO_RULE when none says anything. port 0: rules
 * with ports do not count. protocol 0: rules with a protocol do not count. */
enum policy_action policy_judge_addr(const struct policy *always, const struct policy *p,
                                     int family, const void *addr, uint8_t protocol, uint16_t port);
/* Whether a rule, and not the default, allows the host; "*.x" needs a rule that covers all of it,
 * and is judged as "probe.x". */
bool policy_allows_explicitly(const struct policy *always, const struct policy *p, struct str host);
/* The action for a request to a name that may be connected to: of the rules for the name that match
 * method and path, the first counts, else the default. POLICY_NO_RULE when no rule for the name has
 * methods or paths. `path`: normalised, without the query; STR_NONE if it cannot be, and no rule
 * with paths allows it. */
enum policy_action policy_judge_request(const struct policy *always, const struct policy *p,
                                        struct str name, struct str method, struct str path);
bool policy_has_http(const struct policy *p); /* any rule with methods or paths */
bool policy_rule_is_http(const struct policy_rule *rule);
/* The first rule that judges the name as such; NULL = none, and for `p` of NULL. */
const struct policy_rule *policy_rule_of_name(const struct policy *p, struct str name);
/* Whether a rule matches a name. */
bool policy_rule_matches(const struct policy_rule *rule, struct str name);
/* Whether the rule is for this protocol and port. */
bool policy_rule_covers(const struct policy_rule *rule, uint8_t protocol, uint16_t port);
bool policy_net_has(const struct policy_net *net, int family, const void *addr);

/* "10.0.0.0/8", "2001:db8::1". -EINVAL for other text. */
int policy_net_parse(struct str text, struct policy_net *ret);

/* Addresses that no name may lead to unless a rule allows the address: loopback, private,
 * link-local, metadata, multicast and other special ones, and IPv6 forms of such IPv4 addresses. */
bool policy_addr_is_special(int family, const void *addr);
bool policy_addr_is_private(int family, const void *addr); /* RFC 1918, 6598, 4193 */
