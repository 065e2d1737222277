#include "base/list.h"

#include <stddef.h>

struct list *list_first(const struct list *head)
{
    return list_empty(head) ? NULL : head->next;
}

struct list *list_take(struct list *head)
{
    struct list *first = list_first(head);

    if (first)
        list_remove(first);
    return first;
}
