/* Named records of the store in PostgreSQL. */
#include <errno.h>

#include "server/store/store_columns.h"
#include "server/store/store_pg_internal.h"

/* Kinds that are everybody's have no holder. */
static struct str holder_of(const struct pg_store *s, struct str kind)
{
    static const struct str shared[] = {STORE_SHARED_KINDS};

    for (size_t i = 0; i < ARRAY_LEN(shared); i++)
        if (str_eq(kind, shared[i]))
            return STR("");
    return str_of(s->holder);
}

/* Binds the key, which is $1 to $3 of every statement. */
static struct pg_query record_query(struct store *base, enum pg_stmt which, struct str kind,
                                    struct str id)
{
    struct pg_query q = pg_begin(pg_of(base), which);

    pg_bind_text(&q, kind);
    pg_bind_text(&q, id);
    pg_bind_text(&q, holder_of(pg_of(base), kind));
    return q;
}

/* --- changes --- */

int pg_record_insert(struct store *base, const struct store_record *record, struct err *e)
{
    struct pg_query q = record_query(base, PG_RECORD_INSERT, record->kind, record->id);

    pg_bind_text(&q, record->state);
    pg_bind_text(&q, record->tenant);
    pg_bind_text(&q, record->owner);
    pg_bind_int(&q, record->created_us);
    pg_bind_text(&q, record->json);
    return pg_end(&q, pg_run(&q, e), "insert of record", record->id, e);
}

int pg_record_update(struct store *base, struct str kind, struct str id, struct str expected,
                     struct str state, struct str json, struct err *e)
{
    struct pg_query q = record_query(base, PG_RECORD_UPDATE, kind, id);

    pg_bind_option(&q, expected);
    pg_bind_text(&q, state);
    pg_bind_option(&q, json);
    return pg_end(&q, pg_run(&q, e), "update of record", id, e);
}

int pg_record_delete(struct store *base, struct str kind, struct str id, struct str expected,
                     struct err *e)
{
    struct pg_query q = record_query(base, PG_RECORD_DELETE, kind, id);

    pg_bind_option(&q, expected);
    return pg_end(&q, pg_run(&q, e), "delete of record", id, e);
}

/* --- reading --- */

static struct store_record read_record(const struct pg_query *q)
{
    return (struct store_record){
        .kind = pg_read_text(q, 0),
        .id = pg_read_text(q, 1),
        .state = pg_read_text(q, 2),
        .tenant = pg_read_text(q, 3),
        .owner = pg_read_text(q, 4),
        .json = pg_read_text(q, 5),
        .created_us = pg_read_int(q, 6),
    };
}

int pg_record_get(struct store *base, struct str kind, struct str id, struct arena *a,
                  struct store_record *ret, struct err *e)
{
    struct pg_query q = record_query(base, PG_RECORD_GET, kind, id);
    int r = pg_step(&q, e);

    if (r > 0) {
        struct store_record record = read_record(&q);

        if (store_record_copy(a, &record) < 0)
            r = err_sys(e, ENOMEM, "its texts");
        else
            *ret = record;
    }
    return pg_end(&q, r, "read of record", id, e);
}

static int each_record(struct pg_query *q, store_record_fn *visit, void *user, struct err *e)
{
    for (;;) {
        struct store_record record;
        int r = pg_step(q, e);

        if (r <= 0)
            return r;
        record = read_record(q);
        r = visit(user, &record);
        if (r != 0)
            return r;
    }
}

int pg_record_each(struct store *base, struct str kind, store_record_fn *visit, void *user,
                   struct err *e)
{
    struct pg_query q = pg_begin(pg_of(base), PG_RECORD_EACH);

    pg_bind_text(&q, kind);
    pg_bind_text(&q, holder_of(pg_of(base), kind));
    return pg_end(&q, each_record(&q, visit, user, e), "list of records of kind", kind, e);
}
