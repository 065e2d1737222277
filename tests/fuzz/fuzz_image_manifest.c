/* Manifests and indexes: what is taken keeps its limits, and an index gives one of its entries. */
#include <errno.h>

#include "fuzz.h"
#include "image/manifest.h"

static void check_digest(const struct image_digest *d)
{
    FUZZ_CHECK(strlen(image_digest_hex(d)) == (image_digest_is_sha512(d) ? 128 : 64));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct image_platform want = {"linux", "arm", "v7"};
    struct str text = str_make((const char *)data, size);
    const struct image_descriptor *d = NULL;
    struct image_manifest m;
    struct err e = {0};
    AUTO_ARENA(arena, IMAGE_MANIFEST_ARENA_MAX);

    if (image_manifest_parse(&arena, text, STR_NONE, &m, &e) < 0) {
        FUZZ_CHECK(e.code == EPROTO || e.code == ENOTSUP || e.code == EFBIG || e.code == ENOMEM);
        FUZZ_CHECK(e.msg[0]);
        return 0;
    }
    FUZZ_CHECK(m.layers_count <= IMAGE_LAYERS_MAX && m.entries_count <= IMAGE_INDEX_ENTRIES_MAX);
    for (size_t i = 0; i < m.layers_count; i++) {
        check_digest(&m.layers[i].digest);
        FUZZ_CHECK(m.layers[i].bytes <= IMAGE_LAYER_BYTES_MAX);
    }
    if (m.media == IMAGE_MEDIA_MANIFEST)
        check_digest(&m.config.digest);
    else if (image_index_select(&m, &want, &d, &e) == 0)
        FUZZ_CHECK(d >= m.entries && d < m.entries + m.entries_count);
    else
        FUZZ_CHECK(e.code == ENOEXEC);
    return 0;
}
