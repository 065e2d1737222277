#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "server/config/config.h"
#include "server/runtime/docker/docker_internal.h"

static struct str text_of(const struct json *object, struct str key)
{
    struct str text = STR("");

    (void)!json_to_str(json_get(object, key), &text);
    return text;
}

static int64_t number_of(const struct json *object, struct str key)
{
    int64_t n = 0;

    (void)!json_to_i64(json_get(object, key), &n);
    return n;
}

static bool flag_of(const struct json *object, struct str key)
{
    bool yes = false;

    (void)!json_to_bool(json_get(object, key), &yes);
    return yes;
}

static void read_status(const struct json *state, struct docker_facts *ret)
{
    struct runtime_status *s = &ret->status;
    struct str text = text_of(state, STR("Status"));
    struct str why = text_of(state, STR("Error"));

    if (str_eq(text, STR("running")) || str_eq(text, STR("restarting"))) {
        s->state = RUNTIME_RUNNING;
        return;
    }
    if (str_eq(text, STR("paused"))) {
        s->state = RUNTIME_PAUSED;
        return;
    }
    ret->created = str_eq(text, STR("created"));
    if (ret->created) {
        s->state = RUNTIME_FAILED;
        (void)err_set(&s->err, ECANCELED, "the container was made, but never started%s%.*s",
                      why.n ? ": " : "", STR_ARG(why));
        return;
    }
    s->state = RUNTIME_EXITED;
    s->exit_code = (int)number_of(state, STR("ExitCode"));
    s->out_of_memory = flag_of(state, STR("OOMKilled"));
    (void)!time_parse(text_of(state, STR("FinishedAt")), &s->ended_us, NULL);
}

/* Only one that the server made: a token of the request's own env is for its clients to send. */
static void read_token(const struct json *env, struct docker_facts *ret)
{
    struct str text;

    json_each(item, env)
    {
        if (json_to_str(item, &text) == 0 &&
            str_starts(text, STR(DOCKER_TOKEN_ENV "=" DOCKER_TOKEN_PREFIX)))
            (void)!str_copy(ret->token, sizeof(ret->token),
                            str_skip(text, STR(DOCKER_TOKEN_ENV "=").n));
    }
}

static struct in_addr address_in(const struct json *network)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr address = {0};

    if (str_copy(text, sizeof(text), text_of(network, STR("IPAddress"))) < 0 ||
        inet_pton(AF_INET, text, &address) != 1)
        return (struct in_addr){0};
    return address;
}

/* The configured network first, then the engine's bridge, then any. */
static struct in_addr read_address(const struct json *settings, const char *network)
{
    const struct json *networks = json_get(settings, STR("Networks"));
    struct in_addr address = address_in(json_get(networks, str_of(network)));

    if (!address.s_addr)
        address = address_in(settings);
    json_each(item, networks)
    {
        if (!address.s_addr)
            address = address_in(item);
    }
    return address;
}

static uint16_t port_of(const struct json *labels, struct str key)
{
    uint16_t port = 0;

    (void)!str_to_u16(text_of(labels, key), &port);
    return port;
}

int docker_facts_read(const struct json *tree, const char *owner, const char *network,
                      struct docker_facts *ret, struct err *e)
{
    const struct json *config = json_get(tree, STR("Config"));
    const struct json *labels = json_get(config, STR("Labels"));
    const struct json *state = json_get(tree, STR("State"));

    *ret = (struct docker_facts){0};
    if (!config || !state ||
        str_copy(ret->container, sizeof(ret->container), text_of(tree, STR("Id"))) < 0)
        return err_set(e, EBADMSG, "the Docker engine describes a container without its state");
    ret->owned = str_eq(text_of(labels, STR(LABEL_OWNER)), str_of(owner));
    read_status(state, ret);
    read_token(json_get(config, STR("Env")), ret);
    ret->address = read_address(json_get(tree, STR("NetworkSettings")), network);
    ret->execd_port = port_of(labels, STR(LABEL_EXECD_PORT));
    ret->http_port = port_of(labels, STR(LABEL_HTTP_PORT));
    if (str_copy(ret->egress_token, sizeof(ret->egress_token),
                 text_of(labels, STR(LABEL_EGRESS_TOKEN))) < 0)
        return err_set(e, EBADMSG, "the token of a sidecar is too long");
    ret->has_sidecar = ret->egress_token[0] != '\0';
    ret->pid = (int)number_of(state, STR("Pid"));
    return 0;
}

int docker_inspect(struct docker *d, struct str id, struct docker_facts *ret, struct err *e)
{
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    char name[DOCKER_NAME_MAX];
    struct json *tree = NULL;
    int r;

    docker_name(id, name);
    r = docker_get(d, &arena, &tree, e, "/containers/%s/json", name);
    if (r == 0)
        r = docker_facts_read(tree, d->owner, d->config->docker.network_mode, ret, e);
    if (r == 0 && !ret->owned)
        r = err_set(e, ENOENT, "the container %s belongs to another installation", name);
    if (r == 0 && ret->has_sidecar)
        r = docker_sidecar_join(d, id, ret, e);
    return r;
}

int docker_address_of(const struct docker *d, const struct docker_facts *facts, uint16_t inside,
                      uint16_t published, struct sock_addr *ret, struct err *e)
{
    bool by_port = d->by_port || d->host_network;
    const char *host = engine_place(d->engine)->host;
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    if (by_port && !published)
        return err_set(e, ENETUNREACH, "the container publishes no port for %u", inside);
    if (by_port && host[0]) {
        *ret = engine_place(d->engine)->addr;
        if (ret->any.sa_family == AF_INET6)
            ret->v6.sin6_port = htons(published);
        else
            ret->v4.sin_port = htons(published);
        return 0;
    }
    if (!by_port && !facts->address.s_addr)
        return err_set(e, ENETUNREACH, "the container has no address");
    v4.sin_addr = by_port ? (struct in_addr){htonl(INADDR_LOOPBACK)} : facts->address;
    v4.sin_port = htons(by_port ? published : inside);
    *ret = (struct sock_addr){.size = sizeof(v4), .v4 = v4};
    return 0;
}

/* What runs in it reaches nothing, and nobody reaches it. */
static void end_without_network(struct docker *d, struct str id)
{
    char name[DOCKER_NAME_MAX];

    docker_name(id, name);
    (void)!docker_ask(d, HTTP_POST, 0, NULL, "/containers/%s/kill", name);
}

static bool has_ended(const struct docker_facts *facts)
{
    return facts->status.state == RUNTIME_EXITED || facts->status.state == RUNTIME_FAILED;
}

int docker_inspect_and_enter(struct docker *d, struct str id, struct docker_facts *ret,
                             int *ret_watch, struct err *e)
{
    uint64_t wakes = boxes_wakes(&d->boxes);
    struct box_facts box = {0};
    int r = docker_inspect(d, id, ret, e);

    if (r == 0 && ret->status.err.code == ENETDOWN)
        end_without_network(d, id);
    if (r < 0 || has_ended(ret))
        return r;
    r = docker_address_of(d, ret, DOCKER_EXECD_PORT, ret->execd_port, &box.addr, e);
    if (r == 0 && ret->has_sidecar)
        r = docker_address_of(d, ret, DOCKER_EGRESS_PORT, ret->egress_port, &box.egress, e);
    if (r < 0)
        return r;
    box.ports[0] = ret->execd_port;
    box.ports[1] = ret->http_port;
    box.ports[2] = ret->egress_port;
    memcpy(box.token, ret->token, sizeof(box.token));
    memcpy(box.egress_token, ret->egress_token, sizeof(box.egress_token));
    r = boxes_set(&d->boxes, id, &box, wakes, ret_watch);
    mem_wipe(box.token, sizeof(box.token));
    mem_wipe(box.egress_token, sizeof(box.egress_token));
    return r < 0 ? err_sys(e, -r, "watch the container") : 0;
}
