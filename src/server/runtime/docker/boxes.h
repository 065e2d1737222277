/* boxes.h - what the Docker runtime keeps in memory of its containers: where execd is, its token,
 * and the descriptor by which the rest of the server learns that it ended. Any thread. */
#pragma once

#include "base/id.h"
#include "base/map.h"
#include "net/sock.h"
#include <pthread.h>

enum {
    BOX_TOKEN_MAX = 256,
    BOX_PORTS = 3,
    BOX_PORT_FIRST = 40000, /* ports of the engine's machine that are published */
    BOX_PORT_LAST = 60000,
    BOXES_MAX = 200 * 1000,
    BOXES_RECENT = 64,
};

struct boxes {
    pthread_mutex_t lock;
    struct map by_id;
    struct map resting; /* those that were stopped, and may be started again: their ports */
    uint64_t wakes;     /* how many there were */
    char recent[BOXES_RECENT][ID_UUID_MAX];                  /* ids of the last of them */
    uint8_t ports[(BOX_PORT_LAST - BOX_PORT_FIRST) / 8 + 1]; /* in use, a bit each */
};

struct box_facts {
    struct sock_addr addr;
    struct sock_addr egress;   /* of its sidecar's control; size 0 = there is none */
    char token[BOX_TOKEN_MAX]; /* "" = execd asks for none of ours */
    char egress_token[BOX_TOKEN_MAX];
    uint16_t ports[BOX_PORTS]; /* published; 0 = none */
};

void boxes_init(struct boxes *b);
void boxes_done(struct boxes *b);

/* The number of wakes so far: take it before the engine is asked what to enter. */
uint64_t boxes_wakes(struct boxes *b);
/* Enters or replaces a box. *ret_watch is a descriptor for the caller that becomes readable at
 * boxes_wake(), also at one that came since `wakes`. -errno when there is none to be had. */
int boxes_set(struct boxes *b, struct str id, const struct box_facts *facts, uint64_t wakes,
              int *ret_watch);
/* Its ports are free again, also of one that rests. False when there was neither. */
bool boxes_remove(struct boxes *b, struct str id);
/* -ENOENT when there is none. */
int boxes_get(struct boxes *b, struct str id, struct box_facts *ret);
/* Makes the watch of the box readable: its container has changed. True when it has none, as it
 * rests. */
bool boxes_wake(struct boxes *b, struct str id);
/* In place of a box, until the next boxes_set() or boxes_remove(). Its ports stay in use: it will
 * publish them again. */
void boxes_rest(struct boxes *b, struct str id, const uint16_t ports[BOX_PORTS]);
/* The same for every box that `keep` does not have as a key. */
void boxes_wake_others(struct boxes *b, const struct map *keep);

/* A port that no box has, tested by binding it at `ip`; marked as in use. 0 = none to be had. */
uint16_t boxes_port_take(struct boxes *b, const char *ip);
void boxes_port_give(struct boxes *b, uint16_t port); /* 0 is fine */
