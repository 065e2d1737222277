#include "osb/cli.h"

#include "base/toml.h"
#include "test.h"

static void check_set(const char *before, const char *field, const char *value, const char *after)
{
    AUTO_ARENA(a, 1024 * 1024);
    struct str text =
        settings_set(&a, str_of(before), STR("connection"), str_of(field), str_of(value));
    struct toml *root;

    CHECK_STR(text.p, after);
    CHECK_EQ(toml_parse(&a, text, "test", &root, NULL), 0);
}

TEST(settings, set_replaces_a_field_and_keeps_the_rest)
{
    check_set("# a\n[connection]\ndomain = \"old\"\nprotocol = \"http\"\n", "domain", "new:1",
              "# a\n[connection]\ndomain = \"new:1\"\nprotocol = \"http\"\n");
}

TEST(settings, set_replaces_a_field_that_is_commented_out)
{
    check_set("[connection]\n# domain = \"x\"\n[output]\n", "domain", "y",
              "[connection]\ndomain = \"y\"\n[output]\n");
}

TEST(settings, set_adds_a_field_or_a_section)
{
    check_set("[connection]\n[output]\n", "domain", "y",
              "[connection]\ndomain = \"y\"\n[output]\n");
    check_set("[output]\n", "domain", "y", "[output]\n\n[connection]\ndomain = \"y\"\n");
    check_set("", "domain", "y", "\n[connection]\ndomain = \"y\"\n");
}

TEST(settings, set_infers_types_and_escapes_strings)
{
    check_set("[connection]\n", "n", "30", "[connection]\nn = 30\n");
    check_set("[connection]\n", "n", "1.5", "[connection]\nn = 1.5\n");
    check_set("[connection]\n", "n", "TRUE", "[connection]\nn = true\n");
    check_set("[connection]\n", "n", "a\"b\\c", "[connection]\nn = \"a\\\"b\\\\c\"\n");
    check_set("[connection]\n", "n", "1.2.3", "[connection]\nn = \"1.2.3\"\n");
}

TEST(settings, template_is_toml)
{
    AUTO_ARENA(a, 1024 * 1024);
    struct toml *root;

    CHECK_EQ(toml_parse(&a, str_of(settings_template), "template", &root, NULL), 0);
}
