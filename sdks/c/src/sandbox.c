/* sandbox.c - the lifecycle API: create, connect, wait, list and the rest by id. */
#include <errno.h>
#include <stdio.h>

#include "api/answer.h"
#include "api/create.h"
#include "api/execd.h"
#include "api/request.h"
#include "base/mem.h"
#include "sdk.h"

enum { CREATE_ARENA_BYTES_MAX = 16 << 20, SITES_MAX = 65536, TIMEOUT_S = 600 };

/* --- calls by client and id --- */

static void target_sandbox(struct target *t, const char *id, const char *rest)
{
    target_init(t, "/sandboxes/");
    target_segment(t, id);
    target_add(t, rest);
}

static int by_target(struct osb_client *c, enum http_method method, struct target *t,
                     struct osb_answer **ret)
{
    struct simple s = {&c->server, method, t, NULL, 0};

    return simple_call(c, &s, ret);
}

static int by_id(struct osb_client *c, enum http_method method, const char *id, const char *rest,
                 struct osb_answer **ret)
{
    struct target t;

    target_sandbox(&t, id, rest);
    return by_target(c, method, &t, ret);
}

/* An answer that has sandboxes. */
static int with_infos(struct osb_client *c, int r, struct osb_answer *a, struct osb_answer **ret)
{
    if (r == 0)
        r = answer_bind_infos(c, a);
    if (r == 0 && ret)
        *ret = a;
    else
        osb_answer_free(a);
    return r;
}

int osb_sandbox_get(struct osb_client *client, const char *id, struct osb_answer **ret_answer)
{
    struct osb_answer *a = NULL;
    int r = by_id(client, HTTP_GET, id, "", &a);

    return with_infos(client, r, a, ret_answer);
}

int osb_sandbox_delete(struct osb_client *client, const char *id)
{
    return by_id(client, HTTP_DELETE, id, "", NULL);
}

int osb_sandbox_pause(struct osb_client *client, const char *id)
{
    return by_id(client, HTTP_POST, id, "/pause", NULL);
}

int osb_sandbox_resume(struct osb_client *client, const char *id)
{
    return by_id(client, HTTP_POST, id, "/resume", NULL);
}

int osb_sandbox_renew(struct osb_client *client, const char *id, int64_t seconds,
                      struct osb_answer **ret_answer)
{
    AUTO_BUF(body, 256);
    struct target t;
    struct simple s = {&client->server, HTTP_POST, &t, &body, 0};

    if (seconds <= 0 || seconds > API_TIMEOUT_S_MAX)
        return fail(client, EINVAL, "seconds: expected more than 0, got %lld", (long long)seconds);
    s.body_error = api_renew_write(&body, time_wall_us() + seconds * TIME_US_PER_S);
    target_sandbox(&t, id, "/renew-expiration");
    return simple_call(client, &s, ret_answer);
}

int osb_sandbox_patch_metadata(struct osb_client *client, const char *id,
                               const struct osb_pair *pairs, size_t pair_count,
                               struct osb_answer **ret_answer)
{
    AUTO_ARENA(arena, CREATE_ARENA_BYTES_MAX);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct json_pair *list = pairs_convert(&arena, pairs, pair_count);
    struct osb_answer *a = NULL;
    struct target t;
    struct simple s = {&client->server, HTTP_PATCH, &t, &body, 0};
    int r;

    s.body_error = list ? api_patch_write(&body, list, pair_count) : -ENOMEM;
    target_sandbox(&t, id, "/metadata");
    r = simple_call(client, &s, &a);
    return with_infos(client, r, a, ret_answer);
}

/* --- lists --- */

/* "a=1&b=2", which is then encoded once more as one value. */
static int metadata_query(const struct osb_filter *f, struct buf *out)
{
    struct target t;
    int r;

    target_init(&t, "");
    for (size_t i = 0; i < f->metadata_count; i++)
        target_query(&t, f->metadata[i].name, f->metadata[i].value);
    r = t.error < 0 ? t.error : buf_add(out, str_skip(buf_str(&t.text), t.text.n ? 1 : 0));
    target_done(&t);
    return r;
}

static int list_page(struct osb_client *c, const struct osb_filter *f, struct osb_answer **ret)
{
    AUTO_BUF(labels, SDK_TARGET_BYTES_MAX);
    struct osb_answer *a = NULL;
    struct target t;
    int r;

    target_init(&t, "/sandboxes");
    target_page(&t, f);
    if (f->metadata_count) {
        r = metadata_query(f, &labels);
        if (r < 0)
            t.error = r;
        target_query(&t, "metadata", labels.p);
    }
    r = by_target(c, HTTP_GET, &t, &a);
    return with_infos(c, r, a, ret);
}

int osb_sandbox_list(struct osb_client *client, const struct osb_filter *filter,
                     struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_filter, f, filter);
    return list_page(client, &f, ret_answer);
}

struct osb_iterator {
    struct osb_client *client;
    struct arena arena; /* of what the filter points to */
    struct osb_filter filter;
    struct osb_answer *page;
    size_t at;
    bool last;
};

static const char *keep(struct osb_iterator *it, const char *text)
{
    return text ? arena_strdup(&it->arena, str_of(text)) : NULL;
}

/* The iterator outlives the caller's filter. */
static bool keep_filter(struct osb_iterator *it, const struct osb_filter *f)
{
    struct osb_pair *pairs = arena_new_array(&it->arena, struct osb_pair, f->metadata_count);
    const char **states;
    size_t n = 0;

    while (f->states && f->states[n])
        n++;
    states = arena_new_array(&it->arena, const char *, n + 1);
    if (!pairs || !states)
        return false;
    for (size_t i = 0; i < n; i++)
        states[i] = keep(it, f->states[i]);
    for (size_t i = 0; i < f->metadata_count; i++)
        pairs[i] = (struct osb_pair){keep(it, f->metadata[i].name), keep(it, f->metadata[i].value)};
    it->filter = *f;
    it->filter.states = states;
    it->filter.metadata = pairs;
    it->filter.page = f->page ? f->page : 1;
    it->filter.page_size = f->page_size ? f->page_size : 100;
    return true;
}

int osb_iterator_new(struct osb_client *client, const struct osb_filter *filter,
                     struct osb_iterator **ret_iterator)
{
    OPTIONS_COPY(struct osb_filter, f, filter);
    struct osb_iterator *it = mem_new(struct osb_iterator);

    it->client = client;
    arena_init(&it->arena, CREATE_ARENA_BYTES_MAX);
    if (!keep_filter(it, &f)) {
        osb_iterator_free(it);
        return fail(client, ENOMEM, "no memory left for a filter");
    }
    *ret_iterator = it;
    return 0;
}

int osb_iterator_next(struct osb_iterator *it, const struct osb_info **ret_info)
{
    while (!it->page || it->at == it->page->info_count) {
        int r;

        if (it->last)
            return 0;
        osb_answer_free(take_ptr(&it->page));
        it->at = 0;
        r = list_page(it->client, &it->filter, &it->page);
        if (r < 0 || !it->page)
            return r;
        it->filter.page++;
        it->last =
            !osb_answer_bool(it->page, "pagination.hasNextPage", false) || !it->page->info_count;
    }
    *ret_info = osb_info_at(it->page, it->at++);
    return 1;
}

void osb_iterator_free(struct osb_iterator *iterator)
{
    if (!iterator)
        return;
    osb_answer_free(iterator->page);
    arena_done(&iterator->arena);
    free(iterator);
}

/* --- endpoints, snapshots, diagnostics --- */

static int endpoint_get(struct osb_client *c, const char *id, uint16_t port, int64_t expires_s,
                        struct osb_answer **ret)
{
    struct target t;
    char rest[32];

    (void)snprintf(rest, sizeof(rest), "/endpoints/%u", port);
    target_sandbox(&t, id, rest);
    if (c->use_server_proxy)
        target_query(&t, "use_server_proxy", "true");
    if (expires_s)
        target_query_i64(&t, "expires", expires_s);
    return by_target(c, HTTP_GET, &t, ret);
}

int osb_endpoint_get(struct osb_client *client, const char *id, uint16_t port,
                     struct osb_answer **ret_answer)
{
    return endpoint_get(client, id, port, 0, ret_answer);
}

int osb_endpoint_get_signed(struct osb_client *client, const char *id, uint16_t port,
                            int64_t expires_s, struct osb_answer **ret_answer)
{
    if (expires_s <= 0)
        return fail(client, EINVAL, "expires_s: expected seconds since 1970, got %lld",
                    (long long)expires_s);
    return endpoint_get(client, id, port, expires_s, ret_answer);
}

int osb_snapshot_create(struct osb_client *client, const char *sandbox_id, const char *name,
                        struct osb_answer **ret_answer)
{
    return osb_snapshot_create_with(client, sandbox_id,
                                    &(struct osb_snapshot){OSB_SNAPSHOT, .name = name}, ret_answer);
}

int osb_snapshot_create_with(struct osb_client *client, const char *sandbox_id,
                             const struct osb_snapshot *snapshot, struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_snapshot, o, snapshot);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct api_snapshot_create in = {.name = str_or_empty(o.name), .memory = o.memory};
    struct target t;
    struct simple s = {&client->server, HTTP_POST, &t, &body,
                       api_snapshot_create_write(&body, &in)};

    target_sandbox(&t, sandbox_id, "/snapshots");
    return simple_call(client, &s, ret_answer);
}

static int snapshot_by_id(struct osb_client *c, enum http_method method, const char *id,
                          struct osb_answer **ret)
{
    struct target t;

    target_init(&t, "/snapshots/");
    target_segment(&t, id);
    return by_target(c, method, &t, ret);
}

int osb_snapshot_get(struct osb_client *client, const char *id, struct osb_answer **ret_answer)
{
    return snapshot_by_id(client, HTTP_GET, id, ret_answer);
}

int osb_snapshot_delete(struct osb_client *client, const char *id)
{
    return snapshot_by_id(client, HTTP_DELETE, id, NULL);
}

int osb_snapshot_list(struct osb_client *client, const struct osb_filter *filter,
                      struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_filter, f, filter);
    struct target t;

    target_init(&t, "/snapshots");
    target_query(&t, "sandboxId", f.sandbox_id);
    target_page(&t, &f);
    return by_target(client, HTTP_GET, &t, ret_answer);
}

/* --- forks, and persistent sandboxes --- */

int osb_sandbox_fork(struct osb_client *client, const char *id, const struct osb_fork *fork,
                     struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_fork, o, fork);
    AUTO_ARENA(arena, CREATE_ARENA_BYTES_MAX);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct api_fork in = {
        .count = o.count,
        .timeout_s = o.timeout_s,
        .env = pairs_convert(&arena, o.env, o.env_count),
        .env_count = o.env_count,
        .has_metadata = o.metadata != NULL,
        .metadata = pairs_convert(&arena, o.metadata, o.metadata_count),
        .metadata_count = o.metadata_count,
        .memory = o.memory,
    };
    struct osb_answer *a = NULL;
    struct target t;
    struct simple s = {&client->server, HTTP_POST, &t, &body, 0};
    int r;

    in.entrypoint = strs_convert(&arena, o.entrypoint, &in.entrypoint_count);
    s.body_error =
        in.env && in.metadata && in.entrypoint ? api_fork_write(&arena, &body, &in) : -ENOMEM;
    target_sandbox(&t, id, "/fork");
    r = simple_call(client, &s, &a);
    return with_infos(client, r, a, ret_answer);
}

int osb_sandbox_rollback(struct osb_client *client, const char *id, const char *snapshot_id)
{
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct target t;
    struct simple s = {&client->server, HTTP_POST, &t, &body,
                       api_rollback_write(&body, str_or_empty(snapshot_id))};

    target_sandbox(&t, id, "/rollback");
    return simple_call(client, &s, NULL);
}

int osb_sandbox_stop(struct osb_client *client, const char *id)
{
    return by_id(client, HTTP_POST, id, "/stop", NULL);
}

int osb_sandbox_start(struct osb_client *client, const char *id)
{
    return by_id(client, HTTP_POST, id, "/start", NULL);
}

int osb_diagnostics_get(struct osb_client *client, const char *id, const char *kind,
                        const char *scope, struct osb_answer **ret_answer)
{
    struct target t;

    target_sandbox(&t, id, "/diagnostics/");
    target_segment(&t, kind);
    target_query(&t, "scope", scope);
    return by_target(client, HTTP_GET, &t, ret_answer);
}

/* --- the way into a sandbox --- */

static void site_free(void *p)
{
    site_done(p);
    free(p);
}

static int site_from_answer(struct osb_client *c, struct osb_answer *a, struct site *ret)
{
    struct api_endpoint endpoint;
    AUTO_BUF(text, 8192);
    struct err e;
    int r = api_endpoint_read(&a->arena, a->json, &endpoint, &e);

    if (r == 0 && buf_add(&text, endpoint.endpoint) < 0)
        r = err_set(&e, EBADMSG, "an endpoint that is too long");
    if (r == 0)
        r = site_parse(ret, text.p, c->server.tls, &e);
    for (size_t i = 0; r == 0 && i < endpoint.headers_count; i++)
        r = site_add_header(ret, endpoint.headers[i].key, endpoint.headers[i].value, &e);
    return r < 0 ? fail(c, EBADMSG, "%s: an endpoint that does not fit: %s", c->server.authority,
                        e.msg)
                 : 0;
}

int sandbox_site(struct osb_sandbox *sb, uint16_t port, const struct site **ret)
{
    struct osb_client *c = sb->client;
    struct str key = str_make((const char *)&port, sizeof(port));
    struct osb_answer *a = NULL;
    struct site *site = map_get(&sb->sites, key);
    int r;

    if (site) {
        *ret = site;
        return 0;
    }
    r = endpoint_get(c, sb->id, port, 0, &a);
    if (r < 0)
        return r;
    site = mem_new(struct site);
    r = a->json ? site_from_answer(c, a, site)
                : fail(c, EBADMSG, "%s: an endpoint without JSON", c->server.authority);
    osb_answer_free(a);
    if (r == 0 && map_add(&sb->sites, key, site) < 0)
        r = fail(c, ENOMEM, "no memory left for an endpoint");
    if (r < 0) {
        site_free(site);
        return r;
    }
    *ret = site;
    return 0;
}

static struct osb_sandbox *sandbox_new(struct osb_client *c, const char *id)
{
    struct osb_sandbox *sb = mem_new(struct osb_sandbox);

    sb->client = c;
    sb->id = mem_strdup(id);
    map_init(&sb->sites, SITES_MAX, site_free);
    return sb;
}

int osb_sandbox_connect(struct osb_client *client, const char *id, struct osb_sandbox **ret_sandbox)
{
    struct osb_sandbox *sb = sandbox_new(client, id);
    const struct site *site;
    int r = sandbox_site(sb, OSB_PORT_EXECD, &site);

    if (r < 0) {
        osb_sandbox_free(sb);
        return r;
    }
    *ret_sandbox = sb;
    return 0;
}

void osb_sandbox_free(struct osb_sandbox *sandbox)
{
    if (!sandbox)
        return;
    map_done(&sandbox->sites);
    free(sandbox->id);
    free(sandbox);
}

const char *osb_sandbox_id(const struct osb_sandbox *sandbox)
{
    return sandbox->id;
}

struct osb_client *osb_sandbox_client(const struct osb_sandbox *sandbox)
{
    return sandbox->client;
}

/* --- ready --- */

static int ping(struct osb_sandbox *sb)
{
    const struct site *site;
    struct target t;
    int r = sandbox_site(sb, OSB_PORT_EXECD, &site);
    struct simple s = {NULL, HTTP_GET, &t, NULL, 0};

    if (r < 0)
        return r;
    s.site = site;
    target_init(&t, "/ping");
    return simple_call(sb->client, &s, NULL);
}

int osb_sandbox_is_healthy(struct osb_sandbox *sandbox)
{
    return ping(sandbox) == 0;
}

/* -EREMOTEIO when it will never be ready, with the server's words. */
static int check_not_over(struct osb_sandbox *sb)
{
    struct osb_client *c = sb->client;
    struct osb_answer *a = NULL;
    const struct osb_info *info;
    enum sandbox_state state;
    int r = osb_sandbox_get(c, sb->id, &a);

    if (r < 0)
        return r == -ENOENT || r == -EACCES || r == -ECANCELED ? r : 0;
    info = osb_info_at(a, 0);
    if (sandbox_state_parse(str_of(osb_info_state(info)), &state) == 0 &&
        (state == SANDBOX_FAILED || state == SANDBOX_TERMINATED))
        r = fail(c, EREMOTEIO, "sandbox %s is %s: %s%s%s", sb->id, osb_info_state(info),
                 osb_info_reason(info), osb_info_message(info)[0] ? ": " : "",
                 osb_info_message(info));
    osb_answer_free(a);
    return r;
}

static int wait_ready(struct osb_sandbox *sb, uint32_t timeout_ms, uint32_t poll_ms)
{
    struct osb_client *c = sb->client;
    uint64_t deadline = deadline_in_ms(timeout_ms);
    struct osb_error last;
    unsigned tries = 0;
    int r;

    for (;;) {
        r = ping(sb);
        tries++;
        if (r == 0 || r == -ECANCELED)
            return r;
        last = c->current->error;
        r = check_not_over(sb);
        if (r < 0)
            return r;
        if (deadline_passed(deadline))
            return fail(c, ETIMEDOUT,
                        "sandbox %s was not ready within %u ms, after %u pings; the last: %.200s",
                        sb->id, timeout_ms, tries, last.message);
        r = osb_sleep(c, poll_ms);
        if (r < 0)
            return r;
    }
}

int osb_sandbox_wait_ready(struct osb_sandbox *sandbox, uint32_t timeout_ms, uint32_t poll_ms)
{
    uint64_t before = op_begin(sandbox->client);
    int r = wait_ready(sandbox, timeout_ms ? timeout_ms : SDK_READY_MS,
                       poll_ms ? poll_ms : SDK_READY_POLL_MS);

    op_end(sandbox->client, before);
    return r;
}

/* --- create --- */

static const struct osb_pair default_resources[] = {
    {"cpu",    "1"  },
    {"memory", "2Gi"},
};
static const char *const default_entrypoint[] = {"tail", "-f", "/dev/null", NULL};

static struct api_volume *convert_volumes(struct arena *a, const struct osb_create *o)
{
    struct api_volume *out = arena_new_array(a, struct api_volume, o->volume_count);

    for (size_t i = 0; out && i < o->volume_count; i++) {
        const struct osb_volume *v = &o->volumes[i];

        out[i] = (struct api_volume){
            .name = str_or_empty(v->name),
            .mount_path = str_or_empty(v->mount_path),
            .sub_path = str_or_empty(v->sub_path),
            .read_only = v->read_only,
            .kind = v->host_path ? API_VOLUME_HOST : API_VOLUME_PVC,
            .host_path = str_or_empty(v->host_path),
            .claim_name = str_or_empty(v->claim_name),
            .create_if_missing = v->create_if_missing,
            .delete_with_sandbox = v->delete_with_sandbox,
        };
    }
    return out;
}

static struct api_secret *convert_secrets(struct arena *a, const struct osb_create *o)
{
    struct api_secret *out = arena_new_array(a, struct api_secret, o->secret_count + 1);

    for (size_t i = 0; out && i < o->secret_count; i++) {
        static const char *const none[] = {NULL};
        const struct osb_secret *s = &o->secrets[i];

        out[i] =
            (struct api_secret){.name = str_or_empty(s->name), .value = str_or_empty(s->value)};
        out[i].hosts = strs_convert(a, s->hosts ? s->hosts : none, &out[i].hosts_count);
        if (!out[i].hosts)
            return NULL;
    }
    return out;
}

int create_write(struct osb_client *c, const struct osb_create *o, struct arena *a,
                 struct buf *body)
{
    bool usual = !o->resources;
    struct api_create_maps maps = {
        .limits = pairs_convert(a, usual ? default_resources : o->resources,
                                usual ? ARRAY_LEN(default_resources) : o->resource_count),
        .limits_count = usual ? ARRAY_LEN(default_resources) : o->resource_count,
        .extensions = pairs_convert(a, o->extensions, o->extension_count),
        .extensions_count = o->extension_count,
    };
    struct api_create spec = {
        .image = str_or_empty(o->image),
        .auth_user = str_or_empty(o->image_user),
        .auth_password = str_or_empty(o->image_password),
        .snapshot_id = str_or_empty(o->snapshot_id),
        .os = str_or_empty(o->os),
        .arch = str_or_empty(o->arch),
        .timeout_s = o->timeout_s == 0  ? TIMEOUT_S
                     : o->timeout_s < 0 ? 0
                                        : o->timeout_s,
        .env = pairs_convert(a, o->env, o->env_count),
        .env_count = o->env_count,
        .metadata = pairs_convert(a, o->metadata, o->metadata_count),
        .metadata_count = o->metadata_count,
        .network_policy_json = str_or_empty(o->network_policy),
        .credential_proxy = o->credential_proxy,
        .secure_access = o->secure_access,
        .persistent = o->persistent,
        .stop_on_expiry = o->stop_on_expiry,
        .volumes = convert_volumes(a, o),
        .volumes_count = o->volume_count,
        .secrets = {convert_secrets(a, o), o->secret_count},
    };
    struct err e;
    int r = pull_policy_of(c, o->pull_policy, &spec.pull_policy);

    if (r < 0)
        return r;
    spec.entrypoint =
        strs_convert(a, o->entrypoint ? o->entrypoint : default_entrypoint, &spec.entrypoint_count);
    if (!maps.limits || !maps.extensions || !spec.env || !spec.metadata || !spec.volumes ||
        !spec.secrets.rows || !spec.entrypoint)
        return fail(c, ENOMEM, "the request is too large");
    return api_create_write(a, &spec, &maps, body, &e) < 0 ? fail_err(c, &e) : 0;
}

static int post_create(struct osb_client *c, const struct osb_create *o, struct osb_sandbox **ret)
{
    AUTO_ARENA(arena, CREATE_ARENA_BYTES_MAX);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct osb_pair key = {"Idempotency-Key", o->idempotency_key};
    struct osb_request req = {OSB_REQUEST, .method = "POST", .path = "/sandboxes", .headers = &key,
                              .header_count = o->idempotency_key ? 1 : 0};
    struct osb_answer *a = NULL;
    int r;

    buf_keep_secret(&body);
    if (o->request)
        r = buf_add(&body, str_of(o->request)) < 0 ? fail(c, EMSGSIZE, "request: too long") : 0;
    else
        r = create_write(c, o, &arena, &body);
    if (r < 0)
        return r;
    req.body = body.p;
    req.body_bytes = body.n;
    r = osb_request(c, &req, &a);
    if (r == 0)
        r = answer_bind_infos(c, a);
    if (r == 0)
        *ret = sandbox_new(c, osb_info_id(osb_info_at(a, 0)));
    osb_answer_free(a);
    return r;
}

/* A sandbox nobody has a handle of would live until it expires. */
static void undo_create(struct osb_sandbox *sb)
{
    struct osb_task *t = sb->client->current;
    struct osb_error why = t->error;
    int64_t timeout_ms = t->timeout_ms;

    t->op_deadline = 0; /* it may have passed: deleting has a limit of its own */
    t->timeout_ms = 0;
    (void)osb_sandbox_delete(sb->client, sb->id);
    t->timeout_ms = timeout_ms;
    t->error = why;
    osb_sandbox_free(sb);
}

int osb_sandbox_create(struct osb_client *client, const struct osb_create *create,
                       struct osb_sandbox **ret_sandbox)
{
    OPTIONS_COPY(struct osb_create, o, create);
    struct osb_sandbox *sb = NULL;
    const struct site *site;
    uint64_t before = op_begin(client);
    int r = post_create(client, &o, &sb);

    if (r == 0)
        r = sandbox_site(sb, OSB_PORT_EXECD, &site);
    if (r == 0 && !o.no_wait)
        r = wait_ready(sb, o.ready_timeout_ms ? o.ready_timeout_ms : SDK_READY_MS,
                       o.ready_poll_ms ? o.ready_poll_ms : SDK_READY_POLL_MS);
    if (r == 0)
        *ret_sandbox = sb;
    else if (sb)
        undo_create(sb);
    op_end(client, before);
    return r;
}
