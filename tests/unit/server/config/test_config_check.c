#include "config_fixture.h"

#define DOCKER     "[runtime]\ntype = 'docker'\n"
#define KUBERNETES "[runtime]\ntype = 'kubernetes'\n"
#define GATEWAY    "[ingress]\nmode = 'gateway'\n[ingress.gateway]\n"
#define SECURE     "[ingress.secure_access]\n"
#define CLUSTER    "[store]\ntype = 'postgres'\ndsn = 'host=x'\n[cluster]\n"

/* Every rule, broken. */
TEST(config_check, refuses_what_does_not_go_together)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {DOCKER "[kubernetes]\n",                                                            "kubernetes: goes with runtime.type"       },
        {DOCKER "[agent_sandbox]\n",                                                         "agent_sandbox: goes with runtime.type"    },
        {DOCKER GATEWAY "address = 'x'\nroute.mode = 'uri'\n",                               "the docker runtime has no gateway"        },
        {DOCKER "[secure_runtime]\ntype = 'firecracker'\nk8s_runtime_class = 'x'\n",
         "firecracker goes with kubernetes only"                                                                                        },
        {KUBERNETES "[agent_sandbox]\n",                                                     "needs kubernetes.workload_provider"       },
        {"[embedded.runtimes]\ngvisor = 'runsc'\n",                                          "expected \"/absolute/path\""              },
        {"[embedded.runtimes]\n'g V' = ''\n",                                                "expected a name of a-z"                   },
        {"[embedded.runtimes]\nnative = '/bin/true'\n",                                      "native has no program"                    },
        {"[secure_runtime]\ndocker_runtime = 'x'\n",                                         "need a type"                              },
        {KUBERNETES "[secure_runtime]\ntype = 'firecracker'\n",
         "firecracker needs k8s_runtime_class"                                                                                          },
        {DOCKER "[secure_runtime]\ntype = 'gvisor'\n",                                       "needs docker_runtime or k8s_runtime_class"},
        {"[ingress.gateway]\naddress = 'x'\n",                                               "needs ingress.mode"                       },
        {GATEWAY "route.mode = 'uri'\n",                                                     "gateway needs ingress.gateway.address"    },
        {GATEWAY "address = 'x'\n",                                                          "gateway needs ingress.gateway.route.mode" },
        {GATEWAY "address = 'x.org'\nroute.mode = 'wildcard'\n",                             "wildcard routes need an address"          },
        {GATEWAY "address = '*.'\nroute.mode = 'wildcard'\n",                                "wildcard routes need an address"          },
        {GATEWAY "address = '*.x.org'\nroute.mode = 'uri'\n",                                "* goes with wildcard routes only"         },
        {GATEWAY "address = 'x.org/a'\nroute.mode = 'header'\n",                             "header routes need a host"                },
        {GATEWAY "address = 'x.org:0'\nroute.mode = 'header'\n",                             "header routes need a host"                },
        {GATEWAY "address = 'http://x'\nroute.mode = 'uri'\n",                               "without a scheme"                         },
        {SECURE,                                                                             "needs at least one key"                   },
        {SECURE "active_key = 'b'\nkeys = [{ key_id = 'a', key = 'AA==' }]\n",
         "active_key must be the key_id"                                                                                                },
        {SECURE "active_key = 'a'\nkeys = [{ key_id = 'a', key = '' }]\n",
         "key is missing, empty or not base64"                                                                                          },
        {SECURE "active_key = 'a'\nkeys = [{ key_id = 'A', key = 'AA' }]\n",
         "key_id is missing or wrong"                                                                                                   },
        {SECURE "active_key = 'a'\nkeys = [3]\n",                                            "key_id is missing or wrong"               },
        {SECURE "active_key = 'a'\nkeys = [{key_id='a',key='AA'},{key_id='a',key='AQ'}]\n",
         "this key_id occurs twice"                                                                                                     },
        {"[renew_intent.redis]\nenabled = true\n",                                           "needs renew_intent.redis.dsn"             },
        {"[cluster]\nadvertise = 'http://a:1'\n",                                            "needs store.type = \"postgres\""          },
        {KUBERNETES CLUSTER "advertise = 'http://a:1'\n",                                    "need none of this"                        },
        {CLUSTER "advertise = 'a:1'\n",                                                      "expected a URL such as"                   },
        {CLUSTER "advertise = 'http://a:1/path'\n",                                          "expected a URL such as"                   },
        {CLUSTER "advertise = 'ws://a:1'\n",                                                 "expected a URL such as"                   },
        {CLUSTER "secret = 'short'\n",                                                       "expected 32 to 255 bytes"                 },
        {"[server]\ntls_cert = '/c.pem'\n",                                                  "server.tls_cert: needs server.tls_key"    },
        {"[server]\ntls_key = '/k.pem'\n",                                                   "server.tls_key: needs server.tls_cert"    },
        {"[server]\ntls_client_ca = '/ca.pem'\n",                                            "server.tls_client_ca: needs server.tls_c" },
        {"[renew_intent.redis]\nqueue_key = ''\n",                                           "a text that is not empty"                 },
        {"[server]\napi_keys = "
         "['1','2','3','4','5','6','7','8','9','a','b','c','d','e','f','g','h']\n", "there is room for 16 keys"                },
        {"[server]\napi_key = '<redacted>'\n",                                               "server.api_key: this stands for a key"    },
        {"[server]\napi_keys = ['a', '<redacted>']\n",                                       "server.api_keys: this stands for a key"   },
        {"[embedded]\ndns = ['1.1.1.1','1.1.1.2','1.1.1.3','1.1.1.4']\n",                    "found 4 addresses"                        },
        {"[embedded]\nbroker = "
         "'/tmp/0123456789012345678901234567890123456789012345678901234567890123"
         "4567890123456789012345678901234567890123456789'\n",                       "at most 107 bytes"                        },
        {"[embedded]\ndefault_disk = '1Mi'\n",                                               "less than 4Mi is too small"               },
        {"[embedded.images]\nx = 'hosts'\n",
         "c.toml:2:5: error: embedded.images.\"x\": found \"hosts\"; expected \"host\" or "
         "\"dir:/absolute/path\""                                                                                                       },
        {"[embedded.images]\nx = 'dir:here'\n",                                              "expected \"host\" or"                     },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_parsed p = parse(cases[i].text);

        if (p.config || !strstr(p.report.lines.p, cases[i].message))
            test_fail(__FILE__, __LINE__, "case %zu: no \"%s\" in: %s", i, cases[i].message,
                      p.report.lines.p);
    }
}

TEST(config_check, takes_what_goes_together)
{
    static const char *const texts[] = {
        GATEWAY "address = '*.x.org'\nroute.mode = 'wildcard'\n",
        GATEWAY "address = 'x.org:8080'\nroute.mode = 'header'\n",
        GATEWAY "address = '10.0.0.1'\nroute.mode = 'header'\n",
        GATEWAY "address = 'x.org/base'\nroute.mode = 'uri'\n",
        SECURE "active_key = 'a'\nkeys = [{ key_id = 'a', key = 'AA==' }]\n", /* no gateway */
        KUBERNETES "[kubernetes]\nworkload_provider = 'agent-sandbox'\n[agent_sandbox]\n",
        KUBERNETES "[secure_runtime]\ntype = 'kata'\nk8s_runtime_class = 'x'\n",
        "[secure_runtime]\ntype = 'gvisor'\n",
        "[secure_runtime]\ntype = 'firecracker'\n[embedded.runtimes]\nfirecracker = '/x y'\n",
        DOCKER "execd_image = 'x'\n",
        "[server]\nmax_sandbox_timeout_seconds = 0\napi_key = '  '\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        PARSE(p, texts[i]);
        CHECK_STR(p.report.lines.p, "");
    }
}

TEST(config_check, says_what_has_no_effect)
{
    CHECK_REPORT("[docker]\nnetwork_mode = 'bridge'\n",
                 "c.toml:1:2: warning: section docker has no effect: the runtime is embedded\n");
    CHECK_REPORT("[renew_intent.redis]\nenabled = true\ndsn = 'redis://x'\n",
                 "c.toml:2:11: warning: renew_intent.redis.enabled has no effect: "
                 "renew_intent.enabled is false\n");
}

TEST(config_check, starts_only_with_a_runtime_of_this_build)
{
    PARSE(p, DOCKER);
    CHECK_EQ(config_check_host(p.config, false, &p.report), -EINVAL);
    CHECK(strstr(p.report.lines.p, "this build has no docker runtime; expected \"embedded\" or "));
}

TEST(config_check, looks_for_directories_and_programs)
{
    PARSE(p, "[embedded]\nstart_broker = 'always'\nbroker_program = '/bin/sh'\n"
             "[runtime]\nexecd_program = '/nowhere/execd'\n[server]\nuser = '1000'\n"
             "[embedded.images]\na = 'dir:/nowhere'\nb = 'dir:/usr'\n");
    CHECK_EQ(config_check_host(p.config, true, &p.report), -EINVAL);
    CHECK_STR(p.report.lines.p,
              "error: embedded.images.\"a\": there is no directory '/nowhere'\n"
              "error: runtime.execd_program: there is no program '/nowhere/execd'\n");
}
