#include "server/core/idempotency.h"

#include <errno.h>

#include "base/time.h"
#include "test.h"

static const struct principal ann = {"key:aaaaaaaaaaaa", "default", ROLE_ADMIN, true, "", ""};
static const struct principal bob = {"key:bbbbbbbbbbbb", "default", ROLE_ADMIN, true, "", ""};

TEST(idempotency, a_key_leads_to_one_sandbox)
{
    struct idempotency *t = idempotency_new();
    char mark[IDEMPOTENCY_MARK_MAX], other[IDEMPOTENCY_MARK_MAX], id[ID_UUID_MAX] = "";

    idempotency_mark(&ann, STR("k"), STR("body"), mark);
    CHECK_EQ(idempotency_begin(t, str_of(mark), id), 0);
    CHECK_EQ(idempotency_begin(t, str_of(mark), id), -EALREADY);
    idempotency_made(t, str_of(mark), "box");
    CHECK_EQ(idempotency_begin(t, str_of(mark), id), 1);
    CHECK_STR(id, "box");
    idempotency_mark(&ann, STR("k"), STR("another body"), other);
    CHECK_EQ(idempotency_begin(t, str_of(other), id), -EINVAL);
    idempotency_mark(&bob, STR("k"), STR("another body"), other);
    CHECK_EQ(idempotency_begin(t, str_of(other), id), 0);
    idempotency_failed(t, str_of(other));
    CHECK_EQ(idempotency_begin(t, str_of(other), id), 0);
    CHECK_EQ(idempotency_begin(t, STR("no mark"), id), -EINVAL);
    idempotency_free(t);
}

TEST(idempotency, loads_what_is_not_too_old)
{
    struct idempotency *t = idempotency_new();
    char mark[IDEMPOTENCY_MARK_MAX], id[ID_UUID_MAX] = "";

    idempotency_mark(&ann, STR("old"), STR("b"), mark);
    idempotency_load(t, str_of(mark), "box", time_wall_us() - 25 * 3600 * TIME_US_PER_S);
    CHECK_EQ(idempotency_begin(t, str_of(mark), id), 0);
    idempotency_mark(&ann, STR("new"), STR("b"), mark);
    idempotency_load(t, str_of(mark), "box", time_wall_us());
    CHECK_EQ(idempotency_begin(t, str_of(mark), id), 1);
    idempotency_free(t);
}

TEST(idempotency, the_oldest_makes_room)
{
    struct idempotency *t = idempotency_new();
    char mark[IDEMPOTENCY_MARK_MAX], first[IDEMPOTENCY_MARK_MAX], id[ID_UUID_MAX];

    for (int i = 0; i < IDEMPOTENCY_MAX; i++) {
        idempotency_mark(&ann, str_make((const char *)&i, sizeof(i)), STR("b"), mark);
        CHECK_EQ(idempotency_begin(t, str_of(mark), id), 0);
        if (i == 0)
            memcpy(first, mark, sizeof(first));
    }
    idempotency_mark(&ann, STR("one more"), STR("b"), mark);
    CHECK_EQ(idempotency_begin(t, str_of(mark), id), -ENOSPC);
    idempotency_made(t, str_of(first), "box");
    CHECK_EQ(idempotency_begin(t, str_of(mark), id), 0);
    CHECK_EQ(idempotency_begin(t, str_of(first), id), -ENOSPC);
    idempotency_free(t);
}
