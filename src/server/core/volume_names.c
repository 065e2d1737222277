#include "server/core/volume_names.h"

#include <errno.h>
#include <stdio.h>

#define FOREIGN "t--"

static bool is_default(const struct principal *p)
{
    return strcmp(p->tenant, TENANT_DEFAULT) == 0;
}

int volume_name_inside(const struct principal *by, struct str name, char ret[VOLUME_NAME_MAX])
{
    int n;

    if (!by->everywhere && str_starts(name, STR(FOREIGN)))
        return -ENOENT;
    if (by->everywhere || is_default(by))
        n = snprintf(ret, VOLUME_NAME_MAX, "%.*s", STR_ARG(name));
    else
        n = snprintf(ret, VOLUME_NAME_MAX, FOREIGN "%s--%.*s", by->tenant, STR_ARG(name));
    return n < VOLUME_NAME_MAX ? 0 : -EMSGSIZE;
}

bool volume_name_outside(const struct principal *by, struct str name, struct str *ret)
{
    struct str rest = name;

    *ret = name;
    if (by->everywhere)
        return true;
    if (!str_starts(name, STR(FOREIGN)))
        return is_default(by);
    rest = str_skip(rest, STR(FOREIGN).n);
    if (is_default(by) || !str_starts(rest, str_of(by->tenant)))
        return false;
    rest = str_skip(rest, strlen(by->tenant));
    if (!str_starts(rest, STR("--")))
        return false;
    *ret = str_skip(rest, 2);
    return true;
}

static int set_name(struct arena *a, const struct principal *by, size_t i, struct api_volume *v,
                    struct api_fail *f)
{
    char name[VOLUME_NAME_MAX];
    int r = volume_name_inside(by, v->claim_name, name);

    if (r == -ENOENT)
        return api_fail_set(
            f, 400, "VOLUME::INVALID_PVC_NAME",
            "volumes[%zu].pvc.claimName: names that begin with '" FOREIGN "' are reserved", i);
    if (r < 0)
        return api_fail_set(f, 400, "VOLUME::INVALID_PVC_NAME",
                            "volumes[%zu].pvc.claimName: too long for this tenant", i);
    v->claim_name = arena_str(a, str_of(name));
    return v->claim_name.p ? 0 : api_fail_memory(f);
}

int volume_names_set(struct arena *a, const struct principal *by, struct api_create *spec,
                     struct api_fail *f)
{
    int r = 0;

    for (size_t i = 0; i < spec->volumes_count && r >= 0; i++) {
        struct api_volume *v = &spec->volumes[i];

        if (v->claim_name.n)
            r = set_name(a, by, i, v, f);
        else if (v->host_path.n && !by->everywhere && !is_default(by))
            r = api_fail_set(f, 403, "FORBIDDEN",
                             "volumes[%zu].host: directories of the host are for the tenant "
                             "'" TENANT_DEFAULT "'",
                             i);
    }
    return r;
}
