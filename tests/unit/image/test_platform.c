#include "image/platform.h"
#include "test.h"

static struct image_platform of(const char *text)
{
    struct image_platform p;

    CHECK_EQ(image_platform_parse(str_of(text), &p, NULL), 0);
    return p;
}

static const char *again(const char *text)
{
    static char out[IMAGE_PLATFORM_TEXT_MAX];
    struct image_platform p = of(text);

    image_platform_format(&p, out);
    return out;
}

TEST(platform, reads_what_people_write)
{
    CHECK_STR(again("linux/amd64"), "linux/amd64");
    CHECK_STR(again("amd64"), "linux/amd64");
    CHECK_STR(again("x86_64"), "linux/amd64");
    CHECK_STR(again("linux/aarch64"), "linux/arm64");
    CHECK_STR(again("linux/arm/v6"), "linux/arm/v6");
    CHECK_STR(again("armhf"), "linux/arm/v7");
    CHECK_STR(again("windows/amd64"), "windows/amd64");
}

TEST(platform, refuses_what_is_none)
{
    static const char *const bad[] = {
        "",        "/",     "linux/",       "linux/amd64/",
        "a/b/c/d", "linux", "linux/am d64", "linux/0123456789012345678901234567890123"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = {0};

        CHECK_EQ(image_platform_parse(str_of(bad[i]), &(struct image_platform){""}, &e), -EINVAL);
        CHECK(strstr(e.msg, "linux/amd64") != NULL);
    }
}

TEST(platform, of_this_host_is_linux_and_known)
{
    struct image_platform p;

    image_platform_host(&p);
    CHECK_STR(p.os, "linux");
    CHECK(image_platform_match(&p, &p) > 0);
}

static int match(const char *want, const char *have)
{
    struct image_platform w = of(want), h = of(have);

    return image_platform_match(&w, &h);
}

TEST(platform, older_variants_run_on_newer_ones)
{
    CHECK(match("linux/amd64", "linux/amd64") > 0);
    CHECK_EQ(match("linux/amd64", "linux/arm64"), 0);
    CHECK_EQ(match("linux/amd64", "windows/amd64"), 0);
    CHECK_EQ(match("linux/amd64", "linux/amd64/v3"), 0);
    CHECK(match("linux/amd64/v3", "linux/amd64") > 0);
    CHECK(match("linux/amd64/v3", "linux/amd64/v3") > match("linux/amd64/v3", "linux/amd64/v2"));
    CHECK(match("linux/arm64", "linux/arm64/v8") > 0);
    CHECK(match("linux/arm/v7", "linux/arm/v6") > 0);
    CHECK(match("linux/arm/v7", "linux/arm/v6") > match("linux/arm/v7", "linux/arm/v5"));
    CHECK_EQ(match("linux/arm/v6", "linux/arm/v7"), 0);
    CHECK_EQ(match("linux/arm/softfloat", "linux/arm/hardfloat"), 0);
}
