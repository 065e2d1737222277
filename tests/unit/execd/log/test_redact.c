#include "execd/log/redact.h"

#include "test.h"

static struct buf redacted;

static const char *of(const char *text)
{
    buf_done(&redacted);
    buf_init(&redacted, 4096);
    CHECK_EQ(redact(str_of(text), &redacted), 0);
    return redacted.p;
}

TEST(redact, leaves_what_is_no_secret)
{
    static const char *const same[] = {
        "",
        "echo 'hello world' | wc -l",
        "curl https://example.com:8080/a?b=c#d",
        "git clone git@github.com:a/b.git && cd b",
        "A=1 B=\"x y\" make -j4 --output=/tmp/x",
        "ls --color -la a-b_c \\\n 'd'",
        "AKIA AKIASHORT MAKIAIOSFODNN7EXAMPLE",
        "PWD=/root pwd",
        "caf\xc3\xa9 \xff\x01",
    };

    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        CHECK_STR(of(same[i]), same[i]);
}

TEST(redact, takes_credentials_out_of_addresses)
{
    CHECK_STR(of("git clone https://ann:pw@host/x y"), "git clone https://****@host/x y");
    CHECK_STR(of("psql 'postgres://u:p@q@db:5432/x'"), "psql 'postgres://****@db:5432/x'");
    CHECK_STR(of("https://ghp_abc@github.com"), "https://****@github.com");
    CHECK_STR(of("https://host/@scope/pkg"), "https://host/@scope/pkg");
    CHECK_STR(of("://a@://b@"), "://****@://****@");
}

TEST(redact, takes_the_values_of_headers)
{
    CHECK_STR(of("curl -H 'Authorization: Bearer abc def' -v"), "curl -H 'Authorization: ****' -v");
    CHECK_STR(of("curl -H \"authorization: Digest u='x', r='y'\" -v"),
              "curl -H \"authorization: ****\" -v");
    CHECK_STR(of("curl -H 'Authorization: Digest u=\"x\", r=\"y\"' z"),
              "curl -H 'Authorization: ****' z");
    CHECK_STR(of("-HProxy-Authorization:Basic\\ abc\nnext"), "-HProxy-Authorization:****\nnext");
    CHECK_STR(of("{\"Authorization\": \"Bearer x\", \"a\": 1}"),
              "{\"Authorization\": ****, \"a\": 1}");
    CHECK_STR(of("-d \"{\\\"Cookie\\\": \\\"a b\\\"}\" z"), "-d \"{\\\"Cookie\\\": ****}\" z");
    CHECK_STR(of("-H 'X-Api-Key: abc' z"), "-H 'X-Api-Key: ****");
    CHECK_STR(of("printf 'Bearer eyJ.abc\n'"), "printf 'Bearer ****\n'");
}

TEST(redact, takes_the_values_of_options)
{
    CHECK_STR(of("mysql --password=x -u y"), "mysql --password=**** -u y");
    CHECK_STR(of("mysql --password x -u y"), "mysql --password **** -u y");
    CHECK_STR(of("a --db-passwd 'x y' z"), "a --db-passwd **** z");
    CHECK_STR(of("a -token \"x \\\" y\"z w"), "a -token **** w");
    CHECK_STR(of("a --api-key"), "a --api-key");
    CHECK_STR(of("[\"--secret\",\"x\"]"), "[\"--secret****");
    CHECK_STR(of("a --Client-Secret \\\n x y"), "a --Client-Secret \\\n **** y");
}

TEST(redact, takes_the_values_of_assignments)
{
    CHECK_STR(of("export API_TOKEN=abc; run"), "export API_TOKEN=**** run");
    CHECK_STR(of("DB_PASSWORD='a b'\"c d\"e f"), "DB_PASSWORD=**** f");
    CHECK_STR(of("AWS_SECRET_ACCESS_KEY=a\\ b c"), "AWS_SECRET_ACCESS_KEY=**** c");
    CHECK_STR(of("TOKEN= run"), "TOKEN= run");
    CHECK_STR(of("password = 'a b' c"), "password = **** c");
    CHECK_STR(of("secret := abc d"), "secret := **** d");
    CHECK_STR(of("-d '{\"password\":\"a b\",\"user\":\"ann\"}'"),
              "-d '{\"password\":****,\"user\":\"ann\"}'");
    CHECK_STR(of("PASSWORD=\"never closed and more"), "PASSWORD=****");
    CHECK_STR(of("TOKEN=a\\"), "TOKEN=****");
    CHECK_STR(of("/x?access_token=abc&b=c d"), "/x?access_token=**** d");
}

TEST(redact, takes_the_keys_of_clouds)
{
    CHECK_STR(of("aws AKIAIOSFODNN7EXAMPLE x"), "aws AKIA**** x");
    CHECK_STR(of("k=LTAI5tAbCdEfGhIj,AKIDz8krbsJ5yKBZQpn7"), "k=LTAI****,AKID****");
    CHECK_STR(of("my-AKIAIOSFODNN7EXAMPLE"), "my-AKIA****");
    CHECK_STR(of("AKIAIOSFODNN7EXAMPLE_TOKEN=x"), "AKIA****=****");
}

TEST(redact, stops_at_the_ceiling)
{
    AUTO_BUF(b, 8);

    CHECK_EQ(redact(STR("0 1 2 3 4 5"), &b), -EMSGSIZE);
    CHECK_STR(b.p, "0 1 2 3 ");
}
