/* Reconcile, adoption and expiry against a runtime that fails, lies and dies on cue. */
#include "scripted.h"

#include "base/log.h"

static const char *watched; /* id of the sandbox that a condition is about */

static enum sandbox_state state_of(struct house *h)
{
    const struct sandbox *sb = sandboxes_find(h->table, str_of(watched));

    return sb ? sb->state : SANDBOX_STATE_COUNT;
}

static bool is_failed(struct house *h)
{
    return state_of(h) == SANDBOX_FAILED && is_idle(h);
}

static bool is_terminated(struct house *h)
{
    return state_of(h) == SANDBOX_TERMINATED;
}

static bool is_gone(struct house *h)
{
    return state_of(h) == SANDBOX_STATE_COUNT && house_boxes(h) == 0;
}

static bool is_empty(struct house *h)
{
    return house_boxes(h) == 0;
}

static bool has_listed(struct house *h)
{
    bool listed;

    (void)pthread_mutex_lock(&h->cloud->lock);
    listed = h->cloud->calls[SCRIPTED_LIST] >= 3;
    (void)pthread_mutex_unlock(&h->cloud->lock);
    return listed;
}

/* A sandbox of this owner that no row knows. */
static void put_box(struct house *h, const char *id, const char *owner)
{
    struct scripted_box *box = h->cloud->boxes;

    (void)pthread_mutex_lock(&h->cloud->lock);
    while (box->there)
        box++;
    *box = (struct scripted_box){.owner = owner, .end = -EBADF, .there = true};
    (void)snprintf(box->id, sizeof(box->id), "%s", id);
    (void)pthread_mutex_unlock(&h->cloud->lock);
}

TEST(reconcile, adopts_what_runs_after_a_restart)
{
    struct house h;
    char id[ID_UUID_MAX];

    house_init(&h);
    memcpy(id, house_create(&h, 60)->id, sizeof(id));
    watched = id;
    house_reopen(&h);
    house_await(&h, is_idle);
    CHECK_EQ(state_of(&h), SANDBOX_RUNNING);
    CHECK_EQ(house_boxes(&h), 1);
    house_end_box(&h, id, 0); /* seen by the watch that was adopted */
    house_await(&h, is_terminated);
    house_done(&h);
}

TEST(reconcile, reports_a_sandbox_that_is_lost)
{
    struct house h;
    char id[ID_UUID_MAX];

    house_init(&h);
    CHECK_EQ(sandboxes_load(h.table, NULL), 0); /* and begins to compare */
    h.cloud->forgets = true;                    /* the create lies */
    memcpy(id, house_create(&h, 60)->id, sizeof(id));
    watched = id;
    CHECK_EQ(count_rows(h.store), 1);
    house_await(&h, is_failed);
    CHECK_STR(sandboxes_find(h.table, str_of(id))->reason, "SANDBOX_LOST");
    house_done(&h);
}

TEST(reconcile, waits_for_a_runtime_that_is_dead)
{
    struct house h;
    char id[ID_UUID_MAX];

    house_init(&h);
    memcpy(id, house_create(&h, 60)->id, sizeof(id));
    watched = id;
    h.cloud->dead = true;
    house_reopen(&h);
    house_await(&h, has_listed);
    CHECK_EQ(state_of(&h), SANDBOX_RUNNING); /* nothing is known, so nothing is changed */
    (void)pthread_mutex_lock(&h.cloud->lock);
    h.cloud->dead = false;
    h.cloud->calls[SCRIPTED_LIST] = 0;
    (void)pthread_mutex_unlock(&h.cloud->lock);
    house_await(&h, has_listed);
    CHECK_EQ(state_of(&h), SANDBOX_RUNNING);
    CHECK_EQ(house_boxes(&h), 1);
    house_done(&h);
}

/* The watch is used up by then, and nothing is compared here. */
TEST(reconcile, asks_again_for_a_state_that_it_could_not_learn)
{
    struct house h;
    char id[ID_UUID_MAX];

    house_init(&h);
    memcpy(id, house_create(&h, 60)->id, sizeof(id));
    watched = id;
    (void)pthread_mutex_lock(&h.cloud->lock);
    h.cloud->cues[SCRIPTED_ADOPT] = (struct scripted_cue){.fails = EIO, .times = 2};
    (void)pthread_mutex_unlock(&h.cloud->lock);
    house_end_box(&h, id, 0);
    house_await(&h, is_terminated);
    CHECK_EQ(h.cloud->calls[SCRIPTED_ADOPT], 3);
    CHECK_EQ(h.cloud->calls[SCRIPTED_LIST], 0);
    house_done(&h);
}

TEST(reconcile, removes_what_no_row_knows)
{
    struct house h;

    house_init(&h);
    put_box(&h, "0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05c", "me");
    house_cue(&h, SCRIPTED_REMOVE, EIO, 2); /* and tries again */
    CHECK_EQ(sandboxes_load(h.table, NULL), 0);
    house_await(&h, is_empty);
    CHECK_EQ(h.cloud->calls[SCRIPTED_REMOVE], 3);
    house_done(&h);
}

TEST(reconcile, leaves_the_sandboxes_of_another_installation_alone)
{
    struct house h;
    static const char theirs[] = "0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05c";

    house_init(&h);
    put_box(&h, theirs, "another");
    insert_row_of(h.store, STR("0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05c"));
    CHECK_EQ(sandboxes_load(h.table, NULL), 0);
    house_await(&h, has_listed);
    house_await(&h, is_idle);
    CHECK_EQ(house_boxes(&h), 1);
    watched = theirs; /* not even a row of ours with its id adopts or removes it */
    CHECK(state_of(&h) != SANDBOX_RUNNING);
    house_done(&h);
}

static int fake_describe(struct runtime *r UNUSED, struct arena *a UNUSED, struct str id UNUSED,
                         struct runtime_description *ret UNUSED, struct err *e)
{
    return err_set(e, EINVAL, "as the script says");
}

static atomic_size_t warnings;

static void count_warnings(void *user UNUSED, enum log_level level, const char *message UNUSED,
                           const struct log_field *fields UNUSED)
{
    warnings += level <= LOG_WARN;
}

static bool answered;

static void on_answer(void *user UNUSED)
{
    answered = true;
}

static bool is_answered(struct house *h)
{
    return answered && is_idle(h);
}

/* Requests could fill the log. */
TEST(reconcile, says_nothing_of_what_only_a_request_named)
{
    struct runtime_ops ops;
    struct house h;

    warnings = 0;
    log_set_tap(count_warnings, NULL);
    house_init(&h);
    ops = *h.runtime->ops;
    ops.describe = fake_describe;
    h.runtime->ops = &ops;
    h.runtime->can |= RUNTIME_CAN_SHARE;
    answered = false;
    sandboxes_ask(h.table, STR("%x"), on_answer, NULL);
    house_await(&h, is_answered);
    CHECK(!sandboxes_find(h.table, STR("%x")));
    CHECK_EQ(warnings, 0);
    house_done(&h);
    log_set_tap(NULL, NULL);
}

TEST(reconcile, ends_what_expires_and_tries_again_when_the_runtime_fails)
{
    struct house h;
    char id[ID_UUID_MAX];

    house_init(&h);
    memcpy(id, house_create(&h, 1)->id, sizeof(id));
    watched = id;
    house_cue(&h, SCRIPTED_REMOVE, EIO, 1);
    house_await(&h, is_gone);
    CHECK_EQ(h.cloud->calls[SCRIPTED_REMOVE], 2);
    CHECK_EQ(count_rows(h.store), 0);
    house_done(&h);
}

TEST(reconcile, ends_what_expired_while_the_server_was_down)
{
    struct house h;

    house_init(&h);
    insert_row_of(h.store, STR("0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05c")); /* expired long ago */
    put_box(&h, "0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05c", "me");
    watched = "0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05c";
    CHECK_EQ(sandboxes_load(h.table, NULL), 0);
    house_await(&h, is_gone);
    CHECK_EQ(count_rows(h.store), 0);
    house_done(&h);
}
