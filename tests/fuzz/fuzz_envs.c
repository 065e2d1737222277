/* The text of an EXECD_ENVS file: whatever it holds, rows are NAME=VALUE, each name once, and no
 * secret of ours is among them. */
#include "base/log.h"
#include "execd/core/envs.h"
#include "fuzz.h"

enum { INPUT_MAX = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const ours[] = {"A=1", "B=$A", "JUPYTER_TOKEN=hunter2", NULL};
    AUTO_ARENA(a, 64 << 20);
    const char *const *rows;

    if (size > INPUT_MAX || memmem(data, size, "hunter2", strlen("hunter2")))
        return 0;
    log_set_level(LOG_ERROR);
    if (envs_make(&a, ours, str_make((const char *)data, size), NULL, 0, &rows) < 0)
        return 0;
    for (size_t i = 0; rows[i]; i++) {
        struct str name = str_make(rows[i], strcspn(rows[i], "="));

        FUZZ_CHECK(name.n > 0 && rows[i][name.n] == '=' && envs_is_name(name));
        FUZZ_CHECK(!strstr(rows[i], "hunter2"));
        for (size_t k = 0; k < i && i < 64; k++)
            FUZZ_CHECK(strncmp(rows[k], rows[i], name.n + 1) != 0);
    }
    return 0;
}
