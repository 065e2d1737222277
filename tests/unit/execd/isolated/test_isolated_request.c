#include "execd/isolated/isolated_request.h"

#include "test.h"

static const char *const env[] = {
    "PATH=/bin", "HOME=/root", "OPENAI_API_KEY=1", "github_Token=2", "X_SECRET=3", "PG_PASSWORD=4",
    "AWS_X=5",   "ALI_X=6",    "ALIYUN_X=7",       "k8s_x=8",        "KUBE_X=9",   "TOKEN=10",
    "PLAIN=11",  NULL,
};

/* The values of what passes, in order. */
static void check(const struct isolated_spec *spec, const char *wanted)
{
    AUTO_ARENA(arena, 64 << 10);
    AUTO_BUF(text, 1024);
    const char *const *rows = NULL;

    CHECK_EQ(isolated_env_filter(&arena, spec, env, &rows), 0);
    for (; *rows; rows++)
        CHECK_EQ(buf_addf(&text, "%s ", strchr(*rows, '=') + 1), 0);
    CHECK_STR(text.p, wanted);
}

TEST(isolated_request, holds_back_what_looks_like_a_secret)
{
    check(&(struct isolated_spec){.profile = ISOLATED_STRICT}, "/bin /root 10 11 ");
    check(&(struct isolated_spec){.profile = ISOLATED_BALANCED},
          "/bin /root 1 2 3 4 5 6 7 8 9 10 11 ");
}

TEST(isolated_request, passes_what_the_request_says)
{
    struct str keys[] = {STR_INIT("plain"), STR_INIT("Aws_*")};
    struct isolated_spec spec = {
        .env = ISOLATED_ENV_ALLOW, .env_keys = keys, .env_keys_count = ARRAY_LEN(keys)};

    check(&spec, "/bin /root 5 11 ");
    spec.env = ISOLATED_ENV_DENY;
    check(&spec, "/bin /root 10 ");
    spec.profile = ISOLATED_BALANCED;
    check(&spec, "/bin /root 1 2 3 4 6 7 8 9 10 ");
}
