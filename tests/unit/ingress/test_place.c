#include "ingress/place.h"

#include "test.h"

static struct place at(const char *host)
{
    struct place p = {.state = PLACE_READY};

    (void)snprintf(p.host, sizeof(p.host), "%s", host);
    return p;
}

static void set(struct places *t, const char *ns, const char *name, const char *host)
{
    struct place p = at(host);

    CHECK_EQ(places_set(t, str_of(ns), str_of(name), &p), 0);
}

static struct place find(struct places *t, const char *name)
{
    struct place p;

    places_find(t, str_of(name), &p);
    return p;
}

TEST(place, is_found_by_its_name)
{
    struct places t;

    places_init(&t);
    CHECK_EQ(find(&t, "a").state, PLACE_NONE);
    set(&t, "x", "a", "10.0.0.1");
    CHECK_STR(find(&t, "a").host, "10.0.0.1");
    set(&t, "x", "a", "10.0.0.2");
    CHECK_STR(find(&t, "a").host, "10.0.0.2");
    CHECK_EQ(places_count(&t), 1);
    places_remove(&t, STR("x"), STR("a"));
    CHECK_EQ(find(&t, "a").state, PLACE_NONE);
    places_remove(&t, STR("x"), STR("a"));
    places_done(&t);
}

TEST(place, is_ambiguous_while_two_namespaces_have_it)
{
    struct places t;
    static const char *const orders[][3] = {
        {"x", "y", "z"},
        {"z", "x", "y"},
        {"y", "z", "x"}
    };

    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        places_init(&t);
        set(&t, "x", "a", "x");
        set(&t, "y", "a", "y");
        set(&t, "z", "a", "z");
        CHECK_EQ(find(&t, "a").state, PLACE_AMBIGUOUS);
        places_remove(&t, str_of(orders[i][0]), STR("a"));
        CHECK_EQ(find(&t, "a").state, PLACE_AMBIGUOUS);
        places_remove(&t, str_of(orders[i][1]), STR("a"));
        CHECK_STR(find(&t, "a").host, orders[i][2]);
        places_remove(&t, str_of(orders[i][2]), STR("a"));
        CHECK_EQ(find(&t, "a").state, PLACE_NONE);
        places_done(&t);
    }
}
