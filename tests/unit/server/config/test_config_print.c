#include "config_fixture.h"

static const char full[] =
    "[server]\nhost = '0.0.0.0'\napi_key = 'sesame'\napi_keys = ['hidden1', 'hidden2']\n"
    "[embedded]\ndefault_memory = '1500'\ndefault_cpu = '250m'\ndns = ['9.9.9.9']\n"
    "[embedded.images]\n'a\"b:*' = 'host'\nz = 'dir:/z'\n"
    "[kubernetes]\nread_qps = 2.5\n"
    "[kubernetes.execd_init_resources]\nlimits = { cpu = '1' }\n"
    "[renew_intent.redis]\nenabled = true\ndsn = 'redis://:hush@x'\n"
    "[ingress.secure_access]\nactive_key = 'k'\nkeys = [{ key_id = 'k', key = 'c2VjcmV0' }]\n";

TEST(config_print, hides_secrets)
{
    static const char *const secrets[] = {"sesame", "hidden1", "hidden2", "hush", "c2VjcmV0"};
    AUTO_BUF(out, 1 << 20);

    PARSE(p, full);
    CHECK_EQ(config_print(p.config, false, &out), 0);
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        CHECK(!strstr(out.p, secrets[i]));
    CHECK(strstr(out.p, "api_key = \"<redacted>\" # line 3\n"));
    CHECK(strstr(out.p, "api_keys = [\"<redacted>\", \"<redacted>\"] # line 4\n"));
    CHECK(strstr(out.p, "keys = [{ key_id = \"k\", key = \"<redacted>\" }]"));
}

TEST(config_print, says_where_values_came_from)
{
    AUTO_BUF(out, 1 << 20);

    PARSE(p, full);
    CHECK_EQ(config_print(p.config, false, &out), 0);
    CHECK(str_starts(buf_str(&out), STR("# from c.toml,")));
    CHECK(strstr(out.p, "\nhost = \"0.0.0.0\" # line 2\n"));
    CHECK(strstr(out.p, "\nport = 8080\n")); /* a default */
    CHECK(strstr(out.p, "\ndefault_cpu = \"250m\" # line 7\n"));
}

/* Lines without what the comments say of their origin. */
static void strip_origins(const struct buf *in, struct buf *out)
{
    struct str rest = buf_str(in), line;

    while (str_cut(&rest, '\n', &line)) {
        line.n = str_find_str(line, STR(" # line"));
        CHECK_EQ(buf_addf(out, "%.*s\n", STR_ARG(line)), 0);
    }
}

TEST(config_print, prints_what_reads_as_the_same)
{
    AUTO_BUF(once, 1 << 20);
    AUTO_BUF(twice, 1 << 20);
    AUTO_BUF(plain_once, 1 << 20);
    AUTO_BUF(plain_twice, 1 << 20);

    PARSE(p, full);
    CHECK_EQ(config_print(p.config, true, &once), 0);
    PARSE(q, once.p);
    CHECK_EQ(config_print(q.config, true, &twice), 0);
    strip_origins(&once, &plain_once);
    strip_origins(&twice, &plain_twice);
    CHECK_STR(plain_once.p, plain_twice.p);
}

TEST(config_print, has_a_skeleton_that_loads)
{
    AUTO_BUF(out, 1 << 20);

    CHECK_EQ(config_print_skeleton(&out), 0);
    PARSE(p, out.p);
    CHECK_STR(p.report.lines.p, "");
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        char line[CONFIG_NAME_MAX + 8];

        (void)snprintf(line, sizeof(line), "\n#%s = ", config_rows[i].key);
        CHECK(strstr(out.p, line));
    }
}

/* With the # off, every line is a key with a value it takes. */
TEST(config_print, has_a_skeleton_whose_defaults_are_defaults)
{
    AUTO_BUF(skeleton, 1 << 20);
    AUTO_BUF(text, 1 << 20);
    struct str rest, line;

    CHECK_EQ(config_print_skeleton(&skeleton), 0);
    rest = buf_str(&skeleton);
    while (str_cut(&rest, '\n', &line)) {
        bool comment = str_starts(line, STR("#")) && !str_starts(line, STR("# "));

        CHECK_EQ(buf_addf(&text, "%.*s\n", STR_ARG(str_skip(line, comment))), 0);
    }
    auto_parsed p = parse(text.p);
    CHECK_EQ(p.report.errors, 2); /* sections that ask for more by being there */
    CHECK(strstr(p.report.lines.p, "ingress.gateway: needs ingress.mode"));
    CHECK(strstr(p.report.lines.p, "ingress.secure_access: needs at least one key"));
}

TEST(config_print, fails_when_there_is_no_room)
{
    PARSE(p, full);
    for (size_t room = 0; room < 2000; room += 7) {
        AUTO_BUF(out, room);

        CHECK_EQ(config_print(p.config, true, &out), -EMSGSIZE);
    }
}
