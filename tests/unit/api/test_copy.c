#include "api/copy.h"

#include "api/requests.h"

enum { ROOM = 1 << 20 };

#define TEXT(a, s) arena_str((a), STR(s))

static struct json_pair *one_pair(struct arena *a, struct str key, struct str value)
{
    struct json_pair *p = arena_new(a, struct json_pair);

    *p = (struct json_pair){arena_str(a, key), value.p ? arena_str(a, value) : STR_NONE};
    return p;
}

/* Every member has a value of its own. */
static struct api_create filled(struct arena *a)
{
    struct str *entrypoint = arena_new_array(a, struct str, 2);
    struct api_volume *volume = arena_new(a, struct api_volume);

    entrypoint[0] = TEXT(a, "sleep");
    entrypoint[1] = TEXT(a, "inf");
    *volume = (struct api_volume){
        .name = TEXT(a, "vol"),
        .mount_path = TEXT(a, "/mnt"),
        .sub_path = TEXT(a, "sub"),
        .read_only = true,
        .kind = API_VOLUME_PVC,
        .host_path = TEXT(a, "/host"),
        .claim_name = TEXT(a, "claim"),
        .delete_with_sandbox = true,
    };
    return (struct api_create){
        .image = TEXT(a, "image"),
        .auth_user = TEXT(a, "user"),
        .auth_password = TEXT(a, "password"),
        .snapshot_id = TEXT(a, "snapshot"),
        .os = TEXT(a, "linux"),
        .arch = TEXT(a, "arm64"),
        .timeout_s = 60,
        .limits = {.memory_bytes = 1, .disk_bytes = 2, .cpu_millicores = 3, .gpus = 4},
        .env = one_pair(a, STR("ENV"), STR("value")),
        .env_count = 1,
        .metadata = one_pair(a, STR("label"), STR("text")),
        .metadata_count = 1,
        .entrypoint = entrypoint,
        .entrypoint_count = 2,
        .secure_access = true,
        .network_policy_json = TEXT(a, "{}"),
        .volumes = volume,
        .volumes_count = 1,
        .pool_ref = TEXT(a, "pool"),
        .renew_extend_s = 300,
    };
}

static int copy_and_forget(struct arena *to, struct api_create *ret)
{
    AUTO_ARENA(from, ROOM);
    struct api_create spec = filled(&from);

    return api_create_copy(to, &spec, ret); /* ASan finds what still points into `from` */
}

TEST(copy, of_a_create_needs_nothing_of_the_original)
{
    AUTO_ARENA(a, ROOM);
    struct api_create c;

    CHECK_EQ(copy_and_forget(&a, &c), 0);
    CHECK_STR(c.image.p, "image");
    CHECK_STR(c.auth_user.p, "user");
    CHECK_STR(c.auth_password.p, "password");
    CHECK_STR(c.snapshot_id.p, "snapshot");
    CHECK_STR(c.os.p, "linux");
    CHECK_STR(c.arch.p, "arm64");
    CHECK_STR(c.network_policy_json.p, "{}");
    CHECK_STR(c.pool_ref.p, "pool");
    CHECK_STR(c.env[0].key.p, "ENV");
    CHECK_STR(c.env[0].value.p, "value");
    CHECK_STR(c.metadata[0].key.p, "label");
    CHECK_STR(c.metadata[0].value.p, "text");
    CHECK_STR(c.entrypoint[0].p, "sleep");
    CHECK_STR(c.entrypoint[1].p, "inf");
    CHECK_EQ(c.entrypoint_count, 2);
    CHECK_STR(c.volumes[0].name.p, "vol");
    CHECK_STR(c.volumes[0].mount_path.p, "/mnt");
    CHECK_STR(c.volumes[0].sub_path.p, "sub");
    CHECK_STR(c.volumes[0].host_path.p, "/host");
    CHECK_STR(c.volumes[0].claim_name.p, "claim");
    CHECK(c.volumes[0].read_only && c.volumes[0].delete_with_sandbox);
    CHECK_EQ(c.limits.cpu_millicores, 3);
    CHECK(c.secure_access);
    CHECK_EQ(c.timeout_s, 60);
    CHECK_EQ(c.renew_extend_s, 300);
}

TEST(copy, of_nothing_is_nothing)
{
    AUTO_ARENA(a, ROOM);
    struct api_create none = {0}, c = {.env_count = 1};
    struct api_patch no_pairs = {0}, p = {.count = 1};

    CHECK_EQ(api_create_copy(&a, &none, &c), 0);
    CHECK_EQ(c.env_count + c.metadata_count + c.entrypoint_count + c.volumes_count, 0);
    CHECK(!c.image.p && !c.env && !c.volumes);
    CHECK_EQ(api_patch_copy(&a, &no_pairs, &p), 0);
    CHECK_EQ(p.count, 0);
}

TEST(copy, of_a_patch_keeps_what_deletes)
{
    AUTO_ARENA(from, ROOM);
    AUTO_ARENA(to, ROOM);
    struct api_patch patch = {one_pair(&from, STR("gone"), STR_NONE), 1}, p;

    CHECK_EQ(api_patch_copy(&to, &patch, &p), 0);
    arena_done(&from);
    CHECK_EQ(p.count, 1);
    CHECK_STR(p.pairs[0].key.p, "gone");
    CHECK(!p.pairs[0].value.p);
}

TEST(copy, stops_at_the_limit_of_the_arena_whatever_member_reaches_it)
{
    AUTO_ARENA(from, ROOM);
    struct api_create spec = filled(&from), c = {.timeout_s = 7};
    char *large = arena_zalloc(&from, ROOM / 2);
    struct str *const texts[] = {&spec.image,           &spec.env[0].value,    &spec.entrypoint[1],
                                 &spec.metadata[0].key, &spec.volumes[0].name, &spec.pool_ref};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        AUTO_ARENA(to, ROOM / 4);
        struct str before = *texts[i];

        *texts[i] = str_make(large, ROOM / 2);
        CHECK_EQ(api_create_copy(&to, &spec, &c), -ENOMEM);
        CHECK_EQ(c.timeout_s, 7);
        *texts[i] = before;
    }
}
