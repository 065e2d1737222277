/* ready.c - slots made ahead, so that a create does not wait for slow kernel objects. */
#include <assert.h>
#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "sandbox/layer_ids.h"
#include "sandbox/userns.h"

/* Claims a number and records its owner, under the lock that keeps sweeps from taking it. */
static int ready_claim(struct broker *b, struct ready *r, struct err *e)
{
    struct slot_record record = {.state = SLOT_READY, .owner = b->self, .net = r->net};
    int error;

    if (flock(b->host.lock, LOCK_SH) < 0)
        return err_sys(e, errno, "lock the slots");
    error = slot_claim(&b->host, b->slot_hint, &r->slot.slot, &r->dir, e);
    if (error == 0) {
        record.slot = r->slot.slot;
        record.created_us = (uint64_t)time_wall_us();
        error = slot_write_record(r->dir, &record, e);
    }
    (void)flock(b->host.lock, LOCK_UN);
    b->slot_hint = (r->slot.slot + 1) % SLOT_COUNT_MAX;
    return error;
}

int ready_userns(struct broker *b, uint32_t slot, struct err *e)
{
    struct err why = {0};
    int fd = userns_make(slot_uid_first(slot), PLAN_UID_RANGE, &why);

    b->blocked = why;
    if (fd < 0 && e)
        *e = why;
    return fd;
}

int ready_layer_userns(struct spawn_slot *slot, struct err *e)
{
    if (slot->layer_userns < 0)
        slot->layer_userns = userns_make_map(LAYER_UID_FIRST, slot->uid_first, PLAN_UID_RANGE, e);
    return slot->layer_userns < 0 ? slot->layer_userns : 0;
}

/* --- what is expected --- */

enum { PLANS_MAX = 16 }; /* bits of broker.plans_host */

/* Such a plan uses a root that can be mounted ahead. */
static bool plan_is_plain(const struct plan *plan)
{
    return plan->root == PLAN_ROOT_HOST && plan->layer_count == 0 && !plan->lasting;
}

static bool plan_is_shifted(const struct plan *plan)
{
    return plan->lasting || plan_has_shifted_layer(plan);
}

void ready_note(struct broker *b, const struct plan *plan)
{
    b->plans_host = (uint16_t)(b->plans_host << 1 | plan_is_plain(plan));
    b->plans_shifted = (uint16_t)(b->plans_shifted << 1 | plan_is_shifted(plan));
    b->plans += b->plans < PLANS_MAX;
}

/* Whether the next slot gets the host's root: the share of slots that have it is that of the plans
 * that used it, with one of each kind if there was any such plan. */
static bool expects_host(const struct broker *b, enum plan_net net)
{
    uint32_t used = (uint32_t)__builtin_popcount(b->plans_host), have = 0, wanted;
    uint32_t all = b->ready_count[net] + 1;

    LIST_EACH(&b->ready[net], at)
    {
        have += container_of(at, struct ready, link)->has_host;
    }
    if (used == 0 || used >= b->plans)
        return used > 0;
    wanted = all * used / b->plans;
    if (wanted == 0)
        wanted = 1;
    else if (wanted == all && all > 1)
        wanted = all - 1;
    return have < wanted;
}

static int ready_build(struct broker *b, struct ready *r, struct err *e)
{
    int error = ready_claim(b, r, e);

    if (error < 0)
        return error;
    r->slot.uid_first = slot_uid_first(r->slot.slot);
    error = cgroup_make(b->host.cgroups, r->slot.slot, r->slot.uid_first, &r->cgroup, e);
    if (error < 0)
        return error;
    r->slot.cgroup = &r->cgroup;
    r->slot.userns = ready_userns(b, r->slot.slot, e);
    if (r->slot.userns < 0)
        return r->slot.userns;
    r->has_host = expects_host(b, r->net);
    error = b->plans_shifted && !r->has_host ? ready_layer_userns(&r->slot, e) : 0;
    if (error < 0)
        return error;
    r->slot.netns = netns_make(&b->host.net, r->net, r->slot.slot, e);
    if (r->slot.netns < 0)
        return r->slot.netns;
    error = spawn_park(&r->slot, r->has_host, &r->parked, e);
    if (error == 0 && slot_owner_of(r->parked.proc.pid, &r->child) < 0)
        r->child = (struct slot_owner){0}; /* it has failed already; spawn_go reports why */
    return error;
}

void ready_want(struct broker *b, const struct broker_config *c)
{
    uint32_t wanted[] = {[PLAN_NET_NONE] = c->ready_none, [PLAN_NET_BRIDGE] = c->ready_bridge};

    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        if (wanted[i] > b->ready_total[i])
            b->ready_total[i] = wanted[i];
}

uint32_t ready_share(const struct broker *b, enum plan_net net)
{
    uint32_t total = b->ready_total[net];

    return total / b->workers + (b->worker < total % b->workers);
}

int ready_make(struct broker *b, enum plan_net net, struct ready **ret, struct err *e)
{
    struct ready *r = mem_new(struct ready);
    int error;

    list_init(&r->link);
    r->net = net;
    r->dir = -EBADF;
    r->slot = (struct spawn_slot){
        .host = &b->host, .userns = -EBADF, .netns = -EBADF, .layer_userns = -EBADF};
    r->parked = (struct parked){PROC_NONE, -EBADF, false};
    if (net == PLAN_NET_BRIDGE && !b->host.has_bridge) {
        error = netns_host_setup(&b->host.net, e);
        if (error < 0) {
            free(r);
            return err_wrap(e, error, "set the bridge up");
        }
        b->host.has_bridge = true;
    }
    error = ready_build(b, r, e);
    if (error < 0) {
        ready_free(b, r);
        return err_wrap(e, error, "make a slot");
    }
    *ret = r;
    return 0;
}

void ready_free(struct broker *b, struct ready *r)
{
    parked_kill(&r->parked);
    fd_close(r->slot.userns);
    fd_close(r->slot.netns);
    fd_close(r->slot.layer_userns);
    if (r->slot.cgroup)
        cgroup_close(&r->cgroup);
    if (r->dir >= 0 && life_destroy(b, r->slot.slot, r->dir, NULL, NULL) < 0)
        life_abandon(r->dir);
    fd_close(r->dir);
    free(r);
}

static struct ready *take(struct broker *b, enum plan_net net, struct ready *r)
{
    list_remove(&r->link);
    assert(b->ready[net].next != &r->link);
    b->ready_count[net]--;
    return r;
}

struct ready *ready_take(struct broker *b, const struct plan *plan)
{
    bool shifted = plan_is_shifted(plan), plain = plan_is_plain(plan);
    struct ready *best = NULL;
    int best_fit = -1;

    LIST_EACH(&b->ready[plan->net], at)
    {
        struct ready *r = container_of(at, struct ready, link);
        int fit = 2 * (r->has_host == plain) + (!shifted || r->slot.layer_userns >= 0);

        if (fit > best_fit) { /* of equal ones the oldest */
            best = r;
            best_fit = fit;
        }
    }
    return best ? take(b, plan->net, best) : NULL;
}

int ready_fill_one(struct broker *b, const uint32_t wanted[2], struct err *e)
{
    for (enum plan_net net = PLAN_NET_NONE; net <= PLAN_NET_BRIDGE; net++) {
        struct ready *r;
        int error;

        if (b->ready_count[net] >= wanted[net])
            continue;
        error = ready_make(b, net, &r, e);
        if (error < 0)
            return error;
        list_push(&b->ready[net], &r->link);
        b->ready_count[net]++;
        return 1;
    }
    return 0;
}

void ready_free_all(struct broker *b)
{
    for (enum plan_net net = PLAN_NET_NONE; net <= PLAN_NET_BRIDGE; net++)
        while (b->ready_count[net] > 0)
            ready_free(b, take(b, net, container_of(b->ready[net].next, struct ready, link)));
}
