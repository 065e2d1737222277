#include "image/reference.h"
#include "test.h"

#define HEX "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

TEST(reference, is_completed_as_docker_does)
{
    static const struct {
        const char *text, *full;
    } rows[] = {
        {"python",                   "docker.io/library/python:latest"     },
        {"python:3.12",              "docker.io/library/python:3.12"       },
        {"me/app",                   "docker.io/me/app:latest"             },
        {"docker.io/python",         "docker.io/library/python:latest"     },
        {"index.docker.io/me/app:1", "docker.io/me/app:1"                  },
        {"ghcr.io/me/app",           "ghcr.io/me/app:latest"               },
        {"GHCR.io/me/app",           "ghcr.io/me/app:latest"               },
        {"HOST/app",                 "HOST/app:latest"                     },
        {"localhost/app",            "localhost/app:latest"                },
        {"localhost:5000/app:x",     "localhost:5000/app:x"                },
        {"127.0.0.1:5000/a/b/c:x",   "127.0.0.1:5000/a/b/c:x"              },
        {"[::1]:5000/a:x",           "[::1]:5000/a:x"                      },
        {"a__b-c---d/e.f:T.1-_",     "docker.io/a__b-c---d/e.f:T.1-_"      },
        {"python@sha256:" HEX,       "docker.io/library/python@sha256:" HEX},
        {"r.io/a:1@sha256:" HEX,     "r.io/a:1@sha256:" HEX                },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct image_reference r;
        char out[IMAGE_REFERENCE_TEXT_MAX];

        CHECK_EQ(image_reference_parse(str_of(rows[i].text), &r, NULL), 0);
        image_reference_format(&r, out);
        CHECK_STR(out, rows[i].full);
    }
}

TEST(reference, asks_by_digest_before_tag)
{
    struct image_reference r;

    CHECK_EQ(image_reference_parse(STR("a:1"), &r, NULL), 0);
    CHECK_STR(image_reference_version(&r), "1");
    CHECK_EQ(image_reference_parse(STR("a:1@sha256:" HEX), &r, NULL), 0);
    CHECK_STR(image_reference_version(&r), "sha256:" HEX);
}

TEST(reference, is_refused_with_the_reason)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"",                 "is empty"       },
        {"Python",           "expected a-z"   },
        {"me/App",           "expected a-z"   },
        {"a//b",             "expected a-z"   },
        {"/a",               "expected a-z"   },
        {"a/",               "expected a-z"   },
        {"a..b",             "expected a-z"   },
        {"a___b",            "expected a-z"   },
        {"-a",               "expected a-z"   },
        {"a-",               "expected a-z"   },
        {"../../etc/passwd", "registry"       },
        {"a:",               "tag ''"         },
        {"a:-x",             "tag '-x'"       },
        {"a:x y",            "tag 'x y'"      },
        {"a b",              "expected a-z"   },
        {"a\nb",             "expected a-z"   },
        {"a@sha256:12",      "64 hexadecimal" },
        {"a@",               "is not a digest"},
        {"@sha256:" HEX,     "expected a-z"   },
        {"https://r.io/a",   "leave out"      },
        {"r.io:0/a",         "port"           },
        {"r.io:65536/a",     "port"           },
        {"r.io:x/a",         "port"           },
        {"-r.io/a",          "registry"       },
        {"r_x.io/a",         "registry"       },
        {"r..io/a",          "registry"       },
        {"[::1/a",           "registry"       },
        {"[zz]:1/a",         "registry"       },
        {"[::1]x/a",         "port"           },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct image_reference r = {.tag = "kept"};
        struct err e = {0};

        if (image_reference_parse(str_of(rows[i].text), &r, &e) != -EINVAL)
            test_fail(__FILE__, __LINE__, "'%s' was taken", rows[i].text);
        if (!strstr(e.msg, rows[i].says))
            test_fail(__FILE__, __LINE__, "'%s': %s", rows[i].text, e.msg);
        CHECK_STR(r.tag, "kept");
    }
}

TEST(reference, has_limits)
{
    char name[2000];
    struct image_reference r;

    memset(name, 'a', sizeof(name));
    CHECK_EQ(image_reference_parse(str_make(name, 200), &r, NULL), 0);
    CHECK_EQ(image_reference_parse(str_make(name, 256), &r, NULL), -EINVAL);
    CHECK_EQ(image_reference_parse(str_make(name, sizeof(name)), &r, NULL), -EINVAL);
    name[1] = ':';
    CHECK_EQ(image_reference_parse(str_make(name, 2 + 128), &r, NULL), 0);
    CHECK_EQ(image_reference_parse(str_make(name, 2 + 129), &r, NULL), -EINVAL);
    CHECK_EQ(image_reference_parse(str_make("a\0b", 3), &r, NULL), -EINVAL);
}

TEST(registry, has_one_name)
{
    CHECK_SPAN(image_registry_canonical(STR("https://index.docker.io/v1/")), "docker.io");
    CHECK_SPAN(image_registry_canonical(STR("registry-1.docker.io")), "docker.io");
    CHECK_SPAN(image_registry_canonical(STR("http://localhost:5000/v2/")), "localhost:5000");
    CHECK_SPAN(image_registry_canonical(STR("ghcr.io")), "ghcr.io");
}
