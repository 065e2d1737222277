/* store_pg_internal.h - shared by the files of the store in PostgreSQL: one connection, one
 * statement at a time, each of which is a transaction of its own.
 *
 * The connection holds an advisory lock for as long as it lives. A server that lost its connection
 * lost its lock with it, and can write nothing before it has both again: two servers never change
 * the same tables in turns, or the same holder's rows where they share the tables. */
#pragma once

#include <pthread.h>

#include "server/store/store_ops.h"
#include "server/store/store_pg_library.h"

enum pg_stmt {
    PG_INSERT,
    PG_SET_STATUS,
    PG_RENEW,
    PG_EXPIRE,
    PG_EXPIRY,
    PG_SET_METADATA,
    PG_CLAIM,
    PG_DELETE,
    PG_EACH,
    PG_HISTORY,
    PG_RECORD_INSERT,
    PG_RECORD_UPDATE,
    PG_RECORD_DELETE,
    PG_RECORD_GET,
    PG_RECORD_EACH,
    PG_PROBE,
    PG_BASE_COUNT,

    /* of PG_SHARED: store_pg_share.c */
    PG_INSERT_SHARED = PG_BASE_COUNT,
    PG_CLAIM_SHARED,
    PG_SHARED_COUNT,

    /* of PG_CLUSTER: store_cluster.c */
    PG_REGISTER = PG_SHARED_COUNT,
    PG_BEAT,
    PG_SERVERS,
    PG_FIND,
    PG_FIND_RECORD,
    PG_FIND_MARK,
    PG_OTHERS,
    PG_GIVE_UP,
    PG_FINGERPRINT,
    PG_PRUNE,
    PG_STMT_COUNT,
};

/* What a connection is for, which decides its locks and its statements. */
enum pg_use {
    PG_ALONE,   /* the store of the only server */
    PG_SHARED,  /* the store of one of several */
    PG_CLUSTER, /* what servers say to each other, without a lock: store_cluster.h */
};

struct pg_store {
    struct store base;
    struct pg_library pg;
    char *dsn;
    pthread_mutex_t mutex; /* protects the connection */
    PGconn *conn;          /* NULL while there is none */
    enum pg_use use;
    char *holder;        /* "" = none */
    bool in_transaction; /* a new connection would not be in it */
};

static inline struct pg_store *pg_of(struct store *s)
{
    return container_of(s, struct pg_store, base);
}

/* --- store_pg_query.c: a statement at a time --- */

enum { PG_PARAMS_MAX = 30 };

/* Begun by pg_begin(), which takes the mutex; pg_end() must always follow. */
struct pg_query {
    struct pg_store *store;
    enum pg_stmt which;
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX], formats[PG_PARAMS_MAX];
    uint64_t numbers[PG_PARAMS_MAX]; /* big endian */
    bool is_number[PG_PARAMS_MAX];
    int count;
    uint64_t deadline;
    bool sent;
    PGresult *row; /* the current one, of pg_step() */
};

struct pg_query pg_begin(struct pg_store *s, enum pg_stmt which);
void pg_bind_int(struct pg_query *q, int64_t value);
void pg_bind_text(struct pg_query *q, struct str text);   /* valid until pg_end */
void pg_bind_option(struct pg_query *q, struct str text); /* the same; STR_NONE is NULL */
static inline void pg_bind_holder(struct pg_query *q)
{
    pg_bind_text(q, str_of(q->store->holder));
}
/* 1 when there is a row, 0 at the end. */
int pg_step(struct pg_query *q, struct err *e);
/* Of the current row, borrowed until the next step. */
int64_t pg_read_int(const struct pg_query *q, int column);
struct str pg_read_text(const struct pg_query *q, int column);
/* Runs a statement without results; returns how many rows it changed. */
int pg_run(struct pg_query *q, struct err *e);
/* The statement is over: another one may be run on the connection. pg_end() must still follow. */
void pg_finish(struct pg_query *q);
/* Returns r, and a negative one after "store: <what> '<id>'". */
int pg_end(struct pg_query *q, int r, const char *what, struct str id, struct err *e);

/* Runs statements without parameters on the connection. The first value of the last result, at
 * most `size` - 1 bytes, is copied to `ret` if it is not NULL. */
int pg_exec(struct pg_store *s, const char *sql, char *ret, size_t size, struct err *e);
/* Prepares a statement of pg_texts, pg_shared_texts or pg_cluster_texts. */
int pg_prepare(struct pg_store *s, enum pg_stmt which, struct err *e);
void pg_disconnect(struct pg_store *s);

/* --- store_pg.c --- */

extern const char *const pg_texts[PG_BASE_COUNT];
extern const struct store_ops pg_ops;
void pg_bind_row(struct pg_query *q, const struct store_sandbox *row); /* $1 to $18 */
/* $1 to $13 */
void pg_bind_claim(struct pg_query *q, struct str expected, const struct store_sandbox *row);
int pg_read_row(const struct pg_query *q, struct store_sandbox *ret); /* of columns 0 to 17 */

/* --- store_pg_share.c: as insert and claim of store_ops.h --- */

extern const char *const pg_shared_texts[PG_SHARED_COUNT - PG_BASE_COUNT];
int pg_insert_shared(struct pg_store *s, const struct store_sandbox *row, struct err *e);
int pg_claim_shared(struct pg_store *s, struct str expected, const struct store_sandbox *row,
                    struct err *e);

/* --- store_cluster.c --- */

extern const char *const pg_cluster_texts[PG_STMT_COUNT - PG_SHARED_COUNT];

/* --- store_pg_open.c --- */

/* Connects, migrates, takes the lock and prepares the statements, unless that is done already. */
int pg_connect(struct pg_store *s, struct err *e);
void pg_close(struct store *s);
/* Makes a store that is connected. */
int pg_new(const struct store_postgres *conf, enum pg_use use, struct pg_store **ret,
           struct err *e);

/* --- store_pg_records.c: as in store_ops.h --- */

int pg_record_insert(struct store *s, const struct store_record *record, struct err *e);
int pg_record_update(struct store *s, struct str kind, struct str id, struct str expected,
                     struct str state, struct str json, struct err *e);
int pg_record_delete(struct store *s, struct str kind, struct str id, struct str expected,
                     struct err *e);
int pg_record_get(struct store *s, struct str kind, struct str id, struct arena *a,
                  struct store_record *ret, struct err *e);
int pg_record_each(struct store *s, struct str kind, store_record_fn *visit, void *user,
                   struct err *e);
