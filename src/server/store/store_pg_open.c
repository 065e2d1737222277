/* Opening and closing: the connection, the tables and their migrations, the lock. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/store/store_pg_internal.h"

enum { CONNECT_MS_MAX = 5 * 1000 };

/* A released step is never edited: each change is a new step at the end. events.seq counts from 1
 * per sandbox; sandboxes.events is the newest. */
static const char *const steps[] = {
    "CREATE TABLE opensandbox_sandboxes ("
    " n int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " id bytea NOT NULL UNIQUE CHECK (length(id) > 0),"
    " state int8 NOT NULL CHECK (state BETWEEN 0 AND 8),"
    " reason bytea NOT NULL,"
    " message bytea NOT NULL,"
    " created_us int8 NOT NULL,"
    " since_us int8 NOT NULL,"
    " expires_us int8 NOT NULL CHECK (expires_us >= 0),"
    " image bytea NOT NULL,"
    " snapshot_id bytea NOT NULL,"
    " os bytea NOT NULL,"
    " arch bytea NOT NULL,"
    " entrypoint bytea NOT NULL,"
    " metadata bytea NOT NULL,"
    " token bytea NOT NULL,"
    " spec bytea NOT NULL,"
    " renew_extend_s int8 NOT NULL CHECK (renew_extend_s BETWEEN 0 AND 4294967295),"
    " tenant bytea NOT NULL,"
    " owner bytea NOT NULL,"
    " events int8 NOT NULL DEFAULT 1"
    ");"
    "CREATE TABLE opensandbox_events ("
    " sandbox int8 NOT NULL REFERENCES opensandbox_sandboxes (n) ON DELETE CASCADE,"
    " seq int8 NOT NULL,"
    " at_us int8 NOT NULL,"
    " state int8 NOT NULL CHECK (state BETWEEN 0 AND 8),"
    " reason bytea NOT NULL,"
    " message bytea NOT NULL,"
    " PRIMARY KEY (sandbox, seq)"
    ");"
    "CREATE TABLE opensandbox_records ("
    " n int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " kind bytea NOT NULL CHECK (length(kind) > 0),"
    " id bytea NOT NULL CHECK (length(id) > 0),"
    " state bytea NOT NULL,"
    " tenant bytea NOT NULL,"
    " owner bytea NOT NULL,"
    " created_us int8 NOT NULL,"
    " json bytea NOT NULL,"
    " UNIQUE (kind, id)"
    ");",
    /* For several servers. A holder is the id of a server; what is everybody's has none. */
    "ALTER TABLE opensandbox_sandboxes ADD COLUMN holder bytea NOT NULL DEFAULT '';"
    "ALTER TABLE opensandbox_records ADD COLUMN holder bytea NOT NULL DEFAULT '';"
    "ALTER TABLE opensandbox_records DROP CONSTRAINT opensandbox_records_kind_id_key;"
    "ALTER TABLE opensandbox_records ADD UNIQUE (kind, id, holder);"
    "CREATE TABLE opensandbox_servers ("
    " id bytea PRIMARY KEY,"
    " address bytea NOT NULL,"
    " lease_until timestamptz NOT NULL"
    ");"
    "CREATE TABLE opensandbox_usage ("
    " sandbox int8 PRIMARY KEY REFERENCES opensandbox_sandboxes (n) ON DELETE CASCADE,"
    " tenant bytea NOT NULL,"
    " sandboxes int8 NOT NULL,"
    " cpu int8 NOT NULL,"
    " memory int8 NOT NULL,"
    " disk int8 NOT NULL"
    ");"
    "CREATE INDEX opensandbox_usage_tenant ON opensandbox_usage (tenant);"
    "CREATE TABLE opensandbox_marks ("
    " mark bytea PRIMARY KEY,"
    " holder bytea NOT NULL,"
    " made_us int8 NOT NULL"
    ");",
};

/* Two servers that start at once must not create the tables both: the lock is the transaction's. */
#define BEGIN "BEGIN; SELECT pg_advisory_xact_lock(x'4f534258'::int8);"

/* What PostgreSQL remarks upon, such as a table that exists already, is no news. */
static void ignore_notice(void *user UNUSED, const char *message UNUSED)
{
}

/* --- the connection --- */

static int wait_connected(struct pg_store *s, struct err *e)
{
    uint64_t deadline = deadline_in_ms(CONNECT_MS_MAX);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;

    while (next != PGRES_POLLING_OK) {
        struct pollfd p = {.fd = s->pg.socket(s->conn)};
        int r;

        p.events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        if (next == PGRES_POLLING_FAILED) {
            struct str text = str_of(s->pg.errorMessage(s->conn)), line;

            if (!str_cut(&text, '\n', &line))
                line = text;
            return err_set(e, ECONNREFUSED, "PostgreSQL: %.*s", STR_ARG(line));
        }
        r = poll(&p, 1, deadline_left_ms(deadline));
        if (r < 0 && errno != EINTR)
            return err_sys(e, errno, "poll");
        if (r == 0)
            return err_set(e, ETIMEDOUT, "PostgreSQL does not answer");
        next = s->pg.connectPoll(s->conn);
    }
    return 0;
}

static int run_steps(struct pg_store *s, uint64_t version, struct err *e)
{
    char mark[128];
    int r = 0;

    for (; version < ARRAY_LEN(steps) && r == 0; version++) {
        AUTO_BUF(sql, 64 << 10);

        (void)snprintf(mark, sizeof(mark), "UPDATE opensandbox_meta SET version = %zu; COMMIT",
                       (size_t)version + 1);
        r = buf_addf(&sql, "BEGIN; %s %s", steps[version], mark);
        if (r == 0)
            r = pg_exec(s, sql.p, NULL, 0, e);
        if (r < 0 && s->conn)
            (void)pg_exec(s, "ROLLBACK", NULL, 0, NULL);
    }
    return r < 0 ? err_wrap(e, r, "to version %zu", (size_t)version) : 0;
}

#define VERSION "SELECT version FROM opensandbox_meta"

static int migrate(struct pg_store *s, struct err *e)
{
    char text[32] = "";
    uint64_t version = 0;
    int r =
        pg_exec(s,
                BEGIN "CREATE TABLE IF NOT EXISTS opensandbox_meta"
                      " (one bool PRIMARY KEY DEFAULT true CHECK (one), version int8 NOT NULL);"
                      "INSERT INTO opensandbox_meta (version) VALUES (0) ON CONFLICT DO NOTHING;"
                      "COMMIT; " VERSION,
                text, sizeof(text), e);

    if (r < 0)
        return r;
    if (str_to_u64(str_of(text), &version) < 0 || version > ARRAY_LEN(steps))
        return err_set(e, ENOTSUP,
                       "written by a newer server: version %s, and this one knows up to %zu", text,
                       ARRAY_LEN(steps));
    if (version == ARRAY_LEN(steps))
        return 0;
    /* Of several servers that start at once, one takes the steps. */
    r = pg_exec(s, "SELECT pg_advisory_lock(x'4f534258'::int8); " VERSION, text, sizeof(text), e);
    if (r == 0 && str_to_u64(str_of(text), &version) == 0)
        r = run_steps(s, version, e);
    if (r == 0)
        r = pg_exec(s, "SELECT pg_advisory_unlock(x'4f534258'::int8)", NULL, 0, e);
    return r;
}

/* The lock belongs to the tables, which may stand in any schema of the search path. PostgreSQL may
 * release that of a connection which ended a moment later. */
#define TABLES "x'4f534258'::int, 'opensandbox_meta'::regclass::oid::int"

static int take_lock(struct pg_store *s, struct err *e)
{
    int r = pg_exec(s,
                    s->use == PG_SHARED
                        ? "SET lock_timeout = 3000; SELECT pg_advisory_lock_shared(" TABLES ")"
                        : "SET lock_timeout = 3000; SELECT pg_advisory_lock(" TABLES ")",
                    NULL, 0, e);
    AUTO_BUF(sql, 1024);

    if (r == -EBUSY)
        return err_set(e, EBUSY,
                       "in use by another server, which holds the advisory lock of "
                       "opensandbox_meta");
    if (r < 0 || s->use != PG_SHARED)
        return r < 0 ? r : pg_exec(s, "SET lock_timeout = 0", NULL, 0, e);
    r = buf_addf(&sql,
                 "SELECT pg_advisory_lock(hashtextextended('%s ' || 'opensandbox_meta'::regclass"
                 "::oid::text, 0)); SET lock_timeout = 0",
                 s->holder);
    if (r == 0)
        r = pg_exec(s, sql.p, NULL, 0, e);
    return r == -EBUSY ? err_set(e, EBUSY,
                                 "in use by another server with the same id, %s: each "
                                 "needs a data directory of its own",
                                 s->holder)
                       : r;
}

/* PostgreSQL would keep the lock of a machine that vanished for as long as its TCP stack waits. */
#define SESSION                                                                                    \
    "SET client_min_messages = warning; SET tcp_keepalives_idle = 10;"                             \
    "SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"

static const struct {
    int first, behind; /* statements */
} uses[] = {
    [PG_ALONE] = {0,               PG_BASE_COUNT  },
    [PG_SHARED] = {0,               PG_SHARED_COUNT},
    [PG_CLUSTER] = {PG_SHARED_COUNT, PG_STMT_COUNT  },
};

int pg_connect(struct pg_store *s, struct err *e)
{
    int r;

    if (s->conn)
        return 0;
    s->conn = s->pg.connectStart(s->dsn);
    if (!s->conn)
        return err_sys(e, ENOMEM, "connect");
    (void)s->pg.setNoticeProcessor(s->conn, ignore_notice, NULL);
    r = wait_connected(s, e);
    if (r == 0 && s->pg.setnonblocking(s->conn, 1) != 0)
        r = err_set(e, EIO, "PostgreSQL: %s", s->pg.errorMessage(s->conn));
    if (r == 0)
        r = pg_exec(s, SESSION, NULL, 0, e);
    if (r == 0)
        r = migrate(s, e);
    if (r == 0 && s->use != PG_CLUSTER)
        r = take_lock(s, e);
    for (int which = uses[s->use].first; which < uses[s->use].behind && r == 0; which++)
        r = pg_prepare(s, (enum pg_stmt)which, e);
    if (r < 0)
        pg_disconnect(s);
    return r;
}

/* --- opening and closing --- */

/* Says what is wrong with a text that is not a connection string; never the text, which may hold a
 * password. */
static int check_dsn(struct pg_store *s, const char *dsn, struct err *e)
{
    char *problem = NULL;
    PQconninfoOption *options = s->pg.conninfoParse(dsn, &problem);
    int r = options ? 0 : err_set(e, EINVAL, "store.dsn is not a connection string of PostgreSQL");

    s->pg.conninfoFree(options);
    s->pg.freemem(problem);
    return r;
}

int pg_new(const struct store_postgres *conf, enum pg_use use, struct pg_store **ret, struct err *e)
{
    struct pg_store *s = mem_new(struct pg_store);
    int r = pg_library_load(&s->pg, e);

    s->base.ops = &pg_ops;
    s->use = use;
    s->dsn = mem_strdup(conf->dsn);
    s->holder = mem_strdup(conf->holder);
    (void)pthread_mutex_init(&s->mutex, NULL);
    if (r == 0)
        r = check_dsn(s, conf->dsn, e);
    if (r == 0)
        r = pg_connect(s, e);
    if (r < 0) {
        pg_close(&s->base);
        return r;
    }
    *ret = s;
    return 0;
}

/* The only server holds everything. */
static int take_all(struct pg_store *s, struct err *e)
{
    AUTO_BUF(sql, 1024);
    int r = buf_addf(&sql,
                     "UPDATE opensandbox_sandboxes SET holder = '%s' WHERE holder <> '%s';"
                     "UPDATE opensandbox_records SET holder = '%s' WHERE holder <> '%s'"
                     " AND kind NOT IN ('tenant', 'api_key', 'cluster');"
                     "DELETE FROM opensandbox_servers",
                     s->holder, s->holder, s->holder, s->holder);

    return r < 0 ? r : pg_exec(s, sql.p, NULL, 0, e);
}

/* Rows without a holder are of a server that knew none, and only on its machine they run. */
static int check_held(struct pg_store *s, struct err *e)
{
    char count[32] = "";
    int r = pg_exec(s,
                    "SELECT (SELECT count(*) FROM opensandbox_sandboxes WHERE holder = '') +"
                    " (SELECT count(*) FROM opensandbox_records WHERE holder = ''"
                    " AND kind NOT IN ('tenant', 'api_key', 'cluster'))",
                    count, sizeof(count), e);

    if (r == 0 && strcmp(count, "0") != 0)
        return err_set(e, EINVAL,
                       "%s rows are of an older server: start that server once without "
                       "cluster.advertise",
                       count);
    return r;
}

static bool is_holder(const char *text)
{
    return strspn(text, "0123456789abcdef-") == strlen(text);
}

int store_open_postgres(const struct store_postgres *conf, struct store **ret_store, struct err *e)
{
    struct pg_store *s = NULL;
    int r;

    assert(is_holder(conf->holder) && (!conf->shared || conf->holder[0]));
    r = pg_new(conf, conf->shared ? PG_SHARED : PG_ALONE, &s, e);
    if (r == 0)
        r = conf->shared ? check_held(s, e) : take_all(s, e);
    if (r < 0) {
        if (s)
            pg_close(&s->base);
        return err_wrap(e, r, "store");
    }
    *ret_store = &s->base;
    return 0;
}

int store_pg_open(const char *dsn, struct store **ret_store, struct err *e)
{
    return store_open_postgres(&(struct store_postgres){.dsn = dsn, .holder = ""}, ret_store, e);
}

void pg_close(struct store *base)
{
    struct pg_store *s = pg_of(base);

    pg_disconnect(s);
    mem_wipe(s->dsn, strlen(s->dsn));
    free(s->dsn);
    free(s->holder);
    pg_library_unload(&s->pg);
    (void)pthread_mutex_destroy(&s->mutex);
    free(s);
}
