#include <errno.h>

#include "base/json.h"
#include "committer/documents.h"
#include "test.h"

#define DIGIT "1111111111111111111111111111111111111111111111111111111111111111"
#define BASE                                                                                       \
    "{\"architecture\":\"amd64\",\"os\":\"linux\",\"created\":\"2020-01-01T00:00:00Z\","           \
    "\"config\":{\"Env\":[\"A=b\"],\"Odd\":{\"kept\":1.50}},"                                      \
    "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:" DIGIT "\"]}"

static struct commit_layer layer = {.bytes = 7, .media = IMAGE_MEDIA_LAYER_GZIP};

static void set_layer(void)
{
    image_digest_of(STR("layer"), &layer.digest);
    image_digest_of(STR("tar"), &layer.diff_id);
}

TEST(documents, add_a_layer_to_a_configuration)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 65536);
    struct image_config got;

    set_layer();
    CHECK_EQ(commit_config(STR(BASE ",\"history\":[{\"created_by\":\"x\"}]}"), &layer,
                           1577836800000000, &out, NULL),
             0);
    CHECK_EQ(image_config_parse(&a, buf_str(&out), &got, NULL), 0);
    CHECK_EQ(got.diff_ids_count, 2);
    CHECK_STR(got.diff_ids[0].text, "sha256:" DIGIT);
    CHECK_STR(got.diff_ids[1].text, layer.diff_id.text);
    CHECK_SPAN(got.env[0], "A=b");
    CHECK(str_find_str(buf_str(&out), STR("\"Odd\":{\"kept\":1.50}")) < out.n);
    CHECK(str_find_str(buf_str(&out), STR("[{\"created_by\":\"x\"},{")) < out.n);
}

TEST(documents, invent_no_history)
{
    AUTO_BUF(out, 65536);

    set_layer();
    CHECK_EQ(commit_config(STR(BASE ",\"history\":[]}"), &layer, 0, &out, NULL), 0);
    CHECK(str_find_str(buf_str(&out), STR("created_by")) == out.n);
}

TEST(documents, refuse_what_is_no_configuration)
{
    AUTO_BUF(out, 65536);
    struct err e = {0};

    set_layer();
    CHECK(commit_config(STR("{"), &layer, 0, &out, &e) < 0);
    CHECK(commit_config(STR("[]"), &layer, 0, &out, &e) < 0);
    CHECK_EQ(out.n, 0);
}

TEST(documents, name_layers_in_the_words_of_oci)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 65536);
    struct image_descriptor rows[] = {
        {.media = IMAGE_MEDIA_LAYER_TAR,  .bytes = 1},
        {.media = IMAGE_MEDIA_LAYER_ZSTD, .bytes = 2},
        {.media = IMAGE_MEDIA_LAYER_GZIP, .bytes = 3},
    };
    struct image_manifest base = {
        .media = IMAGE_MEDIA_MANIFEST, .layers = rows, .layers_count = ARRAY_LEN(rows)};
    struct image_manifest got;
    struct image_digest config;

    set_layer();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        image_digest_of(str_make("abc" + i, 1), &rows[i].digest);
    CHECK_EQ(commit_manifest(&base, STR("{}"), &layer, &out, NULL), 0);
    CHECK_EQ(image_manifest_parse(&a, buf_str(&out), STR(COMMIT_MANIFEST_TYPE), &got, NULL), 0);
    image_digest_of(STR("{}"), &config);
    CHECK(image_digest_eq(&got.config.digest, &config));
    CHECK_EQ(got.config.bytes, 2);
    CHECK_EQ(got.layers_count, 4);
    CHECK_EQ(got.layers[1].media, IMAGE_MEDIA_LAYER_ZSTD);
    CHECK_EQ(got.layers[2].bytes, 3);
    CHECK(image_digest_eq(&got.layers[3].digest, &layer.digest));
    base.layers_count = IMAGE_LAYERS_MAX;
    CHECK_EQ(commit_manifest(&base, STR("{}"), &layer, &out, NULL), -E2BIG);
}
