#include "server/core/sandboxes.h"

#include "base/time.h"
#include "store_fixture.h"

enum { STOP_MS = 30 * 1000 };

/* A runtime whose sandboxes are ids in a list. */
struct fake {
    struct runtime base;
    size_t created, removed;
    char image[64]; /* of the last create */
    char env[64];
    struct err create_fails; /* code 0 = it does not */
};

static struct fake *fake_of(struct runtime *r)
{
    return container_of(r, struct fake, base);
}

static int fake_check(struct runtime *r UNUSED, const struct api_create *spec UNUSED,
                      struct api_fail *f UNUSED)
{
    return 0;
}

static int fake_grant(struct runtime *r UNUSED, struct runtime_create *c, struct api_fail *f UNUSED)
{
    c->plan = mem_strdup("a plan"); /* for ASan: it is freed whatever happens */
    return 0;
}

static int fake_create(struct runtime *r, struct runtime_create *c, struct err *e)
{
    const struct api_create *spec = c->spec;
    struct fake *fake = fake_of(r);

    fake->created++;
    if (fake->create_fails.code)
        return err_set(e, fake->create_fails.code, "%s", fake->create_fails.msg);
    CHECK_EQ(str_copy(fake->image, sizeof(fake->image), spec->image), 0);
    if (spec->env_count)
        CHECK_EQ(str_copy(fake->env, sizeof(fake->env), spec->env[0].value), 0);
    return 1;
}

static void fake_image_note(struct runtime *r UNUSED, struct str image UNUSED,
                            struct buf *out UNUSED)
{
}

static int fake_freeze(struct runtime *r UNUSED, struct str id UNUSED, struct err *e UNUSED)
{
    return 0;
}

static int fake_remove(struct runtime *r, struct str id UNUSED, struct err *e UNUSED)
{
    fake_of(r)->removed++;
    return 1;
}

static const struct runtime_ops fake_ops = {
    .check_source = fake_check,
    .check_abilities = fake_check,
    .check = fake_grant,
    .create = fake_create,
    .image_note = fake_image_note,
    .pause = fake_freeze,
    .resume = fake_freeze,
    .remove = fake_remove,
};

/* Sandboxes with a store, a pool and the runtime above; and the outcome of the last operation. */
struct house {
    struct loop *loop;
    struct pool *pool;
    struct store *store;
    struct fake fake;
    struct sandboxes *table;
    struct loop_timer late;
    struct sandbox *sb; /* NULL = none is left */
    struct api_fail fail;
};

static void on_late(struct loop_timer *timer UNUSED)
{
    test_fail(__FILE__, __LINE__, "an operation did not end");
}

static void house_init(struct house *h)
{
    struct pool_conf pool = {"worker", 2, 16};
    struct sandboxes_conf conf;

    *h = (struct house){.fake = {.base = {&fake_ops, "fake", RUNTIME_CAN_PAUSE}}};
    CHECK_EQ(loop_new(&h->loop, NULL), 0);
    CHECK_EQ(pool_new(&pool, &h->pool, NULL), 0);
    h->store = open_store();
    conf = (struct sandboxes_conf){
        .loop = h->loop,
        .pool = h->pool,
        .store = h->store,
        .runtime = &h->fake.base,
        .reconcile_ms = STOP_MS,
        .max = 2,
    };
    CHECK_EQ(sandboxes_new(&conf, &h->table, NULL), 0);
}

static void house_done(struct house *h)
{
    pool_free(h->pool);
    loop_settle(h->loop);
    sandboxes_free(h->table);
    store_close(h->store);
    loop_free(h->loop);
}

static void on_done(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct house *h = user;

    h->sb = sb;
    h->fail = fail ? *fail : (struct api_fail){0};
    loop_stop(h->loop);
}

static void run(struct house *h)
{
    loop_timer_set(h->loop, &h->late, deadline_in_ms(STOP_MS), on_late);
    CHECK_EQ(loop_run(h->loop, NULL), 0);
    loop_timer_stop(h->loop, &h->late);
}

static const struct principal ann = {"key:aaaaaaaaaaaa", "default", ROLE_ADMIN};
static const struct principal bob = {"key:bbbbbbbbbbbb", "default", ROLE_ADMIN};

/* The request's memory is gone before a worker sees it. */
static int start_create(struct house *h, int64_t timeout_s, struct api_fail *f)
{
    AUTO_ARENA(a, 1 << 16);
    struct json_pair *env = arena_new(&a, struct json_pair);
    struct str *entrypoint = arena_new(&a, struct str);
    struct sandbox *sb = NULL;
    struct api_create spec = {
        .image = arena_str(&a, STR("python:3.12")),
        .timeout_s = timeout_s,
        .env = env,
        .env_count = 1,
        .entrypoint = entrypoint,
        .entrypoint_count = 1,
    };

    *env = (struct json_pair){arena_str(&a, STR("COLOUR")), arena_str(&a, STR("green"))};
    *entrypoint = arena_str(&a, STR("sleep"));
    return sandboxes_create(h->table, &ann, &spec, on_done, h, &sb, f);
}

static void create(struct house *h, int64_t timeout_s)
{
    struct api_fail f = {0};

    CHECK_EQ(start_create(h, timeout_s, &f), 0);
    run(h);
}

TEST(sandboxes, creates_what_a_struct_says)
{
    struct house h;

    house_init(&h);
    create(&h, 60);
    CHECK_EQ(h.fail.status, 0);
    CHECK_EQ(h.sb->state, SANDBOX_RUNNING);
    CHECK_STR(h.fake.image, "python:3.12");
    CHECK_STR(h.fake.env, "green");
    CHECK_STR(h.sb->entrypoint, "[\"sleep\"]");
    CHECK_EQ(h.sb->expires_us - h.sb->created_us, 60 * TIME_US_PER_S);
    house_done(&h);
}

TEST(sandboxes, belongs_to_the_principal_that_created_it)
{
    struct house h;

    house_init(&h);
    create(&h, 60);
    CHECK_STR(h.sb->owner.key_id, ann.key_id);
    CHECK_STR(h.sb->owner.tenant, "default");
    sandbox_pause(h.sb, &bob, on_done, &h);
    run(&h);
    CHECK_EQ(h.sb->state, SANDBOX_PAUSED);
    CHECK_STR(h.sb->owner.key_id, ann.key_id);
    house_done(&h);
}

TEST(sandboxes, stores_its_owner)
{
    struct house h;
    struct found row;

    house_init(&h);
    create(&h, 60);
    row = find_row(h.store, str_of(h.sb->id));
    CHECK(str_eq(row.row.owner, str_of(ann.key_id)));
    CHECK(str_eq(row.row.tenant, STR("default")));
    found_done(&row);
    house_done(&h);
}

TEST(sandboxes, does_not_create_past_its_limit)
{
    struct house h;
    struct api_fail f = {0};

    house_init(&h);
    create(&h, 60);
    create(&h, 60);
    CHECK(start_create(&h, 60, &f) < 0);
    CHECK_EQ(f.status, 503);
    CHECK_EQ(h.fake.created, 2);
    house_done(&h);
}

TEST(sandboxes, keeps_nothing_of_a_create_that_the_runtime_fails)
{
    struct house h;

    house_init(&h);
    (void)err_set(&h.fake.create_fails, EIO, "no such luck");
    create(&h, 60);
    CHECK(!h.sb);
    CHECK_EQ(h.fail.status, 500);
    CHECK_STR(h.fail.message, "no such luck");
    CHECK_EQ(h.fake.removed, 1);
    CHECK_EQ(count_rows(h.store), 0);
    house_done(&h);
}

TEST(sandboxes, patches_by_a_struct)
{
    struct json_pair pairs[] = {
        {STR("team"), STR("a")},
        {STR("gone"), STR_NONE}
    };
    struct api_patch patch = {pairs, ARRAY_LEN(pairs)};
    struct house h;

    house_init(&h);
    create(&h, 60);
    sandbox_patch(h.sb, &bob, &patch, on_done, &h);
    pairs[0] = (struct json_pair){STR("changed"), STR("meanwhile")};
    run(&h);
    CHECK_EQ(h.fail.status, 0);
    CHECK_STR(h.sb->metadata, "{\"team\":\"a\"}");
    house_done(&h);
}

/* The ids that a walk gives, and its counts. */
static size_t walk(struct house *h, const char *tenant, const struct json_pair *pairs, size_t n,
                   struct sandbox *ret[2], struct sandboxes_walk *w)
{
    size_t found = 0;
    struct sandbox *sb;

    sandboxes_walk(h->table, str_of(tenant), pairs, n, w);
    while ((sb = sandboxes_walk_next(w))) {
        CHECK(found < 2);
        ret[found++] = sb;
    }
    return found;
}

TEST(sandboxes, finds_them_by_tenant_and_metadata_newest_first)
{
    struct json_pair team = {STR("team"), STR("a")}, pair = {STR("n"), STR("1")};
    const struct json_pair both[] = {team, pair}, other = {STR("team"), STR("b")};
    struct api_patch patch = {&team, 1}, numbered = {&pair, 1};
    struct sandbox *first, *second, *got[2];
    struct sandboxes_walk w;
    struct house h;

    house_init(&h);
    CHECK_EQ(walk(&h, "", NULL, 0, got, &w), 0);
    create(&h, 60);
    first = h.sb;
    create(&h, 60);
    second = h.sb;
    CHECK_EQ(walk(&h, "", NULL, 0, got, &w), 2);
    CHECK(w.is_exact && got[0] == second && got[1] == first);
    CHECK_EQ(walk(&h, "default", NULL, 0, got, &w), 2);
    CHECK_EQ(walk(&h, "another", NULL, 0, got, &w), 0);
    CHECK_EQ(walk(&h, "", &team, 1, got, &w), 0);
    sandbox_patch(second, &bob, &patch, on_done, &h);
    run(&h);
    sandbox_patch(first, &bob, &patch, on_done, &h); /* its place stays that of its creation */
    run(&h);
    CHECK_EQ(walk(&h, "default", &team, 1, got, &w), 2);
    CHECK(w.is_exact && got[0] == second && got[1] == first);
    CHECK_EQ(walk(&h, "default", &other, 1, got, &w), 0);
    sandbox_patch(first, &bob, &numbered, on_done, &h);
    run(&h);
    CHECK_EQ(walk(&h, "", both, 2, got, &w), 1); /* the smaller one of both */
    CHECK(!w.is_exact && got[0] == first);
    sandbox_pause(first, &bob, on_done, &h);
    run(&h);
    CHECK_EQ(walk(&h, "", &team, 1, got, &w), 2);
    CHECK(w.by_state[SANDBOX_RUNNING] == 1 && w.by_state[SANDBOX_PAUSED] == 1);
    sandbox_delete(first, &bob, on_done, &h);
    run(&h);
    CHECK_EQ(walk(&h, "", &team, 1, got, &w), 1);
    CHECK(got[0] == second && w.by_state[SANDBOX_RUNNING] == 1 && !w.by_state[SANDBOX_PAUSED]);
    CHECK_EQ(walk(&h, "", &pair, 1, got, &w), 0);
    house_done(&h);
}

TEST(sandboxes, renews_only_what_expires_and_only_into_the_future)
{
    int64_t later_us = time_wall_us() + 3600 * TIME_US_PER_S;
    struct house h;

    house_init(&h);
    create(&h, 60);
    sandbox_renew(h.sb, &bob, later_us, on_done, &h);
    run(&h);
    CHECK_EQ(h.sb->expires_us, later_us);
    sandbox_renew(h.sb, &bob, 1, on_done, &h);
    CHECK_EQ(h.fail.status, 400);
    CHECK_EQ(h.sb->expires_us, later_us);
    run(&h); /* on_done has stopped the loop already */
    create(&h, 0);
    sandbox_renew(h.sb, &bob, later_us, on_done, &h);
    CHECK_EQ(h.fail.status, 409);
    CHECK_EQ(h.sb->expires_us, 0);
    house_done(&h);
}

TEST(sandboxes, deletes_the_row_last)
{
    struct house h;

    house_init(&h);
    create(&h, 60);
    CHECK_EQ(count_rows(h.store), 1);
    sandbox_delete(h.sb, &bob, on_done, &h);
    run(&h);
    CHECK(!h.sb);
    CHECK_EQ(h.fake.removed, 1);
    CHECK_EQ(count_rows(h.store), 0);
    house_done(&h);
}
