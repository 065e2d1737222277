#include "api/copy.h"

#include <assert.h>
#include <errno.h>

/* Members that are texts, by offset. */
#define CREATE_AT(field) offsetof(struct api_create, field)
static const size_t create_texts[] = {
    CREATE_AT(image),         CREATE_AT(auth_user),
    CREATE_AT(auth_password), CREATE_AT(os),
    CREATE_AT(arch),          CREATE_AT(snapshot_id),
    CREATE_AT(pool_ref),      CREATE_AT(network_policy_json),
    CREATE_AT(runtime),       CREATE_AT(secrets_from),
    CREATE_AT(idempotency),
};

#define VOLUME_AT(field) offsetof(struct api_volume, field)
static const size_t volume_texts[] = {
    VOLUME_AT(name),         VOLUME_AT(mount_path), VOLUME_AT(sub_path),  VOLUME_AT(host_path),
    VOLUME_AT(claim_name),   VOLUME_AT(bucket),     VOLUME_AT(endpoint),  VOLUME_AT(key_id),
    VOLUME_AT(key_secret),   VOLUME_AT(options),    VOLUME_AT(size_text), VOLUME_AT(storage_class),
    VOLUME_AT(access_modes),
};

static const size_t pair_texts[] = {offsetof(struct json_pair, key),
                                    offsetof(struct json_pair, value)};
static const size_t secret_texts[] = {offsetof(struct api_secret, name),
                                      offsetof(struct api_secret, value)};
static const size_t only_text[] = {0};

/* When a struct gets a new pointer member: copy it here, then change the size. */
static_assert(sizeof(struct api_create) == 11 * sizeof(struct str) + 168,
              "is every member copied?");
static_assert(sizeof(struct api_volume) == 13 * sizeof(struct str) + 24, "is every member copied?");

/* Replaces the texts at these offsets of the struct by copies. No text (NULL) stays none. */
static int copy_texts(struct arena *a, void *in, const size_t *offsets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct str *text = (struct str *)((char *)in + offsets[i]);

        if (!text->p)
            continue;
        *text = arena_str(a, *text);
        if (!text->p)
            return -ENOMEM;
    }
    return 0;
}

/* A copy of the array and of the texts of its elements; NULL past the limit, or when it is empty.
 */
static void *copy_array(struct arena *a, const void *from, size_t count, size_t size,
                        const size_t *offsets, size_t offset_count)
{
    char *to = count ? arena_zalloc_array(a, count, size) : NULL;

    if (!to)
        return NULL;
    memcpy(to, from, count * size);
    for (size_t i = 0; i < count; i++)
        if (copy_texts(a, to + i * size, offsets, offset_count) < 0)
            return NULL;
    return to;
}

#define COPY_ARRAY(a, from, count, offsets)                                                        \
    copy_array((a), (from), (count), sizeof(*(from)), (offsets), ARRAY_LEN(offsets))

static int copy_secrets(struct arena *a, const struct api_secrets *from, struct api_secrets *ret)
{
    struct api_secrets to = {COPY_ARRAY(a, from->rows, from->count, secret_texts), from->count};

    if (from->count && !to.rows)
        return -ENOMEM;
    for (size_t i = 0; i < to.count; i++) {
        struct api_secret *row = &to.rows[i];

        row->hosts = COPY_ARRAY(a, row->hosts, row->hosts_count, only_text);
        if (row->hosts_count && !row->hosts)
            return -ENOMEM;
    }
    *ret = to;
    return 0;
}

int api_create_copy(struct arena *a, const struct api_create *from, struct api_create *ret)
{
    struct api_create to = *from;

    if (copy_texts(a, &to, create_texts, ARRAY_LEN(create_texts)) < 0)
        return -ENOMEM;
    to.env = COPY_ARRAY(a, from->env, from->env_count, pair_texts);
    to.metadata = COPY_ARRAY(a, from->metadata, from->metadata_count, pair_texts);
    to.limit_texts = COPY_ARRAY(a, from->limit_texts, from->limit_texts_count, pair_texts);
    to.extensions = COPY_ARRAY(a, from->extensions, from->extensions_count, pair_texts);
    to.entrypoint = COPY_ARRAY(a, from->entrypoint, from->entrypoint_count, only_text);
    to.volumes = COPY_ARRAY(a, from->volumes, from->volumes_count, volume_texts);
    if ((from->env_count && !to.env) || (from->metadata_count && !to.metadata) ||
        (from->limit_texts_count && !to.limit_texts) ||
        (from->extensions_count && !to.extensions) || (from->entrypoint_count && !to.entrypoint) ||
        (from->volumes_count && !to.volumes))
        return -ENOMEM;
    if (copy_secrets(a, &from->secrets, &to.secrets) < 0)
        return -ENOMEM;
    *ret = to;
    return 0;
}

int api_patch_copy(struct arena *a, const struct api_patch *from, struct api_patch *ret)
{
    struct api_patch to = {COPY_ARRAY(a, from->pairs, from->count, pair_texts), from->count};

    if (from->count && !to.pairs)
        return -ENOMEM;
    *ret = to;
    return 0;
}
