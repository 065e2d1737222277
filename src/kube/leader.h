/* leader.h - leader election by a Lease (coordination.k8s.io/v1). Loop thread only.
 *
 * A candidate takes a lease that is free or whose holder did not renew it for lease_s, by its own
 * clock. The leader renews it every retry_s; when it could not for renew_s it has lost. */
#pragma once

#include "kube/client.h"

struct kube_leader;

struct kube_leader_conf {
    struct kube_client *client;
    const char *ns, *name, *identity;   /* copied; identity: unique per process */
    uint32_t lease_s, renew_s, retry_s; /* 0 = 15, 10, 2; lease_s > renew_s > retry_s */
    void (*on_started)(void *user);
    /* Comes once, also after release: another may lead from now on. The program should exit. */
    void (*on_lost)(void *user, const char *why);
    void (*on_new_leader)(void *user, const char *identity); /* may be NULL */
    /* A request failed for another reason than that somebody was faster; of equal ones in a row
     * only the first is told. May be NULL. */
    void (*on_trouble)(void *user, const char *why);
    void *user;
};

int kube_leader_new(const struct kube_leader_conf *conf, struct kube_leader **ret, struct err *e);
bool kube_leader_is(const struct kube_leader *l);
/* Gives the lease up at once, for a clean stop. on_lost comes when that is done or failed; when it
 * was not leading, on_done only. */
void kube_leader_release(struct kube_leader *l, void (*on_done)(void *user));
void kube_leader_free(struct kube_leader *l); /* without release; NULL is fine */
