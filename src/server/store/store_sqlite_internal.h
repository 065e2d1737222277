/* store_sqlite_internal.h - shared by the files of the store in SQLite: one file in WAL mode, one
 * connection, prepared statements, a mutex. */
#pragma once

#include <pthread.h>
#include <sqlite3.h>

#include "server/store/store_ops.h"

enum sql_stmt {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_INSERT,
    SQL_SET_STATUS,
    SQL_RENEW,
    SQL_EXPIRE,
    SQL_SET_METADATA,
    SQL_CLAIM,
    SQL_DELETE,
    SQL_ADD_EVENT,
    SQL_PRUNE_EVENTS,
    SQL_EACH,
    SQL_HISTORY,
    SQL_RECORD_INSERT,
    SQL_RECORD_UPDATE,
    SQL_RECORD_DELETE,
    SQL_RECORD_GET,
    SQL_RECORD_EACH,
    SQL_PROBE,
    SQL_STMT_COUNT,
};

struct sql_store {
    struct store base;
    pthread_mutex_t mutex; /* protects all fields below: one connection, one statement at a time */
    sqlite3 *db;
    sqlite3_stmt *stmts[SQL_STMT_COUNT]; /* idle between calls: reset, nothing bound */
    int lock;                            /* holds the flock that keeps other servers out */
    bool to_forget;                      /* the WAL may hold deleted data */
};

static inline struct sql_store *sql_of(struct store *s)
{
    return container_of(s, struct sql_store, base);
}

/* --- store_sqlite.c: sandboxes --- */

extern const struct store_ops sql_ops;
/* Prepares every statement. After a failure sql_close finalizes those prepared before. */
int sql_prepare(struct sql_store *s, struct err *e);

/* --- store_sqlite_records.c: as in store_ops.h --- */

int sql_record_insert(struct store *s, const struct store_record *record, struct err *e);
int sql_record_update(struct store *s, struct str kind, struct str id, struct str expected,
                      struct str state, struct str json, struct err *e);
int sql_record_delete(struct store *s, struct str kind, struct str id, struct str expected,
                      struct err *e);
int sql_record_get(struct store *s, struct str kind, struct str id, struct arena *a,
                   struct store_record *ret, struct err *e);
int sql_record_each(struct store *s, struct str kind, store_record_fn *visit, void *user,
                    struct err *e);

/* --- store_sqlite_query.c: one transaction of prepared statements --- */

/* A statement in use. Binds parameters in order, and keeps the first error. */
struct sql_query {
    struct sql_store *store;
    sqlite3_stmt *stmt;
    int bound, rc;
};

struct sql_query sql_query_begin(struct sql_store *s, enum sql_stmt which);
void sql_bind_int(struct sql_query *q, int64_t value);
void sql_bind_text(struct sql_query *q, struct str text);   /* valid until sql_query_end */
void sql_bind_option(struct sql_query *q, struct str text); /* the same; STR_NONE is NULL */
int sql_query_step(struct sql_query *q, struct err *e); /* 1 when there is a row, 0 at the end */
void sql_query_end(struct sql_query *q);
/* Runs a statement without results, and ends it; returns how many rows it changed. */
int sql_query_run(struct sql_query *q, struct err *e);
/* The same for one without parameters. Returns 0. */
int sql_run(struct sql_store *s, enum sql_stmt which, struct err *e);
/* A text of the current row, borrowed until the next step. */
int sql_read_text(sqlite3_stmt *stmt, int column, struct str *ret);

/* Takes the mutex, even on failure: sql_end must always follow. */
int sql_begin(struct sql_store *s, struct err *e);
/* Commits when r is positive, and rolls back otherwise. Returns r, or the error of the commit,
 * after "store: <what> '<id>'". */
int sql_end(struct sql_store *s, int r, const char *what, struct str id, struct err *e);

/* Turns an SQLite result code into -errno, with SQLite's message. */
int sql_fail(sqlite3 *db, int rc, struct err *e);
/* Runs statements without parameters and results. */
int sql_exec(sqlite3 *db, const char *sql, struct err *e);

/* --- store_sqlite_open.c --- */

void sql_close(struct store *s);
int sql_checkpoint(struct store *s, struct err *e);
int sql_forget(struct store *s, struct err *e);

/* --- store_sqlite_schema.c: the tables and their migrations --- */

/* -ENOTSUP when the database is newer than version `count`, -EINVAL when it is of another program.
 * *ret_version is 0 for an empty file. */
int sql_identify(sqlite3 *db, uint32_t count, uint32_t *ret_version, struct err *e);
/* Migrates the database from `version` to `count`: steps[v] leads from v to v + 1, each in its own
 * transaction, so that a failure keeps the last version reached. */
int sql_migrate(sqlite3 *db, uint32_t version, const char *const *steps, uint32_t count,
                struct err *e);

#define SQL_VERSION 4 /* the version this program writes */
extern const char *const sql_steps[SQL_VERSION];
