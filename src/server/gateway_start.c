#include "server/gateway_start.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/http/server_internal.h"

static const struct principal *find_api_key(void *user, struct str key)
{
    return guard_find_key(&((struct server *)user)->guard, key);
}

static bool holds_api_key(void *user, struct str text)
{
    return guard_holds_key(&((struct server *)user)->guard, text);
}

static const struct principal *find_session(void *user, const struct http_req *req)
{
    return auth_session(user, req);
}

static bool is_signed(void *user, struct str sandbox_id, uint16_t port, struct str token)
{
    const struct config *config = ((struct server *)user)->config;
    uint64_t now_s = (uint64_t)(time_wall_us() / TIME_US_PER_S);

    for (size_t i = 0; i < config->ingress_secure.keys.count; i++) {
        const struct config_key *key = &config->ingress_secure.keys.at[i];
        struct api_route route;

        if (api_route_verify(key->secret, key->id, token, now_s, &route) == 0)
            return route.port == port && str_eq(route.sandbox_id, sandbox_id);
    }
    return false;
}

static bool find_preview(void *user, struct str ticket, struct str *ret_sandbox_id,
                         uint16_t *ret_port)
{
    struct server *s = user;
    const struct preview *p = previews_use(s->previews, str_make(ticket.p, str_find(ticket, '.')),
                                           time_wall_us() / TIME_US_PER_S);

    if (!p)
        return false;
    *ret_sandbox_id = str_of(p->sandbox_id);
    *ret_port = p->port;
    return true;
}

struct waking {
    http_wait_done_fn *done;
    void *user;
};

static void on_started(void *user, struct sandbox *sb UNUSED, const struct api_fail *fail)
{
    struct waking w = *(struct waking *)user;

    free(user);
    w.done(w.user, fail ? fail->message : NULL);
}

static void wake_sandbox(void *user, struct str sandbox_id, http_wait_done_fn *done,
                         void *done_user)
{
    struct server *s = user;
    struct sandbox *sb = sandboxes_find(s->sandboxes, sandbox_id);
    struct waking *w;

    if (!sb) {
        done(done_user, "it is gone");
        return;
    }
    w = mem_new(struct waking);
    *w = (struct waking){done, done_user};
    log_event(LOG_INFO, "starting a stopped sandbox for a request", LOG_STR("sandbox", sb->id));
    sandbox_start(sb, &principal_server, on_started, w);
}

static uint32_t wake_ms(const struct server *s)
{
    return (uint32_t)s->config->runtime.auto_resume_seconds * 1000;
}

static const char *code_of(void *user, const char *code)
{
    return runtime_code(((struct server *)user)->runtime, code);
}

static bool find_target(void *user, struct str sandbox_id, struct gateway_target *ret)
{
    struct server *s = user;
    struct sandbox *sb = sandboxes_find(s->sandboxes, sandbox_id);
    struct runtime_endpoint endpoint = {0}, outside = {0};

    if (!sb)
        return false;
    *ret = (struct gateway_target){
        .tenant = sb->owner.tenant,
        .id = sb->id,
        .token = str_of(sb->token),
        .has_egress = runtime_can(s->runtime, RUNTIME_CAN_NETWORK_POLICY),
        .secure = sb->facts.secure,
        .refusal = sandbox_state_refusal(sb->state),
        .stopped = sb->facts.persistent && sandbox_is_stopped(sb),
    };
    if (sb->state == SANDBOX_TERMINATED || sb->state == SANDBOX_FAILED)
        ret->cause = sb->message;
    static_assert((int)RUNTIME_ENDPOINT_HEADERS_MAX == (int)GATEWAY_TARGET_HEADERS_MAX, "as many");
    if (s->runtime->ops->endpoint(s->runtime, sandbox_id, &endpoint) < 0 && !ret->refusal)
        ret->refusal = "the sandbox has no address yet";
    ret->addr = endpoint.addr;
    ret->is_outside = sb->state == SANDBOX_PAUSED || sb->state == SANDBOX_PAUSING ||
                      sb->state == SANDBOX_RESUMING;
    if (ret->has_egress &&
        s->runtime->ops->egress_endpoint(s->runtime, sandbox_id, &outside) == 0) {
        ret->egress = outside.addr;
        ret->egress_at_root = outside.at_root;
        ret->egress_token = outside.header_count ? outside.headers[0].value : ret->token;
    } else if (!ret->refusal) {
        ret->has_egress = false;
    }
    memcpy(ret->headers, endpoint.headers, sizeof(ret->headers));
    ret->header_count = endpoint.header_count;
    return true;
}

/* Without API keys the lifecycle API shows every client each sandbox's token: requiring it would
 * protect nothing, and clients that expect no access control do not send it. A sandbox created with
 * secureAccess always requires it: gateway_target.secure. */
static bool is_open(const struct server *s)
{
    return s->config->server.proxy_access == CONFIG_PROXY_OPEN ||
           (s->guard.key_count == 0 && !s->guard.closed);
}

void server_on_access(void *user, struct str sandbox_id)
{
    struct server *s = user;
    struct sandbox *sb =
        s->config->renew_intent.enabled ? sandboxes_find(s->sandboxes, sandbox_id) : NULL;

    if (sb)
        sandbox_touch(sb);
}

int server_start_gateway(struct server *s, struct err *e)
{
    const struct gateway_conf conf = {
        .loop = s->loop,
        .open = is_open(s),
        .find_api_key = find_api_key,
        .find_session = find_session,
        .code_of = code_of,
        .holds_api_key = holds_api_key,
        .is_signed = is_signed,
        .find_preview = find_preview,
        .find = find_target,
        .on_access = server_on_access,
        .wake = wake_sandbox,
        .wake_ms = wake_ms(s),
        .domain = s->config->server.app_domain,
        .user = s,
    };

    return gateway_new(&conf, &s->gateway, e);
}

void server_reload_gateway(struct server *s)
{
    gateway_set_open(s->gateway, is_open(s));
    gateway_set_wake_ms(s->gateway, wake_ms(s));
}
