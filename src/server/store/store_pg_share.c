/* Rows of a store that several servers share, where each counts for the quotas of all.
 *
 * What a tenant uses is the sum of its rows in opensandbox_usage, which go with their sandboxes.
 * With a limit, the sum and the row that changes it belong together: a transaction takes the lock
 * of the tenant first, and reads the sum in a statement after it, whose snapshot has what others
 * have added before. Without a limit there is nothing to wait for. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/map.h"
#include "server/store/store_columns.h"
#include "server/store/store_pg_internal.h"

/* The sum of a tenant is below its limits: $t the tenant, $n.. needs, $l.. limits. */
#define FITS_ONE(column, need, limit)                                                              \
    "($" limit "::int8 < 0 OR coalesce(sum(" column "), 0) + $" need "::int8 <= $" limit "::int8)"
#define FITS(t, n1, n2, n3, n4, l1, l2, l3, l4)                                                    \
    "(($" l1 "::int8 < 0 AND $" l2 "::int8 < 0 AND $" l3 "::int8 < 0 AND $" l4 "::int8 < 0)"       \
    " OR (SELECT " FITS_ONE("sandboxes", n1, l1) " AND " FITS_ONE("cpu", n2, l2) " AND " FITS_ONE( \
        "memory", n3, l3) " AND " FITS_ONE("disk", n4,                                             \
                                           l4) " FROM opensandbox_usage WHERE tenant = $" t        \
                                               "::bytea))"

static_assert(STORE_QUOTAS == 4, "FITS has as many");

const char *const pg_shared_texts[PG_SHARED_COUNT - PG_BASE_COUNT] = {
    /* $1 to $19 as PG_INSERT, $20 the tenant, $21 to $24 needs, $25 to $28 limits, $29 the mark,
     * which its own holder may use again, and anybody after a day */
    [PG_INSERT_SHARED - PG_BASE_COUNT] =
        "WITH m AS (INSERT INTO opensandbox_marks AS old (mark, holder, made_us)"
        " SELECT $29::bytea, $19::bytea, $5::int8 WHERE length($29::bytea) > 0"
        " ON CONFLICT (mark) DO UPDATE SET made_us = excluded.made_us, holder = excluded.holder"
        " WHERE old.holder = excluded.holder OR old.made_us < excluded.made_us - 86400000000"
        " RETURNING 1),"
        " s AS (INSERT INTO opensandbox_sandboxes (" STORE_COLUMNS ", holder)"
        " SELECT $1::bytea, $2::int8, $3::bytea, $4::bytea, $5::int8, $6::int8, $7::int8,"
        " $8::bytea, $9::bytea, $10::bytea, $11::bytea, $12::bytea, $13::bytea, $14::bytea,"
        " $15::bytea, $16::int8, $17::bytea, $18::bytea, $19::bytea"
        " WHERE (length($29::bytea) = 0 OR EXISTS (SELECT 1 FROM m))"
        " AND " FITS(
            "20", "21", "22", "23", "24", "25", "26", "27",
            "28") " RETURNING n, state, reason, message, since_us),"
                  " u AS (INSERT INTO opensandbox_usage (sandbox, tenant, sandboxes, cpu, memory, "
                  "disk)"
                  " SELECT n, $20::bytea, $21::int8, $22::int8, $23::int8, $24::int8 FROM s),"
                  " e AS (INSERT INTO opensandbox_events (sandbox, seq, state, reason, message, "
                  "at_us)"
                  " SELECT n, 1, state, reason, message, since_us FROM s RETURNING 1)"
                  " SELECT (SELECT count(*) FROM e), (SELECT count(*) FROM m)",
    /* $1 to $13 as PG_CLAIM, $14 the tenant, $15 to $18 needs, $19 to $22 limits */
    [PG_CLAIM_SHARED - PG_BASE_COUNT] = "WITH f AS (SELECT " FITS(
        "14", "15", "16", "17", "18", "19", "20", "21",
        "22") " AS fits),"
              " c AS (UPDATE opensandbox_sandboxes SET tenant = $4, owner = $5, token = $6,"
              " created_us = $7, expires_us = $8, entrypoint = $9, metadata = $10, spec = $11,"
              " renew_extend_s = $12 WHERE id = $1 AND owner = $2 AND state = $3 AND holder = $13"
              " AND (SELECT fits FROM f) RETURNING n),"
              " u AS (INSERT INTO opensandbox_usage (sandbox, tenant, sandboxes, cpu, memory, disk)"
              " SELECT n, $14::bytea, $15::int8, $16::int8, $17::int8, $18::int8 FROM c"
              " ON CONFLICT (sandbox) DO UPDATE SET tenant = excluded.tenant,"
              " sandboxes = excluded.sandboxes, cpu = excluded.cpu, memory = excluded.memory,"
              " disk = excluded.disk RETURNING 1)"
              " SELECT (SELECT count(*) FROM u), (SELECT fits::int::int8 FROM f)",
};

static void bind_share(struct pg_query *q, const struct store_share *share)
{
    pg_bind_text(q, share->tenant);
    for (size_t i = 0; i < STORE_QUOTAS; i++)
        pg_bind_int(q, share->needs[i]);
    for (size_t i = 0; i < STORE_QUOTAS; i++)
        pg_bind_int(q, share->limits[i]);
}

static bool has_limit(const struct store_share *share)
{
    for (size_t i = 0; i < STORE_QUOTAS; i++)
        if (share->limits[i] >= 0)
            return true;
    return false;
}

static int begin(struct pg_store *s, const struct store_share *share, struct err *e)
{
    static const uint64_t seed[2] = {0x6f70656e, 0x73616e64};
    char sql[128];
    int r = pg_connect(s, e);

    (void)snprintf(sql, sizeof(sql), "BEGIN; SELECT pg_advisory_xact_lock(%lld)",
                   (long long)(int64_t)map_hash(seed, share->tenant));
    if (r == 0)
        r = pg_exec(s, sql, NULL, 0, e);
    s->in_transaction = r == 0;
    return r;
}

/* Runs the statement, alone or in a transaction; it answers two numbers. */
static int run(struct pg_query *q, const struct store_share *share, int64_t ret[2], struct err *e)
{
    struct pg_store *s = q->store;
    bool limited = has_limit(share);
    int r = limited ? begin(s, share, e) : 0;

    if (r == 0)
        r = pg_step(q, e);
    if (r > 0) {
        ret[0] = pg_read_int(q, 0);
        ret[1] = pg_read_int(q, 1);
        r = pg_step(q, e); /* its end: errors of its commit come here */
    }
    if (!limited || !s->in_transaction)
        return r;
    s->in_transaction = false;
    pg_finish(q);
    if (!s->conn)
        return r < 0 ? r : err_set(e, ECONNRESET, "PostgreSQL: the connection was lost");
    if (r == 0 && ret[0] > 0)
        return pg_exec(s, "COMMIT", NULL, 0, e);
    (void)pg_exec(s, "ROLLBACK", NULL, 0, NULL);
    return r;
}

int pg_insert_shared(struct pg_store *s, const struct store_sandbox *row, struct err *e)
{
    const struct store_share *share = row->share;
    struct pg_query q = pg_begin(s, PG_INSERT_SHARED);
    int64_t done[2] = {0};
    int r;

    pg_bind_row(&q, row);
    pg_bind_holder(&q);
    bind_share(&q, share);
    pg_bind_text(&q, share->mark);
    r = run(&q, share, done, e);
    if (r == 0 && done[0] > 0)
        r = 1;
    else if (r == 0 && share->mark.n && done[1] == 0)
        r = err_set(e, EALREADY, "another server has its Idempotency-Key");
    else if (r == 0)
        r = err_set(e, E2BIG, "the quota is used up");
    return pg_end(&q, r, "insert of sandbox", row->id, e);
}

int pg_claim_shared(struct pg_store *s, struct str expected, const struct store_sandbox *row,
                    struct err *e)
{
    struct pg_query q = pg_begin(s, PG_CLAIM_SHARED);
    int64_t done[2] = {0};
    int r;

    pg_bind_claim(&q, expected, row);
    bind_share(&q, row->share);
    r = run(&q, row->share, done, e);
    if (r == 0 && done[1] == 0)
        r = err_set(e, E2BIG, "the quota is used up");
    else if (r == 0)
        r = done[0] > 0;
    return pg_end(&q, r, "claim of sandbox", row->id, e);
}
