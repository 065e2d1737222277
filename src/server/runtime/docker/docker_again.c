/* docker_again.c - sandboxes that are ended and made again. The container of one that was stopped
 * stays, with its files. Its sidecar goes on, with the policy and the vault as they are by now.
 *
 *   halt       the container is killed
 *   start      the sidecar, if it ended: its rules in force ─► the same container
 *   rollback   the container is removed, volumes stay ─► the sidecar as above ─► a create from the
 *              snapshot's image
 *
 * The request is in the container: a start needs nothing of it. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "server/config/config.h"
#include "server/runtime/docker/docker_internal.h"

enum {
    END_MS = 20 * 1000, /* for a container that was killed to have ended */
    LOOK_MS = 20,
    START_MS = 120 * 1000,
    REMOVE_MS = 60 * 1000,
};

static bool runs(enum runtime_state state)
{
    return state == RUNTIME_RUNNING || state == RUNTIME_PAUSED;
}

static int end_container(struct docker *d, struct str id, struct err *e)
{
    char name[DOCKER_NAME_MAX];
    struct docker_facts facts;
    int r;

    docker_name(id, name);
    r = docker_ask(d, HTTP_POST, 0, e, "/containers/%s/kill", name);
    if (r >= 0 || r == -ENOENT || r == -ESTALE) /* it is gone, or does not run */
        return 0;
    /* Podman has no status of its own for one that does not run. */
    if (docker_inspect(d, id, &facts, NULL) == 0 && !runs(facts.status.state))
        return 0;
    return r;
}

/* Podman answers before the container has ended. */
static int await_end(struct docker *d, struct str id, struct docker_facts *facts, struct err *e)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    uint64_t deadline = deadline_in_ms(END_MS);
    int r;

    while ((r = docker_inspect(d, id, facts, e)) == 0 && runs(facts->status.state)) {
        if (deadline_passed(deadline))
            return err_set(e, ETIMEDOUT, "the container was killed, and has not ended after %d s",
                           END_MS / 1000);
        (void)nanosleep(&pause, NULL);
    }
    mem_wipe(facts->token, sizeof(facts->token));
    return r == -ENOENT ? 0 : r;
}

void docker_rest(struct docker *d, struct str id, const struct docker_facts *facts)
{
    const uint16_t ports[BOX_PORTS] = {facts->execd_port, facts->http_port, facts->egress_port};

    boxes_rest(&d->boxes, id, ports);
}

int docker_halt(struct runtime *r, struct str id, struct err *e)
{
    struct docker *d = docker_of(r);
    char name[DOCKER_NAME_MAX];
    struct docker_facts facts;
    int result = docker_inspect(d, id, &facts, e);

    if (result == -ENOENT) {
        (void)boxes_remove(&d->boxes, id);
        return 0;
    }
    if (result < 0)
        return result;
    /* A kernel of the container's own that is paused does not see a signal. */
    docker_name(id, name);
    if (facts.status.state == RUNTIME_PAUSED && d->oci_runtime[0])
        (void)!docker_ask(d, HTTP_POST, 0, NULL, "/containers/%s/unpause", name);
    result = end_container(d, id, e);
    if (result == 0)
        result = await_end(d, id, &facts, e);
    if (result < 0)
        return result;
    docker_rest(d, id, &facts);
    return 1;
}

/* --- start --- */

int docker_again_check(struct docker *d, const struct runtime_create *c, struct api_fail *f)
{
    struct docker_facts facts;
    struct err e = {0};
    int r;

    if (c->again != RUNTIME_START)
        return 0;
    r = docker_inspect(d, c->id, &facts, &e);
    mem_wipe(facts.token, sizeof(facts.token));
    if (r == -ENOENT)
        return api_fail_set(f, 409, "DOCKER::SANDBOX_START_FAILED",
                            "the container of sandbox %.*s was removed, and its files with it: "
                            "delete the sandbox",
                            STR_ARG(c->id));
    return r < 0 ? api_fail_set(f, 503, "SERVICE_UNAVAILABLE", "%s", e.msg) : 0;
}

/* A sidecar that somebody removed takes the network of its sandbox along: the engine refuses to
 * start what would join it. */
int docker_start_again(struct docker *d, struct runtime_create *c, struct err *e)
{
    char name[DOCKER_NAME_MAX];
    struct docker_facts facts;
    int r = docker_inspect(d, c->id, &facts, e);

    if (r == 0 && facts.has_sidecar)
        r = docker_sidecar_start_again(d, c, str_of(facts.egress_token), e);
    docker_name(c->id, name);
    if (r >= 0)
        r = docker_ask(d, HTTP_POST, START_MS, e, "/containers/%s/start", name);
    mem_wipe(facts.token, sizeof(facts.token));
    mem_wipe(facts.egress_token, sizeof(facts.egress_token));
    return r < 0 ? r : 0;
}

/* --- rollback --- */

/* Only when there is something to put in its place. The ports of a sidecar stay with it. */
int docker_clear_for_rollback(struct docker *d, const struct runtime_create *c, struct err *e)
{
    char name[DOCKER_NAME_MAX];
    struct docker_facts facts;
    int r = docker_ask(d, HTTP_GET, 0, e, "/images/" DOCKER_SNAPSHOTS ":%.*s/json",
                       STR_ARG(c->spec->snapshot_id));

    if (r < 0)
        return r;
    r = docker_inspect(d, c->id, &facts, e);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    mem_wipe(facts.token, sizeof(facts.token));
    docker_name(c->id, name);
    r = docker_ask(d, HTTP_DELETE, REMOVE_MS, e, "/containers/%s?force=1&v=1", name);
    if (r < 0 && r != -ENOENT)
        return r;
    if (!facts.has_sidecar && !boxes_remove(&d->boxes, c->id)) {
        boxes_port_give(&d->boxes, facts.execd_port);
        boxes_port_give(&d->boxes, facts.http_port);
    }
    return 0;
}
