#include "sandbox/oci.h"

#include <errno.h>
#include <unistd.h>

/* gVisor: files are shared with snapshots and volumes, so its caches must not keep what it wrote;
 * our overlay is the writable layer; control groups are entered by the guard; the network namespace
 * is the slot's, so gofers need none of their own. */
#define RUNSC_ARGS                                                                                 \
    {                                                                                              \
        "--ignore-cgroups", "--overlay2=none", "--file-access=shared", "--platform=systrap",       \
            "--host-settings=ignore", "--gofer-network-namespace=host",                            \
            "--restore-spec-validation=ignore", "%net"                                             \
    }

static const struct oci_kind kinds[] = {
    {"gvisor",      "runsc",        OCI_CAN_MEMORY, RUNSC_ARGS},
    {"kata",        "kata-runtime", 0,              {NULL}    },
    {"firecracker", "kata-fc",      0,              {NULL}    },
    {"runc",        "runc",         0,              {NULL}    },
    {"crun",        "crun",         0,              {NULL}    },
};
static const struct oci_kind other_kind = {"", "", 0, {NULL}};

const struct oci_kind *oci_kind_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (str_eq(name, str_of(kinds[i].name)))
            return &kinds[i];
    return &other_kind;
}

static int split(struct oci_runtime *r, struct str rest, struct err *e)
{
    size_t used = 0;
    struct str word;

    while (str_cut(&rest, ' ', &word)) {
        if (word.n == 0)
            continue;
        if (r->arg_count + 1 >= OCI_ARGS_MAX || used + word.n + 1 > sizeof(r->command))
            return err_set(e, E2BIG, "runtime '%s': its command is too long", r->name);
        memcpy(r->command + used, word.p, word.n);
        r->args[r->arg_count++] = r->command + used;
        used += word.n + 1;
    }
    if (r->arg_count == 0 || r->args[0][0] != '/')
        return err_set(e, EINVAL, "runtime '%s': expected the absolute path of a program", r->name);
    return 0;
}

int oci_runtime_parse(const char *text, struct oci_runtime *ret, struct err *e)
{
    struct str rest = str_of(text), name;
    int r;

    *ret = (struct oci_runtime){0};
    if (!str_cut(&rest, '=', &name) || !rest.p || !plan_runtime_is_valid(name) || name.n == 0 ||
        str_copy(ret->name, sizeof(ret->name), name) < 0)
        return err_set(e, EINVAL, "'%s' is not NAME=PATH, with a name of a-z, 0-9 and '-'", text);
    ret->kind = oci_kind_find(name);
    r = split(ret, rest, e);
    if (r == 0 && access(ret->args[0], X_OK) < 0)
        r = err_sys(e, errno, "runtime '%s': %s", ret->name, ret->args[0]);
    return r;
}
