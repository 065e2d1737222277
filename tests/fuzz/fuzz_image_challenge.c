/* WWW-Authenticate: what is taken lies in bounds, and Bearer always has a realm. */
#include <errno.h>

#include "fuzz.h"
#include "image/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str value = str_make((const char *)data, size);
    struct image_challenge c = {0};
    struct err e = {0};
    AUTO_ARENA(arena, 16 << 20);

    if (image_challenge_parse(&arena, value, &c, &e) < 0) {
        FUZZ_CHECK((e.code == EPROTO || e.code == ENOMEM) && e.msg[0]);
        FUZZ_CHECK(!c.bearer && !c.basic);
        return 0;
    }
    FUZZ_CHECK(!c.bearer || c.realm.n > 0);
    FUZZ_CHECK(c.bearer || !c.realm.p);
    FUZZ_CHECK(c.realm.n + c.service.n + c.scope.n <= size);
    return 0;
}
