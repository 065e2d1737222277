#include "execd/core/fields.h"

#include <errno.h>

#include "test.h"

TEST(fields, finds_a_field_by_its_whole_name)
{
    struct str text = STR("inactive_file_x 1\nMemTotal:   2048 kB\ninactive_file 7\nbad y\n");
    uint64_t v = 0;

    CHECK_EQ(fields_find(text, "inactive_file", &v), 0);
    CHECK_EQ(v, 7);
    CHECK_EQ(fields_find(text, "MemTotal", &v), 0);
    CHECK_EQ(v, 2048);
    CHECK_EQ(fields_find(text, "bad", &v), -EINVAL);
    CHECK_EQ(fields_find(text, "nope", &v), -ENOENT);
}
