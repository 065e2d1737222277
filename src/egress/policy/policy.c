/* policy.c - policies from JSON and back. */
#include "egress/policy/policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "egress/policy/policy_internal.h"

enum {
    ARENA_BYTES_MAX = 8 * 1024 * 1024,
    TREE_BYTES_MAX = 16 * 1024 * 1024,
    ADDRESS_TEXT_MAX = INET6_ADDRSTRLEN + 4,
    SHOWN_MAX = 80,
};

static const struct protocol_name {
    struct str name;
    uint8_t protocol;
} protocols[] = {
    {STR_INIT("any"),  0           },
    {STR_INIT("tcp"),  IPPROTO_TCP },
    {STR_INIT("udp"),  IPPROTO_UDP },
    {STR_INIT("icmp"), IPPROTO_ICMP},
};

static struct policy *policy_new(size_t room)
{
    struct policy *p = mem_new(struct policy);

    arena_init(&p->arena, ARENA_BYTES_MAX);
    p->rules = arena_alloc(&p->arena, (room ? room : 1) * sizeof(struct policy_rule));
    if (!p->rules) {
        arena_done(&p->arena);
        free(p);
        return NULL;
    }
    return p;
}

void policy_free(struct policy *p)
{
    if (!p)
        return;
    arena_done(&p->arena);
    free(p);
}

struct policy *policy_plain(enum policy_action default_action)
{
    struct policy *p = policy_new(0);

    if (p)
        p->default_action = default_action;
    return p;
}

/* --- targets --- */

static void mask_net(struct policy_net *net)
{
    for (size_t i = net->bits; i < 128; i++)
        net->addr[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
}

int policy_net_parse(struct str text, struct policy_net *ret)
{
    struct policy_net net = {0};
    char host[ADDRESS_TEXT_MAX];
    struct str rest = text, address;
    uint64_t bits;

    if (!str_cut(&rest, '/', &address) || str_copy(host, sizeof(host), address) < 0)
        return -EINVAL;
    net.family = inet_pton(AF_INET, host, net.addr) == 1    ? AF_INET
                 : inet_pton(AF_INET6, host, net.addr) == 1 ? AF_INET6
                                                            : 0;
    if (!net.family)
        return -EINVAL;
    bits = net.family == AF_INET ? 32 : 128;
    if (rest.p && str_to_u64_range(rest, 0, bits, &bits) < 0)
        return -EINVAL;
    net.bits = (uint8_t)bits;
    mask_net(&net);
    *ret = net;
    return 0;
}

static bool is_name(struct str name)
{
    size_t label = 0;

    if (name.n == 0 || name.n > POLICY_NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (c == '.') {
            if (label == 0)
                return false;
            label = 0;
        } else if (ascii_is_alpha(c) || ascii_is_digit(c) || c == '-' || c == '_') {
            if (++label > 63)
                return false;
        } else {
            return false;
        }
    }
    return label > 0;
}

/* A name of digits and dots is no name: it is an address that was not understood. */
static bool looks_like_address(struct str name)
{
    size_t dot = name.n;

    while (dot > 0 && name.p[dot - 1] != '.')
        dot--;
    for (size_t i = dot; i < name.n; i++)
        if (!ascii_is_digit(name.p[i]))
            return false;
    return true;
}

static struct str lower(struct arena *a, struct str s)
{
    char *copy = arena_alloc(a, s.n + 1);

    if (!copy)
        return STR_NONE;
    for (size_t i = 0; i < s.n; i++)
        copy[i] = ascii_lower(s.p[i]);
    copy[s.n] = '\0';
    return str_make(copy, s.n);
}

static int set_target(struct policy *p, struct policy_rule *rule, struct str text, struct err *e)
{
    struct str target = str_trim(text), name = target;
    struct str shown = str_make(target.p, target.n > SHOWN_MAX ? SHOWN_MAX : target.n);

    if (target.n == 0)
        return err_set(e, EBADMSG, "egress target cannot be empty");
    rule->target = arena_str(&p->arena, target);
    if (policy_net_parse(target, &rule->net) == 0) {
        rule->kind = POLICY_NET;
        p->net_count++;
        return rule->target.p ? 0 : -ENOMEM;
    }
    rule->kind = str_starts(name, STR("*.")) ? POLICY_SUFFIX : POLICY_NAME;
    if (rule->kind == POLICY_SUFFIX)
        name = str_skip(name, 2);
    if (name.n > 1 && name.p[name.n - 1] == '.')
        name.n--;
    if (!is_name(name) || looks_like_address(name))
        return err_set(e, EBADMSG,
                       "target '%.*s' is no address, network or name; write 'example.org', "
                       "'*.example.org', '203.0.113.7' or '203.0.113.0/24'",
                       STR_ARG(shown));
    rule->name = lower(&p->arena, name);
    return rule->target.p && rule->name.p ? 0 : err_set(e, ENOMEM, "out of memory for rules");
}

/* --- rules --- */

static bool key_is(const struct json *member, struct str name)
{
    return str_eq_nocase(member->key, name);
}

/* A string, trimmed; null is "". */
static int word_of(const struct json *v, struct str *ret, struct err *e)
{
    *ret = STR("");
    if (v->type == JSON_NULL)
        return 0;
    if (v->type != JSON_STRING)
        return err_set(e, EBADMSG, "%.*s: expected a string, got %s", STR_ARG(v->key),
                       json_type_name(v));
    *ret = str_trim(v->string);
    return 0;
}

static int action_of(const struct json *v, enum policy_action *ret, struct err *e)
{
    struct str word;
    int r = word_of(v, &word, e);

    if (r < 0)
        return r;
    if (word.n == 0 || str_eq_nocase(word, STR("deny")))
        *ret = POLICY_DENY;
    else if (str_eq_nocase(word, STR("allow")))
        *ret = POLICY_ALLOW;
    else
        return err_set(e, EBADMSG, "unsupported %.*s '%.*s'; write 'allow' or 'deny'",
                       STR_ARG(v->key), (int)min_size(word.n, SHOWN_MAX), word.p);
    return 0;
}

static int protocol_of(const struct json *v, uint8_t *ret, struct err *e)
{
    struct str word;
    int r = word_of(v, &word, e);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(protocols); i++)
        if (str_eq_nocase(word, protocols[i].name) || word.n == 0) {
            *ret = protocols[i].protocol;
            return 0;
        }
    return r < 0 ? r
                 : err_set(e, EBADMSG,
                           "unsupported protocol '%.*s'; write 'tcp', 'udp', 'icmp' or "
                           "'any'",
                           (int)min_size(word.n, SHOWN_MAX), word.p);
}

static int one_port(const struct json *v, struct policy_ports *ret)
{
    struct str text, from;
    uint64_t number;

    if (json_to_u64(v, &number) == 0) {
        *ret = (struct policy_ports){(uint16_t)number, (uint16_t)number};
        return number >= 1 && number <= UINT16_MAX ? 0 : -EINVAL;
    }
    if (json_to_str(v, &text) < 0 || !str_cut(&text, '-', &from) ||
        str_to_u16(from, &ret->from) < 0 || ret->from == 0)
        return -EINVAL;
    ret->to = ret->from;
    if (text.p && str_to_u16(text, &ret->to) < 0)
        return -EINVAL;
    return ret->to >= ret->from ? 0 : -EINVAL;
}

static int ports_of(struct policy *p, const struct json *v, struct policy_rule *rule, struct err *e)
{
    if (v->type == JSON_NULL)
        return 0;
    if (v->type != JSON_ARRAY || v->count == 0 || v->count > POLICY_PORTS_MAX)
        return err_set(e, EBADMSG, "ports: expected an array of 1 to %d ports", POLICY_PORTS_MAX);
    rule->ports = arena_alloc(&p->arena, v->count * sizeof(rule->ports[0]));
    if (!rule->ports)
        return err_set(e, ENOMEM, "out of memory for rules");
    json_each(item, v) if (one_port(item, &rule->ports[rule->port_count++]) < 0) return err_set(
        e, EBADMSG,
        "ports: expected a number from 1 to 65535, or a range such "
        "as \"8000-8080\"");
    return 0;
}

static int check_rule(const struct policy_rule *rule, struct err *e)
{
    if (rule->port_count && rule->protocol == IPPROTO_ICMP)
        return err_set(e, EBADMSG, "ports: icmp has none; leave them out");
    if (rule->kind == POLICY_NET || (!rule->port_count && !rule->protocol))
        return 0;
    if (rule->action == POLICY_DENY)
        return err_set(e, EBADMSG,
                       "a rule that denies a name denies all of it; leave out protocol "
                       "and ports, or deny addresses");
    for (size_t i = 0; i < rule->port_count; i++)
        if (rule->ports[i].from != rule->ports[i].to)
            return err_set(e, EBADMSG, "ports: a rule by name takes single ports, no ranges");
    return 0;
}

static int read_rule(struct policy *p, const struct json *v, struct err *e)
{
    struct policy_rule *rule = &p->rules[p->count];
    bool has_target = false;
    int r = 0;

    *rule = (struct policy_rule){.action = POLICY_DENY};
    if (v->type != JSON_OBJECT)
        return err_set(e, EBADMSG, "expected an object, got %s", json_type_name(v));
    json_each(m, v)
    {
        struct str text;

        if (key_is(m, STR("action"))) {
            r = action_of(m, &rule->action, e);
        } else if (key_is(m, STR("target"))) {
            r = word_of(m, &text, e);
            if (r == 0)
                r = set_target(p, rule, text, e);
            has_target = true;
        } else if (key_is(m, STR("protocol"))) {
            r = protocol_of(m, &rule->protocol, e);
        } else if (key_is(m, STR("ports"))) {
            r = ports_of(p, m, rule, e);
        } else if (key_is(m, STR("methods")) || key_is(m, STR("paths"))) {
            r = policy_http_read(p, m, rule, e);
        }
        if (r < 0)
            return r;
    }
    if (!has_target)
        return err_set(e, EBADMSG, "egress target cannot be empty");
    r = check_rule(rule, e);
    if (r == 0)
        r = policy_http_check(p, rule, e);
    if (r == 0)
        p->count++;
    return r;
}

static int check_counts(const struct policy *p, struct err *e)
{
    return p->net_count <= POLICY_NETS_MAX
               ? 0
               : err_set(e, EBADMSG, "%zu rules by address, more than %d; use larger networks",
                         p->net_count, POLICY_NETS_MAX);
}

static int read_rules(struct policy *p, const struct json *list, struct err *e)
{
    size_t index = 0;

    json_each(item, list)
    {
        int r = read_rule(p, item, e);

        if (r < 0)
            return err_wrap(e, r, "egress[%zu]", index);
        index++;
    }
    return check_counts(p, e);
}

/* Adds a rule of another policy. */
static int copy_rule(struct policy *p, const struct policy_rule *from)
{
    struct policy_rule *rule = &p->rules[p->count];

    *rule = *from;
    rule->target = arena_str(&p->arena, from->target);
    rule->name = from->name.p ? arena_str(&p->arena, from->name) : STR_NONE;
    if (from->port_count) {
        rule->ports = arena_alloc(&p->arena, from->port_count * sizeof(rule->ports[0]));
        if (!rule->ports)
            return -ENOMEM;
        memcpy(rule->ports, from->ports, from->port_count * sizeof(rule->ports[0]));
    }
    if (!rule->target.p || (from->name.p && !rule->name.p) || policy_http_copy(p, from, rule) < 0)
        return -ENOMEM;
    p->net_count += rule->kind == POLICY_NET;
    p->count++;
    return 0;
}

static bool has_target(const struct policy *p, size_t count, struct str target, bool with_http)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(p->rules[i].target, target) &&
            (with_http || !policy_rule_is_http(&p->rules[i])))
            return true;
    return false;
}

/* --- documents --- */

static int parse_json(struct arena *tree, struct str text, struct json **ret, struct err *e)
{
    const struct json_limits limits = {.text_bytes_max = POLICY_TEXT_BYTES_MAX,
                                       .depth_max = 16,
                                       .duplicates = JSON_DUPLICATES_LAST};

    return json_parse(tree, text, &limits, ret, e);
}

static int read_policy(const struct json *doc, struct policy **ret, struct err *e)
{
    const struct json *list = NULL;
    auto_policy *p = NULL;
    int r = 0;

    if (doc->type != JSON_OBJECT && doc->type != JSON_NULL)
        return err_set(e, EBADMSG, "expected an object, got %s", json_type_name(doc));
    json_each(m, doc) if (key_is(m, STR("egress")) && m->type != JSON_NULL) list = m;
    if (list && list->type != JSON_ARRAY)
        return err_set(e, EBADMSG, "egress: expected an array, got %s", json_type_name(list));
    p = policy_new(json_count(list));
    if (!p)
        return err_set(e, ENOMEM, "out of memory for rules");
    json_each(m, doc) if (r == 0 && key_is(m, STR("defaultAction"))) r =
        action_of(m, &p->default_action, e);
    if (r == 0 && list)
        r = read_rules(p, list, e);
    if (r == 0)
        *ret = take_ptr(&p);
    return r;
}

int policy_parse(struct str text, struct policy **ret, struct err *e)
{
    AUTO_ARENA(tree, TREE_BYTES_MAX);
    struct json *doc;
    int r = parse_json(&tree, text, &doc, e);

    return r < 0 ? r : read_policy(doc, ret, e);
}

static int parse_array(struct arena *tree, struct str text, struct json **ret, struct err *e)
{
    int r = parse_json(tree, text, ret, e);

    if (r < 0)
        return r;
    if ((*ret)->type != JSON_ARRAY)
        return err_set(e, EBADMSG, "expected an array, got %s", json_type_name(*ret));
    return (*ret)->count ? 0 : err_set(e, EBADMSG, "empty array");
}

/* Drops rules with the target of an earlier one; those for requests may share one. */
static void drop_doubles(struct policy *p)
{
    size_t n = 0;

    p->net_count = 0;
    for (size_t i = 0; i < p->count; i++)
        if (policy_rule_is_http(&p->rules[i]) || !has_target(p, n, p->rules[i].target, false)) {
            p->rules[n] = p->rules[i];
            p->net_count += p->rules[n++].kind == POLICY_NET;
        }
    p->count = n;
}

int policy_patch(const struct policy *old, struct str rules, struct policy **ret, struct err *e)
{
    AUTO_ARENA(tree, TREE_BYTES_MAX);
    auto_policy *p = NULL;
    struct json *list;
    size_t fresh;
    int r = parse_array(&tree, rules, &list, e);

    if (r < 0)
        return r;
    p = policy_new(list->count + old->count);
    if (!p)
        return err_set(e, ENOMEM, "out of memory for rules");
    p->default_action = old->default_action;
    r = read_rules(p, list, e);
    if (r < 0)
        return r;
    drop_doubles(p);
    fresh = p->count;
    for (size_t i = 0; r == 0 && i < old->count; i++)
        if (!has_target(p, fresh, old->rules[i].target, true))
            r = copy_rule(p, &old->rules[i]);
    if (r == 0)
        r = check_counts(p, e);
    if (r == 0)
        *ret = take_ptr(&p);
    return r;
}

static bool names_target(const struct json *list, struct str target)
{
    json_each(item, list) if (item->type == JSON_STRING &&
                              str_eq_nocase(str_trim(item->string), target)) return true;
    return false;
}

int policy_without(const struct policy *old, struct str targets, struct policy **ret,
                   size_t *ret_removed, struct err *e)
{
    AUTO_ARENA(tree, TREE_BYTES_MAX);
    auto_policy *p = NULL;
    struct json *list;
    int r = parse_array(&tree, targets, &list, e);

    if (r < 0)
        return r;
    json_each(item, list) if (item->type != JSON_STRING) return err_set(
        e, EBADMSG, "expected strings, got %s", json_type_name(item));
    p = policy_new(old->count);
    if (!p)
        return err_set(e, ENOMEM, "out of memory for rules");
    p->default_action = old->default_action;
    for (size_t i = 0; r == 0 && i < old->count; i++)
        if (!names_target(list, old->rules[i].target))
            r = copy_rule(p, &old->rules[i]);
    if (r < 0)
        return err_set(e, ENOMEM, "out of memory for rules");
    *ret_removed = old->count - p->count;
    *ret = take_ptr(&p);
    return 0;
}

int policy_always(const struct str *deny, size_t deny_count, const struct str *allow,
                  size_t allow_count, struct policy **ret, struct err *e)
{
    auto_policy *p = policy_new(deny_count + allow_count);

    if (!p)
        return err_set(e, ENOMEM, "out of memory for rules");
    for (size_t i = 0; i < deny_count + allow_count; i++) {
        struct policy_rule *rule = &p->rules[p->count];
        int r;

        *rule = (struct policy_rule){.action = i < deny_count ? POLICY_DENY : POLICY_ALLOW};
        r = set_target(p, rule, i < deny_count ? deny[i] : allow[i - deny_count], e);
        if (r < 0)
            return r;
        p->count++;
    }
    if (check_counts(p, e) < 0)
        return -EBADMSG;
    *ret = take_ptr(&p);
    return 0;
}

static void write_ports(struct json_writer *w, const struct policy_rule *rule)
{
    json_write_key(w, STR("ports"));
    json_write_array(w);
    for (size_t i = 0; i < rule->port_count; i++) {
        const struct policy_ports *range = &rule->ports[i];
        AUTO_BUF(text, 16);

        if (range->from == range->to) {
            json_write_u64(w, range->from);
        } else {
            (void)buf_addf(&text, "%u-%u", range->from, range->to);
            json_write_string(w, buf_str(&text));
        }
    }
    json_write_array_end(w);
}

static struct str action_name(enum policy_action action)
{
    return action == POLICY_ALLOW ? STR("allow") : STR("deny");
}

int policy_write(const struct policy *p, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_write_key(&w, STR("egress"));
    json_write_array(&w);
    for (size_t i = 0; i < p->count; i++) {
        const struct policy_rule *rule = &p->rules[i];

        json_write_object(&w);
        json_member_string(&w, STR("action"), action_name(rule->action));
        json_member_string(&w, STR("target"), rule->target);
        for (size_t k = 1; k < ARRAY_LEN(protocols); k++)
            if (rule->protocol == protocols[k].protocol)
                json_member_string(&w, STR("protocol"), protocols[k].name);
        if (rule->port_count)
            write_ports(&w, rule);
        policy_http_write(&w, rule);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_member_string(&w, STR("defaultAction"), action_name(p->default_action));
    json_write_object_end(&w);
    return json_write_end(&w);
}
