/* store.h - what the server must not forget: sandboxes, their expiry and metadata, their history.
 *
 * One SQLite file in WAL mode, one connection, prepared statements, a mutex. Every call is one
 * transaction, blocks, and is for workers (any thread). What returned success survives the death of
 * the process at any later moment. A power cut may take the last changes with it, from the newest
 * back, but damages nothing. Changes of state and expiry are compare-and-set on the row, so that
 * renew, expire, pause and delete cannot race.
 *
 * Changes return 1 when a row was changed, 0 when the row is gone or not in an expected state
 * (nothing happened then), or -errno (nothing happened either): -ENOSPC and -EROFS as the disk
 * says, -EMSGSIZE for a text past its maximum, -EUCLEAN for damage. */
#pragma once

#include "api/state.h"
#include "base/err.h"

struct store;

enum { /* bytes of texts */
       STORE_ID_MAX = 128,
       STORE_REASON_MAX = 128,
       STORE_NAME_MAX = 1024, /* image, snapshot, platform, token */
       STORE_MESSAGE_MAX = 4096,
       STORE_JSON_MAX = 1 << 20,
};

/* Strings are borrowed; "" is stored as none. Times are wall-clock microseconds; 0 = none. */
struct store_sandbox {
    struct str id;
    enum sandbox_state state;
    struct str reason, message;
    int64_t created_us, since_us, expires_us; /* since: of the state. expires 0 = never */
    struct str image, snapshot_id, os, arch;
    struct str entrypoint; /* JSON array */
    struct str metadata;   /* JSON object */
    struct str token;      /* that opens its data plane */
    struct str spec;       /* JSON, the runtime's: what else it was made of */
    uint32_t renew_extend_s;
};

struct store_status { /* what a row is to become */
    enum sandbox_state state;
    struct str reason, message;
    int64_t now_us;
};

/* Creates directories and file as needed (0700, 0600), checks integrity, migrates. By name refuses
 * a file that another server has open (-EBUSY; a lock file beside it tells), one of a newer version
 * (-ENOTSUP), a damaged one (-EUCLEAN), one of another program (-EINVAL). What a killed server left
 * behind is recovered. */
int store_open(const char *path, struct store **ret_store, struct err *e);
void store_close(struct store *s); /* NULL is fine */

/* -EEXIST when there is one of that id. Its state is the first event of its history. */
int store_insert(struct store *s, const struct store_sandbox *row, struct err *e);
/* To `status` when the row is in one of `from` (STATE_BITs); adds to the history. */
int store_set_status(struct store *s, struct str id, unsigned from,
                     const struct store_status *status, struct err *e);
/* A new expiry, when the row is in one of `from` and has an expiry, and that is `expected_us` or
 * expected_us is 0. */
int store_renew(struct store *s, struct str id, unsigned from, int64_t expected_us,
                int64_t expires_us, struct err *e);
/* To status->state, which is Stopping, when the row is not already, still expires at `expires_us`,
 * and that is not after status->now_us. */
int store_expire(struct store *s, struct str id, int64_t expires_us,
                 const struct store_status *status, struct err *e);
int store_set_metadata(struct store *s, struct str id, struct str metadata, struct err *e);
/* Row and history are gone. */
int store_delete(struct store *s, struct str id, struct err *e);

/* Oldest first. What visit returns ends it when it is not 0, and is then returned. The row is
 * borrowed for the call; visit must not call the store. */
int store_each(struct store *s, int (*visit)(void *user, const struct store_sandbox *row),
               void *user, struct err *e);

struct store_event {
    uint64_t number; /* of all there ever were of this sandbox, from 1 */
    int64_t at_us;
    enum sandbox_state state;
    struct str reason, message;
};
/* The newest `limit` events of a sandbox, oldest first; returns how many. At most STORE_EVENTS_MAX
 * are kept of one. visit must not call the store. */
enum { STORE_EVENTS_MAX = 500 };
int store_history(struct store *s, struct str id, uint32_t limit,
                  void (*visit)(void *user, const struct store_event *event), void *user,
                  struct err *e);

/* Whether a change can be kept now: writes what is there already. */
int store_probe(struct store *s, struct err *e);

/* Empties the WAL into the file, and flushes it: after that a power cut takes nothing. -EBUSY while
 * another program reads the file. */
int store_checkpoint(struct store *s, struct err *e);
/* What was deleted is in the WAL until that is emptied: does so, if anything was. Every other call
 * waits meanwhile, for two flushes of the disk and never for a program that reads the file: -EBUSY
 * then, and the next call tries again. */
int store_forget(struct store *s, struct err *e);
