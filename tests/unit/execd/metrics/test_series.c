#include "execd/metrics/series.h"

#include "test.h"

static const char a[] = "a", b[] = "b";

TEST(series, keeps_a_histogram_for_each_key)
{
    struct series_set s = {0};
    struct series_key one =
                          {
                              0, {a, b},
                               200
    },
                      other = {0, {a, b}, 404}, third = {1, {a, b}, 200};

    series_set_add(&s, &one, 5.0);
    series_set_add(&s, &one, 5.1);
    series_set_add(&s, &other, 0.0);
    series_set_add(&s, &third, 1e9);
    CHECK_EQ(s.count, 3);
    CHECK_EQ(s.rows[0].count, 2);
    CHECK_EQ(s.rows[0].buckets[1], 1); /* a bound belongs to the bucket below it */
    CHECK_EQ(s.rows[0].buckets[2], 1);
    CHECK(s.rows[0].sum_ms == 5.0 + 5.1);
    CHECK(s.rows[0].min_ms == 5.0 && s.rows[0].max_ms == 5.1);
    CHECK_EQ(s.rows[1].buckets[0], 1);
    CHECK_EQ(s.rows[2].buckets[SERIES_BOUNDS], 1);
    series_set_done(&s);
    CHECK_EQ(s.count, 0);
}

TEST(series, shares_one_behind_the_ceiling)
{
    struct series_set s = {0};
    size_t own = 0;

    for (int status = 1; status <= 2000; status++)
        series_set_add(&s,
                       &(struct series_key){
                           0, {a, NULL},
                            status
        },
                       1.0);
    series_set_add(&s,
                   &(struct series_key){
                       1, {a, NULL},
                        1
    },
                   1.0);
    series_set_add(&s,
                   &(struct series_key){
                       0, {a, NULL},
                        1
    },
                   1.0); /* was there before */
    CHECK(s.count <= SERIES_MAX);
    while (own < s.count && !s.rows[own].overflow)
        own++;
    CHECK_EQ(s.count, own + 2); /* one for each instrument */
    CHECK_EQ(s.rows[own].count, 2000 - own);
    CHECK_EQ(s.rows[own + 1].count, 1);
    CHECK_EQ(s.rows[0].count, 2);
    series_set_done(&s);
}
