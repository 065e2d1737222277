/* embedded_plan.c - turns a request into a plan, or into the reason why that is impossible. */
#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "base/arena.h"
#include "base/mem.h"
#include "sandbox/disk.h"
#include "server/config/words.h"
#include "server/runtime/embedded/embedded_internal.h"

/* Refuses limits that the plan has no field for. */
static int check_limits(const struct api_limits *asked, struct api_fail *f)
{
    if (asked->cpu_millicores > PLAN_MILLICORES_MAX)
        return api_fail_invalid(f, "resourceLimits.cpu: expected at most %d cores, got %llu.%03llu",
                                PLAN_MILLICORES_MAX / 1000,
                                (unsigned long long)asked->cpu_millicores / 1000,
                                (unsigned long long)asked->cpu_millicores % 1000);
    if (asked->memory_bytes > PLAN_BYTES_MAX)
        return api_fail_invalid(f, "resourceLimits.memory: expected at most 1024Ti, got %llu bytes",
                                (unsigned long long)asked->memory_bytes);
    if (asked->disk_bytes > PLAN_BYTES_MAX)
        return api_fail_invalid(f, "resourceLimits.disk: expected at most 1024Ti, got %llu bytes",
                                (unsigned long long)asked->disk_bytes);
    if (asked->disk_bytes && asked->disk_bytes < DISK_BYTES_MIN)
        return api_fail_invalid(f, "resourceLimits.disk: expected at least %dMi, got %llu bytes",
                                DISK_BYTES_MIN >> 20, (unsigned long long)asked->disk_bytes);
    return 0;
}

int embedded_check_source(struct runtime *r UNUSED, const struct api_create *spec,
                          struct api_fail *f)
{
    if (spec->pool_ref.n)
        return api_fail_set(f, 400, "SANDBOX::UNSUPPORTED_POOL_REF",
                            "extensions.poolRef: this runtime has no pools; create without it");
    if (spec->snapshot_id.n)
        return api_fail_set(f, 404, "SNAPSHOT::NOT_FOUND", "there is no snapshot '%.*s'",
                            STR_ARG(spec->snapshot_id));
    return 0;
}

int embedded_check_abilities(struct runtime *r UNUSED, const struct api_create *spec,
                             struct api_fail *f)
{
    struct utsname host;
    const char *arch =
        uname(&host) == 0 && strcmp(host.machine, "aarch64") == 0 ? "arm64" : "amd64";

    if (spec->os.n && !str_eq(spec->os, STR("linux")))
        return api_fail_invalid(f, "platform.os: this runtime runs linux sandboxes, not %.*s",
                                STR_ARG(spec->os));
    if (spec->arch.n && !str_eq(spec->arch, str_of(arch)))
        return api_fail_invalid(f, "platform.arch: this machine is %s, not %.*s", arch,
                                STR_ARG(spec->arch));
    if (spec->credential_proxy)
        return api_fail_invalid(f, "credentialProxy: this runtime has no credential proxy");
    if (spec->network_policy)
        return api_fail_invalid(f, "networkPolicy: this runtime cannot enforce network policies; "
                                   "create without one, or set embedded.network = \"none\"");
    if (spec->hooks)
        return api_fail_invalid(f,
                                "lifecycle: this runtime has no hooks; let the entrypoint do it");
    if (spec->limits.gpus)
        return api_fail_invalid(f, "resourceLimits.gpu: this runtime has no GPUs to give");
    return check_limits(&spec->limits, f);
}

enum {
    TMP_BYTES_MIN = 64 << 20,
    TMP_BYTES_USUAL = 1 << 30, /* used when memory is not limited */
};

static void set_limits(const struct embedded *em, const struct api_limits *asked, struct plan *p)
{
    const struct api_limits *usual = &em->conf.limits;
    struct plan_limits *l = &p->limits;

    l->memory_bytes = asked->memory_bytes ? asked->memory_bytes : usual->memory_bytes;
    l->disk_bytes = asked->disk_bytes ? asked->disk_bytes : usual->disk_bytes;
    l->cpu_millicores = asked->cpu_millicores ? asked->cpu_millicores : usual->cpu_millicores;
    l->pids = em->conf.pids;
    /* /tmp is a tmpfs, which counts as memory: its files may take half of the limit. */
    l->tmp_bytes = l->memory_bytes ? l->memory_bytes / 2 : TMP_BYTES_USUAL;
    if (l->tmp_bytes < TMP_BYTES_MIN)
        l->tmp_bytes = TMP_BYTES_MIN;
}

/* A single argument that contains blanks is split as a command line. */
static int add_args(struct plan *p, const struct api_create *spec, struct api_fail *f)
{
    AUTO_ARENA(arena, 8 * PLAN_TEXT_MAX);
    struct str *words = spec->entrypoint;
    size_t count = spec->entrypoint_count;

    if (count == 1 && str_find(words[0], ' ') < words[0].n &&
        words_split(&arena, spec->entrypoint[0], &words, &count) < 0)
        return api_fail_invalid(f, "entrypoint: '%.*s' is no command line: a quote is not closed",
                                STR_ARG(spec->entrypoint[0]));
    for (size_t i = 0; i < count; i++)
        if (plan_add_arg(p, words[i]) < 0)
            return api_fail_set(f, 400, "DOCKER::INVALID_ENTRYPOINT",
                                "entrypoint: more than %d arguments, more than %d bytes in one or "
                                "%d in all, or a NUL",
                                PLAN_ARGS_MAX, PLAN_STRING_MAX - 1, PLAN_TEXT_MAX);
    return count ? 0
                 : api_fail_set(f, 400, "DOCKER::INVALID_ENTRYPOINT", "entrypoint: it is empty");
}

/* Go's installer and the official Go images use this directory. */
#define PATH_OF_GO "/usr/local/go/bin"

/* Variables that programs expect; those of the request take precedence. */
static const struct json_pair usual_env[] = {
    {STR_INIT("PATH"),
     STR_INIT("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" PATH_OF_GO)},
    {STR_INIT("HOME"), STR_INIT("/root")                                                 },
};

static bool has_env(const struct api_create *spec, struct str name)
{
    for (size_t i = 0; i < spec->env_count; i++)
        if (str_eq(spec->env[i].key, name))
            return true;
    return false;
}

static int add_env(struct plan *p, const struct api_create *spec, struct api_fail *f)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(usual_env) && r == 0; i++)
        if (!has_env(spec, usual_env[i].key))
            r = plan_add_env(p, usual_env[i].key, usual_env[i].value);
    for (size_t i = 0; i < spec->env_count && r == 0; i++)
        r = plan_add_env(p, spec->env[i].key, spec->env[i].value);
    if (r == 0)
        return 0;
    return api_fail_invalid(f,
                            r == -E2BIG ? "env: more than this runtime can hand over: %d "
                                          "variables, %d bytes each, and %d with the entrypoint"
                                        : "env: a name is empty or holds a =, or there is a NUL",
                            PLAN_ENV_MAX, PLAN_STRING_MAX - 1, PLAN_TEXT_MAX);
}

static int add_binds(struct plan *p, const struct api_create *spec, struct api_fail *f)
{
    for (size_t i = 0; i < spec->volumes_count; i++) {
        struct str place = spec->volumes[i].mount_path;

        if (p->root == PLAN_ROOT_HOST && str_eq(place, STR("/usr")))
            return api_fail_set(f, 400, "VOLUME::INVALID_MOUNT_PATH",
                                "volumes[%zu].mountPath: the image \"host\" has its own /usr", i);
        if (plan_add_bind(p, place, spec->volumes[i].read_only) < 0)
            return api_fail_invalid(f,
                                    "volumes[%zu]: at most %d volumes; their places, entrypoint "
                                    "and env take at most %d bytes together",
                                    i, PLAN_BINDS_MAX, PLAN_TEXT_MAX);
    }
    return 0;
}

void embedded_image_note(struct runtime *r, struct str image, struct buf *out)
{
    const struct embedded *em = container_of(r, struct embedded, base);
    const struct embedded_root *root = em->conf.find_root(em->conf.user, image);

    if (root && root->host && !str_eq(image, STR("host")))
        (void)buf_addf(out,
                       "image %.*s is mapped to this host's /usr; configure embedded.images to map "
                       "it to an unpacked image",
                       STR_ARG(image));
}

int embedded_plan(const struct embedded *em, struct str id, const struct api_create *spec,
                  struct plan *ret_plan, const struct embedded_root **ret_root, struct api_fail *f)
{
    const struct embedded_root *root;
    struct err e = {0};

    root = em->conf.find_root(em->conf.user, spec->image);
    if (!root)
        return api_fail_invalid(f,
                                "image.uri: there is no image '%.*s' here; use \"host\", or map "
                                "the name in the table embedded.images of the server's "
                                "configuration",
                                STR_ARG(spec->image));
    plan_init(ret_plan);
    if (str_copy(ret_plan->id, sizeof(ret_plan->id), id) < 0)
        return api_fail_invalid(f, "the id is too long");
    /* The whole id would be too long for a readable host name. */
    (void)snprintf(ret_plan->hostname, sizeof(ret_plan->hostname), "sandbox-%.8s", ret_plan->id);
    ret_plan->root = root->host ? PLAN_ROOT_HOST : PLAN_ROOT_DIR;
    ret_plan->layer_count = root->host ? 0 : 1;
    ret_plan->net = em->conf.network ? PLAN_NET_BRIDGE : PLAN_NET_NONE;
    memcpy(ret_plan->dns, em->conf.dns, sizeof(ret_plan->dns));
    set_limits(em, &spec->limits, ret_plan);
    if (add_args(ret_plan, spec, f) < 0 || add_env(ret_plan, spec, f) < 0)
        return -EBADMSG;
    if (plan_set_cwd(ret_plan, STR("/")) < 0)
        return api_fail_invalid(f, "entrypoint and env have more than %d bytes together",
                                PLAN_TEXT_MAX);
    if (add_binds(ret_plan, spec, f) < 0)
        return -EBADMSG;
    if (plan_check(ret_plan, &e) < 0)
        return api_fail_invalid(f, "%s", e.msg);
    *ret_root = root;
    return 0;
}
