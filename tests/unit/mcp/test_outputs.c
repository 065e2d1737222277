#include "mcp/outputs.h"

#include <errno.h>

#include "test.h"

TEST(outputs, are_found_whole_and_in_parts)
{
    const struct output *one;
    struct outputs all;
    AUTO_BUF(uri, 256);
    struct str part;

    outputs_init(&all);
    CHECK_EQ(outputs_add(&all, "name", STR("0123456789"), &one), 0);
    CHECK(outputs_find(&all, str_of(one->uri), &part) == one);
    CHECK_SPAN(part, "0123456789");
    CHECK_EQ(buf_addf(&uri, "%s?offset=8&length=5", one->uri), 0);
    CHECK(outputs_find(&all, buf_str(&uri), &part) == one);
    CHECK_SPAN(part, "89");
    CHECK_EQ(buf_addf(&uri, "x"), 0);
    CHECK(!outputs_find(&all, buf_str(&uri), &part));
    CHECK(!outputs_find(&all, STR(OUTPUT_URI), &part));
    outputs_done(&all);
}

TEST(outputs, go_when_newer_ones_need_the_room)
{
    const struct output *one;
    struct outputs all;

    outputs_init(&all);
    for (int i = 0; i < OUTPUTS_MAX + 3; i++)
        CHECK_EQ(outputs_add(&all, "name", STR("x"), &one), 0);
    CHECK_EQ(all.count, OUTPUTS_MAX);
    CHECK_EQ(all.bytes, OUTPUTS_MAX);
    outputs_done(&all);
    CHECK_EQ(outputs_add(&all, "name", str_make("", OUTPUT_BYTES_MAX + 1), &one), -EFBIG);
}

TEST(outputs, are_cut_between_characters)
{
    const struct str text = STR("a\303\274b"); /* of which the second has two bytes */

    CHECK_SPAN(outputs_part(text, 0, 2), "a\303\274");
    CHECK_SPAN(outputs_part(text, 2, 2), "b");
    CHECK_SPAN(outputs_part(text, 2, 0), "");
    CHECK_SPAN(outputs_part(text, 99, 1), "");
}
