/* store_ops.h - the interface of an implementation of the store. store.c checks the arguments, and
 * calls it with what store.h promises: each call is one transaction, from any thread. */
#pragma once

#include "server/store/store.h"

struct store_ops {
    void (*close)(struct store *s);
    int (*insert)(struct store *s, const struct store_sandbox *row, struct err *e);
    int (*set_status)(struct store *s, struct str id, unsigned from,
                      const struct store_status *status, struct err *e);
    int (*renew)(struct store *s, struct str id, unsigned from, int64_t expected_us,
                 int64_t expires_us, struct err *e);
    int (*expire)(struct store *s, struct str id, int64_t expires_us,
                  const struct store_status *status, struct err *e);
    int (*expiry)(struct store *s, struct str id, int64_t *ret_us, struct err *e); /* may be NULL */
    int (*set_metadata)(struct store *s, struct str id, struct str metadata, struct err *e);
    int (*claim)(struct store *s, struct str expected, const struct store_sandbox *row,
                 struct err *e);
    int (*remove)(struct store *s, struct str id, struct err *e);
    int (*each)(struct store *s, store_visit_fn *visit, void *user, struct err *e);
    int (*history)(struct store *s, struct str id, uint32_t limit, store_event_fn *visit,
                   void *user, struct err *e);
    int (*record_insert)(struct store *s, const struct store_record *record, struct err *e);
    int (*record_update)(struct store *s, struct str kind, struct str id, struct str expected,
                         struct str state, struct str json, struct err *e);
    int (*record_delete)(struct store *s, struct str kind, struct str id, struct str expected,
                         struct err *e);
    int (*record_get)(struct store *s, struct str kind, struct str id, struct arena *a,
                      struct store_record *ret, struct err *e);
    int (*record_each)(struct store *s, struct str kind, store_record_fn *visit, void *user,
                       struct err *e);
    int (*probe)(struct store *s, struct err *e);
    int (*checkpoint)(struct store *s, struct err *e);
    int (*forget)(struct store *s, struct err *e);
};

struct store {
    const struct store_ops *ops;
};

/* Opens a store of one type: store_open. */
typedef int store_open_fn(const char *where, struct store **ret_store, struct err *e);

store_open_fn store_sqlite_open, store_pg_open;
