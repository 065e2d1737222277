#include "kube/config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kube/config_internal.h"
#include "kube/yaml.h"
#include "test.h"

static struct kube_config *config;
static struct err e;

static int parse(const char *text)
{
    e = (struct err){0};
    config = NULL;
    return kube_config_parse(str_of(text), "/etc/kube", NULL, &config, &e);
}

#define HEAD                                                                                       \
    "apiVersion: v1\nkind: Config\ncurrent-context: here\n"                                        \
    "contexts:\n- name: here\n  context: {cluster: c, user: u, namespace: team}\n"
#define CLUSTER "clusters:\n- name: c\n  cluster:\n    server: https://10.0.0.1:6443/base/\n"

TEST(kubeconfig, names_server_user_and_namespace)
{
    CHECK_EQ(parse(HEAD CLUSTER "    certificate-authority: ca.pem\n"
                                "users:\n- name: u\n  user:\n    token: secret\n"),
             0);
    CHECK_STR(kube_config_server(config), "https://10.0.0.1:6443/base/");
    CHECK_STR(kube_config_namespace(config), "team");
    CHECK_STR(config->host, "10.0.0.1");
    CHECK_STR(config->prefix, "/base");
    CHECK_EQ(config->port, 6443);
    CHECK_STR(config->files[0], "/etc/kube/ca.pem");
    CHECK_STR(config->token, "secret");
    CHECK_STR(config->tls_name, "10.0.0.1");
    kube_config_free(config);
}

TEST(kubeconfig, may_be_json_with_data_inline)
{
    char text[64] = {0};

    CHECK_EQ(parse("{\"current-context\":\"x\",\"contexts\":[{\"name\":\"x\",\"context\":"
                   "{\"cluster\":\"c\"}}],\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":"
                   "\"https://[::1]:1\",\"certificate-authority-data\":\"aGVsbG8=\","
                   "\"tls-server-name\":\"kube\"}}]}"),
             0);
    CHECK(config->host_is_ipv6);
    CHECK_STR(config->host, "::1");
    CHECK_STR(config->tls_name, "kube");
    CHECK_STR(kube_config_namespace(config), "default");
    CHECK(pread(config->memory[0], text, sizeof(text) - 1, 0) == 5);
    CHECK_STR(text, "hello");
    kube_config_free(config);
}

TEST(kubeconfig, has_passwords_token_files_and_plugins)
{
    CHECK_EQ(parse(HEAD CLUSTER "users:\n- name: u\n  user: {username: a, password: b}\n"), 0);
    CHECK_STR(config->basic, "Basic YTpi");
    kube_config_free(config);
    CHECK_EQ(parse(HEAD CLUSTER "users:\n- name: u\n  user: {tokenFile: t, token: old}\n"), 0);
    CHECK_STR(config->token_file, "/etc/kube/t");
    CHECK(!config->token);
    kube_config_free(config);
    CHECK_EQ(parse(HEAD CLUSTER "users:\n- name: u\n  user:\n    exec:\n      command: ./get\n"
                                "      args: [\"--now\", '1']\n      env:\n"
                                "      - {name: A, value: b}\n"),
             0);
    CHECK_STR(config->plugin.argv[0], "/etc/kube/./get");
    CHECK_STR(config->plugin.argv[1], "--now");
    CHECK_STR(config->plugin.argv[2], "1");
    CHECK(!config->plugin.argv[3]);
    CHECK_STR(config->plugin.env[0], "A=b");
    kube_config_free(config);
}

TEST(kubeconfig, that_is_wrong_says_what)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"",                                                                              "expected a mapping"   },
        {"a: [",                                                                          "line 2"               },
        {"a: 1\na: 2\n",                                                                  "a key occurs twice"   },
        {"clusters: []\n",                                                                "no current-context"   },
        {"current-context: x\n",                                                          "no context called 'x'"},
        {HEAD,                                                                            "no cluster called 'c'"},
        {HEAD CLUSTER,                                                                    "no user called 'u'"   },
        {HEAD "clusters:\n- name: c\n  cluster: {}\nusers: [{name: u}]",                  "no server"            },
        {HEAD "clusters:\n- name: c\n  cluster: {server: 'ftp://x'}\nusers: [{name: u}]", "server"               },
        {HEAD CLUSTER "users:\n- name: u\n  user: {client-certificate: x}\n",             "belong together"      },
        {HEAD CLUSTER "users:\n- name: u\n  user: {client-key-data: '!'}\n",              "not base64"           },
        {HEAD CLUSTER "users:\n- name: u\n  user: {token: [1]}\n",                        "not a string"         },
        {HEAD CLUSTER "users:\n- name: u\n  user: {auth-provider: {name: gcp}}\n",        "use exec"             },
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK(parse(bad[i].text) < 0);
        if (!strstr(e.msg, bad[i].says))
            test_fail(__FILE__, __LINE__, "%zu: '%s' has no '%s'", i, e.msg, bad[i].says);
    }
}

static const char script[] =
    "#!/bin/sh\n[ \"$1\" = --now ] && [ \"$WHO\" = me ] || exit 3\n"
    "case $KUBERNETES_EXEC_INFO in *ExecCredential*) ;; *) exit 4 ;; esac\n"
    "echo '{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"fresh\","
    "\"expirationTimestamp\":\"2999-01-01T00:00:00Z\"}}'\n";

TEST(kubeconfig, runs_its_plugin_for_a_token)
{
    char path[] = "/tmp/osb-plugin-XXXXXX", text[1024];
    int fd = mkostemp(path, O_CLOEXEC);
    AUTO_BUF(header, 1024);

    CHECK(fd >= 0 && write(fd, script, sizeof(script) - 1) == sizeof(script) - 1);
    CHECK_EQ(fchmod(fd, 0700), 0);
    CHECK_EQ(close(fd), 0);
    (void)snprintf(text, sizeof(text),
                   HEAD CLUSTER "users:\n- name: u\n  user:\n    exec:\n      command: %s\n"
                                "      args: [--now]\n      env: [{name: WHO, value: me}]\n",
                   path);
    CHECK_EQ(parse(text), 0);
    CHECK_EQ(kube_config_authorization(config, &header, &e), 1);
    CHECK_EQ(kube_config_refresh(config, false, &e), 0);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(kube_config_authorization(config, &header, &e), 0);
    CHECK_STR(header.p, "Bearer fresh");
    kube_config_distrust(config);
    CHECK_EQ(kube_config_authorization(config, &header, &e), 1);
    kube_config_free(config);
}

TEST(kubeconfig, tells_how_its_plugin_failed)
{
    static const char bad[] = HEAD CLUSTER "users:\n- name: u\n  user:\n    exec:\n"
                                           "      command: no-such-plugin-here\n"
                                           "      installHint: get it from x\n";

    CHECK_EQ(parse(bad), 0);
    CHECK_EQ(kube_config_refresh(config, false, &e), -EACCES);
    CHECK(strstr(e.msg, "get it from x"));
    kube_config_free(config);
}

static void yaml_is(const char *yaml, const char *json)
{
    AUTO_BUF(out, 64 << 10);

    e = (struct err){0};
    if (kube_yaml_to_json(str_of(yaml), &out, &e) < 0)
        test_fail(__FILE__, __LINE__, "'%s': %s", yaml, e.msg);
    CHECK_STR(out.p, json);
}

TEST(yaml, becomes_json)
{
    yaml_is("a: 1\nb: [x, '2', \"3\", 4.5, -6, 1e3]\n",
            "{\"a\":1,\"b\":[\"x\",\"2\",\"3\",4.5,-6,1e3]}");
    yaml_is("a: ~\nb:\nc: null\nd: true\ne: False\nf: yes\n",
            "{\"a\":null,\"b\":null,\"c\":null,\"d\":true,\"e\":false,\"f\":\"yes\"}");
    yaml_is("- |\n  two\n  lines\n- >\n  one\n  line\n", "[\"two\\nlines\\n\",\"one line\\n\"]");
    yaml_is("a: &x {k: v}\nb: *x\n", "{\"a\":{\"k\":\"v\"},\"b\":{\"k\":\"v\"}}");
    yaml_is("1.5Gi", "\"1.5Gi\"");
    yaml_is("0123", "\"0123\"");
    yaml_is("", "null");
    yaml_is("a: 1\n---\nb: 2\n", "{\"a\":1}");
}

TEST(yaml, cannot_grow_without_limit)
{
    static const char bomb[] = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                               "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
                               "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                               "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
                               "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
                               "g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    AUTO_BUF(out, 1 << 20);
    AUTO_BUF(deep, 1 << 20);

    CHECK_EQ(kube_yaml_to_json(str_of(bomb), &out, &e), -EMSGSIZE);
    CHECK_EQ(out.n, 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(buf_add(&deep, STR("[")), 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(buf_add(&deep, STR("]")), 0);
    CHECK_EQ(kube_yaml_to_json(buf_str(&deep), &out, &e), -EBADMSG);
    CHECK(kube_yaml_to_json(STR("&a [*a]"), &out, &e) < 0);
    CHECK(kube_yaml_to_json(STR("? [a]\n: b\n"), &out, &e) < 0);
}
