#include "server/config/init_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "config_fixture.h"

TEST(init_config, has_examples_that_load)
{
    static const char *const names[] = {"embedded", "docker", "docker-zh", "k8s", "k8s-zh"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_BUF(text, 1 << 20);

        CHECK_EQ(init_config_text(names[i], &text, NULL), 0);
        PARSE(p, text.p);
        CHECK_STR(p.report.lines.p, "");
        CHECK_EQ(p.config->runtime.type, i == 0  ? CONFIG_RUNTIME_EMBEDDED
                                         : i < 3 ? CONFIG_RUNTIME_DOCKER
                                                 : CONFIG_RUNTIME_KUBERNETES);
    }
}

TEST(init_config, maps_common_images_to_the_host_in_the_embedded_example)
{
    static const char *const names[] = {
        "python:3.12", "node", "golang:1.24", "ubuntu:24.04", "debian", "ghcr.io/opensandbox/x:1",
    };
    AUTO_BUF(text, 1 << 20);
    struct err e = {0};

    CHECK_EQ(init_config_text("embedded", &text, &e), 0);
    PARSE(p, text.p);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct config_image *image = config_image_find(p.config, str_of(names[i]));

        CHECK(image && image->kind == CONFIG_IMAGE_HOST);
    }
    CHECK(!config_image_find(p.config, STR("someone/else")));
}

TEST(init_config, knows_no_other_example)
{
    AUTO_BUF(text, 1 << 20);
    struct err e = {0};

    CHECK_EQ(init_config_text("swarm", &text, &e), -EINVAL);
    CHECK_STR(e.msg, "--example 'swarm': expected embedded, docker or k8s");
}

TEST(init_config, replaces_a_file_by_force_only)
{
    char dir[] = "/tmp/init.XXXXXX", path[64];
    AUTO_BUF(text, 1 << 20);
    AUTO_BUF(says, 1 << 20);
    struct err e = {0};
    struct stat st;

    CHECK(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/c.toml", dir);
    CHECK_EQ(init_config_write(path, NULL, false, &says, NULL), 0);
    CHECK(strstr(says.p, path));
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0600);
    CHECK_EQ(init_config_write(path, "embedded", false, &says, &e), -EEXIST);
    CHECK(strstr(e.msg, "there is one already; --force replaces it"));
    CHECK_EQ(init_config_write(path, "embedded", true, &says, NULL), 0);
    CHECK_EQ(io_read_file(AT_FDCWD, path, 1 << 20, &text, NULL), 0);
    CHECK(strstr(text.p, "embedded runtime"));
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(dir), 0);
    CHECK_EQ(init_config_write(path, NULL, false, &says, &e), -ENOENT);
}

TEST(init_config, writes_to_home_by_default)
{
    char dir[] = "/tmp/init.XXXXXX", path[64];
    AUTO_BUF(says, 4096);

    CHECK(mkdtemp(dir));
    CHECK_EQ(setenv("HOME", dir, 1), 0);
    CHECK_EQ(init_config_write(NULL, NULL, false, &says, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/.sandbox.toml", dir);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(dir), 0);
}
