/* ops_give.c - the operation that changes whose sandbox it is. */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/core/events.h"
#include "server/core/sandboxes_internal.h"

struct sandbox_grant sandbox_grant_keep(const struct sandbox *sb, const struct principal *to)
{
    struct sandbox_grant grant = {
        .to = *to,
        .created_us = sb->created_us,
        .expires_us = sb->expires_us,
        .entrypoint = mem_strdup(sb->entrypoint),
        .metadata = mem_strdup(sb->metadata),
        .spec = mem_strdup(sb->spec),
        .renew_extend_s = sb->renew_extend_s,
    };

    memcpy(grant.token, sb->token, sizeof(grant.token));
    return grant;
}

void sandbox_grant_done(struct sandbox_grant *grant)
{
    free(grant->entrypoint);
    free(grant->metadata);
    free(grant->spec);
    free(grant->request);
    mem_wipe(grant, sizeof(*grant));
}

static void give_work(struct op *op)
{
    const struct sandbox_grant *g = op->grant;
    struct sandbox *sb = op->sb;
    struct store_sandbox row = {
        .id = str_of(sb->id),
        .tenant = str_of(g->to.tenant),
        .owner = str_of(g->to.key_id),
        .token = str_of(g->token),
        .created_us = g->created_us,
        .expires_us = g->expires_us,
        .entrypoint = str_of(g->entrypoint),
        .metadata = str_of(g->metadata),
        .spec = str_of(g->spec),
        .renew_extend_s = g->renew_extend_s,
        .share = op->share.tenant.p ? &op->share : NULL,
    };
    struct err e = {0};
    int r = store_claim(sb->table->conf.store, str_of(sb->owner.key_id), &row, &e);

    if (r < 0)
        op_fail(op, &e);
    else if (r == 0)
        (void)api_fail_set(&op->fail, 409, op->kind->refuse_code,
                           "sandbox %s has another owner by now, or does not run", sb->id);
}

static void swap(char **a, char **b)
{
    char *c = *a;

    *a = *b;
    *b = c;
}

/* From hidden to visible: to a client it is new. */
static void show_claimed(struct sandbox *sb)
{
    sb->hidden = false;
    list_move(&sb->table->order, &sb->link);
    sb->number = ++sb->table->number;
    atomic_fetch_add(&sb->table->stored, 1);
}

static void give_apply(struct op *op)
{
    struct sandbox_grant *g = op->grant;
    struct sandbox *sb = op->sb;

    sandbox_uncount(sb);
    sandbox_index_changed(sb);
    memcpy(sb->token, g->token, sizeof(sb->token));
    (void)snprintf(sb->owner.tenant, sizeof(sb->owner.tenant), "%s", g->to.tenant);
    (void)snprintf(sb->owner.key_id, sizeof(sb->owner.key_id), "%s", g->to.key_id);
    sb->created_us = g->created_us;
    sb->expires_us = g->expires_us;
    sb->renew_extend_s = g->renew_extend_s;
    swap(&sb->entrypoint, &g->entrypoint);
    swap(&sb->metadata, &g->metadata);
    swap(&sb->spec, &g->spec);
    if (g->request)
        swap(&sb->request, &g->request);
    sb->facts = spec_json_facts(str_of(sb->spec));
    sandbox_arm(sb);
    if (!sb->hidden || principal_is_of_pool(sb->owner.key_id)) {
        sandbox_count(sb);
        return;
    }
    show_claimed(sb);
    sandbox_count(sb);
    events_publish(sb->table->conf.events, sb, "sandbox.created");
    events_publish(sb->table->conf.events, sb, NULL);
    op_log(op, "sandbox claimed");
}

static const struct op_kind op_give = {
    "claim",    STATE_BIT(SANDBOX_RUNNING), "DOCKER::SANDBOX_NOT_RUNNING", give_work,
    give_apply, "SANDBOX::UNKNOWN_ERROR",
};

void sandbox_give(struct sandbox *sb, const struct principal *by, struct sandbox_grant *grant,
                  op_done_fn *done, void *user)
{
    struct op *op = op_new(&op_give, by, done, user);

    struct spec_facts facts = spec_json_facts(str_of(grant->spec));

    op->grant = grant;
    op_share(op, sb->table, grant->to.tenant, grant->to.key_id, &facts.limits);
    op_submit(op, sb);
}
