#include "api/limits.h"

#include "test.h"

TEST(limits, reads_bytes_as_the_contract_lists_them)
{
    static const struct {
        const char *text;
        int r;
        uint64_t bytes;
    } rows[] = {
        {"512Mi",                0,       536870912          },
        {"1g",                   0,       1000000000         },
        {"10kb",                 0,       10000              },
        {" 5MB ",                0,       5000000            },
        {"1Ti",                  0,       1099511627776      },
        {"100",                  0,       100                },
        {"7b",                   0,       7                  },
        {"3K",                   0,       3000               },
        {"3kI",                  0,       3072               },
        {"2GB",                  0,       2000000000         },
        {"2gi",                  0,       2147483648         },
        {"1tb",                  0,       1000000000000      },
        {"9223372036854775807",  0,       9223372036854775807},
        {"1.5Gi",                -EINVAL, 0                  },
        {"7ib",                  -EINVAL, 0                  },
        {"5i",                   -EINVAL, 0                  },
        {"5 Mi",                 -EINVAL, 0                  },
        {"Mi",                   -EINVAL, 0                  },
        {"",                     -EINVAL, 0                  },
        {"-1",                   -EINVAL, 0                  },
        {"+1",                   -EINVAL, 0                  },
        {"0",                    -EINVAL, 0                  },
        {"0Gi",                  -EINVAL, 0                  },
        {"1Pi",                  -EINVAL, 0                  },
        {"9223372036854775808",  -ERANGE, 0                  },
        {"99999999999999999999", -ERANGE, 0                  },
        {"99999999Ti",           -ERANGE, 0                  },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t bytes = 0;

        if (api_bytes_parse(str_of(rows[i].text), &bytes) != rows[i].r || bytes != rows[i].bytes)
            test_fail(__FILE__, __LINE__, "'%s' read as %" PRIu64, rows[i].text, bytes);
    }
}

TEST(limits, reads_processors_and_rounds_up)
{
    static const struct {
        const char *text;
        int r;
        uint32_t millicores;
    } rows[] = {
        {"500m",        0,       500       },
        {"2",           0,       2000      },
        {"0.5",         0,       500       },
        {"1.5m",        0,       2         },
        {" 0.25 ",      0,       250       },
        {"1.2345",      0,       1235      },
        {"1.2340",      0,       1234      },
        {"0.0001",      0,       1         },
        {"0.1m",        0,       1         },
        {"4294967.295", 0,       4294967295},
        {"4294967.296", -ERANGE, 0         },
        {"4294967296m", -ERANGE, 0         },
        {"0",           -EINVAL, 0         },
        {"0.0",         -EINVAL, 0         },
        {"0m",          -EINVAL, 0         },
        {"-1",          -EINVAL, 0         },
        {"1.",          -EINVAL, 0         },
        {".5",          -EINVAL, 0         },
        {"1e3",         -EINVAL, 0         },
        {"1M",          -EINVAL, 0         },
        {"m",           -EINVAL, 0         },
        {"",            -EINVAL, 0         },
        {"1.2.3",       -EINVAL, 0         },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t got = 0;

        if (api_millicores_parse(str_of(rows[i].text), &got) != rows[i].r ||
            got != rows[i].millicores)
            test_fail(__FILE__, __LINE__, "'%s' read as %" PRIu32, rows[i].text, got);
    }
}

TEST(limits, reads_gpus)
{
    int32_t n = 0;

    CHECK_EQ(api_gpus_parse(STR("all"), &n), 0);
    CHECK_EQ(n, -1);
    CHECK_EQ(api_gpus_parse(STR("2"), &n), 0);
    CHECK_EQ(n, 2);
    CHECK_EQ(api_gpus_parse(STR("ALL"), &n), 0);
    CHECK_EQ(n, -1);
    CHECK_EQ(api_gpus_parse(STR("0"), &n), -EINVAL);
    CHECK_EQ(api_gpus_parse(STR("-1"), &n), -EINVAL);
    CHECK_EQ(api_gpus_parse(STR("x"), &n), -EINVAL);
    CHECK_EQ(api_gpus_parse(STR("2147483648"), &n), -ERANGE);
}

TEST(limits, takes_the_keys_it_knows_and_leaves_the_others)
{
    const struct json_pair pairs[] = {
        {STR("cpu"),               STR("500m")   },
        {STR("memory"),            STR("512Mi")  },
        {STR("gpu"),               STR("1")      },
        {STR("disk"),              STR("3Gi")    },
        {STR("ephemeral-storage"), STR("1Gi")    },
        {STR("storage"),           STR("2Gi")    },
        {STR("Memory"),            STR("a whale")},
    };
    struct api_limits limits;
    struct api_fail f = {0};

    CHECK_EQ(api_limits_parse(pairs, ARRAY_LEN(pairs), &limits, &f), 0);
    CHECK_EQ(limits.cpu_millicores, 500);
    CHECK_EQ(limits.memory_bytes, 512 << 20);
    CHECK_EQ(limits.gpus, 1);
    CHECK_EQ(limits.disk_bytes, 1 << 30);
    CHECK_EQ(api_limits_parse(NULL, 0, &limits, &f), 0);
    CHECK_EQ(limits.memory_bytes, 0);
}

TEST(limits, refuses_a_known_key_whose_value_means_nothing)
{
    static const struct {
        const char *key, *value, *message;
    } rows[] = {
        {"memory",            "1.5Gi",
         "resourceLimits.memory: expected a whole number of bytes above 0, or one with a unit, "
         "like 512Mi or 2G, got '1.5Gi'"                                                              },
        {"cpu",               "many",
         "resourceLimits.cpu: expected cores above 0, like 2 or 0.5, or millicores, like 500m, got "
         "'many'"                                                                                     },
        {"gpu",               "0",     "resourceLimits.gpu: expected a whole number above 0, or all; "},
        {"disk",              "x",     "resourceLimits.disk: expected a whole number of bytes"        },
        {"storage",           "",      "resourceLimits.storage: expected a whole number of bytes"     },
        {"ephemeral-storage", "0",     "resourceLimits.ephemeral-storage: expected a whole number of" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json_pair pair = {str_of(rows[i].key), str_of(rows[i].value)};
        struct api_limits limits;
        struct api_fail f = {0};

        CHECK_EQ(api_limits_parse(&pair, 1, &limits, &f), -EBADMSG);
        CHECK_STR(f.code, "SANDBOX::INVALID_PARAMETER");
        f.message[strnlen(rows[i].message, sizeof(f.message) - 1)] = '\0';
        CHECK_STR(f.message, rows[i].message);
    }
}
