/* store_internal.h - shared by the files of the store. */
#pragma once

#include <pthread.h>
#include <sqlite3.h>

#include "server/store/store.h"

enum store_stmt {
    STORE_BEGIN,
    STORE_COMMIT,
    STORE_ROLLBACK,
    STORE_INSERT,
    STORE_SET_STATUS,
    STORE_RENEW,
    STORE_EXPIRE,
    STORE_SET_METADATA,
    STORE_DELETE,
    STORE_ADD_EVENT,
    STORE_PRUNE_EVENTS,
    STORE_EACH,
    STORE_HISTORY,
    STORE_PROBE,
    STORE_STMT_COUNT,
};

struct store {
    pthread_mutex_t mutex; /* protects all fields below: one connection, one statement at a time */
    sqlite3 *db;
    sqlite3_stmt *stmts[STORE_STMT_COUNT]; /* idle between calls: reset, nothing bound */
    int lock;                              /* holds the flock that keeps other servers out */
    bool to_forget;                        /* the WAL may hold deleted data */
};

/* Prepares every statement. After a failure store_close finalizes those prepared before. */
int store_prepare(struct store *s, struct err *e);

/* Turns an SQLite result code into -errno, with SQLite's message. */
int store_fail(sqlite3 *db, int rc, struct err *e);
/* Runs statements without parameters and results. */
int store_exec(sqlite3 *db, const char *sql, struct err *e);

/* -ENOTSUP when the database is newer than version `count`, -EINVAL when it is of another program.
 * *ret_version is 0 for an empty file. */
int store_identify(sqlite3 *db, uint32_t count, uint32_t *ret_version, struct err *e);
/* Migrates the database from `version` to `count`: steps[v] leads from v to v + 1, each in its own
 * transaction, so that a failure keeps the last version reached. */
int store_migrate(sqlite3 *db, uint32_t version, const char *const *steps, uint32_t count,
                  struct err *e);

enum { STORE_VERSION = 1 }; /* the version this program writes */
extern const char *const store_steps[STORE_VERSION];
