#include "kube/leader.h"

#include <errno.h>
#include <stdio.h>

#include "base/id.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "kube/time.h"

enum {
    LEASE_S_USUAL = 15,
    RENEW_S_USUAL = 10,
    RETRY_S_USUAL = 2,
    BODY_MAX = 16 << 10,
    HOLDER_MAX = 256,
    TROUBLE_MAX = 256,
};

struct kube_leader {
    struct kube_leader_conf conf;
    char *ns, *name, *identity;
    struct kube_call *call; /* the request under way; NULL = none */
    struct loop_timer again, expire;
    /* The lease as it was last seen. */
    char version[64], holder[HOLDER_MAX], renewed[TIME_TEXT_MAX + 8];
    int64_t transitions, duration_s, acquired_us;
    uint64_t seen_ns;    /* when it last changed, by our clock */
    uint64_t renewed_ns; /* when we last renewed it: the time before the request */
    uint64_t asked_ns;
    bool leads, lost, exists, releasing;
    char trouble[TROUBLE_MAX]; /* why the last request failed; "" = it did not */
    void (*on_released)(void *user);
};

static struct loop *loop_of(const struct kube_leader *l)
{
    return kube_client_loop(l->conf.client);
}

bool kube_leader_is(const struct kube_leader *l)
{
    return l->leads && !l->lost;
}

static void step(struct kube_leader *l);

static void on_again(struct loop_timer *t)
{
    step(container_of(t, struct kube_leader, again));
}

/* With some jitter, so that candidates do not meet. */
static void step_later(struct kube_leader *l)
{
    uint32_t ms = l->conf.retry_s * 1000;
    uint8_t dice;

    id_random_bytes(&dice, sizeof(dice));
    if (!l->leads)
        ms += ms * dice / 1024;
    loop_timer_after(loop_of(l), &l->again, ms, on_again);
}

static void lose(struct kube_leader *l, const char *why)
{
    if (l->lost || !l->leads)
        return;
    l->lost = true;
    loop_timer_stop(loop_of(l), &l->expire);
    loop_timer_stop(loop_of(l), &l->again);
    if (l->call)
        kube_cancel(take_ptr(&l->call));
    l->conf.on_lost(l->conf.user, why);
}

static void on_expire(struct loop_timer *t)
{
    struct kube_leader *l = container_of(t, struct kube_leader, expire);
    char why[TROUBLE_MAX + 64];

    (void)snprintf(why, sizeof(why), "the lease could not be renewed in time%s%s",
                   l->trouble[0] ? ": " : "", l->trouble);
    lose(l, why);
}

static void note_trouble(struct kube_leader *l, const struct err *e)
{
    char before[TROUBLE_MAX];

    memcpy(before, l->trouble, sizeof(before));
    (void)snprintf(l->trouble, sizeof(l->trouble), "%s", e->code ? e->msg : "");
    if (l->trouble[0] && strcmp(before, l->trouble) != 0 && l->conf.on_trouble)
        l->conf.on_trouble(l->conf.user, l->trouble);
}

/* --- what the lease says --- */

static void see(struct kube_leader *l, const struct kube_object *o)
{
    struct str holder = kube_str(o->root, "spec.holderIdentity");
    struct str renewed = kube_str(o->root, "spec.renewTime");
    bool same = str_eq(holder, str_of(l->holder)) && str_eq(renewed, str_of(l->renewed));
    bool other = !str_eq(holder, str_of(l->holder));

    l->exists = true;
    (void)!str_copy(l->version, sizeof(l->version), o->version);
    (void)!str_copy(l->holder, sizeof(l->holder), holder);
    (void)!str_copy(l->renewed, sizeof(l->renewed), renewed);
    l->transitions = kube_i64(o->root, "spec.leaseTransitions");
    l->duration_s = kube_i64(o->root, "spec.leaseDurationSeconds");
    if (time_parse(kube_str(o->root, "spec.acquireTime"), &l->acquired_us, NULL) < 0)
        l->acquired_us = 0;
    if (!same)
        l->seen_ns = loop_now_ns(loop_of(l));
    if (other && holder.n && l->conf.on_new_leader)
        l->conf.on_new_leader(l->conf.user, l->holder);
}

static bool is_ours(const struct kube_leader *l)
{
    return strcmp(l->holder, l->identity) == 0;
}

/* Whether its holder let it run out. Its times are of another clock: only that they change counts.
 */
static bool is_free(const struct kube_leader *l)
{
    int64_t s = l->duration_s > 0 ? l->duration_s : l->conf.lease_s;

    return !l->holder[0] ||
           loop_now_ns(loop_of(l)) - l->seen_ns > (uint64_t)s * 1000 * TIME_NS_PER_MS;
}

/* --- requests --- */

static int write_lease(struct kube_leader *l, struct buf *out)
{
    char now[TIME_TEXT_MAX], acquired[TIME_TEXT_MAX];
    int64_t us = time_wall_us();
    bool taken = !is_ours(l);
    struct json_writer w;

    (void)kube_micro_time_format(us, now);
    (void)kube_micro_time_format(taken || !l->acquired_us ? us : l->acquired_us, acquired);
    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR("coordination.k8s.io/v1"));
    json_member_string(&w, STR("kind"), STR("Lease"));
    json_write_key(&w, STR("metadata"));
    json_write_object(&w);
    json_member_string(&w, STR("name"), str_of(l->name));
    json_member_string(&w, STR("namespace"), str_of(l->ns));
    if (l->exists)
        json_member_string(&w, STR("resourceVersion"), str_of(l->version));
    json_write_object_end(&w);
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    json_member_string(&w, STR("holderIdentity"), l->releasing ? STR("") : str_of(l->identity));
    json_member_i64(&w, STR("leaseDurationSeconds"), l->releasing ? 1 : l->conf.lease_s);
    json_member_string(&w, STR("acquireTime"), str_of(acquired));
    json_member_string(&w, STR("renewTime"), str_of(now));
    json_member_i64(&w, STR("leaseTransitions"), l->transitions + (taken && l->exists));
    json_write_object_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w);
}

static void on_lease(void *user, const struct kube_answer *answer);

static void on_written(void *user, const struct kube_answer *answer);

static void ask(struct kube_leader *l, enum kube_verb verb)
{
    AUTO_BUF(body, BODY_MAX);
    struct kube_request rq = {
        .verb = verb,
        .kind = &kube_leases,
        .ns = str_of(l->ns),
        .name = verb == KUBE_CREATE ? STR("") : str_of(l->name),
        .timeout_ms = l->conf.renew_s * 1000 / 2,
        .once = true,
    };
    int r = 0;

    if (verb != KUBE_GET)
        r = write_lease(l, &body);
    rq.body = buf_str(&body);
    l->asked_ns = loop_now_ns(loop_of(l));
    if (r == 0)
        r = kube_send(l->conf.client, &rq, verb == KUBE_GET ? on_lease : on_written, l, &l->call,
                      NULL);
    if (r < 0)
        step_later(l);
}

static void on_lease(void *user, const struct kube_answer *answer)
{
    struct kube_leader *l = user;
    int code = answer->error.err.code;

    l->call = NULL;
    if (code == ENOENT) {
        l->exists = false;
        l->holder[0] = '\0';
        ask(l, KUBE_CREATE);
        return;
    }
    if (code || !answer->object) {
        note_trouble(l, &answer->error.err);
        step_later(l);
        return;
    }
    see(l, answer->object);
    if (l->leads && !is_ours(l)) {
        lose(l, "another process took the lease");
    } else if (is_ours(l) || is_free(l)) {
        ask(l, KUBE_PATCH);
    } else {
        step_later(l);
    }
}

static void released(struct kube_leader *l)
{
    void (*done)(void *user) = l->on_released;
    void *user = l->conf.user;

    lose(l, "released");
    if (done)
        done(user); /* it may free us */
}

static void on_written(void *user, const struct kube_answer *answer)
{
    struct kube_leader *l = user;
    int code = answer->error.err.code;

    l->call = NULL;
    if (l->releasing) {
        released(l);
        return;
    }
    if (code != ESTALE && code != ENOENT && code != EEXIST)
        note_trouble(l, &answer->error.err);
    if (code || !answer->object) {
        l->version[0] = '\0'; /* read it again: another process may have been faster */
        l->exists = false;
        if (l->leads && (code == ESTALE || code == ENOENT))
            ask(l, KUBE_GET);
        else
            step_later(l);
        return;
    }
    see(l, answer->object);
    l->renewed_ns = l->asked_ns;
    loop_timer_set(loop_of(l), &l->expire,
                   l->renewed_ns + (uint64_t)l->conf.renew_s * 1000 * TIME_NS_PER_MS, on_expire);
    step_later(l);
    if (!l->leads) {
        l->leads = true;
        l->conf.on_started(l->conf.user);
    }
}

/* The leader renews without reading, as long as nobody interferes. */
static void step(struct kube_leader *l)
{
    if (l->lost || l->releasing || l->call)
        return;
    ask(l, l->leads && l->exists ? KUBE_PATCH : KUBE_GET);
}

/* --- life --- */

int kube_leader_new(const struct kube_leader_conf *conf, struct kube_leader **ret, struct err *e)
{
    struct kube_leader *l = mem_new(struct kube_leader);

    l->conf = *conf;
    l->conf.lease_s = conf->lease_s ? conf->lease_s : LEASE_S_USUAL;
    l->conf.renew_s = conf->renew_s ? conf->renew_s : RENEW_S_USUAL;
    l->conf.retry_s = conf->retry_s ? conf->retry_s : RETRY_S_USUAL;
    l->ns = mem_strdup(conf->ns);
    l->name = mem_strdup(conf->name);
    l->identity = mem_strdup(conf->identity);
    if (l->conf.lease_s <= l->conf.renew_s || l->conf.renew_s <= l->conf.retry_s ||
        !conf->identity[0] || strlen(conf->identity) >= HOLDER_MAX) {
        kube_leader_free(l);
        return err_set(e, EINVAL,
                       "leader election needs an identity of at most %d characters, and "
                       "times that shrink: lease, renew, retry",
                       HOLDER_MAX - 1);
    }
    ask(l, KUBE_GET);
    *ret = l;
    return 0;
}

void kube_leader_release(struct kube_leader *l, void (*on_done)(void *user))
{
    if (l->releasing)
        return;
    l->on_released = on_done;
    loop_timer_stop(loop_of(l), &l->again);
    if (l->call)
        kube_cancel(take_ptr(&l->call));
    l->releasing = true;
    if (kube_leader_is(l) && l->exists) {
        ask(l, KUBE_PATCH);
        if (l->call)
            return;
    }
    released(l);
}

void kube_leader_free(struct kube_leader *l)
{
    if (!l)
        return;
    if (l->call)
        kube_cancel(l->call);
    loop_timer_stop(loop_of(l), &l->again);
    loop_timer_stop(loop_of(l), &l->expire);
    free(l->ns);
    free(l->name);
    free(l->identity);
    free(l);
}
