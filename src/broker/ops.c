/* ops.c - the broker's operations, one row each. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/proc.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/disks.h"
#include "broker/measure.h"
#include "broker/memory.h"
#include "broker/objects.h"
#include "broker/snapshot.h"
#include "broker/unpack.h"
#include "sandbox/lasting.h"
#include "sandbox/oci.h"

enum { READY_MAX = 1024 };

struct exchange {
    struct broker *b;
    struct broker_peer *peer;
    const struct broker_request *request;
    const struct plan *plan;            /* of BROKER_SPAWN */
    const struct broker_policy *policy; /* of BROKER_POLICY */
    const int *fds;
    size_t fd_count;
    struct broker_reply *reply;
    int files[BROKER_FILE_COUNT];
    size_t file_count;
    struct err *e;
};

/* --- helpers --- */

static int sandbox_files(struct exchange *x, int dir, int pidfd)
{
    static const char *const names[] = {[BROKER_FILE_EXIT] = "exit", [BROKER_FILE_LOG] = "log"};

    x->files[BROKER_FILE_PIDFD] = pidfd;
    for (int i = BROKER_FILE_EXIT; i < BROKER_FILE_COUNT; i++) {
        int fd = fd_open_at(dir, names[i], O_RDONLY, 0, PATH_STRICT, x->e);

        if (fd < 0) {
            while (i > BROKER_FILE_EXIT)
                fd_close(x->files[--i]);
            return fd;
        }
        x->files[i] = fd;
    }
    x->file_count = BROKER_FILE_COUNT;
    return 0;
}

static enum broker_state state_of(const struct broker *b, const struct slot_record *record, int dir)
{
    if (!slot_owner_alive(&record->owner))
        return BROKER_DEAD;
    return pause_is_set(b, record, dir) ? BROKER_PAUSED : BROKER_RUNNING;
}

static void describe(const struct broker *b, const struct slot_record *record,
                     enum broker_state state, struct broker_sandbox *ret)
{
    *ret = (struct broker_sandbox){
        .slot = record->slot,
        .state = state,
        .net = record->net,
        .root = record->root,
        .pid = record->owner.pid,
        .start_ticks = record->owner.start_ticks,
        .created_us = record->created_us,
    };
    if (record->net == PLAN_NET_BRIDGE) {
        ret->address = netns_slot_v4(&b->host.net, record->slot);
        ret->address6 = netns_slot_v6(&b->host.net, record->slot);
        netns_gateways(&b->host.net, &ret->gateway, &ret->gateway6);
    }
    memcpy(ret->id, record->id, sizeof(ret->id));
}

/* Finds the sandbox that a request names. */
static int find_named(const struct exchange *x, const char *id, struct slot_record *ret,
                      int *ret_dir)
{
    if (id[PLAN_ID_MAX - 1] || !plan_id_is_valid(str_of(id)))
        return err_set(x->e, EINVAL, "not a valid sandbox id");
    return life_find(x->b, id, ret, ret_dir, x->e);
}

static int find(const struct exchange *x, struct slot_record *ret, int *ret_dir)
{
    return find_named(x, x->request->id.id, ret, ret_dir); /* the first field of these requests */
}

/* --- operations --- */

static int configure(struct exchange *x)
{
    const struct broker_config *c = &x->request->config;

    if (c->version != BROKER_WIRE_VERSION)
        return err_set(x->e, EPROTO,
                       "the broker and its caller are of different releases: it speaks version %d "
                       "of their protocol, not %u",
                       BROKER_WIRE_VERSION, c->version);
    if (c->ready_none > READY_MAX || c->ready_bridge > READY_MAX)
        return err_set(x->e, EINVAL, "at most %d slots are made ahead", READY_MAX);
    if (c->role > BROKER_ROLE_EGRESS)
        return err_set(x->e, EINVAL, "an unknown role");
    x->peer->config = *c;
    x->peer->configured = true;
    ready_want(x->b, c);
    return 0;
}

static int op_config(struct exchange *x)
{
    if (x->peer->configured)
        return err_set(x->e, EPROTO, "this connection is configured already");
    return configure(x);
}

static int op_fill(struct exchange *x)
{
    const struct broker_config *c = &x->request->config;
    const uint32_t wanted[] = {
        [PLAN_NET_NONE] = c->ready_none, [PLAN_NET_BRIDGE] = c->ready_bridge};
    int r = configure(x);

    while (r >= 0 && (r = ready_fill_one(x->b, wanted, x->e)) > 0)
        ;
    return r;
}

static int spawn_open_files(int dir, struct spawn_args *args, struct err *e)
{
    args->exit_file = openat(dir, "exit", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    args->log_file = openat(dir, "log", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return args->exit_file < 0 || args->log_file < 0 ? err_sys(e, errno, "open report files") : 0;
}

static int spawn_limit_disk(struct broker *b, const struct ready *r, uint64_t bytes, int *ret_disk,
                            struct err *e)
{
    struct disk_limit limit = {r->slot.slot, r->slot.uid_first, bytes};
    int error = bytes ? disk_limit(&b->host.disk, r->dir, &limit, ret_disk, e) : 0;

    return error < 0 ? err_wrap(e, error, "limit the disk") : 0;
}

/* A plan with a lasting layer has no limit: that is of the layer itself. */
static int spawn_open_disk(struct exchange *x, struct ready *r, int *ret_disk)
{
    const struct plan *plan = x->plan;
    auto_fd dir = -EBADF;
    int mount, given;

    if (!plan->lasting)
        return spawn_limit_disk(x->b, r, plan->limits.disk_bytes, ret_disk, x->e);
    given = x->fds[plan->layer_count + plan->bind_count];
    dir = allow_open_dir(x->b, x->peer->uid, given, false, x->e);
    mount = dir < 0 ? dir : lasting_open(dir, given, &r->slot, r->dir, &r->child, x->e);
    if (mount < 0)
        return err_wrap(x->e, mount, "open the writable layer");
    *ret_disk = mount;
    return 0;
}

/* The allowed runtime of a plan; NULL when it names none. */
static int find_oci(const struct exchange *x, const struct oci_runtime **ret)
{
    const struct host *h = &x->b->host;

    *ret = NULL;
    for (size_t i = 0; x->plan->runtime[0] && i < h->oci_count; i++)
        if (strcmp(h->oci[i].name, x->plan->runtime) == 0)
            *ret = &h->oci[i];
    return *ret || !x->plan->runtime[0]
               ? 0
               : err_set(x->e, EINVAL, "the broker was started without a runtime '%s'",
                         x->plan->runtime);
}

static int spawn_make_bundle(const struct exchange *x, const struct ready *r, int *ret_bundle)
{
    struct oci_bundle bundle = {x->plan, r->slot.uid_first};
    AUTO_BUF(text, OCI_BUNDLE_BYTES_MAX);
    auto_fd fd = -EBADF;
    int error = oci_bundle_write(&bundle, &text, x->e);

    if (error < 0)
        return error;
    fd = fd_memory("config.json");
    error = fd < 0 ? fd : fd_pwrite_all(fd, text.p, text.n, 0);
    if (error < 0)
        return err_sys(x->e, -error, "make config.json");
    *ret_bundle = take_fd(&fd);
    return 0;
}

/* Turns a ready slot into a live one. Writes SLOT_LIVE last: until then the slot belongs to the
 * broker, and is removed when that ends. */
static int spawn_in(struct exchange *x, struct ready *r, struct slot_record *record,
                    struct proc *ret)
{
    const struct plan *plan = x->plan;
    struct spawn_args args = {
        .plan = plan,
        .layers = x->fds,
        .binds = x->fds + plan->layer_count,
        .listener = x->fds[x->fd_count - 1],
        .exit_file = -EBADF,
        .log_file = -EBADF,
        .bundle = -EBADF,
        .memory = plan->memory ? x->fds[x->fd_count - 2] : -EBADF,
        .disk = -EBADF,
        .has_address = plan->net == PLAN_NET_BRIDGE,
        .address = netns_slot_v4(&x->b->host.net, r->slot.slot),
    };
    int error = cgroup_limit(&r->cgroup, &plan->limits, x->e);

    if (error == 0)
        error = find_oci(x, &args.oci);
    if (error == 0 && args.oci)
        error = spawn_make_bundle(x, r, &args.bundle);
    if (error == 0 && (plan->lasting || plan_has_shifted_layer(plan)))
        error = ready_layer_userns(&r->slot, x->e);
    if (error == 0)
        error = spawn_open_disk(x, r, &args.disk);
    if (error == 0 && plan->bind_count)
        error = life_note_shares(r->dir, x->e);
    if (error == 0 && plan->guarded)
        error = policy_close(x->b, r->slot.slot, r->dir, x->e);
    if (error == 0)
        error = spawn_open_files(r->dir, &args, x->e);
    if (error == 0)
        error = spawn_go(&r->slot, &r->parked, &args, ret, x->e);
    fd_close(args.exit_file);
    fd_close(args.log_file);
    fd_close(args.disk);
    fd_close(args.bundle);
    if (error < 0)
        return error;
    record->state = SLOT_LIVE;
    record->owner = r->child;
    if (record->owner.pid == 0)
        return err_set(x->e, ESRCH, "the start time of its first process is unknown");
    error = slot_write_record(r->dir, record, x->e);
    if (error == 0)
        describe(x->b, record, BROKER_RUNNING, &x->reply->sandbox);
    return error;
}

/* Takes the lock, so that a sweep finds no name of a sandbox that is still being made. Writes the
 * id to the record before the name: if we die after that, a lookup of the id finds this slot, and
 * the record proves that the number was not reused by another sandbox. */
static int spawn_named(struct exchange *x, struct ready *r, struct proc *ret)
{
    const char *id = x->plan->id;
    struct slot_record record = {
        .slot = r->slot.slot,
        .state = SLOT_READY,
        .owner = x->b->self,
        .created_us = (uint64_t)time_wall_us(),
        .net = x->plan->net,
        .root = x->plan->root,
    };
    int error;

    memcpy(record.runtime, x->plan->runtime, sizeof(record.runtime));
    memcpy(record.id, id, sizeof(record.id));
    if (flock(x->b->host.lock, LOCK_SH) < 0)
        return err_sys(x->e, errno, "lock the slots");
    error = slot_write_record(r->dir, &record, x->e);
    if (error == 0)
        error = life_name(x->b, id, r->slot.slot, x->e);
    if (error == 0) {
        error = spawn_in(x, r, &record, ret);
        if (error == 0)
            error = sandbox_files(x, r->dir, ret->pidfd);
        if (error < 0)
            (void)unlinkat(x->b->host.ids, id, 0);
    }
    (void)flock(x->b->host.lock, LOCK_UN);
    return error;
}

/* Checks the first `count` descriptors. Their files are used with our rights, and root inside gets
 * access to them, so the caller must be allowed to name them. */
static int check_may_use(const struct exchange *x, size_t count)
{
    const struct plan *plan = x->plan;
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        size_t bind = i - plan->layer_count; /* objects_mount() checks these */

        if (i >= plan->layer_count && bind < plan->bind_count && plan->binds_objects >> bind & 1)
            continue;
        r = allow_check(x->b, x->peer->uid, x->fds[i], x->e);
    }
    return r;
}

/* Refuses sockets of the host's network: a sandbox could reconnect one to reach what its own
 * network cannot. A listening AF_UNIX socket cannot be used for that. */
static int check_listener(int fd, struct err *e)
{
    int domain = 0, listens = 0;
    socklen_t size = sizeof(int);

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || domain != AF_UNIX ||
        !listens)
        return err_set(e, EINVAL, "expected a listening unix socket for execd");
    return 0;
}

static int op_spawn(struct exchange *x)
{
    const struct plan *plan = x->plan;
    struct proc proc = PROC_NONE;
    struct ready *r;
    size_t given;
    int error = plan_check(plan, x->e);

    if (error < 0)
        return error;
    given = plan->layer_count + plan->bind_count + plan->lasting + plan->memory;
    if (x->fd_count != given + 1)
        return err_set(x->e, EINVAL,
                       "expected %u layers, %u volumes, %u writable layers, %u directories with "
                       "memory and a listener",
                       plan->layer_count, plan->bind_count, plan->lasting, plan->memory);
    error = check_may_use(x, given);
    if (error == 0)
        error = check_listener(x->fds[given], x->e);
    if (error < 0)
        return error;
    ready_note(x->b, plan);
    r = ready_take(x->b, plan);
    if (!r) {
        error = ready_make(x->b, plan->net, &r, x->e);
        if (error < 0)
            return error;
    }
    error = spawn_named(x, r, &proc);
    if (error < 0) {
        proc_close(&proc);
        ready_free(x->b, r);
        return error;
    }
    fd_close(r->slot.userns);
    fd_close(r->slot.netns);
    fd_close(r->slot.layer_userns);
    fd_close(r->dir);
    cgroup_close(&r->cgroup);
    free(r);
    return 0;
}

static int op_open(struct exchange *x)
{
    struct slot_record record;
    struct proc proc = PROC_NONE;
    auto_fd dir = -EBADF;
    int r = find(x, &record, &dir);

    if (r < 0)
        return r;
    r = proc_open(record.owner.pid, &proc);
    describe(x->b, &record, state_of(x->b, &record, dir), &x->reply->sandbox);
    /* The PID may have been reused: only with the same start time is it our PID 1. */
    if (r < 0 || x->reply->sandbox.state == BROKER_DEAD) {
        proc_close(&proc);
        x->reply->sandbox.state = BROKER_DEAD;
        proc.pidfd = fd_open_at(dir, "exit", O_RDONLY, 0, PATH_STRICT, x->e);
        if (proc.pidfd < 0)
            return proc.pidfd;
    }
    r = sandbox_files(x, dir, proc.pidfd);
    if (r < 0)
        proc_close(&proc);
    return r;
}

static int op_signal(struct exchange *x)
{
    struct slot_record record;
    auto_proc proc = PROC_NONE;
    auto_fd dir = -EBADF;
    int r = find(x, &record, &dir);

    if (r < 0)
        return r;
    r = proc_open(record.owner.pid, &proc);
    if (r == 0)
        r = slot_owner_alive(&record.owner) ? proc_signal(proc.pidfd, x->request->signal.signal)
                                            : -ESRCH;
    return r < 0 ? err_sys(x->e, -r, "signal sandbox '%s'", record.id) : 0;
}

static int set_paused(struct exchange *x, bool paused)
{
    struct slot_record record;
    auto_fd dir = -EBADF;
    int r = find(x, &record, &dir);

    return r < 0 ? r : pause_set(x->b, &record, dir, paused, x->e);
}

static int op_pause(struct exchange *x)
{
    return set_paused(x, true);
}

static int op_resume(struct exchange *x)
{
    return set_paused(x, false);
}

static int op_stat(struct exchange *x)
{
    struct slot_record record;
    auto_fd dir = -EBADF;
    struct cgroup groups;
    int r = find(x, &record, &dir);

    if (r < 0)
        return r;
    describe(x->b, &record, state_of(x->b, &record, dir), &x->reply->sandbox);
    groups = cgroup_at(x->b->host.cgroups, record.slot);
    return cgroup_stat(&groups, &x->reply->stat, x->e);
}

struct listing {
    struct exchange *x;
    uint32_t slots[SLOT_COUNT_MAX];
    size_t count;
};

static void list_collect(void *user, uint32_t slot)
{
    struct listing *l = user;

    if (slot >= l->x->request->list.from_slot && l->count < SLOT_COUNT_MAX)
        l->slots[l->count++] = slot;
}

static int slot_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static int op_list(struct exchange *x)
{
    static struct listing l; /* too large for the stack; single-threaded */
    int n = 0, r;

    l = (struct listing){.x = x};
    r = slot_each(&x->b->host, list_collect, &l, x->e);
    if (r < 0)
        return r;
    qsort(l.slots, l.count, sizeof(l.slots[0]), slot_compare);
    for (size_t i = 0; i < l.count; i++) {
        auto_fd dir = slot_open(&x->b->host, l.slots[i], NULL);
        struct slot_record record;

        if (dir < 0 || slot_read_record(dir, &record, NULL) < 0 || record.state != SLOT_LIVE)
            continue;
        if (n == BROKER_LIST_MAX) {
            x->reply->next = l.slots[i];
            break;
        }
        describe(x->b, &record, state_of(x->b, &record, dir), &x->reply->list[n++]);
    }
    return n;
}

/* Also removes what a worker left that died during a create. */
static int op_remove(struct exchange *x)
{
    struct slot_record record;
    auto_fd dir = -EBADF;
    int r = find(x, &record, &dir);

    if (r == -ENOENT)
        r = life_find_leftover(x->b, x->request->id.id, &record, &dir, x->e);
    if (r < 0)
        return r;
    r = (x->request->id.soon ? life_end_soon : life_end)(x->b, record.slot, dir, record.id, x->e);
    return r < 0 ? err_wrap(x->e, r, "remove sandbox '%s'", record.id) : 0;
}

static int op_snapshot(struct exchange *x)
{
    struct slot_record record;
    bool with_memory = x->request->snapshot.memory != 0;
    auto_fd dir = -EBADF, target = -EBADF, memory = -EBADF;
    int r;

    if (x->fd_count != 1 + (size_t)with_memory)
        return err_set(x->e, EPROTO, "expected an empty directory, and another with memory");
    r = target = allow_open_dir(x->b, x->peer->uid, x->fds[0], true, x->e);
    if (r >= 0 && with_memory)
        r = memory = allow_open_dir(x->b, x->peer->uid, x->fds[1], true, x->e);
    if (r >= 0)
        r = find(x, &record, &dir);
    if (r == 0 && with_memory)
        r = memory_check(x->b, &record, x->e);
    if (r == 0)
        r = snapshot_start(x->b, &record, dir, target, memory, x->e);
    if (r < 0)
        return r;
    x->files[x->file_count++] = r;
    return 0;
}

/* Opens the layers and the target of a merge; *ret_count of fds are open in any case. */
static int merge_open(const struct exchange *x, int fds[PLAN_LAYERS_MAX + 1], size_t *ret_count)
{
    int r = 0;

    if (x->fd_count < 2 || x->fd_count > PLAN_LAYERS_MAX + 1)
        return err_set(x->e, EPROTO, "expected 1 to %d layers and an empty directory",
                       PLAN_LAYERS_MAX);
    for (size_t i = 0; r >= 0 && i < x->fd_count; i++) {
        r = allow_open_dir(x->b, x->peer->uid, x->fds[i], i + 1 == x->fd_count, x->e);
        if (r >= 0)
            fds[(*ret_count)++] = r;
    }
    return r < 0 ? r : 0;
}

static int op_merge(struct exchange *x)
{
    int fds[PLAN_LAYERS_MAX + 1];
    size_t count = 0;
    int r = merge_open(x, fds, &count);

    if (r == 0)
        r = merge_start(x->b,
                        &(struct layer_merge){
                            .layers = fds, .count = count - 1, .link = x->request->merge.link},
                        fds[count - 1], x->e);
    while (count > 0)
        fd_close(fds[--count]);
    if (r < 0)
        return r;
    x->files[x->file_count++] = r;
    return 0;
}

static struct str path_of(const struct exchange *x)
{
    const struct broker_path *path = &x->request->path;

    return str_make(path->path, strnlen(path->path, sizeof(path->path)));
}

static int op_erase(struct exchange *x)
{
    char name[NAME_MAX + 1];
    auto_fd parent = -EBADF;
    struct str path = path_of(x);

    if (path.n == 0 || str_find(path, '/') < path.n || str_eq(path, STR(".")) ||
        str_eq(path, STR("..")) || str_copy(name, sizeof(name), path) < 0)
        return err_set(x->e, EINVAL, "expected the name of a directory, without a '/'");
    /* In our mount namespace: the caller's service manager may have made it read-only there. */
    parent = allow_open(x->b, x->peer->uid, x->fds[0], x->e);
    return parent < 0 ? parent : disks_erase(x->b, parent, name, x->e);
}

static int op_reach(struct exchange *x)
{
    const struct broker_path *path = &x->request->path;
    int fd = path->disk_bytes
                 ? disks_make(x->b, x->peer->uid, x->fds[0], path_of(x), path->disk_bytes, x->e)
                 : allow_reach(x->b, x->peer->uid, x->fds[0], path_of(x), path->make, x->e);

    if (fd < 0)
        return fd;
    x->files[x->file_count++] = fd;
    return 0;
}

static int op_unpack(struct exchange *x)
{
    const struct unpack_job job = {
        .limits = x->request->unpack, .blob = x->fds[0], .target = x->fds[1]};
    int fd = unpack_watch(x->b, x->peer->uid, &job, x->e);

    if (fd < 0)
        return fd;
    x->files[x->file_count++] = fd;
    return 0;
}

static int op_objects(struct exchange *x)
{
    int fd = objects_watch(x->b, &x->request->objects, x->e);

    if (fd < 0)
        return fd;
    x->files[x->file_count++] = fd;
    return 0;
}

static int op_measure(struct exchange *x)
{
    auto_fd dir = allow_open_dir(x->b, x->peer->uid, x->fds[0], false, x->e);
    int fd = dir < 0 ? dir : measure_start(x->b, dir, x->e);

    if (fd < 0)
        return fd;
    x->files[x->file_count++] = fd;
    return 0;
}

static int op_policy(struct exchange *x)
{
    struct slot_record record;
    auto_fd dir = -EBADF;
    int r = find_named(x, x->policy->id, &record, &dir);

    if (r == 0)
        r = policy_set(x->b, &record, dir, &x->policy->policy, x->e);
    if (r == 0)
        describe(x->b, &record, BROKER_RUNNING, &x->reply->sandbox);
    return r;
}

static int op_learn(struct exchange *x)
{
    const struct broker_learn *learn = &x->request->learn;
    struct slot_record record;
    auto_fd dir = -EBADF;
    int r;

    if (learn->count == 0 || learn->count > NETNS_LEARN_MAX)
        return err_set(x->e, EINVAL, "expected 1 to %d addresses", NETNS_LEARN_MAX);
    r = find(x, &record, &dir);
    return r < 0 ? r : policy_learn(x->b, &record, dir, learn->entries, learn->count, x->e);
}

static int op_traffic(struct exchange *x)
{
    struct slot_record record;
    auto_fd dir = -EBADF;
    int r = find(x, &record, &dir);

    return r < 0 ? r : policy_traffic_of(x->b, &record, &x->reply->traffic, x->e);
}

static int op_denied(struct exchange *x)
{
    return x->b->host.has_bridge ? netns_policy_denied(&x->b->host.net, x->reply->denied, x->e) : 0;
}

static void info_count(void *user, uint32_t slot)
{
    const struct exchange *x = user;
    struct broker_info *info = &x->reply->info;
    auto_fd dir = slot_open(&x->b->host, slot, NULL);
    struct slot_record record;

    if (dir < 0 || slot_read_record(dir, &record, NULL) < 0)
        return;
    if (record.state == SLOT_READY)
        ++*(record.net == PLAN_NET_BRIDGE ? &info->ready.bridge : &info->ready.none);
    else
        ++*(slot_owner_alive(&record.owner) ? &info->live : &info->dead);
}

/* Counts the records, which all workers share. */
static int op_info(struct exchange *x)
{
    struct broker *b = x->b;

    if (b->blocked.code) /* the cause may have been fixed */
        fd_close(ready_userns(b, 0, NULL));
    x->reply->info = (struct broker_info){
        .tied = b->tied,
        .here = {b->ready_count[PLAN_NET_NONE], b->ready_count[PLAN_NET_BRIDGE]},
        .wanted = {b->ready_total[PLAN_NET_NONE], b->ready_total[PLAN_NET_BRIDGE]},
        .blocked = b->blocked,
    };
    netns_gateways(&b->host.net, &x->reply->info.gateway, &x->reply->info.gateway6);
    if (!b->host.net.v6)
        x->reply->info.gateway6 = in6addr_any;
    return slot_each(&b->host, info_count, x, x->e);
}

static int op_sweep(struct exchange *x)
{
    return broker_sweep_all(x->b, x->request->sweep.dead_too, x->e);
}

/* --- dispatch --- */

enum { FDS_OF_PLAN = -1, FDS_ANY = -2 };

static const struct {
    int fds; /* number of descriptors that must be sent with it */
    int (*run)(struct exchange *x);
} ops[BROKER_OP_COUNT] = {
    [BROKER_CONFIG] = {0,           op_config  },
      [BROKER_SPAWN] = {FDS_OF_PLAN, op_spawn   },
    [BROKER_OPEN] = {0,           op_open    },
      [BROKER_SIGNAL] = {0,           op_signal  },
    [BROKER_PAUSE] = {0,           op_pause   },
      [BROKER_RESUME] = {0,           op_resume  },
    [BROKER_STAT] = {0,           op_stat    },
      [BROKER_LIST] = {0,           op_list    },
    [BROKER_REMOVE] = {0,           op_remove  },
      [BROKER_SNAPSHOT] = {FDS_ANY,     op_snapshot},
    [BROKER_FILL] = {0,           op_fill    },
      [BROKER_SWEEP] = {0,           op_sweep   },
    [BROKER_INFO] = {0,           op_info    },
      [BROKER_ERASE] = {1,           op_erase   },
    [BROKER_REACH] = {1,           op_reach   },
      [BROKER_UNPACK] = {2,           op_unpack  },
    [BROKER_MERGE] = {FDS_ANY,     op_merge   },
      [BROKER_MEASURE] = {1,           op_measure },
    [BROKER_POLICY] = {0,           op_policy  },
      [BROKER_LEARN] = {0,           op_learn   },
    [BROKER_OBJECTS] = {0,           op_objects },
      [BROKER_TRAFFIC] = {0,           op_traffic },
    [BROKER_DENIED] = {0,           op_denied  },
};

size_t broker_answer(struct broker *b, struct broker_peer *peer,
                     const union broker_message *message, size_t bytes, const int *fds,
                     size_t fd_count, struct broker_reply *reply, int ret_files[BROKER_FILE_COUNT])
{
    struct exchange x = {
        .b = b,
        .peer = peer,
        .request = &message->request,
        .plan = &message->spawn.plan,
        .policy = &message->policy,
        .fds = fds,
        .fd_count = fd_count,
        .reply = reply,
        .e = &reply->err,
    };
    size_t want = broker_message_bytes(message, bytes);

    memset(reply, 0, sizeof(*reply));
    if (want == 0 || bytes != want)
        reply->result = err_set(x.e, EPROTO, "no such request");
    else if (message->op != BROKER_CONFIG && !peer->configured)
        reply->result = err_set(x.e, EPROTO, "a connection begins with its configuration");
    else if (peer->configured && peer->config.role == BROKER_ROLE_EGRESS &&
             message->op != BROKER_POLICY && message->op != BROKER_LEARN &&
             message->op != BROKER_TRAFFIC && message->op != BROKER_DENIED &&
             message->op != BROKER_INFO)
        reply->result = err_set(x.e, EPERM, "this connection may only ask for policies");
    else if (ops[message->op].fds >= 0 && fd_count != (size_t)ops[message->op].fds)
        reply->result = err_set(x.e, EPROTO, "expected %d descriptors", ops[message->op].fds);
    else
        reply->result = ops[message->op].run(&x);
    if (reply->result < 0 && !reply->err.code)
        (void)err_sys(&reply->err, -reply->result, "failed");
    memcpy(ret_files, x.files, x.file_count * sizeof(x.files[0]));
    return x.file_count;
}
