#include "server/store/store_columns.h"

#include <errno.h>

#define AT(field) offsetof(struct store_sandbox, field)
const struct store_column store_columns[STORE_COLUMN_COUNT] = {
    {COLUMN_TEXT,  AT(id)            },
    {COLUMN_STATE, AT(state)         },
    {COLUMN_TEXT,  AT(reason)        },
    {COLUMN_TEXT,  AT(message)       },
    {COLUMN_TIME,  AT(created_us)    },
    {COLUMN_TIME,  AT(since_us)      },
    {COLUMN_TIME,  AT(expires_us)    },
    {COLUMN_TEXT,  AT(image)         },
    {COLUMN_TEXT,  AT(snapshot_id)   },
    {COLUMN_TEXT,  AT(os)            },
    {COLUMN_TEXT,  AT(arch)          },
    {COLUMN_TEXT,  AT(entrypoint)    },
    {COLUMN_TEXT,  AT(metadata)      },
    {COLUMN_TEXT,  AT(token)         },
    {COLUMN_TEXT,  AT(spec)          },
    {COLUMN_U32,   AT(renew_extend_s)},
    {COLUMN_TEXT,  AT(tenant)        },
    {COLUMN_TEXT,  AT(owner)         },
};

int64_t store_column_int(const struct store_column *column, const struct store_sandbox *row)
{
    const void *field = (const char *)row + column->offset;

    switch (column->kind) {
    case COLUMN_TIME:
        return *(const int64_t *)field;
    case COLUMN_STATE:
        return *(const enum sandbox_state *)field;
    case COLUMN_U32:
        return *(const uint32_t *)field;
    case COLUMN_TEXT:
        break;
    }
    return 0;
}

int store_state_of(int64_t number, enum sandbox_state *ret)
{
    if (number < 0 || number >= SANDBOX_STATE_COUNT)
        return -EUCLEAN;
    *ret = (enum sandbox_state)number;
    return 0;
}

int store_column_set_int(const struct store_column *column, struct store_sandbox *row,
                         int64_t value)
{
    void *field = (char *)row + column->offset;

    switch (column->kind) {
    case COLUMN_TIME:
        *(int64_t *)field = value;
        return 0;
    case COLUMN_STATE:
        return store_state_of(value, field);
    case COLUMN_U32:
        *(uint32_t *)field = (uint32_t)value;
        return 0;
    case COLUMN_TEXT:
        break;
    }
    return 0;
}

int store_record_copy(struct arena *a, struct store_record *record)
{
    struct str *const texts[] = {&record->kind,   &record->id,    &record->state,
                                 &record->tenant, &record->owner, &record->json};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        *texts[i] = arena_str(a, *texts[i]);
        if (!texts[i]->p)
            return -ENOMEM;
    }
    return 0;
}
