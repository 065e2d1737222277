/* docker_create.c - a container from a request: made, started, and its execd awaited.
 *
 *   create ─► 404, the image is not here ─► a thread for pulls: pull, create ─► as below
 *   start ─► its port is taken ─► removed, made again with another port
 *   inspect: its address ─► execd answers /ping ─► the entrypoint runs */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"
#include "server/config/config.h"
#include "server/runtime/docker/docker_internal.h"

enum {
    BODY_MAX = 32 << 20,
    PING_MS = 10 * 1000,
    START_MS = 120 * 1000,
    PORT_TRIES = 5,
    READY_MS = 8 * 1000, /* for execd to answer; after that the sandbox counts as running */
    READY_LOOK_MS = 400, /* a container that is not ready is inspected as often */
    READY_PAUSE_MS = 2,
    MESSAGE_LINES = 20,
};

/* Which image the engine does not have. */
enum lack { LACKS_NOTHING, LACKS_IMAGE, LACKS_SIDECAR };

/* Work that task->of_runtime points to while it is under way. */
struct making {
    struct pool_job job;
    struct docker *docker;
    struct runtime_create *create;
    atomic_bool cancelled;
    enum lack lack;
    struct err err;
    int result;
};

/* --- checks --- */

int docker_check_abilities(struct runtime *r, const struct api_create *spec, struct api_fail *f)
{
    if (str_eq(spec->os, STR("windows")))
        return api_fail_invalid(
            f, "platform.os: this build has no Windows profile on Docker; expected linux");
    if (spec->os.n && !str_eq(spec->os, STR("linux")))
        return api_fail_invalid(f, "platform.os: this runtime runs linux sandboxes, not %.*s",
                                STR_ARG(spec->os));
    /* execd is there for the engine's own processor only. */
    if (spec->arch.n && !str_eq(spec->arch, str_of(docker_of(r)->arch)))
        return api_fail_invalid(f, "platform.arch: the Docker engine's machine is %s, not %.*s",
                                docker_of(r)->arch, STR_ARG(spec->arch));
    return docker_sidecar_check(docker_of(r), spec, f);
}

int docker_check(struct runtime *r, struct runtime_create *c, struct api_fail *f)
{
    struct docker *d = docker_of(r);
    struct docker_plan plan = {.execd_port = BOX_PORT_FIRST,
                               .http_port = BOX_PORT_FIRST,
                               .sidecar = docker_sidecar_wanted(d, c->spec)};
    AUTO_BUF(body, BODY_MAX);
    struct err e = {0};

    if (!c->spec->entrypoint_count)
        return api_fail_set(f, 400, "DOCKER::INVALID_ENTRYPOINT", "entrypoint: it is empty");
    /* Before anything is made: a request that the engine never saw leaves nothing to look for. */
    if (!docker_events_are_up(d->events) && docker_ask(d, HTTP_GET, PING_MS, &e, "/_ping") < 0)
        return api_fail_set(f, 503, "SERVICE_UNAVAILABLE", "%s", e.msg);
    if (docker_again_check(d, c, f) < 0 || docker_volumes_check(d, c->spec, f) < 0)
        return -EBADMSG;
    /* It is composed again when it is sent: what cannot be written is refused here. */
    return docker_spec_write(d, c, &plan, &body, &e) < 0 ? api_fail_invalid(f, "%s", e.msg) : 0;
}

/* --- the container --- */

static bool has_own_token(const struct api_create *spec)
{
    for (size_t i = 0; i < spec->env_count; i++)
        if (str_eq(spec->env[i].key, STR(DOCKER_TOKEN_ENV)))
            return true;
    return false;
}

static void plan_drop(struct docker *d, const struct docker_plan *p)
{
    if (p->kept) /* they are those of a sidecar that stays */
        return;
    boxes_port_give(&d->boxes, p->execd_port);
    boxes_port_give(&d->boxes, p->http_port);
    boxes_port_give(&d->boxes, p->egress_port);
}

static int plan_make(struct docker *d, const struct runtime_create *c, struct docker_plan *p,
                     struct err *e)
{
    const struct api_create *spec = c->spec;
    const char *ip = d->host_network ? "0.0.0.0" : d->config->docker.publish;
    char token[ID_TOKEN_MAX];

    *p = (struct docker_plan){.sidecar = docker_sidecar_wanted(d, spec)};
    if (!has_own_token(spec)) {
        id_token(token);
        (void)snprintf(p->token, sizeof(p->token), DOCKER_TOKEN_PREFIX "%s", token);
        mem_wipe(token, sizeof(token));
    }
    if (p->sidecar && c->again) {
        int r = docker_sidecar_keep(d, c->id, p, e);

        if (r != -ENOENT)
            return r;
    }
    if (!ip[0])
        return 0;
    p->execd_port = boxes_port_take(&d->boxes, ip);
    p->http_port = d->host_network ? 0 : boxes_port_take(&d->boxes, ip);
    p->egress_port = p->sidecar ? boxes_port_take(&d->boxes, ip) : 0;
    if (p->execd_port && (p->http_port || d->host_network) && (p->egress_port || !p->sidecar))
        return 0;
    plan_drop(d, p);
    return err_set(e, EBUSY, "no port between %d and %d is free", BOX_PORT_FIRST, BOX_PORT_LAST);
}

static int make_container(struct docker *d, struct runtime_create *c, const struct docker_plan *p,
                          struct err *e)
{
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(body, BODY_MAX);
    AUTO_BUF(target, 1024);
    char name[DOCKER_NAME_MAX];
    int r;

    buf_keep_secret(&body);
    docker_name(c->id, name);
    (void)buf_addf(&target, "/containers/create?name=%s", name);
    /* An image of another processor is "not found", too, and pulled for this one. */
    if (engine_api_minor(d->engine) >= 41)
        (void)buf_addf(&target, "&platform=linux%%2F%s", d->arch);
    r = docker_spec_write(d, c, p, &body, e);
    return r < 0 ? r
                 : engine_call(d->engine,
                               &(struct engine_request){
                                   .method = HTTP_POST, .target = target.p, .body = buf_str(&body)},
                               &answer, e);
}

static void unmake_container(struct docker *d, struct str id, const struct docker_plan *p)
{
    char name[DOCKER_NAME_MAX];

    docker_name(id, name);
    (void)!docker_ask(d, HTTP_DELETE, 0, NULL, "/containers/%s?force=1&v=1", name);
    if (!p->kept)
        (void)!docker_sidecar_remove(d, id, NULL);
}

static bool is_port_taken(const struct err *e)
{
    struct str text = str_of(e->msg);

    return str_find_str(text, STR("port is already allocated")) < text.n ||
           str_find_str(text, STR("address already in use")) < text.n;
}

static bool lacks_network(struct docker *d)
{
    const char *mode = d->config->docker.network_mode;

    return !d->host_network && strcmp(mode, "bridge") != 0 &&
           docker_ask(d, HTTP_GET, 0, NULL, "/networks/%s", mode) == -ENOENT;
}

/* What the engine does not find is an image, or a network: newer engines look for that at the
 * create, older ones at the start. */
static int make_and_start_container(struct docker *d, struct runtime_create *c,
                                    const struct docker_plan *p, enum lack *ret_lack, struct err *e)
{
    char name[DOCKER_NAME_MAX];
    int r = make_container(d, c, p, e);

    docker_name(c->id, name);
    *ret_lack = r == -ENOENT ? LACKS_IMAGE : LACKS_NOTHING;
    if (r >= 0)
        r = docker_ask(d, HTTP_POST, START_MS, e, "/containers/%s/start", name);
    if (r != -ENOENT || !lacks_network(d))
        return r;
    *ret_lack = LACKS_NOTHING;
    c->fail_status = 400;
    c->fail_code = "SANDBOX::INVALID_PARAMETER";
    return err_set(e, ENOENT, "docker.network_mode: the Docker engine has no network '%s'",
                   d->config->docker.network_mode);
}

/* The sandbox after its sidecar, if it has one: it runs nothing before the rules are in force. */
static int start_parts(struct docker *d, struct runtime_create *c, struct docker_plan *p,
                       enum lack *ret_lack, struct err *e)
{
    bool no_sidecar = false;
    int r = 0;

    if (p->kept) {
        r = docker_sidecar_start_again(d, c, str_of(p->egress_token), e);
        if (r >= 0)
            r = docker_secrets_hand_over(d, c, p, e);
    } else if (p->sidecar) {
        r = docker_sidecar_start(d, c, p, &no_sidecar, e);
    }
    *ret_lack = no_sidecar ? LACKS_SIDECAR : LACKS_NOTHING;
    return r < 0 ? r : make_and_start_container(d, c, p, ret_lack, e);
}

/* Makes and starts it. -ENOENT with *ret_lack when an image is not here. */
static int make_and_start(struct docker *d, struct runtime_create *c, struct docker_plan *ret_plan,
                          enum lack *ret_lack, struct err *e)
{
    int r = 0;

    *ret_lack = LACKS_NOTHING;
    for (int i = 0; i < PORT_TRIES; i++) {
        r = plan_make(d, c, ret_plan, e);
        if (r < 0)
            return r;
        r = start_parts(d, c, ret_plan, ret_lack, e);
        if (r >= 0)
            return 0;
        plan_drop(d, ret_plan);
        if (*ret_lack || is_port_taken(e))
            unmake_container(d, c->id, ret_plan);
        if (*ret_lack || ret_plan->kept || !is_port_taken(e))
            break;
    }
    return r;
}

/* --- execd --- */

/* Whether execd answers GET /ping, which it does once it has started the entrypoint. */
static bool answers(const struct sock_addr *addr, int wait_ms)
{
    static const char request[] = "GET /ping HTTP/1.1\r\nHost: execd\r\nConnection: close\r\n\r\n";
    auto_fd fd = sock_connect_start(addr, NULL);
    struct pollfd p = {fd, POLLOUT, 0};
    char byte;

    if (fd < 0 || poll(&p, 1, wait_ms) != 1 || sock_connect_result(fd) < 0 ||
        send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
        return false;
    p.events = POLLIN; /* any answer will do, also that a token is missing */
    return poll(&p, 1, wait_ms) == 1 && recv(fd, &byte, 1, 0) == 1;
}

static bool is_readable(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, 0) == 1;
}

static bool has_ended(struct docker *d, struct str id)
{
    struct docker_facts facts;
    struct err e = {0};
    int r = docker_inspect(d, id, &facts, &e);

    return r == -ENOENT || (r == 0 && facts.status.state == RUNTIME_EXITED);
}

/* Waits until execd answers. False when the container has ended before; `watch` shows that. */
static bool await_execd(struct docker *d, struct str id, int watch)
{
    const struct timespec pause = {.tv_nsec = READY_PAUSE_MS * 1000000L};
    uint64_t deadline = deadline_in_ms(READY_MS), look = deadline_in_ms(READY_LOOK_MS);
    bool told = false;
    struct box_facts box;

    if (boxes_get(&d->boxes, id, &box) < 0)
        return true;
    mem_wipe(box.token, sizeof(box.token));
    while (!answers(&box.addr, READY_LOOK_MS)) {
        bool tells = !told && is_readable(watch);

        if (tells || deadline_passed(look)) {
            if (has_ended(d, id))
                return false;
            look = deadline_in_ms(READY_LOOK_MS);
        }
        told |= tells;
        if (deadline_passed(deadline))
            return true; /* a slow machine, or an image in which execd cannot listen */
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

/* birth.started as runtime.h wants it: a byte, or the end. */
static int tell_started(struct runtime_birth *birth, bool runs, struct err *e)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_sys(e, errno, "make a socket pair");
    if (runs)
        (void)send(ends[1], "", 1, MSG_NOSIGNAL);
    fd_close(ends[1]);
    birth->started = ends[0];
    return 1;
}

/* Whether it could not start because the volume of execd is empty: somebody removed it, and the
 * engine has made a new one. */
static bool lacks_execd(const struct err *e)
{
    struct str text = str_of(e->msg);

    return str_find_str(text, STR(DOCKER_DIR "/execd")) < text.n;
}

static int start_again_with_execd(struct docker *d, struct runtime_create *c,
                                  struct docker_plan *plan, enum lack *ret_lack, struct err *e)
{
    int r;

    unmake_container(d, c->id, plan);
    (void)pthread_mutex_lock(&d->execd_lock);
    r = docker_execd_provide(d, e);
    (void)pthread_mutex_unlock(&d->execd_lock);
    return r < 0 ? r : make_and_start(d, c, plan, ret_lack, e);
}

/* Enters the container that was started, and waits until its execd has started the entrypoint. */
static int greet(struct docker *d, struct runtime_create *c, struct err *e)
{
    struct docker_facts facts;
    int r = docker_inspect_and_enter(d, c->id, &facts, &c->birth.watch, e);

    if (r < 0)
        return r;
    mem_wipe(facts.token, sizeof(facts.token));
    if (c->birth.watch < 0) /* it has ended already, so the watch says so from the start */
        c->birth.watch = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    return tell_started(
        &c->birth, facts.status.state != RUNTIME_EXITED && await_execd(d, c->id, c->birth.watch),
        e);
}

static int create_container(struct docker *d, struct runtime_create *c, enum lack *ret_lack,
                            struct err *e)
{
    struct docker_plan plan = {0};
    int r = make_and_start(d, c, &plan, ret_lack, e);

    if (r < 0 && lacks_execd(e))
        r = start_again_with_execd(d, c, &plan, ret_lack, e);
    mem_wipe(&plan, sizeof(plan));
    return r < 0 ? r : greet(d, c, e);
}

/* --- with a pull --- */

static void forget(struct making *m)
{
    (void)pthread_mutex_lock(&m->docker->work_lock);
    m->create->task.of_runtime = NULL;
    (void)pthread_mutex_unlock(&m->docker->work_lock);
}

/* Both images may be missing: the second turn pulls the other one. */
static void making_work(struct pool_job *job)
{
    struct making *m = container_of(job, struct making, job);
    struct runtime_create *c = m->create;

    for (int i = 0; i < 2 && m->lack; i++) {
        struct str image =
            m->lack == LACKS_SIDECAR ? str_of(m->docker->config->egress.image) : c->spec->image;

        m->err = (struct err){0};
        m->result = docker_pull(m->docker, c, image, &m->cancelled, &m->err);
        if (m->result < 0)
            break;
        m->result = create_container(m->docker, c, &m->lack, &m->err);
    }
    c->image_failed = m->result < 0 && m->lack;
}

static void making_done(struct pool_job *job, int error)
{
    struct making *m = container_of(job, struct making, job);
    struct runtime_task *task = &m->create->task;

    if (error)
        m->result = err_set(&m->err, ECANCELED, "the server is stopping");
    forget(m);
    runtime_task_end(task, m->result, &m->err);
    free(m);
}

static int pull_and_create(struct docker *d, struct runtime_create *c, enum lack lack,
                           struct err *e)
{
    struct making *m = mem_new(struct making);
    int r;

    m->docker = d;
    m->create = c;
    m->lack = lack;
    c->task.of_runtime = m;
    r = pool_submit(d->pulls, &m->job, d->loop, making_work, making_done, 0);
    if (r == 0)
        return 0;
    c->task.of_runtime = NULL;
    free(m);
    return err_set(e, EBUSY, "too many images are being pulled, try again");
}

void docker_cancel(struct runtime *r, struct runtime_task *task)
{
    struct docker *d = docker_of(r);
    struct making *m;

    (void)pthread_mutex_lock(&d->work_lock);
    m = task->of_runtime;
    if (m)
        atomic_store(&m->cancelled, true);
    (void)pthread_mutex_unlock(&d->work_lock);
}

static enum api_pull_policy policy_of(const struct docker *d, const struct api_create *spec)
{
    static const enum api_pull_policy usual[] = {
        [CONFIG_PULL_IF_NOT_PRESENT] = API_PULL_IF_NOT_PRESENT,
        [CONFIG_PULL_ALWAYS] = API_PULL_ALWAYS,
        [CONFIG_PULL_NEVER] = API_PULL_NEVER,
    };

    return spec->pull_policy == API_PULL_DEFAULT ? usual[d->config->oci.pull_policy]
                                                 : (enum api_pull_policy)spec->pull_policy;
}

int docker_create(struct runtime *r, struct runtime_create *c, struct err *e)
{
    struct docker *d = docker_of(r);
    bool from_snapshot = c->spec->snapshot_id.n > 0;
    enum api_pull_policy policy = from_snapshot ? API_PULL_NEVER : policy_of(d, c->spec);
    enum lack lack = LACKS_NOTHING;
    int result = 0;

    if (c->again == RUNTIME_START) {
        result = docker_start_again(d, c, e);
        return result < 0 ? result : greet(d, c, e);
    }
    if (c->again == RUNTIME_ROLLBACK)
        result = docker_clear_for_rollback(d, c, e);
    if (result >= 0)
        result = docker_volumes_make(d, c, e);
    if (result < 0)
        return result;
    if (policy == API_PULL_ALWAYS)
        return pull_and_create(d, c, LACKS_IMAGE, e);
    result = create_container(d, c, &lack, e);
    if (result >= 0 || !lack)
        return result;
    if (lack == LACKS_SIDECAR && d->config->oci.pull_policy != CONFIG_PULL_NEVER)
        return pull_and_create(d, c, lack, e);
    if (lack == LACKS_IMAGE && policy != API_PULL_NEVER)
        return pull_and_create(d, c, lack, e);
    c->image_failed = true;
    return err_set(e, ENOENT, "%s; its pull policy is Never", e->msg);
}

/* --- an entrypoint that did not start --- */

/* The line of execd's log that says so, after its time: {"level":"error",...,
 * "msg":"start: exec 'x': ...","errno":2}. 0 when this is none. A sandbox that prints such a line
 * fools only itself. */
static int read_reason(struct str line, struct err *e)
{
    AUTO_ARENA(arena, 64 << 10);
    size_t at = str_find(line, '{');
    struct json *tree = NULL;
    struct str level, message;
    int64_t code = 0;

    if (at == line.n || json_parse(&arena, str_skip(line, at), NULL, &tree, NULL) < 0 ||
        json_to_str(json_get(tree, STR("level")), &level) < 0 || !str_eq(level, STR("error")) ||
        json_to_str(json_get(tree, STR("msg")), &message) < 0 ||
        !str_starts(message, STR("start: ")))
        return 0;
    (void)!json_to_i64(json_get(tree, STR("errno")), &code);
    return err_set(e, code > 0 && code < 4096 ? (int)code : EIO, "%.*s",
                   STR_ARG(str_skip(message, STR("start: ").n)));
}

int docker_start_error(struct runtime *r, struct str id, const struct runtime_birth *birth UNUSED,
                       struct err *e)
{
    const struct runtime_log_query query = {.lines = MESSAGE_LINES};
    AUTO_BUF(text, 1 << 20);
    struct str rest, line;
    int result = 0;
    bool cut;

    if (docker_logs(r, id, &query, &text, &cut, NULL) < 0)
        return 0; /* whatever it was, its end is found out by the watch */
    rest = buf_str(&text);
    while (result == 0 && str_cut(&rest, '\n', &line))
        result = read_reason(line, e);
    return result;
}
