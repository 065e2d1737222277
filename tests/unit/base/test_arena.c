#include "base/arena.h"

#include "base/fault.h"
#include "test.h"

TEST(arena, gives_aligned_memory_that_stays_in_place)
{
    AUTO_ARENA(a, 1 << 20);
    char *all[200];

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i] = arena_alloc(&a, i);
        CHECK(all[i]);
        CHECK_EQ((uintptr_t)all[i] % 16, 0);
        memset(all[i], (int)i, i);
    }
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        for (size_t k = 0; k < i; k++)
            CHECK_EQ(all[i][k], (char)i); /* none overlaps another */
}

TEST(arena, answers_null_past_its_ceiling)
{
    AUTO_ARENA(a, 4096);

    CHECK(!arena_alloc(&a, 4097));
    CHECK(arena_alloc(&a, 4096)); /* the whole of it can be had */
    CHECK(!arena_alloc(&a, 1));
    CHECK(!arena_str(&a, STR("x")).p);
    CHECK(!arena_strdup(&a, STR("x")));
    CHECK(!arena_printf(&a, "%d", 1));
    CHECK(!arena_new_array(&a, int, 1));
    CHECK(a.used <= a.max);
}

TEST(arena, survives_sizes_near_the_largest)
{
    AUTO_ARENA(a, SIZE_MAX);
    volatile size_t most = SIZE_MAX;

    for (size_t less = 0; less < 100; less++)
        CHECK(!arena_alloc(&a, most - less));
    CHECK(!arena_new_array(&a, uint64_t, most / 4));
    CHECK(arena_alloc(&a, 1));
}

TEST(arena, answers_null_when_memory_is_out)
{
    AUTO_ARENA(a, 1 << 20);

    fault_arm(FAULT_ALLOC, 1);
    CHECK(!arena_alloc(&a, 10));
    CHECK(arena_alloc(&a, 10));
}

TEST(arena, copies_and_formats_strings)
{
    AUTO_ARENA(a, 1 << 20);
    char text[] = "abc";
    struct str copy = arena_str(&a, str_of(text));

    text[0] = 'x';
    CHECK_SPAN(copy, "abc");
    CHECK_EQ(copy.p[3], '\0');
    CHECK_STR(arena_strdup(&a, STR_NONE), "");
    CHECK_STR(arena_printf(&a, "%s-%d", "n", 42), "n-42");
    CHECK(arena_str(&a, STR("")).p); /* empty is not the ceiling */
}

TEST(arena, zeroes_what_it_hands_out_again)
{
    AUTO_ARENA(a, 1 << 20);
    unsigned char *p = arena_alloc(&a, 1000);

    CHECK(p);
    memset(p, 0xff, 1000);
    arena_reset(&a);
    p = arena_zalloc(&a, 1000);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(p[i], 0);
}

TEST(arena, keeps_one_block_over_a_reset)
{
    AUTO_ARENA(a, 1 << 16);

    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 20; i++)
            CHECK(arena_alloc(&a, 1000));
        arena_reset(&a);
        CHECK(a.used > 0 && a.used <= a.max);
    }
    arena_done(&a);
    CHECK_EQ(a.used, 0);
    arena_reset(&a);
    CHECK(arena_alloc(&a, 1)); /* usable again */
}
