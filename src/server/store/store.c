/* The store's calls: each locks, runs one transaction of prepared statements, and unlocks. */
#include "server/store/store.h"

#include <assert.h>
#include <errno.h>

#include "base/mem.h"
#include "server/store/store_internal.h"

#define COLUMNS                                                                                    \
    "id, state, reason, message, created_us, since_us, expires_us, image, snapshot_id, os, arch, " \
    "entrypoint, metadata, token, spec, renew_extend_s"

/* The columns of a sandbox row and their fields in memory, in the order of COLUMNS. */
enum column_kind { COLUMN_TEXT, COLUMN_TIME, COLUMN_STATE, COLUMN_U32 };

#define AT(field) offsetof(struct store_sandbox, field)
static const struct column {
    const char *name;
    enum column_kind kind;
    size_t offset;
    size_t bytes_max; /* of a text */
} columns[] = {
    {"id",             COLUMN_TEXT,  AT(id),             STORE_ID_MAX     },
    {"state",          COLUMN_STATE, AT(state),          0                },
    {"reason",         COLUMN_TEXT,  AT(reason),         STORE_REASON_MAX },
    {"message",        COLUMN_TEXT,  AT(message),        STORE_MESSAGE_MAX},
    {"created_us",     COLUMN_TIME,  AT(created_us),     0                },
    {"since_us",       COLUMN_TIME,  AT(since_us),       0                },
    {"expires_us",     COLUMN_TIME,  AT(expires_us),     0                },
    {"image",          COLUMN_TEXT,  AT(image),          STORE_NAME_MAX   },
    {"snapshot_id",    COLUMN_TEXT,  AT(snapshot_id),    STORE_NAME_MAX   },
    {"os",             COLUMN_TEXT,  AT(os),             STORE_NAME_MAX   },
    {"arch",           COLUMN_TEXT,  AT(arch),           STORE_NAME_MAX   },
    {"entrypoint",     COLUMN_TEXT,  AT(entrypoint),     STORE_JSON_MAX   },
    {"metadata",       COLUMN_TEXT,  AT(metadata),       STORE_JSON_MAX   },
    {"token",          COLUMN_TEXT,  AT(token),          STORE_NAME_MAX   },
    {"spec",           COLUMN_TEXT,  AT(spec),           STORE_JSON_MAX   },
    {"renew_extend_s", COLUMN_U32,   AT(renew_extend_s), 0                },
};

/* Conditions on the row are part of the UPDATE: that makes it a compare-and-set. */
static const char *const store_sql[STORE_STMT_COUNT] = {
    [STORE_BEGIN] = "BEGIN IMMEDIATE",
    [STORE_COMMIT] = "COMMIT",
    [STORE_ROLLBACK] = "ROLLBACK",
    [STORE_INSERT] = "INSERT INTO sandboxes (" COLUMNS ")"
                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    /* ?1 id, ?2 to ?5 the new status, then the conditions */
    [STORE_SET_STATUS] = "UPDATE sandboxes SET state = ?2, reason = ?3, message = ?4, since_us = ?5"
                         " WHERE id = ?1 AND (1 << state) & ?6",
    [STORE_EXPIRE] = "UPDATE sandboxes SET state = ?2, reason = ?3, message = ?4, since_us = ?5"
                     " WHERE id = ?1 AND state <> ?2"
                     " AND expires_us = ?6 AND expires_us > 0 AND expires_us <= ?5",
    [STORE_RENEW] = "UPDATE sandboxes SET expires_us = ?2"
                    " WHERE id = ?1 AND (1 << state) & ?3"
                    " AND expires_us > 0 AND (?4 = 0 OR expires_us = ?4)",
    [STORE_SET_METADATA] = "UPDATE sandboxes SET metadata = ?2 WHERE id = ?1",
    [STORE_DELETE] = "DELETE FROM sandboxes WHERE id = ?1",
    [STORE_ADD_EVENT] =
        "INSERT INTO events (sandbox, seq, state, reason, message, at_us)"
        " SELECT n, 1 + coalesce((SELECT max(seq) FROM events WHERE sandbox = n), 0),"
        " ?2, ?3, ?4, ?5 FROM sandboxes WHERE id = ?1",
    [STORE_PRUNE_EVENTS] = "WITH s AS (SELECT n FROM sandboxes WHERE id = ?1)"
                           " DELETE FROM events WHERE sandbox = (SELECT n FROM s) AND seq <="
                           " (SELECT max(seq) FROM events WHERE sandbox = (SELECT n FROM s)) - ?2",
    [STORE_EACH] = "SELECT " COLUMNS " FROM sandboxes ORDER BY created_us, n",
    [STORE_HISTORY] = "SELECT at_us, state, reason, message, seq FROM"
                      " (SELECT * FROM events"
                      "  WHERE sandbox = (SELECT n FROM sandboxes WHERE id = ?1)"
                      "  ORDER BY seq DESC LIMIT ?2) ORDER BY seq",
    [STORE_PROBE] = "PRAGMA user_version = 1", /* the current value */
};

static_assert(STORE_VERSION == 1, "STORE_PROBE changes nothing");

int store_prepare(struct store *s, struct err *e)
{
    for (size_t i = 0; i < STORE_STMT_COUNT; i++) {
        int rc = sqlite3_prepare_v3(s->db, store_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &s->stmts[i], NULL);

        if (rc != SQLITE_OK)
            return store_fail(s->db, rc, e);
    }
    assert(sqlite3_bind_parameter_count(s->stmts[STORE_INSERT]) == ARRAY_LEN(columns));
    assert(sqlite3_column_count(s->stmts[STORE_EACH]) == ARRAY_LEN(columns));
    return 0;
}

/* --- statements --- */

/* Binds parameters in order, and keeps the first error. */
struct query {
    struct store *store;
    sqlite3_stmt *stmt;
    int bound, rc;
};

static struct query query_begin(struct store *s, enum store_stmt which)
{
    return (struct query){.store = s, .stmt = s->stmts[which], .rc = SQLITE_OK};
}

static void bind_int(struct query *q, int64_t value)
{
    int rc = sqlite3_bind_int64(q->stmt, ++q->bound, value);

    if (q->rc == SQLITE_OK)
        q->rc = rc;
}

/* The text must stay valid until query_end. */
static void bind_text(struct query *q, struct str text)
{
    int rc = sqlite3_bind_text64(q->stmt, ++q->bound, text.n ? text.p : "", text.n, SQLITE_STATIC,
                                 SQLITE_UTF8);

    if (q->rc == SQLITE_OK)
        q->rc = rc;
}

/* 1 when there is a row, 0 at the end. */
static int query_step(struct query *q, struct err *e)
{
    if (q->rc == SQLITE_OK || q->rc == SQLITE_ROW)
        q->rc = sqlite3_step(q->stmt);
    if (q->rc == SQLITE_ROW)
        return 1;
    return q->rc == SQLITE_DONE ? 0 : store_fail(q->store->db, q->rc, e);
}

static void query_end(struct query *q)
{
    (void)sqlite3_reset(q->stmt); /* returns the error of the step again, which was reported */
    (void)sqlite3_clear_bindings(q->stmt);
}

/* Runs a statement without results; returns how many rows it changed. */
static int query_run(struct query *q, struct err *e)
{
    int r = query_step(q, e);

    if (r >= 0)
        r = sqlite3_changes(q->store->db);
    query_end(q);
    return r;
}

static int run_plain(struct store *s, enum store_stmt which, struct err *e)
{
    struct query q = query_begin(s, which);
    int r = query_run(&q, e);

    return r < 0 ? r : 0;
}

/* --- transactions --- */

/* Takes the lock, even on failure: store_end must always follow. */
static int store_begin(struct store *s, struct err *e)
{
    (void)pthread_mutex_lock(&s->mutex);
    return run_plain(s, STORE_BEGIN, e);
}

/* Commits when r is positive, and rolls back otherwise. Returns r, or the error of the commit. */
static int store_end(struct store *s, int r, const char *what, struct str id, struct err *e)
{
    if (r > 0) {
        int committed = run_plain(s, STORE_COMMIT, e);

        if (committed < 0)
            r = committed;
    }
    /* After some errors SQLite has rolled back by itself. */
    if (!sqlite3_get_autocommit(s->db))
        (void)run_plain(s, STORE_ROLLBACK, NULL);
    (void)pthread_mutex_unlock(&s->mutex);
    return r < 0 ? err_wrap(e, r, "store: %s of sandbox '%.*s'", what, STR_ARG(id)) : r;
}

/* --- changes --- */

static int check_text(const char *name, struct str text, size_t bytes_max, struct err *e)
{
    if (text.n > bytes_max)
        return err_set(e, EMSGSIZE, "store: %s has %zu bytes, and may have %zu", name, text.n,
                       bytes_max);
    return 0;
}

static int check_status(struct str reason, struct str message, struct err *e)
{
    int r = check_text("reason", reason, STORE_REASON_MAX, e);

    return r < 0 ? r : check_text("message", message, STORE_MESSAGE_MAX, e);
}

static int check_row(const struct store_sandbox *row, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        const void *field = (const char *)row + columns[i].offset;
        int r = 0;

        if (columns[i].kind == COLUMN_TEXT)
            r = check_text(columns[i].name, *(const struct str *)field, columns[i].bytes_max, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static void bind_status(struct query *q, const struct store_status *status)
{
    bind_int(q, status->state);
    bind_text(q, status->reason);
    bind_text(q, status->message);
    bind_int(q, status->now_us);
}

/* Adds an event to an existing sandbox, and deletes its oldest one beyond the maximum. */
static int add_event(struct store *s, struct str id, const struct store_status *status,
                     struct err *e)
{
    struct query q = query_begin(s, STORE_ADD_EVENT);
    int r;

    bind_text(&q, id);
    bind_status(&q, status);
    r = query_run(&q, e);
    if (r < 0)
        return r;
    q = query_begin(s, STORE_PRUNE_EVENTS);
    bind_text(&q, id);
    bind_int(&q, STORE_EVENTS_MAX);
    r = query_run(&q, e);
    return r < 0 ? r : 1;
}

static int insert_row(struct store *s, const struct store_sandbox *row, struct err *e)
{
    struct query q = query_begin(s, STORE_INSERT);

    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        const void *field = (const char *)row + columns[i].offset;

        switch (columns[i].kind) {
        case COLUMN_TEXT:
            bind_text(&q, *(const struct str *)field);
            break;
        case COLUMN_TIME:
            bind_int(&q, *(const int64_t *)field);
            break;
        case COLUMN_STATE:
            bind_int(&q, *(const enum sandbox_state *)field);
            break;
        case COLUMN_U32:
            bind_int(&q, *(const uint32_t *)field);
            break;
        }
    }
    return query_run(&q, e);
}

int store_insert(struct store *s, const struct store_sandbox *row, struct err *e)
{
    struct store_status first = {row->state, row->reason, row->message, row->since_us};
    int r = check_row(row, e);

    if (r < 0)
        return r;
    r = store_begin(s, e);
    if (r >= 0)
        r = insert_row(s, row, e);
    if (r > 0)
        r = add_event(s, row->id, &first, e);
    return store_end(s, r, "insert", row->id, e);
}

/* Runs either change of status: same parameters, with `condition` as the last one. */
static int change_status(struct store *s, enum store_stmt which, struct str id, int64_t condition,
                         const struct store_status *status, struct err *e)
{
    struct query q;
    int r = check_status(status->reason, status->message, e);

    if (r < 0)
        return r;
    r = store_begin(s, e);
    if (r >= 0) {
        q = query_begin(s, which);
        bind_text(&q, id);
        bind_status(&q, status);
        bind_int(&q, condition);
        r = query_run(&q, e);
    }
    if (r > 0)
        r = add_event(s, id, status, e);
    return store_end(s, r, which == STORE_EXPIRE ? "expiry" : "new status", id, e);
}

int store_set_status(struct store *s, struct str id, unsigned from,
                     const struct store_status *status, struct err *e)
{
    return change_status(s, STORE_SET_STATUS, id, from, status, e);
}

int store_expire(struct store *s, struct str id, int64_t expires_us,
                 const struct store_status *status, struct err *e)
{
    assert(status->state == SANDBOX_STOPPING);
    return change_status(s, STORE_EXPIRE, id, expires_us, status, e);
}

int store_renew(struct store *s, struct str id, unsigned from, int64_t expected_us,
                int64_t expires_us, struct err *e)
{
    struct query q;
    int r;

    if (expires_us <= 0)
        return err_set(e, EINVAL, "store: an expiry cannot be taken away");
    r = store_begin(s, e);
    if (r >= 0) {
        q = query_begin(s, STORE_RENEW);
        bind_text(&q, id);
        bind_int(&q, expires_us);
        bind_int(&q, from);
        bind_int(&q, expected_us);
        r = query_run(&q, e);
    }
    return store_end(s, r, "renewal", id, e);
}

int store_set_metadata(struct store *s, struct str id, struct str metadata, struct err *e)
{
    struct query q;
    int r = check_text("metadata", metadata, STORE_JSON_MAX, e);

    if (r < 0)
        return r;
    r = store_begin(s, e);
    if (r >= 0) {
        q = query_begin(s, STORE_SET_METADATA);
        bind_text(&q, id);
        bind_text(&q, metadata);
        r = query_run(&q, e);
    }
    return store_end(s, r, "metadata", id, e);
}

int store_delete(struct store *s, struct str id, struct err *e)
{
    struct query q;
    int r = store_begin(s, e);

    if (r >= 0) {
        q = query_begin(s, STORE_DELETE);
        bind_text(&q, id);
        r = query_run(&q, e);
        s->to_forget |= r > 0;
    }
    return store_end(s, r, "delete", id, e);
}

/* --- reading --- */

/* Columns are NOT NULL, so a NULL pointer means out of memory. */
static int read_text(sqlite3_stmt *stmt, int column, struct str *ret)
{
    const char *p = (const char *)sqlite3_column_text(stmt, column);

    if (!p)
        return -ENOMEM;
    *ret = str_make(p, (size_t)sqlite3_column_bytes(stmt, column));
    return 0;
}

/* The schema's CHECKs keep states in range, but a file may have been edited without them. */
static int read_state(sqlite3_stmt *stmt, int column, enum sandbox_state *ret)
{
    int64_t state = sqlite3_column_int64(stmt, column);

    if (state < 0 || state >= SANDBOX_STATE_COUNT)
        return -EUCLEAN;
    *ret = (enum sandbox_state)state;
    return 0;
}

static int read_row(sqlite3_stmt *stmt, struct store_sandbox *ret)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(columns) && r >= 0; i++) {
        void *field = (char *)ret + columns[i].offset;

        switch (columns[i].kind) {
        case COLUMN_TEXT:
            r = read_text(stmt, (int)i, field);
            break;
        case COLUMN_TIME:
            *(int64_t *)field = sqlite3_column_int64(stmt, (int)i);
            break;
        case COLUMN_STATE:
            r = read_state(stmt, (int)i, field);
            break;
        case COLUMN_U32:
            *(uint32_t *)field = (uint32_t)sqlite3_column_int64(stmt, (int)i);
            break;
        }
    }
    return r;
}

static int each_row(struct query *q, int (*visit)(void *user, const struct store_sandbox *row),
                    void *user, struct err *e)
{
    for (;;) {
        struct store_sandbox row = {0};
        int r = query_step(q, e);

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

int store_each(struct store *s, int (*visit)(void *user, const struct store_sandbox *row),
               void *user, struct err *e)
{
    struct query q;
    int r;

    (void)pthread_mutex_lock(&s->mutex);
    q = query_begin(s, STORE_EACH);
    r = each_row(&q, visit, user, e);
    query_end(&q);
    (void)pthread_mutex_unlock(&s->mutex);
    return r < 0 ? err_wrap(e, r, "store: list sandboxes") : r;
}

static int read_event(sqlite3_stmt *stmt, struct store_event *ret)
{
    int r = read_state(stmt, 1, &ret->state);

    ret->at_us = sqlite3_column_int64(stmt, 0);
    ret->number = (uint64_t)sqlite3_column_int64(stmt, 4);
    if (r >= 0)
        r = read_text(stmt, 2, &ret->reason);
    return r < 0 ? r : read_text(stmt, 3, &ret->message);
}

int store_history(struct store *s, struct str id, uint32_t limit,
                  void (*visit)(void *user, const struct store_event *event), void *user,
                  struct err *e)
{
    struct store_event event = {0};
    int count = 0, r;
    struct query q;

    (void)pthread_mutex_lock(&s->mutex);
    q = query_begin(s, STORE_HISTORY);
    bind_text(&q, id);
    bind_int(&q, limit);
    while ((r = query_step(&q, e)) > 0) {
        r = read_event(q.stmt, &event);
        if (r < 0) {
            r = err_sys(e, -r, "an event");
            break;
        }
        visit(user, &event);
        count++;
    }
    query_end(&q);
    (void)pthread_mutex_unlock(&s->mutex);
    return r < 0 ? err_wrap(e, r, "store: history of sandbox '%.*s'", STR_ARG(id)) : count;
}

int store_probe(struct store *s, struct err *e)
{
    int r;

    (void)pthread_mutex_lock(&s->mutex);
    r = run_plain(s, STORE_PROBE, e);
    (void)pthread_mutex_unlock(&s->mutex);
    return r < 0 ? err_wrap(e, r, "store") : 0;
}
