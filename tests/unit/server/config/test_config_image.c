#include "config_fixture.h"

/* The directory's last letter that an image stands for; 0 = none, '-' = host. */
static char found(const struct config *c, const char *image)
{
    const struct config_image *i = config_image_find(c, str_of(image));

    return !i ? '0' : i->kind == CONFIG_IMAGE_HOST ? '-' : i->dir[strlen(i->dir) - 1];
}

TEST(config_image, finds_the_first_match)
{
    PARSE(p, "[embedded.images]\n'python:3.?' = 'dir:/a'\n'python:*' = 'dir:/b'\n"
             "'*/code-interpreter:*' = 'dir:/c'\n'plain' = 'dir:/d'\n'old:latest' = 'dir:/e'\n"
             "'x*y*z' = 'dir:/f'\n'ubuntu:*' = 'host'\n");
    const struct config *c = p.config;

    CHECK_EQ(found(c, "python:3.9"), 'a');
    CHECK_EQ(found(c, "python:3.11"), 'b');
    CHECK_EQ(found(c, "python"), 'b'); /* as python:latest */
    CHECK_EQ(found(c, "registry:5000/code-interpreter"), 'c');
    CHECK_EQ(found(c, "opensandbox/code-interpreter:v1"), 'c');
    CHECK_EQ(found(c, "plain"), 'd');
    CHECK_EQ(found(c, "plain:latest"), 'd');
    CHECK_EQ(found(c, "plain:latest@sha256:00"), 'd');
    CHECK_EQ(found(c, "docker.io/library/plain:latest"), 'd');
    CHECK_EQ(found(c, "plain:1"), '0');
    CHECK_EQ(found(c, "old"), 'e');
    CHECK_EQ(found(c, "old@sha256:00"), '0'); /* a digest may be that of any tag */
    CHECK_EQ(found(c, "xyyzyz"), 'f');
    CHECK_EQ(found(c, "xyzy"), '0');
    CHECK_EQ(found(c, "ubuntu:22.04"), '-');
    CHECK_EQ(found(c, "host"), '-');
    CHECK_EQ(found(c, "hosts"), '0');
    CHECK_EQ(found(c, ""), '0');
}

TEST(config_image, takes_names_for_what_docker_takes_them_for)
{
    PARSE(p, "[embedded.images]\n'python:3.?' = 'dir:/a'\n'python:*' = 'dir:/b'\n"
             "'docker.io/library/go:*' = 'dir:/c'\n'me/app:*' = 'dir:/d'\n"
             "'docker.io/rs' = 'dir:/e'\n'localhost/x:1' = 'dir:/f'\n");
    const struct config *c = p.config;

    CHECK_EQ(found(c, "library/python:3.9"), 'a');
    CHECK_EQ(found(c, "docker.io/python:3.9"), 'a');
    CHECK_EQ(found(c, "docker.io/library/python"), 'b');
    CHECK_EQ(found(c, "index.docker.io/library/python:2"), 'b');
    CHECK_EQ(found(c, "python@sha256:00"), 'b');
    CHECK_EQ(found(c, "python:3.9@sha256:00"), 'a');
    CHECK_EQ(found(c, "docker.io/library/python:3.11@sha256:00"), 'b');
    CHECK_EQ(found(c, "go:1"), 'c');
    CHECK_EQ(found(c, "docker.io/me/app"), 'd');
    CHECK_EQ(found(c, "rs"), 'e');
    CHECK_EQ(found(c, "localhost/x:1"), 'f');
    CHECK_EQ(found(c, "x:1"), '0');
    CHECK_EQ(found(c, "@sha256:00"), '0');
}

/* With its digest or without: the first pattern that is either counts. */
TEST(config_image, finds_the_first_match_of_a_tag_with_a_digest)
{
    PARSE(p, "[embedded.images]\n'go:1@sha256:00' = 'dir:/a'\n'go:1' = 'dir:/b'\n"
             "'go:*' = 'dir:/c'\n'go:1@*' = 'dir:/d'\n'rs:1@sha256:00' = 'dir:/e'\n");
    const struct config *c = p.config;

    CHECK_EQ(found(c, "go:1@sha256:00"), 'a');
    CHECK_EQ(found(c, "docker.io/library/go:1@sha256:00"), 'a');
    CHECK_EQ(found(c, "go:1@sha256:01"), 'b');
    CHECK_EQ(found(c, "go:2@sha256:01"), 'c');
    CHECK_EQ(found(c, "rs:1@sha256:00"), 'e');
    CHECK_EQ(found(c, "rs:1"), '0');
    CHECK_EQ(found(c, "rs@sha256:00"), '0');
}

TEST(config_image, knows_whose_an_image_is)
{
    PARSE(p, "[embedded.images]\n'library/*' = 'dir:/a'\n'docker.io/*' = 'dir:/b'\n");
    const struct config *c = p.config;

    CHECK_EQ(found(c, "python"), 'a');
    CHECK_EQ(found(c, "docker.io/library/host"), 'a');
    CHECK_EQ(found(c, "me/app"), 'b');
    CHECK_EQ(found(c, "quay.io/library/python"), 'a');
    CHECK_EQ(found(c, "quay.io/me/app"), '0');
}

TEST(config_image, matches_any_registry_unless_the_pattern_names_one)
{
    PARSE(p, "[embedded.images]\n'opensandbox/code-interpreter:*' = 'dir:/a'\n"
             "'ghcr.io/me/app:*' = 'dir:/b'\n'python:*' = 'dir:/c'\n'opensandbox/*' = 'dir:/d'\n");
    const struct config *c = p.config;

    CHECK_EQ(found(c, "opensandbox/code-interpreter:v1.0.2"), 'a');
    CHECK_EQ(found(c, "docker.io/opensandbox/code-interpreter:v1.0.2"), 'a');
    CHECK_EQ(found(c, "sandbox-registry.cn-zhangjiakou.cr.aliyuncs.com/opensandbox/"
                      "code-interpreter:v1.0.2"),
             'a');
    CHECK_EQ(found(c, "registry.example.com:5000/opensandbox/code-interpreter@sha256:00"), 'a');
    CHECK_EQ(found(c, "opensandbox/code-interpreter"), 'a'); /* its :latest, before any tag */
    CHECK_EQ(found(c, "localhost/opensandbox/desktop"), 'd');
    CHECK_EQ(found(c, "ghcr.io/me/app:1"), 'b');
    CHECK_EQ(found(c, "me/app:1"), '0');
    CHECK_EQ(found(c, "quay.io/me/app:1"), '0');
    CHECK_EQ(found(c, "quay.io/library/python:3.9"), 'c');
    CHECK_EQ(found(c, "registry:5000/python"), 'c');
    CHECK_EQ(found(c, "mirror.example.com/docker.io/library/python:3.12"), 'c');
    CHECK_EQ(found(c, "ghcr.io/me/python:3.12"), '0'); /* an image of another owner */
    CHECK_EQ(found(c, "quay.io/"), '0');
    CHECK_EQ(found(c, "quay.io/host"), '0');
}

TEST(config_image, is_quick_with_patterns_made_to_be_slow)
{
    AUTO_BUF(name, 4096);

    PARSE(p, "[embedded.images]\n'a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b' = 'host'\n");
    while (name.n < 3000)
        CHECK_EQ(buf_add_char(&name, 'a'), 0);
    CHECK_EQ(found(p.config, name.p), '0');
}

TEST(config_image, knows_no_image_but_host_by_default)
{
    PARSE(p, "");
    CHECK_EQ(found(p.config, "host"), '-');
    CHECK_EQ(found(p.config, "python:3.11"), '0');
}
