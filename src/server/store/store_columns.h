/* store_columns.h - rows in memory: what implementations of the store share. */
#pragma once

#include "server/store/store.h"

/* In the order of store_columns. */
#define STORE_COLUMNS                                                                              \
    "id, state, reason, message, created_us, since_us, expires_us, image, snapshot_id, os, arch, " \
    "entrypoint, metadata, token, spec, renew_extend_s, tenant, owner"
enum { STORE_COLUMN_COUNT = 18 };

enum store_column_kind { COLUMN_TEXT, COLUMN_TIME, COLUMN_STATE, COLUMN_U32 };

/* A field of struct store_sandbox. */
struct store_column {
    enum store_column_kind kind;
    size_t offset;
};
extern const struct store_column store_columns[STORE_COLUMN_COUNT];

/* The number in a column that is not a text. */
int64_t store_column_int(const struct store_column *column, const struct store_sandbox *row);
static inline struct str store_column_text(const struct store_column *column,
                                           const struct store_sandbox *row)
{
    return *(const struct str *)((const char *)row + column->offset);
}
/* -EUCLEAN: a state that does not exist. CHECKs keep them in range, but files can be edited without
 * those. */
int store_column_set_int(const struct store_column *column, struct store_sandbox *row,
                         int64_t value);
static inline void store_column_set_text(const struct store_column *column,
                                         struct store_sandbox *row, struct str text)
{
    *(struct str *)((char *)row + column->offset) = text;
}
int store_state_of(int64_t number, enum sandbox_state *ret); /* -EUCLEAN as above */

/* Moves the texts of a record into the arena. -ENOMEM past its limit. */
int store_record_copy(struct arena *a, struct store_record *record);
