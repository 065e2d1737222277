/* embedded_claims.c - volumes by name: volumes/<claim>, and what is known of each.
 *
 * claims/<claim> has one line, "<created, us since 1970> <bytes, 0 = no limit>". It is
 * written before the volume appears and removed after it is gone; one without a volume means
 * nothing, and a volume without one is of an older server. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/metadata.h"
#include "api/named_volume.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/runtime/embedded/embedded_internal.h"

#define RECORD_TEMP ".new" /* claims have no dot */

enum {
    RECORD_BYTES_MAX = 64,
    CLAIMS_MAX = 1 << 20,
    USES_MAX = 1 << 20,
    MEASURES_MAX = 256,
    MEASURE_LIST_MS = 10 * 1000, /* for all of a page */
    MEASURE_REST = 20,           /* a result counts this many times as long as it took */
    USERS_NAMED_MAX = 4,         /* in an error */
};

/* A result of counting, by claim. */
struct embedded_measure {
    char claim[NAME_MAX + 1];
    uint64_t until, bytes; /* until: a deadline */
    bool known;
};

struct record {
    int64_t created_us;
    uint64_t size_bytes;
};

/* --- records --- */

static int record_write(const struct embedded *em, const char *claim, const struct record *record,
                        struct err *e)
{
    char text[RECORD_BYTES_MAX];
    int n = snprintf(text, sizeof(text), "%" PRId64 " %" PRIu64 "\n", record->created_us,
                     record->size_bytes);
    auto_fd fd =
        openat(em->claims_dir, RECORD_TEMP, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : io_write_full(fd, str_make(text, (size_t)n), DEADLINE_NEVER);

    if (r == 0 &&
        (fsync(fd) < 0 || renameat(em->claims_dir, RECORD_TEMP, em->claims_dir, claim) < 0))
        r = -errno;
    return r < 0 ? err_sys(e, -r, "note the new volume") : 0;
}

/* Without one, the directory's own times must do. */
static int record_read(const struct embedded *em, const char *claim, struct record *ret)
{
    auto_fd fd = openat(em->claims_dir, claim, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char text[RECORD_BYTES_MAX];
    struct str rest, created;
    uint64_t created_us = 0;
    struct stat st;
    size_t n = 0;

    if (fstatat(em->volumes, claim, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    *ret = (struct record){.created_us = st.st_ctim.tv_sec * INT64_C(1000000)};
    if (fd < 0 || io_pread_full(fd, text, sizeof(text), 0, &n) < 0)
        return 0;
    rest = str_make(text, n);
    rest.n = str_find(rest, '\n');
    if (str_cut(&rest, ' ', &created) && str_to_u64(created, &created_us) == 0 &&
        created_us <= INT64_MAX && str_to_u64(rest, &ret->size_bytes) == 0)
        ret->created_us = (int64_t)created_us;
    return 0;
}

/* --- one volume --- */

static struct embedded_measure *measure_slot(struct embedded *em, const char *claim)
{
    struct embedded_measure *oldest = &em->measures[0];

    for (size_t i = 0; i < MEASURES_MAX; i++) {
        struct embedded_measure *m = &em->measures[i];

        if (strcmp(m->claim, claim) == 0)
            return m;
        if (m->until < oldest->until)
            oldest = m;
    }
    return oldest;
}

/* A volume of the same name that is made later holds something else. */
static void measure_forget(struct embedded *em, const char *claim)
{
    struct embedded_measure *m;

    (void)pthread_mutex_lock(&em->lock);
    m = measure_slot(em, claim);
    if (strcmp(m->claim, claim) == 0)
        *m = (struct embedded_measure){0};
    (void)pthread_mutex_unlock(&em->lock);
}

bool embedded_claim_exists(const struct embedded *em, const char *claim)
{
    struct stat st;

    return fstatat(em->volumes, claim, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

struct make_call {
    const struct embedded *em;
    const char *claim;
    uint64_t size_bytes;
};

static int call_make(void *user, struct broker_client *client, struct err *e)
{
    const struct make_call *c = user;

    return broker_make_volume(client, c->em->volumes, c->claim, c->size_bytes, e);
}

/* There is none of that name, and em->claims is held: one that appears meanwhile was made by a
 * broker that was lost before it could answer. */
static int make_limited(struct embedded *em, const char *claim, uint64_t size_bytes, struct err *e)
{
    int r = embedded_call(em, call_make, &(struct make_call){em, claim, size_bytes}, e);

    if (r >= 0 || r == -EEXIST)
        return 0;
    if (r == -EINVAL || r == -ENOSPC || r == -EDQUOT || r == -ETIMEDOUT || r == -EPIPE)
        return r;
    (void)err_wrap(e, r, "this server cannot limit the size of a volume");
    e->code = ENOTSUP;
    return -ENOTSUP;
}

/* The broker makes it, so that root inside the sandbox owns it; git checks the owner, for one. */
int embedded_claim_make(struct embedded *em, const char *claim, uint64_t size_bytes, struct err *e)
{
    struct record record = {time_wall_us(), size_bytes};
    int fd, r;

    if (embedded_claim_exists(em, claim))
        return err_set(e, EEXIST, "there is a volume '%s' already", claim);
    r = record_write(em, claim, &record, e);
    if (r < 0)
        return r;
    if (size_bytes)
        return make_limited(em, claim, size_bytes, e);
    fd = embedded_reach(em, em->volumes, claim, true, e);
    fd_close(fd);
    return fd < 0 ? fd : 0;
}

int embedded_claim_erase(struct embedded *em, const char *claim, struct broker_client *client,
                         struct err *e)
{
    int r = broker_erase(client, em->volumes, claim, e);

    if (r < 0)
        return r;
    (void)unlinkat(em->claims_dir, claim, 0);
    measure_forget(em, claim);
    return r;
}

/* --- which sandboxes mount it --- */

/* Calls visit for each note of a sandbox; false of it ends the walk. -errno when the directory of
 * the sandboxes cannot be read. */
typedef bool use_visit_fn(void *user, const char *id, const char *claim);

static bool uses_of(int sandboxes, const char *id, use_visit_fn *visit, void *user)
{
    int fd = openat(sandboxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool more = true;

    if (!dir) {
        fd_close(fd);
        return true; /* it was removed meanwhile */
    }
    for (const struct dirent *d; more && (d = readdir(dir));)
        if (strncmp(d->d_name, EMBEDDED_USES_PREFIX, sizeof(EMBEDDED_USES_PREFIX) - 1) == 0)
            more = visit(user, id, d->d_name + sizeof(EMBEDDED_USES_PREFIX) - 1);
    (void)closedir(dir);
    return more;
}

static DIR *open_list(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);

    if (!dir)
        fd_close(copy);
    return dir;
}

static int uses_each(const struct embedded *em, use_visit_fn *visit, void *user)
{
    DIR *dir = open_list(em->sandboxes);
    bool more = true;

    if (!dir)
        return -errno;
    for (const struct dirent *d; more && (d = readdir(dir));)
        if (d->d_name[0] != '.')
            more = uses_of(em->sandboxes, d->d_name, visit, user);
    (void)closedir(dir);
    return 0;
}

struct use_search {
    const char *claim;
    struct buf *names; /* NULL: the first is enough */
    size_t count;
};

static bool use_found(void *user, const char *id, const char *claim)
{
    struct use_search *s = user;

    if (strcmp(claim, s->claim) != 0)
        return true;
    if (s->names && s->count < USERS_NAMED_MAX)
        (void)buf_addf(s->names, "%s%s", s->count ? ", " : "", id);
    s->count++;
    return s->names;
}

bool embedded_claim_is_used(const struct embedded *em, const char *claim)
{
    struct use_search s = {.claim = claim};

    return uses_each(em, use_found, &s) < 0 || s.count > 0;
}

/* --- how much it holds --- */

/* Whether a former result still counts. */
static bool measure_recall(struct embedded *em, const char *claim, struct runtime_volume *ret)
{
    struct embedded_measure *m;
    bool found;

    (void)pthread_mutex_lock(&em->lock);
    m = measure_slot(em, claim);
    found = strcmp(m->claim, claim) == 0 && !deadline_passed(m->until);
    if (found) {
        ret->used_is_known = m->known;
        ret->used_bytes = m->bytes;
    }
    (void)pthread_mutex_unlock(&em->lock);
    return found;
}

/* What took long is not done again at once: counting takes at most a small part of the time. */
static void measure_keep(struct embedded *em, const char *claim, uint64_t took_ms,
                         const struct runtime_volume *v)
{
    struct embedded_measure *m;

    (void)pthread_mutex_lock(&em->lock);
    m = measure_slot(em, claim);
    (void)snprintf(m->claim, sizeof(m->claim), "%s", claim);
    m->until = deadline_in_ms((uint32_t)(took_ms * MEASURE_REST));
    m->known = v->used_is_known;
    m->bytes = v->used_bytes;
    (void)pthread_mutex_unlock(&em->lock);
}

struct measure_call {
    int dir;
};

static int call_measure(void *user, struct broker_client *client, struct err *e)
{
    const struct measure_call *c = user;

    return broker_measure(client, c->dir, e);
}

static void measure(struct embedded *em, const char *claim, uint64_t deadline,
                    struct runtime_volume *ret)
{
    uint64_t before = time_mono_ns();
    auto_fd dir = -EBADF, sock = -EBADF;
    struct broker_copied counted;
    struct err e = {0};
    int r;

    if (measure_recall(em, claim, ret) || deadline_passed(deadline))
        return;
    dir = r = embedded_reach(em, em->volumes, claim, false, &e);
    if (r >= 0)
        sock = r = embedded_call(em, call_measure, &(struct measure_call){dir}, &e);
    if (r >= 0)
        r = broker_copied_result(sock, 2 * BROKER_MEASURE_MS_MAX, &counted, &e);
    ret->used_is_known = r == 0;
    ret->used_bytes = r == 0 ? counted.bytes : 0;
    if (r == 0 || r == -E2BIG)
        measure_keep(em, claim, (time_mono_ns() - before) / 1000000, ret);
    else if (r != -ENOENT)
        log_event(LOG_WARN, "cannot tell how much a volume holds", LOG_STR("volume", claim),
                  LOG_STR("error", e.msg));
}

/* --- list and get --- */

struct names {
    char (*at)[NAME_MAX + 1];
    size_t count, room;
};

static int names_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int names_load(const struct embedded *em, struct names *ret, struct err *e)
{
    DIR *dir = open_list(em->volumes);

    if (!dir)
        return err_sys(e, errno, "list the volumes");
    for (const struct dirent *d; ret->count < CLAIMS_MAX && (d = readdir(dir));) {
        if (!api_is_name(str_of(d->d_name), API_CLAIM_BYTES_MAX))
            continue;
        if (ret->count == ret->room) {
            ret->room = ret->room ? 2 * ret->room : 64;
            ret->at = mem_realloc(ret->at, ret->room * sizeof(ret->at[0]));
        }
        (void)snprintf(ret->at[ret->count++], sizeof(ret->at[0]), "%s", d->d_name);
    }
    (void)closedir(dir);
    if (ret->count)
        qsort(ret->at, ret->count, sizeof(ret->at[0]), names_compare);
    return 0;
}

/* The sandboxes that mount volumes of a page. */
struct uses {
    const struct names *names; /* sorted */
    size_t first, end;         /* the page */
    struct use {
        size_t name;
        char id[PLAN_ID_MAX];
    } * at;
    size_t count, room;
};

static bool uses_add(void *user, const char *id, const char *claim)
{
    struct uses *u = user;
    char key[NAME_MAX + 1];
    const char(*found)[NAME_MAX + 1];

    (void)snprintf(key, sizeof(key), "%s", claim);
    found = u->end > u->first ? bsearch(key, u->names->at + u->first, u->end - u->first,
                                        sizeof(u->names->at[0]), names_compare)
                              : NULL;
    if (!found)
        return true;
    if (u->count == u->room) {
        u->room = u->room ? 2 * u->room : 64;
        u->at = mem_realloc(u->at, u->room * sizeof(u->at[0]));
    }
    u->at[u->count].name = (size_t)(found - (const char(*)[NAME_MAX + 1]) u->names->at);
    (void)snprintf(u->at[u->count].id, sizeof(u->at[0].id), "%s", id);
    return ++u->count < USES_MAX;
}

static int uses_compare(const void *a, const void *b)
{
    const struct use *x = a, *y = b;

    return x->name != y->name ? (x->name > y->name) - (x->name < y->name) : strcmp(x->id, y->id);
}

/* Shows names->at[first..end), as far as they are still there. Returns how many were. */
static int show(struct embedded *em, const struct names *names, size_t first, size_t end,
                runtime_volume_visit_fn *visit, void *user)
{
    struct uses uses = {.names = names, .first = first, .end = end};
    uint64_t deadline = deadline_in_ms(MEASURE_LIST_MS);
    char(*claims)[NAME_MAX + 1] = names->at;
    auto_free struct str *ids = NULL;
    int shown = 0;

    (void)uses_each(em, uses_add, &uses);
    if (uses.count)
        qsort(uses.at, uses.count, sizeof(uses.at[0]), uses_compare);
    ids = mem_zalloc((uses.count + 1) * sizeof(ids[0]));
    for (size_t i = 0; i < uses.count; i++)
        ids[i] = str_of(uses.at[i].id);
    for (size_t i = first, at = 0; i < end; i++) {
        struct runtime_volume v = {.name = str_of(claims[i]), .used_by = ids + at};
        struct record record;

        for (; at < uses.count && uses.at[at].name == i; at++)
            v.used_by_count++;
        if (record_read(em, claims[i], &record) < 0)
            continue;
        v.created_us = record.created_us;
        v.size_bytes = record.size_bytes;
        measure(em, claims[i], deadline, &v);
        visit(user, &v);
        shown++;
    }
    free(uses.at);
    return shown;
}

int embedded_volume_list(struct runtime *r, uint64_t skip, uint64_t count,
                         runtime_volume_visit_fn *visit, void *user, uint64_t *ret_total,
                         struct err *e)
{
    struct embedded *em = container_of(r, struct embedded, base);
    struct names names = {0};
    int result = names_load(em, &names, e);

    if (result == 0 && skip < names.count) {
        size_t left = names.count - (size_t)skip;

        (void)show(em, &names, (size_t)skip, (size_t)skip + (count < left ? (size_t)count : left),
                   visit, user);
    }
    if (result == 0)
        *ret_total = names.count;
    free(names.at);
    return result;
}

static int claim_of(struct str name, char ret[NAME_MAX + 1], struct err *e)
{
    if (!api_is_name(name, API_CLAIM_BYTES_MAX) || str_copy(ret, NAME_MAX + 1, name) < 0)
        return err_set(e, ENOENT, "there is no volume '%s'", api_show(name).text);
    return 0;
}

int embedded_volume_get(struct runtime *r, struct str name, runtime_volume_visit_fn *visit,
                        void *user, struct err *e)
{
    struct embedded *em = container_of(r, struct embedded, base);
    char claim[1][NAME_MAX + 1];
    struct names names = {claim, 1, 1};
    int result = claim_of(name, claim[0], e);

    if (result == 0 && show(em, &names, 0, 1, visit, user) == 0)
        result = err_set(e, ENOENT, "there is no volume '%s'", claim[0]);
    return result;
}

/* --- create and remove --- */

int embedded_volume_create(struct runtime *r, struct str name, uint64_t size_bytes, struct err *e)
{
    struct embedded *em = container_of(r, struct embedded, base);
    char claim[NAME_MAX + 1];
    int result;

    if (str_copy(claim, sizeof(claim), name) < 0)
        return err_set(e, EINVAL, "the name is too long");
    (void)pthread_mutex_lock(&em->claims);
    result = embedded_claim_make(em, claim, size_bytes, e);
    (void)pthread_mutex_unlock(&em->claims);
    return result;
}

struct erase_call {
    struct embedded *em;
    const char *claim;
};

static int call_erase(void *user, struct broker_client *client, struct err *e)
{
    const struct erase_call *c = user;

    return embedded_claim_erase(c->em, c->claim, client, e);
}

static int remove_unused(struct embedded *em, const char *claim, struct err *e)
{
    AUTO_BUF(names, 4096);
    struct use_search s = {.claim = claim, .names = &names};
    int r;

    if (!embedded_claim_exists(em, claim))
        return err_set(e, ENOENT, "there is no volume '%s'", claim);
    r = uses_each(em, use_found, &s);
    if (r < 0)
        return err_sys(e, -r, "find out which sandboxes mount the volume");
    if (s.count)
        return err_set(e, EBUSY, "%zu sandbox%s mount%s it: %s%s; delete %s first", s.count,
                       s.count > 1 ? "es" : "", s.count > 1 ? "" : "s", names.p,
                       s.count > USERS_NAMED_MAX ? ", ..." : "", s.count > 1 ? "them" : "it");
    r = embedded_call(em, call_erase, &(struct erase_call){em, claim}, e);
    return r == -ENOENT ? 0 : r; /* a broker that was lost had done it */
}

int embedded_volume_remove(struct runtime *r, struct str name, struct err *e)
{
    struct embedded *em = container_of(r, struct embedded, base);
    char claim[NAME_MAX + 1];
    int result = claim_of(name, claim, e);

    if (result < 0)
        return result;
    (void)pthread_mutex_lock(&em->claims);
    result = remove_unused(em, claim, e);
    (void)pthread_mutex_unlock(&em->claims);
    return result;
}

/* --- start and end --- */

int embedded_claims_open(struct embedded *em, struct err *e)
{
    em->measures = mem_new_array(struct embedded_measure, MEASURES_MAX);
    em->claims_dir = embedded_open_dir(em->conf.dir, "claims", e);
    return em->claims_dir < 0 ? em->claims_dir : 0;
}

void embedded_claims_done(struct embedded *em)
{
    fd_close(em->claims_dir);
    free(em->measures);
}
