/* The tables and their migrations. A released step is never edited: each change is a new step at
 * the end, so that files of any age take the same steps. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "server/store/store_sqlite_internal.h"

/* "OSBX": distinguishes our files from those of other programs. */
#define APPLICATION_ID 0x4f534258

/* Files store states as these numbers. */
static_assert(SANDBOX_PENDING == 0 && SANDBOX_RUNNING == 1 && SANDBOX_PAUSING == 2 &&
                  SANDBOX_PAUSED == 3 && SANDBOX_RESUMING == 4 && SANDBOX_STOPPING == 5 &&
                  SANDBOX_TERMINATED == 6 && SANDBOX_FAILED == 7 && SANDBOX_ALLOCATED == 8 &&
                  SANDBOX_STATE_COUNT == 9,
              "a state that changes its number needs a step; so does a new one, for the CHECKs");

const char *const sql_steps[SQL_VERSION] = {
    /* events.seq counts from 1 per sandbox, without gaps in the rows that are kept. */
    "CREATE TABLE sandboxes ("
    " n INTEGER PRIMARY KEY,"
    " id TEXT NOT NULL UNIQUE CHECK (id <> ''),"
    " state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 7),"
    " reason TEXT NOT NULL,"
    " message TEXT NOT NULL,"
    " created_us INTEGER NOT NULL,"
    " since_us INTEGER NOT NULL,"
    " expires_us INTEGER NOT NULL CHECK (expires_us >= 0),"
    " image TEXT NOT NULL,"
    " snapshot_id TEXT NOT NULL,"
    " os TEXT NOT NULL,"
    " arch TEXT NOT NULL,"
    " entrypoint TEXT NOT NULL,"
    " metadata TEXT NOT NULL,"
    " token TEXT NOT NULL,"
    " spec TEXT NOT NULL,"
    " renew_extend_s INTEGER NOT NULL CHECK (renew_extend_s BETWEEN 0 AND 4294967295)"
    ") STRICT;"
    "CREATE TABLE events ("
    " sandbox INTEGER NOT NULL REFERENCES sandboxes (n) ON DELETE CASCADE,"
    " seq INTEGER NOT NULL,"
    " at_us INTEGER NOT NULL,"
    " state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 7),"
    " reason TEXT NOT NULL,"
    " message TEXT NOT NULL,"
    " PRIMARY KEY (sandbox, seq)"
    ") STRICT, WITHOUT ROWID;",
    /* Of sandboxes that are there already nobody knows who created them. */
    "ALTER TABLE sandboxes ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';"
    "ALTER TABLE sandboxes ADD COLUMN owner TEXT NOT NULL DEFAULT '';",
    "CREATE TABLE records ("
    " n INTEGER PRIMARY KEY,"
    " kind TEXT NOT NULL CHECK (kind <> ''),"
    " id TEXT NOT NULL CHECK (id <> ''),"
    " state TEXT NOT NULL,"
    " tenant TEXT NOT NULL,"
    " owner TEXT NOT NULL,"
    " created_us INTEGER NOT NULL,"
    " json TEXT NOT NULL,"
    " UNIQUE (kind, id)"
    ") STRICT;",
    /* SANDBOX_ALLOCATED, which the CHECKs of the first step do not know. A CHECK is changed by
     * another table; renaming it changes what refers to it. Rows of events go first, because the
     * end of their sandboxes would delete them. */
    "CREATE TABLE sandboxes_4 ("
    " n INTEGER PRIMARY KEY,"
    " id TEXT NOT NULL UNIQUE CHECK (id <> ''),"
    " state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 8),"
    " reason TEXT NOT NULL,"
    " message TEXT NOT NULL,"
    " created_us INTEGER NOT NULL,"
    " since_us INTEGER NOT NULL,"
    " expires_us INTEGER NOT NULL CHECK (expires_us >= 0),"
    " image TEXT NOT NULL,"
    " snapshot_id TEXT NOT NULL,"
    " os TEXT NOT NULL,"
    " arch TEXT NOT NULL,"
    " entrypoint TEXT NOT NULL,"
    " metadata TEXT NOT NULL,"
    " token TEXT NOT NULL,"
    " spec TEXT NOT NULL,"
    " renew_extend_s INTEGER NOT NULL CHECK (renew_extend_s BETWEEN 0 AND 4294967295),"
    " tenant TEXT NOT NULL DEFAULT 'default',"
    " owner TEXT NOT NULL DEFAULT ''"
    ") STRICT;"
    "INSERT INTO sandboxes_4 SELECT * FROM sandboxes;"
    "CREATE TABLE events_4 ("
    " sandbox INTEGER NOT NULL REFERENCES sandboxes_4 (n) ON DELETE CASCADE,"
    " seq INTEGER NOT NULL,"
    " at_us INTEGER NOT NULL,"
    " state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 8),"
    " reason TEXT NOT NULL,"
    " message TEXT NOT NULL,"
    " PRIMARY KEY (sandbox, seq)"
    ") STRICT, WITHOUT ROWID;"
    "INSERT INTO events_4 SELECT * FROM events;"
    "DROP TABLE events;"
    "DROP TABLE sandboxes;"
    "ALTER TABLE sandboxes_4 RENAME TO sandboxes;"
    "ALTER TABLE events_4 RENAME TO events;",
};

static int query_int(sqlite3 *db, const char *sql, int64_t *ret, struct err *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), r = 0;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    else
        r = sql_fail(db, rc, e);
    (void)sqlite3_finalize(stmt);
    return r;
}

int sql_identify(sqlite3 *db, uint32_t count, uint32_t *ret_version, struct err *e)
{
    int64_t application = 0, version = 0, tables = 0;
    int r = query_int(db, "PRAGMA application_id", &application, e);

    if (r >= 0)
        r = query_int(db, "PRAGMA user_version", &version, e);
    if (r >= 0)
        r = query_int(db, "SELECT count(*) FROM sqlite_schema", &tables, e);
    if (r < 0)
        return r;
    if (application == 0 && version == 0 && tables == 0) {
        *ret_version = 0;
        return 0;
    }
    if (application != APPLICATION_ID || version < 1)
        return err_set(e, EINVAL, "a database of another program");
    if (version > count)
        return err_set(e, ENOTSUP,
                       "written by a newer server: version %lld, and this one knows up to %u",
                       (long long)version, count);
    *ret_version = (uint32_t)version;
    return 0;
}

static int migrate_step(sqlite3 *db, const char *step, uint32_t version, struct err *e)
{
    char mark[96];
    int r;

    (void)snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %u;",
                   APPLICATION_ID, version);
    r = sql_exec(db, "BEGIN IMMEDIATE", e);
    if (r < 0)
        return r;
    r = sql_exec(db, step, e);
    if (r >= 0)
        r = sql_exec(db, mark, e);
    if (r >= 0)
        r = sql_exec(db, "COMMIT", e);
    if (!sqlite3_get_autocommit(db))
        (void)sql_exec(db, "ROLLBACK", NULL);
    return r;
}

int sql_migrate(sqlite3 *db, uint32_t version, const char *const *steps, uint32_t count,
                struct err *e)
{
    for (; version < count; version++) {
        int r = migrate_step(db, steps[version], version + 1, e);

        if (r < 0)
            return err_wrap(e, r, "to version %u", version + 1);
    }
    return 0;
}
