#include "server/store/store_cluster.h"

#include <assert.h>
#include <errno.h>

#include "base/mem.h"
#include "server/store/store_columns.h"
#include "server/store/store_pg_internal.h"

struct store_cluster {
    struct pg_store *pg;
};

/* Address and liveness of the row's `holder`. */
#define PLACE(table)                                                                               \
    table ".holder, coalesce((SELECT v.address FROM opensandbox_servers v WHERE v.id = " table     \
          ".holder), ''), coalesce((SELECT (v.lease_until > now())::int::int8"                     \
          " FROM opensandbox_servers v WHERE v.id = " table ".holder), 0)"

static_assert(SANDBOX_STOPPING == 5 && SANDBOX_TERMINATED == 6 && SANDBOX_FAILED == 7,
              "PG_GIVE_UP has these numbers");

const char *const pg_cluster_texts[PG_STMT_COUNT - PG_SHARED_COUNT] = {
    [PG_REGISTER - PG_SHARED_COUNT] = "INSERT INTO opensandbox_servers (id, address, lease_until)"
                                      " VALUES ($1, $2, now() + $3::int8 * interval '1 second')"
                                      " ON CONFLICT (id) DO UPDATE SET address = excluded.address,"
                                      " lease_until = excluded.lease_until",
    [PG_BEAT - PG_SHARED_COUNT] =
        "UPDATE opensandbox_servers SET lease_until = now() + $2::int8 * interval '1 second'"
        " WHERE id = $1",
    [PG_SERVERS - PG_SHARED_COUNT] = "SELECT id, address, (lease_until > now())::int::int8"
                                     " FROM opensandbox_servers ORDER BY id",
    [PG_FIND - PG_SHARED_COUNT] =
        "SELECT " STORE_COLUMNS ", " PLACE("s") ", 1::int8 FROM opensandbox_sandboxes s"
                                                " WHERE id = $1",
    [PG_FIND_RECORD - PG_SHARED_COUNT] =
        "SELECT " PLACE("r") " FROM opensandbox_records r"
                             " WHERE kind = $1 AND id = $2 AND holder <> $3 LIMIT 1",
    [PG_FIND_MARK - PG_SHARED_COUNT] =
        "SELECT " PLACE("m") " FROM opensandbox_marks m WHERE mark = $1 AND holder <> $2",
    [PG_OTHERS - PG_SHARED_COUNT] =
        "SELECT " STORE_COLUMNS
        ", " PLACE("s") ", count(*) OVER () FROM opensandbox_sandboxes s"
                        " WHERE holder <> $1 AND owner NOT IN ('pool', 'pool:warming')"
                        " AND (length($2::bytea) = 0 OR tenant = $2) AND ((1::int8 << state::int) "
                        "& $3::int8) <> 0"
                        " ORDER BY created_us DESC, n DESC LIMIT $4",
    /* $1 the server, $2 seconds, $3 the new holder, $4 to $7 the new status */
    [PG_GIVE_UP - PG_SHARED_COUNT] =
        "WITH dead AS (DELETE FROM opensandbox_servers WHERE id = $1"
        " AND lease_until + $2::int8 * interval '1 second' < now() RETURNING id),"
        " k AS (UPDATE opensandbox_marks SET holder = $3"
        " WHERE holder IN (SELECT id FROM dead)),"
        " s AS (UPDATE opensandbox_sandboxes SET holder = $3,"
        " state = CASE WHEN state IN (5, 6, 7) THEN state ELSE $4 END,"
        " reason = CASE WHEN state IN (5, 6, 7) THEN reason ELSE $5 END,"
        " message = CASE WHEN state IN (5, 6, 7) THEN message ELSE $6 END,"
        " since_us = CASE WHEN state IN (5, 6, 7) THEN since_us ELSE $7 END, events = events + 1"
        " WHERE holder IN (SELECT id FROM dead) AND position('\"persistent\":true'::bytea IN spec)"
        " = 0 RETURNING n, events, " STORE_COLUMNS "),"
        " e AS (INSERT INTO opensandbox_events (sandbox, seq, state, reason, message, at_us)"
        " SELECT n, events, state, reason, message, since_us FROM s)"
        " SELECT " STORE_COLUMNS " FROM s",
    [PG_FINGERPRINT - PG_SHARED_COUNT] =
        "SELECT count(*) || ':' || coalesce(sum(('x' || substr(md5(kind || id || state || json),"
        " 1, 15))::bit(60)::int8), 0) FROM opensandbox_records"
        " WHERE holder = '' AND kind IN ('tenant', 'api_key')",
    [PG_PRUNE - PG_SHARED_COUNT] = "DELETE FROM opensandbox_marks WHERE made_us < $1",
};

int store_cluster_open(const struct store_postgres *conf, struct store_cluster **ret, struct err *e)
{
    struct store_cluster *c = mem_new(struct store_cluster);
    int r = pg_new(conf, PG_CLUSTER, &c->pg, e);

    if (r < 0) {
        free(c);
        return err_wrap(e, r, "store");
    }
    *ret = c;
    return 0;
}

void store_cluster_close(struct store_cluster *c)
{
    if (!c)
        return;
    pg_close(&c->pg->base);
    free(c);
}

/* --- the servers --- */

int store_cluster_register(struct store_cluster *c, struct str address, uint32_t lease_s,
                           struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_REGISTER);

    pg_bind_holder(&q);
    pg_bind_text(&q, address);
    pg_bind_int(&q, lease_s);
    return pg_end(&q, pg_run(&q, e), "registration of server", str_of(c->pg->holder), e);
}

int store_cluster_beat(struct store_cluster *c, uint32_t lease_s, struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_BEAT);

    pg_bind_holder(&q);
    pg_bind_int(&q, lease_s);
    return pg_end(&q, pg_run(&q, e), "lease of server", str_of(c->pg->holder), e);
}

static struct store_place read_place(const struct pg_query *q, int column)
{
    return (struct store_place){pg_read_text(q, column), pg_read_text(q, column + 1),
                                pg_read_int(q, column + 2) != 0};
}

int store_cluster_servers(struct store_cluster *c, store_server_fn *visit, void *user,
                          struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_SERVERS);
    int r;

    while ((r = pg_step(&q, e)) > 0) {
        struct store_place place = read_place(&q, 0);

        visit(user, &place);
    }
    return pg_end(&q, r, "list of", STR("servers"), e);
}

/* --- sandboxes --- */

static int each_place(struct pg_query *q, store_place_fn *visit, void *user, struct err *e)
{
    for (;;) {
        struct store_sandbox row = {0};
        struct store_place place;
        int r = pg_step(q, e);

        if (r <= 0)
            return r;
        r = pg_read_row(q, &row);
        if (r < 0)
            return err_sys(e, -r, "a row");
        place = read_place(q, STORE_COLUMN_COUNT);
        r = visit(user, &row, &place, (uint64_t)pg_read_int(q, STORE_COLUMN_COUNT + 3));
        if (r != 0)
            return r;
    }
}

int store_cluster_find(struct store_cluster *c, struct str id, store_place_fn *visit, void *user,
                       struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_FIND);

    pg_bind_text(&q, id);
    return pg_end(&q, each_place(&q, visit, user, e), "place of sandbox", id, e);
}

static int one_place(struct pg_query *q, store_place_fn *visit, void *user, struct err *e)
{
    struct store_place place;
    int r = pg_step(q, e);

    if (r <= 0)
        return r;
    place = read_place(q, 0);
    return visit(user, NULL, &place, 1);
}

int store_cluster_find_record(struct store_cluster *c, struct str kind, struct str id,
                              store_place_fn *visit, void *user, struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_FIND_RECORD);

    pg_bind_text(&q, kind);
    pg_bind_text(&q, id);
    pg_bind_holder(&q);
    return pg_end(&q, one_place(&q, visit, user, e), "place of record", id, e);
}

int store_cluster_find_mark(struct store_cluster *c, struct str mark, store_place_fn *visit,
                            void *user, struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_FIND_MARK);

    pg_bind_text(&q, mark);
    pg_bind_holder(&q);
    return pg_end(&q, one_place(&q, visit, user, e), "place of", STR("an Idempotency-Key"), e);
}

int store_cluster_others(struct store_cluster *c, const struct store_cluster_query *query,
                         store_place_fn *visit, void *user, struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_OTHERS);

    pg_bind_holder(&q);
    pg_bind_text(&q, query->tenant);
    pg_bind_int(&q, query->states);
    pg_bind_int(&q, (int64_t)query->limit);
    return pg_end(&q, each_place(&q, visit, user, e), "list of", STR("sandboxes"), e);
}

int store_cluster_give_up(struct store_cluster *c, struct str server, uint32_t after_s,
                          const struct store_status *status, store_visit_fn *visit, void *user,
                          struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_GIVE_UP);
    int r;

    pg_bind_text(&q, server);
    pg_bind_int(&q, after_s);
    pg_bind_holder(&q);
    pg_bind_int(&q, status->state);
    pg_bind_text(&q, status->reason);
    pg_bind_text(&q, status->message);
    pg_bind_int(&q, status->now_us);
    while ((r = pg_step(&q, e)) > 0) {
        struct store_sandbox row = {0};

        r = pg_read_row(&q, &row);
        if (r == 0)
            r = visit(user, &row);
        if (r != 0)
            break;
    }
    return pg_end(&q, r, "sandboxes of server", server, e);
}

/* --- the rest --- */

int store_cluster_fingerprint(struct store_cluster *c, char ret[STORE_FINGERPRINT_MAX],
                              struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_FINGERPRINT);
    int r = pg_step(&q, e);

    if (r > 0)
        r = str_copy(ret, STORE_FINGERPRINT_MAX, pg_read_text(&q, 0));
    return pg_end(&q, r, "state of", STR("tenants and keys"), e);
}

int store_cluster_prune(struct store_cluster *c, int64_t before_us, struct err *e)
{
    struct pg_query q = pg_begin(c->pg, PG_PRUNE);

    pg_bind_int(&q, before_us);
    return pg_end(&q, pg_run(&q, e), "removal of", STR("old Idempotency-Keys"), e);
}
