/* Input: the first bytes of a connection. A prefix says no more than the whole, a name is one. */
#include "egress/intercept/hello.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = str_make((const char *)data, size);
    struct hello whole = {0}, part = {0};
    enum hello_kind kind = hello_read(in, &whole);

    if (kind == HELLO_TLS) {
        for (const char *p = whole.name; *p; p++)
            FUZZ_CHECK(*p > ' ' && *p < 0x7f && !(*p >= 'A' && *p <= 'Z') && *p != '/');
        FUZZ_CHECK(strlen(whole.name) <= HELLO_NAME_MAX);
    }
    for (size_t n = 0; n < size && size < 2048; n++) {
        enum hello_kind early = hello_read(str_make(in.p, n), &part);

        FUZZ_CHECK(early == HELLO_AGAIN || early == kind);
        if (early == HELLO_TLS)
            FUZZ_CHECK(strcmp(part.name, whole.name) == 0);
    }
    return 0;
}
