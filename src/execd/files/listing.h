/* listing.h - collects files and then sends them as a JSON array at the client's pace.
 *
 * All are collected first, so that a failure gives an error reply and not a truncated one. Each
 * takes about 100 bytes and its path; both the number and the memory are limited. */
#pragma once

#include "execd/files/file_info.h"
#include "net/http_server.h"

enum { LISTING_FILES_MAX = 100000, LISTING_BYTES_MAX = 64 << 20 };

struct listing_row;

struct listing {
    struct arena arena;
    struct listing_row *first, **tail;
    size_t count;
    struct user_cache users;
    bool head, begun; /* sent: the reply's head, and the first piece */
};

void listing_init(struct listing *l);
void listing_done(struct listing *l); /* all zero is fine */

/* -E2BIG and a message when the limit is reached. */
int listing_add(struct listing *l, struct str path, const struct stat *st, struct err *e) MUST_USE;

/* Sends a piece. True when more is left and there is room; false when all is sent, or on_drain
 * follows. Rows are freed once sent. */
bool listing_reply(struct listing *l, struct http_req *req);
