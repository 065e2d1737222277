/* oci_bundle.c - config.json of a plan, as OCI's runtime specification describes it. */
#include <errno.h>
#include <stdio.h>

#include "base/caps.h"
#include "base/json_write.h"
#include "base/utf8.h"
#include "sandbox/oci.h"

enum {
    NUMBER_MAX = 24,
    FILES_DEFAULT = 65536,
    ROOM_DEFAULT_MIB = 64, /* of /tmp and /dev/shm */
};

static void member(struct json_writer *w, const char *key, const char *value)
{
    json_member_string(w, str_of(key), str_of(value));
}

static void array(struct json_writer *w, const char *key, const char *const *values)
{
    json_write_key(w, str_of(key));
    json_write_array(w);
    for (; *values; values++)
        json_write_string(w, str_of(*values));
    json_write_array_end(w);
}

/* --- process --- */

static void write_args(struct json_writer *w, const struct plan *p)
{
    const char *argv[PLAN_ARGS_MAX + 1], *env[PLAN_ENV_MAX + 1], *cwd;
    char uid[NUMBER_MAX], gid[NUMBER_MAX], cpu[NUMBER_MAX], memory[NUMBER_MAX];

    plan_strings(p, argv, env, &cwd);
    (void)snprintf(uid, sizeof(uid), "%u", p->uid);
    (void)snprintf(gid, sizeof(gid), "%u", p->gid);
    (void)snprintf(cpu, sizeof(cpu), "%u", p->limits.cpu_millicores);
    (void)snprintf(memory, sizeof(memory), "%u",
                   (unsigned)min_size(p->limits.memory_bytes >> 20, UINT32_MAX));
    const char *const options[] = {OCI_EXECD_PLACE, "--init", "--channel", "1", "--uid",        uid,
                                   "--gid",         gid,      "--cwd",     cwd, "--cpu-millis", cpu,
                                   "--memory-mib",  memory,   "--"};

    json_write_key(w, STR("args"));
    json_write_array(w);
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        json_write_string(w, str_of(options[i]));
    for (size_t i = 0; i < p->arg_count; i++)
        json_write_string(w, str_of(argv[i]));
    json_write_array_end(w);
    array(w, "env", env);
    member(w, "cwd", "/");
}

/* Those of caps_init; execd limits its children to caps_sandbox. */
static void write_capabilities(struct json_writer *w)
{
    static const char *const names[] = {
        "CAP_CHOWN",     "CAP_DAC_OVERRIDE", "CAP_FOWNER",  "CAP_FSETID",  "CAP_KILL",
        "CAP_SETGID",    "CAP_SETUID",       "CAP_SETFCAP", "CAP_SETPCAP", "CAP_SYS_ADMIN",
        "CAP_NET_ADMIN", "CAP_SYS_CHROOT",   NULL,
    };

    json_write_key(w, STR("capabilities"));
    json_write_object(w);
    array(w, "bounding", names);
    array(w, "effective", names);
    array(w, "permitted", names);
    json_write_object_end(w);
}

static void write_rlimit(struct json_writer *w, const char *type, uint64_t value)
{
    json_write_object(w);
    member(w, "type", type);
    json_member_u64(w, STR("hard"), value);
    json_member_u64(w, STR("soft"), value);
    json_write_object_end(w);
}

static void write_process(struct json_writer *w, const struct plan *p)
{
    json_write_key(w, STR("process"));
    json_write_object(w);
    json_member_bool(w, STR("terminal"), false);
    json_write_key(w, STR("user"));
    json_write_object(w);
    json_member_u64(w, STR("uid"), 0);
    json_member_u64(w, STR("gid"), 0);
    json_write_object_end(w);
    write_args(w, p);
    write_capabilities(w);
    json_write_key(w, STR("rlimits"));
    json_write_array(w);
    write_rlimit(w, "RLIMIT_NOFILE", p->limits.open_files ? p->limits.open_files : FILES_DEFAULT);
    write_rlimit(w, "RLIMIT_CORE", 0);
    json_write_array_end(w);
    json_member_bool(w, STR("noNewPrivileges"), true);
    json_write_object_end(w);
}

/* --- mounts --- */

static void write_mount(struct json_writer *w, const char *place, const char *type,
                        const char *source, const char *const *options)
{
    json_write_object(w);
    member(w, "destination", place);
    member(w, "type", type);
    member(w, "source", source);
    array(w, "options", options);
    json_write_object_end(w);
}

static void write_room(struct json_writer *w, const char *place, uint64_t bytes, bool no_exec)
{
    char size[NUMBER_MAX + 8];
    const char *const options[] = {"nosuid", "nodev", "mode=1777", size, no_exec ? "noexec" : NULL,
                                   NULL};

    (void)snprintf(size, sizeof(size), "size=%llu",
                   (unsigned long long)(bytes ? bytes : (uint64_t)ROOM_DEFAULT_MIB << 20));
    write_mount(w, place, "tmpfs", "tmpfs", options);
}

static void write_mounts(struct json_writer *w, const struct plan *p)
{
    static const char *const quiet[] = {"nosuid", "nodev", "noexec", NULL};
    static const char *const quiet_ro[] = {"nosuid", "nodev", "noexec", "ro", NULL};
    static const char *const dev[] = {"nosuid", "strictatime", "mode=755", "size=65536k", NULL};
    static const char *const pts[] = {"nosuid",        "noexec",    "newinstance",
                                      "ptmxmode=0666", "mode=0620", NULL};
    static const char *const program[] = {"bind", "ro", "nosuid", "nodev", NULL};

    json_write_key(w, STR("mounts"));
    json_write_array(w);
    write_mount(w, "/proc", "proc", "proc", quiet);
    write_mount(w, "/dev", "tmpfs", "tmpfs", dev);
    write_mount(w, "/dev/pts", "devpts", "devpts", pts);
    write_room(w, "/dev/shm", p->limits.shm_bytes, true);
    write_mount(w, "/dev/mqueue", "mqueue", "mqueue", quiet);
    write_mount(w, "/sys", "sysfs", "sysfs", quiet_ro);
    write_room(w, "/tmp", p->limits.tmp_bytes, false);
    write_mount(w, OCI_EXECD_PLACE, "bind", "/execd", program);
    json_write_array_end(w);
}

/* --- linux --- */

static void write_mapping(struct json_writer *w, const char *key, uint32_t first)
{
    json_write_key(w, str_of(key));
    json_write_array(w);
    json_write_object(w);
    json_member_u64(w, STR("containerID"), 0);
    json_member_u64(w, STR("hostID"), first);
    json_member_u64(w, STR("size"), PLAN_UID_RANGE);
    json_write_object_end(w);
    json_write_array_end(w);
}

/* The network namespace is the slot's, which the guard is in. */
static void write_namespaces(struct json_writer *w)
{
    static const char *const types[] = {"pid", "ipc", "uts", "mount", "user"};

    json_write_key(w, STR("namespaces"));
    json_write_array(w);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        json_write_object(w);
        member(w, "type", types[i]);
        json_write_object_end(w);
    }
    json_write_object(w);
    member(w, "type", "network");
    member(w, "path", "/proc/1/ns/net");
    json_write_object_end(w);
    json_write_array_end(w);
}

static void write_linux(struct json_writer *w, uint32_t uid_first)
{
    static const char *const masked[] = {"/proc/kcore", "/proc/keys",    "/proc/timer_list",
                                         "/proc/acpi",  "/sys/firmware", NULL};
    static const char *const read_only[] = {
        "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", NULL};

    json_write_key(w, STR("linux"));
    json_write_object(w);
    write_mapping(w, "uidMappings", uid_first);
    write_mapping(w, "gidMappings", uid_first);
    write_namespaces(w);
    array(w, "maskedPaths", masked);
    array(w, "readonlyPaths", read_only);
    json_write_object_end(w);
}

/* JSON has no other text, and what is not UTF-8 would arrive changed. */
static int check_text(const struct plan *p, struct err *e)
{
    struct str text = str_make(p->text, p->text_bytes);

    return utf8_valid(text) ? 0
                            : err_set(e, EINVAL,
                                      "entrypoint and env must be UTF-8 for an OCI "
                                      "runtime");
}

int oci_bundle_write(const struct oci_bundle *b, struct buf *out, struct err *e)
{
    const struct plan *p = b->plan;
    struct json_writer w;
    int r = check_text(p, e);

    if (r < 0)
        return r;
    json_write_begin(&w, out);
    json_write_object(&w);
    member(&w, "ociVersion", "1.0.2");
    write_process(&w, p);
    json_write_key(&w, STR("root"));
    json_write_object(&w);
    member(&w, "path", "/rootfs");
    json_member_bool(&w, STR("readonly"), false);
    json_write_object_end(&w);
    member(&w, "hostname", p->hostname[0] ? p->hostname : p->id);
    write_mounts(&w, p);
    write_linux(&w, b->uid_first);
    json_write_object_end(&w);
    r = json_write_end(&w);
    return r < 0 ? err_sys(e, -r, "write config.json") : 0;
}
