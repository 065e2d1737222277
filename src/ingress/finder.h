/* finder.h - finds sandboxes on lifecycle servers: which of them has one, its token, its state.
 *
 * Asks all servers at once, and remembers the answer for a while: bounded, also for ids that none
 * knows. One for each worker. Loop thread only. */
#pragma once

#include "ingress/place.h"
#include "ingress/servers.h"
#include "net/http_wait.h"

enum {
    FINDER_KEPT_MAX = 64 * 1024,
    FINDER_ASKS_MAX = 256, /* at the same time */
    FINDER_ID_MAX = 64,
    FINDER_ASK_MS = 8000, /* of one id, all servers */
};

struct finder_conf {
    struct loop *loop;
    const struct servers *servers;
    struct server_calls calls;
    uint32_t keep_ms;    /* a sandbox that was found */
    uint32_t keep_no_ms; /* an id that no server knows */
};

struct finder {
    struct finder_conf conf;
    struct map kept; /* of struct kept */
    struct list asks;
    size_t ask_count;
    uint64_t asked, hits;
};

void finder_init(struct finder *f, const struct finder_conf *conf);
void finder_done(struct finder *f); /* asks that are under way are given up, without their done */

/* What is known of it: PLACE_LATER when it must be asked for. */
void finder_find(struct finder *f, struct str id, struct place *ret);
/* Asks for it: afterwards finder_find knows. */
void finder_ask(struct finder *f, struct str id, http_wait_done_fn *done, void *done_user);
void finder_forget(struct finder *f, struct str id);
