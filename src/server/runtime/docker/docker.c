#include "server/runtime/docker/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/url.h"
#include "server/config/config.h"
#include "server/runtime/docker/docker_internal.h"

enum {
    STARTUP_MS = 20 * 1000, /* for each request of the start */
    REMOVE_MS = 60 * 1000,
    CREATE_WAIT_MS = 20 * 1000,
    FILTERS_MAX = 4096,
    PULL_THREADS = 8,
    PULL_QUEUE_MAX = 4096,
    ENDPOINT_TOKENS = 8,
};

void docker_name(struct str id, char out[DOCKER_NAME_MAX])
{
    (void)snprintf(out, DOCKER_NAME_MAX, "sandbox-%.*s", STR_ARG(id));
}

void docker_sidecar_name(struct str id, char out[DOCKER_NAME_MAX])
{
    (void)snprintf(out, DOCKER_NAME_MAX, "sandbox-egress-%.*s", STR_ARG(id));
}

void docker_runtime_volume(struct str id, char out[DOCKER_NAME_MAX])
{
    (void)snprintf(out, DOCKER_NAME_MAX, "opensandbox-runtime-%.*s", STR_ARG(id));
}

/* --- requests --- */

static int target_of(struct buf *out, const char *fmt, va_list ap, struct err *e)
{
    return buf_vaddf(out, fmt, ap) < 0
               ? err_set(e, EMSGSIZE, "a name is too long for a request to the Docker engine")
               : 0;
}

int docker_ask(struct docker *d, enum http_method method, uint32_t timeout_ms, struct err *e,
               const char *fmt, ...)
{
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(target, ENGINE_TARGET_MAX);
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = target_of(&target, fmt, ap, e);
    va_end(ap);
    if (r < 0)
        return r;
    r = engine_call(
        d->engine,
        &(struct engine_request){.method = method, .target = target.p, .timeout_ms = timeout_ms},
        &answer, e);
    return r < 0 ? r : answer.status;
}

int docker_get(struct docker *d, struct arena *a, struct json **ret, struct err *e, const char *fmt,
               ...)
{
    AUTO_BUF(target, ENGINE_TARGET_MAX);
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = target_of(&target, fmt, ap, e);
    va_end(ap);
    return r < 0
               ? r
               : engine_call_json(d->engine,
                                  &(struct engine_request){.method = HTTP_GET, .target = target.p},
                                  a, ret, e);
}

int docker_add_filters(struct buf *out, const char *const *pairs)
{
    AUTO_BUF(json, FILTERS_MAX);
    struct json_writer w;
    int r;

    json_write_begin(&w, &json);
    json_write_object(&w);
    for (; pairs[0]; pairs += 2) {
        json_write_key(&w, str_of(pairs[0]));
        json_write_array(&w);
        json_write_string(&w, str_of(pairs[1]));
        json_write_array_end(&w);
    }
    json_write_object_end(&w);
    r = json_write_end(&w);
    if (r == 0)
        r = buf_add(out, STR("filters="));
    return r < 0 ? r : url_encode(buf_str(&json), URL_SET_QUERY_VALUE, out);
}

/* --- state --- */

static int docker_adopt(struct runtime *r, struct str id, int *ret_watch,
                        struct runtime_status *ret, struct err *e)
{
    struct docker *d = docker_of(r);
    struct docker_facts facts;
    int result = docker_inspect_and_enter(d, id, &facts, ret_watch, e);

    if (result < 0)
        return result;
    mem_wipe(facts.token, sizeof(facts.token));
    if (facts.status.state == RUNTIME_EXITED) /* it may be started again */
        docker_rest(d, id, &facts);
    *ret = facts.status;
    return 0;
}

/* A conflict: the container is not in a state for it. The engine says so also when it is already as
 * asked, which is a success. */
static int change(struct docker *d, struct str id, const char *verb, enum runtime_state wanted,
                  struct err *e)
{
    char name[DOCKER_NAME_MAX];
    struct docker_facts facts;
    struct err why = {0};
    int r;

    docker_name(id, name);
    r = docker_ask(d, HTTP_POST, 0, e, "/containers/%s/%s", name, verb);
    if (r >= 0)
        return 0;
    if (r != -ESTALE && r != -EIO)
        return r == -ENOENT ? err_set(e, ESRCH, "the container is gone") : r;
    if (docker_inspect(d, id, &facts, &why) < 0)
        return r;
    if (facts.status.state == wanted)
        return 0;
    if (facts.status.state == RUNTIME_EXITED || facts.status.state == RUNTIME_FAILED)
        return err_set(e, ESRCH, "the container has ended");
    return r;
}

static int docker_pause(struct runtime *r, struct str id, struct err *e)
{
    return change(docker_of(r), id, "pause", RUNTIME_PAUSED, e);
}

static int docker_resume(struct runtime *r, struct str id, struct err *e)
{
    return change(docker_of(r), id, "unpause", RUNTIME_RUNNING, e);
}

static bool has_text(const struct json *labels, struct str key)
{
    struct str text;

    return json_to_str(json_get(labels, key), &text) == 0 && text.n > 0;
}

/* A kernel of the container's own that is paused does not see the engine's SIGKILL, for which the
 * engine then waits 10 s. */
static bool wake(struct docker *d, const char *name, const struct json *container)
{
    struct str state;

    return d->oci_runtime[0] &&
           json_to_str(json_get(json_get(container, STR("State")), STR("Status")), &state) == 0 &&
           str_eq(state, STR("paused")) &&
           docker_ask(d, HTTP_POST, 0, NULL, "/containers/%s/unpause", name) >= 0;
}

/* Those that a container has published, or will again. */
static void give_ports(struct docker *d, const struct json *labels)
{
    static const struct str keys[] = {STR_INIT(LABEL_EXECD_PORT), STR_INIT(LABEL_HTTP_PORT)};
    struct str text;
    uint16_t port;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (json_to_str(json_get(labels, keys[i]), &text) == 0 && str_to_u16(text, &port) == 0)
            boxes_port_give(&d->boxes, port);
}

/* What is left of one without a container: somebody removed it, or a create failed before it. */
static int remove_rest(struct docker *d, struct str id, struct err *e)
{
    int r = docker_sidecar_remove(d, id, e);

    if (r >= 0)
        docker_volumes_drop_all(d, id);
    return r;
}

/* Only what is this installation's; with its anonymous volumes, those made for it, and its sidecar,
 * which goes last: without it the sandbox has no network, and never an open one. */
static int docker_remove(struct runtime *r, struct str id, struct err *e)
{
    struct docker *d = docker_of(r);
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    char name[DOCKER_NAME_MAX];
    struct str owner, volumes = STR_NONE;
    struct json *tree = NULL;
    const struct json *labels;
    bool woken;
    int result;

    docker_name(id, name);
    result = docker_get(d, &arena, &tree, e, "/containers/%s/json", name);
    if (result < 0 && result != -ENOENT)
        return result;
    labels = json_get(json_get(tree, STR("Config")), STR("Labels"));
    if (result == -ENOENT || json_to_str(json_get(labels, STR(LABEL_OWNER)), &owner) < 0 ||
        !str_eq(owner, str_of(d->owner))) {
        (void)boxes_remove(&d->boxes, id);
        return result == -ENOENT ? remove_rest(d, id, e) : 0;
    }
    (void)!json_to_str(json_get(labels, STR(LABEL_VOLUMES)), &volumes);
    woken = wake(d, name, tree);
    result = docker_ask(d, HTTP_DELETE, REMOVE_MS, e, "/containers/%s?force=1&v=1", name);
    if (result < 0 && result != -ENOENT && woken) /* it must not run on: a user paused it */
        (void)!docker_ask(d, HTTP_POST, 0, NULL, "/containers/%s/pause", name);
    if (result == -ESTALE) /* "removal of container ... is already in progress" */
        return err_set(e, EBUSY, "%s", e->msg);
    if (result < 0 && result != -ENOENT)
        return result;
    if (!boxes_remove(&d->boxes, id))
        give_ports(d, labels);
    result = has_text(labels, STR(LABEL_EGRESS_TOKEN)) ? docker_sidecar_remove(d, id, e) : 0;
    if (result < 0)
        return result;
    docker_volumes_drop(d, id, volumes);
    if (json_get(labels, STR(LABEL_SNAPSHOT)))
        docker_snapshots_prune(d);
    return 1;
}

static enum runtime_state state_of(struct str text)
{
    static const struct {
        struct str text;
        enum runtime_state state;
    } rows[] = {
        {STR_INIT("running"),    RUNTIME_RUNNING},
        {STR_INIT("restarting"), RUNTIME_RUNNING},
        {STR_INIT("paused"),     RUNTIME_PAUSED },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq(text, rows[i].text))
            return rows[i].state;
    return RUNTIME_EXITED;
}

/* Sidecars by the ids of their sandboxes; those that run have a value. */
static void find_sidecars(const struct json *list, struct map *sidecars)
{
    static char runs;
    struct str id, state;

    json_each(item, list)
    {
        if (json_to_str(json_get(json_get(item, STR("Labels")), STR(LABEL_SIDECAR_FOR)), &id) ==
                0 &&
            json_to_str(json_get(item, STR("State")), &state) == 0)
            (void)!map_set(sidecars, id, str_eq(state, STR("running")) ? &runs : NULL);
    }
}

/* A sandbox whose sidecar does not run has ended: see docker_inspect. */
static void visit_sandboxes(const struct json *list, struct map *sidecars, runtime_visit_fn *visit,
                            void *user)
{
    struct str id, state;

    json_each(item, list)
    {
        const struct json *labels = json_get(item, STR("Labels"));
        bool cut_off;

        if (json_to_str(json_get(labels, STR(LABEL_ID)), &id) < 0 ||
            json_to_str(json_get(item, STR("State")), &state) < 0)
            continue;
        cut_off = has_text(labels, STR(LABEL_EGRESS_TOKEN)) && !map_get(sidecars, id);
        visit(user, id, cut_off ? RUNTIME_EXITED : state_of(state));
        (void)map_take(sidecars, id);
    }
}

/* What is left of a sandbox may be its sidecar alone. */
static int docker_list(struct runtime *r, runtime_visit_fn *visit, void *user, struct err *e)
{
    struct docker *d = docker_of(r);
    AUTO_ARENA(arena, 4 * DOCKER_ARENA_MAX);
    AUTO_BUF(query, FILTERS_MAX);
    AUTO_BUF(owner, FILTERS_MAX);
    struct json *list = NULL;
    auto_map sidecars;
    size_t at = 0;
    struct str id;
    void *runs;
    int result;

    map_init(&sidecars, BOXES_MAX, NULL);

    (void)buf_addf(&owner, LABEL_OWNER "=%s", d->owner);
    if (docker_add_filters(&query, (const char *const[]){"label", owner.p, NULL}) < 0)
        return err_set(e, EMSGSIZE, "the owner is too long");
    result = docker_get(d, &arena, &list, e, "/containers/json?all=1&%s", query.p);
    if (result < 0)
        return result;
    find_sidecars(list, &sidecars);
    visit_sandboxes(list, &sidecars, visit, user);
    while (map_next(&sidecars, &at, &id, &runs))
        visit(user, id, RUNTIME_FAILED);
    return 0;
}

static int docker_levels(struct runtime *r, struct runtime_levels *ret, struct err *e UNUSED)
{
    struct docker *d = docker_of(r);

    *ret = (struct runtime_levels){0};
    (void)pthread_mutex_lock(&d->boxes.lock);
    ret->live = (uint32_t)d->boxes.by_id.n;
    (void)pthread_mutex_unlock(&d->boxes.lock);
    if (docker_ask(d, HTTP_GET, STARTUP_MS, &ret->blocked, "/_ping") >= 0)
        ret->blocked = (struct err){0};
    return 0;
}

/* --- the way in --- */

/* Facts that stay in place for the turn. The loop's thread only: a caller asks for a few endpoints
 * in a turn at most. NULL when there are none. */
static const struct box_facts *lasting_facts(struct runtime *r, struct str id)
{
    static struct box_facts facts[ENDPOINT_TOKENS];
    static unsigned next;
    struct box_facts *f = &facts[next++ % ENDPOINT_TOKENS];

    return boxes_get(&docker_of(r)->boxes, id, f) < 0 ? NULL : f;
}

static int docker_endpoint(struct runtime *r, struct str id, struct runtime_endpoint *ret)
{
    const struct box_facts *f = lasting_facts(r, id);

    if (!f)
        return -ENOENT;
    *ret = (struct runtime_endpoint){.addr = f->addr};
    if (f->token[0])
        ret->headers[ret->header_count++] =
            (struct http_header){STR("X-EXECD-ACCESS-TOKEN"), str_of(f->token)};
    return 0;
}

/* Its control is at the root of the sidecar's port. */
static int docker_egress_endpoint(struct runtime *r, struct str id, struct runtime_endpoint *ret)
{
    const struct box_facts *f = lasting_facts(r, id);

    if (!f || !f->egress.size)
        return -ENOENT;
    *ret = (struct runtime_endpoint){.addr = f->egress, .at_root = true};
    ret->headers[ret->header_count++] =
        (struct http_header){STR("OPENSANDBOX-EGRESS-AUTH"), str_of(f->egress_token)};
    return 0;
}

/* --- life --- */

static void docker_stop(struct runtime *r)
{
    struct docker *d = docker_of(r);

    docker_events_stop(d->events);
}

static void docker_free(struct runtime *r)
{
    struct docker *d = docker_of(r);

    docker_events_stop(d->events);
    pool_free(d->pulls);
    docker_events_free(d->events);
    engine_free(d->engine);
    boxes_done(&d->boxes);
    fd_close(d->execd_fd);
    (void)pthread_mutex_destroy(&d->work_lock);
    (void)pthread_mutex_destroy(&d->execd_lock);
    free(d);
}

static void docker_image_note(struct runtime *r UNUSED, struct str image UNUSED,
                              struct buf *out UNUSED)
{
}

static const struct runtime_ops docker_ops = {
    .check_abilities = docker_check_abilities,
    .check = docker_check,
    .create = docker_create,
    .cancel = docker_cancel,
    .start_error = docker_start_error,
    .image_note = docker_image_note,
    .adopt = docker_adopt,
    .pause = docker_pause,
    .resume = docker_resume,
    .halt = docker_halt,
    .remove = docker_remove,
    .usage = docker_usage,
    .report = docker_report,
    .logs = docker_logs,
    .list = docker_list,
    .levels = docker_levels,
    .endpoint = docker_endpoint,
    .egress_endpoint = docker_egress_endpoint,
    .snapshot = docker_snapshot,
    .snapshot_remove = docker_snapshot_remove,
    .snapshot_each = docker_snapshot_each,
    .volume_list = docker_volume_list,
    .volume_get = docker_volume_get,
    .volume_create = docker_volume_create,
    .volume_remove = docker_volume_remove,
    .stop = docker_stop,
    .free = docker_free,
};

/* Whether the engine has a list member of that text: SecurityOptions has "name=rootless". */
static bool has_item(const struct json *list, struct str wanted)
{
    struct str text;

    json_each(item, list)
    {
        if (json_to_str(item, &text) == 0 && str_eq(text, wanted))
            return true;
    }
    return false;
}

static void set_arch(struct docker *d, const struct json *info)
{
    static const struct {
        const char *machine, *arch;
    } rows[] = {
        {"x86_64",  "amd64"},
        {"aarch64", "arm64"},
        {"armv7l",  "arm"  },
        {"i686",    "386"  }
    };
    struct str text = STR("amd64");

    (void)!json_to_str(json_get(info, STR("Architecture")), &text);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq(text, str_of(rows[i].machine)))
            text = str_of(rows[i].arch);
    (void)!str_copy(d->arch, sizeof(d->arch), text);
}

/* gVisor writes to an overlay of its own, unless it is told to leave that to the engine. */
static bool hides_changes(const struct config *c, const struct json *runtime)
{
    const struct json *args = json_get(runtime, STR("runtimeArgs"));

    return c->secure_runtime.type == CONFIG_SECURE_GVISOR &&
           !has_item(args, STR("--overlay2=none")) && !has_item(args, STR("-overlay2=none"));
}

static int set_oci_runtime(struct docker *d, const struct json *info, struct err *e)
{
    const struct config *c = d->config;
    const char *name = c->secure_runtime.docker_runtime;
    const struct json *runtime;

    if (c->secure_runtime.type == CONFIG_SECURE_NONE)
        return 0;
    if (!name[0])
        name = c->secure_runtime.type == CONFIG_SECURE_GVISOR ? "runsc" : "kata-runtime";
    if (str_copy(d->oci_runtime, sizeof(d->oci_runtime), str_of(name)) < 0)
        return err_set(e, EINVAL, "secure_runtime.docker_runtime is too long");
    runtime = json_get(json_get(info, STR("Runtimes")), str_of(name));
    if (!runtime)
        return err_set(e, ENOENT,
                       "secure_runtime: the Docker engine has no runtime '%s'; register it with "
                       "the engine (\"runtimes\" of daemon.json), or choose another",
                       name);
    d->hides_changes = hides_changes(c, runtime);
    if (d->hides_changes)
        log_event(LOG_WARN,
                  "snapshots are refused: the OCI runtime of the Docker engine has no "
                  "--overlay2=none among its runtimeArgs",
                  LOG_STR("runtime", name));
    return 0;
}

/* What the engine is, and where its containers are. */
static int learn(struct docker *d, struct err *e)
{
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    const char *mode = d->config->docker.network_mode;
    struct str system = STR_NONE, driver = STR("unknown");
    struct json *info = NULL;
    int r = engine_negotiate(d->engine, e);

    if (r == 0)
        r = docker_get(d, &arena, &info, e, "/info");
    if (r < 0)
        return r;
    (void)!json_to_str(json_get(info, STR("OperatingSystem")), &system);
    (void)!json_to_str(json_get(info, STR("Driver")), &driver);
    (void)!str_copy(d->driver, sizeof(d->driver), driver);
    set_arch(d, info);
    d->host_network = strcmp(mode, "host") == 0;
    d->one_shot = engine_api_minor(d->engine) >= 41;
    d->by_port = engine_place(d->engine)->host[0] != '\0' ||
                 str_starts(system, STR("Docker Desktop")) ||
                 has_item(json_get(info, STR("SecurityOptions")), STR("name=rootless"));
    if (d->by_port && !d->host_network && !d->config->docker.publish[0])
        return err_set(e, EINVAL,
                       "docker.publish is empty, but addresses of containers of this engine cannot "
                       "be reached from here: name an address at which the engine publishes ports");
    r = docker_sidecar_check_config(d, e);
    return r < 0 ? r : set_oci_runtime(d, info, e);
}

/* What people can do about an engine that does not answer. */
static void explain(const struct config *config, struct err *e)
{
    static const char scheme[] = "unix://";
    const char *path = config->docker.host + strlen(scheme);
    bool is_path = strncmp(config->docker.host, scheme, strlen(scheme)) == 0;

    if (is_path && access(path, F_OK) < 0)
        (void)err_set(
            e, e->code,
            "no Docker engine at %s: there is no socket: install Docker (apt install "
            "docker.io) and start it, or name another engine by docker.host or DOCKER_HOST",
            path);
    else if (is_path && access(path, R_OK | W_OK) < 0)
        (void)err_set(e, e->code,
                      "%s: this account may not use the socket of the Docker engine: start the "
                      "server as root, which keeps only the socket's group, or add the account to "
                      "that group",
                      path);
}

static int docker_start(const struct runtime_conf *conf, struct runtime **ret, struct err *e)
{
    const struct config *c = conf->config;
    struct docker *d = mem_new(struct docker);
    int *execd = conf->prepared;
    struct engine_conf engine = {
        .host = c->docker.host,
        .cert_dir = c->docker.cert_path,
        .timeout_ms = (uint32_t)c->docker.api_timeout * 1000,
    };
    int r;

    d->base = (struct runtime){
        .ops = &docker_ops,
        .name = "docker",
        .can = RUNTIME_CAN_PAUSE | RUNTIME_CAN_SNAPSHOT | RUNTIME_CAN_POOLS | RUNTIME_CAN_GPUS |
               RUNTIME_CAN_VOLUME_HOST | RUNTIME_CAN_VOLUME_CLAIM | RUNTIME_CAN_NETWORK_POLICY |
               RUNTIME_CAN_CREDENTIAL_PROXY | RUNTIME_CAN_KEEP,
        /* A busy engine takes seconds, and clients that were told Pending learn of a failure only
         * by asking. */
        .create_wait_ms = CREATE_WAIT_MS,
        .keeps_inside = true,
    };
    d->config = c;
    d->owner = conf->owner;
    d->loop = conf->loop;
    d->on_news = conf->on_news;
    d->user = conf->user;
    d->pool = conf->pool;
    boxes_init(&d->boxes);
    d->execd_fd = execd ? take_fd(execd) : -EBADF;
    (void)pthread_mutex_init(&d->work_lock, NULL);
    (void)pthread_mutex_init(&d->execd_lock, NULL);
    r = engine_new(&engine, &d->engine, e);
    if (r == 0)
        r = learn(d, e);
    if (r == 0)
        r = docker_execd_provide(d, e);
    if (r == 0)
        r = pool_new(&(struct pool_conf){"pull", PULL_THREADS, PULL_QUEUE_MAX}, &d->pulls, e);
    if (r == 0)
        r = docker_events_start(d, &d->events, e);
    if (r < 0) {
        if (execd) /* of the caller again */
            *execd = take_fd(&d->execd_fd);
        docker_free(&d->base);
        explain(c, e);
        return err_wrap(e, r, "the docker runtime");
    }
    free(execd);
    *ret = &d->base;
    return 0;
}

static int docker_check_host(const struct config *config, struct err *e)
{
    struct docker d = {.config = config};
    struct engine_conf engine = {
        .host = config->docker.host,
        .cert_dir = config->docker.cert_path,
        .timeout_ms = STARTUP_MS,
    };
    int r = engine_new(&engine, &d.engine, e);

    if (r == 0)
        r = learn(&d, e);
    if (r < 0)
        explain(config, e);
    if (r == 0 && access(config->runtime.execd_program, R_OK) < 0)
        r = err_sys(e, errno, "runtime.execd_program: cannot read '%s', which the engine is given",
                    config->runtime.execd_program);
    engine_free(d.engine);
    return r;
}

/* The group that may use the engine's socket: the server stays in it when it gives up root. */
static int docker_group_as_root(const struct config *config, gid_t *ret)
{
    static const char scheme[] = "unix://";
    struct stat st;

    if (strncmp(config->docker.host, scheme, strlen(scheme)) != 0 ||
        stat(config->docker.host + strlen(scheme), &st) < 0 || !(st.st_mode & S_IWGRP))
        return -ENOENT;
    *ret = st.st_gid;
    return 0;
}

/* The account that the server becomes may be unable to read the program. */
static int docker_prepare(const struct config *config, void **ret_prepared, struct err *e UNUSED)
{
    int *fd = mem_new(int);

    *fd = open(config->runtime.execd_program, O_RDONLY | O_CLOEXEC);
    *ret_prepared = fd;
    return 0;
}

static void docker_discard(void *prepared)
{
    int *fd = prepared;

    if (fd)
        fd_close(*fd);
    free(fd);
}

const struct runtime_kind docker_runtime = {
    .name = "docker",
    .check_host = docker_check_host,
    .prepare_as_root = docker_prepare,
    .discard = docker_discard,
    .group_as_root = docker_group_as_root,
    .start = docker_start,
};
