/* A message of containerd: what is read lies within it, and is as long as all of its fields. */
#include "committer/wire.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str all = str_make((const char *)data, size), rest = all, value;
    struct wire_field f;
    uint64_t number;
    int r;

    while ((r = wire_next(&rest, &f)) > 0) {
        FUZZ_CHECK(f.number > 0);
        FUZZ_CHECK(rest.p > all.p && rest.p + rest.n == all.p + all.n);
        FUZZ_CHECK(f.bytes.n == 0 || (f.bytes.p >= all.p && f.bytes.p + f.bytes.n <= rest.p));
    }
    FUZZ_CHECK((wire_get_bytes(all, 1, &value) < 0) == (r < 0));
    FUZZ_CHECK((wire_get_u64(all, 1, &number) < 0) == (r < 0));
    (void)!wire_get_pair(all, 3, STR("k"), &value);
    return 0;
}
