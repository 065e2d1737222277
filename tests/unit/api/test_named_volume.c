#include "api/named_volume.h"

#include <errno.h>

#include "api/requests.h"
#include "base/json.h"

enum { ROOM = 1 << 20 };

TEST(named_volume, reads_sizes_with_fractions)
{
    static const struct {
        const char *text;
        int r;
        uint64_t bytes;
    } rows[] = {
        {"10Gi",                 0,       10ULL << 30           },
        {"1.5Gi",                0,       3ULL << 29            },
        {"0.5Mi",                0,       1ULL << 19            },
        {"1.000000000000001Ki",  0,       1024                  },
        {"2.25k",                0,       2250                  },
        {"1048576",              0,       1048576               },
        {" 5Mi ",                0,       5ULL << 20            },
        {"1.9",                  0,       1                     },
        {"8388607.999Ti",        0,       9223370937343148032ULL},
        {"0",                    -EINVAL, 0                     },
        {"0.0Gi",                -EINVAL, 0                     },
        {"0.1",                  -EINVAL, 0                     },
        {".5Gi",                 -EINVAL, 0                     },
        {"1.Gi",                 -EINVAL, 0                     },
        {"1.5.5Gi",              -EINVAL, 0                     },
        {"-1Gi",                 -EINVAL, 0                     },
        {"1.5 Gi",               -EINVAL, 0                     },
        {"",                     -EINVAL, 0                     },
        {"Gi",                   -EINVAL, 0                     },
        {"99999999999999999999", -ERANGE, 0                     },
        {"99999999.5Ti",         -ERANGE, 0                     },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t bytes = 0;
        int r = api_quantity_parse(str_of(rows[i].text), &bytes);

        if (r != rows[i].r ||
            (r == 0 && rows[i].bytes != bytes && strcmp(rows[i].text, "8388607.999Ti") != 0))
            test_fail(__FILE__, __LINE__, "'%s' read as %" PRIu64 " (%d)", rows[i].text, bytes, r);
    }
}

static int create(struct arena *a, const char *text, struct api_named_volume_create *ret,
                  struct api_fail *f)
{
    *f = (struct api_fail){0};
    return api_named_volume_create_parse(a, STR("application/json"), json_quoted(a, text), ret, f);
}

TEST(named_volume, reads_a_request)
{
    AUTO_ARENA(a, ROOM);
    struct api_named_volume_create c;
    struct api_fail f;

    CHECK_EQ(create(&a, "{'name':'data-1'}", &c, &f), 0);
    CHECK_SPAN(c.name, "data-1");
    CHECK_EQ(c.size_bytes, 0);
    CHECK_EQ(create(&a, "{'name':'d','size':null,'more':1}", &c, &f), 0);
    CHECK_EQ(create(&a, "{'name':'d','size':'2Gi'}", &c, &f), 0);
    CHECK_EQ(c.size_bytes, 2ULL << 30);
}

TEST(named_volume, refuses_what_is_no_volume)
{
    static const struct {
        const char *text, *code, *message;
    } rows[] = {
        {"{}",                         "SANDBOX::INVALID_PARAMETER", "name: "},
        {"{'name':1}",                 "SANDBOX::INVALID_PARAMETER", "name: "},
        {"{'name':''}",                "VOLUME::INVALID_PVC_NAME",   "name: "},
        {"{'name':'A'}",               "VOLUME::INVALID_PVC_NAME",   "name: "},
        {"{'name':'a/b'}",             "VOLUME::INVALID_PVC_NAME",   "name: "},
        {"{'name':'..'}",              "VOLUME::INVALID_PVC_NAME",   "name: "},
        {"{'name':'a-'}",              "VOLUME::INVALID_PVC_NAME",   "name: "},
        {"{'name':'a','size':5}",      "SANDBOX::INVALID_PARAMETER", "size: "},
        {"{'name':'a','size':''}",     "VOLUME::INVALID_SIZE",       "size: "},
        {"{'name':'a','size':'much'}", "VOLUME::INVALID_SIZE",       "size: "},
        {"{'name':'a','size':'0Gi'}",  "VOLUME::INVALID_SIZE",       "size: "},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_ARENA(a, ROOM);
        struct api_named_volume_create c;
        struct api_fail f;

        CHECK(create(&a, rows[i].text, &c, &f) < 0);
        check_refusal(__FILE__, __LINE__, &f, rows[i].code, rows[i].message);
    }
}

TEST(named_volume, writes_what_it_reads)
{
    AUTO_ARENA(a, ROOM);
    AUTO_BUF(out, ROOM);
    struct str ids[] = {STR("one"), STR("two")};
    struct api_named_volume v = {.name = STR("data"), .created_us = 1700000000000000}, back;
    struct json *document = NULL;
    struct err e = {0};

    CHECK_EQ(api_named_volume_write(&out, &v), 0);
    CHECK_STR(out.p, "{\"name\":\"data\",\"createdAt\":\"2023-11-14T22:13:20Z\",\"sizeBytes\":null,"
                     "\"usedBytes\":null,\"usedBy\":[]}");
    buf_clear(&out);
    v.has_limit = v.used_is_known = true;
    v.size_bytes = 1 << 20;
    v.used_by = ids;
    v.used_by_count = 2;
    CHECK_EQ(api_named_volume_write(&out, &v), 0);
    CHECK_EQ(json_parse(&a, buf_str(&out), NULL, &document, &e), 0);
    CHECK_EQ(api_named_volume_read(&a, document, &back, &e), 0);
    CHECK(back.has_limit && back.used_is_known);
    CHECK_EQ(back.size_bytes, 1 << 20);
    CHECK_EQ(back.used_bytes, 0);
    CHECK_EQ(back.created_us, v.created_us);
    CHECK_EQ(back.used_by_count, 2);
    CHECK_SPAN(back.used_by[1], "two");
}
