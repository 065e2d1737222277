#include "server/runtime/kubernetes/k8s_table.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"

enum { METADATA_MAX = 1 << 20, ALLOCATED_MS = 2000 };

struct k8s_entry {
    struct kube_object *object; /* NULL = expected, and not seen yet */
    struct kube_object *pod;    /* of agent-sandbox */
    struct k8s_facts facts;     /* of the object */
    int wake;                   /* eventfd; -EBADF = no caller watches */
};

static void entry_free(void *value)
{
    struct k8s_entry *en = value;

    kube_object_unref(en->object);
    kube_object_unref(en->pod);
    fd_close(en->wake);
    free(en);
}

void k8s_table_init(struct k8s_table *t)
{
    (void)pthread_mutex_init(&t->lock, NULL);
    map_init(&t->by_id, K8S_SANDBOXES_MAX, entry_free);
    map_init(&t->removed, K8S_REMOVED_MAX, NULL);
    list_init(&t->waits);
}

void k8s_table_done(struct k8s_table *t)
{
    map_done(&t->by_id);
    map_done(&t->removed);
    (void)pthread_mutex_destroy(&t->lock);
}

static void wake(struct k8s_entry *en)
{
    uint64_t one = 1;

    if (en->wake >= 0 && write(en->wake, &one, sizeof(one)) < 0)
        return; /* it is readable already */
}

static struct str id_of(const struct kube_object *o)
{
    return kube_label(o, STR(K8S_LABEL_ID));
}

static struct k8s_entry *entry_new(struct k8s_table *t, struct str id)
{
    struct k8s_entry *en = mem_new(struct k8s_entry);

    en->wake = -EBADF;
    if (map_add(&t->by_id, id, en) == 0)
        return en;
    entry_free(en);
    return NULL;
}

/* --- waits --- */

/* What an end of a wait is told with, after the lock. */
struct ending {
    struct k8s_wait *wait;
    int result;
    struct err err;
};

static struct k8s_wait *find_wait(struct k8s_table *t, struct str id)
{
    LIST_EACH(&t->waits, at)
    {
        struct k8s_wait *w = container_of(at, struct k8s_wait, link);

        if (str_eq(str_of(w->id), id))
            return w;
    }
    return NULL;
}

static void end_wait(struct k8s_table *t, struct str id, int result, struct ending *ret)
{
    struct k8s_wait *w = find_wait(t, id);

    if (!w)
        return;
    list_remove(&w->link);
    ret->wait = w;
    ret->result = result;
}

/* Whether what is known of a sandbox ends the wait for it. */
static void judge(struct k8s_table *t, struct str id, const struct k8s_entry *en,
                  struct ending *ret)
{
    struct k8s_wait *w = find_wait(t, id);

    if (!w)
        return;
    if (en->facts.state == RUNTIME_RUNNING)
        end_wait(t, id, 1, ret);
    else if (en->facts.state == RUNTIME_ALLOCATED && !w->allocated) {
        /* It counts as running; but its operator is about to say more. */
        w->allocated = true;
        w->deadline_ns = deadline_in_ms(ALLOCATED_MS);
    } else if (en->facts.state == RUNTIME_FAILED || en->facts.state == RUNTIME_EXITED) {
        end_wait(t, id, -EIO, ret);
        if (ret->wait)
            (void)err_set(&ret->err, EIO, "%s", en->facts.message);
    }
}

static void tell(struct k8s_table *t, const struct ending *ending)
{
    if (ending->wait && t->on_end)
        t->on_end(t->user, ending->wait, ending->result, &ending->err);
}

void k8s_table_wait(struct k8s_table *t, struct k8s_wait *wait)
{
    struct ending ending = {0};
    struct k8s_entry *en;

    (void)pthread_mutex_lock(&t->lock);
    list_push(&t->waits, &wait->link);
    en = map_get(&t->by_id, str_of(wait->id));
    if (en && en->object)
        judge(t, str_of(wait->id), en, &ending);
    (void)pthread_mutex_unlock(&t->lock);
    tell(t, &ending);
}

bool k8s_table_wait_end(struct k8s_table *t, struct k8s_wait *wait)
{
    bool found = false;

    (void)pthread_mutex_lock(&t->lock);
    LIST_EACH(&t->waits, at)
    found |= at == &wait->link;
    if (found)
        list_remove(&wait->link);
    (void)pthread_mutex_unlock(&t->lock);
    return found;
}

struct k8s_wait *k8s_table_wait_late(struct k8s_table *t)
{
    struct k8s_wait *late = NULL;

    (void)pthread_mutex_lock(&t->lock);
    LIST_EACH(&t->waits, at)
    {
        struct k8s_wait *w = container_of(at, struct k8s_wait, link);

        if (!late && (atomic_load(&w->cancelled) || deadline_passed(w->deadline_ns)))
            late = w;
    }
    if (late)
        list_remove(&late->link);
    (void)pthread_mutex_unlock(&t->lock);
    return late;
}

bool k8s_table_waits(struct k8s_table *t)
{
    bool some;

    (void)pthread_mutex_lock(&t->lock);
    some = !list_empty(&t->waits);
    (void)pthread_mutex_unlock(&t->lock);
    return some;
}

/* --- changes --- */

static void read_facts(const struct k8s_table *t, struct k8s_entry *en)
{
    if (t->agent)
        k8s_facts_of_agent(en->object, en->pod, &en->facts);
    else
        k8s_facts_of_batch(en->object, &en->facts);
}

/* The object is gone: a caller that waits for it fails, a caller that watches it is woken. */
static void drop(struct k8s_table *t, struct str id, struct ending *ret)
{
    struct k8s_entry *en = map_take(&t->by_id, id);

    if (!en)
        return;
    wake(en);
    entry_free(en);
    end_wait(t, id, -ENOENT, ret);
    if (ret->wait)
        (void)err_set(&ret->err, ENOENT, "the sandbox was deleted while it was being created");
}

static bool is_newer(const struct kube_object *known, const struct kube_object *o)
{
    return !known || !str_eq(known->uid, o->uid) || o->revision > known->revision;
}

bool k8s_table_apply(struct k8s_table *t, struct kube_object *o)
{
    struct str id = id_of(o);
    struct ending ending = {0};
    struct k8s_entry *en;
    bool is_new = false;

    if (!id.n)
        return false;
    (void)pthread_mutex_lock(&t->lock);
    en = map_get(&t->by_id, id);
    if (o->deleting) {
        if (en && en->object && str_eq(en->object->uid, o->uid))
            drop(t, id, &ending);
    } else if (!map_has(&t->removed, id) && (!en || is_newer(en->object, o))) {
        is_new = !en;
        if (!en)
            en = entry_new(t, id);
        if (en) {
            kube_object_unref(en->object);
            en->object = kube_object_ref(o);
            read_facts(t, en);
            judge(t, id, en, &ending);
            wake(en);
        }
    }
    (void)pthread_mutex_unlock(&t->lock);
    tell(t, &ending);
    return is_new;
}

void k8s_table_apply_pod(struct k8s_table *t, struct kube_object *pod, bool gone)
{
    struct str id = id_of(pod);
    struct ending ending = {0};
    struct k8s_entry *en;

    (void)pthread_mutex_lock(&t->lock);
    en = id.n ? map_get(&t->by_id, id) : NULL;
    if (en && (gone ? en->pod && str_eq(en->pod->uid, pod->uid) : is_newer(en->pod, pod))) {
        kube_object_unref(en->pod);
        en->pod = gone ? NULL : kube_object_ref(pod);
        if (en->object) {
            read_facts(t, en);
            judge(t, id, en, &ending);
        }
        wake(en);
    }
    (void)pthread_mutex_unlock(&t->lock);
    tell(t, &ending);
}

void k8s_table_drop(struct k8s_table *t, struct kube_object *last)
{
    struct str id = id_of(last);
    struct ending ending = {0};
    struct k8s_entry *en;

    (void)pthread_mutex_lock(&t->lock);
    (void)map_remove(&t->removed, id);
    en = map_get(&t->by_id, id);
    if (en && en->object && str_eq(en->object->uid, last->uid))
        drop(t, id, &ending);
    (void)pthread_mutex_unlock(&t->lock);
    tell(t, &ending);
}

void k8s_table_expect(struct k8s_table *t, struct str id)
{
    (void)pthread_mutex_lock(&t->lock);
    if (!map_has(&t->by_id, id))
        (void)entry_new(t, id);
    (void)pthread_mutex_unlock(&t->lock);
}

void k8s_table_forget(struct k8s_table *t, struct str id)
{
    struct k8s_entry *en;

    (void)pthread_mutex_lock(&t->lock);
    en = map_take(&t->by_id, id);
    if (en && en->object && map_add(&t->removed, id, NULL) < 0)
        map_done(&t->removed); /* full of what never got its last event: begin anew */
    if (en)
        entry_free(en);
    (void)pthread_mutex_unlock(&t->lock);
}

/* --- reading --- */

int k8s_table_get(struct k8s_table *t, struct str id, struct k8s_facts *ret)
{
    struct k8s_entry *en;
    int r = -ENOENT;

    (void)pthread_mutex_lock(&t->lock);
    en = map_get(&t->by_id, id);
    if (en && en->object) {
        *ret = en->facts;
        r = 0;
    }
    (void)pthread_mutex_unlock(&t->lock);
    return r;
}

/* Replaces the watch: the holder of the old one is woken. */
static int new_watch(struct k8s_entry *en, int *ret_watch)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), copy;

    if (fd < 0)
        return -errno;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        int r = -errno;

        fd_close(fd);
        return r;
    }
    wake(en);
    fd_close(en->wake);
    en->wake = fd;
    *ret_watch = copy;
    return 0;
}

int k8s_table_watch(struct k8s_table *t, struct str id, struct k8s_facts *ret, char **ret_metadata,
                    int *ret_watch)
{
    AUTO_BUF(metadata, METADATA_MAX);
    struct k8s_entry *en;
    int r = -ENOENT;

    (void)pthread_mutex_lock(&t->lock);
    en = map_get(&t->by_id, id);
    if (en && en->object) {
        r = new_watch(en, ret_watch);
        if (r == 0)
            r = k8s_metadata_write(en->object, &metadata);
        *ret = en->facts;
    }
    (void)pthread_mutex_unlock(&t->lock);
    if (r == 0)
        *ret_metadata = metadata.n ? buf_take(&metadata) : mem_strdup("");
    return r;
}

struct kube_object *k8s_table_object(struct k8s_table *t, struct str id)
{
    struct kube_object *o = NULL;
    struct k8s_entry *en;

    (void)pthread_mutex_lock(&t->lock);
    en = map_get(&t->by_id, id);
    if (en && en->object)
        o = kube_object_ref(en->object);
    (void)pthread_mutex_unlock(&t->lock);
    return o;
}

struct kube_object *k8s_table_pod(struct k8s_table *t, struct str id)
{
    struct kube_object *o = NULL;
    struct k8s_entry *en;

    (void)pthread_mutex_lock(&t->lock);
    en = map_get(&t->by_id, id);
    if (en && en->pod)
        o = kube_object_ref(en->pod);
    (void)pthread_mutex_unlock(&t->lock);
    return o;
}

void k8s_table_each(struct k8s_table *t, runtime_visit_fn *visit, void *user)
{
    struct str id;
    void *value;
    size_t at = 0;

    (void)pthread_mutex_lock(&t->lock);
    while (map_next(&t->by_id, &at, &id, &value)) {
        const struct k8s_entry *en = value;

        if (en->object && id.n < ID_UUID_MAX) /* longer ones are none of ours, nor of our kind */
            visit(user, id, en->facts.state);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

size_t k8s_table_count(struct k8s_table *t)
{
    size_t n;

    (void)pthread_mutex_lock(&t->lock);
    n = t->by_id.n;
    (void)pthread_mutex_unlock(&t->lock);
    return n;
}
