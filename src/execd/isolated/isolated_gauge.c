#include "execd/isolated/isolated_gauge.h"

#include <errno.h>
#include <sys/statfs.h>

#include "base/mem.h"
#include "base/time.h"
#include "execd/isolated/isolated_layer.h"
#include "execd/tree/slice.h"
#include "execd/tree/walk.h"

enum { BLOCK_BYTES = 512, REST_PER_WALK = 20, BROKEN_WALKS_MAX = 20 };
#define NS_PER_S UINT64_C(1000000000)

struct isolated_gauge {
    struct isolated *session;
    struct loop *loop;
    void (*on_outgrown)(struct isolated *s);
    uint64_t bytes_max;

    struct loop_timer timer;
    uint64_t bytes, free_bytes; /* layer size and free space at the last walk */
    uint64_t walked_ns;         /* when the last walk began; 0 = never */

    struct slice slice;
    struct walk walk;
    uint64_t counted; /* in the current walk */
    unsigned broken;  /* consecutive walks that failed */
};

/* Free bytes, plus the assumed size of all free inodes. */
static uint64_t bytes_free(const struct isolated_gauge *g)
{
    struct statfs fs;

    if (fstatfs(g->session->box.fds[BOX_FD_UPPER], &fs) < 0)
        return 0; /* as if the layer took all of it: the walk will tell */
    return (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize + (uint64_t)fs.f_ffree * GAUGE_ENTRY_BYTES;
}

static void gauge_on_time(struct loop_timer *t);

static void gauge_rest(struct isolated_gauge *g, uint64_t ns)
{
    loop_timer_set(g->loop, &g->timer, loop_now_ns(g->loop) + ns, gauge_on_time);
}

/* Pauses in proportion to the walk's duration, so that long walks do not run all the time. */
static void gauge_walked(struct isolated_gauge *g)
{
    uint64_t took_ns = time_mono_ns() - g->walked_ns, least_ns = GAUGE_LOOK_MS * TIME_NS_PER_MS;

    walk_done(&g->walk);
    g->walk = (struct walk){0};
    g->bytes = g->counted;
    gauge_rest(g, took_ns * REST_PER_WALK > least_ns ? took_ns * REST_PER_WALK : least_ns);
}

/* A file with several hard links is seen several times, so each counts for a part. */
static uint64_t entry_bytes(const struct stat *st)
{
    uint64_t names = S_ISDIR(st->st_mode) || st->st_nlink == 0 ? 1 : st->st_nlink;

    return GAUGE_ENTRY_BYTES + (uint64_t)st->st_blocks * BLOCK_BYTES / names;
}

/* False if the entry no longer exists. */
static bool is_trouble(int r)
{
    return r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ELOOP;
}

/* A directory was moved during the walk, or descriptors ran out. That says nothing about the layer,
 * and the next walk may succeed. Only repeated failures are treated as an attempt to hide its
 * size. */
static void gauge_broken(struct isolated_gauge *g)
{
    if (++g->broken >= BROKEN_WALKS_MAX) {
        g->on_outgrown(g->session);
        return;
    }
    if (g->counted < g->bytes)
        g->counted = g->bytes;
    gauge_walked(g);
    g->walked_ns = 0;
}

static bool gauge_step(struct slice *slice)
{
    struct isolated_gauge *g = container_of(slice, struct isolated_gauge, slice);
    struct walk_entry entry;
    int r = walk_next(&g->walk, &entry, NULL), entered = 0;

    if (r == WALK_ENTRY) {
        g->counted += entry_bytes(&entry.st);
        if (S_ISDIR(entry.st.st_mode))
            entered = walk_enter(&g->walk, &entry, NULL);
    }
    if (g->counted > g->bytes_max) {
        g->on_outgrown(g->session);
        return false;
    }
    if (r < 0 || is_trouble(entered)) {
        gauge_broken(g);
        return false;
    }
    if (r != WALK_END)
        return true;
    g->broken = 0;
    gauge_walked(g);
    return false;
}

static void gauge_walk(struct isolated_gauge *g)
{
    char root[LAYER_PATH_MAX];

    g->walked_ns = time_mono_ns();
    g->free_bytes = bytes_free(g);
    g->counted = 0;
    layer_path(g->session, root);
    if (walk_open(&g->walk, root, NULL) < 0)
        gauge_walked(g); /* for example, no memory; the next may succeed */
    else
        slice_start(&g->slice, g->loop, gauge_step);
}

static void gauge_on_time(struct loop_timer *t)
{
    struct isolated_gauge *g = container_of(t, struct isolated_gauge, timer);
    uint64_t now_free = bytes_free(g);
    uint64_t grown = g->free_bytes > now_free ? g->free_bytes - now_free : 0;

    if (g->walked_ns == 0 || g->bytes + grown > g->bytes_max ||
        time_mono_ns() - g->walked_ns >= GAUGE_WALK_S * NS_PER_S)
        gauge_walk(g);
    else
        gauge_rest(g, GAUGE_LOOK_MS * TIME_NS_PER_MS);
}

struct isolated_gauge *gauge_start(struct isolated *s, uint64_t bytes_max,
                                   void (*on_outgrown)(struct isolated *s))
{
    struct isolated_gauge *g = mem_new(struct isolated_gauge);

    *g = (struct isolated_gauge){
        .session = s,
        .loop = isolated_loop(s->all),
        .on_outgrown = on_outgrown,
        .bytes_max = bytes_max,
    };
    gauge_rest(g, 0);
    return g;
}

void gauge_stop(struct isolated_gauge *g)
{
    if (!g)
        return;
    loop_timer_stop(g->loop, &g->timer);
    slice_stop(&g->slice);
    walk_done(&g->walk);
    free(g);
}
