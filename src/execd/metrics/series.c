#include "execd/metrics/series.h"

#include "base/mem.h"

enum { ROOM_FIRST = 8, INSTRUMENTS_MAX = 8 };

const double series_bounds_ms[SERIES_BOUNDS] = {
    0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000,
};

void series_set_done(struct series_set *s)
{
    free(s->rows);
    *s = (struct series_set){0};
}

static bool is_of(const struct series *row, const struct series_key *key)
{
    if (row->key.instrument != key->instrument)
        return false;
    return row->overflow ||
           (row->key.labels[0] == key->labels[0] && row->key.labels[1] == key->labels[1] &&
            row->key.status == key->status);
}

/* The last rows are reserved for overflow. An instrument's own rows are all older than its overflow
 * row, so they are found first. */
static struct series *find_or_make(struct series_set *s, const struct series_key *key)
{
    struct series *row;

    for (size_t i = 0; i < s->count; i++)
        if (is_of(&s->rows[i], key))
            return &s->rows[i];
    if (s->count == SERIES_MAX)
        return NULL;
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : ROOM_FIRST;
        s->rows = mem_realloc(s->rows, s->room * sizeof(*s->rows));
    }
    row = &s->rows[s->count++];
    *row = (struct series){.key = *key, .overflow = s->count > SERIES_MAX - INSTRUMENTS_MAX};
    return row;
}

static size_t bucket_of(double ms)
{
    size_t i = 0;

    while (i < SERIES_BOUNDS && ms > series_bounds_ms[i])
        i++;
    return i;
}

void series_set_add(struct series_set *s, const struct series_key *key, double ms)
{
    struct series *row = find_or_make(s, key);

    if (!row)
        return;
    if (row->count == 0 || ms < row->min_ms)
        row->min_ms = ms;
    if (row->count == 0 || ms > row->max_ms)
        row->max_ms = ms;
    row->count++;
    row->sum_ms += ms;
    row->buckets[bucket_of(ms)]++;
}
