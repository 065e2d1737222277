/* store_internal.h - between the files of the store. */
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
    pthread_mutex_t mutex; /* over all below: one connection, one statement at a time */
    sqlite3 *db;
    sqlite3_stmt *stmts[STORE_STMT_COUNT]; /* idle between calls: reset, nothing bound */
    int lock;                              /* descriptor whose flock keeps other servers out */
    bool to_forget;                        /* the WAL may hold what was deleted */
};

/* Prepares every statement. What was prepared before a failure is store_close's. */
int store_prepare(struct store *s, struct err *e);

/* A result code as -errno, with SQLite's words. */
int store_fail(sqlite3 *db, int rc, struct err *e);
/* Statements without parameters and results. */
int store_exec(sqlite3 *db, const char *sql, struct err *e);

/* Refuses with -ENOTSUP what is newer than `count` versions, with -EINVAL a database of another
 * program. *ret_version is 0 for an empty file. */
int store_identify(sqlite3 *db, uint32_t count, uint32_t *ret_version, struct err *e);
/* Takes the database from `version` to `count`: steps[v] leads from v to v + 1, in a transaction of
 * its own, so that a failure leaves the last version reached. */
int store_migrate(sqlite3 *db, uint32_t version, const char *const *steps, uint32_t count,
                  struct err *e);

enum { STORE_VERSION = 1 }; /* what this program writes */
extern const char *const store_steps[STORE_VERSION];
