/* store.h - the server's persistent state: sandboxes, their expiry and metadata, their history; and
 * named records of other kinds.
 *
 * An interface: store_ops.h has what an implementation provides, store_sqlite.c and store_pg.c are
 * the two there are.
 * Every call is one transaction, blocks, and is for workers (any thread). A change that returned
 * success survives the death of the process. A power cut may undo the newest changes, but damages
 * nothing. Changes of state and expiry are compare-and-set on the row, so that renew, expire, pause
 * and delete cannot race.
 *
 * Changes return 1 when a row was changed, 0 when the row is gone or not in an expected state, or
 * -errno; in both cases nothing has changed. -ENOSPC and -EROFS come from the disk, -EMSGSIZE means
 * a text past its maximum, -EUCLEAN a damaged file. */
#pragma once

#include "api/state.h"
#include "base/arena.h"
#include "base/err.h"

struct store;

enum { /* maximum bytes of texts */
       STORE_ID_MAX = 128,
       STORE_REASON_MAX = 128,
       STORE_NAME_MAX = 1024, /* image, snapshot, platform, token */
       STORE_MESSAGE_MAX = 4096,
       STORE_JSON_MAX = 1 << 20,
       STORE_WORD_MAX = 64, /* kind and state of a record */
};

/* What counts towards quotas: sandboxes, millicores, bytes of memory and of disk, in this order. */
enum { STORE_QUOTAS = 4 };

/* What a row brings with it where several servers share the store: nobody else counts for all. */
struct store_share {
    struct str tenant;            /* whose quota it counts towards; "" = nobody's */
    int64_t needs[STORE_QUOTAS];  /* this much */
    int64_t limits[STORE_QUOTAS]; /* of the tenant; -1 = none */
    struct str mark;              /* of an Idempotency-Key; "" = none */
};

/* Strings are borrowed; "" is stored as none. Times are wall-clock microseconds; 0 = none. */
struct store_sandbox {
    struct str id;
    enum sandbox_state state;
    struct str reason, message;
    int64_t created_us, since_us, expires_us; /* since: when the state began. expires 0 = never */
    struct str image, snapshot_id, os, arch;
    struct str entrypoint;    /* JSON array */
    struct str metadata;      /* JSON object */
    struct str token;         /* grants access to its data plane */
    struct str tenant, owner; /* who created it: principal.h. owner "" = an older server did */
    struct str spec;          /* JSON from spec_json.h: what else it was made of */
    uint32_t renew_extend_s;
    const struct store_share *share; /* counts in a shared store only; NULL = as nothing */
};

struct store_status { /* the new status of a row */
    enum sandbox_state state;
    struct str reason, message;
    int64_t now_us;
};

/* The numbers are those of the words of the configuration's store.type. */
enum store_type { STORE_SQLITE, STORE_POSTGRES };

/* `where` is the path of a file of SQLite, or a connection string of PostgreSQL.
 *
 * Creates directories and file, or tables, as needed (0700, 0600), checks integrity, migrates.
 * Refuses, with a message: what another server has open (-EBUSY, by a lock file beside it or an
 * advisory lock), a newer version (-ENOTSUP), a damaged file (-EUCLEAN), one of another program
 * (-EINVAL). Recovers what a killed server left behind. */
int store_open(enum store_type type, const char *where, struct store **ret_store, struct err *e);
void store_close(struct store *s); /* NULL is fine */

/* Kinds of records that all servers of a shared store have together. */
#define STORE_SHARED_KINDS STR_INIT("tenant"), STR_INIT("api_key"), STR_INIT("cluster")

/* A store in PostgreSQL for one server of perhaps several. */
struct store_postgres {
    const char *dsn;
    const char *holder; /* the server's id, of hexadecimal digits and '-'; "" = none */
    /* Others use the tables at the same time: each row of a sandbox, and each record but those of
     * STORE_SHARED_KINDS, is of one holder, and no other one sees or changes it. A second server
     * with the same id is kept out (-EBUSY). Without it the holder takes over all there is. */
    bool shared;
};
int store_open_postgres(const struct store_postgres *conf, struct store **ret_store, struct err *e);

/* -EEXIST when the id exists. The state becomes the first event of the history. In a shared store
 * -E2BIG when the row's share exceeds its limits, -EALREADY when another server has its mark. */
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
/* The expiry in the row: it differs from what a caller of store_renew knows when the answer was
 * lost. 0 when the row is gone, or the store cannot lose answers. */
int store_expiry(struct store *s, struct str id, int64_t *ret_us, struct err *e);
int store_set_metadata(struct store *s, struct str id, struct str metadata, struct err *e);
/* Hands the row to another owner if it is Running and of `expected`: sets tenant, owner, token,
 * times of creation and expiry, entrypoint, metadata, spec, renew_extend_s and share from `row`,
 * whose other fields but the id do not count. -E2BIG as above. */
int store_claim(struct store *s, struct str expected, const struct store_sandbox *row,
                struct err *e);
/* Deletes the row and its history. */
int store_delete(struct store *s, struct str id, struct err *e);

/* Visits rows, oldest first. Stops when visit returns other than 0, and returns that. The row is
 * borrowed for the call; visit must not call the store. */
typedef int store_visit_fn(void *user, const struct store_sandbox *row);
int store_each(struct store *s, store_visit_fn *visit, void *user, struct err *e);

struct store_event {
    uint64_t number; /* counts all events of this sandbox, from 1 */
    int64_t at_us;
    enum sandbox_state state;
    struct str reason, message;
};
/* Visits the newest `limit` events of a sandbox, oldest first; returns how many. Keeps at most
 * STORE_EVENTS_MAX per sandbox. visit must not call the store. */
enum { STORE_EVENTS_MAX = 500 };
typedef void store_event_fn(void *user, const struct store_event *event);
int store_history(struct store *s, struct str id, uint32_t limit, store_event_fn *visit, void *user,
                  struct err *e);

/* --- records: what else has a name, such as snapshots, pools and images ---
 *
 * A kind and an id name a record. Its state is a word of the kind's own, and is compared when the
 * record changes; everything else about it is JSON. The caller limits how many there are. */

struct store_record {
    struct str kind, id; /* neither is empty */
    struct str state;
    struct str tenant, owner; /* as of a sandbox */
    int64_t created_us;
    struct str json;
};

/* -EEXIST when the kind has this id, -EINVAL when either is empty. */
int store_record_insert(struct store *s, const struct store_record *record, struct err *e);
/* Sets state and JSON if the record is in state `expected`; STR_NONE = in any. `json` STR_NONE
 * keeps the JSON of before. */
int store_record_update(struct store *s, struct str kind, struct str id, struct str expected,
                        struct str state, struct str json, struct err *e);
/* Deletes the record if it is in state `expected`; STR_NONE = in any. */
int store_record_delete(struct store *s, struct str kind, struct str id, struct str expected,
                        struct err *e);
/* 1: *ret is the record, in the arena. 0: there is none. -ENOMEM past the arena's limit. */
int store_record_get(struct store *s, struct str kind, struct str id, struct arena *a,
                     struct store_record *ret, struct err *e);
/* Visits the records of a kind, oldest first, as store_each does. */
typedef int store_record_fn(void *user, const struct store_record *record);
int store_record_each(struct store *s, struct str kind, store_record_fn *visit, void *user,
                      struct err *e);

/* --- the whole --- */

/* Whether a change can be stored now: rewrites a value that is there already. */
int store_probe(struct store *s, struct err *e);

/* Checkpoints the WAL into the file and flushes it: then a power cut loses nothing. -EBUSY while
 * another program reads the file. */
int store_checkpoint(struct store *s, struct err *e);
/* Deleted data stays in the WAL until a checkpoint. Does one if anything was deleted since the
 * last. Other calls wait for it, for two flushes of the disk. It does not wait for a program that
 * reads the file: -EBUSY, and the next call tries again. */
int store_forget(struct store *s, struct err *e);
