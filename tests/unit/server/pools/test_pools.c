/* Pools on a runtime that fails and dies on cue. */
#include "scripted.h"

#include <poll.h>

#include "base/fd.h"
#include "net/sock.h"
#include "server/pools/pool_template.h"
#include "server/pools/pools.h"
#include "server/pools/pools_internal.h"

static struct pools *pools;
static const struct seal key = {"0123456789abcdef0123456789abcde"};
static struct pool_view last; /* of the last change */
static size_t changes, claims, refusals;
static struct sandbox *given[SCRIPTED_BOXES_MAX];

static void pools_open(struct house *h)
{
    struct pools_conf conf = {h->loop, h->pool, h->store, h->runtime, h->table, &key};

    h->runtime->can |= RUNTIME_CAN_POOLS;
    CHECK_EQ(pools_new(&conf, &pools, NULL), 0);
    CHECK_EQ(pools_load(pools, NULL), 0);
    CHECK_EQ(sandboxes_load(h->table, NULL), 0);
    house_await(h, is_idle);
    pools_start(pools);
}

static void begin(struct house *h)
{
    changes = claims = refusals = 0;
    house_init(h);
    pools_open(h);
}

static void close_all(struct house *h)
{
    pools_stop(pools);
    house_empty(h);
    pools_free(pools);
    loop_free(h->loop);
}

static void end(struct house *h)
{
    close_all(h);
    store_close(h->store);
    h->kind->discard(h->cloud);
}

/* As after kill -9: nothing is told to the store any more. */
static void reopen(struct house *h)
{
    close_all(h);
    house_open(h, "me");
    pools_open(h);
}

static void on_change(void *user, const struct pool_view *view, const struct api_fail *fail)
{
    struct house *h = user;

    changes++;
    h->fail = fail ? *fail : (struct api_fail){0};
    if (view)
        last = *view;
}

static bool is_changed(struct house *h UNUSED)
{
    return changes > 0;
}

static void begin_create(struct house *h, struct str name, const char *template,
                         struct api_capacity capacity)
{
    struct sandbox_checks checks;
    struct api_create_host host = sandboxes_create_host(h->table, &ann, 0, &checks);
    struct api_pool pool = {.name = name, .capacity = capacity};
    AUTO_ARENA(arena, 1 << 20);
    struct json *tree;

    CHECK_EQ(json_parse(&arena, str_of(template), NULL, &tree, NULL), 0);
    pool.template = tree;
    pools_create(pools, &ann, &pool, &host, on_change, h);
}

static int create(struct house *h, const char *template, struct api_capacity capacity)
{
    changes = 0;
    begin_create(h, STR("p"), template, capacity);
    house_await(h, is_changed);
    return h->fail.status;
}

#define PLAIN "{\"image\":{\"uri\":\"python:3.12\"}}"

static struct pool_view view_of(void)
{
    struct pool_view view = {0};

    CHECK(pools_view(pools, STR("p"), &view));
    return view;
}

static bool has_two(struct house *h UNUSED)
{
    return view_of().available == 2;
}

static void on_claim(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct house *h = user;

    h->fail = fail ? *fail : (struct api_fail){0};
    refusals += fail && fail->status == 503;
    given[claims++] = sb;
}

static void claim(struct house *h)
{
    struct api_create spec = {.pool_ref = STR("p"), .timeout_s = 60};

    pools_claim(pools, &ann, &spec, on_claim, h);
}

static bool has_claimed(struct house *h UNUSED)
{
    return claims > 0;
}

static bool has_claimed_all(struct house *h UNUSED)
{
    return claims == 6;
}

TEST(pools, fill_up_hidden_and_hand_out_each_sandbox_once)
{
    struct house h;

    begin(&h);
    CHECK_EQ(create(&h, PLAIN, (struct api_capacity){2, 2, 4, 0}), 0);
    house_await(&h, has_two);
    CHECK_EQ(sandboxes_total(h.table), 0);
    CHECK(!sandboxes_newest(h.table));
    for (size_t i = 0; i < 6; i++)
        claim(&h);
    house_await(&h, has_claimed_all);
    CHECK_EQ(refusals, 2); /* poolMax is 4 */
    CHECK_EQ(sandboxes_total(h.table), 4);
    CHECK_EQ(view_of().allocated, 4);
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < i; k++)
            CHECK(!given[i] || given[i] != given[k]);
    CHECK_STR(sandboxes_newest(h.table)->owner.key_id, ann.key_id);
    CHECK(sandboxes_newest(h.table)->expires_us > 0);
    end(&h);
}

static bool has_failed(struct house *h UNUSED)
{
    return view_of().message.n > 0;
}

TEST(pools, tell_why_they_cannot_be_filled_and_fill_up_later)
{
    struct house h;

    begin(&h);
    house_cue(&h, SCRIPTED_CREATE, EIO, 1);
    CHECK_EQ(create(&h, PLAIN, (struct api_capacity){1, 1, 4, 0}), 0);
    house_await(&h, has_failed);
    CHECK_EQ(view_of().available, 0);
    claim(&h);
    house_await(&h, has_claimed);
    CHECK_EQ(h.fail.status, 503);
    CHECK(strstr(h.fail.message, "as the script says"));
    changes = 0;
    pools_resize(pools, STR("p"), &(struct api_capacity){2, 2, 4, 0}, on_change, &h);
    house_await(&h, has_two);
    CHECK_EQ(view_of().message.n, 0);
    end(&h);
}

TEST(pools, refuse_what_the_runtime_refuses)
{
    struct house h;

    begin(&h);
    house_cue(&h, SCRIPTED_CHECK, EINVAL, 1);
    CHECK_EQ(create(&h, PLAIN, (struct api_capacity){1, 1, 4, 0}), 400);
    CHECK(!pools_view(pools, STR("p"), &last));
    CHECK_EQ(create(&h, "{}", (struct api_capacity){1, 1, 4, 0}), 400);
    CHECK(strstr(h.fail.message, "template.image"));
    CHECK_EQ(create(&h, PLAIN, (struct api_capacity){0}), 0);
    CHECK_EQ(create(&h, PLAIN, (struct api_capacity){0}), 409);
    end(&h);
}

static bool are_all_changed(struct house *h UNUSED)
{
    return changes == 1 + POOLS_MAX;
}

TEST(pools, count_those_that_wait_to_be_made)
{
    struct house h;
    char name[16];

    begin(&h);
    for (int i = 0; i < POOLS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        begin_create(&h, str_of(name), PLAIN, (struct api_capacity){0, 0, 1, 0});
    }
    CHECK_EQ(changes, 0);
    begin_create(&h, STR("p"), PLAIN, (struct api_capacity){0, 0, 1, 0});
    CHECK_EQ(changes, 1);
    CHECK_EQ(h.fail.status, 503);
    house_await(&h, are_all_changed);
    CHECK_EQ(h.fail.status, 0);
    end(&h);
}

static bool is_replaced(struct house *h)
{
    return has_two(h) && h->cloud->calls[SCRIPTED_CREATE] >= 3;
}

TEST(pools, replace_a_waiting_sandbox_that_ended)
{
    struct house h;

    begin(&h);
    CHECK_EQ(create(&h, PLAIN, (struct api_capacity){2, 2, 4, 0}), 0);
    house_await(&h, has_two);
    house_end_box(&h, h.cloud->boxes[0].id, 1);
    house_await(&h, is_replaced);
    end(&h);
}

static bool has_no_box(struct house *h)
{
    return house_boxes(h) == 1;
}

TEST(pools, survive_a_restart_and_end_with_their_waiting_sandboxes)
{
    char revision[32], id[ID_UUID_MAX];
    struct house h;

    begin(&h);
    CHECK_EQ(create(&h, PLAIN, (struct api_capacity){2, 2, 4, 0}), 0);
    house_await(&h, has_two);
    claim(&h);
    house_await(&h, has_claimed);
    house_await(&h, has_two);
    CHECK_EQ(str_copy(revision, sizeof(revision), view_of().revision), 0);
    memcpy(id, given[0]->id, sizeof(id));
    reopen(&h);
    CHECK_EQ(view_of().available, 2);
    CHECK_EQ(view_of().allocated, 1);
    CHECK(str_eq(view_of().revision, str_of(revision)));
    CHECK_EQ(house_boxes(&h), 3);
    changes = 0;
    pools_delete(pools, STR("p"), on_change, &h);
    house_await(&h, is_changed);
    CHECK_EQ(h.fail.status, 0);
    house_await(&h, has_no_box);
    CHECK(sandboxes_find(h.table, str_of(id)));
    changes = 0;
    pools_delete(pools, STR("p"), on_change, &h);
    house_await(&h, is_changed);
    CHECK_EQ(h.fail.status, 404);
    end(&h);
}

/* An execd that takes connections and never answers. */
static int silent = -EBADF;
static struct sock_addr silent_addr;

static int silent_endpoint(struct runtime *r UNUSED, struct str id UNUSED,
                           struct runtime_endpoint *ret)
{
    *ret = (struct runtime_endpoint){.addr = silent_addr};
    return 0;
}

static bool is_called(struct house *h UNUSED)
{
    return poll(&(struct pollfd){.fd = silent, .events = POLLIN}, 1, 0) == 1;
}

/* A claim with a variable whose execd is asked to take it, when the pool is deleted. */
static void claim_and_lose_the_pool(struct house *h)
{
    static struct runtime_ops ops;
    struct json_pair env = {STR("A"), STR("b")};
    struct api_create spec = {.pool_ref = STR("p"), .env = &env, .env_count = 1, .timeout_s = 60};
    struct sock_addr any;

    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &any, NULL), 0);
    silent = sock_listen(&any, 8, NULL);
    CHECK(silent >= 0);
    CHECK_EQ(sock_local_addr(silent, &silent_addr), 0);
    ops = *h->runtime->ops;
    ops.endpoint = silent_endpoint;
    h->runtime->ops = &ops;
    CHECK_EQ(create(h, PLAIN, (struct api_capacity){2, 2, 4, 0}), 0);
    house_await(h, has_two);
    pools_claim(pools, &ann, &spec, on_claim, h);
    house_await(h, is_called);
    changes = 0;
    pools_delete(pools, STR("p"), on_change, h);
    house_await(h, is_changed);
    CHECK_EQ(claims, 0); /* it goes on */
}

TEST(pools, end_a_claim_that_lost_its_pool_when_the_server_stops)
{
    struct house h;

    begin(&h);
    claim_and_lose_the_pool(&h);
    pools_stop(pools);
    CHECK_EQ(claims, 1);
    CHECK_EQ(refusals, 1);
    fd_close(silent);
    end(&h);
}

TEST(pools, end_a_claim_that_lost_its_pool_with_its_sandbox)
{
    struct house h;

    begin(&h);
    claim_and_lose_the_pool(&h);
    house_await(&h, has_no_box); /* the idle one is gone, the other is the claim's */
    for (size_t i = 0; i < SCRIPTED_BOXES_MAX; i++) {
        struct sandbox *sb = sandboxes_find(h.table, str_of(h.cloud->boxes[i].id));

        if (sb)
            sandbox_delete(sb, &principal_server, NULL, NULL);
    }
    house_await(&h, has_claimed);
    CHECK_EQ(h.fail.status, 500);
    fd_close(silent);
    end(&h);
}

TEST(pools, remove_after_a_restart_what_was_not_ready)
{
    struct house h;
    struct store_sandbox row = {
        .id = STR("00000000-0000-4000-8000-000000000001"),
        .state = SANDBOX_RUNNING,
        .entrypoint = STR("[]"),
        .owner = STR("pool:warming"),
        .spec = STR("{\"pool\":\"p\"}"),
    };

    begin(&h);
    CHECK_EQ(create(&h, PLAIN, (struct api_capacity){0, 0, 4, 0}), 0);
    CHECK(store_insert(h.store, &row, NULL) >= 0);
    row.id = STR("00000000-0000-4000-8000-000000000002");
    row.owner = STR("pool");
    row.spec = STR("{\"pool\":\"another\"}");
    CHECK(store_insert(h.store, &row, NULL) >= 0);
    reopen(&h);
    CHECK_EQ(view_of().total, 0);
    CHECK_EQ(store_delete(h.store, STR("00000000-0000-4000-8000-000000000001"), NULL), 0);
    CHECK_EQ(store_delete(h.store, STR("00000000-0000-4000-8000-000000000002"), NULL), 0);
    end(&h);
}

#define SECRET                                                                                     \
    "{\"image\":{\"uri\":\"python:3.12\",\"auth\":{\"username\":\"u\",\"password\":\"hush-1\"}},"  \
    "\"env\":{\"API_KEY\":\"hush-2\"}}"

/* The only record: whether it has the text, in clear. */
static int look_for(void *user, const struct store_record *record)
{
    return str_find_str(record->json, str_of(user)) < record->json.n;
}

static bool store_has(const struct house *h, const char *text)
{
    return store_record_each(h->store, STR("pool"), look_for, (void *)text, NULL) > 0;
}

TEST(pools, keep_secrets_of_a_template_sealed)
{
    struct house h;

    begin(&h);
    CHECK_EQ(create(&h, SECRET, (struct api_capacity){2, 2, 4, 0}), 0);
    CHECK(!store_has(&h, "hush") && !store_has(&h, "API_KEY") && store_has(&h, "sealed"));
    reopen(&h);
    house_await(&h, has_two);
    end(&h);
}

TEST(pools, seal_what_an_older_server_stored_in_clear)
{
    static const struct store_record old = {
        .kind = STR_INIT("pool"),
        .id = STR_INIT("p"),
        .state = STR_INIT("active"),
        .json = STR_INIT(
            "{\"capacity\":{\"buffer_max\":2,\"buffer_min\":2,\"pool_max\":4,\"pool_min\":"
            "0},\"warm_up\":\"\",\"create\":\"{\\\"image\\\":{\\\"uri\\\":\\\"python:3.12\\\"},"
            "\\\"entrypoint\\\":[\\\"x\\\"],\\\"resourceLimits\\\":{},\\\"env\\\":{\\\"K\\\":"
            "\\\"hush\\\"}}\"}"),
    };
    struct house h;

    begin(&h);
    CHECK(store_record_insert(h.store, &old, NULL) >= 0);
    CHECK(store_has(&h, "hush"));
    reopen(&h);
    CHECK(!store_has(&h, "hush"));
    house_await(&h, has_two);
    end(&h);
}

TEST(pools, write_variables_so_that_execd_reads_them_back)
{
    struct json_pair env[] = {
        {STR_INIT("A"), STR_INIT("plain $HOME\nline")},
        {STR_INIT("B"), STR_INIT("it's \"q\"\n\\")   },
    };
    struct json_pair bad[] = {
        {STR_INIT("A B"),                STR_INIT("")       },
        {STR_INIT("EXECD_ACCESS_TOKEN"), STR_INIT("")       },
        {STR_INIT("C"),                  STR_INIT("it's $X")},
    };
    struct api_fail f = {0};
    AUTO_BUF(out, 1024);

    CHECK_EQ(pool_env_write(env, 2, &out, &f), 0);
    CHECK_STR(out.p, "A='plain $HOME\nline'\nB=\"it's \\\"q\\\"\\n\\\\\"\n");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(pool_env_write(&bad[i], 1, &out, &f), -EBADMSG);
}
