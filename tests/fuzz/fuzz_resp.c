/* The text is what Redis sent, and a DSN. */
#include "fuzz.h"
#include "net/redis.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = str_make((const char *)data, size);
    struct redis_dsn dsn;
    struct resp reply, item;
    ssize_t used;

    (void)redis_dsn_parse(in, &dsn, NULL);
    while ((used = resp_read(in, &reply)) > 0) {
        size_t items = 0;

        FUZZ_CHECK((size_t)used <= in.n);
        FUZZ_CHECK(!reply.text.p ||
                   (reply.text.p >= in.p && reply.text.p + reply.text.n <= in.p + used));
        while (reply.type == RESP_ARRAY && resp_next(&reply.text, &item))
            items++;
        if (reply.type == RESP_ARRAY && reply.number >= 0)
            FUZZ_CHECK(items == (size_t)reply.number && reply.text.n == 0);
        in = str_skip(in, (size_t)used);
    }
    return 0;
}
