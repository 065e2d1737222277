/* The calls of the store in SQLite: each locks, runs one transaction of prepared statements, and
 * unlocks. */
#include <assert.h>
#include <errno.h>

#include "base/mem.h"
#include "server/store/store_columns.h"
#include "server/store/store_sqlite_internal.h"

#define NUMBER(n)      NUMBER_TEXT(n)
#define NUMBER_TEXT(n) #n

/* Conditions on the row are part of the UPDATE: that makes it a compare-and-set. */
static const char *const sql_texts[SQL_STMT_COUNT] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_INSERT] = "INSERT INTO sandboxes (" STORE_COLUMNS ")"
                   " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    /* ?1 id, ?2 to ?5 the new status, then the conditions */
    [SQL_SET_STATUS] = "UPDATE sandboxes SET state = ?2, reason = ?3, message = ?4, since_us = ?5"
                       " WHERE id = ?1 AND (1 << state) & ?6",
    [SQL_EXPIRE] = "UPDATE sandboxes SET state = ?2, reason = ?3, message = ?4, since_us = ?5"
                   " WHERE id = ?1 AND state <> ?2"
                   " AND expires_us = ?6 AND expires_us > 0 AND expires_us <= ?5",
    [SQL_RENEW] = "UPDATE sandboxes SET expires_us = ?2"
                  " WHERE id = ?1 AND (1 << state) & ?3"
                  " AND expires_us > 0 AND (?4 = 0 OR expires_us = ?4)",
    [SQL_SET_METADATA] = "UPDATE sandboxes SET metadata = ?2 WHERE id = ?1",
    /* ?1 id, ?2 the owner it has, ?3 the state it is in */
    [SQL_CLAIM] = "UPDATE sandboxes SET tenant = ?4, owner = ?5, token = ?6, created_us = ?7,"
                  " expires_us = ?8, entrypoint = ?9, metadata = ?10, spec = ?11,"
                  " renew_extend_s = ?12 WHERE id = ?1 AND owner = ?2 AND state = ?3",
    [SQL_DELETE] = "DELETE FROM sandboxes WHERE id = ?1",
    [SQL_ADD_EVENT] = "INSERT INTO events (sandbox, seq, state, reason, message, at_us)"
                      " SELECT n, 1 + coalesce((SELECT max(seq) FROM events WHERE sandbox = n), 0),"
                      " ?2, ?3, ?4, ?5 FROM sandboxes WHERE id = ?1",
    [SQL_PRUNE_EVENTS] = "WITH s AS (SELECT n FROM sandboxes WHERE id = ?1)"
                         " DELETE FROM events WHERE sandbox = (SELECT n FROM s) AND seq <="
                         " (SELECT max(seq) FROM events WHERE sandbox = (SELECT n FROM s)) - ?2",
    [SQL_EACH] = "SELECT " STORE_COLUMNS " FROM sandboxes ORDER BY created_us, n",
    [SQL_HISTORY] = "SELECT at_us, state, reason, message, seq FROM"
                    " (SELECT * FROM events"
                    "  WHERE sandbox = (SELECT n FROM sandboxes WHERE id = ?1)"
                    "  ORDER BY seq DESC LIMIT ?2) ORDER BY seq",
    [SQL_RECORD_INSERT] = "INSERT INTO records (kind, id, state, tenant, owner, created_us, json)"
                          " VALUES (?, ?, ?, ?, ?, ?, ?)",
    /* ?3: the expected state, NULL = any */
    [SQL_RECORD_UPDATE] = "UPDATE records SET state = ?4, json = coalesce(?5, json)"
                          " WHERE kind = ?1 AND id = ?2 AND (?3 IS NULL OR state = ?3)",
    [SQL_RECORD_DELETE] = "DELETE FROM records"
                          " WHERE kind = ?1 AND id = ?2 AND (?3 IS NULL OR state = ?3)",
    [SQL_RECORD_GET] = "SELECT kind, id, state, tenant, owner, json, created_us FROM records"
                       " WHERE kind = ?1 AND id = ?2",
    [SQL_RECORD_EACH] = "SELECT kind, id, state, tenant, owner, json, created_us FROM records"
                        " WHERE kind = ?1 ORDER BY created_us, n",
    [SQL_PROBE] = "PRAGMA user_version = " NUMBER(SQL_VERSION), /* the current value */
};

int sql_prepare(struct sql_store *s, struct err *e)
{
    for (size_t i = 0; i < SQL_STMT_COUNT; i++) {
        int rc = sqlite3_prepare_v3(s->db, sql_texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &s->stmts[i], NULL);

        if (rc != SQLITE_OK)
            return sql_fail(s->db, rc, e);
    }
    assert(sqlite3_bind_parameter_count(s->stmts[SQL_INSERT]) == STORE_COLUMN_COUNT);
    assert(sqlite3_column_count(s->stmts[SQL_EACH]) == STORE_COLUMN_COUNT);
    return 0;
}

/* --- changes --- */

static void bind_status(struct sql_query *q, const struct store_status *status)
{
    sql_bind_int(q, status->state);
    sql_bind_text(q, status->reason);
    sql_bind_text(q, status->message);
    sql_bind_int(q, status->now_us);
}

/* Adds an event to an existing sandbox, and deletes its oldest one beyond the maximum. */
static int add_event(struct sql_store *s, struct str id, const struct store_status *status,
                     struct err *e)
{
    struct sql_query q = sql_query_begin(s, SQL_ADD_EVENT);
    int r;

    sql_bind_text(&q, id);
    bind_status(&q, status);
    r = sql_query_run(&q, e);
    if (r < 0)
        return r;
    q = sql_query_begin(s, SQL_PRUNE_EVENTS);
    sql_bind_text(&q, id);
    sql_bind_int(&q, STORE_EVENTS_MAX);
    r = sql_query_run(&q, e);
    return r < 0 ? r : 1;
}

static int insert_row(struct sql_store *s, const struct store_sandbox *row, struct err *e)
{
    struct sql_query q = sql_query_begin(s, SQL_INSERT);

    for (size_t i = 0; i < STORE_COLUMN_COUNT; i++) {
        const struct store_column *column = &store_columns[i];

        if (column->kind == COLUMN_TEXT)
            sql_bind_text(&q, store_column_text(column, row));
        else
            sql_bind_int(&q, store_column_int(column, row));
    }
    return sql_query_run(&q, e);
}

static int sql_insert(struct store *base, const struct store_sandbox *row, struct err *e)
{
    struct store_status first = {row->state, row->reason, row->message, row->since_us};
    struct sql_store *s = sql_of(base);
    int r = sql_begin(s, e);

    if (r >= 0)
        r = insert_row(s, row, e);
    if (r > 0)
        r = add_event(s, row->id, &first, e);
    return sql_end(s, r, "insert of sandbox", row->id, e);
}

/* Runs either change of status: same parameters, with `condition` as the last one. */
static int change_status(struct sql_store *s, enum sql_stmt which, struct str id, int64_t condition,
                         const struct store_status *status, struct err *e)
{
    struct sql_query q;
    int r = sql_begin(s, e);

    if (r >= 0) {
        q = sql_query_begin(s, which);
        sql_bind_text(&q, id);
        bind_status(&q, status);
        sql_bind_int(&q, condition);
        r = sql_query_run(&q, e);
    }
    if (r > 0)
        r = add_event(s, id, status, e);
    return sql_end(s, r, which == SQL_EXPIRE ? "expiry of sandbox" : "new status of sandbox", id,
                   e);
}

static int sql_set_status(struct store *base, struct str id, unsigned from,
                          const struct store_status *status, struct err *e)
{
    return change_status(sql_of(base), SQL_SET_STATUS, id, from, status, e);
}

static int sql_expire(struct store *base, struct str id, int64_t expires_us,
                      const struct store_status *status, struct err *e)
{
    return change_status(sql_of(base), SQL_EXPIRE, id, expires_us, status, e);
}

static int sql_renew(struct store *base, struct str id, unsigned from, int64_t expected_us,
                     int64_t expires_us, struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct sql_query q;
    int r = sql_begin(s, e);

    if (r >= 0) {
        q = sql_query_begin(s, SQL_RENEW);
        sql_bind_text(&q, id);
        sql_bind_int(&q, expires_us);
        sql_bind_int(&q, from);
        sql_bind_int(&q, expected_us);
        r = sql_query_run(&q, e);
    }
    return sql_end(s, r, "renewal of sandbox", id, e);
}

static int sql_set_metadata(struct store *base, struct str id, struct str metadata, struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct sql_query q;
    int r = sql_begin(s, e);

    if (r >= 0) {
        q = sql_query_begin(s, SQL_SET_METADATA);
        sql_bind_text(&q, id);
        sql_bind_text(&q, metadata);
        r = sql_query_run(&q, e);
    }
    return sql_end(s, r, "metadata of sandbox", id, e);
}

static int sql_claim(struct store *base, struct str expected, const struct store_sandbox *row,
                     struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct sql_query q;
    int r = sql_begin(s, e);

    if (r >= 0) {
        q = sql_query_begin(s, SQL_CLAIM);
        sql_bind_text(&q, row->id);
        sql_bind_text(&q, expected);
        sql_bind_int(&q, SANDBOX_RUNNING);
        sql_bind_text(&q, row->tenant);
        sql_bind_text(&q, row->owner);
        sql_bind_text(&q, row->token);
        sql_bind_int(&q, row->created_us);
        sql_bind_int(&q, row->expires_us);
        sql_bind_text(&q, row->entrypoint);
        sql_bind_text(&q, row->metadata);
        sql_bind_text(&q, row->spec);
        sql_bind_int(&q, row->renew_extend_s);
        r = sql_query_run(&q, e);
    }
    return sql_end(s, r, "claim of sandbox", row->id, e);
}

static int sql_delete(struct store *base, struct str id, struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct sql_query q;
    int r = sql_begin(s, e);

    if (r >= 0) {
        q = sql_query_begin(s, SQL_DELETE);
        sql_bind_text(&q, id);
        r = sql_query_run(&q, e);
        s->to_forget |= r > 0;
    }
    return sql_end(s, r, "delete of sandbox", id, e);
}

/* --- reading --- */

static int read_row(sqlite3_stmt *stmt, struct store_sandbox *ret)
{
    struct str text;
    int r = 0;

    for (int i = 0; i < STORE_COLUMN_COUNT && r >= 0; i++) {
        const struct store_column *column = &store_columns[i];

        if (column->kind != COLUMN_TEXT) {
            r = store_column_set_int(column, ret, sqlite3_column_int64(stmt, i));
            continue;
        }
        r = sql_read_text(stmt, i, &text);
        if (r >= 0)
            store_column_set_text(column, ret, text);
    }
    return r;
}

static int each_row(struct sql_query *q, store_visit_fn *visit, void *user, struct err *e)
{
    for (;;) {
        struct store_sandbox row = {0};
        int r = sql_query_step(q, e);

        if (r <= 0)
            return r;
        r = read_row(q->stmt, &row);
        if (r < 0)
            return err_sys(e, -r, "a row");
        r = visit(user, &row);
        if (r != 0)
            return r;
    }
}

static int sql_each(struct store *base, store_visit_fn *visit, void *user, struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct sql_query q;
    int r;

    (void)pthread_mutex_lock(&s->mutex);
    q = sql_query_begin(s, SQL_EACH);
    r = each_row(&q, visit, user, e);
    sql_query_end(&q);
    (void)pthread_mutex_unlock(&s->mutex);
    return r < 0 ? err_wrap(e, r, "store: list sandboxes") : r;
}

static int read_event(sqlite3_stmt *stmt, struct store_event *ret)
{
    int r = store_state_of(sqlite3_column_int64(stmt, 1), &ret->state);

    ret->at_us = sqlite3_column_int64(stmt, 0);
    ret->number = (uint64_t)sqlite3_column_int64(stmt, 4);
    if (r >= 0)
        r = sql_read_text(stmt, 2, &ret->reason);
    return r < 0 ? r : sql_read_text(stmt, 3, &ret->message);
}

static int sql_history(struct store *base, struct str id, uint32_t limit, store_event_fn *visit,
                       void *user, struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct store_event event = {0};
    int count = 0, r;
    struct sql_query q;

    (void)pthread_mutex_lock(&s->mutex);
    q = sql_query_begin(s, SQL_HISTORY);
    sql_bind_text(&q, id);
    sql_bind_int(&q, limit);
    while ((r = sql_query_step(&q, e)) > 0) {
        r = read_event(q.stmt, &event);
        if (r < 0) {
            r = err_sys(e, -r, "an event");
            break;
        }
        visit(user, &event);
        count++;
    }
    sql_query_end(&q);
    (void)pthread_mutex_unlock(&s->mutex);
    return r < 0 ? err_wrap(e, r, "store: history of sandbox '%.*s'", STR_ARG(id)) : count;
}

static int sql_probe(struct store *base, struct err *e)
{
    struct sql_store *s = sql_of(base);
    int r;

    (void)pthread_mutex_lock(&s->mutex);
    r = sql_run(s, SQL_PROBE, e);
    (void)pthread_mutex_unlock(&s->mutex);
    return r < 0 ? err_wrap(e, r, "store") : 0;
}

const struct store_ops sql_ops = {
    .close = sql_close,
    .insert = sql_insert,
    .set_status = sql_set_status,
    .renew = sql_renew,
    .expire = sql_expire,
    .set_metadata = sql_set_metadata,
    .claim = sql_claim,
    .remove = sql_delete,
    .each = sql_each,
    .history = sql_history,
    .record_insert = sql_record_insert,
    .record_update = sql_record_update,
    .record_delete = sql_record_delete,
    .record_get = sql_record_get,
    .record_each = sql_record_each,
    .probe = sql_probe,
    .checkpoint = sql_checkpoint,
    .forget = sql_forget,
};
