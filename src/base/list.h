/* list.h - an intrusive doubly linked list; members are added at the tail. */
#pragma once

#include "base/defs.h"
#include <stdbool.h>

struct list {
    struct list *prev, *next; /* of the head: last and first member; of a member: its neighbours */
};

static inline void list_init(struct list *head)
{
    head->prev = head->next = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_push(struct list *head, struct list *member)
{
    member->prev = head->prev;
    member->next = head;
    head->prev->next = member;
    head->prev = member;
}

static inline void list_remove(struct list *member)
{
    member->prev->next = member->next;
    member->next->prev = member->prev;
    list_init(member);
}

static inline void list_move(struct list *head, struct list *member)
{
    list_remove(member);
    list_push(head, member);
}

/* The first member, and the same taken off its list; NULL when there is none. */
struct list *list_first(const struct list *head);
struct list *list_take(struct list *head);

/* Visits members; the current one may be removed. */
#define LIST_EACH(head, at)                                                                        \
    for (struct list *at = (head)->next, *at##_next = at->next; at != (head);                      \
         at = at##_next, at##_next = at->next)
