#include "api/query.h"

#include "api/metadata.h"
#include "base/buf.h"
#include "test.h"

static int list(struct arena *a, const char *query, struct api_list_query *q, struct api_fail *f)
{
    *f = (struct api_fail){0};
    return api_list_query_parse(a, str_of(query), q, f);
}

TEST(query, has_defaults)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_list_query q;
    struct api_fail f;

    CHECK_EQ(api_list_query_parse(&a, STR_NONE, &q, &f), 0);
    CHECK_EQ(q.page, 1);
    CHECK_EQ(q.page_size, 20);
    CHECK_EQ(q.states, 0);
    CHECK(!q.unknown_state);
    CHECK_EQ(q.metadata_count, 0);
    CHECK_EQ(list(&a, "metadata=&other=1&pageSize=200&page=7&page=8", &q, &f), 0);
    CHECK_EQ(q.page, 8); /* of a repeated one, the last */
    CHECK_EQ(q.page_size, 200);
    CHECK_EQ(q.metadata_count, 0);
}

TEST(query, gathers_states_and_remembers_that_one_was_unknown)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_list_query q;
    struct api_fail f;

    CHECK_EQ(list(&a, "state=running&state=PAUSED", &q, &f), 0);
    CHECK_EQ(q.states, STATE_BIT(SANDBOX_RUNNING) | STATE_BIT(SANDBOX_PAUSED));
    CHECK(!q.unknown_state);
    CHECK_EQ(list(&a, "state=Dreaming", &q, &f), 0);
    CHECK_EQ(q.states, 0);
    CHECK(q.unknown_state);
}

TEST(query, decodes_metadata_twice)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_list_query q;
    struct api_fail f;

    CHECK_EQ(list(&a, "metadata=team%3Da%26note%3Dx.y", &q, &f), 0);
    CHECK_EQ(q.metadata_count, 2);
    CHECK_SPAN(q.metadata[0].key, "team");
    CHECK_SPAN(q.metadata[0].value, "a");
    CHECK_SPAN(q.metadata[1].key, "note");
    CHECK_SPAN(q.metadata[1].value, "x.y");
    CHECK_EQ(list(&a, "metadata=a%3D1%252B2%2B3%26b%3D%26a%3D%253D%3D", &q, &f), 0);
    CHECK_EQ(q.metadata_count, 2);
    CHECK_SPAN(q.metadata[0].key, "a"); /* of a repeated key, the last */
    CHECK_SPAN(q.metadata[0].value, "==");
    CHECK_SPAN(q.metadata[1].value, "");
    CHECK_EQ(list(&a, "metadata=a%3D1%252B2%2B3", &q, &f), 0);
    CHECK_SPAN(q.metadata[0].value, "1+2 3");
    CHECK_EQ(list(&a, "metadata=a%3D1&metadata=b%3D2", &q, &f), 0);
    CHECK_EQ(q.metadata_count, 1);
    CHECK_SPAN(q.metadata[0].key, "b");
}

TEST(query, refuses_what_a_list_cannot_mean)
{
    static const struct {
        const char *query, *code, *message;
    } rows[] = {
        {"page=0",                    "SANDBOX::INVALID_PARAMETER",
         "query page: expected an integer from 1 to 2147483647, got '0'"                                   },
        {"page=",                     "SANDBOX::INVALID_PARAMETER", "query page: expected an integer"      },
        {"page=1.5",                  "SANDBOX::INVALID_PARAMETER", "query page: expected an integer"      },
        {"page=99999999999",          "SANDBOX::INVALID_PARAMETER", "query page: expected an integer"      },
        {"pageSize=0",                "SANDBOX::INVALID_PARAMETER", "query pageSize: expected an integer"  },
        {"pageSize=201",              "SANDBOX::INVALID_PARAMETER",
         "query pageSize: expected an integer from 1 to 200, got '201'"                                    },
        {"pageSize=-1",               "SANDBOX::INVALID_PARAMETER", "query pageSize: expected an integer"  },
        {"page=%zz",                  "SANDBOX::INVALID_PARAMETER", "query 'page': a % must be followed by"},
        {"page=%00",                  "SANDBOX::INVALID_PARAMETER", "query 'page': a % must be followed by"},
        {"metadata=team",             "INVALID_METADATA_FORMAT",    "query metadata: expected key=value"   },
        {"metadata=a%3D1%26%26b%3D1", "INVALID_METADATA_FORMAT",
         "query metadata: expected key=value"                                                              },
        {"metadata=a%3D1%26",         "INVALID_METADATA_FORMAT",    "query metadata: expected key=value"   },
        {"metadata=a%3D%25z",         "INVALID_METADATA_FORMAT",    "query metadata: expected key=value"   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct api_list_query q;
        struct api_fail f;

        CHECK_EQ(list(&a, rows[i].query, &q, &f), -EBADMSG);
        CHECK_EQ(f.status, 400);
        CHECK_STR(f.code, rows[i].code);
        f.message[strlen(rows[i].message)] = '\0';
        CHECK_STR(f.message, rows[i].message);
    }
}

TEST(query, bounds_the_pairs_of_a_filter)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(text, 1 << 16);
    struct api_list_query q;
    struct api_fail f;

    CHECK_EQ(buf_add(&text, STR("metadata=k%3D1")), 0);
    for (int i = 1; i < API_METADATA_MAX; i++)
        CHECK_EQ(buf_addf(&text, "%%26k%d%%3D1", i), 0);
    CHECK_EQ(list(&a, text.p, &q, &f), 0);
    CHECK_EQ(q.metadata_count, API_METADATA_MAX);
    CHECK_EQ(buf_add(&text, STR("%26k%3D2")), 0); /* one that is there */
    CHECK_EQ(list(&a, text.p, &q, &f), 0);
    CHECK_EQ(buf_add(&text, STR("%26new%3D2")), 0);
    CHECK_EQ(list(&a, text.p, &q, &f), -EBADMSG);
}

TEST(query, reads_endpoint_parameters)
{
    static const struct {
        const char *query;
        bool proxy, is_signed;
        uint64_t expires_s;
    } rows[] = {
        {"",                                      false, false, 0         },
        {"use_server_proxy=true",                 true,  false, 0         },
        {"use_server_proxy=YES",                  true,  false, 0         },
        {"use_server_proxy=1",                    true,  false, 0         },
        {"use_server_proxy=on",                   true,  false, 0         },
        {"use_server_proxy=off",                  false, false, 0         },
        {"use_server_proxy=f&expires=2000000000", false, true,  2000000000},
        {"expires=18446744073709551615",          false, true,  UINT64_MAX},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct api_endpoint_query q;
        struct api_fail f;

        CHECK_EQ(api_endpoint_query_parse(&a, str_of(rows[i].query), &q, &f), 0);
        CHECK_EQ(q.use_server_proxy, rows[i].proxy);
        CHECK_EQ(q.signed_route, rows[i].is_signed);
        CHECK(q.expires_s == rows[i].expires_s);
    }
}

TEST(query, refuses_endpoint_parameters)
{
    static const char *const bad[] = {
        "use_server_proxy=2",
        "use_server_proxy=",
        "expires=",
        "expires=-1",
        "expires=18446744073709551616",
        "expires=1e9",
        "use_server_proxy=1&expires=2000000000",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct api_endpoint_query q;
        struct api_fail f = {0};

        CHECK_EQ(api_endpoint_query_parse(&a, str_of(bad[i]), &q, &f), -EBADMSG);
        CHECK_STR(f.code, "SANDBOX::INVALID_PARAMETER");
    }
}

TEST(query, knows_a_port)
{
    static const struct {
        const char *text, *code;
    } bad[] = {
        {"0",                    "DOCKER::INVALID_PORT"      },
        {"65536",                "DOCKER::INVALID_PORT"      },
        {"-1",                   "DOCKER::INVALID_PORT"      },
        {"99999999999999999999", "DOCKER::INVALID_PORT"      },
        {"",                     "SANDBOX::INVALID_PARAMETER"},
        {"http",                 "SANDBOX::INVALID_PARAMETER"},
        {"80x",                  "SANDBOX::INVALID_PARAMETER"},
    };
    struct api_fail f;
    uint16_t port = 0;

    CHECK_EQ(api_port_parse(STR("1"), &port, &f), 0);
    CHECK_EQ(api_port_parse(STR("65535"), &port, &f), 0);
    CHECK_EQ(port, 65535);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_EQ(api_port_parse(str_of(bad[i].text), &port, &f), -EBADMSG);
        CHECK_EQ(f.status, 400);
        CHECK_STR(f.code, bad[i].code);
    }
}

TEST(query, reads_snapshot_parameters)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_snapshot_query q;
    struct api_fail f;

    CHECK_EQ(api_snapshot_query_parse(&a, STR("sandboxId=a%2Db&page=2&name=my%20n"), &q, &f), 0);
    CHECK(str_eq(q.name, STR("my n")));
    CHECK_SPAN(q.sandbox_id, "a-b");
    CHECK_EQ(q.page, 2);
    CHECK_EQ(q.page_size, 20);
    CHECK_EQ(api_snapshot_query_parse(&a, STR("pageSize=0"), &q, &f), -EBADMSG);
}

TEST(query, reads_diagnostics_parameters_by_kind)
{
    static const struct {
        enum api_diag_kind kind;
        const char *query, *scope;
        uint32_t tail, limit;
        int64_t since_s;
    } rows[] = {
        {API_DIAG_LOGS,    "",                            NULL,        100,   50,  0     },
        {API_DIAG_LOGS,    "tail=10000&since=10m",        NULL,        10000, 50,  600   },
        {API_DIAG_LOGS,    "since=2+h",                   NULL,        100,   50,  7200  },
        {API_DIAG_LOGS,    "since=3d",                    NULL,        100,   50,  259200},
        {API_DIAG_LOGS,    "since=45s&scope=all",         "all",       100,   50,  45    },
        {API_DIAG_LOGS,    "since=yesterday",             NULL,        100,   50,  600   },
        {API_DIAG_LOGS,    "since=",                      NULL,        100,   50,  600   },
        {API_DIAG_LOGS,    "since=-5m",                   NULL,        100,   50,  600   },
        {API_DIAG_LOGS,    "since=5M",                    NULL,        100,   50,  600   },
        {API_DIAG_LOGS,    "since=99999999999999999999d", NULL,        100,   50,  600   },
        {API_DIAG_LOGS,    "limit=0",                     NULL,        100,   50,  0     },
        {API_DIAG_EVENTS,  "limit=500&scope=lifecycle",   "lifecycle", 100,   500, 0     },
        {API_DIAG_EVENTS,  "",                            NULL,        100,   50,  0     },
        {API_DIAG_INSPECT, "scope=x&tail=0",              NULL,        100,   50,  0     },
        {API_DIAG_SUMMARY, "",                            NULL,        50,    20,  0     },
        {API_DIAG_SUMMARY, "tail=1&event_limit=2",        NULL,        1,     2,   0     },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct api_diag_query q;
        struct api_fail f;

        CHECK_EQ(api_diag_query_parse(&a, str_of(rows[i].query), rows[i].kind, &q, &f), 0);
        CHECK(str_eq(q.scope, str_of(rows[i].scope)));
        CHECK_EQ(q.scope.p == NULL, rows[i].scope == NULL);
        CHECK_EQ(q.tail, rows[i].tail);
        CHECK_EQ(q.limit, rows[i].limit);
        CHECK_EQ(q.since_s, rows[i].since_s);
    }
}

TEST(query, refuses_diagnostics_parameters)
{
    static const struct {
        enum api_diag_kind kind;
        const char *query;
    } bad[] = {
        {API_DIAG_LOGS,    "tail=0"       },
        {API_DIAG_LOGS,    "tail=10001"   },
        {API_DIAG_LOGS,    "scope="       },
        {API_DIAG_LOGS,    "scope=ALL"    },
        {API_DIAG_EVENTS,  "limit=0"      },
        {API_DIAG_EVENTS,  "limit=501"    },
        {API_DIAG_EVENTS,  "scope=world"  },
        {API_DIAG_SUMMARY, "event_limit=0"},
        {API_DIAG_SUMMARY, "tail=x"       },
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct api_diag_query q;
        struct api_fail f = {0};

        CHECK_EQ(api_diag_query_parse(&a, str_of(bad[i].query), bad[i].kind, &q, &f), -EBADMSG);
        CHECK_STR(f.code, "SANDBOX::INVALID_PARAMETER");
    }
}
