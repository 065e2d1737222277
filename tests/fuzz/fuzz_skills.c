/* Input: a file of a user, into which a block is put. Put twice is put once, and what was put can
 * be cut. The same bytes are also read as a skill. */
#include "osb/skills.h"

#include <errno.h>

#include "fuzz.h"

enum { FILE_MAX = 64 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str file = str_make((const char *)data, size), block;
    AUTO_BUF(once, 2 * FILE_MAX);
    AUTO_BUF(twice, 2 * FILE_MAX);
    AUTO_BUF(cut, 2 * FILE_MAX);
    struct skill_parts parts;
    int r;

    if (size > FILE_MAX)
        return 0;
    if (skill_read(file, &parts) == 0)
        FUZZ_CHECK(skill_section(parts.body, STR("When To Use")).n <= parts.body.n);
    r = skill_block_put(file, "x", STR("text"), &once);
    FUZZ_CHECK(r == 0 || r == -EBADMSG);
    if (r < 0)
        return 0;
    FUZZ_CHECK(skill_block_find(buf_str(&once), "x", &block) == 0);
    FUZZ_CHECK(skill_block_put(buf_str(&once), "x", STR("text"), &twice) == 0);
    FUZZ_CHECK(str_eq(buf_str(&once), buf_str(&twice)));
    FUZZ_CHECK(skill_block_cut(buf_str(&once), "x", &cut) == 0);
    FUZZ_CHECK(cut.n + block.n <= once.n);
    return 0;
}
