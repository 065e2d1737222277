/* A body of POST /sandboxes: what is taken keeps what create.h promises, what is refused has an
 * answer. */
#include <string.h>

#include "api/create.h"
#include "api/metadata.h"
#include "base/json.h"
#include "fuzz.h"

enum { ROOM = 4 << 20, TIMEOUT_S_MAX = 86400 };

static bool is_c_string(struct str s)
{
    return s.n == 0 || str_find(s, '\0') == s.n;
}

static void check_strings(const struct api_create *c)
{
    const struct str strings[] = {c->image, c->auth_user, c->auth_password, c->snapshot_id,
                                  c->os,    c->arch,      c->pool_ref,      c->network_policy_json};

    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        FUZZ_CHECK(is_c_string(strings[i]));
    for (size_t i = 0; i < c->entrypoint_count; i++)
        FUZZ_CHECK(is_c_string(c->entrypoint[i]));
    for (size_t i = 0; i < c->env_count; i++) {
        FUZZ_CHECK(c->env[i].key.n && str_find(c->env[i].key, '=') == c->env[i].key.n);
        FUZZ_CHECK(c->env[i].value.p);
        FUZZ_CHECK(is_c_string(c->env[i].key) && is_c_string(c->env[i].value));
    }
    for (size_t i = 0; i < c->metadata_count; i++)
        FUZZ_CHECK(api_is_label_key(c->metadata[i].key) &&
                   api_is_label_value(c->metadata[i].value));
}

static void check_volumes(const struct api_create *c)
{
    for (size_t i = 0; i < c->volumes_count; i++) {
        const struct api_volume *v = &c->volumes[i];

        FUZZ_CHECK(v->name.n && v->mount_path.n > 1 && v->mount_path.p[0] == '/');
        FUZZ_CHECK(v->sub_path.n == 0 || v->sub_path.p[0] != '/');
        FUZZ_CHECK(is_c_string(v->mount_path) && is_c_string(v->sub_path));
        if (v->kind == API_VOLUME_HOST) {
            FUZZ_CHECK(v->host_path.n && v->host_path.p[0] == '/');
            FUZZ_CHECK(str_find_str(v->host_path, STR("/../")) == v->host_path.n);
            FUZZ_CHECK(!str_ends(v->host_path, STR("/..")));
            FUZZ_CHECK(str_find_str(v->host_path, STR("//")) == v->host_path.n);
        }
        if (v->kind == API_VOLUME_PVC)
            FUZZ_CHECK(v->claim_name.n);
    }
}

static void check_taken(struct arena *a, const struct api_create *c)
{
    struct json *policy;

    FUZZ_CHECK(c->timeout_s == 0 ||
               (c->timeout_s >= API_TIMEOUT_S_MIN && c->timeout_s <= TIMEOUT_S_MAX));
    FUZZ_CHECK(c->pool_ref.n || (c->image.n > 0) != (c->snapshot_id.n > 0));
    FUZZ_CHECK(c->pool_ref.n || c->entrypoint_count > 0);
    FUZZ_CHECK(!c->credential_proxy || (c->network_policy && !c->pool_ref.n));
    FUZZ_CHECK(c->network_policy == (c->network_policy_json.n > 0));
    FUZZ_CHECK(c->entrypoint_count <= API_ENTRYPOINT_MAX && c->env_count <= API_ENV_MAX);
    FUZZ_CHECK(c->metadata_count <= API_METADATA_MAX && c->volumes_count <= API_VOLUMES_MAX);
    if (c->network_policy)
        FUZZ_CHECK(json_parse(a, c->network_policy_json, NULL, &policy, NULL) == 0);
    check_strings(c);
    check_volumes(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_ARENA(a, ROOM);
    struct api_fail f = {0};
    struct api_create c;
    int r = api_create_parse(&a, STR("application/json"), str_make((const char *)data, size),
                             &(struct api_create_host){.timeout_s_max = TIMEOUT_S_MAX}, &c, &f);

    if (r == 0) {
        AUTO_ARENA(policy, ROOM);

        check_taken(&policy, &c);
        return 0;
    }
    FUZZ_CHECK((f.status == 400 || f.status == 413) && f.code && f.message[0]);
    FUZZ_CHECK(memchr(f.message, '\0', sizeof(f.message)));
    return 0;
}
