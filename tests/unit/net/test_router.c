#include "net/router.h"

#include "base/mem.h"
#include "test.h"

static void handler(struct http_req *req UNUSED)
{
}

enum { GET = HTTP_BIT(HTTP_GET), POST = HTTP_BIT(HTTP_POST), HEAD = HTTP_BIT(HTTP_HEAD) };

static const struct http_route table[] = {
    {GET,                     "/",                     0, handler, 0},
    {GET | POST,              "/items",                0, handler, 0},
    {GET,                     "/items/{id}",           0, handler, 0},
    {HTTP_BIT(HTTP_DELETE),   "/items/{id}",           0, handler, 0},
    {GET,                     "/items/new",            0, handler, 0},
    {GET,                     "/items/*",              0, handler, 0},
    {GET,                     "/items/{id}/parts/{p}", 0, handler, 0},
    {GET,                     "/items/new/parts/one",  0, handler, 0},
    {POST,                    "/proxy/{port}/*",       0, handler, 0},
    {GET,                     "/proxy/{port}/*",       0, handler, 0},
    {GET,                     "/slash/",               0, handler, 0},
    {GET,                     "/double//end",          0, handler, 0},
    {HEAD,                    "/head",                 0, handler, 0},
    {GET,                     "/head",                 0, handler, 0},
    {HTTP_BIT(HTTP_OTHER),    "/other",                0, handler, 0},
    {HTTP_ANY_METHOD & ~POST, "/any",                  0, handler, 0},
};

static struct router *make(const struct http_route *routes, size_t count)
{
    struct router *r = NULL;
    struct err e = {0};

    if (router_new(routes, count, &r, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    return r;
}

/* The row that answers, with the values of its parameters: "/items/{id} 7". */
static const char *find(enum http_method method, const char *path)
{
    static char text[256];
    struct router *r = make(table, ARRAY_LEN(table));
    struct route_match m;
    int n;

    router_find(r, method, str_of(path), &m);
    n = snprintf(text, sizeof(text), "%s", m.route ? m.route->path : m.allowed ? "405" : "404");
    for (size_t i = 0; m.route && i < m.param_count; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " %.*s=%.*s", STR_ARG(m.params[i].name),
                      STR_ARG(m.params[i].value));
    router_free(r);
    return text;
}

TEST(router, prefers_literal_to_parameter_to_rest)
{
    static const struct {
        const char *path, *want;
    } rows[] = {
        {"/",                    "/"                                },
        {"/items",               "/items"                           },
        {"/items/new",           "/items/new"                       },
        {"/items/7",             "/items/{id} id=7"                 },
        {"/items/news",          "/items/{id} id=news"              },
        {"/items/7/8",           "/items/* *=7/8"                   },
        {"/items/7/parts/8",     "/items/{id}/parts/{p} id=7 p=8"   },
        {"/items/new/parts/one", "/items/new/parts/one"             },
        {"/proxy/80/",           "/proxy/{port}/* port=80 *="       },
        {"/proxy/80/a/b//c/",    "/proxy/{port}/* port=80 *=a/b//c/"},
        {"/proxy/80",            "404"                              },
        {"/nowhere",             "404"                              },
        {"/itemsandmore",        "404"                              },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_STR(find(HTTP_GET, rows[i].path), rows[i].want);
}

TEST(router, comes_back_from_a_literal_that_led_nowhere)
{
    CHECK_STR(find(HTTP_GET, "/items/new/parts/two"), "/items/{id}/parts/{p} id=new p=two");
    CHECK_STR(find(HTTP_GET, "/items/new/parts"), "/items/* *=new/parts");
    CHECK_STR(find(HTTP_GET, "/items/new/parts/one/more"), "/items/* *=new/parts/one/more");
}

TEST(router, looks_on_for_a_row_with_the_method)
{
    CHECK_STR(find(HTTP_DELETE, "/items/new"), "/items/{id} id=new");
}

TEST(router, takes_no_code_for_a_separator)
{
    CHECK_STR(find(HTTP_GET, "/items/a%2Fb"), "/items/{id} id=a%2Fb");
    CHECK_STR(find(HTTP_GET, "/items%2F7"), "404");
    CHECK_STR(find(HTTP_GET, "/items/.."), "/items/{id} id=..");
    CHECK_STR(find(HTTP_GET, "/Items"), "404");
}

TEST(router, reads_literal_segments_spelled_with_percent_codes)
{
    CHECK_STR(find(HTTP_GET, "/%69tem%73"), "/items");
    CHECK_STR(find(HTTP_GET, "/items/%6e%65%77"), "/items/new");
    CHECK_STR(find(HTTP_GET, "/items/%6E%65%7"), "/items/{id} id=%6E%65%7");
    CHECK_STR(find(HTTP_GET, "/items/%6e%65%77%00"), "/items/{id} id=%6e%65%77%00");
    CHECK_STR(find(HTTP_GET, "/%2569tems"), "404"); /* once only */
    CHECK_STR(find(HTTP_GET, "/double%2F%2Fend"), "404");
    CHECK_STR(find(HTTP_GET, "/%"), "404");
}

TEST(router, takes_empty_segments_and_slashes_as_they_are)
{
    CHECK_STR(find(HTTP_GET, "/items/"), "/items/* *=");
    CHECK_STR(find(HTTP_GET, "//items"), "404");
    CHECK_STR(find(HTTP_GET, "/slash/"), "/slash/");
    CHECK_STR(find(HTTP_GET, "/slash"), "404");
    CHECK_STR(find(HTTP_GET, "/double//end"), "/double//end");
    CHECK_STR(find(HTTP_GET, "/double/end"), "404");
    CHECK_STR(find(HTTP_GET, "/proxy//x"), "404"); /* a parameter is not empty */
    CHECK_STR(find(HTTP_GET, ""), "404");
    CHECK_STR(find(HTTP_GET, "*"), "404");
}

TEST(router, answers_head_with_get_unless_a_row_does)
{
    struct router *r = make(table, ARRAY_LEN(table));
    struct route_match m;

    router_find(r, HTTP_HEAD, STR("/items/7"), &m);
    CHECK(m.route == &table[2]);
    router_find(r, HTTP_HEAD, STR("/head"), &m);
    CHECK(m.route == &table[12]);
    router_free(r);
}

TEST(router, says_what_is_allowed)
{
    static const struct {
        enum http_method method;
        const char *path;
        unsigned allowed;
    } rows[] = {
        {HTTP_PUT,  "/items",     GET | HEAD | POST                 },
        {HTTP_POST, "/items/7",   GET | HEAD | HTTP_BIT(HTTP_DELETE)},
        {HTTP_POST, "/items/new", GET | HEAD | HTTP_BIT(HTTP_DELETE)},
        {HTTP_PUT,  "/proxy/1/2", GET | HEAD | POST                 },
        {HTTP_GET,  "/other",     HTTP_BIT(HTTP_OTHER)              },
        {HTTP_POST, "/any",       HTTP_ANY_METHOD & ~POST           },
        {HTTP_GET,  "/nowhere",   0                                 },
    };
    struct router *r = make(table, ARRAY_LEN(table));

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct route_match m;

        router_find(r, rows[i].method, str_of(rows[i].path), &m);
        CHECK(!m.route);
        CHECK_EQ(m.allowed, rows[i].allowed);
    }
    router_free(r);
}

TEST(router, names_the_row_it_refuses)
{
    static const struct {
        struct http_route rows[2];
        const char *message;
    } tables[] = {
        {{{GET, "a", 0, handler, 0}},                                      "route 'a' does not begin with '/'"  },
        {{{GET, "", 0, handler, 0}},                                       "route '' does not begin with '/'"   },
        {{{GET, "/*/a", 0, handler, 0}},                                   "route '/*/a': '*' cannot stand here"},
        {{{GET, "/{a}/b", 0, handler, 0}, {GET, "/{c}/d", 0, handler, 0}},
         "route '/{c}/d': '{c}' cannot stand here"                                                              },
        {{{GET, "/a", 0, handler, 0}, {GET | POST, "/a", 0, handler, 0}},
         "route '/a' is claimed twice"                                                                          },
        {{{GET, "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/*", 0, handler, 0}},
         "route '/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/*' is too long"                                               },
        {{{GET, "/{}", 0, handler, 0}},                                    "route '/{}': '{}' cannot stand here"},
        {{{GET, "/{a", 0, handler, 0}},                                    "route '/{a': '{a' cannot stand here"},
    };

    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        struct router *r = NULL;
        struct err e = {0};
        size_t count = tables[i].rows[1].path ? 2 : 1;

        CHECK_EQ(router_new(tables[i].rows, count, &r, &e), -EINVAL);
        CHECK(!r);
        CHECK_STR(e.msg, tables[i].message);
    }
}

TEST(router, is_not_slowed_down_by_long_paths)
{
    struct router *r = make(table, ARRAY_LEN(table));
    struct route_match m;
    char *path = mem_alloc(1 << 20);

    memset(path, '/', 1 << 20);
    router_find(r, HTTP_GET, str_make(path, 1 << 20), &m);
    CHECK(!m.route);
    memcpy(path, "/items/", 7);
    router_find(r, HTTP_GET, str_make(path, 1 << 20), &m);
    CHECK_EQ(m.params[0].value.n, (1 << 20) - 7);
    free(path);
    router_free(r);
}

TEST(router, prints_a_table_by_method_and_path)
{
    static const struct http_route rows[] = {
        {GET | POST,      "/items",          0, handler, 0},
        {HTTP_ANY_METHOD, "/proxy/{port}/*", 0, handler, 0},
    };
    AUTO_BUF(text, 256);
    AUTO_BUF(small, 8);

    CHECK_EQ(routes_print(rows, ARRAY_LEN(rows), &text), 0);
    CHECK_STR(text.p, "GET /items\nPOST /items\n* /proxy/{port}/*\n");
    CHECK_EQ(routes_print(rows, ARRAY_LEN(rows), &small), -EMSGSIZE);
}

static void others(struct http_req *req UNUSED)
{
}

TEST(router, repeats_a_group_behind_its_prefixes)
{
    static const struct http_route inner[] = {
        {GET,  "/files/info", 0, handler, 7},
        {POST, "/files",      0, handler, 0},
    };
    static const struct http_route_group group = {inner, ARRAY_LEN(inner)};
    static const struct http_route rows[] = {
        {0, "",          0,                 NULL,   0, &group},
        {0, "/as/{uid}", ROUTE_STREAM_BODY, others, 0, &group},
    };
    struct router *r = make(rows, ARRAY_LEN(rows));
    struct route_match m;
    AUTO_BUF(text, 256);

    router_find(r, HTTP_GET, STR("/files/info"), &m);
    CHECK_STR(m.route->path, "/files/info");
    CHECK(m.route->handler == handler);
    CHECK_EQ(m.route->body_bytes_max, 7);
    router_find(r, HTTP_GET, STR("/as/7/files/info"), &m);
    CHECK_STR(m.route->path, "/as/{uid}/files/info");
    CHECK(m.route->handler == others);
    CHECK_EQ(m.route->flags, ROUTE_STREAM_BODY);
    CHECK_EQ(m.route->body_bytes_max, 0);
    CHECK_EQ(m.route->methods, GET);
    CHECK_EQ(m.param_count, 1);
    router_find(r, HTTP_GET, STR("/as/7/files"), &m);
    CHECK(!m.route);
    CHECK_EQ(m.allowed, POST);
    router_find(r, HTTP_GET, STR("/as/7"), &m);
    CHECK_EQ(m.allowed, 0);
    router_free(r);
    CHECK_EQ(routes_print(rows, ARRAY_LEN(rows), &text), 0);
    CHECK_STR(text.p, "GET /files/info\nPOST /files\nGET /as/{uid}/files/info\n"
                      "POST /as/{uid}/files\n");
}

TEST(router, names_the_whole_path_of_a_wrong_row_in_a_group)
{
    static const struct http_route inner[] = {
        {GET, "/{b}", 0, handler, 0},
        {GET, "/{b}", 0, handler, 0},
    };
    static const struct http_route_group group = {inner, ARRAY_LEN(inner)};
    static const struct http_route row = {.path = "/a", .group = &group};
    struct router *r = NULL;
    struct err e = {0};

    CHECK_EQ(router_new(&row, 1, &r, &e), -EINVAL);
    CHECK_STR(e.msg, "route '/a/{b}' is claimed twice");
}
