#include "base/map.h"

#include "base/fault.h"
#include "test.h"

static int freed;

static void count_free(void *value)
{
    *(int *)value = -1;
    freed++;
}

static struct str number_key(char room[16], int i)
{
    return str_make(room, (size_t)snprintf(room, 16, "k%d", i));
}

TEST(map, hashes_as_siphash_1_3_does)
{
    /* From an independent implementation (CPython 3.11, PYTHONHASHSEED=0), whose key is all zero.
     */
    static const struct {
        const char *text;
        uint64_t hash;
    } rows[] = {
        {"a",                   0x407448d2b89b1813U},
        {"abc",                 0xc03bc3a0042630f2U},
        {"12345678",            0x3489982430560a87U},
        {"123456789012345",     0x43699fe13351339fU},
        {"the quick brown fox", 0x5a17575ad3449cbaU},
    };
    const uint64_t zero[2] = {0, 0}, other[2] = {1, 0};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK(map_hash(zero, str_of(rows[i].text)) == rows[i].hash);
    CHECK(map_hash(other, STR("abc")) != map_hash(zero, STR("abc")));
}

TEST(map, finds_what_was_added_and_nothing_else)
{
    int a = 1, b = 2; /* they outlive the map */
    auto_map m;

    map_init(&m, 10, NULL);
    CHECK(!map_get(&m, STR("a")));
    CHECK_EQ(map_add(&m, STR("a"), &a), 0);
    CHECK_EQ(map_add(&m, STR(""), &b), 0);
    CHECK_EQ(map_add(&m, STR("a\0b"), &b), 0);
    CHECK(map_get(&m, STR("a")) == &a);
    CHECK(map_get(&m, STR_NONE) == &b);
    CHECK(map_get(&m, STR("a\0b")) == &b);
    CHECK(!map_has(&m, STR("a\0c")));
    CHECK_EQ(map_add(&m, STR("null"), NULL), 0);
    CHECK(map_has(&m, STR("null")) && !map_get(&m, STR("null")));
    CHECK_EQ(m.n, 4);
}

TEST(map, copies_its_keys)
{
    char key[] = "first";
    int v = 1;
    auto_map m;

    map_init(&m, 10, NULL);
    CHECK_EQ(map_add(&m, str_of(key), &v), 0);
    memcpy(key, "other", 5);
    CHECK(map_has(&m, STR("first")));
    CHECK(!map_has(&m, STR("other")));
}

TEST(map, refuses_a_second_value_on_add_and_replaces_it_on_set)
{
    int a = 1, b = 2; /* they outlive the map */
    auto_map m;

    map_init(&m, 1, count_free);
    CHECK_EQ(map_set(&m, STR("k"), &a), 0);
    CHECK_EQ(map_add(&m, STR("k"), &b), -EEXIST);
    CHECK_EQ(b, 2);
    CHECK_EQ(map_set(&m, STR("k"), &a), 0); /* the same value is not freed under our feet */
    CHECK_EQ(freed, 0);
    CHECK_EQ(map_set(&m, STR("k"), &b), 0);
    CHECK_EQ(freed, 1);
    CHECK_EQ(a, -1);
    CHECK(map_get(&m, STR("k")) == &b);
}

TEST(map, stops_at_its_ceiling)
{
    int v = 1;
    auto_map m;

    map_init(&m, 2, count_free);
    CHECK_EQ(map_add(&m, STR("a"), &v), 0);
    CHECK_EQ(map_add(&m, STR("b"), NULL), 0);
    CHECK_EQ(map_add(&m, STR("c"), NULL), -ENOSPC);
    CHECK_EQ(map_set(&m, STR("b"), NULL), 0);
    CHECK(map_remove(&m, STR("a")));
    CHECK_EQ(map_add(&m, STR("c"), NULL), 0);
}

TEST(map, is_unchanged_when_memory_is_out)
{
    char room[16];
    auto_map m;

    map_init(&m, 1000, NULL);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(map_add(&m, number_key(room, i), NULL), 0);
    for (int nth = 1; nth <= 3; nth++) { /* entries, index, key */
        fault_arm(FAULT_ALLOC, nth);
        CHECK_EQ(map_add(&m, STR("new"), NULL), -ENOMEM);
        CHECK_EQ(m.n, 8);
        CHECK(!map_has(&m, STR("new")));
        CHECK(map_has(&m, STR("k7")));
    }
    CHECK_EQ(map_add(&m, STR("new"), NULL), 0);
}

TEST(map, frees_values_it_removes_and_none_it_gives_back)
{
    int a = 1, b = 2, c = 3;
    struct map m;

    map_init(&m, 10, count_free);
    CHECK_EQ(map_add(&m, STR("a"), &a), 0);
    CHECK_EQ(map_add(&m, STR("b"), &b), 0);
    CHECK_EQ(map_add(&m, STR("c"), &c), 0);
    CHECK(map_remove(&m, STR("a")));
    CHECK(!map_remove(&m, STR("a")));
    CHECK_EQ(freed, 1);
    CHECK(map_take(&m, STR("b")) == &b);
    CHECK(!map_take(&m, STR("b")));
    CHECK_EQ(freed, 1);
    map_done(&m);
    CHECK_EQ(freed, 2);
    CHECK_EQ(c, -1);
    CHECK_EQ(map_add(&m, STR("d"), NULL), 0); /* usable again */
    map_done(&m);
}

TEST(map, walks_in_order_of_insertion_and_may_lose_keys_meanwhile)
{
    struct str key;
    char room[16];
    auto_map m;
    size_t at = 0;
    int seen = 0;

    map_init(&m, 1000, NULL);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(map_add(&m, number_key(room, i), NULL), 0);
    while (map_next(&m, &at, &key, NULL)) {
        CHECK(str_eq(key, number_key(room, seen)));
        CHECK(map_remove(&m, number_key(room, seen)));
        map_remove(&m, number_key(room, seen + 1));
        seen += 2;
    }
    CHECK_EQ(seen, 100);
    CHECK_EQ(m.n, 0);
}

TEST(map, agrees_with_a_plain_array_over_many_changes)
{
    enum { KEYS = 300, STEPS = 200000 };
    bool present[KEYS] = {0};
    uint32_t random = 12345;
    char room[16];
    size_t count = 0;
    auto_map m;

    map_init(&m, KEYS, NULL);
    for (int step = 0; step < STEPS; step++) {
        int i;

        random = random * 1664525 + 1013904223;
        i = (int)((random >> 8) % KEYS);
        if (random >> 31) {
            CHECK_EQ(map_add(&m, number_key(room, i), &present[i]), present[i] ? -EEXIST : 0);
            count += !present[i];
            present[i] = true;
        } else {
            CHECK_EQ(map_remove(&m, number_key(room, i)), present[i]);
            count -= present[i];
            present[i] = false;
        }
        CHECK_EQ(m.n, count);
    }
    for (int i = 0; i < KEYS; i++)
        CHECK(map_get(&m, number_key(room, i)) == (present[i] ? &present[i] : NULL));
    CHECK(m.room <= 1024); /* holes are reclaimed, not grown over */
}
