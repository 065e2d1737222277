/* listing.h - files found, first collected and then told as a JSON array at the client's pace.
 *
 * Collecting comes first so that a failure half way is an answer and not a broken one. Each takes
 * some 100 bytes and its path; there is a ceiling to both. */
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
void listing_done(struct listing *l); /* zeroed is fine */

/* -E2BIG and a sentence at the ceiling. */
int listing_add(struct listing *l, struct str path, const struct stat *st, struct err *e) MUST_USE;

/* Replies with a piece. True when more is to be told and there is room; false when all is told, or
 * on_drain will come. Rows are freed as they leave. */
bool listing_reply(struct listing *l, struct http_req *req);
