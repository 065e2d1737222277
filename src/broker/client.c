#include "broker/client.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/trace.h"
#include "sandbox/disk.h"
#include "sandbox/spawn.h"

/* Longer than the broker's own timeouts, so that it can report what went wrong after undoing it.
 * Removing or copying trees and reclaiming memory have none, as they may take long. A worker busy
 * with other requests serves this one in the end, and new connections after all others. */
enum {
    SHORT_MS = 10 * 1000,
    TURN_MS = 30 * 1000,
    LONG_MS = 60 * 1000,
    SPAWN_MS = 120 * 1000,
    HAND_OVER_MS = 1000, /* to begin a connection for another process */
    SLOT_MS = 20 * 1000, /* to make a slot, and to remove it after a failure */
};
static_assert((int)SHORT_MS > (int)BROKER_FREEZE_MS_MAX, "a sandbox that does not thaw is told");
static_assert(SPAWN_MS > DISK_LIMIT_MS_MAX + SPAWN_STEPS_MS_MAX + SPAWN_KILL_MS_MAX + SLOT_MS,
              "a step that hangs is told");
static const uint32_t reply_ms[BROKER_OP_COUNT] = {
    [BROKER_CONFIG] = TURN_MS,   [BROKER_OPEN] = SHORT_MS,    [BROKER_SIGNAL] = SHORT_MS,
    [BROKER_PAUSE] = LONG_MS,    [BROKER_RESUME] = SHORT_MS,  [BROKER_STAT] = SHORT_MS,
    [BROKER_LIST] = SHORT_MS,    [BROKER_REMOVE] = LONG_MS,   [BROKER_SNAPSHOT] = SHORT_MS,
    [BROKER_FILL] = LONG_MS,     [BROKER_SWEEP] = LONG_MS,    [BROKER_INFO] = SHORT_MS,
    [BROKER_ERASE] = SHORT_MS,   [BROKER_REACH] = SHORT_MS,   [BROKER_UNPACK] = SHORT_MS,
    [BROKER_MERGE] = SHORT_MS,   [BROKER_MEASURE] = SHORT_MS, [BROKER_LEARN] = SHORT_MS,
    [BROKER_OBJECTS] = SHORT_MS, [BROKER_TRAFFIC] = SHORT_MS, [BROKER_DENIED] = SHORT_MS,
};

void broker_handle_done(struct broker_handle *h)
{
    for (size_t i = 0; i < BROKER_FILE_COUNT; i++)
        fd_close(take_fd(&h->files[i]));
}

void broker_close(struct broker_client *c)
{
    fd_close(take_fd(&c->sock));
}

/* --- traces --- */

static const char *const op_names[BROKER_OP_COUNT] = {
    [BROKER_CONFIG] = "config",     [BROKER_SPAWN] = "spawn",   [BROKER_OPEN] = "open",
    [BROKER_SIGNAL] = "signal",     [BROKER_PAUSE] = "pause",   [BROKER_RESUME] = "resume",
    [BROKER_STAT] = "stat",         [BROKER_LIST] = "list",     [BROKER_REMOVE] = "remove",
    [BROKER_SNAPSHOT] = "snapshot", [BROKER_FILL] = "fill",     [BROKER_SWEEP] = "sweep",
    [BROKER_INFO] = "info",         [BROKER_ERASE] = "erase",   [BROKER_REACH] = "reach",
    [BROKER_UNPACK] = "unpack",     [BROKER_MERGE] = "merge",   [BROKER_MEASURE] = "measure",
    [BROKER_POLICY] = "policy",     [BROKER_LEARN] = "learn",   [BROKER_OBJECTS] = "objects",
    [BROKER_TRAFFIC] = "traffic",   [BROKER_DENIED] = "denied",
};

/* What the broker says of its part lies within the call, or is not believed. */
static void trace_broker(const struct trace_span *call, struct str name, uint64_t end_ns,
                         const struct broker_timing *timing, bool failed)
{
    struct trace_span part = trace_begin(&call->context);

    if (!trace_is_recorded(&part) || timing->begin_ns < call->begin_ns ||
        timing->end_ns < timing->begin_ns || timing->end_ns > end_ns)
        return;
    part.begin_ns = timing->begin_ns;
    trace_end_at(&part, timing->end_ns,
                 &(struct trace_note){.name = name, .kind = TRACE_SERVER, .failed = failed});
}

/* The call, and below it the part of it in which the broker worked. */
static void trace_exchange(const struct trace_span *call, uint32_t op, int r,
                           const struct broker_reply *reply)
{
    const struct trace_attribute rows[] = {
        {"opensandbox.broker.op", str_of(op_names[op]), 0},
    };
    uint64_t end_ns = time_mono_ns();
    char name[32], inner[48];

    if (!trace_is_recorded(call))
        return;
    (void)snprintf(name, sizeof(name), "broker %s", op_names[op]);
    (void)snprintf(inner, sizeof(inner), "opensandbox-broker %s", op_names[op]);
    if (reply)
        trace_broker(call, str_of(inner), end_ns, &reply->timing, r < 0);
    trace_end_at(call, end_ns,
                 &(struct trace_note){str_of(name), TRACE_CLIENT, r < 0, rows, ARRAY_LEN(rows)});
}

/* --- one exchange --- */

static int await_reply(int sock, uint32_t timeout_ms)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    uint64_t deadline = deadline_in_ms(timeout_ms);
    int r;

    do
        r = poll(&p, 1, deadline_left_ms(deadline));
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

/* EAGAIN comes from SO_SNDTIMEO. */
static bool is_silence(int r)
{
    return r == -ETIMEDOUT || r == -EAGAIN;
}

/* The number of descriptors that come with a reply that has any. */
static size_t files_of(uint32_t op)
{
    return op == BROKER_SPAWN || op == BROKER_OPEN ? BROKER_FILE_COUNT : 1;
}

/* Descriptors of the reply go to ret_files, which has room for those of the operation; NULL when
 * none is expected. */
static int await_answer(struct broker_client *c, uint32_t timeout_ms, struct broker_reply *reply,
                        int *ret_files, size_t wanted, struct err *e)
{
    int got[FD_SEND_MAX];
    size_t n = 0, count = 0;
    int r = await_reply(c->sock, timeout_ms);

    if (r == 0)
        r = fd_recv(c->sock, reply, sizeof(*reply), &n, got, &count);
    if (r == 0 && n == 0)
        r = -EPIPE;
    if (r < 0) {
        broker_close(c); /* a late reply would be taken for that of the next request */
        return is_silence(r) ? err_set(e, ETIMEDOUT, "the broker does not answer")
                             : err_sys(e, -r, "talk to the broker");
    }
    if (n != sizeof(*reply) || count != (reply->result < 0 ? 0 : wanted)) {
        while (count > 0)
            fd_close(got[--count]);
        broker_close(c);
        return err_set(e, EPROTO, "the broker's reply does not match the request");
    }
    reply->err.msg[sizeof(reply->err.msg) - 1] = '\0';
    if (reply->result < 0 && e)
        *e = reply->err;
    for (size_t i = 0; i < count; i++)
        ret_files[i] = got[i];
    return reply->result;
}

static int exchange_bytes(struct broker_client *c, const void *message, size_t bytes,
                          uint32_t timeout_ms, const int *fds, size_t fd_count,
                          struct broker_reply *reply, int *ret_files, struct err *e)
{
    uint32_t op = *(const uint32_t *)message;
    size_t wanted = ret_files ? files_of(op) : 0;
    struct trace_span span = trace_begin(trace_current());
    int r = fd_send(c->sock, message, bytes, fds, fd_count);

    if (r >= 0) {
        r = await_answer(c, timeout_ms, reply, ret_files, wanted, e);
    } else {
        broker_close(c);
        r = is_silence(r) ? err_set(e, ETIMEDOUT, "the broker does not answer")
                          : err_sys(e, -r, "talk to the broker");
    }
    trace_exchange(&span, op, r, c->sock >= 0 ? reply : NULL);
    return r;
}

static int exchange(struct broker_client *c, const struct broker_request *request, const int *fds,
                    size_t fd_count, struct broker_reply *reply, int *ret_files, struct err *e)
{
    return exchange_bytes(c, request, broker_request_bytes(request), reply_ms[request->op], fds,
                          fd_count, reply, ret_files, e);
}

static int ask_about(struct broker_client *c, enum broker_op op, const char *id, const int *fds,
                     size_t fd_count, struct broker_reply *reply, int *ret_files, struct err *e)
{
    struct broker_request request = {.op = op};

    if (str_copy(request.id.id, sizeof(request.id.id), str_of(id)) < 0)
        return err_set(e, EINVAL, "'%.64s' is not a valid sandbox id", id);
    return exchange(c, &request, fds, fd_count, reply, ret_files, e);
}

/* --- the calls --- */

static int connect_to(const char *path, uint32_t patience_ms, struct err *e)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = patience_ms / 1000};
    auto_fd sock = -EBADF;

    if (str_copy(addr.sun_path, sizeof(addr.sun_path), str_of(path)) < 0)
        return err_set(e, ENAMETOOLONG, "socket path '%s' is too long", path);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return err_sys(e, errno, "make a socket");
    fd_set_send_room(sock, sizeof(struct broker_spawn));
    /* connect() blocks while the backlog is full: forever if the broker never accepts. */
    (void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return is_silence(-errno) ? err_set(e, ETIMEDOUT, "the broker does not answer")
                                  : err_sys(e, errno, "connect to the broker at '%s'", path);
    return take_fd(&sock);
}

int broker_connect(struct broker_client *c, const char *path, const struct broker_config *config,
                   struct err *e)
{
    struct broker_request request = {.op = BROKER_CONFIG, .config = *config};
    struct broker_reply reply;
    int sock = connect_to(path, SHORT_MS, e);

    request.config.version = BROKER_WIRE_VERSION;
    c->sock = sock < 0 ? -EBADF : sock;
    return sock < 0 ? sock : exchange(c, &request, NULL, 0, &reply, NULL, e);
}

int broker_connect_for(const char *path, const struct broker_config *config, struct err *e)
{
    struct broker_request request = {.op = BROKER_CONFIG, .config = *config};
    auto_fd sock = connect_to(path, HAND_OVER_MS, e);
    int r;

    if (sock < 0)
        return sock;
    request.config.version = BROKER_WIRE_VERSION;
    r = fd_send(sock, &request, broker_request_bytes(&request), NULL, 0);
    return r < 0 ? err_sys(e, -r, "talk to the broker") : take_fd(&sock);
}

int broker_adopt(struct broker_client *c, int sock, struct err *e)
{
    struct broker_reply reply;

    c->sock = sock;
    return await_answer(c, TURN_MS, &reply, NULL, 0, e);
}

int broker_spawn(struct broker_client *c, const struct plan *plan, const int *layers,
                 const int *binds, int listener, struct broker_handle *ret, struct err *e)
{
    auto_free struct broker_spawn *message = NULL;
    struct broker_reply reply;
    int fds[PLAN_LAYERS_MAX + PLAN_BINDS_MAX + 3];
    size_t count = 0;
    int r = plan_check(plan, e);

    if (r < 0)
        return r;
    message = mem_alloc(broker_spawn_bytes(plan));
    message->op = BROKER_SPAWN;
    memcpy(&message->plan, plan, plan_bytes(plan));
    for (size_t i = 0; i < plan->layer_count; i++)
        fds[count++] = layers[i];
    for (size_t i = 0; i < plan->bind_count + plan->lasting + plan->memory; i++)
        fds[count++] = binds[i];
    fds[count++] = listener;
    r = exchange_bytes(c, message, broker_spawn_bytes(plan), SPAWN_MS, fds, count, &reply,
                       ret->files, e);
    if (r == 0)
        ret->sandbox = reply.sandbox;
    return r;
}

int broker_open(struct broker_client *c, const char *id, struct broker_handle *ret, struct err *e)
{
    struct broker_reply reply;
    int r = ask_about(c, BROKER_OPEN, id, NULL, 0, &reply, ret->files, e);

    if (r == 0)
        ret->sandbox = reply.sandbox;
    return r;
}

int broker_policy(struct broker_client *c, const char *id, const struct netns_policy *policy,
                  struct broker_sandbox *ret, struct err *e)
{
    auto_free struct broker_policy *message = NULL;
    struct broker_reply reply;
    int r = netns_policy_check(policy, e);

    if (r < 0)
        return r;
    message = mem_alloc(sizeof(*message));
    memset(message, 0, offsetof(struct broker_policy, policy));
    message->op = BROKER_POLICY;
    if (str_copy(message->id, sizeof(message->id), str_of(id)) < 0)
        return err_set(e, EINVAL, "'%.64s' is not a valid sandbox id", id);
    memcpy(&message->policy, policy, netns_policy_bytes(policy));
    r = exchange_bytes(c, message, broker_policy_bytes(policy), SHORT_MS, NULL, 0, &reply, NULL, e);
    if (r == 0 && ret)
        *ret = reply.sandbox;
    return r;
}

int broker_learn(struct broker_client *c, const char *id, const struct netns_entry *entries,
                 size_t count, struct err *e)
{
    struct broker_request request = {.op = BROKER_LEARN, .learn.count = (uint32_t)count};
    struct broker_reply reply;

    if (count > NETNS_LEARN_MAX)
        return err_set(e, EINVAL, "at most %d addresses at a time", NETNS_LEARN_MAX);
    if (str_copy(request.learn.id, sizeof(request.learn.id), str_of(id)) < 0)
        return err_set(e, EINVAL, "'%.64s' is not a valid sandbox id", id);
    memcpy(request.learn.entries, entries, count * sizeof(entries[0]));
    return exchange(c, &request, NULL, 0, &reply, NULL, e);
}

int broker_traffic(struct broker_client *c, const char *id, struct netns_traffic *ret,
                   struct err *e)
{
    struct broker_request request = {.op = BROKER_TRAFFIC};
    struct broker_reply reply;
    int r;

    if (str_copy(request.id.id, sizeof(request.id.id), str_of(id)) < 0)
        return err_set(e, EINVAL, "'%.64s' is not a valid sandbox id", id);
    r = exchange(c, &request, NULL, 0, &reply, NULL, e);
    if (r >= 0)
        *ret = reply.traffic;
    return r;
}

int broker_denied(struct broker_client *c, struct netns_denied ret[NETNS_DENIED_MAX], struct err *e)
{
    struct broker_request request = {.op = BROKER_DENIED};
    struct broker_reply reply;
    int r = exchange(c, &request, NULL, 0, &reply, NULL, e);

    if (r > NETNS_DENIED_MAX)
        return err_set(e, EPROTO, "the broker tells of %d connections at once", r);
    if (r > 0)
        memcpy(ret, reply.denied, (size_t)r * sizeof(ret[0]));
    return r;
}

int broker_signal(struct broker_client *c, const char *id, int signal, struct err *e)
{
    struct broker_request request = {.op = BROKER_SIGNAL, .signal.signal = signal};
    struct broker_reply reply;

    if (str_copy(request.signal.id, sizeof(request.signal.id), str_of(id)) < 0)
        return err_set(e, EINVAL, "'%.64s' is not a valid sandbox id", id);
    return exchange(c, &request, NULL, 0, &reply, NULL, e);
}

int broker_pause(struct broker_client *c, const char *id, struct err *e)
{
    struct broker_reply reply;

    return ask_about(c, BROKER_PAUSE, id, NULL, 0, &reply, NULL, e);
}

int broker_resume(struct broker_client *c, const char *id, struct err *e)
{
    struct broker_reply reply;

    return ask_about(c, BROKER_RESUME, id, NULL, 0, &reply, NULL, e);
}

int broker_remove(struct broker_client *c, const char *id, struct err *e)
{
    struct broker_reply reply;

    return ask_about(c, BROKER_REMOVE, id, NULL, 0, &reply, NULL, e);
}

int broker_remove_soon(struct broker_client *c, const char *id, struct err *e)
{
    struct broker_request request = {.op = BROKER_REMOVE, .id.soon = true};
    struct broker_reply reply;

    if (str_copy(request.id.id, sizeof(request.id.id), str_of(id)) < 0)
        return err_set(e, EINVAL, "'%.64s' is not a valid sandbox id", id);
    return exchange(c, &request, NULL, 0, &reply, NULL, e);
}

int broker_snapshot(struct broker_client *c, const char *id, int dir, int memory, struct err *e)
{
    struct broker_request request = {.op = BROKER_SNAPSHOT, .snapshot.memory = memory >= 0};
    struct broker_reply reply;
    const int fds[] = {dir, memory};
    int sock = -EBADF, r;

    if (str_copy(request.snapshot.id, sizeof(request.snapshot.id), str_of(id)) < 0)
        return err_set(e, ENAMETOOLONG, "the id is too long");
    r = exchange(c, &request, fds, 1 + request.snapshot.memory, &reply, &sock, e);

    return r < 0 ? r : sock;
}

int broker_merge(struct broker_client *c, const int *layers, size_t count, bool link, int dir,
                 struct err *e)
{
    struct broker_request request = {.op = BROKER_MERGE, .merge.link = link};
    struct broker_reply reply;
    int fds[PLAN_LAYERS_MAX + 1], sock = -EBADF, r;

    if (count == 0 || count > PLAN_LAYERS_MAX)
        return err_set(e, EINVAL, "expected 1 to %d layers", PLAN_LAYERS_MAX);
    memcpy(fds, layers, count * sizeof(fds[0]));
    fds[count] = dir;
    r = exchange(c, &request, fds, count + 1, &reply, &sock, e);
    return r < 0 ? r : sock;
}

int broker_measure(struct broker_client *c, int dir, struct err *e)
{
    struct broker_request request = {.op = BROKER_MEASURE};
    struct broker_reply reply;
    int sock = -EBADF;
    int r = exchange(c, &request, &dir, 1, &reply, &sock, e);

    return r < 0 ? r : sock;
}

int broker_objects(struct broker_client *c, const struct objects_spec *spec, struct err *e)
{
    struct broker_request request = {.op = BROKER_OBJECTS, .objects = *spec};
    struct broker_reply reply;
    int sock = -EBADF;
    int r = exchange(c, &request, NULL, 0, &reply, &sock, e);

    explicit_bzero(&request, sizeof(request)); /* it has the key */
    return r < 0 ? r : sock;
}

/* The text has names of an archive in it: only what can be printed stays. */
static void make_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

/* Receives the one message that tells the end of work beside the worker. */
static int await_result(int sock, uint32_t timeout_ms, void *ret, size_t bytes, const char *what,
                        struct err *e)
{
    int fds[FD_SEND_MAX];
    size_t n = 0, count = 0;
    int r = await_reply(sock, timeout_ms);

    if (r == 0)
        r = fd_recv(sock, ret, bytes, &n, fds, &count);
    while (count > 0)
        fd_close(fds[--count]);
    if (r < 0)
        return is_silence(r) ? err_set(e, ETIMEDOUT, "%s takes longer than allowed", what)
                             : err_sys(e, -r, "hear of the broker");
    return n == bytes ? 0 : err_set(e, EPIPE, "%s was cut off: the broker ended", what);
}

int broker_copied_result(int sock, uint32_t timeout_ms, struct broker_copied *ret, struct err *e)
{
    int r = await_result(sock, timeout_ms, ret, sizeof(*ret), "copying a layer", e);

    if (r < 0)
        return r;
    ret->err.msg[sizeof(ret->err.msg) - 1] = '\0';
    make_printable(ret->err.msg); /* it may have names of files */
    if (ret->result < 0 && e)
        *e = ret->err;
    return ret->result;
}

int broker_objects_result(int sock, struct err *e)
{
    struct objects_message message;
    int r = await_result(sock, OBJECTS_READY_MS_MAX + OBJECTS_STEP_MS_MAX, &message,
                         sizeof(message), "opening object storage", e);

    if (r < 0 || message.said == OBJECTS_READY)
        return r;
    message.err.msg[sizeof(message.err.msg) - 1] = '\0';
    make_printable(message.err.msg);
    if (e)
        *e = message.err;
    return message.err.code > 0 ? -message.err.code : -EIO;
}

static int ask_about_path(struct broker_client *c, struct broker_request *request, int dir,
                          const char *path, int *ret_file, struct err *e)
{
    struct broker_reply reply;

    if (str_copy(request->path.path, sizeof(request->path.path), str_of(path)) < 0)
        return err_set(e, ENAMETOOLONG, "the path is too long");
    return exchange(c, request, &dir, 1, &reply, ret_file, e);
}

int broker_erase(struct broker_client *c, int dir, const char *name, struct err *e)
{
    struct broker_request request = {.op = BROKER_ERASE};

    return ask_about_path(c, &request, dir, name, NULL, e);
}

int broker_reach(struct broker_client *c, int dir, const char *path, bool make, struct err *e)
{
    struct broker_request request = {.op = BROKER_REACH, .path.make = make};
    int fd = -EBADF;
    int r = ask_about_path(c, &request, dir, path, &fd, e);

    return r < 0 ? r : fd;
}

int broker_make_volume(struct broker_client *c, int dir, const char *name, uint64_t bytes,
                       struct err *e)
{
    struct broker_request request = {.op = BROKER_REACH, .path.make = 1, .path.disk_bytes = bytes};
    int fd = -EBADF;
    int r = ask_about_path(c, &request, dir, name, &fd, e);

    fd_close(fd);
    return r;
}

int broker_info(struct broker_client *c, struct broker_info *ret, struct err *e)
{
    struct broker_request request = {.op = BROKER_INFO};
    struct broker_reply reply;
    int r = exchange(c, &request, NULL, 0, &reply, NULL, e);

    if (r == 0)
        *ret = reply.info;
    return r;
}

int broker_stat(struct broker_client *c, const char *id, struct broker_sandbox *ret_sandbox,
                struct cgroup_stat *ret_stat, struct err *e)
{
    struct broker_reply reply;
    int r = ask_about(c, BROKER_STAT, id, NULL, 0, &reply, NULL, e);

    if (r == 0) {
        *ret_sandbox = reply.sandbox;
        *ret_stat = reply.stat;
    }
    return r;
}

int broker_unpack(struct broker_client *c, const struct unpack_limits *limits, int blob, int dir,
                  struct err *e)
{
    struct broker_request request = {.op = BROKER_UNPACK, .unpack = *limits};
    const int fds[] = {blob, dir};
    struct broker_reply reply;
    int sock = -EBADF;
    int r = exchange(c, &request, fds, ARRAY_LEN(fds), &reply, &sock, e);

    return r < 0 ? r : sock;
}

int broker_unpack_result(int sock, uint32_t timeout_ms, struct unpack_report *ret, struct err *e)
{
    int r = await_result(sock, timeout_ms, ret, sizeof(*ret), "unpacking a layer", e);

    if (r < 0)
        return r;
    ret->err.msg[sizeof(ret->err.msg) - 1] = '\0';
    make_printable(ret->err.msg);
    if (ret->result < 0 && e)
        *e = ret->err;
    return ret->result < 0 ? ret->result : 0;
}

int broker_fill(struct broker_client *c, const struct broker_config *config, struct err *e)
{
    struct broker_request request = {.op = BROKER_FILL, .config = *config};
    struct broker_reply reply;

    request.config.version = BROKER_WIRE_VERSION;
    return exchange(c, &request, NULL, 0, &reply, NULL, e);
}

int broker_sweep(struct broker_client *c, bool dead_too, struct err *e)
{
    struct broker_request request = {.op = BROKER_SWEEP, .sweep.dead_too = dead_too};
    struct broker_reply reply;

    return exchange(c, &request, NULL, 0, &reply, NULL, e);
}

int broker_list(struct broker_client *c,
                void (*visit)(void *user, const struct broker_sandbox *sandbox), void *user,
                struct err *e)
{
    struct broker_request request = {.op = BROKER_LIST};
    struct broker_reply reply;

    do {
        int r = exchange(c, &request, NULL, 0, &reply, NULL, e);

        if (r < 0)
            return r;
        for (int i = 0; i < r && i < BROKER_LIST_MAX; i++)
            visit(user, &reply.list[i]);
        if (reply.next && reply.next <= request.list.from_slot)
            return err_set(e, EPROTO, "the broker's list goes backwards");
        request.list.from_slot = reply.next;
    } while (reply.next);
    return 0;
}

int broker_kill(struct broker_client *c, struct broker_handle *h, uint32_t grace_ms, struct err *e)
{
    struct pollfd p = {.fd = h->files[BROKER_FILE_PIDFD], .events = POLLIN};
    int r = broker_signal(c, h->sandbox.id, SIGTERM, e);

    if (r < 0 && r != -ESRCH)
        return r;
    if (r == 0) {
        uint64_t deadline = deadline_in_ms(grace_ms);

        (void)broker_resume(c, h->sandbox.id, NULL); /* a paused sandbox would not get SIGTERM */
        do
            r = poll(&p, 1, deadline_left_ms(deadline));
        while (r < 0 && errno == EINTR);
    }
    return broker_remove(c, h->sandbox.id, e);
}
