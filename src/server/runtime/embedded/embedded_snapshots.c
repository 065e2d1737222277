/* embedded_snapshots.c - makes and removes snapshots: the broker copies what a sandbox wrote into a
 * layer, which goes above the layers that the sandbox was made of.
 *
 *   <id>.part -> copied -> (merged with those below, when there are many) -> <id> -> <id>.json */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/runtime/embedded/embedded_internal.h"

enum {
    COPY_WAIT_MS = 16 * 60 * 1000, /* the broker ends it earlier */
    CHAIN_MAX = 4, /* layers of snapshots above each other; more are merged into one */
    CHAIN_KEPT_MAX = PLAN_LAYERS_MAX - IMAGE_LAYERS_MAX, /* that any image takes above it */
    NAME_ROOM = ID_UUID_MAX + 16,
};

static_assert(CHAIN_MAX < CHAIN_KEPT_MAX, "what cannot be merged is kept");

#define PART_SUFFIX   ".part"
#define MERGED_SUFFIX ".merged"

/* One snapshot under way. */
struct making {
    struct embedded *em;
    struct runtime_snapshot *snapshot;
    char id[ID_UUID_MAX];
    char sandbox[PLAN_ID_MAX];
    char part[NAME_ROOM], merged[NAME_ROOM];
    struct embedded_source below; /* what the sandbox was made of */
    struct embedded_source made;
    struct broker_copied copied;
    int layers[PLAN_LAYERS_MAX], dir; /* of a call to the broker */
    int memory;                       /* directory for memory; -EBADF = none */
    size_t layer_count;
};

/* --- copies of the broker, which can be cancelled --- */

/* Of a task that is under way. */
struct ongoing {
    struct embedded_work work;
    int sock;
    bool cancelled;
};

static void cancel_copy(struct embedded_work *work)
{
    struct ongoing *o = container_of(work, struct ongoing, work);

    o->cancelled = true;
    if (o->sock >= 0)
        (void)shutdown(o->sock, SHUT_RDWR); /* ends the broker's work, and our wait for it */
}

/* True when it was cancelled. */
static bool set_ongoing(struct making *m, int sock)
{
    struct ongoing *o = m->snapshot->task.of_runtime;
    bool cancelled;

    (void)pthread_mutex_lock(&m->em->layers.work_lock);
    o->sock = sock;
    cancelled = o->cancelled;
    (void)pthread_mutex_unlock(&m->em->layers.work_lock);
    return cancelled;
}

/* Makes snapshots/<name>, has the broker fill it, and waits for that. */
static int copy_into(struct making *m, const char *name, embedded_call_fn *start, struct err *e)
{
    auto_fd sock = -EBADF;
    int r;

    if (mkdirat(m->em->layers.dir, name, 0700) < 0)
        return err_sys(e, errno, "make a directory for the layer");
    m->dir = openat(m->em->layers.dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = m->dir < 0 ? err_sys(e, errno, "open the directory of the layer")
                   : embedded_call(m->em, start, m, e);
    fd_close(m->dir);
    if (r < 0)
        return r;
    sock = r;
    m->copied = (struct broker_copied){0};
    r = set_ongoing(m, sock) ? -ECANCELED : broker_copied_result(sock, COPY_WAIT_MS, &m->copied, e);
    return set_ongoing(m, -EBADF) ? err_set(e, ECANCELED, "the server is stopping") : r;
}

static int start_snapshot(void *user, struct broker_client *client, struct err *e)
{
    struct making *m = user;

    return broker_snapshot(client, m->sandbox, m->dir, m->memory, e);
}

static int start_merge(void *user, struct broker_client *client, struct err *e)
{
    struct making *m = user;

    return broker_merge(client, m->layers, m->layer_count, true, m->dir, e);
}

/* --- making --- */

static int open_memory(struct making *m, struct err *e)
{
    char name[NAME_ROOM];

    if (!m->snapshot->memory)
        return 0;
    (void)snprintf(name, sizeof(name), "%s" EMBEDDED_MEMORY_SUFFIX, m->id);
    if (mkdirat(m->em->layers.dir, name, 0700) < 0)
        return err_sys(e, errno, "make a directory for the memory");
    m->memory = openat(m->em->layers.dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return m->memory < 0 ? err_sys(e, errno, "open the directory for the memory") : 0;
}

static int rename_layer(const struct making *m, const char *from, struct err *e)
{
    return renameat(m->em->layers.dir, from, m->em->layers.dir, m->id) < 0
               ? err_sys(e, errno, "name the layer")
               : 0;
}

/* The new layer above those below: as they are. */
static int keep_chain(struct making *m, struct err *e)
{
    if (m->below.count == CHAIN_KEPT_MAX)
        return err_set(e, E2BIG, "more than %d snapshots above each other, which were not merged",
                       CHAIN_KEPT_MAX);
    memcpy(m->made.layers[1], m->below.layers[0], m->below.count * sizeof(m->below.layers[0]));
    m->made.count = m->below.count + 1;
    return rename_layer(m, m->part, e);
}

static int merge(struct making *m, struct err *e)
{
    int r = embedded_source_open(m->em, &m->below, m->layers + 1, e);

    if (r < 0)
        return r;
    m->layer_count = m->below.count + 1;
    m->layers[0] = openat(m->em->layers.dir, m->part, O_PATH | O_DIRECTORY | O_CLOEXEC);
    r = m->layers[0] < 0 ? err_sys(e, errno, "open the new layer")
                         : copy_into(m, m->merged, start_merge, e);
    for (size_t i = 0; i < m->layer_count; i++)
        fd_close(m->layers[i]);
    if (r == 0)
        r = rename_layer(m, m->merged, e);
    return r;
}

/* Merged layers share their files by hard links, so this takes no space and each may go. */
static int settle_chain(struct making *m, struct err *e)
{
    struct err why = {0};

    if (m->below.count < CHAIN_MAX)
        return keep_chain(m, e);
    if (merge(m, &why) == 0) {
        m->made.count = 1;
        return embedded_layer_erase(m->em, m->part, e);
    }
    if (why.code == ECANCELED)
        return err_set(e, ECANCELED, "%s", why.msg);
    log_event(LOG_WARN, "cannot merge layers of snapshots, keeping them",
              LOG_STR("snapshot", m->id), LOG_STR("error", why.msg));
    return keep_chain(m, e);
}

static int make(struct making *m, struct err *e)
{
    char name[NAME_ROOM];
    int r = open_memory(m, e);

    if (r == 0)
        r = copy_into(m, m->part, start_snapshot, e);
    fd_close(take_fd(&m->memory));
    if (r < 0)
        return r;
    m->made.size_bytes = m->snapshot->size_bytes = m->copied.bytes;
    m->made.frozen_us = m->snapshot->frozen_us = m->copied.frozen_us;
    memcpy(m->made.base, m->below.base, sizeof(m->made.base));
    memcpy(m->made.layers[0], m->id, sizeof(m->id));
    r = settle_chain(m, e);
    if (r < 0)
        return r;
    (void)snprintf(name, sizeof(name), "%s.json", m->id);
    r = embedded_source_write(m->em, m->em->layers.dir, name, &m->made, true, e);
    return r < 0 ? r : 1;
}

int embedded_snapshot(struct runtime *r, struct runtime_snapshot *s, struct err *e)
{
    auto_free struct making *m = mem_new(struct making);
    struct ongoing ongoing = {.work = {cancel_copy}, .sock = -EBADF};
    auto_fd dir = -EBADF;
    int result;

    m->em = container_of(r, struct embedded, base);
    m->snapshot = s;
    m->memory = -EBADF;
    if (!plan_id_is_valid(s->snapshot_id) || str_copy(m->id, sizeof(m->id), s->snapshot_id) < 0 ||
        str_copy(m->sandbox, sizeof(m->sandbox), s->id) < 0)
        return err_set(e, EINVAL, "'%.*s' cannot be the id of a snapshot", STR_ARG(s->snapshot_id));
    (void)snprintf(m->part, sizeof(m->part), "%s" PART_SUFFIX, m->id);
    (void)snprintf(m->merged, sizeof(m->merged), "%s" MERGED_SUFFIX, m->id);
    dir = embedded_open_sandbox(m->em, s->id, e);
    if (dir < 0)
        return dir;
    result = embedded_source_hold(m->em, dir, EMBEDDED_SOURCE_FILE, &m->below, e);
    if (result == -ENOENT)
        return err_set(e, ENOENT,
                       "an older server made the sandbox, and left no note of its image");
    if (result < 0)
        return result;
    (void)pthread_mutex_lock(&m->em->layers.work_lock);
    s->task.of_runtime = &ongoing.work;
    (void)pthread_mutex_unlock(&m->em->layers.work_lock);
    result = make(m, e);
    (void)pthread_mutex_lock(&m->em->layers.work_lock);
    s->task.of_runtime = NULL;
    (void)pthread_mutex_unlock(&m->em->layers.work_lock);
    embedded_source_release(m->em, &m->below);
    return result;
}

/* --- removing, finding --- */

static int snapshot_file(struct str id, char ret[NAME_ROOM], struct err *e)
{
    char text[ID_UUID_MAX];

    if (!plan_id_is_valid(id) || str_copy(text, sizeof(text), id) < 0)
        return err_set(e, ENOENT, "'%.*s' cannot be the id of a snapshot", STR_ARG(id));
    (void)snprintf(ret, NAME_ROOM, "%s.json", text);
    return 0;
}

int embedded_snapshot_memory(struct embedded *em, struct str snapshot_id)
{
    char name[NAME_ROOM];
    int fd;

    if (!plan_id_is_valid(snapshot_id) || snapshot_id.n >= ID_UUID_MAX)
        return -ENOENT;
    (void)snprintf(name, sizeof(name), "%.*s" EMBEDDED_MEMORY_SUFFIX, STR_ARG(snapshot_id));
    fd = openat(em->layers.dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int embedded_snapshot_source(struct embedded *em, struct str snapshot_id,
                             struct embedded_source *ret, struct err *e)
{
    char name[NAME_ROOM];
    int r = snapshot_file(snapshot_id, name, e);

    return r < 0 ? r : embedded_source_read(em->layers.dir, name, ret, e);
}

/* The layer that has its name may be in use: it goes with its last user. One that nothing names is
 * of a snapshot that failed at its end. */
static int erase_rest(struct embedded *em, struct str id, struct err *e)
{
    static const char *const suffixes[] = {PART_SUFFIX, MERGED_SUFFIX, EMBEDDED_MEMORY_SUFFIX, ""};
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(suffixes); i++) {
        char name[NAME_ROOM];

        (void)snprintf(name, sizeof(name), "%.*s%s", STR_ARG(id), suffixes[i]);
        (void)pthread_mutex_lock(&em->layers.lock);
        if (!em->layers.doubtful && !map_has(&em->layers.users, str_of(name)))
            r = embedded_layer_erase(em, name, e);
        (void)pthread_mutex_unlock(&em->layers.lock);
    }
    return r;
}

int embedded_snapshot_remove(struct runtime *r, struct str snapshot_id, struct err *e)
{
    struct embedded *em = container_of(r, struct embedded, base);
    char name[NAME_ROOM];
    int result = snapshot_file(snapshot_id, name, e), rest;

    if (result < 0)
        return result == -ENOENT ? 0 : result;
    result = embedded_source_remove(em, em->layers.dir, name, e);
    rest = result < 0 ? result : erase_rest(em, snapshot_id, e);
    return rest < 0 ? rest : result;
}

int embedded_snapshot_each(struct runtime *r, runtime_snapshot_visit_fn *visit, void *user,
                           struct err *e)
{
    struct embedded *em = container_of(r, struct embedded, base);
    auto_free struct embedded_source *s = mem_new(struct embedded_source);
    DIR *list = fdopendir(openat(em->layers.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *entry;

    if (!list)
        return err_sys(e, errno, "list the snapshots");
    while ((entry = readdir(list))) {
        struct str id = str_of(entry->d_name);

        if (!str_ends(id, STR(".json")) || embedded_source_read(em->layers.dir, id.p, s, NULL) < 0)
            continue;
        id.n -= STR(".json").n;
        if (plan_id_is_valid(id))
            visit(user, id, s->size_bytes);
    }
    (void)closedir(list);
    return 0;
}
