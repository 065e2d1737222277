/* store.h - the server's persistent state: sandboxes, their expiry and metadata, their history.
 *
 * One SQLite file in WAL mode, one connection, prepared statements, a mutex. Every call is one
 * transaction, blocks, and is for workers (any thread). A change that returned success survives the
 * death of the process. A power cut may undo the newest changes, but damages nothing. Changes of
 * state and expiry are compare-and-set on the row, so that renew, expire, pause and delete cannot
 * race.
 *
 * Changes return 1 when a row was changed, 0 when the row is gone or not in an expected state, or
 * -errno; in both cases nothing has changed. -ENOSPC and -EROFS come from the disk, -EMSGSIZE means
 * a text past its maximum, -EUCLEAN a damaged file. */
#pragma once

#include "api/state.h"
#include "base/err.h"

struct store;

enum { /* maximum bytes of texts */
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
    int64_t created_us, since_us, expires_us; /* since: when the state began. expires 0 = never */
    struct str image, snapshot_id, os, arch;
    struct str entrypoint; /* JSON array */
    struct str metadata;   /* JSON object */
    struct str token;      /* grants access to its data plane */
    struct str spec;       /* JSON from spec_json.h: what else it was made of */
    uint32_t renew_extend_s;
};

struct store_status { /* the new status of a row */
    enum sandbox_state state;
    struct str reason, message;
    int64_t now_us;
};

/* Creates directories and file as needed (0700, 0600), checks integrity, migrates. Refuses, with a
 * message: a file that another server has open (-EBUSY, by a lock file beside it), a newer version
 * (-ENOTSUP), a damaged file (-EUCLEAN), one of another program (-EINVAL). Recovers what a killed
 * server left behind. */
int store_open(const char *path, struct store **ret_store, struct err *e);
void store_close(struct store *s); /* NULL is fine */

/* -EEXIST when the id exists. The state becomes the first event of the history. */
int store_insert(struct store *s, const struct store_sandbox *row, struct err *e);
/* Sets `status` if the row is in one of the `from` states (STATE_BITs); adds to the history. */
int store_set_status(struct store *s, struct str id, unsigned from,
                     const struct store_status *status, struct err *e);
/* Sets a new expiry if the row is in one of `from`, has an expiry, and this is `expected_us` (0 =
 * any). */
int store_renew(struct store *s, struct str id, unsigned from, int64_t expected_us,
                int64_t expires_us, struct err *e);
/* Sets status->state, which is Stopping, unless the row is Stopping already. The row must still
 * expire at `expires_us`, and that must not be after status->now_us. */
int store_expire(struct store *s, struct str id, int64_t expires_us,
                 const struct store_status *status, struct err *e);
int store_set_metadata(struct store *s, struct str id, struct str metadata, struct err *e);
/* Deletes the row and its history. */
int store_delete(struct store *s, struct str id, struct err *e);

/* Visits rows, oldest first. Stops when visit returns other than 0, and returns that. The row is
 * borrowed for the call; visit must not call the store. */
int store_each(struct store *s, int (*visit)(void *user, const struct store_sandbox *row),
               void *user, struct err *e);

struct store_event {
    uint64_t number; /* counts all events of this sandbox, from 1 */
    int64_t at_us;
    enum sandbox_state state;
    struct str reason, message;
};
/* Visits the newest `limit` events of a sandbox, oldest first; returns how many. Keeps at most
 * STORE_EVENTS_MAX per sandbox. visit must not call the store. */
enum { STORE_EVENTS_MAX = 500 };
int store_history(struct store *s, struct str id, uint32_t limit,
                  void (*visit)(void *user, const struct store_event *event), void *user,
                  struct err *e);

/* Whether a change can be stored now: rewrites a value that is there already. */
int store_probe(struct store *s, struct err *e);

/* Checkpoints the WAL into the file and flushes it: then a power cut loses nothing. -EBUSY while
 * another program reads the file. */
int store_checkpoint(struct store *s, struct err *e);
/* Deleted data stays in the WAL until a checkpoint. Does one if anything was deleted since the
 * last. Other calls wait for it, for two flushes of the disk. It does not wait for a program that
 * reads the file: -EBUSY, and the next call tries again. */
int store_forget(struct store *s, struct err *e);
