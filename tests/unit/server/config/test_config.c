#include "server/config/config.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_fixture.h"

TEST(config, has_a_sound_table)
{
    AUTO_BUF(text, 1024);

    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        const struct config_row *row = &config_rows[i];
        char name[CONFIG_NAME_MAX];

        CHECK(config_row_find(str_of(config_row_name(row, name))) == row); /* no name twice */
        CHECK(row->help[0] && row->help[strlen(row->help) - 1] == '.');
        if (row->kind == CONFIG_INT && !row->zero_is_off)
            CHECK((int64_t)row->number >= row->min && (int64_t)row->number <= row->max);
        if (row->kind == CONFIG_WORD)
            CHECK(config_word(row->words, (int)row->number).p);
        if (row->kind == CONFIG_TEXT)
            CHECK(config_form_fits(row->form, str_of(row->fallback)));
        buf_clear(&text);
        CHECK_EQ(config_row_expects(row, &text), 0);
        CHECK(text.n > 0);
    }
}

TEST(config, reads_nothing_as_the_defaults)
{
    PARSE(p, "");
    const struct config *c = p.config;

    CHECK_EQ(p.report.errors + p.report.warnings, 0);
    CHECK_STR(c->server.host, "127.0.0.1");
    CHECK_EQ(c->server.port, 8080);
    CHECK_EQ(c->server.proxy_access, CONFIG_PROXY_TOKEN);
    CHECK_EQ(c->server.max_sandbox_timeout_seconds, 0);
    CHECK_EQ(c->runtime.type, CONFIG_RUNTIME_EMBEDDED);
    CHECK_EQ(c->log_level, LOG_INFO);
    CHECK_STR(c->embedded.broker, "/var/lib/opensandbox/broker.sock");
    CHECK_STR(c->store.path, "/var/lib/opensandbox/server/opensandbox.db");
    CHECK_STR(c->dir, "/var/lib/opensandbox/server");
    CHECK_EQ(c->runtime.default_memory, INT64_C(2) << 30);
    CHECK_EQ(c->runtime.default_cpu, 1000);
    CHECK_EQ(c->runtime.default_disk, 0);
    CHECK_EQ(c->docker.drop_capabilities.count, 9);
    CHECK_STR(c->docker.drop_capabilities.at[8], "SYS_TTY_CONFIG");
    CHECK(c->docker.no_new_privileges);
    CHECK(c->kubernetes.sandbox_create_poll_interval_seconds == 1.0);
}

TEST(config, reads_every_kind)
{
    PARSE(p, "[server]\nhost = '::1'\nport = 1\napi_keys = ['a', 'b']\nproxy_access = 'open'\n"
             "state = '/s'\n"
             "[log]\nlevel = 'warning'\nformat = 'json'\nfile_enabled = true\n"
             "[runtime]\ndefault_memory = '512Mi'\ndefault_cpu = 0.5\n"
             "default_disk = 10000000\n[embedded]\ndns = ['9.9.9.9', '1.1.1.1']\n"
             "images = { 'a:*' = 'host', 'b' = 'dir:/b' }\n"
             "[renew_intent]\nredis.dsn = 'redis://x'\nredis.enabled = true\n"
             "[ingress.secure_access]\nactive_key = 'k'\n"
             "keys = [{ key_id = 'k', key = 'c2VjcmV0' }, { key_id = '1', key = 'AA' }]\n");
    const struct config *c = p.config;

    CHECK_EQ(p.report.errors, 0);
    CHECK_STR(c->server.host, "::1");
    CHECK_EQ(c->server.port, 1);
    CHECK_EQ(c->server.api_keys.count, 2);
    CHECK_STR(c->server.api_keys.at[1], "b");
    CHECK_EQ(c->server.proxy_access, CONFIG_PROXY_OPEN);
    CHECK_EQ(c->log.format, CONFIG_LOG_JSON);
    CHECK_EQ(c->log_level, LOG_WARN);
    CHECK(c->log.file_enabled);
    CHECK_STR(c->dir, "/s/server");
    CHECK_EQ(c->runtime.default_memory, 512 << 20);
    CHECK_EQ(c->runtime.default_cpu, 500);
    CHECK_EQ(c->runtime.default_disk, 10000000);
    CHECK_EQ(c->dns_count, 2);
    CHECK_EQ(c->dns[1], 0x01010101);
    CHECK_EQ(c->image_count, 2);
    CHECK_STR(c->images[1].dir, "/b");
    CHECK(c->renew_redis.enabled);
    CHECK_EQ(c->ingress_secure.keys.count, 2);
    CHECK_SPAN(c->ingress_secure.keys.at[0].secret, "secret");
    CHECK_EQ(c->ingress_secure.keys.at[1].secret.n, 1);
}

TEST(config, reads_every_word_as_its_enum)
{
    static const struct {
        const char *section, *key, *word;
        size_t offset;
        int value;
    } words[] = {
        {"server",   "proxy_access", "token",      offsetof(struct config, server.proxy_access),
         CONFIG_PROXY_TOKEN                                                                                             },
        {"log",      "format",       "text",       offsetof(struct config, log.format),            CONFIG_LOG_TEXT      },
        {"embedded", "start_broker", "always",     offsetof(struct config, embedded.start_broker),
         CONFIG_START_ALWAYS                                                                                            },
        {"embedded", "start_broker", "never",      offsetof(struct config, embedded.start_broker),
         CONFIG_START_NEVER                                                                                             },
        {"embedded", "network",      "none",       offsetof(struct config, embedded.network),
         CONFIG_NETWORK_NONE                                                                                            },
        {"runtime",  "type",         "docker",     offsetof(struct config, runtime.type),          CONFIG_RUNTIME_DOCKER},
        {"runtime",  "type",         "kubernetes", offsetof(struct config, runtime.type),
         CONFIG_RUNTIME_KUBERNETES                                                                                      },
        {"ingress",  "mode",         "direct",     offsetof(struct config, ingress.mode),          CONFIG_INGRESS_DIRECT},
    };

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        AUTO_BUF(text, 256);

        CHECK_EQ(
            buf_addf(&text, "[%s]\n%s = '%s'\n", words[i].section, words[i].key, words[i].word), 0);
        PARSE(p, text.p);
        CHECK_EQ(*(int *)((char *)p.config + words[i].offset), words[i].value);
    }
}

TEST(config, says_what_is_wrong_and_what_would_be_right)
{
    static const struct {
        const char *text, *report;
    } cases[] = {
        {"[server]\nport = 0\n",
         "c.toml:2:8: error: server.port: found 0; expected a whole number from 1 to 65535\n"                                                                         },
        {"[server]\nport = '80'\n",
         "c.toml:2:8: error: server.port: found \"80\"; expected a whole number from 1 to 65535\n"                                                                    },
        {"[server]\nmax_sandbox_timeout_seconds = 59\n",
         "c.toml:2:31: error: server.max_sandbox_timeout_seconds: found 59; expected 0, or a whole "
         "number from 60 to 316224000\n"                                                                                                                              },
        {"[server]\nhost = 'http://x'\n",
         "c.toml:2:8: error: server.host: found \"http://x\"; expected an address or a host name, "
         "such as 127.0.0.1\n"                                                                                                                                        },
        {"[server]\napi_key = 'sesame\\n'\n[log]\nfile_enabled = 1\n",                              /* literal: fine */
         "c.toml:4:16: error: log.file_enabled: found 1; expected true or false\n"              },
        {"[server]\napi_key = \"sesame\\n\"\n",                                                     /* and never shown */
         "c.toml:2:11: error: server.api_key: found a string; expected up to 1024 printable ASCII "
         "characters without blanks around them\n"                                                                     },
        {"[log]\nlevel = 'loud'\n",
         "c.toml:2:9: error: log.level: found \"loud\"; expected one of debug, info, warning, "
         "error, critical\n"                                                                                                                                          },
        {"[embedded]\nnetwork = 'host'\n",
         "c.toml:2:11: error: embedded.network: found \"host\"; expected one of \"bridge\", "
         "\"none\"\n"                                                                                                                                                 },
        {"[runtime]\ndefault_memory = '1.5Gi'\n",
         "c.toml:2:18: error: runtime.default_memory: found \"1.5Gi\"; expected a size, such as "
         "\"512Mi\" or \"2Gi\"\n"                                                                                                                                     },
        {"[storage]\nallowed_host_paths = ['data']\n",
         "c.toml:2:23: error: storage.allowed_host_paths: this item does not fit; expected a list, "
         "each a path that begins with /\n"                                                                                                                           },
        {"[kubernetes.execd_init_resources]\nlimits = { cpu = 1 }\n[runtime]\ntype='kubernetes'\n",
         "c.toml:2:18: error: kubernetes.execd_init_resources.limits: this value is not a text; "
         "expected a table of texts\n"                                                                                                                                },
        {"server = 3\n",
         "c.toml:1:1: error: server: found an integer; expected a section, as in [server]\n"                                                                          },
        {"[server]\nhost = \"a\\u0000b\"\n[kubernetes]\nread_qps = nan\n[runtime]\n"
         "type = 'kubernetes'\n",                                                          "c.toml:2:8: error: server.host: found \"a\"; expected an address or a host name, such as "
         "127.0.0.1\nc.toml:4:12: error: kubernetes.read_qps: found a float; expected a number "
         "from 0 to 1000000\n"                                                                                              },
        {"port = \n",                                                                               "c.toml:1:8: error: expected a value, found the end of the line\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_parsed p = parse(cases[i].text);

        CHECK(!p.config && p.report.errors > 0);
        CHECK_STR(p.report.lines.p, cases[i].report);
    }
}

TEST(config, warns_of_unknown_keys_and_names_the_nearest)
{
    CHECK_REPORT("[server]\nprot = 1\n",
                 "c.toml:2:1: warning: server.prot is unknown and ignored; did you mean "
                 "server.port?\n");
    CHECK_REPORT("[server]\nwrokers = 1\n",
                 "c.toml:2:1: warning: server.wrokers is unknown and ignored; did you mean "
                 "server.workers?\n");
    CHECK_REPORT("[sever]\nport = 1\n",
                 "c.toml:1:2: warning: sever is unknown and ignored; did you mean [server]?\n");
    CHECK_REPORT("port = 1\n",
                 "c.toml:1:1: warning: port is unknown and ignored; did you mean server.port?\n");
    CHECK_REPORT("[server]\nzzzzzzzz = 1\n",
                 "c.toml:2:1: warning: server.zzzzzzzz is unknown and ignored\n");
    CHECK_REPORT("\"server.port\" = 1\n", /* one key with a dot in it, not two */
                 "c.toml:1:1: warning: \"server.port\" is unknown and ignored; did you mean "
                 "server.port?\n");
}

TEST(config, reads_keys_by_their_old_names_and_names_the_new_ones)
{
    static const struct {
        const char *text, *warning;
        size_t offset;
    } rows[] = {
        {"workers = 7",            "embedded.workers is an old name; the key is now server.workers",
         offsetof(struct config, server.workers)            },
        {"ready = 7",              "embedded.ready is an old name; the key is now runtime.ready",
         offsetof(struct config, runtime.ready)             },
        {"failed_ttl_seconds = 7", "the key is now runtime.failed_ttl_seconds",
         offsetof(struct config, runtime.failed_ttl_seconds)},
        {"reconcile_seconds = 7",  "the key is now runtime.reconcile_seconds",
         offsetof(struct config, runtime.reconcile_seconds) },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[64];

        (void)snprintf(text, sizeof(text), "[embedded]\n%s\n", rows[i].text);
        PARSE(p, text);
        CHECK(strstr(p.report.lines.p, "c.toml:2:1: warning: "));
        CHECK(strstr(p.report.lines.p, rows[i].warning));
        CHECK_EQ(*(const int64_t *)((const char *)p.config + rows[i].offset), 7);
    }
    PARSE(p, "[embedded]\nstate = '/s'\nuser = '1234'\ndefault_memory = '1Mi'\n"
             "default_cpu = '250m'\ndefault_disk = '8Mi'\n");
    CHECK_EQ(p.report.warnings, 5);
    CHECK_STR(p.config->server.state, "/s");
    CHECK_STR(p.config->server.user, "1234");
    CHECK_EQ(p.config->runtime.default_memory, 1 << 20);
    CHECK_EQ(p.config->runtime.default_cpu, 250);
    CHECK_EQ(p.config->runtime.default_disk, 8 << 20);
}

TEST(config, prefers_the_new_name_of_a_key)
{
    PARSE(p, "[server]\nworkers = 3\n[embedded]\nworkers = 4\n");
    CHECK_EQ(p.config->server.workers, 3);
    CHECK_STR(p.report.lines.p,
              "c.toml:4:1: warning: embedded.workers is an old name, ignored beside the new one; "
              "the key is now server.workers\n");
    PARSE(q, "[embedded]\nworkers = 4\n[server]\nworkers = 3\n");
    CHECK_EQ(q.config->server.workers, 3);
}

TEST(config, is_not_stopped_by_a_thousand_unknown_keys)
{
    AUTO_BUF(text, 1 << 20);

    for (int i = 0; i < 1000; i++)
        CHECK_EQ(buf_addf(&text, "unknown_%d = %d\n", i, i), 0);
    PARSE(p, text.p);
    CHECK(p.report.warnings > 20);
    CHECK(p.report.lines.n < 4096);
}

TEST(config, expands_paths)
{
    CHECK_EQ(setenv("HOME", "/home/me", 1), 0);
    CHECK_EQ(chdir("/tmp"), 0);
    PARSE(p, "[server]\nstate = 'here'\n[store]\npath = '~/db/x.db'\n");
    CHECK_STR(p.config->server.state, "/tmp/here");
    CHECK_STR(p.config->embedded.broker, "/tmp/here/broker.sock");
    CHECK_STR(p.config->store.path, "/home/me/db/x.db");
    CHECK_STR(p.config->dir, "/home/me/db");
    CHECK_STR(p.config->log.file_path, "/home/me/logs/opensandbox/server.log");
}

/* --- loading: files and the environment --- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void enter_scratch(char dir[32])
{
    memcpy(dir, "/tmp/config.XXXXXX", 19);
    CHECK(mkdtemp(dir));
    CHECK_EQ(chdir(dir), 0);
    CHECK_EQ(setenv("HOME", dir, 1), 0);
    CHECK_EQ(unsetenv("SANDBOX_CONFIG_PATH"), 0);
    CHECK_EQ(unsetenv("OPENSANDBOX_SERVER_API_KEY"), 0);
    CHECK_EQ(unsetenv("OPENSANDBOX_INSECURE_SERVER"), 0);
    CHECK_EQ(unsetenv("PENDING_FAILURE_TTL"), 0);
}

static void leave_scratch(const char *dir)
{
    static const char *const names[] = {"a.toml", "b.toml", ".sandbox.toml"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        (void)unlink(names[i]);
    CHECK_EQ(rmdir(dir), 0);
}

static struct parsed load(struct config_options options)
{
    struct parsed p = {0};

    config_report_init(&p.report);
    (void)!config_load(&options, &p.config, &p.report);
    return p;
}

static int64_t loaded_port(const char *option)
{
    auto_parsed p = load((struct config_options){.path = option});

    return p.config ? p.config->server.port : -1;
}

TEST(config, looks_for_its_file_in_order)
{
    char dir[32];

    enter_scratch(dir);
    if (access("/etc/opensandbox/config.toml", F_OK) < 0)
        CHECK_EQ(loaded_port(NULL), 8080);
    write_file(".sandbox.toml", "[server]\nport = 1\n");
    CHECK_EQ(loaded_port(NULL), 1);
    write_file("a.toml", "[server]\nport = 2\n");
    CHECK_EQ(setenv("SANDBOX_CONFIG_PATH", "a.toml", 1), 0);
    CHECK_EQ(loaded_port(NULL), 2);
    write_file("b.toml", "[server]\nport = 3\n");
    CHECK_EQ(loaded_port("~/b.toml"), 3);
    leave_scratch(dir);
}

TEST(config, must_find_a_file_that_was_named)
{
    char dir[32];

    enter_scratch(dir);
    auto_parsed p = load((struct config_options){.path = "a.toml"});
    CHECK(!p.config && p.report.errors == 1);
    CHECK(strstr(p.report.lines.p, "/a.toml': No such file or directory"));
    leave_scratch(dir);
}

TEST(config, lets_the_environment_override_the_file_and_options_both)
{
    char dir[32];

    enter_scratch(dir);
    write_file("a.toml", "[server]\napi_key = 'file'\nhost = 'x'\n");
    CHECK_EQ(setenv("PENDING_FAILURE_TTL", "5", 1), 0);
    CHECK_EQ(setenv("OPENSANDBOX_SERVER_API_KEY", "variable", 1), 0);
    auto_parsed p = load((struct config_options){"a.toml", "h", "9", "/s"});
    CHECK_STR(p.report.lines.p, "");
    CHECK_STR(p.config->server.api_key, "variable");
    CHECK_EQ(p.config->runtime.failed_ttl_seconds, 5);
    CHECK_STR(p.config->server.host, "h");
    CHECK_EQ(p.config->server.port, 9);
    CHECK_STR(p.config->embedded.broker, "/s/broker.sock");
    CHECK_STR(p.config->origins[CONFIG_ROW_server_port].name, "--port");
    CHECK_EQ(setenv("OPENSANDBOX_SERVER_API_KEY", "", 1), 0); /* wins even if empty */
    auto_parsed q = load((struct config_options){.path = "a.toml"});
    CHECK_STR(q.config->server.api_key, "");
    CHECK_EQ(q.config->origins[CONFIG_ROW_server_host].line, 3);
    leave_scratch(dir);
}

TEST(config, refuses_overrides_by_their_name)
{
    char dir[32];

    enter_scratch(dir);
    CHECK_EQ(setenv("PENDING_FAILURE_TTL", "soon", 1), 0);
    auto_parsed p = load((struct config_options){.port = "65536"});
    CHECK(!p.config);
    CHECK_STR(p.report.lines.p,
              "error: PENDING_FAILURE_TTL: found \"soon\"; expected a whole number from 0 to "
              "316224000\nerror: --port: found 65536; expected a whole number from 1 to 65535\n");
    leave_scratch(dir);
}

TEST(config, is_insecure_only_by_the_exact_word)
{
    static const struct {
        const char *value;
        bool insecure;
    } cases[] = {
        {"YES",  true },
        {"yes",  false},
        {"1",    false},
        {"YES ", false},
    };
    char dir[32];

    enter_scratch(dir);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_EQ(setenv("OPENSANDBOX_INSECURE_SERVER", cases[i].value, 1), 0);
        auto_parsed p = load((struct config_options){0});
        CHECK(p.config && p.config->insecure == cases[i].insecure);
    }
    leave_scratch(dir);
}

TEST(config, knows_the_account_to_run_as)
{
    static const struct {
        const char *text;
        int r;
        uid_t uid;
    } cases[] = {
        {"[server]\nuser = '1234'\n",            0,       1234},
        {"[server]\nuser = '0'\n",               -EINVAL, 0   },
        {"[server]\nuser = 'root'\n",            -EINVAL, 0   },
        {"[server]\nuser = 'nobody-has-this'\n", -ENOENT, 0   },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        PARSE(p, cases[i].text);
        uid_t uid = 0;
        gid_t gid = 0;

        CHECK_EQ(config_account(p.config, &uid, &gid, NULL), cases[i].r);
        CHECK_EQ(uid, cases[i].uid);
    }
}

TEST(config, takes_the_variables_of_opentelemetry)
{
    static const char *const names[][2] = {
        {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"           },
        {"OTEL_SDK_DISABLED",           "False"                   },
        {"OTEL_TRACES_SAMPLER",         "parentbased_traceidratio"},
        {"OTEL_TRACES_SAMPLER_ARG",     "0.25"                    },
        {"OTEL_METRICS_EXPORTER",       "none"                    },
        {"OTEL_SERVICE_NAME",           " "                       },
        {"OTEL_BSP_SCHEDULE_DELAY",     "100"                     },
    };
    char dir[32];

    enter_scratch(dir);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        CHECK_EQ(setenv(names[i][0], names[i][1], 1), 0);
    write_file("a.toml", "[telemetry]\ntraces_sampler_arg = 1\nservice_name = 'of the file'\n");
    auto_parsed p = load((struct config_options){.path = "a.toml"});
    CHECK_STR(p.report.lines.p, "");
    CHECK_STR(p.config->telemetry.endpoint, "http://c:4318");
    CHECK(!p.config->telemetry.disabled);
    CHECK_EQ(p.config->telemetry.traces_sampler, 5);
    CHECK(p.config->telemetry.traces_sampler_arg == 0.25);
    CHECK_EQ(p.config->telemetry.metrics, 1);
    CHECK_STR(p.config->telemetry.service_name, "of the file"); /* blank is unset */
    CHECK_EQ(p.config->telemetry.delay_ms, 100);
    CHECK_EQ(setenv("OTEL_TRACES_SAMPLER_ARG", "1.5", 1), 0);
    CHECK_EQ(setenv("OTEL_SDK_DISABLED", "maybe", 1), 0);
    CHECK_EQ(setenv("OTEL_TRACES_SAMPLER", "jaeger_remote", 1), 0);
    auto_parsed q = load((struct config_options){.path = "a.toml"});
    CHECK(!q.config);
    CHECK_EQ(q.report.errors, 3);
    leave_scratch(dir);
}
