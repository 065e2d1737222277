/* Configurations of images: strings that become arguments hold no NUL, lists keep their limits. */
#include <errno.h>

#include "fuzz.h"
#include "image/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_config c;
    struct err e = {0};
    AUTO_ARENA(arena, IMAGE_MANIFEST_ARENA_MAX);

    if (image_config_parse(&arena, str_make((const char *)data, size), &c, &e) < 0) {
        FUZZ_CHECK(e.code == EPROTO || e.code == ENOTSUP || e.code == EFBIG || e.code == ENOMEM);
        FUZZ_CHECK(e.msg[0]);
        return 0;
    }
    FUZZ_CHECK(c.diff_ids_count <= IMAGE_LAYERS_MAX);
    for (size_t i = 0; i < c.env_count; i++)
        FUZZ_CHECK(!str_has_nul(c.env[i]));
    for (size_t i = 0; i < c.cmd_count; i++)
        FUZZ_CHECK(!str_has_nul(c.cmd[i]));
    for (size_t i = 0; i < c.ports_count; i++)
        FUZZ_CHECK(c.ports[i].p);
    return 0;
}
