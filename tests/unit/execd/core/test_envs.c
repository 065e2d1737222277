#include "execd/core/envs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static const char *const ours[] = {"PATH=/bin", "A=1", "EXECD_ACCESS_TOKEN=secret",
                                   "JUPYTER_TOKEN=secret", NULL};

/* All rows, in their order, with ; between. */
static const char *make(const char *const *env, struct str file, const struct json_pair *extra,
                        size_t count)
{
    static char out[1024];
    AUTO_ARENA(a, 1 << 20);
    const char *const *rows;
    size_t n = 0;

    CHECK_EQ(envs_make(&a, env, file, extra, count, &rows), 0);
    out[0] = '\0';
    for (; *rows; rows++)
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s", n ? ";" : "", *rows);
    return out;
}

TEST(envs, leave_the_secrets_of_the_daemon_behind)
{
    CHECK_STR(make(ours, STR(""), NULL, 0), "PATH=/bin;A=1");
}

TEST(envs, are_overlaid_by_the_file_and_that_by_the_request)
{
    static const struct json_pair extra[] = {
        {STR_INIT("A"), STR_INIT("r=$A")},
        {STR_INIT("E"), STR_INIT("")    },
    };

    CHECK_STR(make(ours, STR("A=2\nB=3\nB=4"), NULL, 0), "PATH=/bin;A=2;B=4");
    CHECK_STR(make(ours, STR("A=2\n"), extra, 2), "PATH=/bin;A=r=$A;E=");
}

TEST(envs, reads_the_lines_of_the_file)
{
    static const struct {
        struct str file;
        const char *want;
    } cases[] = {
        {STR_INIT("# no\n\n  \t\n  X = y \r\n"),           "PATH=/bin;A=1;X= y"               },
        {STR_INIT("X=a=b\nexport Y\n=z\nno pair"),         "PATH=/bin;A=1;X=a=b"              },
        {STR_INIT("X=\"q\""),                              "PATH=/bin;A=1;X=\"q\""            },
        {STR_INIT("X=$A ${A} $NOPE|${NOPE}|"),             "PATH=/bin;A=1;X=1 1 ||"           },
        {STR_INIT("X=$ $5 ${ ${A $"),                      "PATH=/bin;A=1;X=$ $5 ${ ${A $"    },
        {STR_INIT("A=2\nX=$A"),                            "PATH=/bin;A=2;X=1"                },
        {STR_INIT("X=$EXECD_ACCESS_TOKEN$JUPYTER_TOKEN."), "PATH=/bin;A=1;X=."                },
        {STR_INIT("X=a\0b\nY=1"),                          "PATH=/bin;A=1;Y=1"                },
        {STR_INIT("X='$A \\n \"q\" '\nY=1"),               "PATH=/bin;A=1;X=$A \\n \"q\" ;Y=1"},
        {STR_INIT("X='a\n# b\n\nY=2' \r\nY=1"),            "PATH=/bin;A=1;X=a\n# b\n\nY=2;Y=1"},
        {STR_INIT("X=''\nY='"),                            "PATH=/bin;A=1;X=;Y='"             },
        {STR_INIT("X='a'b'\nY='c\nZ=d"),                   "PATH=/bin;A=1;X='a'b';Y='c;Z=d"   },
        {STR_INIT("# X='\nY=1\n'"),                        "PATH=/bin;A=1;Y=1"                },
        {STR_INIT("X=\"it's $A \\\"\\\\\\n\\t.\""),        "PATH=/bin;A=1;X=it's 1 \"\\\n\t." },
        {STR_INIT("X=\"'\\\""),                            "PATH=/bin;A=1;X='\\"              },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_STR(make(ours, cases[i].file, NULL, 0), cases[i].want);
}

TEST(envs, names_must_be_what_the_kernel_takes)
{
    CHECK(envs_is_name(STR("A")) && envs_is_name(STR("a.b-c")));
    CHECK(!envs_is_name(STR("")) && !envs_is_name(STR("A=B")) && !envs_is_name(STR("A\0")));
}

TEST(envs, reads_the_file_that_the_environment_names)
{
    char path[] = "/tmp/test_envs_XXXXXX", row[64];
    const char *env[] = {row, "D=/tmp", NULL};
    AUTO_BUF(out, ENVS_FILE_BYTES_MAX);
    int fd = mkostemp(path, O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "A=1\n", 4), 4);
    close(fd);
    snprintf(row, sizeof(row), "EXECD_ENVS=$D%s", path + strlen("/tmp"));
    envs_read_file(env, &out);
    CHECK_STR(out.p, "A=1\n");
    unlink(path);
    buf_clear(&out);
    envs_read_file(env, &out); /* gone: a warning, and nothing */
    CHECK_EQ(out.n, 0);
    CHECK_EQ(mkfifo(path, 0600), 0);
    envs_read_file(env, &out); /* a pipe: the same, and at once */
    CHECK_EQ(out.n, 0);
    unlink(path);
    env[0] = NULL;
    envs_read_file(env, &out);
    CHECK_EQ(out.n, 0);
}
