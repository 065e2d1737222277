/* Statements of the store in PostgreSQL, each with a deadline: libpq's blocking calls have none. */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "server/store/store_pg_internal.h"

enum { STATEMENT_MS_MAX = 10 * 1000 };

/* --- errors --- */

/* SQLSTATEs as errnos; the first row whose text is a prefix counts. Others are EIO. */
static const struct {
    const char *state;
    int code;
} pg_codes[] = {
    {"23505", EEXIST    }, /* unique_violation */
    {"23",    EINVAL    }, /* other constraints */
    {"25006", EROFS     }, /* read_only_sql_transaction: a standby */
    {"53100", ENOSPC    }, /* disk_full */
    {"53200", ENOMEM    }, /* out_of_memory */
    {"54",    EMSGSIZE  }, /* program_limit_exceeded */
    {"55P03", EBUSY     }, /* lock_not_available */
    {"42501", EACCES    }, /* insufficient_privilege */
    {"28",    EACCES    }, /* invalid_authorization_specification */
    {"57014", ETIMEDOUT }, /* query_canceled: statement_timeout */
    {"57P",   ECONNRESET}, /* shutdown */
    {"08",    ECONNRESET}, /* connection exceptions */
};

static int code_of(const char *state)
{
    for (size_t i = 0; state && i < ARRAY_LEN(pg_codes); i++)
        if (strncmp(state, pg_codes[i].state, strlen(pg_codes[i].state)) == 0)
            return pg_codes[i].code;
    return EIO;
}

/* libpq ends its messages with a newline, and some have several lines. */
static int fail_with(int code, const char *message, struct err *e)
{
    struct str text = str_of(message ? message : ""), line;

    if (!str_cut(&text, '\n', &line))
        line = text;
    return err_set(e, code, "PostgreSQL: %.*s", STR_ARG(line));
}

static int fail_result(struct pg_store *s, const PGresult *result, struct err *e)
{
    const char *state = result ? s->pg.resultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text = result ? s->pg.resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;

    if (s->pg.status(s->conn) != CONNECTION_OK)
        return fail_with(ECONNRESET, text ? text : s->pg.errorMessage(s->conn), e);
    return fail_with(code_of(state), text ? text : s->pg.errorMessage(s->conn), e);
}

/* --- waiting --- */

/* Waits until PQgetResult() would not block. */
static int wait_result(struct pg_store *s, uint64_t deadline, struct err *e)
{
    for (;;) {
        struct pollfd p = {.fd = s->pg.socket(s->conn), .events = POLLIN};
        int unsent = s->pg.flush(s->conn), r;

        if (unsent < 0)
            return fail_with(ECONNRESET, s->pg.errorMessage(s->conn), e);
        if (unsent == 0 && !s->pg.isBusy(s->conn))
            return 0;
        if (unsent > 0)
            p.events |= POLLOUT;
        r = poll(&p, 1, deadline_left_ms(deadline));
        if (r < 0 && errno == EINTR)
            continue;
        if (r == 0)
            return err_set(e, ETIMEDOUT, "PostgreSQL does not answer");
        if (r < 0)
            return err_sys(e, errno, "poll");
        if (!s->pg.consumeInput(s->conn))
            return fail_with(ECONNRESET, s->pg.errorMessage(s->conn), e);
    }
}

void pg_disconnect(struct pg_store *s)
{
    if (s->conn)
        s->pg.finish(s->conn);
    s->conn = NULL;
}

/* Reads all that is left of a statement's answer. A connection on which that fails is closed: the
 * answer of one statement must not be taken for that of the next. */
static void drain(struct pg_store *s, uint64_t deadline)
{
    while (s->conn) {
        PGresult *result;

        if (wait_result(s, deadline, NULL) < 0 || s->pg.status(s->conn) != CONNECTION_OK) {
            pg_disconnect(s);
            return;
        }
        result = s->pg.getResult(s->conn);
        if (!result)
            return;
        s->pg.clear(result);
    }
}

static void keep_first_value(struct pg_store *s, const PGresult *result, char *ret, size_t size)
{
    if (!ret || s->pg.resultStatus(result) != PGRES_TUPLES_OK || s->pg.ntuples(result) < 1)
        return;
    (void)snprintf(ret, size, "%s", s->pg.getvalue(result, 0, 0));
}

/* Reads the results of what was just sent. */
static int finish_exec(struct pg_store *s, int sent, char *ret, size_t size, struct err *e)
{
    uint64_t deadline = deadline_in_ms(STATEMENT_MS_MAX);
    int r = sent ? 0 : fail_result(s, NULL, e);

    while (r == 0) {
        PGresult *result;

        r = wait_result(s, deadline, e);
        if (r < 0)
            break;
        result = s->pg.getResult(s->conn);
        if (!result)
            return 0;
        switch (s->pg.resultStatus(result)) {
        case PGRES_TUPLES_OK:
        case PGRES_COMMAND_OK:
            keep_first_value(s, result, ret, size);
            break;
        default:
            r = fail_result(s, result, e);
        }
        s->pg.clear(result);
    }
    drain(s, deadline);
    return r;
}

int pg_exec(struct pg_store *s, const char *sql, char *ret, size_t size, struct err *e)
{
    return finish_exec(s, s->pg.sendQuery(s->conn, sql), ret, size, e);
}

static void name_of(enum pg_stmt which, char name[static 16])
{
    (void)snprintf(name, 16, "osb%d", (int)which);
}

int pg_prepare(struct pg_store *s, enum pg_stmt which, struct err *e)
{
    char name[16];

    const char *text = which < PG_BASE_COUNT     ? pg_texts[which]
                       : which < PG_SHARED_COUNT ? pg_shared_texts[which - PG_BASE_COUNT]
                                                 : pg_cluster_texts[which - PG_SHARED_COUNT];

    name_of(which, name);
    return finish_exec(s, s->pg.sendPrepare(s->conn, name, text, 0, NULL), NULL, 0, e);
}

/* --- prepared statements --- */

struct pg_query pg_begin(struct pg_store *s, enum pg_stmt which)
{
    (void)pthread_mutex_lock(&s->mutex);
    return (struct pg_query){.store = s, .which = which};
}

void pg_bind_int(struct pg_query *q, int64_t value)
{
    int at = q->count++;

    q->numbers[at] = htobe64((uint64_t)value);
    q->lengths[at] = sizeof(q->numbers[at]);
    q->formats[at] = 1;
    q->is_number[at] = true;
}

void pg_bind_text(struct pg_query *q, struct str text)
{
    int at = q->count++;

    q->values[at] = text.n ? text.p : "";
    q->lengths[at] = (int)text.n;
    q->formats[at] = 1;
}

void pg_bind_option(struct pg_query *q, struct str text)
{
    if (text.p)
        pg_bind_text(q, text);
    else
        q->values[q->count++] = NULL;
}

/* Nothing is expected on an idle connection: what arrives there are the last words of a server that
 * ends. Found out here, nothing was sent yet, and a new connection serves as well. */
static void notice_loss(struct pg_store *s)
{
    struct pollfd p = {.events = POLLIN};

    if (!s->conn)
        return;
    p.fd = s->pg.socket(s->conn);
    if (s->pg.status(s->conn) != CONNECTION_OK || poll(&p, 1, 0) > 0)
        pg_disconnect(s);
}

static int send_query(struct pg_query *q, struct err *e)
{
    struct pg_store *s = q->store;
    char name[16];
    int r;

    notice_loss(s);
    if (s->in_transaction && !s->conn)
        return err_set(e, ECONNRESET, "PostgreSQL: the connection was lost");
    r = pg_connect(s, e);
    if (r < 0)
        return r;
    for (int i = 0; i < q->count; i++) /* now: q may have been copied since they were bound */
        if (q->is_number[i])
            q->values[i] = (const char *)&q->numbers[i];
    q->deadline = deadline_in_ms(STATEMENT_MS_MAX);
    name_of(q->which, name);
    if (!s->pg.sendQueryPrepared(s->conn, name, q->count, q->values, q->lengths, q->formats, 1))
        return fail_result(s, NULL, e);
    q->sent = true;
    (void)s->pg.setSingleRowMode(s->conn);
    return 0;
}

static void drop_row(struct pg_query *q)
{
    if (q->row)
        q->store->pg.clear(q->row);
    q->row = NULL;
}

/* The next result in q->row: 1 a row, 0 the end of a statement, which q->row describes. */
static int next_result(struct pg_query *q, struct err *e)
{
    struct pg_store *s = q->store;
    int r = q->sent ? 0 : send_query(q, e);

    drop_row(q);
    if (r == 0)
        r = wait_result(s, q->deadline, e);
    if (r < 0)
        return r;
    q->row = s->pg.getResult(s->conn);
    if (!q->row)
        return err_set(e, EPROTO, "PostgreSQL: no result");
    switch (s->pg.resultStatus(q->row)) {
    case PGRES_SINGLE_TUPLE:
        return 1;
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
        return 0;
    default:
        return fail_result(s, q->row, e);
    }
}

int pg_step(struct pg_query *q, struct err *e)
{
    return next_result(q, e);
}

int64_t pg_read_int(const struct pg_query *q, int column)
{
    uint64_t value = 0;

    if (q->store->pg.getlength(q->row, 0, column) == sizeof(value))
        memcpy(&value, q->store->pg.getvalue(q->row, 0, column), sizeof(value));
    return (int64_t)be64toh(value);
}

struct str pg_read_text(const struct pg_query *q, int column)
{
    return str_make(q->store->pg.getvalue(q->row, 0, column),
                    (size_t)q->store->pg.getlength(q->row, 0, column));
}

int pg_run(struct pg_query *q, struct err *e)
{
    int r = next_result(q, e);

    return r < 0 ? r : (int)strtol(q->store->pg.cmdTuples(q->row), NULL, 10);
}

void pg_finish(struct pg_query *q)
{
    drop_row(q);
    if (q->sent)
        drain(q->store, q->deadline);
    q->sent = false;
}

int pg_end(struct pg_query *q, int r, const char *what, struct str id, struct err *e)
{
    pg_finish(q);
    (void)pthread_mutex_unlock(&q->store->mutex);
    return r < 0 ? err_wrap(e, r, "store: %s '%.*s'", what, STR_ARG(id)) : r;
}
