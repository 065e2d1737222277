/* docker_logs.c - what a container printed, what it uses, and what else there is to tell of it. */
#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "server/runtime/docker/docker_internal.h"

enum {
    FRAME_HEAD = 8,
    LINES_ASKED_MAX = 1000 * 1000,
};

/* Each frame has a head: the stream (0 to 2), three zeros, the length as a big-endian number. */
int docker_logs_unframe(struct str frames, struct buf *out)
{
    while (frames.n) {
        const unsigned char *p = (const unsigned char *)frames.p;
        uint32_t n;
        int r;

        if (frames.n < FRAME_HEAD || p[0] > 2 || p[1] || p[2] || p[3])
            return -EBADMSG;
        n = (uint32_t)p[4] << 24 | (uint32_t)p[5] << 16 | (uint32_t)p[6] << 8 | p[7];
        frames = str_skip(frames, FRAME_HEAD);
        if (n > frames.n)
            n = (uint32_t)frames.n; /* the answer ended in the middle: what is there counts */
        r = buf_add(out, str_make(frames.p, n));
        if (r < 0)
            return r;
        frames = str_skip(frames, n);
    }
    return 0;
}

static size_t count_lines(struct str text)
{
    struct str line;
    size_t n = 0;

    while (str_cut(&text, '\n', &line))
        n += line.n > 0;
    return n;
}

/* Drops lines from the front until `max` are left. */
static bool keep_last_lines(struct buf *text, size_t max)
{
    size_t count = count_lines(buf_str(text));
    struct str rest = buf_str(text), line;

    if (!max || count <= max)
        return false;
    while (count > max && str_cut(&rest, '\n', &line))
        count -= line.n > 0;
    buf_drop_front(text, text->n - rest.n);
    return true;
}

int docker_logs(struct runtime *r, struct str id, const struct runtime_log_query *query,
                struct buf *out, bool *ret_cut, struct err *e)
{
    struct docker *d = docker_of(r);
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(text, ENGINE_ANSWER_MAX);
    AUTO_BUF(target, 512);
    char name[DOCKER_NAME_MAX];
    uint64_t lines =
        query->lines && query->lines < LINES_ASKED_MAX ? query->lines : LINES_ASKED_MAX;
    int result;

    docker_name(id, name);
    (void)buf_addf(&target, "/containers/%s/logs?stdout=1&stderr=1&timestamps=1&tail=%llu", name,
                   (unsigned long long)lines + 1);
    if (query->since_us > 0)
        (void)buf_addf(&target, "&since=%lld.%06lld000",
                       (long long)(query->since_us / TIME_US_PER_S),
                       (long long)(query->since_us % TIME_US_PER_S));
    result = engine_call(
        d->engine, &(struct engine_request){.method = HTTP_GET, .target = target.p}, &answer, e);
    if (result < 0)
        return result;
    if (docker_logs_unframe(buf_str(&answer.body), &text) < 0)
        return err_set(e, EPROTO, "the Docker engine sent output that cannot be read");
    *ret_cut = keep_last_lines(&text, (size_t)lines);
    return buf_add(out, buf_str(&text)) < 0 ? err_set(e, EMSGSIZE, "the output is too long") : 0;
}

int docker_logs_tail(struct docker *d, const char *name, unsigned lines, struct buf *out,
                     struct err *e)
{
    auto_answer answer = ENGINE_ANSWER_NONE;
    char target[256];
    int r;

    (void)snprintf(target, sizeof(target), "/containers/%s/logs?stdout=1&stderr=1&tail=%u", name,
                   lines);
    r = engine_call(d->engine, &(struct engine_request){.method = HTTP_GET, .target = target},
                    &answer, e);
    if (r < 0)
        return r;
    return docker_logs_unframe(buf_str(&answer.body), out) < 0
               ? err_set(e, EPROTO, "the Docker engine sent output that cannot be read")
               : 0;
}

static uint64_t number_at(const struct json *object, const char *const *path)
{
    uint64_t n = 0;

    for (; *path; path++)
        object = json_get(object, str_of(*path));
    (void)!json_to_u64(object, &n);
    return n;
}
#define NUMBER_AT(object, ...) number_at(object, (const char *const[]){__VA_ARGS__, NULL})

int docker_usage(struct runtime *r, struct str id, struct runtime_usage *ret, struct err *e)
{
    struct docker *d = docker_of(r);
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    char name[DOCKER_NAME_MAX];
    struct docker_facts facts;
    struct json *stats = NULL;
    uint64_t used, cache;
    int result = docker_inspect(d, id, &facts, e);

    if (result < 0)
        return result;
    docker_name(id, name);
    result = docker_get(d, &arena, &stats, e, "/containers/%s/stats?stream=false%s", name,
                        d->one_shot ? "&one-shot=true" : "");
    if (result < 0)
        return result;
    used = NUMBER_AT(stats, "memory_stats", "usage");
    cache = NUMBER_AT(stats, "memory_stats", "stats", "inactive_file"); /* cgroup v2 */
    if (!cache)
        cache = NUMBER_AT(stats, "memory_stats", "stats", "total_inactive_file");
    *ret = (struct runtime_usage){
        .memory_bytes = used > cache ? used - cache : used,
        .memory_peak_bytes = NUMBER_AT(stats, "memory_stats", "max_usage"),
        .cpu_us = NUMBER_AT(stats, "cpu_stats", "cpu_usage", "total_usage") / 1000,
        .pids = NUMBER_AT(stats, "pids_stats", "current"),
        .oom_kills = facts.status.out_of_memory,
        .pid = facts.pid,
        .address = facts.address,
    };
    return 0;
}

int docker_report(struct runtime *r, struct str id, enum api_diag_kind kind, struct buf *out,
                  struct err *e)
{
    struct docker *d = docker_of(r);
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    char name[DOCKER_NAME_MAX], sidecar[DOCKER_NAME_MAX];
    const struct json *host;
    struct json *tree = NULL;
    struct str size, mode;
    int result;

    if (kind != API_DIAG_INSPECT)
        return 0;
    docker_name(id, name);
    result = docker_get(d, &arena, &tree, e, "/containers/%s/json", name);
    if (result < 0)
        return result;
    host = json_get(tree, STR("HostConfig"));
    result = buf_addf(out, "%-12s%s\n", "container:", name);
    if (json_to_str(json_get(host, STR("NetworkMode")), &mode) == 0 &&
        str_starts(mode, STR("container:"))) {
        docker_sidecar_name(id, sidecar);
        result = result < 0 ? result : buf_addf(out, "%-12s%s\n", "sidecar:", sidecar);
    }
    if (json_to_str(json_get(json_get(host, STR("StorageOpt")), STR("size")), &size) == 0)
        (void)buf_addf(out, "%-12s%.*s bytes, by storage driver %s\n", "disk quota:", STR_ARG(size),
                       d->driver);
    else
        (void)buf_addf(out, "%-12snone%s%s\n", "disk quota:",
                       d->quotas ? "" : ", the engine keeps no limits of disk on storage driver ",
                       d->quotas ? "" : d->driver);
    return result < 0 ? err_set(e, EMSGSIZE, "the report is too long") : 0;
}
