#include "mcp/options.h"

#include "base/str.h"
#include "test.h"

static const char *complaint(const char *first, const char *second)
{
    const char *const argv[] = {"opensandbox-mcp", first, second, NULL};
    static struct err e;
    struct options o;

    e = (struct err){0};
    return options_parse(argv, &o, &e) < 0 ? e.msg : "";
}

TEST(options, have_the_defaults_of_the_contract)
{
    const char *const argv[] = {"opensandbox-mcp", NULL};
    struct options o;

    CHECK_EQ(options_parse(argv, &o, NULL), 0);
    CHECK_EQ(o.transport, TRANSPORT_STDIO);
    CHECK_EQ(o.request_timeout_ms, 30000);
    CHECK_EQ(o.port, 8000);
    CHECK_STR(o.path, "/mcp");
    CHECK(!o.keep && !o.domain && !o.api_key);
}

TEST(options, are_read_in_both_forms)
{
    const char *const argv[] = {
        "x", "--transport=streamable-http", "--request-timeout-seconds", "1.5", "--keep", NULL};
    struct options o;

    CHECK_EQ(options_parse(argv, &o, NULL), 0);
    CHECK_EQ(o.transport, TRANSPORT_HTTP);
    CHECK_EQ(o.request_timeout_ms, 1500);
    CHECK(o.keep);
}

TEST(options, that_are_wrong_are_refused)
{
    CHECK_STR(complaint("--nothing", NULL), "unknown option '--nothing'");
    CHECK_STR(complaint("--domain", NULL), "--domain needs a value");
    CHECK_STR(complaint("--keep=1", NULL), "--keep takes no value");
    CHECK_STR(complaint("--port", "65536"), "--port 65536: expected 0 to 65535");
    CHECK_STR(complaint("--path", "mcp"), "--path mcp: expected a path such as /mcp");
    CHECK_STR(complaint("--request-timeout-seconds", "nan"),
              "--request-timeout-seconds nan: expected 0.1 to 3600");
}
