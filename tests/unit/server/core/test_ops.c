/* Operations against a runtime that fails, stalls and dies on cue. */
#include "scripted.h"

static bool is_stalled(struct house *h)
{
    bool stalled;

    (void)pthread_mutex_lock(&h->cloud->lock);
    stalled = h->cloud->stalled != NULL;
    (void)pthread_mutex_unlock(&h->cloud->lock);
    return stalled;
}

/* Its message says so, and no worker is busy. */
static bool is_pulling(struct house *h)
{
    struct pool_stats stats;

    pool_stats(h->pool, &stats);
    return strcmp(h->sb->message, "pulling layer 2 of 5") == 0 && stats.running == 0;
}

static bool is_cancelled(struct house *h)
{
    return h->cloud->cancels > 0;
}

TEST(ops, shows_the_progress_of_a_create_and_holds_no_worker_for_it)
{
    struct house h;

    house_init(&h);
    h.cloud->stalls = true;
    h.sb = house_start_create(&h, 60);
    house_await(&h, is_stalled);
    runtime_task_say(&h.cloud->stalled->task, "pulling layer %d of 5", 1);
    runtime_task_say(&h.cloud->stalled->task, "pulling layer %d of 5", 2);
    house_await(&h, is_pulling);
    CHECK_EQ(h.sb->state, SANDBOX_PENDING);
    scripted_finish(h.cloud, 0);
    house_await(&h, is_done);
    CHECK_EQ(h.fail.status, 0);
    CHECK_EQ(h.sb->state, SANDBOX_RUNNING);
    CHECK_STR(h.sb->message, "the sandbox is running");
    CHECK_EQ(house_boxes(&h), 1);
    house_done(&h);
}

TEST(ops, fails_a_create_that_the_runtime_ends_so)
{
    struct house h;

    house_init(&h);
    h.cloud->stalls = true;
    (void)house_start_create(&h, 60);
    house_await(&h, is_stalled);
    scripted_finish(h.cloud, EIO);
    house_await(&h, is_done);
    CHECK(!h.sb);
    CHECK_EQ(h.fail.status, 500);
    CHECK_STR(h.fail.message, "as the script says");
    CHECK_EQ(count_rows(h.store), 0);
    house_done(&h);
}

TEST(ops, cancels_a_create_that_is_deleted)
{
    struct house h;
    struct sandbox *sb;

    house_init(&h);
    h.cloud->stalls = true;
    sb = house_start_create(&h, 60);
    house_await(&h, is_stalled);
    sandbox_delete(sb, &ann, NULL, NULL);
    house_await(&h, is_idle);
    CHECK_EQ(h.cloud->cancels, 1);
    CHECK_EQ(h.done, 1); /* of the create */
    CHECK_EQ(count_rows(h.store), 0);
    CHECK_EQ(house_boxes(&h), 0);
    house_done(&h);
}

TEST(ops, removes_a_sandbox_that_was_made_in_spite_of_its_cancel)
{
    struct house h;
    struct sandbox *sb;

    house_init(&h);
    h.cloud->stalls = h.cloud->ignores_cancel = true;
    sb = house_start_create(&h, 60);
    house_await(&h, is_stalled);
    sandbox_delete(sb, &ann, NULL, NULL);
    house_await(&h, is_cancelled);
    CHECK_EQ(count_rows(h.store), 1);
    scripted_finish(h.cloud, 0);
    house_await(&h, is_idle);
    CHECK_EQ(house_boxes(&h), 0);
    CHECK_EQ(count_rows(h.store), 0);
    house_done(&h);
}

TEST(ops, cancels_creates_when_the_server_stops)
{
    struct house h;

    house_init(&h);
    h.cloud->stalls = true;
    (void)house_start_create(&h, 60);
    house_await(&h, is_stalled);
    sandboxes_stop(h.table);
    house_await(&h, is_idle);
    CHECK_EQ(h.done, 1);
    CHECK_STR(h.fail.message, "the server is stopping");
    CHECK_EQ(count_rows(h.store), 0);
    house_done(&h);
}

TEST(ops, refuses_what_the_runtime_cannot_do)
{
    struct house h;
    struct api_create spec = {.network_policy = true};
    struct api_fail f = {0};

    house_init(&h);
    CHECK(runtime_check_abilities(h.runtime, &spec, &f) < 0);
    CHECK_EQ(f.status, 400);
    spec = (struct api_create){.pool_ref = STR("p")};
    CHECK(runtime_check_source(h.runtime, &spec, &f) < 0);
    CHECK_STR(f.code, "SANDBOX::UNSUPPORTED_POOL_REF");
    spec = (struct api_create){.snapshot_id = STR("s")};
    CHECK(runtime_check_source(h.runtime, &spec, &f) < 0);
    CHECK_EQ(f.status, 404);
    h.runtime->can = 0;
    (void)house_create(&h, 60);
    h.done = 0;
    sandbox_pause(h.sb, &ann, house_on_done, &h);
    house_await(&h, is_done);
    CHECK_EQ(h.fail.status, 501);
    CHECK_STR(h.fail.code, "SANDBOX::API_NOT_SUPPORTED");
    CHECK_EQ(h.cloud->calls[SCRIPTED_PAUSE], 0);
    house_done(&h);
}

TEST(ops, passes_on_what_the_runtime_fails_with)
{
    static const struct {
        int fails, status;
    } rows[] = {
        {EIO,       500},
        {ETIMEDOUT, 503},
        {ENOSPC,    503},
        {ESRCH,     409},
    };
    struct house h;

    house_init(&h);
    (void)house_create(&h, 60);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        house_cue(&h, SCRIPTED_PAUSE, rows[i].fails, 1);
        h.done = 0;
        sandbox_pause(h.sb, &ann, house_on_done, &h);
        house_await(&h, is_done);
        CHECK_EQ(h.fail.status, rows[i].status);
        CHECK_EQ(h.sb->state, SANDBOX_RUNNING);
    }
    house_done(&h);
}

TEST(ops, keeps_the_row_of_a_sandbox_that_cannot_be_removed)
{
    struct house h;

    house_init(&h);
    (void)house_create(&h, 60);
    house_cue(&h, SCRIPTED_REMOVE, EIO, 1);
    h.done = 0;
    sandbox_delete(h.sb, &ann, house_on_done, &h);
    house_await(&h, is_done);
    CHECK_EQ(h.fail.status, 500);
    CHECK_EQ(h.sb->state, SANDBOX_STOPPING);
    CHECK_EQ(count_rows(h.store), 1);
    CHECK_EQ(house_boxes(&h), 1);
    h.done = 0;
    sandbox_delete(h.sb, &ann, house_on_done, &h);
    house_await(&h, is_done);
    CHECK_EQ(h.fail.status, 0);
    CHECK_EQ(house_boxes(&h), 0);
    house_done(&h);
}
