/* tools_egress.c - tools for what a sandbox may reach on the network. */
#include <errno.h>

#include "mcp/tools.h"

enum { POLICY_BYTES_MAX = 1 << 20 };

/* One request to the egress control of a sandbox. A server without one says so in its answer. */
static int ask(struct call *c, const char *method, const struct buf *body, struct osb_answer **ret)
{
    struct osb_request request = {OSB_REQUEST,
                                  .method = method,
                                  .path = "/policy",
                                  .port = OSB_PORT_EGRESS,
                                  .body = body ? body->p : NULL,
                                  .body_bytes = body ? body->n : 0};
    const struct osb_error *e;
    int r = call_box(c, &request.sandbox);

    if (r < 0)
        return r;
    r = osb_request(c->mcp->client, &request, ret);
    if (r == 0)
        return 0;
    e = osb_client_error(c->mcp->client);
    if (osb_error_status(e) == 501)
        return err_set(&c->why, ENOSYS,
                       "%s: the server has no egress engine, so that sandboxes have no policy: %s",
                       osb_error_code(e), osb_error_message(e));
    return r;
}

static const struct field get_fields[] = {
    FIELD_SANDBOX_ID,
    FIELD_CONNECT,
};

/* {"default_action": "deny", "egress": [{"action", "target"}]} */
static int run_get(struct call *c, struct json_writer *w)
{
    struct osb_answer *answer = NULL;
    int r = ask(c, "GET", NULL, &answer);

    if (r == 0)
        r = tools_write_answer(w, answer, osb_answer_text(answer, "policy") ? "policy" : "");
    osb_answer_free(answer);
    return r;
}

static const struct field rule_fields[] = {
    {"action", FIELD_STRING, true, "allow or deny"                                  },
    {"target", FIELD_STRING, true, "A name, *.name, an address or a network in CIDR"},
};

/* clang-format off */
static const struct field patch_fields[] = {
    FIELD_SANDBOX_ID,
    {.name = "rules", .type = FIELD_OBJECTS, .required = true,
     .about = "A rule for a target that has one replaces it; all others stay",
     .inner = SCHEMA(rule_fields)},
    FIELD_CONNECT,
};

static const struct field delete_fields[] = {
    FIELD_SANDBOX_ID,
    {"targets", FIELD_STRINGS, true, "Targets whose rules go, written as egress_get shows them"},
    FIELD_CONNECT,
};
/* clang-format on */

static int check_rules(struct call *c, const struct json *rules)
{
    if (json_count(rules) == 0)
        return err_set(&c->why, EINVAL, "rules: expected at least one");
    json_each(rule, rules)
    {
        const struct json *action = json_get(rule, STR("action"));

        if (!str_eq(action->string, STR("allow")) && !str_eq(action->string, STR("deny")))
            return err_set(&c->why, EINVAL, "rules: expected the action allow or deny, not '%.40s'",
                           action->string.p);
    }
    return 0;
}

static int send_value(struct call *c, const char *method, const struct json *v)
{
    AUTO_BUF(body, POLICY_BYTES_MAX);
    struct json_writer b;
    int r;

    json_write_begin(&b, &body);
    json_write_value(&b, v);
    r = json_write_end(&b);
    return r < 0 ? r : ask(c, method, &body, NULL);
}

static int run_patch(struct call *c, struct json_writer *w)
{
    const struct json *rules = call_arg(c, "rules");
    int r = check_rules(c, rules);

    if (r == 0)
        r = send_value(c, "PATCH", rules);
    if (r == 0)
        tools_write_status(w, "patched");
    return r;
}

static int run_delete(struct call *c, struct json_writer *w)
{
    const struct json *targets = call_arg(c, "targets");
    int r = json_count(targets) ? send_value(c, "DELETE", targets)
                                : err_set(&c->why, EINVAL, "targets: expected at least one");

    if (r == 0)
        tools_write_status(w, "deleted");
    return r;
}

/* clang-format off */
static const struct tool tools[] = {
    {"egress_get", "What a sandbox may reach: the default, and the rules.", TOOL_READS,
     SCHEMA(get_fields), run_get},
    {"egress_patch", "Allow or deny targets of outgoing connections of a sandbox.", TOOL_REPEATS,
     SCHEMA(patch_fields), run_patch},
    {"egress_delete", "Remove rules for targets; the default counts for them again.",
     TOOL_DESTROYS | TOOL_REPEATS, SCHEMA(delete_fields), run_delete},
};
/* clang-format on */
const struct tool_group egress_tools = {tools, ARRAY_LEN(tools)};
