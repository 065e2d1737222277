#include "image/manifest.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"

/* --- media types --- */

#define OCI    "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."

static const struct media_row {
    const char *type;
    enum image_media media;
} media_rows[] = {
    {OCI "manifest.v1+json",                      IMAGE_MEDIA_MANIFEST     },
    {OCI "index.v1+json",                         IMAGE_MEDIA_INDEX        },
    {OCI "config.v1+json",                        IMAGE_MEDIA_CONFIG       },
    {OCI "layer.v1.tar",                          IMAGE_MEDIA_LAYER_TAR    },
    {OCI "layer.v1.tar+gzip",                     IMAGE_MEDIA_LAYER_GZIP   },
    {OCI "layer.v1.tar+zstd",                     IMAGE_MEDIA_LAYER_ZSTD   },
    {OCI "layer.nondistributable.v1.tar",         IMAGE_MEDIA_LAYER_FOREIGN},
    {OCI "layer.nondistributable.v1.tar+gzip",    IMAGE_MEDIA_LAYER_FOREIGN},
    {OCI "layer.nondistributable.v1.tar+zstd",    IMAGE_MEDIA_LAYER_FOREIGN},
    {DOCKER "distribution.manifest.v2+json",      IMAGE_MEDIA_MANIFEST     },
    {DOCKER "distribution.manifest.list.v2+json", IMAGE_MEDIA_INDEX        },
    {DOCKER "distribution.manifest.v1+json",      IMAGE_MEDIA_SCHEMA1      },
    {DOCKER "distribution.manifest.v1+prettyjws", IMAGE_MEDIA_SCHEMA1      },
    {DOCKER "container.image.v1+json",            IMAGE_MEDIA_CONFIG       },
    {DOCKER "image.rootfs.diff.tar",              IMAGE_MEDIA_LAYER_TAR    },
    {DOCKER "image.rootfs.diff.tar.gzip",         IMAGE_MEDIA_LAYER_GZIP   },
    {DOCKER "image.rootfs.diff.tar.zstd",         IMAGE_MEDIA_LAYER_ZSTD   },
    {DOCKER "image.rootfs.foreign.diff.tar",      IMAGE_MEDIA_LAYER_FOREIGN},
    {DOCKER "image.rootfs.foreign.diff.tar.gzip", IMAGE_MEDIA_LAYER_FOREIGN},
};

enum image_media image_media_of(struct str media_type)
{
    struct str type = STR_NONE;

    (void)str_cut(&media_type, ';', &type);
    type = str_trim(type);
    for (size_t i = 0; i < ARRAY_LEN(media_rows); i++)
        if (str_eq_nocase(type, str_of(media_rows[i].type)))
            return media_rows[i].media;
    return IMAGE_MEDIA_OTHER;
}

static bool is_layer(enum image_media media)
{
    return media == IMAGE_MEDIA_LAYER_TAR || media == IMAGE_MEDIA_LAYER_GZIP ||
           media == IMAGE_MEDIA_LAYER_ZSTD;
}

static bool is_document(enum image_media media)
{
    return media == IMAGE_MEDIA_MANIFEST || media == IMAGE_MEDIA_INDEX ||
           media == IMAGE_MEDIA_SCHEMA1;
}

/* --- rows that manifests, indexes and configurations share --- */

static int parse_digest(struct arena *a UNUSED, const struct json *v,
                        const struct json_field *f UNUSED, void *ret, struct err *e)
{
    struct str text;

    if (json_to_str(v, &text) < 0)
        return err_set(e, EBADMSG, "expected a string, got %s", json_type_name(v));
    return image_digest_parse(text, ret, e);
}

static int parse_word(struct arena *a UNUSED, const struct json *v,
                      const struct json_field *f UNUSED, void *ret, struct err *e)
{
    struct str text;

    if (json_to_str(v, &text) < 0 || str_copy(ret, IMAGE_PLATFORM_WORD_MAX, text) < 0)
        return err_set(e, EBADMSG, "expected a string of at most %d bytes",
                       IMAGE_PLATFORM_WORD_MAX - 1);
    return 0;
}

/* {"a": {}, "b": {}} as a list of its keys: how a set is written in Go. */
struct key_list {
    struct str *keys;
    size_t count;
};

static int parse_keys(struct arena *a, const struct json *v, const struct json_field *f UNUSED,
                      void *ret, struct err *e)
{
    struct key_list *list = ret;
    size_t n = json_count(v);

    if (v->type != JSON_OBJECT)
        return err_set(e, EBADMSG, "expected an object, got %s", json_type_name(v));
    list->keys = arena_new_array(a, struct str, n + 1);
    if (!list->keys)
        return -ENOMEM;
    json_each(item, v) list->keys[list->count++] = item->key;
    return 0;
}

static const struct json_field platform_fields[] = {
    JSON_FIELD("os", JSON_AS_CUSTOM, JSON_NULLABLE, struct image_platform, os, .parse = parse_word),
    JSON_FIELD("architecture", JSON_AS_CUSTOM, JSON_NULLABLE, struct image_platform, arch,
               .parse = parse_word),
    JSON_FIELD("variant", JSON_AS_CUSTOM, JSON_NULLABLE, struct image_platform, variant,
               .parse = parse_word),
};
static const struct json_table platform_table =
    JSON_TABLE(struct image_platform, platform_fields, 0);

static const struct json_field descriptor_fields[] = {
    JSON_FIELD("mediaType", JSON_AS_STR, JSON_REQUIRED, struct image_descriptor, media_type,
               .max = 255),
    JSON_FIELD("digest", JSON_AS_CUSTOM, JSON_REQUIRED, struct image_descriptor, digest,
               .parse = parse_digest),
    JSON_FIELD("size", JSON_AS_U64, JSON_REQUIRED, struct image_descriptor, bytes,
               .max = INT64_MAX),
    JSON_FIELD("platform", JSON_AS_OBJECT, JSON_NULLABLE, struct image_descriptor, platform,
               .table = &platform_table),
};
static const struct json_table descriptor_table =
    JSON_TABLE(struct image_descriptor, descriptor_fields, 0);
static const struct json_field descriptor_element = {
    .as = JSON_AS_OBJECT, .table = &descriptor_table, .size = sizeof(struct image_descriptor)};

/* --- manifests and indexes --- */

static const struct json_field manifest_fields[] = {
    JSON_FIELD("config", JSON_AS_OBJECT, JSON_REQUIRED, struct image_manifest, config,
               .table = &descriptor_table),
    JSON_LIST("layers", JSON_AS_ARRAY, JSON_REQUIRED, struct image_manifest, layers,
              .element = &descriptor_element),
};
static const struct json_table manifest_table =
    JSON_TABLE(struct image_manifest, manifest_fields, 0);

static const struct json_field index_fields[] = {
    JSON_LIST("manifests", JSON_AS_ARRAY, JSON_REQUIRED, struct image_manifest, entries,
              .element = &descriptor_element),
};
static const struct json_table index_table = JSON_TABLE(struct image_manifest, index_fields, 0);

static int check_layers(const struct image_manifest *m, struct err *e)
{
    for (size_t i = 0; i < m->layers_count; i++) {
        const struct image_descriptor *l = &m->layers[i];

        if (l->media == IMAGE_MEDIA_LAYER_FOREIGN)
            return err_set(e, ENOTSUP, "layer %zu, '%.*s', is given out by its vendor only", i + 1,
                           STR_ARG(l->media_type));
        if (!is_layer(l->media))
            return err_set(e, ENOTSUP, "layer %zu has type '%.*s': not one of an image", i + 1,
                           STR_ARG(l->media_type));
        if (l->bytes > IMAGE_LAYER_BYTES_MAX)
            return err_set(e, EFBIG, "layer %zu has %llu bytes; at most %llu are allowed", i + 1,
                           (unsigned long long)l->bytes, (unsigned long long)IMAGE_LAYER_BYTES_MAX);
    }
    return 0;
}

static int check_manifest(struct image_manifest *m, struct err *e)
{
    m->config.media = image_media_of(m->config.media_type);
    if (m->config.media != IMAGE_MEDIA_CONFIG)
        return err_set(e, ENOTSUP, "it is an artifact of type '%.*s', not an image",
                       STR_ARG(m->config.media_type));
    if (m->config.bytes > IMAGE_CONFIG_BYTES_MAX)
        return err_set(e, EFBIG, "its configuration has %llu bytes; at most %d are allowed",
                       (unsigned long long)m->config.bytes, IMAGE_CONFIG_BYTES_MAX);
    if (m->layers_count > IMAGE_LAYERS_MAX)
        return err_set(e, EFBIG, "it has %zu layers; at most %d are allowed", m->layers_count,
                       IMAGE_LAYERS_MAX);
    for (size_t i = 0; i < m->layers_count; i++)
        m->layers[i].media = image_media_of(m->layers[i].media_type);
    return check_layers(m, e);
}

static int check_index(struct image_manifest *m, struct err *e)
{
    if (m->entries_count > IMAGE_INDEX_ENTRIES_MAX)
        return err_set(e, EFBIG, "it lists %zu manifests; at most %d are allowed", m->entries_count,
                       IMAGE_INDEX_ENTRIES_MAX);
    for (size_t i = 0; i < m->entries_count; i++)
        m->entries[i].media = image_media_of(m->entries[i].media_type);
    return 0;
}

static int check_version(const struct json *doc, struct err *e)
{
    uint64_t version = 0;
    int r = json_to_u64(json_get(doc, STR("schemaVersion")), &version);

    if (doc->type != JSON_OBJECT)
        return err_set(e, EPROTO, "it is %s, not an object", json_type_name(doc));
    if (r == 0 && version == 1)
        return err_set(e, ENOTSUP, "it is in Docker's old schema 1: push it again by a newer tool");
    if (r < 0 || version != 2)
        return err_set(e, EPROTO, "its schemaVersion is not 2");
    return 0;
}

/* What the document is: in its own words, in others', or by what is in it. A document with both
 * kinds of members could be read as either, by two readers, and is refused. */
static int find_media(const struct json *doc, struct str said, enum image_media *ret, struct err *e)
{
    const struct json *own = json_get(doc, STR("mediaType"));
    bool layers = json_get(doc, STR("layers")) || json_get(doc, STR("config"));
    bool entries = json_get(doc, STR("manifests")) != NULL;
    enum image_media told = image_media_of(said), media = IMAGE_MEDIA_OTHER;
    struct str text = STR_NONE;

    if (layers == entries)
        return err_set(e, EPROTO, "it has %s",
                       layers ? "both layers and manifests" : "neither layers nor manifests");
    if (own && json_to_str(own, &text) == 0)
        media = image_media_of(text);
    if (text.n && !is_document(media))
        return err_set(e, ENOTSUP, "it has type '%.*s': not a manifest known here",
                       (int)min_size(text.n, 100), text.p);
    if (is_document(told) && is_document(media) && told != media)
        return err_set(e, EPROTO, "it calls itself '%.*s', the registry calls it '%.*s'",
                       (int)min_size(text.n, 80), text.p, (int)min_size(said.n, 80), said.p);
    if (!is_document(media))
        media = is_document(told) ? told : layers ? IMAGE_MEDIA_MANIFEST : IMAGE_MEDIA_INDEX;
    if (media == IMAGE_MEDIA_SCHEMA1)
        return err_set(e, ENOTSUP, "it is in Docker's old schema 1: push it again by a newer tool");
    if ((media == IMAGE_MEDIA_INDEX) != entries)
        return err_set(e, EPROTO, "its type says %s, its members say another",
                       entries ? "manifest" : "index");
    *ret = media;
    return 0;
}

/* A document that does not parse is the registry's fault, whatever the reason is called. */
static int bad_document(int r)
{
    return r == -EFBIG || r == -EMSGSIZE ? -EFBIG : r == -ENOTSUP || r == -ENOMEM ? r : -EPROTO;
}

static int fail(struct err *e, int r, const char *what)
{
    r = bad_document(r);
    if (e)
        e->code = -r;
    return err_wrap(e, r, "%s", what);
}

static int parse_document(struct arena *a, struct str text, size_t bytes_max, struct json **ret,
                          struct err *e)
{
    static const struct json_limits limits = {
        .text_bytes_max = IMAGE_CONFIG_BYTES_MAX, .nodes_max = 100 * 1000, .depth_max = 32};

    if (text.n > bytes_max)
        return err_set(e, EFBIG, "it has %zu bytes; at most %zu are allowed", text.n, bytes_max);
    return json_parse(a, text, &limits, ret, e);
}

int image_manifest_parse(struct arena *a, struct str text, struct str media_type,
                         struct image_manifest *ret, struct err *e)
{
    struct image_manifest m = {0};
    struct json *doc = NULL;
    int r = parse_document(a, text, IMAGE_MANIFEST_BYTES_MAX, &doc, e);

    if (r == 0)
        r = check_version(doc, e);
    if (r == 0)
        r = find_media(doc, media_type, &m.media, e);
    if (r == 0)
        r = json_bind(a, doc, m.media == IMAGE_MEDIA_INDEX ? &index_table : &manifest_table, &m, e);
    if (r == 0)
        r = m.media == IMAGE_MEDIA_INDEX ? check_index(&m, e) : check_manifest(&m, e);
    if (r < 0)
        return fail(e, r, "its manifest");
    *ret = m;
    return 0;
}

static int no_platform(const struct image_manifest *index, const struct image_platform *want,
                       struct err *e)
{
    char wanted[IMAGE_PLATFORM_TEXT_MAX], has[IMAGE_PLATFORM_TEXT_MAX];
    AUTO_BUF(list, 160);

    image_platform_format(want, wanted);
    for (size_t i = 0; i < index->entries_count; i++) {
        const struct image_platform *p = &index->entries[i].platform;

        if (!p->os[0] || strcmp(p->os, "unknown") == 0)
            continue;
        image_platform_format(p, has);
        if (buf_addf(&list, "%s%s", list.n ? ", " : "", has) < 0)
            break;
    }
    return err_set(e, ENOEXEC, "it is not made for %s; there %s %s", wanted, list.n ? "are" : "is",
                   list.n ? list.p : "nothing in its index");
}

int image_index_select(const struct image_manifest *index, const struct image_platform *want,
                       const struct image_descriptor **ret, struct err *e)
{
    const struct image_descriptor *best = NULL;
    int best_match = 0;

    for (size_t i = 0; i < index->entries_count; i++) {
        const struct image_descriptor *d = &index->entries[i];
        /* An entry that does not say for what it is may be for us: its configuration will tell. */
        int match = d->platform.os[0] ? image_platform_match(want, &d->platform) : 1;

        if (match > best_match && is_document(d->media)) {
            best = d;
            best_match = match;
        }
    }
    if (!best)
        return no_platform(index, want, e);
    *ret = best;
    return 0;
}

/* --- configurations --- */

static const struct json_field string_element = {.as = JSON_AS_STR, .size = sizeof(struct str)};
static const struct json_field digest_element = {
    .as = JSON_AS_CUSTOM, .parse = parse_digest, .size = sizeof(struct image_digest)};

/* "Cmd": null is what Docker writes for none. */
static const struct json_field run_fields[] = {
    JSON_FIELD("User", JSON_AS_STR, JSON_NULLABLE, struct image_config, user, .max = 255),
    JSON_FIELD("WorkingDir", JSON_AS_STR, JSON_NULLABLE, struct image_config, workdir, .max = 4095),
    JSON_FIELD("StopSignal", JSON_AS_STR, JSON_NULLABLE, struct image_config, stop_signal,
               .max = 31),
    JSON_LIST("Env", JSON_AS_ARRAY, JSON_NULLABLE, struct image_config, env,
              .element = &string_element, .max = 1024),
    JSON_LIST("Entrypoint", JSON_AS_ARRAY, JSON_NULLABLE, struct image_config, entrypoint,
              .element = &string_element, .max = 1024),
    JSON_LIST("Cmd", JSON_AS_ARRAY, JSON_NULLABLE, struct image_config, cmd,
              .element = &string_element, .max = 1024),
    JSON_FIELD("ExposedPorts", JSON_AS_CUSTOM, JSON_NULLABLE, struct image_config, ports,
               .parse = parse_keys),
    JSON_FIELD("Volumes", JSON_AS_CUSTOM, JSON_NULLABLE, struct image_config, volumes,
               .parse = parse_keys),
    JSON_LIST("Labels", JSON_AS_MAP, JSON_NULLABLE, struct image_config, labels, .max = 4096),
};
static const struct json_table run_table = JSON_TABLE(struct image_config, run_fields, 0);

static_assert(offsetof(struct image_config, ports_count) ==
                      offsetof(struct image_config, ports) + offsetof(struct key_list, count) &&
                  offsetof(struct image_config, volumes_count) ==
                      offsetof(struct image_config, volumes) + offsetof(struct key_list, count),
              "parse_keys fills a list and its count");

static const struct json_field rootfs_fields[] = {
    JSON_LIST("diff_ids", JSON_AS_ARRAY, JSON_NULLABLE, struct image_config, diff_ids,
              .element = &digest_element, .max = IMAGE_LAYERS_MAX),
};
static const struct json_table rootfs_table = JSON_TABLE(struct image_config, rootfs_fields, 0);

static const struct json_field top_fields[] = {
    JSON_FIELD("created", JSON_AS_STR, JSON_NULLABLE, struct image_config, created, .max = 64),
};
static const struct json_table top_table = JSON_TABLE(struct image_config, top_fields, 0);

/* Members of one struct come from three objects, each with its table. */
static int bind_config(struct arena *a, const struct json *doc, struct image_config *c,
                       struct err *e)
{
    const struct json *run = json_get(doc, STR("config"));
    const struct json *rootfs = json_get(doc, STR("rootfs"));
    int r = json_bind(a, doc, &platform_table, &c->platform, e);

    if (r == 0)
        r = json_bind(a, doc, &top_table, c, e);
    if (r == 0 && !c->platform.os[0])
        return err_set(e, EPROTO, "it names no operating system");
    if (r == 0 && !rootfs)
        return err_set(e, EPROTO, "it has no rootfs, and so no layers");
    if (r == 0) {
        r = json_bind(a, rootfs, &rootfs_table, c, e);
        if (r < 0)
            return err_wrap(e, r, "rootfs");
    }
    if (r == 0 && run && run->type != JSON_NULL) {
        r = json_bind(a, run, &run_table, c, e);
        if (r < 0)
            return err_wrap(e, r, "config");
    }
    return r;
}

/* What becomes an environment or a command must pass for C strings. */
static int check_strings(const struct image_config *c, struct err *e)
{
    const struct {
        const struct str *list;
        size_t n;
        const char *name;
    } lists[] = {
        {c->env,        c->env_count,        "Env"       },
        {c->entrypoint, c->entrypoint_count, "Entrypoint"},
        {c->cmd,        c->cmd_count,        "Cmd"       },
        {&c->user,      1,                   "User"      },
        {&c->workdir,   1,                   "WorkingDir"},
    };

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (size_t k = 0; k < lists[i].n; k++)
            if (str_has_nul(lists[i].list[k]))
                return err_set(e, EPROTO, "config.%s has a NUL in it", lists[i].name);
    return 0;
}

int image_config_parse(struct arena *a, struct str text, struct image_config *ret, struct err *e)
{
    struct image_config c = {0};
    struct json *doc = NULL;
    int r = parse_document(a, text, IMAGE_CONFIG_BYTES_MAX, &doc, e);

    if (r == 0 && doc->type != JSON_OBJECT)
        r = err_set(e, EPROTO, "it is %s, not an object", json_type_name(doc));
    if (r == 0)
        r = bind_config(a, doc, &c, e);
    if (r == 0)
        r = check_strings(&c, e);
    if (r < 0)
        return fail(e, r, "its configuration");
    *ret = c;
    return 0;
}

int image_config_check(const struct image_config *config, const struct image_manifest *manifest,
                       struct err *e)
{
    if (config->diff_ids_count != manifest->layers_count)
        return err_set(e, EPROTO, "its manifest has %zu layers, its configuration %zu",
                       manifest->layers_count, config->diff_ids_count);
    /* They are computed where layers are unpacked, by SHA-256. */
    for (size_t i = 0; i < config->diff_ids_count; i++)
        if (image_digest_is_sha512(&config->diff_ids[i]))
            return err_set(e, ENOTSUP, "its configuration names a layer by %.19s..., not by sha256",
                           config->diff_ids[i].text);
    return 0;
}
