/* guarded.c - the sandboxes that this process knows. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/egress.h"
#include "net/sse.h"

enum {
    STATE_BYTES_MAX = POLICY_TEXT_BYTES_MAX + 4096,
    FRESH_S = 30, /* an address with more time left is not programmed again */
    NS_PER_S = 1000000000,
};

struct guarded *guarded_find(struct egress *g, struct str id)
{
    return map_get(&g->guarded, id);
}

struct guarded *guarded_by_addr(struct egress *g, const struct sock_addr *from)
{
    if (g->only)
        return g->only;
    if (from->any.sa_family == AF_INET)
        return map_get(&g->by_addr, str_make((const char *)&from->v4.sin_addr, 4));
    if (from->any.sa_family == AF_INET6)
        return map_get(&g->by_addr, str_make((const char *)&from->v6.sin6_addr, 16));
    return NULL;
}

static struct str v4_key(const struct guarded *b)
{
    return str_make((const char *)&b->v4, 4);
}

static struct str v6_key(const struct guarded *b)
{
    return str_make((const char *)&b->v6, 16);
}

/* An address may have a new owner already. */
static void unplace(struct guarded *b)
{
    if (!b->attached)
        return;
    if (map_get(&b->egress->by_addr, v4_key(b)) == b)
        (void)map_take(&b->egress->by_addr, v4_key(b));
    if (map_get(&b->egress->by_addr, v6_key(b)) == b)
        (void)map_take(&b->egress->by_addr, v6_key(b));
    b->attached = false;
}

void guarded_place(struct guarded *b, const struct broker_sandbox *at)
{
    unplace(b);
    b->v4 = at->address;
    b->v6 = at->address6;
    if (map_set(&b->egress->by_addr, v4_key(b), b) < 0 ||
        map_set(&b->egress->by_addr, v6_key(b), b) < 0)
        log_event(LOG_ERROR, "too many sandboxes", LOG_STR("sandbox", b->id));
    b->attached = true;
}

/* --- state --- */

static int open_dir_of(struct egress *g, const char *id, struct err *e)
{
    int fd = openat(g->sandboxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? err_sys(e, errno, "directory of sandbox %s", id) : fd;
}

static int open_dir(struct guarded *b, struct err *e)
{
    return open_dir_of(b->egress, b->id, e);
}

static int save(struct guarded *b, const struct policy *policy, struct err *e)
{
    auto_fd dir = open_dir(b, e);
    AUTO_BUF(text, STATE_BYTES_MAX);
    int r;

    if (dir < 0)
        return dir;
    r = buf_addf(&text, "{\"credentialProxy\":%s,\"policy\":", b->intercept ? "true" : "false");
    if (r == 0)
        r = policy_write(policy, &text);
    if (r == 0)
        r = buf_add(&text, STR("}\n"));
    if (r < 0)
        return err_sys(e, -r, "write the policy of sandbox %s", b->id);
    return io_write_file_atomic(dir, EGRESS_STATE_FILE, buf_str(&text), 0600, e);
}

struct request {
    struct guarded *guarded;
    const struct netns_policy *rules;
    const struct netns_entry *entries;
    size_t count;
    struct broker_sandbox *ret;
    struct netns_traffic *traffic;
};

static int set_call(struct egress *g UNUSED, struct broker_client *client, void *user,
                    struct err *e)
{
    const struct request *r = user;

    return broker_policy(client, r->guarded->id, r->rules, r->ret, e);
}

static int set(struct guarded *b, const struct netns_policy *rules, struct broker_sandbox *ret,
               struct err *e)
{
    struct request r = {.guarded = b, .rules = rules, .ret = ret};

    return broker_call(b->egress, set_call, &r, e);
}

static int learn_call(struct egress *g UNUSED, struct broker_client *client, void *user,
                      struct err *e)
{
    const struct request *r = user;

    return broker_learn(client, r->guarded->id, r->entries, r->count, e);
}

static int learn(struct guarded *b, const struct netns_entry *entries, size_t count, struct err *e)
{
    struct request r = {.guarded = b, .entries = entries, .count = count};

    return broker_call(b->egress, learn_call, &r, e);
}

static int traffic_call(struct egress *g UNUSED, struct broker_client *client, void *user,
                        struct err *e)
{
    const struct request *r = user;

    return broker_traffic(client, r->guarded->id, r->traffic, e);
}

static int traffic(struct guarded *b, struct netns_traffic *ret, struct err *e)
{
    struct request r = {.guarded = b, .traffic = ret};

    return broker_call(b->egress, traffic_call, &r, e);
}

static int denied_call(struct egress *g UNUSED, struct broker_client *client, void *user,
                       struct err *e)
{
    return broker_denied(client, user, e);
}

static int denied(struct egress *g, struct netns_denied ret[NETNS_DENIED_MAX], struct err *e)
{
    return broker_call(g, denied_call, ret, e);
}

const struct enforcer guarded_enforcer = {.set = set,
                                          .learn = learn,
                                          .save = save,
                                          .traffic = traffic,
                                          .denied = denied,
                                          .open_dir = open_dir};

/* Fills the policy of a new entry: that of its file, or allow-all. */
static int read_state(struct guarded *b, int dir, struct err *e)
{
    AUTO_ARENA(tree, 16 * 1024 * 1024);
    AUTO_BUF(text, STATE_BYTES_MAX);
    AUTO_BUF(policy, STATE_BYTES_MAX);
    struct json_writer w;
    struct json *doc;
    int r = io_read_regular(dir, EGRESS_STATE_FILE, STATE_BYTES_MAX, &text, e);

    if (r == -ENOENT) {
        b->policy = policy_plain(POLICY_ALLOW);
        b->given = b->egress->always->count > 0;
        return b->policy ? 0 : -ENOMEM;
    }
    if (r >= 0)
        r = json_parse(&tree, buf_str(&text), NULL, &doc, e);
    if (r < 0)
        return r;
    (void)json_to_bool(json_get(doc, STR("credentialProxy")), &b->intercept);
    if (!json_get(doc, STR("policy")))
        return err_set(e, EBADMSG, EGRESS_STATE_FILE " has no policy");
    json_write_begin(&w, &policy);
    json_write_value(&w, json_get(doc, STR("policy")));
    r = json_write_end(&w);
    if (r == 0)
        r = policy_parse(buf_str(&policy), &b->policy, e);
    b->given = true;
    return r;
}

static void guarded_free(struct guarded *b)
{
    struct list *at;

    while ((at = list_take(&b->learned)))
        free(container_of(at, struct learned, link));
    sse_hub_free(b->watchers);
    vault_free(b->vault);
    policy_free(b->policy);
    free(b->events);
    free(b->dropped);
    free(b);
}

static struct guarded *guarded_new(struct egress *g, const char id[PLAN_ID_MAX])
{
    struct guarded *b = mem_new(struct guarded);

    b->egress = g;
    memcpy(b->id, id, sizeof(b->id));
    list_init(&b->learned);
    list_init(&b->changes);
    list_init(&b->requests);
    list_init(&b->waiting);
    return b;
}

struct guarded *guarded_make_only(struct egress *g, struct str id, struct policy *policy,
                                  bool intercept)
{
    char text[PLAN_ID_MAX] = "sandbox";
    struct guarded *b;

    if (id.n) {
        size_t n = min_size(id.n, sizeof(text) - 1);

        memcpy(text, id.p, n);
        text[n] = '\0';
    }
    b = guarded_new(g, text);
    b->policy = policy;
    b->given = b->attached = true;
    b->intercept = intercept;
    if (map_add(&g->guarded, str_of(b->id), b) < 0) /* the first of all: there is room */
        log_event(LOG_ERROR, "cannot remember the sandbox", LOG_STR("sandbox", b->id));
    g->only = b;
    return b;
}

int guarded_open(struct egress *g, struct str id, struct guarded **ret, struct err *e)
{
    struct guarded *b = guarded_find(g, id);
    auto_fd dir = -EBADF;
    char text[PLAN_ID_MAX];
    int r;

    if (g->only)
        b = g->only;
    if (b) {
        *ret = b;
        return 0;
    }
    if (!plan_id_is_valid(id) || str_copy(text, sizeof(text), id) < 0)
        return err_set(e, ENOENT, "'%.*s' cannot be the id of a sandbox", (int)min_size(id.n, 64),
                       id.p);
    dir = open_dir_of(g, text, e);
    if (dir < 0)
        return dir;
    b = guarded_new(g, text);
    r = read_state(b, dir, e);
    if (r >= 0)
        r = map_add(&g->guarded, id, b);
    if (r < 0) {
        guarded_free(b);
        return err_wrap(e, r, "sandbox %s", text);
    }
    *ret = b;
    return 0;
}

void guarded_unref_job(struct guarded *b)
{
    b->jobs--;
    if (b->gone && b->jobs == 0)
        guarded_free(b);
}

void guarded_remove(struct guarded *b)
{
    (void)map_take(&b->egress->guarded, str_of(b->id));
    unplace(b);
    b->gone = true;
    resolver_forget(b);
    catcher_forget(b);
    api_forget(b);
    sse_hub_free(b->watchers);
    b->watchers = NULL;
    b->jobs++;
    guarded_unref_job(b);
}

void guarded_free_all(struct egress *g)
{
    struct str key;
    void *value;

    for (size_t at = 0; map_next(&g->guarded, &at, &key, &value); at = 0)
        guarded_remove(value);
    map_done(&g->guarded);
    map_done(&g->by_addr);
}

/* The server removes the directory of a sandbox last. */
static void on_sweep(struct loop_timer *timer)
{
    struct egress *g = container_of(timer, struct egress, sweep);
    size_t at = 0;
    void *value;

    while (map_next(&g->guarded, &at, NULL, &value)) {
        struct guarded *b = value;

        if (faccessat(g->sandboxes, b->id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
            guarded_remove(b);
    }
    loop_timer_after(g->loop, &g->sweep, 60 * 1000, on_sweep);
}

static void on_loaded(void *user, int result, const struct err *e)
{
    struct guarded *b = user;

    if (result < 0 && result != -ENOENT)
        log_event(LOG_ERROR, "cannot put a policy in force; its sandbox keeps the rules it has",
                  LOG_STR("sandbox", b->id), LOG_STR("error", e->msg));
}

static void load_one(struct egress *g, const char *id)
{
    char path[PLAN_ID_MAX + sizeof("/" EGRESS_STATE_FILE)];
    struct guarded *b = NULL;
    struct err e = {0};

    if (!plan_id_is_valid(str_of(id)))
        return;
    (void)snprintf(path, sizeof(path), "%.*s/" EGRESS_STATE_FILE, PLAN_ID_MAX - 1, id);
    if (g->always->count == 0 && faccessat(g->sandboxes, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (guarded_open(g, str_of(id), &b, &e) < 0) {
        (void)log_err(&e, "cannot read a policy; its sandbox keeps the rules it has");
        return;
    }
    if (catcher_attach(b, &e) < 0)
        (void)log_err(&e, "cannot intercept; connections to ports 80 and 443 fail");
    change_start(b, NULL, false, on_loaded, b);
}

int guarded_load(struct egress *g, struct err *e)
{
    int fd = openat(g->sandboxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!dir)
        return err_sys(e, errno, "list sandboxes");
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            load_one(g, entry->d_name);
    (void)closedir(dir);
    loop_timer_after(g->loop, &g->sweep, 60 * 1000, on_sweep);
    return 0;
}

/* --- addresses of names --- */

bool guarded_addr_is_inside(const struct guarded *b, int family, const void *addr)
{
    return policy_addr_is_special(family, addr) &&
           !(b->egress->conf.private_names && policy_addr_is_private(family, addr));
}

static void forget_oldest(struct guarded *b)
{
    struct learned *l = container_of(b->learned.next, struct learned, link);

    list_remove(&l->link);
    free(l);
    b->learned_count--;
}

bool guarded_has_learned(const struct guarded *b, struct str name, const struct sock_addr *at,
                         bool *ret_known)
{
    const void *addr = at->any.sa_family == AF_INET ? (const void *)&at->v4.sin_addr
                                                    : (const void *)&at->v6.sin6_addr;
    size_t bytes = at->any.sa_family == AF_INET ? 4 : 16;
    bool found = false;

    *ret_known = false;
    for (struct list *i = b->learned.next; i != &b->learned; i = i->next) {
        const struct learned *l = container_of(i, struct learned, link);

        if (!str_eq_nocase(str_of(l->name), name))
            continue;
        *ret_known = true;
        found |= l->family == at->any.sa_family && memcmp(l->addr, addr, bytes) == 0;
    }
    return found;
}

bool guarded_learn(struct guarded *b, struct str name, int family, const void *addr,
                   uint32_t seconds)
{
    uint64_t now = loop_now_ns(b->egress->loop), ends = now + (uint64_t)seconds * NS_PER_S;
    size_t bytes = family == AF_INET ? 4 : 16;
    struct learned *l = NULL;
    bool fresh;

    LIST_EACH(&b->learned, at)
    {
        struct learned *known = container_of(at, struct learned, link);

        if (known->family == family && memcmp(known->addr, addr, bytes) == 0 &&
            str_eq(str_of(known->name), name))
            l = known;
    }
    fresh = l && l->ends_ns > now + (uint64_t)FRESH_S * NS_PER_S &&
            l->ends_ns + (uint64_t)FRESH_S * NS_PER_S > ends;
    if (fresh)
        return false;
    if (l) {
        list_remove(&l->link);
    } else {
        if (b->learned_count == EGRESS_LEARNED_MAX)
            forget_oldest(b);
        l = mem_zalloc(sizeof(*l) + name.n + 1);
        l->family = (uint8_t)family;
        memcpy(l->addr, addr, bytes);
        memcpy(l->name, name.p, name.n);
        b->learned_count++;
    }
    l->ends_ns = ends;
    list_push(&b->learned, &l->link);
    return true;
}
