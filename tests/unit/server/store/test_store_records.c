#include <pthread.h>

#include "base/buf.h"
#include "store_fixture.h"

#define SNAPSHOT STR("snapshot")

static struct store_record record_of(struct str kind, struct str id)
{
    return (struct store_record){
        .kind = kind,
        .id = id,
        .state = STR("Creating"),
        .tenant = STR("default"),
        .owner = STR("key:0123456789ab"),
        .created_us = 1000,
        .json = STR("{\"of\":\"box\"}"),
    };
}

static void insert_record(struct store *s, struct str kind, struct str id)
{
    struct store_record record = record_of(kind, id);
    struct err e = {0};

    if (store_record_insert(s, &record, &e) != 1)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
}

/* State and JSON of a record, "none" without one. */
static struct str text_of(struct store *s, struct arena *a, struct str kind, struct str id)
{
    struct store_record record;
    int r = store_record_get(s, kind, id, a, &record, NULL);

    CHECK(r >= 0);
    return r ? str_of(arena_printf(a, "%s %s", record.state.p, record.json.p)) : STR("none");
}

#define CHECK_RECORD(s, kind, id, want)                                                            \
    do {                                                                                           \
        AUTO_ARENA(a_, 1 << 16);                                                                   \
        CHECK_STR(text_of((s), &a_, (kind), (id)).p, (want));                                      \
    } while (0)

TEST(store_records, keeps_every_field_past_a_restart)
{
    struct store *s = open_store();
    AUTO_ARENA(a, 1 << 16);
    struct store_record r;

    insert_record(s, SNAPSHOT, STR("one"));
    store_close(s);
    s = reopen_store();
    CHECK_EQ(store_record_get(s, SNAPSHOT, STR("one"), &a, &r, NULL), 1);
    store_close(s); /* the record is a copy */
    CHECK_STR(r.kind.p, "snapshot");
    CHECK_STR(r.id.p, "one");
    CHECK_STR(r.state.p, "Creating");
    CHECK_STR(r.tenant.p, "default");
    CHECK_STR(r.owner.p, "key:0123456789ab");
    CHECK_STR(r.json.p, "{\"of\":\"box\"}");
    CHECK_EQ(r.created_us, 1000);
}

TEST(store_records, keeps_kinds_apart)
{
    struct store *s = open_store();

    insert_record(s, SNAPSHOT, STR("one"));
    insert_record(s, STR("pool"), STR("one"));
    CHECK_EQ(store_record_delete(s, SNAPSHOT, STR("one"), STR_NONE, NULL), 1);
    CHECK_RECORD(s, SNAPSHOT, STR("one"), "none");
    CHECK_RECORD(s, STR("pool"), STR("one"), "Creating {\"of\":\"box\"}");
    store_close(s);
}

TEST(store_records, refuses_what_is_there_and_what_has_no_name)
{
    struct store *s = open_store();
    struct store_record r = record_of(SNAPSHOT, STR("one"));
    struct err e = {0};

    insert_record(s, SNAPSHOT, STR("one"));
    CHECK_EQ(store_record_insert(s, &r, &e), -EEXIST);
    CHECK(strstr(e.msg, "record 'one'"));
    r.id = STR("");
    CHECK_EQ(store_record_insert(s, &r, &e), -EINVAL);
    r = record_of(STR(""), STR("two"));
    CHECK_EQ(store_record_insert(s, &r, &e), -EINVAL);
    store_close(s);
}

TEST(store_records, changes_only_a_record_in_the_expected_state)
{
    struct store *s = open_store();

    insert_record(s, SNAPSHOT, STR("one"));
    CHECK_EQ(
        store_record_update(s, SNAPSHOT, STR("one"), STR("Ready"), STR("Failed"), STR("{}"), NULL),
        0);
    CHECK_RECORD(s, SNAPSHOT, STR("one"), "Creating {\"of\":\"box\"}");
    CHECK_EQ(store_record_update(s, SNAPSHOT, STR("one"), STR("Creating"), STR("Ready"),
                                 STR("{\"bytes\":1}"), NULL),
             1);
    CHECK_RECORD(s, SNAPSHOT, STR("one"), "Ready {\"bytes\":1}");
    CHECK_EQ(store_record_update(s, SNAPSHOT, STR("one"), STR_NONE, STR("Failed"), STR_NONE, NULL),
             1);
    CHECK_RECORD(s, SNAPSHOT, STR("one"), "Failed {\"bytes\":1}");
    CHECK_EQ(store_record_update(s, SNAPSHOT, STR("two"), STR_NONE, STR("Ready"), STR_NONE, NULL),
             0);
    store_close(s);
}

/* "" is a state like others, and JSON like other text; only STR_NONE means any, or none. */
TEST(store_records, tells_an_empty_text_from_none)
{
    struct store *s = open_store();

    insert_record(s, SNAPSHOT, STR("one"));
    CHECK_EQ(store_record_update(s, SNAPSHOT, STR("one"), STR(""), STR("x"), STR_NONE, NULL), 0);
    CHECK_EQ(store_record_delete(s, SNAPSHOT, STR("one"), STR(""), NULL), 0);
    CHECK_EQ(store_record_update(s, SNAPSHOT, STR("one"), STR_NONE, STR("x"), STR(""), NULL), 1);
    CHECK_RECORD(s, SNAPSHOT, STR("one"), "x ");
    store_close(s);
}

TEST(store_records, deletes_only_a_record_in_the_expected_state)
{
    struct store *s = open_store();

    insert_record(s, SNAPSHOT, STR("one"));
    CHECK_EQ(store_record_delete(s, SNAPSHOT, STR("one"), STR("Ready"), NULL), 0);
    CHECK_EQ(store_record_delete(s, SNAPSHOT, STR("one"), STR("Creating"), NULL), 1);
    CHECK_EQ(store_record_delete(s, SNAPSHOT, STR("one"), STR_NONE, NULL), 0);
    insert_record(s, SNAPSHOT, STR("one")); /* and its name can be used again */
    store_close(s);
}

TEST(store_records, refuses_texts_past_their_maximum)
{
    struct store *s = open_store();
    auto_free char *text = mem_zalloc(STORE_JSON_MAX + 1);
    struct store_record r = record_of(SNAPSHOT, STR("one"));
    struct err e = {0};

    memset(text, 'x', STORE_JSON_MAX + 1);
    r.json = str_make(text, STORE_JSON_MAX + 1);
    CHECK_EQ(store_record_insert(s, &r, &e), -EMSGSIZE);
    CHECK_STR(e.msg, "store: json has 1048577 bytes, and may have 1048576");
    r.json.n--;
    CHECK_EQ(store_record_insert(s, &r, &e), 1);
    CHECK_EQ(store_record_update(s, SNAPSHOT, r.id, STR_NONE, str_make(text, STORE_WORD_MAX + 1),
                                 STR_NONE, &e),
             -EMSGSIZE);
    r.kind = str_make(text, STORE_WORD_MAX + 1);
    CHECK_EQ(store_record_insert(s, &r, &e), -EMSGSIZE);
    store_close(s);
}

TEST(store_records, says_when_the_arena_is_too_small)
{
    struct store *s = open_store();
    AUTO_ARENA(a, 4096);
    static char json[8192];
    struct store_record r = record_of(SNAPSHOT, STR("one"));
    struct err e = {0};

    memset(json, 'x', sizeof(json));
    r.json = str_make(json, sizeof(json));
    CHECK_EQ(store_record_insert(s, &r, NULL), 1);
    CHECK_EQ(store_record_get(s, SNAPSHOT, STR("one"), &a, &r, &e), -ENOMEM);
    CHECK(strstr(e.msg, "record 'one'"));
    store_close(s);
}

struct seen {
    struct buf ids;
    size_t stop_after;
};

static int see(void *user, const struct store_record *record)
{
    struct seen *seen = user;

    CHECK_EQ(buf_addf(&seen->ids, "%.*s ", STR_ARG(record->id)), 0);
    return --seen->stop_after == 0 ? 7 : 0;
}

TEST(store_records, visits_one_kind_oldest_first)
{
    struct store *s = open_store();
    struct store_record old = record_of(SNAPSHOT, STR("old"));
    struct seen seen = {.stop_after = 10};

    buf_init(&seen.ids, 256);
    insert_record(s, SNAPSHOT, STR("b"));
    insert_record(s, SNAPSHOT, STR("a"));
    insert_record(s, STR("pool"), STR("c"));
    old.created_us = 1;
    CHECK_EQ(store_record_insert(s, &old, NULL), 1);
    CHECK_EQ(store_record_each(s, SNAPSHOT, see, &seen, NULL), 0);
    CHECK_STR(seen.ids.p, "old b a ");
    buf_cut(&seen.ids, 0);
    seen.stop_after = 2;
    CHECK_EQ(store_record_each(s, SNAPSHOT, see, &seen, NULL), 7);
    CHECK_STR(seen.ids.p, "old b ");
    buf_done(&seen.ids);
    store_close(s);
}

/* --- a race --- */

enum { RACERS = 4, ROUNDS = 200 };

struct racer {
    pthread_t thread;
    struct store *store;
    size_t won;
};

static void *race(void *user)
{
    struct racer *racer = user;
    char id[16];

    for (int i = 0; i < ROUNDS; i++) {
        (void)snprintf(id, sizeof(id), "%d", i);
        racer->won += store_record_update(racer->store, SNAPSHOT, str_of(id), STR("Creating"),
                                          STR("Ready"), STR_NONE, NULL) == 1;
    }
    return NULL;
}

TEST(store_records, lets_one_of_several_changes_win)
{
    struct store *s = open_store();
    struct racer racers[RACERS] = {0};
    size_t won = 0;
    char id[16];

    for (int i = 0; i < ROUNDS; i++) {
        (void)snprintf(id, sizeof(id), "%d", i);
        insert_record(s, SNAPSHOT, str_of(id));
    }
    for (size_t i = 0; i < RACERS; i++) {
        racers[i].store = s;
        CHECK_EQ(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (size_t i = 0; i < RACERS; i++) {
        CHECK_EQ(pthread_join(racers[i].thread, NULL), 0);
        won += racers[i].won;
    }
    CHECK_EQ(won, ROUNDS);
    store_close(s);
}
