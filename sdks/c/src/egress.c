/* egress.c - what a sandbox may reach. */
#include "sdk.h"

static int call(struct osb_sandbox *sb, enum http_method method, const struct buf *body,
                int body_error, struct osb_answer **ret)
{
    struct target t;
    struct simple s = {NULL, method, &t, body, body_error};
    int r = sandbox_site(sb, OSB_PORT_EGRESS, &s.site);

    if (r < 0)
        return r;
    target_init(&t, "/policy");
    return simple_call(sb->client, &s, ret);
}

int osb_egress_get(struct osb_sandbox *sandbox, struct osb_answer **ret_answer)
{
    return call(sandbox, HTTP_GET, NULL, 0, ret_answer);
}

int osb_egress_set(struct osb_sandbox *sandbox, const char *policy, struct osb_answer **ret_answer)
{
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    int r = buf_add(&body, str_or_empty(policy));

    return call(sandbox, HTTP_PUT, &body, r, ret_answer);
}

int osb_egress_patch(struct osb_sandbox *sandbox, const struct osb_rule *rules, size_t count,
                     struct osb_answer **ret_answer)
{
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_array(&w);
    for (size_t i = 0; i < count; i++) {
        json_write_object(&w);
        json_member_string(&w, STR("action"), str_or_empty(rules[i].action));
        json_member_string(&w, STR("target"), str_or_empty(rules[i].target));
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    return call(sandbox, HTTP_PATCH, &body, json_write_end(&w), ret_answer);
}

int osb_egress_delete(struct osb_sandbox *sandbox, const char *const *targets, size_t count,
                      struct osb_answer **ret_answer)
{
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_array(&w);
    for (size_t i = 0; i < count; i++)
        json_write_string(&w, str_or_empty(targets[i]));
    json_write_array_end(&w);
    return call(sandbox, HTTP_DELETE, &body, json_write_end(&w), ret_answer);
}
