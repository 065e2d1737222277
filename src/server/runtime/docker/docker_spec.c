/* docker_spec.c - a request as the body of POST /containers/create. */
#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "server/config/config.h"
#include "server/config/words.h"
#include "server/runtime/docker/docker_internal.h"

enum { WORDS_ARENA_MAX = 4 << 20, NANOS_PER_MILLICORE = 1000 * 1000 };

static void write_port_key(struct json_writer *w, unsigned port)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u/tcp", port);
    json_write_key(w, str_of(text));
}

/* A single argument that contains blanks is split as a command line. */
static int write_args(struct json_writer *w, const struct api_create *spec, struct err *e)
{
    AUTO_ARENA(arena, WORDS_ARENA_MAX);
    struct str *words = spec->entrypoint;
    size_t count = spec->entrypoint_count;

    if (count == 1 && str_find(words[0], ' ') < words[0].n &&
        words_split(&arena, spec->entrypoint[0], &words, &count) < 0)
        return err_set(e, EINVAL, "entrypoint: a quote is not closed");
    json_write_key(w, STR("Cmd"));
    json_write_array(w);
    for (size_t i = 0; i < count; i++)
        json_write_string(w, words[i]);
    json_write_array_end(w);
    return 0;
}

/* execd is the first process: it serves, starts the entrypoint, and ends with it. */
static void write_init(struct json_writer *w, const struct docker *d,
                       const struct docker_plan *plan)
{
    char port[8];

    json_write_key(w, STR("Entrypoint"));
    json_write_array(w);
    json_write_string(w, STR(DOCKER_DIR "/execd"));
    json_write_string(w, STR("--bootstrap"));
    if (d->host_network && plan->execd_port) {
        (void)snprintf(port, sizeof(port), "%u", plan->execd_port);
        json_write_string(w, STR("--port"));
        json_write_string(w, str_of(port));
    }
    json_write_string(w, STR("--"));
    json_write_array_end(w);
}

/* The environment of a sandbox whose connections are intercepted says so to execd. */
#define INTERCEPT_ENV "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT"

static int write_env(struct json_writer *w, const struct api_create *spec,
                     const struct docker_plan *plan)
{
    AUTO_BUF(text, ENGINE_ANSWER_MAX);
    int r = 0;

    json_write_key(w, STR("Env"));
    json_write_array(w);
    for (size_t i = 0; r == 0 && i < spec->env_count; i++) {
        if (spec->credential_proxy && str_eq(spec->env[i].key, STR(INTERCEPT_ENV)))
            continue;
        buf_clear(&text);
        r = buf_addf(&text, "%.*s=%.*s", STR_ARG(spec->env[i].key), STR_ARG(spec->env[i].value));
        json_write_string(w, buf_str(&text));
    }
    for (size_t i = 0; r == 0 && i < spec->secrets.count; i++) {
        if (!plan->placeholders[i][0])
            continue;
        buf_clear(&text);
        r = buf_addf(&text, "%.*s=%s", STR_ARG(spec->secrets.rows[i].name), plan->placeholders[i]);
        json_write_string(w, buf_str(&text));
    }
    if (plan->token[0]) {
        buf_clear(&text);
        (void)buf_addf(&text, DOCKER_TOKEN_ENV "=%s", plan->token);
        json_write_string(w, buf_str(&text));
    }
    if (spec->credential_proxy)
        json_write_string(w, STR(INTERCEPT_ENV "=true"));
    json_write_array_end(w);
    return r;
}

static void write_label(struct json_writer *w, const char *name, struct str value)
{
    json_member_string(w, str_of(name), value);
}

static void write_number_label(struct json_writer *w, const char *name, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    if (value)
        write_label(w, name, str_of(text));
}

/* Microseconds and an offset, as other builds write and read it. */
static void write_expiry(struct json_writer *w, const struct api_create *spec)
{
    char text[TIME_TEXT_MAX], full[TIME_TEXT_MAX + sizeof(".000000+00:00")];
    size_t n;

    if (!spec->timeout_s) {
        write_label(w, LABEL_MANUAL_CLEANUP, STR("true"));
        return;
    }
    n = time_format(time_wall_us() + spec->timeout_s * TIME_US_PER_S, text);
    text[n - 1] = '\0'; /* Z */
    (void)snprintf(full, sizeof(full), "%s%s+00:00", text, strchr(text, '.') ? "" : ".000000");
    write_label(w, LABEL_EXPIRES_AT, str_of(full));
}

/* A restored sandbox inherits the labels of its image: those it has none of are set to nothing. */
static int write_labels(struct json_writer *w, const struct docker *d,
                        const struct runtime_create *c, const struct docker_plan *plan)
{
    const struct api_create *spec = c->spec;
    AUTO_BUF(volumes, 64 << 10);
    int r = docker_volumes_label(spec, c->id, &volumes);

    json_write_key(w, STR("Labels"));
    json_write_object(w);
    for (size_t i = 0; i < spec->metadata_count; i++)
        if (!str_starts(spec->metadata[i].key, STR(LABEL_PREFIX)))
            json_member_string(w, spec->metadata[i].key, spec->metadata[i].value);
    write_label(w, LABEL_ID, c->id);
    write_label(w, LABEL_OWNER, str_of(d->owner));
    write_expiry(w, spec);
    if (spec->os.n)
        write_label(w, LABEL_OS, spec->os);
    if (spec->arch.n)
        write_label(w, LABEL_ARCH, spec->arch);
    if (spec->snapshot_id.n)
        write_label(w, LABEL_SNAPSHOT, spec->snapshot_id);
    if (volumes.n || spec->snapshot_id.n)
        write_label(w, LABEL_VOLUMES, buf_str(&volumes));
    write_number_label(w, LABEL_RENEW, spec->renew_extend_s);
    write_number_label(w, LABEL_EXECD_PORT, plan->execd_port);
    write_number_label(w, LABEL_HTTP_PORT, plan->http_port);
    if (plan->sidecar)
        write_label(w, LABEL_EGRESS_TOKEN, plan->kept ? str_of(plan->egress_token) : c->token);
    else if (spec->snapshot_id.n)
        write_label(w, LABEL_EGRESS_TOKEN, STR(""));
    json_write_object_end(w);
    return r;
}

static void write_binding(struct json_writer *w, unsigned port, const char *ip, unsigned at)
{
    char text[8];

    (void)snprintf(text, sizeof(text), "%u", at);
    write_port_key(w, port);
    json_write_array(w);
    json_write_object(w);
    json_member_string(w, STR("HostIp"), str_of(ip));
    json_member_string(w, STR("HostPort"), str_of(text));
    json_write_object_end(w);
    json_write_array_end(w);
}

/* The engine publishes a port only if it is exposed. */
void docker_spec_write_exposed(struct json_writer *w, const struct docker_plan *plan)
{
    json_write_key(w, STR("ExposedPorts"));
    json_write_object(w);
    write_port_key(w, DOCKER_EXECD_PORT);
    json_write_raw(w, STR("{}"));
    write_port_key(w, DOCKER_HTTP_PORT);
    json_write_raw(w, STR("{}"));
    if (plan->sidecar) {
        write_port_key(w, DOCKER_EGRESS_PORT);
        json_write_raw(w, STR("{}"));
    }
    json_write_object_end(w);
}

void docker_spec_write_ports(struct json_writer *w, const struct docker *d,
                             const struct docker_plan *plan)
{
    if (d->host_network || !plan->execd_port)
        return;
    json_write_key(w, STR("PortBindings"));
    json_write_object(w);
    write_binding(w, DOCKER_EXECD_PORT, d->config->docker.publish, plan->execd_port);
    write_binding(w, DOCKER_HTTP_PORT, d->config->docker.publish, plan->http_port);
    if (plan->egress_port)
        write_binding(w, DOCKER_EGRESS_PORT, d->config->docker.publish, plan->egress_port);
    json_write_object_end(w);
}

void docker_spec_write_texts(struct json_writer *w, struct str key, const char *const *texts)
{
    json_write_key(w, key);
    json_write_array(w);
    for (; *texts; texts++)
        json_write_string(w, str_of(*texts));
    json_write_array_end(w);
}

/* A sandbox that could change the rules of its sidecar, or send packets past them, has none. */
static void write_dropped(struct json_writer *w, const struct config *c, bool sidecar)
{
    static const char *const always[] = {"NET_ADMIN", "NET_RAW"};
    const struct config_list *drop = &c->docker.drop_capabilities;

    json_write_key(w, STR("CapDrop"));
    json_write_array(w);
    for (size_t i = 0; i < drop->count; i++)
        json_write_string(w, str_of(drop->at[i]));
    for (size_t i = 0; sidecar && i < ARRAY_LEN(always); i++)
        json_write_string(w, str_of(always[i]));
    json_write_array_end(w);
}

static void write_security(struct json_writer *w, const struct config *c, bool sidecar)
{
    AUTO_BUF(text, ENGINE_ANSWER_MAX);

    write_dropped(w, c, sidecar);
    json_write_key(w, STR("SecurityOpt"));
    json_write_array(w);
    if (c->docker.no_new_privileges)
        json_write_string(w, STR("no-new-privileges:true"));
    if (c->docker.apparmor_profile[0] &&
        buf_addf(&text, "apparmor=%s", c->docker.apparmor_profile) == 0)
        json_write_string(w, buf_str(&text));
    buf_clear(&text);
    if (c->docker.seccomp_profile[0] &&
        buf_addf(&text, "seccomp=%s", c->docker.seccomp_profile) == 0)
        json_write_string(w, buf_str(&text));
    json_write_array_end(w);
}

static void write_disk(struct json_writer *w, const struct docker *d,
                       const struct api_limits *asked)
{
    uint64_t disk =
        asked->disk_bytes ? asked->disk_bytes : (uint64_t)d->config->runtime.default_disk;
    char text[24];

    if (!disk || !d->quotas)
        return;
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)disk);
    json_write_key(w, STR("StorageOpt"));
    json_write_object(w);
    json_member_string(w, STR("size"), str_of(text));
    json_write_object_end(w);
}

static void write_limits(struct json_writer *w, const struct config *c,
                         const struct api_limits *asked)
{
    uint64_t memory = asked->memory_bytes ? asked->memory_bytes : c->runtime.default_memory;
    uint64_t cpu = asked->cpu_millicores ? asked->cpu_millicores : c->runtime.default_cpu;

    json_member_i64(w, STR("PidsLimit"), c->docker.pids_limit);
    if (memory)
        json_member_u64(w, STR("Memory"), memory);
    if (cpu)
        json_member_u64(w, STR("NanoCpus"), cpu * NANOS_PER_MILLICORE);
    if (!asked->gpus)
        return;
    json_write_key(w, STR("DeviceRequests"));
    json_write_array(w);
    json_write_object(w);
    json_member_string(w, STR("Driver"), STR(""));
    json_member_i64(w, STR("Count"), asked->gpus);
    json_write_key(w, STR("Capabilities"));
    json_write_raw(w, STR("[[\"gpu\"]]"));
    json_write_object_end(w);
    json_write_array_end(w);
}

static void write_network(struct json_writer *w, const struct docker *d, struct str id,
                          const struct docker_plan *plan)
{
    char name[DOCKER_NAME_MAX], mode[sizeof("container:") + DOCKER_NAME_MAX];

    docker_sidecar_name(id, name);
    (void)snprintf(mode, sizeof(mode), "container:%s", name);
    json_member_string(w, STR("NetworkMode"),
                       str_of(plan->sidecar ? mode : d->config->docker.network_mode));
    if (!plan->sidecar)
        docker_spec_write_ports(w, d, plan);
}

/* Volumes of ours: execd, and what a sidecar shares. */
static void write_own_binds(struct json_writer *w, const struct docker *d,
                            const struct runtime_create *c)
{
    AUTO_BUF(bind, 2 * DOCKER_NAME_MAX);
    char shared[DOCKER_NAME_MAX];

    (void)buf_addf(&bind, "%s:" DOCKER_DIR ":ro", d->execd_volume);
    json_write_string(w, buf_str(&bind));
    if (!c->spec->credential_proxy)
        return;
    buf_clear(&bind);
    docker_runtime_volume(c->id, shared);
    (void)buf_addf(&bind, "%s:" DOCKER_SHARED_DIR ":rw", shared);
    json_write_string(w, buf_str(&bind));
}

/* A claim's variables are put into a file there, which no snapshot must have. */
static void write_tmpfs(struct json_writer *w, const struct runtime_create *c)
{
    if (!str_eq(c->owner, STR(DOCKER_POOL_OWNER)) || c->spec->credential_proxy)
        return;
    json_write_key(w, STR("Tmpfs"));
    json_write_object(w);
    json_member_string(w, STR(DOCKER_SHARED_DIR), STR("rw,nosuid,nodev,noexec,mode=755,size=16m"));
    json_write_object_end(w);
}

static int write_host(struct json_writer *w, const struct docker *d, const struct runtime_create *c,
                      const struct docker_plan *plan, struct err *e)
{
    int r;

    json_write_key(w, STR("HostConfig"));
    json_write_object(w);
    write_network(w, d, c->id, plan);
    if (d->oci_runtime[0])
        json_member_string(w, STR("Runtime"), str_of(d->oci_runtime));
    json_write_key(w, STR("Binds"));
    json_write_array(w);
    write_own_binds(w, d, c);
    r = docker_volumes_write(d, c->spec, w, e);
    json_write_array_end(w);
    write_tmpfs(w, c);
    write_security(w, d->config, plan->sidecar);
    write_limits(w, d->config, &c->spec->limits);
    write_disk(w, d, &c->spec->limits);
    json_write_object_end(w);
    return r;
}

int docker_spec_write(const struct docker *d, const struct runtime_create *c,
                      const struct docker_plan *plan, struct buf *out, struct err *e)
{
    AUTO_BUF(image, 4096);
    struct json_writer w;
    int r = docker_image_name(c->spec, &image);

    if (r < 0)
        return err_set(e, EINVAL, "image.uri is too long");
    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("Image"), buf_str(&image));
    write_init(&w, d, plan);
    r = write_args(&w, c->spec, e);
    if (r == 0 && write_env(&w, c->spec, plan) < 0)
        r = err_set(e, EMSGSIZE, "env is too long");
    if (r == 0 && write_labels(&w, d, c, plan) < 0)
        r = err_set(e, EMSGSIZE, "the names of volumes are too long");
    if (!d->host_network && !plan->sidecar)
        docker_spec_write_exposed(&w, plan);
    if (r == 0)
        r = write_host(&w, d, c, plan, e);
    if (r < 0)
        return r;
    json_write_object_end(&w);
    r = json_write_end(&w);
    return r < 0 ? err_sys(e, -r, "compose the request for the Docker engine") : 0;
}
