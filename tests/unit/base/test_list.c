#include "base/list.h"

#include "test.h"

TEST(list, takes_members_in_the_order_they_were_added)
{
    struct list head, members[3];
    struct list *at;
    size_t taken = 0;

    list_init(&head);
    CHECK(!list_first(&head));
    CHECK(!list_take(&head));
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        list_push(&head, &members[i]);
    CHECK(list_first(&head) == &members[0]);
    while ((at = list_take(&head))) {
        CHECK(at == &members[taken]);
        list_remove(at); /* of a member that was taken: does nothing */
        taken++;
        if (taken == 1)
            list_push(&head, at);
        if (taken == ARRAY_LEN(members))
            break;
    }
    CHECK(list_take(&head) == &members[0]);
    CHECK(list_empty(&head));
}
