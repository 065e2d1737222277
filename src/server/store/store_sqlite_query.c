/* Statements and transactions of the store in SQLite. */
#include <errno.h>

#include "server/store/store_sqlite_internal.h"

/* --- errors --- */

/* SQLite's primary result codes as errnos. Others are EIO. */
static const struct {
    int rc, code;
} sql_codes[] = {
    {SQLITE_PERM,     EPERM   },
    {SQLITE_BUSY,     EBUSY   },
    {SQLITE_LOCKED,   EBUSY   },
    {SQLITE_NOMEM,    ENOMEM  },
    {SQLITE_READONLY, EROFS   },
    {SQLITE_CORRUPT,  EUCLEAN },
    {SQLITE_FULL,     ENOSPC  },
    {SQLITE_CANTOPEN, EACCES  },
    {SQLITE_TOOBIG,   EMSGSIZE},
    {SQLITE_NOTADB,   EUCLEAN },
};

static int code_of(sqlite3 *db, int rc)
{
    int system = sqlite3_system_errno(db), base = rc & 0xff;

    if (rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY)
        return EEXIST;
    if (base == SQLITE_CONSTRAINT)
        return EINVAL;
    if ((base == SQLITE_IOERR || base == SQLITE_CANTOPEN) && system > 0)
        return system;
    for (size_t i = 0; i < ARRAY_LEN(sql_codes); i++) {
        if (sql_codes[i].rc == base)
            return sql_codes[i].code;
    }
    return EIO;
}

int sql_fail(sqlite3 *db, int rc, struct err *e)
{
    return err_set(e, code_of(db, rc), "%s", sqlite3_errmsg(db));
}

int sql_exec(sqlite3 *db, const char *sql, struct err *e)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : sql_fail(db, rc, e);
}

/* --- statements --- */

struct sql_query sql_query_begin(struct sql_store *s, enum sql_stmt which)
{
    return (struct sql_query){.store = s, .stmt = s->stmts[which], .rc = SQLITE_OK};
}

void sql_bind_int(struct sql_query *q, int64_t value)
{
    int rc = sqlite3_bind_int64(q->stmt, ++q->bound, value);

    if (q->rc == SQLITE_OK)
        q->rc = rc;
}

void sql_bind_text(struct sql_query *q, struct str text)
{
    int rc = sqlite3_bind_text64(q->stmt, ++q->bound, text.n ? text.p : "", text.n, SQLITE_STATIC,
                                 SQLITE_UTF8);

    if (q->rc == SQLITE_OK)
        q->rc = rc;
}

void sql_bind_option(struct sql_query *q, struct str text)
{
    if (text.p)
        sql_bind_text(q, text);
    else
        q->bound++; /* what is not bound is NULL */
}

int sql_query_step(struct sql_query *q, struct err *e)
{
    if (q->rc == SQLITE_OK || q->rc == SQLITE_ROW)
        q->rc = sqlite3_step(q->stmt);
    if (q->rc == SQLITE_ROW)
        return 1;
    return q->rc == SQLITE_DONE ? 0 : sql_fail(q->store->db, q->rc, e);
}

void sql_query_end(struct sql_query *q)
{
    (void)sqlite3_reset(q->stmt); /* returns the error of the step again, which was reported */
    (void)sqlite3_clear_bindings(q->stmt);
}

int sql_query_run(struct sql_query *q, struct err *e)
{
    int r = sql_query_step(q, e);

    if (r >= 0)
        r = sqlite3_changes(q->store->db);
    sql_query_end(q);
    return r;
}

int sql_run(struct sql_store *s, enum sql_stmt which, struct err *e)
{
    struct sql_query q = sql_query_begin(s, which);
    int r = sql_query_run(&q, e);

    return r < 0 ? r : 0;
}

/* Columns are NOT NULL, so a NULL pointer means out of memory. */
int sql_read_text(sqlite3_stmt *stmt, int column, struct str *ret)
{
    const char *p = (const char *)sqlite3_column_text(stmt, column);

    if (!p)
        return -ENOMEM;
    *ret = str_make(p, (size_t)sqlite3_column_bytes(stmt, column));
    return 0;
}

/* --- transactions --- */

int sql_begin(struct sql_store *s, struct err *e)
{
    (void)pthread_mutex_lock(&s->mutex);
    return sql_run(s, SQL_BEGIN, e);
}

int sql_end(struct sql_store *s, int r, const char *what, struct str id, struct err *e)
{
    if (r > 0) {
        int committed = sql_run(s, SQL_COMMIT, e);

        if (committed < 0)
            r = committed;
    }
    /* After some errors SQLite has rolled back by itself. */
    if (!sqlite3_get_autocommit(s->db))
        (void)sql_run(s, SQL_ROLLBACK, NULL);
    (void)pthread_mutex_unlock(&s->mutex);
    return r < 0 ? err_wrap(e, r, "store: %s '%.*s'", what, STR_ARG(id)) : r;
}
