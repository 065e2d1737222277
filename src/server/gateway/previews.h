/* previews.h - tickets by which a browser reaches one port of one sandbox at /preview/{ticket}/.
 *
 * A page that is loaded by its address carries no header, so the address itself is the credential:
 * a random secret that opens one port, for a limited time. Kept in memory only; a restart ends them
 * all. Loop thread only. */
#pragma once

#include "base/id.h"
#include "base/str.h"
#include "server/tenants/principal.h"

enum {
    PREVIEWS_MAX = 1024,              /* one more takes the place of the one that ends first */
    PREVIEW_IDLE_S = 15 * 60,         /* without a request it ends after this time */
    PREVIEW_LIFE_S = 8 * 60 * 60,     /* ... and after this in any case */
    PREVIEW_SANDBOX_ID_MAX = 128 + 1, /* with the NUL */
};

struct preview {
    char ticket[ID_TOKEN_MAX];
    char sandbox_id[PREVIEW_SANDBOX_ID_MAX];
    uint16_t port;
    int64_t ends_s;      /* since 1970; each use moves it, ... */
    int64_t ends_last_s; /* ... up to this */
};

struct previews;

struct previews *previews_new(void);
void previews_free(struct previews *p); /* NULL is fine */

/* Makes a ticket; NULL when the id is too long to be one. Valid until the next call. */
const struct preview *previews_add(struct previews *p, struct str sandbox_id, uint16_t port,
                                   int64_t now_s);
/* The preview of a ticket, which counts as used; NULL when there is none, or it has ended. Takes
 * the same time for every ticket of a given length. Valid until the next call of previews_add(). */
const struct preview *previews_use(struct previews *p, struct str ticket, int64_t now_s);
