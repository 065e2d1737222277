/* embedded_plan.c - turns a request into a plan, or into the reason why that is impossible. */
#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/disk.h"
#include "sandbox/oci.h"
#include "server/config/config.h"
#include "server/config/words.h"
#include "server/runtime/embedded/embedded_images.h"

/* Refuses limits that the plan has no field for. */
static int check_limits(const struct api_create *spec, struct api_fail *f)
{
    const struct api_limits *asked = &spec->limits;

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
    if (spec->persistent && asked->disk_bytes > DISK_VOLUME_BYTES_MAX)
        return api_fail_invalid(f,
                                "resourceLimits.disk: expected at most %lluTi for a persistent "
                                "sandbox, got %llu bytes",
                                (unsigned long long)(DISK_VOLUME_BYTES_MAX >> 40),
                                (unsigned long long)asked->disk_bytes);
    return 0;
}

enum { NAMES_BYTES_MAX = 512 };

/* Whether the operator allows the runtime that a request names. */
static int check_runtime(const struct embedded *em, const struct api_create *spec,
                         struct api_fail *f)
{
    const struct config *c = em->conf.config;
    AUTO_BUF(names, NAMES_BYTES_MAX);

    if (!spec->runtime.n || config_runtime_find(c, spec->runtime) ||
        (!c->runtime_of_all[0] && str_eq(spec->runtime, STR(CONFIG_RUNTIME_NATIVE))))
        return 0;
    for (size_t i = 0; i < c->runtime_count; i++)
        (void)buf_addf(&names, "%s%s", names.n ? ", " : "", c->runtimes[i].name);
    if (names.n == 0)
        return api_fail_invalid(f,
                                "extensions.runtime: this server has no runtimes to choose from; "
                                "embedded.runtimes of its configuration lists them");
    return api_fail_invalid(f, "extensions.runtime: expected one of: %s; got '%s'", names.p,
                            api_show(spec->runtime).text);
}

/* plan.runtime: what the request names, else that of all. */
static void set_runtime(const struct embedded *em, const struct api_create *spec, struct plan *p)
{
    struct str name = spec->runtime.n ? spec->runtime : str_of(em->conf.config->runtime_of_all);

    if (!str_eq(name, STR(CONFIG_RUNTIME_NATIVE)))
        (void)!str_copy(p->runtime, sizeof(p->runtime), name);
}

/* A snapshot with memory needs the runtime that saved it, and takes it without being asked. */
static int set_memory(struct embedded *em, const struct runtime_create *c, struct plan *p,
                      struct api_fail *f)
{
    auto_fd memory = c->again == RUNTIME_START || !c->spec->snapshot_id.n
                         ? -ENOENT
                         : embedded_snapshot_memory(em, c->spec->snapshot_id);

    if (memory < 0)
        return 0;
    if (!c->spec->runtime.n && config_runtime_find(em->conf.config, STR("gvisor")))
        (void)!str_copy(p->runtime, sizeof(p->runtime), STR("gvisor"));
    if (!(oci_kind_find(str_of(p->runtime))->can & OCI_CAN_MEMORY))
        return api_fail_set(f, 409, "SNAPSHOT::INVALID_RESTORE_CONFIG",
                            "snapshot '%.*s' has the memory of processes, which only the runtime "
                            "gvisor continues",
                            STR_ARG(c->spec->snapshot_id));
    p->memory = 1;
    return 0;
}

int embedded_check_abilities(struct runtime *r, const struct api_create *spec, struct api_fail *f)
{
    const struct embedded *em = container_of(r, struct embedded, base);
    struct utsname host;
    int result = check_runtime(em, spec, f);
    const char *arch =
        uname(&host) == 0 && strcmp(host.machine, "aarch64") == 0 ? "arm64" : "amd64";

    if (result < 0)
        return result;
    if (spec->os.n && !str_eq(spec->os, STR("linux")))
        return api_fail_invalid(f, "platform.os: this runtime runs linux sandboxes, not %.*s",
                                STR_ARG(spec->os));
    if (spec->arch.n && !str_eq(spec->arch, str_of(arch)))
        return api_fail_invalid(f, "platform.arch: this machine is %s, not %.*s", arch,
                                STR_ARG(spec->arch));
    return check_limits(spec, f);
}

#define DIR_PREFIX "dir:" /* of a source's base */

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

/* What a persistent sandbox writes is in a volume of that size, not in the slot. */
static void limit_files(struct embedded_plan *ret)
{
    uint64_t bytes = ret->plan.limits.disk_bytes;

    if (bytes && bytes < DISK_VOLUME_BYTES_MIN)
        bytes = DISK_VOLUME_BYTES_MIN;
    ret->files_bytes = bytes < DISK_VOLUME_BYTES_MAX ? bytes : DISK_VOLUME_BYTES_MAX;
    ret->plan.limits.disk_bytes = 0;
}

/* A single argument that contains blanks is split as a command line. */
static int add_args(struct plan *p, const struct api_create *spec, struct api_fail *f)
{
    AUTO_ARENA(arena, 8 * PLAN_TEXT_MAX);
    struct str *words = spec->entrypoint;
    size_t count = spec->entrypoint_count;

    if (count == 1 && str_find(words[0], ' ') < words[0].n &&
        words_split(&arena, spec->entrypoint[0], &words, &count) < 0)
        return api_fail_invalid(f,
                                "entrypoint: '%.*s' is not a command line: a quote is not closed",
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

/* Whether the image sets the variable. */
static bool image_has_env(const struct images_base *image, struct str name)
{
    for (size_t i = 0; image && i < image->config.env_count; i++) {
        struct str value = image->config.env[i], have;

        if (str_cut(&value, '=', &have) && str_eq(have, name))
            return true;
    }
    return false;
}

/* Variables of the image; one that no program can have is left out. */
static int add_image_env(struct plan *p, const struct api_create *spec,
                         const struct images_base *image)
{
    int r = 0;

    for (size_t i = 0; i < image->config.env_count && r != -E2BIG; i++) {
        struct str value = image->config.env[i], name;

        if (str_cut(&value, '=', &name) && value.p && name.n && !has_env(spec, name))
            r = plan_add_env(p, name, value);
    }
    return r == -E2BIG ? r : 0;
}

static int add_env(struct plan *p, const struct api_create *spec, const struct images_base *image,
                   struct api_fail *f)
{
    int r = image ? add_image_env(p, spec, image) : 0;

    for (size_t i = 0; i < ARRAY_LEN(usual_env) && r == 0; i++) {
        bool home = image && image->home.n && str_eq(usual_env[i].key, STR("HOME"));

        if (!has_env(spec, usual_env[i].key) && !image_has_env(image, usual_env[i].key))
            r = plan_add_env(p, usual_env[i].key, home ? image->home : usual_env[i].value);
    }
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
        if ((spec->volumes[i].kind == API_VOLUME_OSSFS ? plan_add_objects : plan_add_bind)(
                p, place, spec->volumes[i].read_only) < 0)
            return api_fail_invalid(f,
                                    "volumes[%zu]: at most %d volumes; their places, entrypoint "
                                    "and env take at most %d bytes together",
                                    i, PLAN_BINDS_MAX, PLAN_TEXT_MAX);
        if (spec->volumes[i].kind == API_VOLUME_PVC && !spec->volumes[i].read_only &&
            !spec->volumes[i].sub_path.n)
            plan_give_bind(p);
    }
    return 0;
}

void embedded_image_note(struct runtime *r, struct str image, struct buf *out)
{
    struct embedded *em = container_of(r, struct embedded, base);
    const struct embedded_root *root = em->conf.find_root(em->conf.user, image);
    struct image_reference local;

    if (root && root->host && !str_eq(image, STR("host")) &&
        !embedded_image_local(em, &(struct api_create){.image = image}, &local))
        (void)buf_addf(out,
                       "image %.*s is mapped to this host's /usr; configure embedded.images to map "
                       "it to an unpacked image",
                       STR_ARG(image));
}

/* The root of the request's image, and it as a source. Without one it is an image of the store. */
static int find_image(struct embedded *em, const struct api_create *spec, struct embedded_plan *ret,
                      struct api_fail *f)
{
    const struct embedded_root *root = em->conf.find_root(em->conf.user, spec->image);
    bool is_host = str_eq(spec->image, STR("host"));

    ret->source.count = 0;
    /* The host's /usr only stands in for images that are not here. */
    if ((!root || (root->host && !is_host)) && embedded_image_local(em, spec, &ret->reference)) {
        ret->root = NULL;
        return 0;
    }
    ret->root = root;
    if (!root)
        return embedded_image_check(spec, ret, f);
    if (root->host)
        (void)snprintf(ret->source.base, sizeof(ret->source.base), "host");
    else
        (void)snprintf(ret->source.base, sizeof(ret->source.base), DIR_PREFIX "%s", root->path);
    return 0;
}

/* NULL when the configuration does not have it any more. */
static const struct embedded_root *root_of(struct embedded *em, struct str base)
{
    static const struct embedded_root host = {.host = true, .dir = -EBADF};

    if (str_eq(base, STR("host")))
        return &host;
    return str_starts(base, STR(DIR_PREFIX))
               ? em->conf.find_dir(em->conf.user, str_skip(base, STR(DIR_PREFIX).n))
               : NULL;
}

/* What a sandbox was made of, to make it once more. */
static int find_again(struct embedded *em, struct str id, struct embedded_plan *ret,
                      struct api_fail *f)
{
    struct err e = {0};
    auto_fd dir = embedded_open_sandbox(em, id, &e);
    int r = dir < 0 ? dir : embedded_source_read(dir, EMBEDDED_SOURCE_FILE, &ret->source, &e);

    if (r < 0)
        return api_fail_set(f, 409, "SANDBOX::REQUEST_NOT_KEPT",
                            "what the sandbox was made of is not known any more: %s", e.msg);
    ret->root = root_of(em, str_of(ret->source.base));
    return ret->root || embedded_source_image(&ret->source, &ret->image_id) == 1
               ? 0
               : api_fail_set(f, 409, "SANDBOX::REQUEST_NOT_KEPT",
                              "the image %s is not in the table embedded.images any more; map it "
                              "again",
                              ret->source.base);
}

static int find_snapshot(struct embedded *em, struct str id, struct embedded_plan *ret,
                         struct api_fail *f)
{
    struct err e = {0};
    int r = embedded_snapshot_source(em, id, &ret->source, &e);

    if (r == -ENOENT)
        return api_fail_set(f, 409, "SNAPSHOT::INVALID_RESTORE_CONFIG",
                            "the files of snapshot '%.*s' are not there", STR_ARG(id));
    if (r < 0)
        return api_fail_set(f, 500, "SANDBOX::UNKNOWN_ERROR", "snapshot '%.*s': %s", STR_ARG(id),
                            e.msg);
    ret->root = root_of(em, str_of(ret->source.base));
    return ret->root || embedded_source_image(&ret->source, &ret->image_id) == 1
               ? 0
               : api_fail_set(f, 409, "SNAPSHOT::INVALID_RESTORE_CONFIG",
                              "snapshot '%.*s' was made of the image %s, which is not in the "
                              "table embedded.images any more; map it again",
                              STR_ARG(id), ret->source.base);
}

/* Sets its layers: those of snapshots, which are shifted, above the root or the image's. */
static int set_layers(struct embedded_plan *p, const struct images_base *image, struct api_fail *f)
{
    struct plan *plan = &p->plan;
    size_t above = p->source.count, below = image ? image->layer_count : 1;

    plan->root = p->root && p->root->host ? PLAN_ROOT_HOST : PLAN_ROOT_DIR;
    if (plan->root == PLAN_ROOT_HOST)
        below = 0;
    if (above + below > PLAN_LAYERS_MAX)
        return api_fail_invalid(f, "image and snapshots have %zu layers together, more than %d",
                                above + below, PLAN_LAYERS_MAX);
    plan->layer_count = (uint32_t)(above + below);
    memset(plan->layer_flags, PLAN_LAYER_SHIFTED, image ? above + below : above);
    if (image) {
        plan->uid = image->uid;
        plan->gid = image->gid;
    }
    return 0;
}

/* What the sandbox is made of. Afterwards the source is complete, too. */
static int find_source(struct embedded *em, const struct runtime_create *c,
                       const struct images_base *image, struct embedded_plan *ret,
                       struct api_fail *f)
{
    const struct api_create *spec = c->spec;
    int r = c->again == RUNTIME_START ? find_again(em, c->id, ret, f)
            : spec->snapshot_id.n     ? find_snapshot(em, spec->snapshot_id, ret, f)
                                      : find_image(em, spec, ret, f);

    if (r == 0 && image) {
        ret->root = NULL; /* even if a new configuration maps the name since the check */
        (void)snprintf(ret->source.base, sizeof(ret->source.base), EMBEDDED_IMAGE_PREFIX "%s",
                       image->id.text);
    }
    return r < 0 ? r : set_layers(ret, image, f);
}

int embedded_plan_make(struct embedded *em, const struct runtime_create *c,
                       const struct images_base *image, struct embedded_plan *ret,
                       struct api_fail *f)
{
    const struct api_create *spec = c->spec;
    struct str id = c->id;
    struct plan *plan = &ret->plan;
    struct str cwd = image && image->config.workdir.n ? image->config.workdir : STR("/");
    struct err e = {0};

    plan_init(plan);
    if (find_source(em, c, image, ret, f) < 0)
        return -EBADMSG;
    if (str_copy(plan->id, sizeof(plan->id), id) < 0)
        return api_fail_invalid(f, "the id is too long");
    /* The whole id would be too long for a readable host name. */
    (void)snprintf(plan->hostname, sizeof(plan->hostname), "sandbox-%.8s", plan->id);
    plan->net = em->conf.network ? PLAN_NET_BRIDGE : PLAN_NET_NONE;
    memcpy(plan->dns, em->conf.dns, sizeof(plan->dns));
    set_limits(em, &spec->limits, plan);
    set_runtime(em, spec, plan);
    if (set_memory(em, c, plan, f) < 0)
        return -EBADMSG;
    plan->lasting = spec->persistent;
    if (spec->persistent)
        limit_files(ret);
    if (add_args(plan, spec, f) < 0 || add_env(plan, spec, image, f) < 0)
        return -EBADMSG;
    if (plan_set_cwd(plan, cwd) < 0)
        return api_fail_invalid(f,
                                "the working directory '%s' is not absolute, or entrypoint, env "
                                "and it have more than %d bytes together",
                                api_show(cwd).text, PLAN_TEXT_MAX);
    if (add_binds(plan, spec, f) < 0)
        return -EBADMSG;
    return plan_check(plan, &e) < 0 ? api_fail_invalid(f, "%s", e.msg) : 0;
}
