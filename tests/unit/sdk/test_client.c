#include <opensandbox/opensandbox.h>
#include <poll.h>
#include <unistd.h>

#include "test.h"

static struct osb_client *client;
static char why[OSB_MESSAGE_MAX];

static int open_with(struct osb_config config)
{
    config.size = sizeof(config);
    return osb_client_open(&config, &client, why);
}

static void check_url(struct osb_config config, const char *url)
{
    if (open_with(config) < 0)
        test_fail(__FILE__, __LINE__, "%s", why);
    CHECK_STR(osb_client_base_url(client), url);
    osb_client_close(client);
}

static void forget_environment(void)
{
    unsetenv("OPEN_SANDBOX_DOMAIN");
    unsetenv("OPEN_SANDBOX_PROTOCOL");
    unsetenv("OPEN_SANDBOX_API_KEY");
}

TEST(client, knows_where_its_server_is)
{
    forget_environment();
    check_url((struct osb_config){0}, "http://localhost:8080/v1");
    check_url((struct osb_config){.domain = "h:99"}, "http://h:99/v1");
    check_url((struct osb_config){.domain = "h", .protocol = "HTTPS"}, "https://h/v1");
    check_url((struct osb_config){.domain = "https://h/p/", .protocol = "http"}, "https://h/p/v1");
    check_url((struct osb_config){.domain = "http://h/p/v1/"}, "http://h/p/v1");
    check_url((struct osb_config){.domain = "[::1]:8080"}, "http://[::1]:8080/v1");
}

TEST(client, takes_the_environment_after_the_program)
{
    forget_environment();
    CHECK_EQ(setenv("OPEN_SANDBOX_DOMAIN", "env:1", 1), 0);
    CHECK_EQ(setenv("OPEN_SANDBOX_PROTOCOL", "https", 1), 0);
    check_url((struct osb_config){0}, "https://env:1/v1");
    check_url((struct osb_config){.domain = "own:2"}, "https://own:2/v1");
    check_url((struct osb_config){.no_environment = true}, "http://localhost:8080/v1");
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(client, takes_the_file_last)
{
    char dir[] = "/tmp/osb-config-XXXXXX", path[64];

    forget_environment();
    CHECK(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/c.toml", dir);
    write_file(path, "[connection]\ndomain = \"file:3\"\nprotocol = \"https\"\n"
                     "request_timeout = 1.5\nuse_server_proxy = true\n[output]\ncolor = true\n");
    check_url((struct osb_config){.config_file = path}, "https://file:3/v1");
    check_url((struct osb_config){.config_file = path, .domain = "own"}, "https://own/v1");
    write_file(path, "[connection]\ndomain = 7\n");
    CHECK(open_with((struct osb_config){.config_file = path}) < 0);
    CHECK(strstr(why, "c.toml:2:10: expected a string"));
    write_file(path, "[connection]\nrequest_timeout = 0\n");
    CHECK(open_with((struct osb_config){.config_file = path}) < 0);
    unlink(path);
    CHECK_EQ(open_with((struct osb_config){.config_file = path}), -ENOENT);
    CHECK_EQ(setenv("HOME", dir, 1), 0); /* without a file of its own that is fine */
    check_url((struct osb_config){.config_file = ""}, "http://localhost:8080/v1");
    rmdir(dir);
}

TEST(client, refuses_what_cannot_work)
{
    static const char *const domains[] = {"ftp://h", "h:0", "h:99999", "a b", "http://u:p@h"};
    struct osb_pair bad = {"a b", "c"};

    forget_environment();
    for (size_t i = 0; i < 5; i++)
        if (open_with((struct osb_config){.domain = domains[i]}) == 0)
            test_fail(__FILE__, __LINE__, "%s was taken", domains[i]);
    CHECK(open_with((struct osb_config){.protocol = "gopher"}) < 0);
    CHECK(strstr(why, "expected http or https"));
    CHECK(open_with((struct osb_config){.api_key = "a\nb"}) < 0);
    CHECK(!strstr(why, "a\nb"));
    CHECK(open_with((struct osb_config){.headers = &bad, .header_count = 1}) < 0);
}

TEST(client, says_who_cannot_be_reached)
{
    struct osb_answer *a;

    forget_environment();
    CHECK_EQ(open_with((struct osb_config){.domain = "127.0.0.1:1"}), 0);
    CHECK_EQ(osb_sandbox_list(client, NULL, &a), -ECONNREFUSED);
    CHECK(strstr(osb_error_message(osb_client_error(client)), "http://127.0.0.1:1"));
    CHECK_EQ(osb_error_status(osb_client_error(client)), 0);
    osb_client_close(client);
    CHECK_EQ(open_with((struct osb_config){.domain = "no-such-host.invalid"}), 0);
    CHECK(osb_sandbox_list(client, NULL, &a) < 0);
    CHECK(strstr(osb_error_message(osb_client_error(client)), "no-such-host.invalid"));
    osb_client_close(client);
}

static void nap(struct osb_client *c, void *user)
{
    if (osb_sleep(c, 20) == 0)
        ++*(int *)user;
}

TEST(client, runs_tasks_by_its_descriptor_alone)
{
    struct osb_task *tasks[50];
    int naps = 0;

    CHECK_EQ(open_with((struct osb_config){0}), 0);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(osb_task_start(client, nap, &naps, &tasks[i]), 0);
    while (naps < 50) {
        struct pollfd polled = {osb_client_fd(client), POLLIN, 0};

        CHECK_EQ(poll(&polled, 1, 10000), 1); /* no timer of ours: the descriptor knows */
        CHECK_EQ(osb_client_dispatch(client), 0);
    }
    for (int i = 0; i < 50; i++)
        CHECK_EQ(osb_task_join(tasks[i]), 0);
    osb_client_close(client);
}

TEST(client, knows_options_of_another_version)
{
    struct {
        struct osb_config known;
        const char *later;
    } config = {
        .known = {.domain = "h", .config_file = "/none"}
    };

    forget_environment();
    config.known.size = sizeof(config); /* of a later one: what we do not know is ignored */
    CHECK(osb_client_open(&config.known, &client, why) < 0);
    config.known.size = offsetof(struct osb_config, config_file); /* of an earlier one */
    CHECK_EQ(osb_client_open(&config.known, &client, why), 0);
    CHECK_STR(osb_client_base_url(client), "http://h/v1");
    osb_client_close(client);
}
