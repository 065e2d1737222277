/* policy_http.c - rules for requests of HTTP: methods and paths. */
#include <errno.h>
#include <string.h>

#include "egress/policy/policy_internal.h"

enum { METHOD_BYTES_MAX = 32, PATH_BYTES_MAX = 1024, HTTP_PORT = 80, HTTPS_PORT = 443 };

bool policy_rule_is_http(const struct policy_rule *rule)
{
    return rule->method_count || rule->path_count;
}

bool policy_has_http(const struct policy *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (policy_rule_is_http(&p->rules[i]))
            return true;
    return false;
}

/* --- reading --- */

static int take_method(struct policy *p, struct str text, struct str *ret, struct err *e)
{
    char *copy = arena_strdup(&p->arena, text);

    if (!copy)
        return err_set(e, ENOMEM, "out of memory for rules");
    for (size_t i = 0; i < text.n; i++) {
        if (!ascii_is_alpha(copy[i]))
            break;
        copy[i] = (char)(copy[i] >= 'a' ? copy[i] - 'a' + 'A' : copy[i]);
        if (i + 1 == text.n && text.n <= METHOD_BYTES_MAX) {
            *ret = str_make(copy, text.n);
            return 0;
        }
    }
    return err_set(e, EBADMSG, "methods: expected names of methods such as \"GET\"");
}

static bool has_dots(struct str path)
{
    struct str rest = path, part;

    while (str_cut(&rest, '/', &part))
        if (str_eq(part, STR(".")) || str_eq(part, STR("..")))
            return true;
    return false;
}

static int take_path(struct policy *p, struct str text, struct str *ret, struct err *e)
{
    size_t star = str_find(text, '*');

    if (text.n == 0 || text.n > PATH_BYTES_MAX || text.p[0] != '/' || star + 1 < text.n ||
        str_find(text, '?') < text.n || str_find(text, '#') < text.n || has_dots(text))
        return err_set(e, EBADMSG,
                       "paths: expected paths such as \"/v1/models\" or \"/v1/*\", without a "
                       "query and without . and ..; * only at the end");
    *ret = arena_str(&p->arena, text);
    return ret->p ? 0 : err_set(e, ENOMEM, "out of memory for rules");
}

int policy_http_read(struct policy *p, const struct json *member, struct policy_rule *rule,
                     struct err *e)
{
    bool methods = str_eq_nocase(member->key, STR("methods"));
    struct str **rows = methods ? &rule->methods : &rule->paths;
    size_t *count = methods ? &rule->method_count : &rule->path_count;

    if (member->type == JSON_NULL)
        return 0;
    if (member->type != JSON_ARRAY || member->count == 0 || member->count > POLICY_HTTP_MAX)
        return err_set(e, EBADMSG, "%s: expected an array of 1 to %d strings",
                       methods ? "methods" : "paths", POLICY_HTTP_MAX);
    *rows = arena_alloc(&p->arena, member->count * sizeof(struct str));
    *count = 0;
    if (!*rows)
        return err_set(e, ENOMEM, "out of memory for rules");
    json_each(item, member)
    {
        struct str text = item->type == JSON_STRING ? str_trim(item->string) : STR("");
        struct str *at = &(*rows)[(*count)++];
        int r = methods ? take_method(p, text, at, e) : take_path(p, text, at, e);

        if (r < 0)
            return r;
    }
    return 0;
}

int policy_http_check(struct policy *p, struct policy_rule *rule, struct err *e)
{
    static const struct policy_ports usual[] = {
        {HTTP_PORT,  HTTP_PORT },
        {HTTPS_PORT, HTTPS_PORT}
    };

    if (!policy_rule_is_http(rule))
        return 0;
    if (rule->kind == POLICY_NET)
        return err_set(e, EBADMSG, "methods and paths: the target must be a name, not an address");
    if (rule->protocol && rule->protocol != IPPROTO_TCP)
        return err_set(e, EBADMSG, "methods and paths: HTTP needs the protocol tcp");
    for (size_t i = 0; i < rule->port_count; i++)
        if (rule->ports[i].from != rule->ports[i].to ||
            (rule->ports[i].from != HTTP_PORT && rule->ports[i].from != HTTPS_PORT))
            return err_set(e, EBADMSG,
                           "methods and paths: requests are seen at the ports 80 and 443 only");
    if (rule->action == POLICY_DENY || rule->port_count)
        return 0;
    rule->protocol = IPPROTO_TCP;
    rule->ports = arena_alloc(&p->arena, sizeof(usual));
    if (!rule->ports)
        return err_set(e, ENOMEM, "out of memory for rules");
    memcpy(rule->ports, usual, sizeof(usual));
    rule->port_count = ARRAY_LEN(usual);
    return 0;
}

static int copy_list(struct policy *p, const struct str *from, size_t count, struct str **ret)
{
    struct str *to = count ? arena_alloc(&p->arena, count * sizeof(*to)) : NULL;

    if (count && !to)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        to[i] = arena_str(&p->arena, from[i]);
        if (!to[i].p)
            return -ENOMEM;
    }
    *ret = to;
    return 0;
}

int policy_http_copy(struct policy *p, const struct policy_rule *from, struct policy_rule *to)
{
    int r = copy_list(p, from->methods, from->method_count, &to->methods);

    return r < 0 ? r : copy_list(p, from->paths, from->path_count, &to->paths);
}

static void write_list(struct json_writer *w, struct str key, const struct str *rows, size_t count)
{
    if (!count)
        return;
    json_write_key(w, key);
    json_write_array(w);
    for (size_t i = 0; i < count; i++)
        json_write_string(w, rows[i]);
    json_write_array_end(w);
}

void policy_http_write(struct json_writer *w, const struct policy_rule *rule)
{
    write_list(w, STR("methods"), rule->methods, rule->method_count);
    write_list(w, STR("paths"), rule->paths, rule->path_count);
}

/* --- asking --- */

static bool has_method(const struct policy_rule *rule, struct str method)
{
    for (size_t i = 0; i < rule->method_count; i++)
        if (str_eq_nocase(rule->methods[i], method))
            return true;
    return rule->method_count == 0;
}

static bool has_path(const struct policy_rule *rule, struct str path)
{
    for (size_t i = 0; i < rule->path_count; i++) {
        struct str want = rule->paths[i];

        if (want.p[want.n - 1] == '*' ? str_starts(path, str_make(want.p, want.n - 1))
                                      : str_eq(path, want))
            return true;
    }
    return rule->path_count == 0;
}

enum policy_action policy_judge_request(const struct policy *always, const struct policy *p,
                                        struct str name, struct str method, struct str path)
{
    bool judged = false;

    if (policy_rule_of_name(always, name))
        return POLICY_NO_RULE; /* it was judged with the name */
    for (size_t i = 0; i < p->count; i++) {
        const struct policy_rule *rule = &p->rules[i];

        if (!policy_rule_matches(rule, name))
            continue;
        judged |= policy_rule_is_http(rule);
        if (rule->path_count && !path.p)
            return POLICY_DENY;
        if (has_method(rule, method) && has_path(rule, path))
            return judged ? rule->action : POLICY_NO_RULE;
    }
    return judged ? p->default_action : POLICY_NO_RULE;
}
