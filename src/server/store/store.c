/* The store's calls: each checks what every implementation relies on, and passes it on. */
#include "server/store/store.h"

#include <assert.h>
#include <errno.h>

#include "server/store/store_ops.h"

static store_open_fn *const store_types[] = {
    [STORE_SQLITE] = store_sqlite_open,
    [STORE_POSTGRES] = store_pg_open,
};

int store_open(enum store_type type, const char *where, struct store **ret_store, struct err *e)
{
    assert(type < ARRAY_LEN(store_types));
    return store_types[type](where, ret_store, e);
}

void store_close(struct store *s)
{
    if (s)
        s->ops->close(s);
}

/* --- limits --- */

struct text_limit {
    const char *name;
    size_t offset;
    size_t bytes_max;
};

#define ROW_AT(field) offsetof(struct store_sandbox, field)
static const struct text_limit row_limits[] = {
    {"id",          ROW_AT(id),          STORE_ID_MAX     },
    {"reason",      ROW_AT(reason),      STORE_REASON_MAX },
    {"message",     ROW_AT(message),     STORE_MESSAGE_MAX},
    {"image",       ROW_AT(image),       STORE_NAME_MAX   },
    {"snapshot_id", ROW_AT(snapshot_id), STORE_NAME_MAX   },
    {"os",          ROW_AT(os),          STORE_NAME_MAX   },
    {"arch",        ROW_AT(arch),        STORE_NAME_MAX   },
    {"entrypoint",  ROW_AT(entrypoint),  STORE_JSON_MAX   },
    {"metadata",    ROW_AT(metadata),    STORE_JSON_MAX   },
    {"token",       ROW_AT(token),       STORE_NAME_MAX   },
    {"spec",        ROW_AT(spec),        STORE_JSON_MAX   },
    {"tenant",      ROW_AT(tenant),      STORE_NAME_MAX   },
    {"owner",       ROW_AT(owner),       STORE_NAME_MAX   },
};

#define RECORD_AT(field) offsetof(struct store_record, field)
static const struct text_limit record_limits[] = {
    {"kind",   RECORD_AT(kind),   STORE_WORD_MAX},
    {"id",     RECORD_AT(id),     STORE_NAME_MAX},
    {"state",  RECORD_AT(state),  STORE_WORD_MAX},
    {"tenant", RECORD_AT(tenant), STORE_NAME_MAX},
    {"owner",  RECORD_AT(owner),  STORE_NAME_MAX},
    {"json",   RECORD_AT(json),   STORE_JSON_MAX},
};

static int check_text(const char *name, struct str text, size_t bytes_max, struct err *e)
{
    if (text.n > bytes_max)
        return err_set(e, EMSGSIZE, "store: %s has %zu bytes, and may have %zu", name, text.n,
                       bytes_max);
    return 0;
}

static int check_texts(const void *in, const struct text_limit *limits, size_t count, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < count && r >= 0; i++)
        r = check_text(limits[i].name, *(const struct str *)((const char *)in + limits[i].offset),
                       limits[i].bytes_max, e);
    return r;
}

static int check_status(const struct store_status *status, struct err *e)
{
    int r = check_text("reason", status->reason, STORE_REASON_MAX, e);

    return r < 0 ? r : check_text("message", status->message, STORE_MESSAGE_MAX, e);
}

/* --- sandboxes --- */

int store_insert(struct store *s, const struct store_sandbox *row, struct err *e)
{
    int r = check_texts(row, row_limits, ARRAY_LEN(row_limits), e);

    return r < 0 ? r : s->ops->insert(s, row, e);
}

int store_set_status(struct store *s, struct str id, unsigned from,
                     const struct store_status *status, struct err *e)
{
    int r = check_status(status, e);

    return r < 0 ? r : s->ops->set_status(s, id, from, status, e);
}

int store_renew(struct store *s, struct str id, unsigned from, int64_t expected_us,
                int64_t expires_us, struct err *e)
{
    if (expires_us <= 0)
        return err_set(e, EINVAL, "store: an expiry cannot be removed");
    return s->ops->renew(s, id, from, expected_us, expires_us, e);
}

int store_expire(struct store *s, struct str id, int64_t expires_us,
                 const struct store_status *status, struct err *e)
{
    int r = check_status(status, e);

    assert(status->state == SANDBOX_STOPPING);
    return r < 0 ? r : s->ops->expire(s, id, expires_us, status, e);
}

int store_expiry(struct store *s, struct str id, int64_t *ret_us, struct err *e)
{
    return s->ops->expiry ? s->ops->expiry(s, id, ret_us, e) : 0;
}

int store_set_metadata(struct store *s, struct str id, struct str metadata, struct err *e)
{
    int r = check_text("metadata", metadata, STORE_JSON_MAX, e);

    return r < 0 ? r : s->ops->set_metadata(s, id, metadata, e);
}

int store_claim(struct store *s, struct str expected, const struct store_sandbox *row,
                struct err *e)
{
    int r = check_texts(row, row_limits, ARRAY_LEN(row_limits), e);

    return r < 0 ? r : s->ops->claim(s, expected, row, e);
}

int store_delete(struct store *s, struct str id, struct err *e)
{
    return s->ops->remove(s, id, e);
}

int store_each(struct store *s, store_visit_fn *visit, void *user, struct err *e)
{
    return s->ops->each(s, visit, user, e);
}

int store_history(struct store *s, struct str id, uint32_t limit, store_event_fn *visit, void *user,
                  struct err *e)
{
    return s->ops->history(s, id, limit, visit, user, e);
}

/* --- records --- */

int store_record_insert(struct store *s, const struct store_record *record, struct err *e)
{
    int r = check_texts(record, record_limits, ARRAY_LEN(record_limits), e);

    if (r < 0)
        return r;
    if (!record->kind.n || !record->id.n)
        return err_set(e, EINVAL, "store: a record needs a kind and an id");
    return s->ops->record_insert(s, record, e);
}

int store_record_update(struct store *s, struct str kind, struct str id, struct str expected,
                        struct str state, struct str json, struct err *e)
{
    int r = check_text("state", state, STORE_WORD_MAX, e);

    if (r >= 0)
        r = check_text("json", json, STORE_JSON_MAX, e);
    return r < 0 ? r : s->ops->record_update(s, kind, id, expected, state, json, e);
}

int store_record_delete(struct store *s, struct str kind, struct str id, struct str expected,
                        struct err *e)
{
    return s->ops->record_delete(s, kind, id, expected, e);
}

int store_record_get(struct store *s, struct str kind, struct str id, struct arena *a,
                     struct store_record *ret, struct err *e)
{
    return s->ops->record_get(s, kind, id, a, ret, e);
}

int store_record_each(struct store *s, struct str kind, store_record_fn *visit, void *user,
                      struct err *e)
{
    return s->ops->record_each(s, kind, visit, user, e);
}

/* --- the whole --- */

int store_probe(struct store *s, struct err *e)
{
    return s->ops->probe(s, e);
}

int store_checkpoint(struct store *s, struct err *e)
{
    return s->ops->checkpoint(s, e);
}

int store_forget(struct store *s, struct err *e)
{
    return s->ops->forget(s, e);
}
