#include "server/gateway/previews.h"

#include "test.h"

TEST(previews, open_one_port_by_their_ticket)
{
    struct previews *p = previews_new();
    const struct preview *one = previews_add(p, STR("box-1"), 8000, 100);
    char ticket[ID_TOKEN_MAX];

    CHECK(one);
    memcpy(ticket, one->ticket, sizeof(ticket));
    CHECK_EQ(str_of(ticket).n, ID_TOKEN_MAX - 1);
    one = previews_use(p, str_of(ticket), 101);
    CHECK(one);
    CHECK_STR(one->sandbox_id, "box-1");
    CHECK_EQ(one->port, 8000);
    CHECK(!previews_use(p, STR("another"), 101));
    CHECK(!previews_use(p, STR_NONE, 101));
    CHECK(!previews_use(p, str_make(ticket, sizeof(ticket) - 2), 101));
    previews_free(p);
}

TEST(previews, end_when_they_are_not_used)
{
    struct previews *p = previews_new();
    char ticket[ID_TOKEN_MAX];

    memcpy(ticket, previews_add(p, STR("box"), 80, 0)->ticket, sizeof(ticket));
    CHECK(previews_use(p, str_of(ticket), PREVIEW_IDLE_S - 1));
    CHECK(previews_use(p, str_of(ticket), 2 * PREVIEW_IDLE_S - 2));
    CHECK(!previews_use(p, str_of(ticket), 3 * PREVIEW_IDLE_S));
    previews_free(p);
}

TEST(previews, end_after_hours_of_use)
{
    struct previews *p = previews_new();
    char ticket[ID_TOKEN_MAX];
    int64_t now = 0;

    memcpy(ticket, previews_add(p, STR("box"), 80, 0)->ticket, sizeof(ticket));
    for (; now < PREVIEW_LIFE_S; now += 60)
        CHECK(previews_use(p, str_of(ticket), now));
    CHECK(!previews_use(p, str_of(ticket), now));
    previews_free(p);
}

TEST(previews, make_room_for_new_ones)
{
    struct previews *p = previews_new();
    char first[ID_TOKEN_MAX], second[ID_TOKEN_MAX];

    memcpy(first, previews_add(p, STR("box"), 80, 0)->ticket, sizeof(first));
    memcpy(second, previews_add(p, STR("box"), 80, 1)->ticket, sizeof(second));
    for (int64_t i = 2; i < PREVIEWS_MAX; i++)
        CHECK(previews_add(p, STR("box"), 80, i));
    CHECK(previews_add(p, STR("box"), 80, 5));
    CHECK(!previews_use(p, str_of(first), 6));
    CHECK(previews_use(p, str_of(second), 6));
    previews_free(p);
}

TEST(previews, refuse_an_id_that_is_none)
{
    struct previews *p = previews_new();
    char id[PREVIEW_SANDBOX_ID_MAX + 1];

    memset(id, 'a', sizeof(id));
    CHECK(previews_add(p, str_make(id, PREVIEW_SANDBOX_ID_MAX - 1), 80, 0));
    CHECK(!previews_add(p, str_make(id, PREVIEW_SANDBOX_ID_MAX), 80, 0));
    previews_free(p);
}
