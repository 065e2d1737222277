#include "server/store/store.h"

#include <pthread.h>

#include "base/buf.h"
#include "store_fixture.h"

static struct store_status status_of(enum sandbox_state state, int64_t now_us)
{
    return (struct store_status){state, STR("WHY"), STR("because"), now_us};
}

TEST(store, gives_back_every_field)
{
    struct store *s = open_store();
    struct store_sandbox row = row_of(STR("one"));
    auto_found f = {0};

    row.snapshot_id = STR("snap-1");
    row.os = STR("linux");
    row.arch = STR("arm64");
    CHECK_EQ(store_insert(s, &row, NULL), 1);
    store_close(s);

    s = reopen_store();
    f = find_row(s, STR("one"));
    CHECK(f.there);
    CHECK_EQ(f.row.state, SANDBOX_RUNNING);
    CHECK_SPAN(f.row.reason, "CONTAINER_RUNNING");
    CHECK_SPAN(f.row.message, "it runs");
    CHECK_EQ(f.row.created_us, 1000);
    CHECK_EQ(f.row.since_us, 1001);
    CHECK_EQ(f.row.expires_us, 5000);
    CHECK_SPAN(f.row.image, "python:3.12");
    CHECK_SPAN(f.row.snapshot_id, "snap-1");
    CHECK_SPAN(f.row.os, "linux");
    CHECK_SPAN(f.row.arch, "arm64");
    CHECK_SPAN(f.row.entrypoint, "[\"sleep\",\"1\"]");
    CHECK_SPAN(f.row.metadata, "{\"a\":\"b\"}");
    CHECK_SPAN(f.row.token, "secret");
    CHECK_SPAN(f.row.spec, "{}");
    CHECK_SPAN(f.row.tenant, "default");
    CHECK_SPAN(f.row.owner, "key:0123456789ab");
    CHECK_EQ(f.row.renew_extend_s, UINT32_MAX);
    store_close(s);
}

TEST(store, takes_any_bytes_as_text_and_none_as_empty)
{
    struct store *s = open_store();
    struct store_sandbox row = row_of(STR("one"));
    auto_found f = {0};

    row.message = STR("a\0b\xff'; DROP TABLE sandboxes; --");
    row.image = STR_NONE;
    CHECK_EQ(store_insert(s, &row, NULL), 1);
    f = find_row(s, STR("one"));
    CHECK(str_eq(f.row.message, row.message));
    CHECK_SPAN(f.row.image, "");
    store_close(s);
}

TEST(store, refuses_a_second_row_of_an_id)
{
    struct store *s = open_store();
    struct store_sandbox row = row_of(STR("one"));
    struct err e = {0};

    insert_row_of(s, STR("one"));
    CHECK_EQ(store_insert(s, &row, &e), -EEXIST);
    CHECK(strstr(e.msg, "one"));
    row.id = STR("");
    CHECK_EQ(store_insert(s, &row, &e), -EINVAL);
    CHECK_EQ(count_rows(s), 1);
    store_close(s);
}

TEST(store, refuses_texts_past_their_maximum)
{
    struct store *s = open_store();
    struct store_sandbox row = row_of(STR("one"));
    struct store_status status = status_of(SANDBOX_PAUSED, 1);
    auto_free char *text = mem_zalloc(STORE_JSON_MAX + 1);
    struct str whole = str_make(text, STORE_JSON_MAX), over = str_make(text, STORE_JSON_MAX + 1);
    struct err e = {0};

    memset(text, 'x', STORE_JSON_MAX + 1);
    row.entrypoint = row.metadata = row.spec = whole;
    CHECK_EQ(store_insert(s, &row, NULL), 1);
    row.id = STR("two");
    row.spec = over;
    CHECK_EQ(store_insert(s, &row, &e), -EMSGSIZE);
    CHECK_STR(e.msg, "store: spec has 1048577 bytes, and may have 1048576");
    CHECK_EQ(store_set_metadata(s, STR("one"), over, &e), -EMSGSIZE);
    status.message = over;
    CHECK_EQ(store_set_status(s, STR("one"), ANY, &status, &e), -EMSGSIZE);
    status.message = STR("");
    status.reason = over;
    CHECK_EQ(store_set_status(s, STR("one"), ANY, &status, &e), -EMSGSIZE);
    CHECK_EQ(count_rows(s), 1);
    store_close(s);
}

TEST(store, sets_a_status_only_from_the_expected_ones)
{
    struct store *s = open_store();
    struct store_status pausing = status_of(SANDBOX_PAUSING, 2000);
    auto_found f = {0};

    insert_row_of(s, STR("one"));
    CHECK_EQ(store_set_status(s, STR("one"), ANY & ~RUNNING, &pausing, NULL), 0);
    CHECK_EQ(store_set_status(s, STR("one"), 0, &pausing, NULL), 0);
    CHECK_EQ(store_set_status(s, STR("none"), ANY, &pausing, NULL), 0);
    CHECK_EQ(store_set_status(s, STR("one"), RUNNING, &pausing, NULL), 1);
    CHECK_EQ(store_set_status(s, STR("one"), RUNNING, &pausing, NULL), 0);
    f = find_row(s, STR("one"));
    CHECK_EQ(f.row.state, SANDBOX_PAUSING);
    CHECK_SPAN(f.row.reason, "WHY");
    CHECK_SPAN(f.row.message, "because");
    CHECK_EQ(f.row.since_us, 2000);
    CHECK_EQ(f.row.expires_us, 5000);
    store_close(s);
}

TEST(store, keeps_every_state)
{
    struct store *s = open_store();

    insert_row_of(s, STR("one"));
    for (int state = 0; state < SANDBOX_STATE_COUNT; state++) {
        struct store_status status = status_of((enum sandbox_state)state, 2000 + state);
        auto_found f = {0};

        CHECK_EQ(store_set_status(s, STR("one"), ANY, &status, NULL), 1);
        f = find_row(s, STR("one"));
        CHECK_EQ(f.row.state, state);
    }
    store_close(s);
}

TEST(store, renews_what_has_the_expected_expiry)
{
    struct store *s = open_store();
    struct store_sandbox forever = row_of(STR("forever"));
    auto_found f = {0};

    forever.expires_us = 0;
    CHECK_EQ(store_insert(s, &forever, NULL), 1);
    insert_row_of(s, STR("one"));
    CHECK_EQ(store_renew(s, STR("one"), RUNNING, 4999, 6000, NULL), 0);
    CHECK_EQ(store_renew(s, STR("one"), ANY & ~RUNNING, 5000, 6000, NULL), 0);
    CHECK_EQ(store_renew(s, STR("none"), ANY, 0, 6000, NULL), 0);
    CHECK_EQ(store_renew(s, STR("one"), RUNNING, 5000, 6000, NULL), 1);
    CHECK_EQ(store_renew(s, STR("one"), RUNNING, 5000, 7000, NULL), 0);
    CHECK_EQ(store_renew(s, STR("one"), RUNNING, 0, 8000, NULL), 1);
    CHECK_EQ(store_renew(s, STR("one"), RUNNING, 0, 0, NULL), -EINVAL);
    CHECK_EQ(store_renew(s, STR("forever"), RUNNING, 0, 8000, NULL), 0);
    f = find_row(s, STR("one"));
    CHECK_EQ(f.row.expires_us, 8000);
    store_close(s);
}

TEST(store, expires_what_is_due_and_was_not_renewed)
{
    struct store *s = open_store();
    struct store_sandbox forever = row_of(STR("forever"));
    struct store_status early = status_of(SANDBOX_STOPPING, 4999);
    struct store_status due = status_of(SANDBOX_STOPPING, 5000);
    auto_found f = {0};

    forever.expires_us = 0;
    CHECK_EQ(store_insert(s, &forever, NULL), 1);
    insert_row_of(s, STR("one"));
    CHECK_EQ(store_expire(s, STR("one"), 5000, &early, NULL), 0);
    CHECK_EQ(store_expire(s, STR("one"), 4000, &due, NULL), 0);
    CHECK_EQ(store_expire(s, STR("forever"), 0, &due, NULL), 0);
    CHECK_EQ(store_expire(s, STR("one"), 5000, &due, NULL), 1);
    CHECK_EQ(store_expire(s, STR("one"), 5000, &due, NULL), 0); /* it is Stopping already */
    f = find_row(s, STR("one"));
    CHECK_EQ(f.row.state, SANDBOX_STOPPING);
    CHECK_EQ(f.row.since_us, 5000);
    store_close(s);
}

TEST(store, sets_metadata_and_nothing_else)
{
    struct store *s = open_store();
    auto_found f = {0};

    insert_row_of(s, STR("one"));
    CHECK_EQ(store_set_metadata(s, STR("none"), STR("{}"), NULL), 0);
    CHECK_EQ(store_set_metadata(s, STR("one"), STR("{\"c\":\"d\"}"), NULL), 1);
    f = find_row(s, STR("one"));
    CHECK_SPAN(f.row.metadata, "{\"c\":\"d\"}");
    CHECK_EQ(f.row.since_us, 1001);
    store_close(s);
}

/* --- history --- */

struct history {
    int64_t first, last;
    uint64_t first_number;
    enum sandbox_state last_state;
    bool ordered;
};

static void history_visit(void *user, const struct store_event *event)
{
    struct history *h = user;

    if (h->first == 0) {
        h->first = event->at_us;
        h->first_number = event->number;
    }
    h->ordered = h->last == 0 ? true : h->ordered && event->at_us > h->last;
    h->last = event->at_us;
    h->last_state = event->state;
}

TEST(store, tells_the_history_oldest_first)
{
    struct store *s = open_store();
    struct store_status paused = status_of(SANDBOX_PAUSED, 2000);
    struct store_status due = status_of(SANDBOX_STOPPING, 5000);
    struct history h = {0};

    insert_row_of(s, STR("one"));
    insert_row_of(s, STR("two"));
    CHECK_EQ(store_set_status(s, STR("one"), ANY, &paused, NULL), 1);
    CHECK_EQ(store_set_status(s, STR("one"), RUNNING, &paused, NULL), 0); /* leaves no event */
    CHECK_EQ(store_expire(s, STR("one"), 5000, &due, NULL), 1);
    CHECK_EQ(store_history(s, STR("one"), 100, history_visit, &h, NULL), 3);
    CHECK_EQ(h.first, 1001);
    CHECK_EQ(h.first_number, 1);
    CHECK_EQ(h.last, 5000);
    CHECK_EQ(h.last_state, SANDBOX_STOPPING);
    CHECK(h.ordered);
    h = (struct history){0};
    CHECK_EQ(store_history(s, STR("one"), 2, history_visit, &h, NULL), 2);
    CHECK_EQ(h.first, 2000);
    CHECK_EQ(h.first_number, 2);
    CHECK_EQ(store_history(s, STR("two"), 100, history_visit, &h, NULL), 1);
    CHECK_EQ(store_history(s, STR("none"), 100, history_visit, &h, NULL), 0);
    store_close(s);
}

TEST(store, keeps_a_bounded_history)
{
    struct store *s = open_store();
    struct history h = {0};

    insert_row_of(s, STR("one"));
    insert_row_of(s, STR("two"));
    for (int i = 1; i <= STORE_EVENTS_MAX + 20; i++) {
        struct store_status status = status_of(SANDBOX_RUNNING, 10000 + i);

        CHECK_EQ(store_set_status(s, STR("one"), ANY, &status, NULL), 1);
    }
    CHECK_EQ(store_history(s, STR("one"), UINT32_MAX, history_visit, &h, NULL), STORE_EVENTS_MAX);
    CHECK_EQ(h.first, 10000 + 21);
    CHECK_EQ(h.first_number, 22); /* the first of all is the row's own */
    CHECK_EQ(h.last, 10000 + STORE_EVENTS_MAX + 20);
    CHECK(h.ordered);
    CHECK_EQ(store_history(s, STR("two"), UINT32_MAX, history_visit, &h, NULL), 1);
    store_close(s);
}

TEST(store, forgets_a_sandbox_with_its_history)
{
    struct store *s = open_store();
    struct history h = {0};

    insert_row_of(s, STR("one"));
    insert_row_of(s, STR("two"));
    CHECK_EQ(store_delete(s, STR("two"), NULL), 1);
    CHECK_EQ(store_delete(s, STR("two"), NULL), 0);
    CHECK_EQ(count_rows(s), 1);
    CHECK_EQ(store_history(s, STR("two"), 9, history_visit, &h, NULL), 0);
    insert_row_of(s, STR("two"));
    CHECK_EQ(store_history(s, STR("two"), 9, history_visit, &h, NULL), 1);
    CHECK_EQ(store_history(s, STR("one"), 9, history_visit, &h, NULL), 1);
    store_close(s);
}

static int order_visit(void *user, const struct store_sandbox *row)
{
    struct buf *out = user;

    CHECK_EQ(buf_add(out, row->id), 0);
    return out->n >= 2 ? -ECANCELED : 0;
}

TEST(store, lists_the_oldest_first_until_the_callback_stops)
{
    struct store *s = open_store();
    struct store_sandbox row = row_of(STR("c"));
    AUTO_BUF(seen, 16);
    struct err e = {0};

    insert_row_of(s, STR("b")); /* created at 1000 */
    row.created_us = 2000;
    CHECK_EQ(store_insert(s, &row, NULL), 1);
    row.id = STR("a");
    row.created_us = 10;
    CHECK_EQ(store_insert(s, &row, NULL), 1);
    CHECK_EQ(store_each(s, order_visit, &seen, &e), -ECANCELED);
    CHECK_STR(seen.p, "ab");
    insert_row_of(s, STR("d")); /* the listing that was left holds nothing back */
    store_close(s);
}

/* --- races --- */

enum { ROUNDS = 3000 };

struct race {
    struct store *store;
    pthread_barrier_t start, end;
    int64_t expires_us; /* at the start of a round */
    int expired, renewed;
};

/* In some rounds one side leaves the first move to the other, so that each wins some whatever the
 * scheduler does. */
static void stand_back(bool now)
{
    if (now)
        (void)usleep(100);
}

static void *race_expire(void *user)
{
    struct race *race = user;

    for (int i = 0; i < ROUNDS; i++) {
        struct store_status due;

        (void)pthread_barrier_wait(&race->start);
        stand_back(i % 4 == 0);
        due = status_of(SANDBOX_STOPPING, race->expires_us);
        race->expired = store_expire(race->store, STR("one"), race->expires_us, &due, NULL);
        (void)pthread_barrier_wait(&race->end);
    }
    return NULL;
}

/* Every second renewal names the expiry it knows. */
static void race_round(struct race *race, int i)
{
    int64_t expected = i % 2 ? race->expires_us : 0, next = race->expires_us + 1;
    struct store_status again = status_of(SANDBOX_RUNNING, race->expires_us);
    auto_found f = {0};

    (void)pthread_barrier_wait(&race->start);
    stand_back(i % 4 == 2);
    race->renewed = store_renew(race->store, STR("one"), RUNNING, expected, next, NULL);
    (void)pthread_barrier_wait(&race->end);
    CHECK_EQ(race->renewed + race->expired, 1);
    CHECK(race->renewed == 0 || race->renewed == 1);
    f = find_row(race->store, STR("one"));
    CHECK_EQ(f.row.state, race->renewed ? SANDBOX_RUNNING : SANDBOX_STOPPING);
    CHECK_EQ(f.row.expires_us, race->renewed ? next : race->expires_us);
    if (race->renewed)
        race->expires_us = next;
    else
        CHECK_EQ(store_set_status(race->store, STR("one"), ANY, &again, NULL), 1);
}

TEST(store, lets_either_renewal_or_expiry_win)
{
    struct race race = {.store = open_store(), .expires_us = 5000};
    pthread_t expirer;
    int wins = 0;

    insert_row_of(race.store, STR("one"));
    CHECK_EQ(pthread_barrier_init(&race.start, NULL, 2), 0);
    CHECK_EQ(pthread_barrier_init(&race.end, NULL, 2), 0);
    CHECK_EQ(pthread_create(&expirer, NULL, race_expire, &race), 0);
    for (int i = 0; i < ROUNDS; i++) {
        race_round(&race, i);
        wins += race.renewed;
    }
    CHECK_EQ(pthread_join(expirer, NULL), 0);
    printf("# the renewal won %d of %d rounds\n", wins, ROUNDS);
    CHECK(wins > 0 && wins < ROUNDS); /* or it was no race */
    store_close(race.store);
}

/* Counts the one thread that changes the row from Running. */
struct taker {
    struct store *store;
    enum sandbox_state to;
    size_t wins;
    pthread_t thread;
};

static void *take_and_give_back(void *user)
{
    struct taker *t = user;
    struct store_status mine = status_of(t->to, 1), back = status_of(SANDBOX_RUNNING, 2);

    for (int i = 0; i < ROUNDS; i++) {
        int r = store_set_status(t->store, STR("one"), RUNNING, &mine, NULL);

        CHECK(r >= 0);
        if (r == 0)
            continue;
        t->wins++;
        CHECK_EQ(store_set_status(t->store, STR("one"), STATE_BIT(t->to), &back, NULL), 1);
    }
    return NULL;
}

TEST(store, gives_a_row_to_one_of_many_takers)
{
    struct taker takers[] = {
        {.to = SANDBOX_PAUSING},
        {.to = SANDBOX_STOPPING},
        {.to = SANDBOX_FAILED},
    };
    struct store *s = open_store();
    struct history h = {0};
    size_t wins = 0;
    auto_found f = {0};

    insert_row_of(s, STR("one"));
    for (size_t i = 0; i < ARRAY_LEN(takers); i++) {
        takers[i].store = s;
        CHECK_EQ(pthread_create(&takers[i].thread, NULL, take_and_give_back, &takers[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(takers); i++) {
        CHECK_EQ(pthread_join(takers[i].thread, NULL), 0);
        wins += takers[i].wins;
    }
    CHECK(wins > 0);
    f = find_row(s, STR("one"));
    CHECK_EQ(f.row.state, SANDBOX_RUNNING);
    CHECK_EQ(store_history(s, STR("one"), UINT32_MAX, history_visit, &h, NULL),
             min_size(1 + 2 * wins, STORE_EVENTS_MAX));
    store_close(s);
}
