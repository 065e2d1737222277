/* pools_change.c - creates, resizes and deletes pools: one change at a time, first in the store. */
#include <errno.h>
#include <stdio.h>

#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/pools/pools_internal.h"

enum { RECORD_JSON_MAX = 1 << 20, LABEL_MAX = API_POOL_NAME_MAX + 8 };
#define KIND   STR("pool")
#define IN_USE STR("active") /* the only state of a record */

struct pool_change {
    struct pool_job job;
    struct list link; /* in pools.changes */
    struct pools *all;
    void (*work)(struct pool_change *c);
    void (*apply)(struct pool_change *c); /* on the loop, after success */
    struct principal by;
    char name[API_POOL_NAME_MAX + 1];
    struct warm_pool *made; /* of a creation: not in the table yet */
    struct api_capacity capacity;
    char *json; /* the new record */
    struct api_fail fail;
    pool_done_fn *done;
    void *user;
};

/* --- the record --- */

static void write_capacity(struct json_writer *w, const struct api_capacity *c)
{
    json_write_key(w, STR("capacity"));
    json_write_object(w);
    json_member_i64(w, STR("buffer_max"), c->buffer_max);
    json_member_i64(w, STR("buffer_min"), c->buffer_min);
    json_member_i64(w, STR("pool_max"), c->pool_max);
    json_member_i64(w, STR("pool_min"), c->pool_min);
    json_write_object_end(w);
}

static struct str label_of(const struct warm_pool *w, char text[LABEL_MAX])
{
    int n = snprintf(text, LABEL_MAX, "pool:%s", w->name);

    return str_make(text, (size_t)n);
}

/* NULL when it is too large. The template is sealed: it may have credentials of a registry, and
 * variables with secrets. */
static char *record_json(const struct warm_pool *w, const struct api_capacity *capacity)
{
    AUTO_BUF(out, RECORD_JSON_MAX);
    AUTO_BUF(sealed, RECORD_JSON_MAX);
    AUTO_BUF(warm_up, RECORD_JSON_MAX);
    struct json_writer json;
    char label[LABEL_MAX];

    if (seal_close(w->all->conf.seal, label_of(w, label), str_of(w->create), &sealed) < 0 ||
        seal_close(w->all->conf.seal, label_of(w, label), str_of(w->warm_up), &warm_up) < 0)
        return NULL;
    json_write_begin(&json, &out);
    json_write_object(&json);
    write_capacity(&json, capacity);
    json_member_string(&json, STR("warm_up"), buf_str(&warm_up));
    json_member_string(&json, STR("sealed"), buf_str(&sealed));
    json_write_object_end(&json);
    return json_write_end(&json) < 0 ? NULL : buf_take(&out);
}

static const struct json_field capacity_fields[] = {
    JSON_FIELD("buffer_max", JSON_AS_I64, JSON_REQUIRED, struct api_capacity, buffer_max),
    JSON_FIELD("buffer_min", JSON_AS_I64, JSON_REQUIRED, struct api_capacity, buffer_min),
    JSON_FIELD("pool_max", JSON_AS_I64, JSON_REQUIRED, struct api_capacity, pool_max),
    JSON_FIELD("pool_min", JSON_AS_I64, JSON_REQUIRED, struct api_capacity, pool_min),
};
static const struct json_table capacity_table = JSON_TABLE(struct api_capacity, capacity_fields, 0);

struct pool_record {
    struct api_capacity capacity;
    struct str warm_up;
    struct str sealed, create; /* create: in clear, of an older server */
};
static const struct json_field record_fields[] = {
    JSON_FIELD("capacity", JSON_AS_OBJECT, JSON_REQUIRED, struct pool_record, capacity,
               .table = &capacity_table),
    JSON_FIELD("warm_up", JSON_AS_STR, JSON_REQUIRED, struct pool_record, warm_up),
    JSON_FIELD("sealed", JSON_AS_STR, 0, struct pool_record, sealed),
    JSON_FIELD("create", JSON_AS_STR, 0, struct pool_record, create),
};
static const struct json_table record_table = JSON_TABLE(struct pool_record, record_fields, 0);

static int record_parse(struct warm_pool *w, struct str json, struct err *e)
{
    AUTO_ARENA(arena, POOL_ARENA_MAX);
    AUTO_BUF(create, RECORD_JSON_MAX);
    AUTO_BUF(warm_up, RECORD_JSON_MAX);
    const struct seal *seal = w->all->conf.seal;
    struct pool_record record = {0};
    struct api_fail f = {0};
    char label[LABEL_MAX];
    struct json *tree;
    int r = json_parse(&arena, json, NULL, &tree, e);

    if (r == 0)
        r = json_bind(&arena, tree, &record_table, &record, e);
    if (r < 0)
        return r;
    w->capacity = record.capacity;
    w->is_clear = !record.sealed.n;
    if (!w->is_clear) {
        if (seal_open(seal, label_of(w, label), record.sealed, &create) < 0 ||
            seal_open(seal, label_of(w, label), record.warm_up, &warm_up) < 0)
            return err_set(e, EBADMSG,
                           "its template was sealed by another key: restore the file '" SEAL_FILE
                           "' that belongs to this store");
        record.create = buf_str(&create);
        record.warm_up = buf_str(&warm_up);
    }
    r = warm_pool_set_template(w, record.create, record.warm_up, &f);
    return r < 0 ? err_set(e, EBADMSG, "%s", f.message) : 0;
}

/* One that cannot be read, of a newer server perhaps, stays in the store and is not served. */
int pool_record_load(struct pools *p, const struct store_record *record)
{
    struct warm_pool *w = warm_pool_new(p, record->id);
    struct err e = {0};

    if (!w)
        return 0;
    w->created_us = record->created_us;
    (void)!str_copy(w->tenant, sizeof(w->tenant), record->tenant);
    if (record_parse(w, record->json, &e) < 0 || map_add(&p->by_name, record->id, w) < 0) {
        log_event(LOG_WARN, "cannot read a pool, going on without it", LOG_STR("pool", w->name),
                  LOG_STR("error", e.msg));
        warm_pool_free(w);
    }
    return 0;
}

int pool_record_seal(struct warm_pool *w, struct err *e)
{
    auto_free char *json = record_json(w, &w->capacity);
    int r = json ? store_record_update(w->all->conf.store, KIND, str_of(w->name), IN_USE, IN_USE,
                                       str_of(json), e)
                 : err_set(e, EMSGSIZE, "the record is too large");

    w->is_clear = r < 0;
    return r;
}

/* --- changes --- */

static void change_end(struct pool_change *c)
{
    struct pools *p = c->all;
    struct pool_view view;
    bool found = !c->fail.status && pools_view(p, str_of(c->name), &view);

    list_remove(&c->link);
    c->done(c->user, found ? &view : NULL, c->fail.status ? &c->fail : NULL);
    if (c->made)
        warm_pool_free(c->made);
    free(c->json);
    free(c);
}

static void change_on_work(struct pool_job *job)
{
    struct pool_change *c = container_of(job, struct pool_change, job);

    c->work(c);
}

static void change_on_done(struct pool_job *job, int error);

static void change_begin(struct pools *p)
{
    LIST_EACH(&p->changes, at)
    {
        struct pool_change *c = container_of(at, struct pool_change, link);

        if (pool_submit(p->conf.pool, &c->job, p->conf.loop, change_on_work, change_on_done,
                        POOL_SLOW) == 0)
            return;
        (void)api_fail_set(&c->fail, 503, "SERVICE_UNAVAILABLE",
                           "the server is too busy, try again");
        change_end(c);
    }
}

static void change_on_done(struct pool_job *job, int error)
{
    struct pool_change *c = container_of(job, struct pool_change, job);
    struct pools *p = c->all;

    if (error)
        (void)api_fail_set(&c->fail, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    if (!c->fail.status)
        c->apply(c);
    change_end(c);
    change_begin(p);
}

static void change_submit(struct pool_change *c)
{
    bool first = list_empty(&c->all->changes);

    list_push(&c->all->changes, &c->link);
    if (first)
        change_begin(c->all);
}

static struct pool_change *change_new(struct pools *p, struct str name, pool_done_fn *done,
                                      void *user)
{
    struct pool_change *c = mem_new(struct pool_change);

    c->all = p;
    c->done = done;
    c->user = user;
    list_init(&c->link);
    if (str_copy(c->name, sizeof(c->name), name) < 0)
        c->name[0] = '\0'; /* no pool has a longer name */
    return c;
}

static void fail_by_store(struct pool_change *c, const struct err *e)
{
    bool passes = sandboxes_failure_passes(e->code);

    (void)api_fail_set(&c->fail, passes ? 503 : 500,
                       passes ? "SERVICE_UNAVAILABLE" : "KUBERNETES::POOL_API_ERROR", "%s", e->msg);
}

static void fail_unknown(struct pool_change *c)
{
    (void)api_fail_set(&c->fail, 404, "KUBERNETES::POOL_NOT_FOUND", "there is no pool '%s'",
                       api_show(str_of(c->name)).text);
}

static void fail_exists(struct pool_change *c)
{
    (void)api_fail_set(&c->fail, 409, "KUBERNETES::POOL_ALREADY_EXISTS",
                       "there is a pool '%s' already", api_show(str_of(c->name)).text);
}

/* --- create --- */

/* Whether the runtime would make such a sandbox now: better to hear it here than from its status.
 */
static int check_template(struct pool_change *c)
{
    struct runtime *rt = c->all->conf.runtime;
    struct runtime_create create = {.spec = &c->made->spec, .birth = RUNTIME_BIRTH_NONE};
    char id[ID_UUID_MAX];
    int r;

    id_uuid(id);
    create.id = str_of(id);
    runtime_task_init(&create.task, NULL);
    r = runtime_check(rt, &create, &c->fail);
    runtime_task_done(&create.task);
    free(create.plan);
    return r;
}

static void create_work(struct pool_change *c)
{
    struct store_record record = {
        .kind = KIND,
        .id = str_of(c->name),
        .state = IN_USE,
        .tenant = str_of(c->by.tenant),
        .owner = str_of(c->by.key_id),
        .created_us = c->made->created_us,
        .json = str_of(c->json),
    };
    struct err e = {0};
    int r;

    if (check_template(c) < 0)
        return;
    r = store_record_insert(c->all->conf.store, &record, &e);
    if (r == -EEXIST)
        fail_exists(c);
    else if (r < 0)
        fail_by_store(c, &e);
}

static void create_apply(struct pool_change *c)
{
    struct warm_pool *w = c->made;

    if (map_add(&c->all->by_name, str_of(c->name), w) < 0)
        return; /* not possible: checked before, and changes come one by one */
    c->made = NULL;
    log_event(LOG_INFO, "pool created", LOG_STR("pool", w->name), LOG_STR("by", c->by.key_id));
    pool_wake(w);
}

/* Also counts those that wait to be made. */
static size_t pool_count(const struct pools *p)
{
    size_t n = p->by_name.n;

    LIST_EACH(&p->changes, at)
    n += container_of(at, struct pool_change, link)->work == create_work;
    return n;
}

static int create_prepare(struct pool_change *c, const struct api_pool *pool,
                          const struct api_create_host *host)
{
    AUTO_BUF(body, POOL_TEMPLATE_MAX);
    AUTO_ARENA(arena, POOL_ARENA_MAX);
    struct api_create spec;
    struct str warm_up;

    if (pools_find(c->all, pool->name)) {
        fail_exists(c);
        return -EEXIST;
    }
    if (pool_count(c->all) >= POOLS_MAX)
        return api_fail_set(&c->fail, 503, "SERVICE_UNAVAILABLE",
                            "this server has %d pools, as many as it may have", POOLS_MAX);
    if (pool_template_write(pool->template, &body, &warm_up, &c->fail) < 0 ||
        pool_template_parse(&arena, buf_str(&body), host, &spec, &c->fail) < 0)
        return -EBADMSG;
    if (spec.persistent && c->all->conf.runtime->keeps_inside)
        return api_fail_invalid(&c->fail, "template.persistent: on this runtime a sandbox that is "
                                          "started again has no variables of its claim");
    c->made = warm_pool_new(c->all, pool->name);
    c->made->created_us = time_wall_us();
    (void)snprintf(c->made->tenant, sizeof(c->made->tenant), "%s", c->by.tenant);
    c->made->capacity = pool->capacity;
    if (warm_pool_set_template(c->made, buf_str(&body), warm_up, &c->fail) < 0)
        return -EBADMSG;
    c->json = record_json(c->made, &pool->capacity);
    return c->json ? 0 : api_fail_memory(&c->fail);
}

void pools_create(struct pools *p, const struct principal *by, const struct api_pool *pool,
                  const struct api_create_host *host, pool_done_fn *done, void *user)
{
    struct pool_change *c = change_new(p, pool->name, done, user);

    c->by = *by;
    c->work = create_work;
    c->apply = create_apply;
    if (create_prepare(c, pool, host) < 0) {
        c->done(user, NULL, &c->fail);
        if (c->made)
            warm_pool_free(c->made);
        free(c);
        return;
    }
    change_submit(c);
}

/* --- resize and delete --- */

static void resize_work(struct pool_change *c)
{
    struct err e = {0};
    int r = store_record_update(c->all->conf.store, KIND, str_of(c->name), IN_USE, IN_USE,
                                str_of(c->json), &e);

    if (r < 0)
        fail_by_store(c, &e);
    else if (r == 0)
        fail_unknown(c);
}

static void resize_apply(struct pool_change *c)
{
    struct warm_pool *w = pools_find(c->all, str_of(c->name));

    if (!w) {
        fail_unknown(c);
        return;
    }
    w->capacity = c->capacity;
    w->fill_not_before_ns = 0; /* a client that changes it wants to see the effect */
    pool_wake(w);
}

void pools_resize(struct pools *p, struct str name, const struct api_capacity *capacity,
                  pool_done_fn *done, void *user)
{
    struct pool_change *c = change_new(p, name, done, user);
    struct warm_pool *w = pools_find(p, name);

    c->work = resize_work;
    c->apply = resize_apply;
    c->capacity = *capacity;
    c->json = w ? record_json(w, capacity) : NULL;
    if (c->json) {
        change_submit(c);
        return;
    }
    fail_unknown(c);
    c->done(user, NULL, &c->fail);
    free(c);
}

static void delete_work(struct pool_change *c)
{
    struct err e = {0};
    int r = store_record_delete(c->all->conf.store, KIND, str_of(c->name), STR_NONE, &e);

    if (r < 0)
        fail_by_store(c, &e);
    else if (r == 0)
        fail_unknown(c);
}

static void delete_apply(struct pool_change *c)
{
    struct warm_pool *w = pools_find(c->all, str_of(c->name));

    if (!w)
        return;
    log_event(LOG_INFO, "pool deleted", LOG_STR("pool", w->name));
    warm_pool_drain(w);
}

void pools_delete(struct pools *p, struct str name, pool_done_fn *done, void *user)
{
    struct pool_change *c = change_new(p, name, done, user);

    c->work = delete_work;
    c->apply = delete_apply;
    change_submit(c);
}
