/* The calls of the store in PostgreSQL: each is one prepared statement, and so one transaction.
 * Texts are BYTEA, since a text of the store may be any bytes, and TEXT takes neither NUL nor
 * invalid UTF-8. */
#include <assert.h>
#include <errno.h>

#include "server/store/store_columns.h"
#include "server/store/store_pg_internal.h"

/* Adds $2 to $5 to the history of the row in `s`, and deletes its oldest event beyond the
 * maximum. */
#define ADD_EVENT                                                                                  \
    ", pruned AS (DELETE FROM opensandbox_events USING s"                                          \
    " WHERE sandbox = s.n AND seq <= s.events - 500)"                                              \
    " INSERT INTO opensandbox_events (sandbox, seq, state, reason, message, at_us)"                \
    " SELECT n, events, $2, $3, $4, $5 FROM s"
static_assert(STORE_EVENTS_MAX == 500, "ADD_EVENT has the same number");

/* Conditions on the row are part of the UPDATE: that makes it a compare-and-set. */
const char *const pg_texts[PG_BASE_COUNT] = {
    [PG_INSERT] = "WITH s AS (INSERT INTO opensandbox_sandboxes (" STORE_COLUMNS ", holder)"
                  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,"
                  " $17, $18, $19) RETURNING n, state, reason, message, since_us)"
                  " INSERT INTO opensandbox_events (sandbox, seq, state, reason, message, at_us)"
                  " SELECT n, 1, state, reason, message, since_us FROM s",
    /* $1 id, $2 to $5 the new status, then the conditions */
    [PG_SET_STATUS] = "WITH s AS (UPDATE opensandbox_sandboxes SET state = $2, reason = $3,"
                      " message = $4, since_us = $5, events = events + 1"
                      " WHERE id = $1 AND ((1::int8 << state::int) & $6::int8) <> 0"
                      " AND holder = $7 RETURNING n, events)" ADD_EVENT,
    [PG_EXPIRE] = "WITH s AS (UPDATE opensandbox_sandboxes SET state = $2, reason = $3,"
                  " message = $4, since_us = $5, events = events + 1"
                  " WHERE id = $1 AND state <> $2"
                  " AND expires_us = $6 AND expires_us > 0 AND expires_us <= $5 AND holder = $7"
                  " RETURNING n, events)" ADD_EVENT,
    [PG_RENEW] = "UPDATE opensandbox_sandboxes SET expires_us = $2"
                 " WHERE id = $1 AND ((1::int8 << state::int) & $3::int8) <> 0"
                 " AND expires_us > 0 AND ($4::int8 = 0 OR expires_us = $4) AND holder = $5",
    [PG_EXPIRY] = "SELECT expires_us FROM opensandbox_sandboxes WHERE id = $1 AND holder = $2",
    [PG_SET_METADATA] = "UPDATE opensandbox_sandboxes SET metadata = $2"
                        " WHERE id = $1 AND holder = $3",
    /* $1 id, $2 the owner it has, $3 the state it is in */
    [PG_CLAIM] = "UPDATE opensandbox_sandboxes SET tenant = $4, owner = $5, token = $6,"
                 " created_us = $7, expires_us = $8, entrypoint = $9, metadata = $10, spec = $11,"
                 " renew_extend_s = $12 WHERE id = $1 AND owner = $2 AND state = $3"
                 " AND holder = $13",
    [PG_DELETE] = "DELETE FROM opensandbox_sandboxes WHERE id = $1 AND holder = $2",
    [PG_EACH] = "SELECT " STORE_COLUMNS " FROM opensandbox_sandboxes WHERE holder = $1"
                " ORDER BY created_us, n",
    [PG_HISTORY] = "SELECT at_us, state, reason, message, seq FROM"
                   " (SELECT * FROM opensandbox_events"
                   "  WHERE sandbox = (SELECT n FROM opensandbox_sandboxes WHERE id = $1)"
                   "  ORDER BY seq DESC LIMIT $2) AS newest ORDER BY seq",
    [PG_RECORD_INSERT] = "INSERT INTO opensandbox_records"
                         " (kind, id, holder, state, tenant, owner, created_us, json)"
                         " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    /* $4: the expected state, NULL = any */
    [PG_RECORD_UPDATE] = "UPDATE opensandbox_records SET state = $5, json = coalesce($6, json)"
                         " WHERE kind = $1 AND id = $2 AND holder = $3"
                         " AND ($4::bytea IS NULL OR state = $4)",
    /* A tenant's sandboxes may be at other servers. */
    [PG_RECORD_DELETE] = "DELETE FROM opensandbox_records"
                         " WHERE kind = $1 AND id = $2 AND holder = $3"
                         " AND ($4::bytea IS NULL OR state = $4) AND (kind <> 'tenant'"
                         " OR NOT EXISTS (SELECT 1 FROM opensandbox_sandboxes WHERE tenant = $2))",
    [PG_RECORD_GET] = "SELECT kind, id, state, tenant, owner, json, created_us"
                      " FROM opensandbox_records WHERE kind = $1 AND id = $2 AND holder = $3",
    [PG_RECORD_EACH] = "SELECT kind, id, state, tenant, owner, json, created_us"
                       " FROM opensandbox_records WHERE kind = $1 AND holder = $2"
                       " ORDER BY created_us, n",
    [PG_PROBE] = "UPDATE opensandbox_meta SET version = version", /* the current value */
};

/* --- changes --- */

void pg_bind_row(struct pg_query *q, const struct store_sandbox *row)
{
    for (size_t i = 0; i < STORE_COLUMN_COUNT; i++) {
        const struct store_column *column = &store_columns[i];

        if (column->kind == COLUMN_TEXT)
            pg_bind_text(q, store_column_text(column, row));
        else
            pg_bind_int(q, store_column_int(column, row));
    }
}

static int pg_insert(struct store *base, const struct store_sandbox *row, struct err *e)
{
    struct pg_query q;

    if (pg_of(base)->use == PG_SHARED && row->share)
        return pg_insert_shared(pg_of(base), row, e);
    q = pg_begin(pg_of(base), PG_INSERT);
    pg_bind_row(&q, row);
    pg_bind_holder(&q);
    return pg_end(&q, pg_run(&q, e), "insert of sandbox", row->id, e);
}

/* Runs either change of status: same parameters, with `condition` as the last one. */
static int change_status(struct store *base, enum pg_stmt which, struct str id, int64_t condition,
                         const struct store_status *status, struct err *e)
{
    struct pg_query q = pg_begin(pg_of(base), which);

    pg_bind_text(&q, id);
    pg_bind_int(&q, status->state);
    pg_bind_text(&q, status->reason);
    pg_bind_text(&q, status->message);
    pg_bind_int(&q, status->now_us);
    pg_bind_int(&q, condition);
    pg_bind_holder(&q);
    return pg_end(&q, pg_run(&q, e),
                  which == PG_EXPIRE ? "expiry of sandbox" : "new status of sandbox", id, e);
}

static int pg_set_status(struct store *base, struct str id, unsigned from,
                         const struct store_status *status, struct err *e)
{
    return change_status(base, PG_SET_STATUS, id, from, status, e);
}

static int pg_expire(struct store *base, struct str id, int64_t expires_us,
                     const struct store_status *status, struct err *e)
{
    return change_status(base, PG_EXPIRE, id, expires_us, status, e);
}

static int pg_renew(struct store *base, struct str id, unsigned from, int64_t expected_us,
                    int64_t expires_us, struct err *e)
{
    struct pg_query q = pg_begin(pg_of(base), PG_RENEW);

    pg_bind_text(&q, id);
    pg_bind_int(&q, expires_us);
    pg_bind_int(&q, from);
    pg_bind_int(&q, expected_us);
    pg_bind_holder(&q);
    return pg_end(&q, pg_run(&q, e), "renewal of sandbox", id, e);
}

static int pg_expiry(struct store *base, struct str id, int64_t *ret_us, struct err *e)
{
    struct pg_query q = pg_begin(pg_of(base), PG_EXPIRY);
    int r;

    pg_bind_text(&q, id);
    pg_bind_holder(&q);
    r = pg_step(&q, e);
    if (r > 0)
        *ret_us = pg_read_int(&q, 0);
    return pg_end(&q, r, "expiry of sandbox", id, e);
}

static int pg_set_metadata(struct store *base, struct str id, struct str metadata, struct err *e)
{
    struct pg_query q = pg_begin(pg_of(base), PG_SET_METADATA);

    pg_bind_text(&q, id);
    pg_bind_text(&q, metadata);
    pg_bind_holder(&q);
    return pg_end(&q, pg_run(&q, e), "metadata of sandbox", id, e);
}

void pg_bind_claim(struct pg_query *q, struct str expected, const struct store_sandbox *row)
{
    pg_bind_text(q, row->id);
    pg_bind_text(q, expected);
    pg_bind_int(q, SANDBOX_RUNNING);
    pg_bind_text(q, row->tenant);
    pg_bind_text(q, row->owner);
    pg_bind_text(q, row->token);
    pg_bind_int(q, row->created_us);
    pg_bind_int(q, row->expires_us);
    pg_bind_text(q, row->entrypoint);
    pg_bind_text(q, row->metadata);
    pg_bind_text(q, row->spec);
    pg_bind_int(q, row->renew_extend_s);
    pg_bind_holder(q);
}

static int pg_claim(struct store *base, struct str expected, const struct store_sandbox *row,
                    struct err *e)
{
    struct pg_query q;

    if (pg_of(base)->use == PG_SHARED && row->share)
        return pg_claim_shared(pg_of(base), expected, row, e);
    q = pg_begin(pg_of(base), PG_CLAIM);
    pg_bind_claim(&q, expected, row);
    return pg_end(&q, pg_run(&q, e), "claim of sandbox", row->id, e);
}

static int pg_delete(struct store *base, struct str id, struct err *e)
{
    struct pg_query q = pg_begin(pg_of(base), PG_DELETE);

    pg_bind_text(&q, id);
    pg_bind_holder(&q);
    return pg_end(&q, pg_run(&q, e), "delete of sandbox", id, e);
}

/* --- reading --- */

int pg_read_row(const struct pg_query *q, struct store_sandbox *ret)
{
    int r = 0;

    for (int i = 0; i < STORE_COLUMN_COUNT && r == 0; i++) {
        const struct store_column *column = &store_columns[i];

        if (column->kind == COLUMN_TEXT)
            store_column_set_text(column, ret, pg_read_text(q, i));
        else
            r = store_column_set_int(column, ret, pg_read_int(q, i));
    }
    return r;
}

static int each_row(struct pg_query *q, store_visit_fn *visit, void *user, struct err *e)
{
    for (;;) {
        struct store_sandbox row = {0};
        int r = pg_step(q, e);

        if (r <= 0)
            return r;
        r = pg_read_row(q, &row);
        if (r < 0)
            return err_sys(e, -r, "a row");
        r = visit(user, &row);
        if (r != 0)
            return r;
    }
}

static int pg_each(struct store *base, store_visit_fn *visit, void *user, struct err *e)
{
    struct pg_query q = pg_begin(pg_of(base), PG_EACH);

    pg_bind_holder(&q);
    return pg_end(&q, each_row(&q, visit, user, e), "list of sandboxes", STR(""), e);
}

static int read_event(const struct pg_query *q, struct store_event *ret)
{
    ret->at_us = pg_read_int(q, 0);
    ret->reason = pg_read_text(q, 2);
    ret->message = pg_read_text(q, 3);
    ret->number = (uint64_t)pg_read_int(q, 4);
    return store_state_of(pg_read_int(q, 1), &ret->state);
}

static int each_event(struct pg_query *q, store_event_fn *visit, void *user, struct err *e)
{
    for (int count = 0;; count++) {
        struct store_event event = {0};
        int r = pg_step(q, e);

        if (r <= 0)
            return r < 0 ? r : count;
        r = read_event(q, &event);
        if (r < 0)
            return err_sys(e, -r, "an event");
        visit(user, &event);
    }
}

static int pg_history(struct store *base, struct str id, uint32_t limit, store_event_fn *visit,
                      void *user, struct err *e)
{
    struct pg_query q = pg_begin(pg_of(base), PG_HISTORY);

    pg_bind_text(&q, id);
    pg_bind_int(&q, limit);
    return pg_end(&q, each_event(&q, visit, user, e), "history of sandbox", id, e);
}

/* --- the whole --- */

static int pg_probe(struct store *base, struct err *e)
{
    struct pg_query q = pg_begin(pg_of(base), PG_PROBE);
    int r = pg_end(&q, pg_run(&q, e), "probe of", STR("opensandbox_meta"), e);

    return r < 0 ? r : 0;
}

/* A commit is on PostgreSQL's disk when it is answered, and its own vacuum removes deleted rows. */
static int pg_nothing(struct store *base UNUSED, struct err *e UNUSED)
{
    return 0;
}

const struct store_ops pg_ops = {
    .close = pg_close,
    .insert = pg_insert,
    .set_status = pg_set_status,
    .renew = pg_renew,
    .expire = pg_expire,
    .expiry = pg_expiry,
    .set_metadata = pg_set_metadata,
    .claim = pg_claim,
    .remove = pg_delete,
    .each = pg_each,
    .history = pg_history,
    .record_insert = pg_record_insert,
    .record_update = pg_record_update,
    .record_delete = pg_record_delete,
    .record_get = pg_record_get,
    .record_each = pg_record_each,
    .probe = pg_probe,
    .checkpoint = pg_nothing,
    .forget = pg_nothing,
};
