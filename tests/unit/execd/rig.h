/* rig.h - a loop that reaps, for tests of processes. */
#pragma once

#include <signal.h>

#include "base/time.h"
#include "execd/core/reaper.h"
#include "net/loop.h"
#include "test.h"

enum { RIG_SECONDS_MAX = 60 };

struct rig {
    struct loop *loop;
    struct reaper reaper;
    struct loop_signals signals;
    struct loop_timer timer;
};

static void rig_on_signal(struct loop_signals *s, int signo UNUSED)
{
    while (reaper_reap(&container_of(s, struct rig, signals)->reaper) > 0)
        ;
}

static void rig_open(struct rig *g)
{
    sigset_t set;

    CHECK_EQ(loop_new(&g->loop, NULL), 0);
    reaper_init(&g->reaper);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    CHECK_EQ(loop_signals_start(g->loop, &g->signals, &set, rig_on_signal, NULL), 0);
}

static void rig_close(struct rig *g)
{
    loop_timer_stop(g->loop, &g->timer);
    loop_signals_stop(&g->signals);
    loop_free(g->loop);
}

static void rig_on_timer(struct loop_timer *t)
{
    loop_stop(container_of(t, struct rig, timer)->loop);
}

static void rig_run_ms(struct rig *g, uint32_t ms)
{
    loop_timer_set(g->loop, &g->timer, deadline_in_ms(ms), rig_on_timer);
    CHECK_EQ(loop_run(g->loop, NULL), 0);
}

/* Runs until the condition holds. */
#define RIG_UNTIL(g, condition)                                                                    \
    do {                                                                                           \
        for (int i_ = 0; i_ < RIG_SECONDS_MAX * 200 && !(condition); i_++)                         \
            rig_run_ms((g), 5);                                                                    \
        CHECK(condition);                                                                          \
    } while (0)
