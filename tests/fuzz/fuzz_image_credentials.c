/* Credentials files: what is found can be sent in a header. */
#include <errno.h>

#include "fuzz.h"
#include "image/credentials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_auth auth = {0};
    struct err e = {0};
    AUTO_ARENA(arena, 64 << 20);
    int r = image_credentials_find(&arena, str_make((const char *)data, size), STR("docker.io"),
                                   STR("library/python"), &auth, &e);

    if (r < 0) {
        FUZZ_CHECK((r == -EINVAL || r == -ENOTSUP) && e.msg[0]);
        return 0;
    }
    FUZZ_CHECK(r == (image_auth_is_set(&auth) ? 1 : 0));
    FUZZ_CHECK(image_auth_check(&auth, NULL) == 0);
    return 0;
}
