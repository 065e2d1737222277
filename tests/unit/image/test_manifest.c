#include "base/buf.h"
#include "image/manifest.h"
#include "test.h"

#define HEX          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define D            "\"digest\":\"sha256:" HEX "\",\"size\":7"
#define OCI          "application/vnd.oci.image."
#define CONF         "\"config\":{\"mediaType\":\"" OCI "config.v1+json\"," D "}"
#define LAYER        "{\"mediaType\":\"" OCI "layer.v1.tar+gzip\"," D "}"
#define DOCKER_LAYER "{\"mediaType\":\"application/vnd.docker.image.rootfs.diff.tar.gzip\"," D "}"

static struct arena arena;
static struct image_manifest m;
static struct err e;

static int parse_as(const char *text, const char *type)
{
    arena_init(&arena, IMAGE_MANIFEST_ARENA_MAX);
    e = (struct err){0};
    return image_manifest_parse(&arena, str_of(text), str_of(type), &m, &e);
}

static void refused(const char *text, int code, const char *says)
{
    int r = parse_as(text, NULL);

    if (r != -code || e.code != code || !strstr(e.msg, says))
        test_fail(__FILE__, __LINE__, "%s: %d, %s", text, r, e.msg);
    arena_done(&arena);
}

TEST(manifest, of_oci_is_read)
{
    CHECK_EQ(parse_as("{\"schemaVersion\":2," CONF ",\"layers\":[" LAYER "," LAYER "]}", NULL), 0);
    CHECK_EQ(m.media, IMAGE_MEDIA_MANIFEST);
    CHECK_EQ(m.layers_count, 2);
    CHECK_EQ(m.layers[1].media, IMAGE_MEDIA_LAYER_GZIP);
    CHECK_EQ(m.layers[1].bytes, 7);
    CHECK_STR(m.config.digest.text, "sha256:" HEX);
    arena_done(&arena);
}

TEST(manifest, of_docker_is_read)
{
    CHECK_EQ(parse_as("{\"schemaVersion\":2,\"mediaType\":"
                      "\"application/vnd.docker.distribution.manifest.v2+json\",\"config\":{"
                      "\"mediaType\":\"application/vnd.docker.container.image.v1+json\"," D
                      "},\"layers\":[" DOCKER_LAYER "]}",
                      "application/vnd.docker.distribution.manifest.v2+json; charset=utf-8"),
             0);
    CHECK_EQ(m.media, IMAGE_MEDIA_MANIFEST);
    CHECK_EQ(m.layers[0].media, IMAGE_MEDIA_LAYER_GZIP);
    arena_done(&arena);
}

TEST(manifest, that_makes_no_sense_is_refused)
{
    refused("", EPROTO, "manifest");
    refused("[]", EPROTO, "not an object");
    refused("{}", EPROTO, "schemaVersion");
    refused("{\"schemaVersion\":1,\"fsLayers\":[]}", ENOTSUP, "schema 1");
    refused("{\"schemaVersion\":3," CONF ",\"layers\":[]}", EPROTO, "schemaVersion");
    refused("{\"schemaVersion\":2}", EPROTO, "neither");
    refused("{\"schemaVersion\":2," CONF "}", EPROTO, "layers");
    refused("{\"schemaVersion\":2,\"layers\":[]}", EPROTO, "config");
    refused("{\"schemaVersion\":2," CONF ",\"layers\":[],\"manifests\":[]}", EPROTO, "both");
    refused("{\"schemaVersion\":2,\"mediaType\":\"text/html\"," CONF ",\"layers\":[]}", ENOTSUP,
            "text/html");
    refused("{\"schemaVersion\":2,\"mediaType\":\"" OCI "index.v1+json\"," CONF ",\"layers\":[]}",
            EPROTO, "members");
    refused("{\"schemaVersion\":2,\"config\":{\"mediaType\":\"application/x-helm\"," D
            "},\"layers\":[]}",
            ENOTSUP, "artifact");
    refused("{\"schemaVersion\":2," CONF ",\"layers\":[{\"mediaType\":\"x/y\"," D "}]}", ENOTSUP,
            "layer 1");
    refused("{\"schemaVersion\":2," CONF
            ",\"layers\":[{\"mediaType\":\"application/vnd.docker.image.rootfs.foreign.diff.tar."
            "gzip\"," D "}]}",
            ENOTSUP, "vendor");
    refused("{\"schemaVersion\":2," CONF ",\"layers\":[{\"mediaType\":\"" OCI
            "layer.v1.tar\",\"digest\":\"sha256:" HEX "\",\"size\":-1}]}",
            EPROTO, "size");
    refused("{\"schemaVersion\":2," CONF ",\"layers\":[{\"mediaType\":\"" OCI
            "layer.v1.tar\",\"digest\":\"sha256:" HEX "\",\"size\":999999999999999}]}",
            EFBIG, "999999999999999");
    refused("{\"schemaVersion\":2," CONF ",\"layers\":[{\"mediaType\":\"" OCI
            "layer.v1.tar\",\"digest\":\"sha256:../x\",\"size\":1}]}",
            EPROTO, "digest");
}

TEST(manifest, that_the_registry_calls_otherwise_is_refused)
{
    CHECK_EQ(parse_as("{\"schemaVersion\":2,\"mediaType\":\"" OCI "manifest.v1+json\"," CONF
                      ",\"layers\":[]}",
                      OCI "index.v1+json"),
             -EPROTO);
    CHECK(strstr(e.msg, "calls") != NULL);
    arena_done(&arena);
    CHECK_EQ(parse_as("{\"schemaVersion\":2," CONF ",\"layers\":[]}", OCI "index.v1+json"),
             -EPROTO);
    arena_done(&arena);
    CHECK_EQ(parse_as("{\"schemaVersion\":2," CONF ",\"layers\":[]}", "application/json"), 0);
    arena_done(&arena);
}

TEST(manifest, has_a_limit_of_layers)
{
    AUTO_BUF(text, 1 << 20);

    for (size_t n = IMAGE_LAYERS_MAX; n <= IMAGE_LAYERS_MAX + 1; n++) {
        buf_clear(&text);
        CHECK_EQ(buf_addf(&text, "{\"schemaVersion\":2," CONF ",\"layers\":["), 0);
        for (size_t i = 0; i < n; i++)
            CHECK_EQ(buf_addf(&text, "%s" LAYER, i ? "," : ""), 0);
        CHECK_EQ(buf_addf(&text, "]}"), 0);
        CHECK_EQ(parse_as(text.p, NULL), n == IMAGE_LAYERS_MAX ? 0 : -EFBIG);
        arena_done(&arena);
    }
}

TEST(manifest, has_a_limit_of_bytes)
{
    size_t n = IMAGE_MANIFEST_BYTES_MAX + 1;
    char *text = malloc(n);

    memset(text, ' ', n);
    arena_init(&arena, IMAGE_MANIFEST_ARENA_MAX);
    CHECK_EQ(image_manifest_parse(&arena, str_make(text, n), STR_NONE, &m, &e), -EFBIG);
    arena_done(&arena);
    free(text);
}

#define ENTRY(os, arch, variant)                                                                   \
    "{\"mediaType\":\"" OCI "manifest.v1+json\"," D ",\"platform\":{\"os\":\"" os                  \
    "\",\"architecture\":\"" arch "\",\"variant\":\"" variant "\"}}"

static const char index_text[] =
    "{\"schemaVersion\":2,\"mediaType\":\"" OCI
    "index.v1+json\",\"manifests\":[" ENTRY("unknown", "unknown", "") "," ENTRY(
        "linux", "arm", "v5") "," ENTRY("linux", "arm", "v6") "," ENTRY("linux", "s390x", "") "]}";

static int choose(const char *platform, const struct image_descriptor **ret)
{
    struct image_platform want;

    CHECK_EQ(image_platform_parse(str_of(platform), &want, NULL), 0);
    return image_index_select(&m, &want, ret, &e);
}

TEST(index, gives_the_entry_of_the_platform)
{
    const struct image_descriptor *d;

    CHECK_EQ(parse_as(index_text, OCI "index.v1+json"), 0);
    CHECK_EQ(m.media, IMAGE_MEDIA_INDEX);
    CHECK_EQ(choose("linux/arm/v7", &d), 0);
    CHECK(d == &m.entries[2]);
    CHECK_EQ(choose("linux/arm/v5", &d), 0);
    CHECK(d == &m.entries[1]);
    CHECK_EQ(choose("linux/amd64", &d), -ENOEXEC);
    CHECK_STR(e.msg, "it is not made for linux/amd64; there are linux/arm/v5, linux/arm/v6, "
                     "linux/s390x");
    arena_done(&arena);
}

static struct image_config c;

static int config(const char *text)
{
    c = (struct image_config){0};
    arena_init(&arena, IMAGE_MANIFEST_ARENA_MAX);
    e = (struct err){0};
    return image_config_parse(&arena, str_of(text), &c, &e);
}

TEST(config, of_an_image_is_read)
{
    CHECK_EQ(config("{\"os\":\"linux\",\"architecture\":\"amd64\",\"created\":\"x\","
                    "\"config\":{\"User\":\"me\",\"Env\":[\"A=b\"],\"Cmd\":null,"
                    "\"Entrypoint\":[\"/x\",\"y\"],\"WorkingDir\":\"/w\","
                    "\"ExposedPorts\":{\"80/tcp\":{},\"53/udp\":{}},\"Labels\":{\"k\":\"v\"},"
                    "\"Volumes\":{\"/v\":{}},\"OnBuild\":[]},\"rootfs\":{\"type\":\"layers\","
                    "\"diff_ids\":[\"sha256:" HEX "\"]},\"history\":[{\"x\":1}]}"),
             0);
    CHECK_STR(c.platform.arch, "amd64");
    CHECK_SPAN(c.user, "me");
    CHECK_EQ(c.cmd_count, 0);
    CHECK_EQ(c.entrypoint_count, 2);
    CHECK_SPAN(c.entrypoint[1], "y");
    CHECK_SPAN(c.env[0], "A=b");
    CHECK_EQ(c.ports_count, 2);
    CHECK_SPAN(c.ports[1], "53/udp");
    CHECK_SPAN(c.volumes[0], "/v");
    CHECK_SPAN(c.labels[0].value, "v");
    CHECK_EQ(c.diff_ids_count, 1);
    CHECK_STR(c.diff_ids[0].text, "sha256:" HEX);
    m = (struct image_manifest){.layers_count = 2};
    CHECK_EQ(image_config_check(&c, &m, &e), -EPROTO);
    CHECK(strstr(e.msg, "2 layers") != NULL);
    arena_done(&arena);
}

TEST(config, that_makes_no_sense_is_refused)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"",                                                                    "configuration"   },
        {"7",                                                                   "not an object"   },
        {"{}",                                                                  "operating system"},
        {"{\"os\":\"linux\"}",                                                  "rootfs"          },
        {"{\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[\"x\"]}}",                "diff_ids"        },
        {"{\"os\":\"linux\",\"rootfs\":{},\"config\":{\"Env\":\"a\"}}",         "Env"             },
        {"{\"os\":\"linux\",\"rootfs\":{},\"config\":{\"Cmd\":[\"\\u0000\"]}}", "NUL"             },
        {"{\"os\":\"linux\",\"rootfs\":{},\"config\":{\"Volumes\":[]}}",        "Volumes"         },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_EQ(config(rows[i].text), -EPROTO);
        if (!strstr(e.msg, rows[i].says))
            test_fail(__FILE__, __LINE__, "%s: %s", rows[i].text, e.msg);
        arena_done(&arena);
    }
}
