/* Named records of the store in SQLite. */
#include <errno.h>

#include "server/store/store_columns.h"
#include "server/store/store_sqlite_internal.h"

/* Binds the key, which is ?1 and ?2 of every statement but the insert. */
static struct sql_query record_query(struct sql_store *s, enum sql_stmt which, struct str kind,
                                     struct str id)
{
    struct sql_query q = sql_query_begin(s, which);

    sql_bind_text(&q, kind);
    sql_bind_text(&q, id);
    return q;
}

/* --- changes --- */

int sql_record_insert(struct store *base, const struct store_record *record, struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct sql_query q;
    int r = sql_begin(s, e);

    if (r >= 0) {
        q = record_query(s, SQL_RECORD_INSERT, record->kind, record->id);
        sql_bind_text(&q, record->state);
        sql_bind_text(&q, record->tenant);
        sql_bind_text(&q, record->owner);
        sql_bind_int(&q, record->created_us);
        sql_bind_text(&q, record->json);
        r = sql_query_run(&q, e);
    }
    return sql_end(s, r, "insert of record", record->id, e);
}

int sql_record_update(struct store *base, struct str kind, struct str id, struct str expected,
                      struct str state, struct str json, struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct sql_query q;
    int r = sql_begin(s, e);

    if (r >= 0) {
        q = record_query(s, SQL_RECORD_UPDATE, kind, id);
        sql_bind_option(&q, expected);
        sql_bind_text(&q, state);
        sql_bind_option(&q, json);
        r = sql_query_run(&q, e);
    }
    return sql_end(s, r, "update of record", id, e);
}

int sql_record_delete(struct store *base, struct str kind, struct str id, struct str expected,
                      struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct sql_query q;
    int r = sql_begin(s, e);

    if (r >= 0) {
        q = record_query(s, SQL_RECORD_DELETE, kind, id);
        sql_bind_option(&q, expected);
        r = sql_query_run(&q, e);
        s->to_forget |= r > 0;
    }
    return sql_end(s, r, "delete of record", id, e);
}

/* --- reading --- */

static int read_record(sqlite3_stmt *stmt, struct store_record *ret)
{
    struct str *const texts[] = {&ret->kind,   &ret->id,    &ret->state,
                                 &ret->tenant, &ret->owner, &ret->json};
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(texts) && r >= 0; i++)
        r = sql_read_text(stmt, (int)i, texts[i]);
    ret->created_us = sqlite3_column_int64(stmt, ARRAY_LEN(texts));
    return r;
}

int sql_record_get(struct store *base, struct str kind, struct str id, struct arena *a,
                   struct store_record *ret, struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct store_record record;
    struct sql_query q;
    int r, found;

    (void)pthread_mutex_lock(&s->mutex);
    q = record_query(s, SQL_RECORD_GET, kind, id);
    found = r = sql_query_step(&q, e);
    if (found > 0) {
        r = read_record(q.stmt, &record);
        if (r >= 0)
            r = store_record_copy(a, &record);
        if (r < 0)
            r = err_sys(e, -r, "its texts");
    }
    sql_query_end(&q);
    (void)pthread_mutex_unlock(&s->mutex);
    if (r < 0)
        return err_wrap(e, r, "store: read record '%.*s'", STR_ARG(id));
    if (found)
        *ret = record;
    return found;
}

static int each_record(struct sql_query *q, store_record_fn *visit, void *user, struct err *e)
{
    for (;;) {
        struct store_record record = {0};
        int r = sql_query_step(q, e);

        if (r <= 0)
            return r;
        r = read_record(q->stmt, &record);
        if (r < 0)
            return err_sys(e, -r, "a record");
        r = visit(user, &record);
        if (r != 0)
            return r;
    }
}

int sql_record_each(struct store *base, struct str kind, store_record_fn *visit, void *user,
                    struct err *e)
{
    struct sql_store *s = sql_of(base);
    struct sql_query q;
    int r;

    (void)pthread_mutex_lock(&s->mutex);
    q = sql_query_begin(s, SQL_RECORD_EACH);
    sql_bind_text(&q, kind);
    r = each_record(&q, visit, user, e);
    sql_query_end(&q);
    (void)pthread_mutex_unlock(&s->mutex);
    return r < 0 ? err_wrap(e, r, "store: list records of kind '%.*s'", STR_ARG(kind)) : r;
}
