/* Snapshots against a runtime whose files are a list of ids, and which fails and stalls on cue. */
#include "scripted.h"

#include <sqlite3.h>

#include "server/core/snapshots.h"

enum { FILES_MAX = 8, STALLED_MAX = 8 };

/* Of the runtime; workers call. */
static struct {
    pthread_mutex_t lock;
    char files[FILES_MAX][ID_UUID_MAX];
    size_t count, removals;
    int fails, remove_fails;
    bool stalls;
    struct runtime_snapshot *stalled[STALLED_MAX];
    size_t stalled_count;
} rt = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int make_file(struct str id)
{
    CHECK(rt.count < FILES_MAX);
    return str_copy(rt.files[rt.count++], ID_UUID_MAX, id);
}

static int fake_snapshot(struct runtime *r UNUSED, struct runtime_snapshot *s, struct err *e)
{
    int result = 1;

    (void)pthread_mutex_lock(&rt.lock);
    s->size_bytes = 7;
    s->frozen_us = 1500;
    if (rt.stalls) {
        rt.stalled[rt.stalled_count++] = s;
        result = 0;
    } else if (rt.fails)
        result = err_set(e, rt.fails, "as the script says");
    else
        CHECK_EQ(make_file(s->snapshot_id), 0);
    (void)pthread_mutex_unlock(&rt.lock);
    return result;
}

static int fake_remove(struct runtime *r UNUSED, struct str id, struct err *e)
{
    int result = 0;

    (void)pthread_mutex_lock(&rt.lock);
    rt.removals++;
    for (size_t i = 0; i < rt.count; i++)
        if (!rt.remove_fails && str_eq(str_of(rt.files[i]), id)) {
            memcpy(rt.files[i], rt.files[--rt.count], ID_UUID_MAX);
            result = 1;
        }
    if (rt.remove_fails)
        result = err_set(e, rt.remove_fails, "as the script says");
    (void)pthread_mutex_unlock(&rt.lock);
    return result;
}

static int fake_each(struct runtime *r UNUSED, runtime_snapshot_visit_fn *visit, void *user,
                     struct err *e UNUSED)
{
    for (size_t i = 0; i < rt.count; i++)
        visit(user, str_of(rt.files[i]), 9);
    return 0;
}

static void fake_cancel(struct runtime *r UNUSED, struct runtime_task *task UNUSED)
{
}

/* --- a table --- */

static struct runtime_ops ops;
static struct snapshots *table;
static struct snapshot *last; /* of the last answer */
static size_t accepted, made, deleted;
static struct api_fail fail;

static void open_table(struct house *h)
{
    ops = *h->runtime->ops;
    ops.snapshot = fake_snapshot;
    ops.snapshot_remove = fake_remove;
    ops.snapshot_each = fake_each;
    ops.cancel = fake_cancel;
    h->runtime->ops = &ops;
    h->runtime->can |= RUNTIME_CAN_SNAPSHOT;
    table = snapshots_new(&(struct snapshots_conf){
        .loop = h->loop, .pool = h->pool, .store = h->store, .runtime = h->runtime});
}

static void init(struct house *h)
{
    house_init(h);
    rt.count = rt.removals = rt.stalled_count = 0;
    rt.fails = rt.remove_fails = 0;
    rt.stalls = false;
    open_table(h);
}

static void done(struct house *h)
{
    snapshots_free(table);
    house_done(h);
}

static void note(struct snapshot *s, const struct api_fail *f, size_t *count)
{
    last = s;
    fail = f ? *f : (struct api_fail){0};
    ++*count;
}

static void on_accepted(void *user UNUSED, struct snapshot *s, const struct api_fail *f)
{
    note(s, f, &accepted);
}

static void on_made(void *user UNUSED, struct snapshot *s, const struct api_fail *f)
{
    note(s, f, &made);
}

static void on_deleted(void *user UNUSED, struct snapshot *s, const struct api_fail *f)
{
    note(s, f, &deleted);
}

static void take(const char *sandbox)
{
    struct snapshot_request request = {.sandbox_id = str_of(sandbox), .name = STR("n")};

    fail = (struct api_fail){0};
    snapshots_create(table, &ann, &request, on_accepted, on_made, NULL);
}

static bool is_over(struct house *h UNUSED)
{
    return snapshots_busy(table) == 0;
}

static size_t wanted_stalled;

static bool has_stalled(struct house *h UNUSED)
{
    size_t n;

    (void)pthread_mutex_lock(&rt.lock);
    n = rt.stalled_count;
    (void)pthread_mutex_unlock(&rt.lock);
    return n == wanted_stalled;
}

static bool has_state(struct house *h, struct str id, const char *state)
{
    AUTO_ARENA(arena, 1 << 16);
    struct store_record record = {0};

    return store_record_get(h->store, STR("snapshot"), id, &arena, &record, NULL) == 1 &&
           str_eq(record.state, str_of(state));
}

TEST(snapshots, becomes_ready_and_shows_what_it_cost)
{
    struct api_snapshot view;
    struct house h;

    init(&h);
    accepted = made = 0;
    take("box");
    house_await(&h, is_over);
    CHECK_EQ(accepted, 1);
    CHECK_EQ(made, 1);
    CHECK_EQ(fail.status, 0);
    CHECK_EQ(last->state, SNAPSHOT_READY);
    CHECK_STR(last->reason, "snapshot_runtime_ready");
    CHECK(has_state(&h, str_of(last->id), "Ready"));
    snapshot_view(last, &view);
    CHECK_EQ(view.size_bytes, 7);
    CHECK_EQ(view.frozen_ms, 2);
    CHECK_EQ(snapshots_check(table, &ann, str_of(last->id), &fail), 0);
    CHECK(snapshots_newest(table) == last);
    CHECK(!snapshots_older(table, last));
    done(&h);
}

TEST(snapshots, fails_with_the_reason_and_leaves_no_files)
{
    static const struct {
        int code;
        const char *reason;
    } rows[] = {
        {EIO,       "snapshot_runtime_failed" },
        {ETIMEDOUT, "snapshot_runtime_timeout"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct house h;

        init(&h);
        rt.fails = rows[i].code;
        take("box");
        house_await(&h, is_over);
        CHECK_EQ(fail.status, 500);
        CHECK_EQ(last->state, SNAPSHOT_FAILED);
        CHECK_STR(last->reason, rows[i].reason);
        CHECK_STR(last->message, "as the script says");
        CHECK_EQ(rt.removals, 1);
        CHECK(has_state(&h, str_of(last->id), "Failed"));
        CHECK_EQ(snapshots_check(table, &ann, str_of(last->id), &fail), -EBADMSG);
        CHECK_EQ(fail.status, 409);
        CHECK_STR(fail.code, "SNAPSHOT::NOT_READY");
        done(&h);
    }
}

static void run_sql(const char *sql)
{
    sqlite3 *db = NULL;

    CHECK_EQ(sqlite3_open(store_path, &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

/* As on a disk that is full: neither the files nor the new state can be written. */
TEST(snapshots, fails_also_when_that_cannot_be_stored)
{
    struct house h;

    if (store_is_postgres())
        test_skip("SQLite's triggers");
    init(&h);
    rt.fails = ENOSPC;
    run_sql("CREATE TRIGGER full BEFORE UPDATE ON records BEGIN SELECT RAISE(ABORT, 'full'); END");
    take("box");
    house_await(&h, is_over);
    CHECK_EQ(rt.removals, 1);
    CHECK_EQ(last->state, SNAPSHOT_FAILED);
    CHECK_STR(last->message, "as the script says");
    CHECK(has_state(&h, str_of(last->id), "Creating"));
    run_sql("DROP TRIGGER full");
    deleted = 0;
    snapshot_delete(last, &ann, on_deleted, NULL);
    house_await(&h, is_over);
    CHECK_EQ(deleted, 1);
    CHECK_EQ(fail.status, 0);
    CHECK(!snapshots_newest(table));
    done(&h);
}

TEST(snapshots, makes_two_at_a_time_and_one_of_a_sandbox)
{
    struct house h;

    init(&h);
    made = 0;
    rt.stalls = true;
    take("one");
    take("one");
    take("two");
    take("three");
    wanted_stalled = 2;
    house_await(&h, has_stalled);
    CHECK(!str_eq(rt.stalled[0]->id, rt.stalled[1]->id));
    for (size_t i = 0; i < 4; i++) {
        struct runtime_snapshot *s = rt.stalled[i];

        CHECK_EQ(make_file(s->snapshot_id), 0);
        runtime_task_end(&s->task, 1, NULL);
        wanted_stalled = i + 3 < 4 ? i + 3 : 4;
        house_await(&h, has_stalled);
    }
    house_await(&h, is_over);
    CHECK_EQ(made, 4);
    done(&h);
}

static size_t wanted_accepted;

static bool is_accepted(struct house *h UNUSED)
{
    return accepted == wanted_accepted;
}

TEST(snapshots, refuses_more_than_may_wait)
{
    struct house h;

    init(&h);
    accepted = 0;
    rt.stalls = true;
    for (size_t i = 0; i <= SNAPSHOT_QUEUE_MAX; i++) { /* one is being made, the others wait */
        take("one");
        wanted_accepted = i + 1;
        house_await(&h, is_accepted);
        CHECK_EQ(fail.status, 0);
    }
    take("one");
    CHECK_EQ(fail.status, 503);
    CHECK(strstr(fail.message, "wait to be made"));
    wanted_stalled = 1;
    house_await(&h, has_stalled);
    snapshots_stop(table);
    runtime_task_end(&rt.stalled[0]->task, -ECANCELED, NULL);
    house_await(&h, is_over);
    done(&h);
}

TEST(snapshots, deletes_only_what_is_not_being_made)
{
    struct house h;
    char id[ID_UUID_MAX];

    init(&h);
    rt.stalls = true;
    take("box");
    wanted_stalled = 1;
    house_await(&h, has_stalled);
    snapshot_delete(last, &ann, on_deleted, NULL);
    CHECK_EQ(fail.status, 409);
    CHECK_STR(fail.code, "SNAPSHOT::INVALID_STATE");
    CHECK_EQ(make_file(str_of(last->id)), 0);
    runtime_task_end(&rt.stalled[0]->task, 1, NULL);
    house_await(&h, is_over);

    rt.remove_fails = EBUSY;
    snapshot_delete(last, &ann, on_deleted, NULL);
    house_await(&h, is_over);
    CHECK_EQ(fail.status, 409);
    CHECK_STR(fail.code, "SNAPSHOT::DELETE_CONFLICT");
    CHECK_EQ(last->state, SNAPSHOT_DELETING);
    memcpy(id, last->id, sizeof(id));
    rt.remove_fails = 0;
    snapshot_delete(last, &ann, on_deleted, NULL);
    house_await(&h, is_over);
    CHECK_EQ(fail.status, 0);
    CHECK(!snapshots_find(table, str_of(id)));
    CHECK_EQ(rt.count, 0);
    CHECK_EQ(snapshots_check(table, &ann, str_of(id), &fail), -EBADMSG);
    CHECK_EQ(fail.status, 404);
    done(&h);
}

static void insert(struct house *h, const char *id, const char *state, bool hidden)
{
    struct store_record record = {
        .kind = STR("snapshot"),
        .id = str_of(id),
        .state = str_of(state),
        .tenant = STR("theirs"),
        .created_us = 1,
        .json = hidden ? STR("{\"sandboxId\":\"b\",\"name\":\"n\",\"hidden\":true}")
                       : STR("{\"sandboxId\":\"b\",\"name\":\"n\",\"reason\":\"r\"}"),
    };

    CHECK_EQ(store_record_insert(h->store, &record, NULL), 1);
}

TEST(snapshots, settles_at_the_start_what_was_cut_short)
{
    struct house h;

    init(&h);
    insert(&h, "whole", "Creating", false);
    insert(&h, "half", "Creating", false);
    insert(&h, "going", "Deleting", false);
    insert(&h, "fork", "Ready", true);
    insert(&h, "ready", "Ready", false);
    insert(&h, "odd", "Sideways", false);
    CHECK_EQ(make_file(STR("whole")), 0);
    CHECK_EQ(make_file(STR("going")), 0);
    CHECK_EQ(make_file(STR("fork")), 0);
    CHECK_EQ(make_file(STR("nobody")), 0);
    CHECK_EQ(snapshots_load(table, NULL), 0);
    house_await(&h, is_over);
    CHECK_EQ(snapshots_find(table, STR("whole"))->state, SNAPSHOT_READY);
    CHECK_STR(snapshots_find(table, STR("whole"))->reason, "snapshot_recovery_ready");
    CHECK_EQ(snapshots_find(table, STR("whole"))->size_bytes, 9);
    CHECK_EQ(snapshots_find(table, STR("half"))->state, SNAPSHOT_FAILED);
    CHECK_STR(snapshots_find(table, STR("half"))->reason, "snapshot_recovery_missing_image");
    CHECK(!snapshots_find(table, STR("going")));
    CHECK(!snapshots_find(table, STR("fork")));
    CHECK(!snapshots_find(table, STR("odd")));
    CHECK_EQ(snapshots_find(table, STR("ready"))->state, SNAPSHOT_READY);
    CHECK(has_state(&h, STR("whole"), "Ready"));
    CHECK(has_state(&h, STR("half"), "Failed"));
    CHECK_EQ(rt.count, 2); /* of `whole`, and of one that nobody knows */
    done(&h);
}

/* --- those of other servers --- */

static struct runtime_shared_snapshot shared[2];
static size_t shared_count, looks;
static int shared_fails;
static atomic_size_t asked, asking, most; /* calls; those that are under way, and how many were */
static atomic_bool held;                  /* calls wait */

static int fake_shared(struct runtime *r UNUSED, struct str id, runtime_shared_visit_fn *visit,
                       void *user, struct err *e)
{
    size_t now = ++asking;

    asked++;
    if (now > most)
        most = now;
    while (held)
        (void)usleep(1000);
    asking--;
    if (shared_fails)
        return err_set(e, shared_fails, "as the script says");
    for (size_t i = 0; i < shared_count; i++)
        if (!id.n || str_eq(id, shared[i].id))
            visit(user, &shared[i]);
    return 0;
}

static void init_shared(struct house *h)
{
    init(h);
    ops.snapshot_shared = fake_shared;
    h->runtime->can |= RUNTIME_CAN_SHARE;
    shared_count = looks = 0;
    shared_fails = 0;
    asked = asking = most = 0;
    held = false;
}

static void on_looked(void *user UNUSED)
{
    looks++;
}

static size_t wanted_looks;

static bool has_looked(struct house *h UNUSED)
{
    return looks == wanted_looks;
}

static void look(struct house *h, const char *id)
{
    wanted_looks = looks + 1;
    snapshots_look(table, str_of(id), on_looked, NULL);
    house_await(h, has_looked);
}

static void share(const char *id, int64_t created_us, enum snapshot_state state)
{
    shared[shared_count++] = (struct runtime_shared_snapshot){
        str_of(id), STR("box"), STR("theirs"), STR("a reason"), state, created_us};
}

static enum snapshot_state state_of(const char *id)
{
    const struct snapshot *s = snapshots_find(table, str_of(id));

    return s ? s->state : SNAPSHOT_STATE_COUNT;
}

TEST(snapshots, of_other_servers_are_known_once_the_runtime_was_asked)
{
    struct house h;

    init_shared(&h);
    share("young", 20, SNAPSHOT_CREATING);
    share("old", 10, SNAPSHOT_READY);
    look(&h, "young");
    CHECK_EQ(state_of("old"), SNAPSHOT_STATE_COUNT);
    look(&h, "");
    CHECK_EQ(state_of("young"), SNAPSHOT_CREATING);
    CHECK_EQ(state_of("old"), SNAPSHOT_READY);
    CHECK_STR(snapshots_newest(table)->id, "young"); /* by age, not by when they became known */
    CHECK_STR(snapshots_newest(table)->name, "theirs");
    shared[0].state = SNAPSHOT_FAILED;
    look(&h, "young");
    CHECK_EQ(state_of("young"), SNAPSHOT_FAILED);
    CHECK_STR(snapshots_newest(table)->message, "a reason");
    done(&h);
}

TEST(snapshots, of_other_servers_go_when_they_are_deleted_there)
{
    struct house h;

    init_shared(&h);
    share("one", 10, SNAPSHOT_READY);
    share("two", 20, SNAPSHOT_CREATING);
    look(&h, "");
    shared_count = 0;
    shared_fails = EIO; /* says nothing about what there is */
    look(&h, "");
    CHECK_EQ(state_of("one"), SNAPSHOT_READY);
    shared_fails = 0;
    look(&h, "");
    CHECK_EQ(state_of("one"), SNAPSHOT_STATE_COUNT);
    CHECK_EQ(state_of("two"), SNAPSHOT_FAILED); /* for who waits for it */
    done(&h);
}

TEST(snapshots, of_other_servers_are_deleted_without_a_record)
{
    struct house h;

    init_shared(&h);
    deleted = 0;
    share("one", 10, SNAPSHOT_READY);
    look(&h, "one");
    CHECK(!has_state(&h, STR("one"), "Ready"));
    snapshot_delete(snapshots_find(table, STR("one")), &ann, on_deleted, NULL);
    house_await(&h, is_over);
    CHECK_EQ(deleted, 1);
    CHECK_EQ(fail.status, 0);
    CHECK_EQ(rt.removals, 1);
    CHECK_EQ(state_of("one"), SNAPSHOT_STATE_COUNT);
    done(&h);
}

TEST(snapshots, that_another_server_deleted_lose_their_record)
{
    char id[ID_UUID_MAX];
    struct house h;

    init_shared(&h);
    take("box");
    house_await(&h, is_over);
    CHECK_EQ(last->state, SNAPSHOT_READY);
    memcpy(id, last->id, sizeof(id));
    share(id, last->created_us, SNAPSHOT_READY);
    look(&h, "");
    CHECK(has_state(&h, str_of(id), "Ready"));
    shared_count = 0;
    look(&h, id);
    CHECK_EQ(state_of(id), SNAPSHOT_STATE_COUNT);
    CHECK(!has_state(&h, str_of(id), "Ready"));
    done(&h);
}

TEST(snapshots, are_begun_before_they_are_accepted_where_others_see_them)
{
    struct house h;

    init_shared(&h);
    accepted = made = 0;
    rt.stalls = true;
    for (size_t i = 0; i < 4; i++) /* more than are made at a time elsewhere */
        take("box");
    wanted_accepted = 4;
    house_await(&h, is_accepted);
    CHECK_EQ(rt.stalled_count, 4);
    look(&h, ""); /* does not take them for lost */
    for (size_t i = 0; i < 4; i++)
        runtime_task_end(&rt.stalled[i]->task, 1, NULL);
    house_await(&h, is_over);
    CHECK_EQ(made, 4);
    CHECK_EQ(last->state, SNAPSHOT_READY);
    done(&h);
}

TEST(snapshots, that_were_cut_short_go_on_in_the_cluster)
{
    struct house h;

    init_shared(&h);
    insert(&h, "cut", "Creating", false);
    insert(&h, "lost", "Creating", false);
    share("cut", 10, SNAPSHOT_CREATING);
    CHECK_EQ(snapshots_load(table, NULL), 0);
    CHECK_EQ(state_of("cut"), SNAPSHOT_CREATING);
    shared[0].state = SNAPSHOT_READY;
    look(&h, "");
    CHECK_EQ(state_of("cut"), SNAPSHOT_READY);
    CHECK_EQ(state_of("lost"), SNAPSHOT_FAILED);
    done(&h);
}

TEST(snapshots, that_were_cut_short_stay_their_tenants)
{
    struct principal theirs = ann;
    struct house h;

    init_shared(&h);
    CHECK_EQ(str_copy(theirs.tenant, sizeof(theirs.tenant), STR("theirs")), 0);
    insert(&h, "cut", "Creating", false);
    share("cut", 10, SNAPSHOT_CREATING);
    for (size_t i = 0; i < 3; i++) { /* starts */
        CHECK_EQ(snapshots_load(table, NULL), 0);
        shared[0].state = i ? SNAPSHOT_READY : SNAPSHOT_CREATING;
        look(&h, "");
        CHECK_STR(snapshots_find(table, STR("cut"))->tenant, "theirs");
        CHECK_EQ(snapshots_check(table, &ann, STR("cut"), &fail), -EBADMSG);
        CHECK_EQ(fail.status, 404);
        CHECK_EQ(snapshots_check(table, &theirs, STR("cut"), &fail), i ? 0 : -EBADMSG);
        CHECK(i || fail.status == 409);
        if (i < 2) {
            snapshots_free(table);
            open_table(&h);
            ops.snapshot_shared = fake_shared;
        }
    }
    snapshot_delete(snapshots_find(table, STR("cut")), &theirs, on_deleted, NULL);
    house_await(&h, is_over);
    CHECK_EQ(fail.status, 0);
    CHECK_EQ(state_of("cut"), SNAPSHOT_STATE_COUNT);
    CHECK(!has_state(&h, STR("cut"), "Creating"));
    done(&h);
}

TEST(snapshots, that_were_cut_short_lose_their_record_when_they_are_gone)
{
    struct house h;

    init_shared(&h);
    insert(&h, "cut", "Creating", false);
    share("cut", 10, SNAPSHOT_READY);
    CHECK_EQ(snapshots_load(table, NULL), 0);
    look(&h, "");
    CHECK_EQ(state_of("cut"), SNAPSHOT_READY);
    CHECK(has_state(&h, STR("cut"), "Creating"));
    shared_count = 0;
    look(&h, "");
    CHECK_EQ(state_of("cut"), SNAPSHOT_STATE_COUNT);
    CHECK(!has_state(&h, STR("cut"), "Creating"));
    done(&h);
}

static size_t wanted_asked;

static bool has_asked(struct house *h UNUSED)
{
    return asked == wanted_asked;
}

TEST(snapshots, of_other_servers_are_asked_for_once_for_all_that_wait)
{
    enum { REQUESTS = 20 };
    struct house h;

    init_shared(&h);
    held = true;
    snapshots_look(table, STR(""), on_looked, NULL);
    wanted_asked = 1;
    house_await(&h, has_asked);
    share("new", 10, SNAPSHOT_READY);
    for (size_t i = 1; i < REQUESTS; i++) /* a look that has begun may not know of it */
        snapshots_look(table, STR(""), on_looked, NULL);
    held = false;
    wanted_looks = REQUESTS;
    house_await(&h, has_looked);
    house_await(&h, is_over);
    CHECK_EQ(asked, 2);
    CHECK_EQ(most, 1);
    CHECK_EQ(state_of("new"), SNAPSHOT_READY);
    done(&h);
}

TEST(snapshots, of_other_servers_are_not_asked_for_by_all_workers)
{
    enum { REQUESTS = 20, LOOKS = 4 };
    struct pool_conf many = {"worker", 2 * LOOKS, 64};
    struct pool *pool;
    struct house h;

    init_shared(&h);
    snapshots_free(table);
    CHECK_EQ(pool_new(&many, &pool, NULL), 0);
    table = snapshots_new(&(struct snapshots_conf){
        .loop = h.loop, .pool = pool, .store = h.store, .runtime = h.runtime});
    held = true;
    for (size_t i = 0; i < REQUESTS; i++)
        snapshots_look(table, STR("one"), on_looked, NULL);
    wanted_asked = LOOKS;
    house_await(&h, has_asked);
    (void)usleep(20 * 1000); /* for others to come, too */
    held = false;
    wanted_looks = REQUESTS;
    house_await(&h, has_looked);
    CHECK_EQ(asked, REQUESTS);
    CHECK_EQ(most, LOOKS);
    pool_free(pool);
    done(&h);
}

TEST(snapshots, looks_that_wait_end_when_the_server_stops)
{
    struct house h;

    init_shared(&h);
    held = true;
    for (size_t i = 0; i < 2; i++)
        snapshots_look(table, STR(""), on_looked, NULL);
    snapshots_stop(table);
    CHECK_EQ(looks, 1);
    held = false;
    house_await(&h, is_over);
    CHECK_EQ(looks, 2);
    CHECK_EQ(asked, 1);
    done(&h);
}
