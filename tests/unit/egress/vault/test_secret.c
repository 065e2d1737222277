#include "base/buf.h"
#include "base/io.h"
#include "egress/vault/secret.h"
#include "test.h"
#include <fcntl.h>
#include <unistd.h>

TEST(secret, grows_to_its_limit_and_no_further)
{
    struct secret_arena a;
    char *p;

    secret_init(&a, 64 << 10);
    p = secret_alloc(&a, 100);
    CHECK(p && p[0] == 0 && p[99] == 0);
    CHECK(secret_alloc(&a, 20000) != NULL);
    CHECK(secret_alloc(&a, 64 << 10) == NULL);
    CHECK(secret_alloc(&a, SIZE_MAX) == NULL);
    CHECK_SPAN(secret_str(&a, STR("x")), "x");
    secret_done(&a);
    CHECK_EQ(a.used, 0);
}

#ifdef __SANITIZE_ADDRESS__
#define LOCKED "" /* ASan makes mlock(2) do nothing */
#else
#define LOCKED " lo"
#endif

/* The flags of the mapping: lo locked, dd not dumped, dc not inherited. */
TEST(secret, is_locked_and_left_out_of_dumps)
{
    struct secret_arena a;
    char *line = NULL, want[32];
    size_t size = 0;
    bool within = false, checked = false;
    void *p;
    FILE *f;

    secret_init(&a, 64 << 10);
    p = secret_alloc(&a, 100);
    snprintf(want, sizeof(want), "%lx-", (unsigned long)((uintptr_t)p & ~(uintptr_t)4095));
    f = fopen("/proc/self/smaps", "re");
    CHECK(f != NULL);
    while (getline(&line, &size, f) > 0) {
        if (strstr(line, "-") && strstr(line, " rw-p "))
            within = strncmp(line, want, strlen(want)) == 0;
        if (within && strncmp(line, "VmFlags:", 8) == 0) {
            CHECK(strstr(line, LOCKED) && strstr(line, " dd") && strstr(line, " dc"));
            checked = true;
        }
    }
    CHECK(checked);
    fclose(f);
    free(line);
    secret_done(&a);
}
