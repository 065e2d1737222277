#include "osb/skills.h"

#include <errno.h>

#include "test.h"

enum { TEXT_MAX = 64 * 1024 };

#define FRONT "---\nname: x\ndescription: Does it. Use when needed.\n---\n\n"

TEST(skills, that_are_built_in_have_all_their_parts)
{
    CHECK_EQ(skill_count(), 7);
    for (size_t i = 0; i < skill_count(); i++) {
        struct skill skill = skill_at(i);
        struct skill_parts parts;

        CHECK_EQ(skill_read(skill.text, &parts), 0);
        CHECK(parts.title.n > 0 && parts.summary.n > 0 && parts.trigger.n > 0);
        CHECK(skill_section(parts.body, STR("When To Use")).n > 0);
        CHECK(skill_section(parts.body, STR("Minimal Closed Loops")).n > 0);
    }
}

TEST(skills, are_read_into_title_summary_and_trigger)
{
    struct skill_parts parts;

    CHECK_EQ(skill_read(STR(FRONT "# Title\n\nBody\n"), &parts), 0);
    CHECK(str_eq(parts.title, STR("Title")));
    CHECK(str_eq(parts.summary, STR("Does it.")));
    CHECK(str_eq(parts.trigger, STR("Use when needed.")));
    CHECK(str_eq(parts.body, STR("Body")));
}

TEST(skills, without_front_matter_or_heading_are_refused)
{
    static const char *const texts[] = {
        "",
        "# Title\n",
        "---\nname: x\n",
        "---\nname: x\n---\n# T\n",
        "---\ndescription: D. Use when it is.\n---\n# T\n",
        "---\nname: x\ndescription: no trigger\n---\n# T\n",
        FRONT "no heading\n",
    };
    struct skill_parts parts;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        CHECK_EQ(skill_read(str_of(texts[i]), &parts), -EINVAL);
}

TEST(skills, have_sections_up_to_the_next_heading)
{
    struct str body = STR("intro\n\n## One\n\na\n### sub\nb\n\n## Two\nc");

    CHECK(str_eq(skill_section(body, STR("One")), STR("a\n### sub\nb")));
    CHECK(str_eq(skill_section(body, STR("Two")), STR("c")));
    CHECK_EQ(skill_section(body, STR("Three")).n, 0);
    CHECK_EQ(skill_section(STR("## Last"), STR("Last")).n, 0);
}

TEST(skills, blocks_are_added_replaced_and_cut_again)
{
    static const char *const files[] = {"", "mine\n", "mine", "mine\n\nmore\n"};

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        AUTO_BUF(one, TEXT_MAX);
        AUTO_BUF(two, TEXT_MAX);
        AUTO_BUF(cut, TEXT_MAX);

        CHECK_EQ(skill_block_put(str_of(files[i]), "x", STR("old\n"), &one), 0);
        CHECK(strstr(one.p, "<!-- BEGIN opensandbox-x -->\nold\n<!-- END opensandbox-x -->\n"));
        CHECK_EQ(skill_block_put(buf_str(&one), "x", STR("new\n"), &two), 0);
        CHECK(!strstr(two.p, "old") && strstr(two.p, "new"));
        CHECK_EQ(skill_block_cut(buf_str(&two), "x", &cut), 0);
        if (strcmp(files[i], "mine") == 0) /* it got the end of its line */
            CHECK_STR(cut.p, "mine\n");
        else
            CHECK_STR(buf_str(&cut).n ? cut.p : "", files[i]);
    }
}

TEST(skills, blocks_of_others_stay)
{
    AUTO_BUF(one, TEXT_MAX);
    AUTO_BUF(two, TEXT_MAX);
    AUTO_BUF(cut, TEXT_MAX);

    CHECK_EQ(skill_block_put(STR("mine\n"), "x", STR("X"), &one), 0);
    CHECK_EQ(skill_block_put(buf_str(&one), "y", STR("Y"), &two), 0);
    CHECK_EQ(skill_block_cut(buf_str(&two), "x", &cut), 0);
    CHECK(strstr(cut.p, "Y") && !strstr(cut.p, "X") && strstr(cut.p, "mine"));
}

TEST(skills, block_with_one_marker_is_left_alone)
{
    AUTO_BUF(out, TEXT_MAX);
    struct str block;

    CHECK_EQ(skill_block_find(STR("a\n<!-- BEGIN opensandbox-x -->\n"), "x", &block), -EBADMSG);
    CHECK_EQ(skill_block_put(STR("<!-- END opensandbox-x -->"), "x", STR("b"), &out), -EBADMSG);
    CHECK_EQ(
        skill_block_cut(STR("<!-- END opensandbox-x --><!-- BEGIN opensandbox-x -->"), "x", &out),
        -EBADMSG);
    CHECK_EQ(skill_block_cut(STR("nothing"), "x", &out), -ENOENT);
}

TEST(skills, take_the_form_of_their_target)
{
    struct skill skill = {"x", "Area", STR(FRONT "# Title\n\nBody\n")};
    AUTO_BUF(file, TEXT_MAX);
    AUTO_BUF(rule, TEXT_MAX);

    CHECK_EQ(skill_write(&skill, SKILL_FILE, &file), 0);
    CHECK(str_eq(buf_str(&file), skill.text));
    CHECK_EQ(skill_write(&skill, SKILL_RULE, &rule), 0);
    CHECK_STR(rule.p, "# Title\n\nDoes it.\n\nBody\n");
}
