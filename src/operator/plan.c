#include "operator/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "operator/doc.h"

enum { EVENT_TEXT_MAX = 512, WRITES_MAX = 20000 };

void plan_init(struct plan *p)
{
    *p = (struct plan){.step = 0};
    arena_init(&p->arena, PLAN_BYTES_MAX);
    p->tail = &p->writes;
    p->event_tail = &p->events;
}

void plan_done(struct plan *p)
{
    arena_done(&p->arena);
}

void plan_fail(struct plan *p, const struct err *e)
{
    if (p->failed)
        return;
    p->failed = true;
    p->err = *e;
}

static void plan_is_full(struct plan *p)
{
    struct err e = {0};

    (void)err_set(&e, ENOMEM, "a plan of more than %d bytes or %d writes", PLAN_BYTES_MAX,
                  WRITES_MAX);
    plan_fail(p, &e);
}

struct write *plan_write(struct plan *p, enum write_verb verb, enum object_kind kind, struct str ns,
                         struct str name)
{
    static _Thread_local struct write nowhere; /* of a plan that has failed anyway */
    struct write *w = p->write_count < WRITES_MAX ? arena_new(&p->arena, struct write) : NULL;

    if (!w) {
        plan_is_full(p);
        nowhere = (struct write){.verb = verb};
        return &nowhere;
    }
    w->verb = verb;
    w->kind = kind;
    w->step = p->step;
    w->ns = ns;
    w->name = name;
    *p->tail = w;
    p->tail = &w->next;
    p->write_count++;
    return w;
}

void plan_next_step(struct plan *p)
{
    p->step++;
}

void plan_event(struct plan *p, bool warning, const char *reason, const char *fmt, ...)
{
    struct event *e = arena_new(&p->arena, struct event);
    char text[EVENT_TEXT_MAX];
    va_list ap;

    if (!e)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    e->warning = warning;
    e->reason = reason;
    e->message = arena_str(&p->arena, str_of(text));
    *p->event_tail = e;
    p->event_tail = &e->next;
}

void plan_again_at(struct plan *p, int64_t us)
{
    if (!p->again_us || us < p->again_us)
        p->again_us = us;
}

void plan_body(struct plan *p, struct write *w, const struct json *tree)
{
    w->body = doc_text(&p->arena, tree);
    if (!w->body.p)
        plan_is_full(p);
}
