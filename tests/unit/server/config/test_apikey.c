#include "server/config/apikey.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "config_fixture.h"

struct scratch {
    char dir[32], path[64];
};

static void scratch_done(struct scratch *s)
{
    (void)unlink(s->path);
    if (rmdir(s->dir) < 0)
        test_fail(__FILE__, __LINE__, "something is left in %s", s->dir);
}
#define auto_scratch __attribute__((cleanup(scratch_done))) struct scratch

static struct scratch scratch_new(void)
{
    struct scratch s = {"/tmp/apikey.XXXXXX", ""};

    CHECK(mkdtemp(s.dir));
    (void)snprintf(s.path, sizeof(s.path), "%s/api_key", s.dir);
    return s;
}

static struct parsed config_at(const struct scratch *s, const char *more)
{
    AUTO_BUF(text, 4096);

    CHECK_EQ(buf_addf(&text, "[store]\npath = '%s/x.db'\n%s", s->dir, more), 0);
    return parse(text.p);
}

static void write_key(const struct scratch *s, const char *text, mode_t mode)
{
    int fd = open(s->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK_EQ(fchmod(fd, mode), 0);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    CHECK_EQ(close(fd), 0);
}

TEST(apikey, comes_from_the_configuration)
{
    auto_scratch s = scratch_new();
    auto_parsed p = config_at(&s, "[server]\napi_key = 'a'\napi_keys = ['b', '  ', 'c']\n");
    AUTO_BUF(text, 4096);
    struct apikey k;

    CHECK_EQ(apikey_load(p.config, &k, NULL), 0);
    CHECK_EQ(k.source, APIKEY_CONFIGURED);
    CHECK_EQ(k.count, 3);
    CHECK_SPAN(k.keys[0], "a");
    CHECK_SPAN(k.keys[2], "c");
    CHECK_EQ(apikey_describe(&k, "127.0.0.1:1", &text), 0);
    CHECK_STR(text.p, "3 API keys are configured\n");
    CHECK(access(s.path, F_OK) < 0); /* and none was made */
    apikey_done(&k);
}

TEST(apikey, is_made_once_and_kept)
{
    auto_scratch s = scratch_new();
    auto_parsed p = config_at(&s, "[server]\napi_key = ' '\n"); /* blank is none */
    struct apikey k, again;
    struct stat st;

    CHECK_EQ(apikey_load(p.config, &k, NULL), 0);
    CHECK_EQ(k.source, APIKEY_MADE);
    CHECK_EQ(k.count, 1);
    CHECK_EQ(k.keys[0].n, APIKEY_LEN);
    CHECK_EQ(
        strspn(k.keys[0].p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
        APIKEY_LEN);
    CHECK_STR(k.path, s.path);
    CHECK_EQ(stat(s.path, &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0600);
    CHECK_EQ(apikey_load(p.config, &again, NULL), 0);
    CHECK_EQ(again.source, APIKEY_STORED);
    CHECK(str_eq(again.keys[0], k.keys[0]));
    apikey_done(&k);
    apikey_done(&again);
}

TEST(apikey, is_the_same_for_starts_at_the_same_time)
{
    enum { STARTS = 8 };
    auto_scratch s = scratch_new();
    auto_parsed p = config_at(&s, "");
    int ends[2], status;
    char first[APIKEY_LEN], key[APIKEY_LEN];

    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < STARTS; i++) {
        if (fork() == 0) {
            struct apikey k;
            bool good = apikey_load(p.config, &k, NULL) == 0 &&
                        write(ends[1], k.keys[0].p, APIKEY_LEN) == APIKEY_LEN;

            _exit(!good);
        }
    }
    for (int i = 0; i < STARTS; i++) {
        CHECK(wait(&status) > 0);
        CHECK_EQ(status, 0);
        CHECK_EQ(read(ends[0], i ? key : first, APIKEY_LEN), APIKEY_LEN);
        CHECK(i == 0 || memcmp(first, key, APIKEY_LEN) == 0);
    }
}

TEST(apikey, is_refused_when_others_could_know_it)
{
    static const struct {
        const char *text;
        mode_t mode;
        int r;
        const char *says;
    } cases[] = {
        {"sesame\n",  0640, -EPERM,  "can be read by others (mode 0640)"},
        {"sesame\n",  0604, -EPERM,  "can be read by others (mode 0604)"},
        {"",          0600, -EINVAL, "holds no key"                     },
        {"two\nkeys", 0600, -EINVAL, "holds no key"                     },
    };
    auto_scratch s = scratch_new();
    auto_parsed p = config_at(&s, "");

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = {0};
        struct apikey k;

        write_key(&s, cases[i].text, cases[i].mode);
        CHECK_EQ(apikey_load(p.config, &k, &e), cases[i].r);
        CHECK(strstr(e.msg, cases[i].says));
        CHECK(strstr(e.msg, s.path));
    }
}

TEST(apikey, is_refused_when_another_user_wrote_it)
{
    auto_scratch s = scratch_new();
    auto_parsed p = config_at(&s, "");
    struct err e = {0};
    struct apikey k;

    if (geteuid() != 0)
        test_skip("only root can give a file away");
    write_key(&s, "sesame\n", 0600);
    CHECK_EQ(chown(s.path, 1234, 1234), 0);
    CHECK_EQ(apikey_load(p.config, &k, &e), -EPERM);
    CHECK(strstr(e.msg, "belongs to user 1234, and this is 0"));
}

TEST(apikey, is_not_read_through_a_link)
{
    auto_scratch s = scratch_new();
    auto_parsed p = config_at(&s, "");
    struct apikey k;

    CHECK_EQ(symlink("/etc/hostname", s.path), 0);
    CHECK_EQ(apikey_load(p.config, &k, NULL), -ELOOP);
}

TEST(apikey, is_asked_for_unless_the_operator_waived_it)
{
    auto_scratch s = scratch_new();
    auto_parsed p = config_at(&s, "");
    AUTO_BUF(text, 4096);
    struct apikey k;

    p.config->insecure = true;
    CHECK_EQ(apikey_load(p.config, &k, NULL), 0);
    CHECK_EQ(k.source, APIKEY_NONE);
    CHECK_EQ(k.count, 0);
    CHECK(access(s.path, F_OK) < 0);
    CHECK_EQ(apikey_describe(&k, "0.0.0.0:80", &text), 0);
    CHECK(strstr(text.p, "anyone who can reach 0.0.0.0:80 can run code here"));
}

TEST(apikey, tells_how_it_is_used)
{
    static const struct {
        const char *address, *domain;
    } cases[] = {
        {"127.0.0.1:8080", "127.0.0.1:8080"},
        {"0.0.0.0:8080",   "127.0.0.1:8080"},
        {"[::]:1",         "127.0.0.1:1"   },
        {"[::1]:1",        "[::1]:1"       },
    };
    struct apikey k = {.source = APIKEY_MADE, .path = (char[]){"/s/api_key"}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF(text, 4096);
        AUTO_BUF(want, 4096);

        CHECK_EQ(apikey_describe(&k, cases[i].address, &text), 0);
        CHECK_EQ(buf_addf(&want,
                          "an API key was made and is in /s/api_key\nto use it:\n"
                          "  export OPEN_SANDBOX_API_KEY=\"$(cat '/s/api_key')\"\n"
                          "  export OPEN_SANDBOX_DOMAIN=%s\n",
                          cases[i].domain),
                 0);
        CHECK_STR(text.p, want.p);
    }
}

TEST(apikey, needs_its_directory)
{
    PARSE(p, "[store]\npath = '/nowhere/at/all/x.db'\n");
    struct err e = {0};
    struct apikey k;

    CHECK_EQ(apikey_load(p.config, &k, &e), -ENOENT);
    CHECK_STR(e.msg, "API key: open '/nowhere/at/all': No such file or directory");
}
