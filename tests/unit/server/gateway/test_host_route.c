#include "server/gateway/host_route.h"

#include "net/http_server_internal.h"
#include "test.h"

#define ID "5bcf5cf1-bd21-437a-be5a-0872b1dc0e4e"

struct visitor {
    struct http_server server;
    struct http_conn conn;
    struct http_header rows[8];
    struct http_req req;
};

static void visitor_init(struct visitor *v, struct str host, struct str path, struct str query)
{
    *v = (struct visitor){.conn.stream.state = STREAM_CLOSED};
    v->conn.server = &v->server;
    v->req = (struct http_req){.conn = &v->conn, .in_callback = true, .body_state = HTTP_BODY_DONE};
    v->req.head.host = host;
    v->req.head.path = path;
    v->req.head.query = query;
    v->req.head.headers = (struct http_headers){v->rows, 0, ARRAY_LEN(v->rows)};
    arena_init(&v->req.arena, 4096);
    buf_init(&v->req.reply_headers, 4096);
}

static void visitor_done(struct visitor *v)
{
    arena_done(&v->req.arena);
    buf_done(&v->req.reply_headers);
}

static void visitor_says(struct visitor *v, struct str name, struct str value)
{
    struct http_headers *h = &v->req.head.headers;

    h->rows[h->count++] = (struct http_header){name, value};
}

TEST(host_route, names_a_port_and_a_sandbox)
{
    struct host_route r;

    CHECK(host_route_parse(STR("8080-" ID ".localhost:9000"), STR("localhost"), &r));
    CHECK_SPAN(r.port, "8080");
    CHECK_SPAN(r.sandbox_id, ID);
    CHECK(host_route_parse(STR("6080-box.Apps.Example.COM"), STR("apps.example.com"), &r));
    CHECK_SPAN(r.sandbox_id, "box");
}

TEST(host_route, is_no_other_host)
{
    static const char *const others[] = {
        "localhost",
        "localhost:8080",
        ".localhost",
        "8080.localhost",
        "8080-.localhost",
        "-" ID ".localhost",
        "80a-x.localhost",
        "0-x.localhost",
        "65536-x.localhost",
        "123456-x.localhost",
        "80-x.localhost.a",
        "80-xlocalhost",
        "80-a.b.localhost",
        "80-a_b.localhost",
        "127.0.0.1",
        "[::1]:8080",
        "",
        "80-x.evil.test",
        "80-x",
        "80-x.",
    };
    struct host_route r;

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        CHECK(!host_route_parse(str_of(others[i]), STR("localhost"), &r));
    CHECK(!host_route_parse(STR("80-x.localhost"), STR(""), &r));
    CHECK(!host_route_parse(STR("80-x."), STR(""), &r));
}

TEST(host_route, makes_a_path_of_the_host)
{
    struct visitor v;

    visitor_init(&v, STR("80-box.localhost"), STR("/a/b"), STR("c=1"));
    CHECK_EQ(host_route_apply(&v.req, STR("localhost")), 0);
    CHECK_SPAN(v.req.head.path, "/sandboxes/box/proxy/80/a/b");
    CHECK_SPAN(v.req.head.query, "c=1");
    CHECK(v.req.head.query.p == v.req.head.path.p + v.req.head.path.n + 1);
    visitor_done(&v);
    visitor_init(&v, STR("localhost"), STR("/v1/sandboxes"), STR_NONE);
    CHECK_EQ(host_route_apply(&v.req, STR("localhost")), 0);
    CHECK_SPAN(v.req.head.path, "/v1/sandboxes");
    visitor_done(&v);
}

TEST(host_route, takes_the_cookie_of_its_own_pages_only)
{
    struct visitor v;

    visitor_init(&v, STR("80-box.localhost:9"), STR("/"), STR_NONE);
    visitor_says(&v, STR("cookie"), STR("a=1; opensandbox_access=tok-en; b=2"));
    CHECK_SPAN(host_route_cookie(&v.req), "tok-en");
    visitor_says(&v, STR("Origin"), STR("http://80-box.localhost:9"));
    CHECK_SPAN(host_route_cookie(&v.req), "tok-en");
    v.rows[1].value = STR("http://80-other.localhost:9");
    CHECK_EQ(host_route_cookie(&v.req).n, 0u);
    v.rows[1].value = STR("null");
    CHECK_EQ(host_route_cookie(&v.req).n, 0u);
    visitor_done(&v);
}

TEST(host_route, drops_its_cookie_and_no_other)
{
    struct visitor v;

    visitor_init(&v, STR("80-box.localhost"), STR("/"), STR_NONE);
    visitor_says(&v, STR("Cookie"), STR("a=1; opensandbox_access=x;b=2"));
    visitor_says(&v, STR("Cookie"), STR("opensandbox_access=x"));
    visitor_says(&v, STR("X-Other"), STR("opensandbox_access=x"));
    host_route_drop_cookie(&v.req);
    CHECK_EQ(v.req.head.headers.count, 2u);
    CHECK_SPAN(v.rows[0].value, "a=1; b=2");
    CHECK_SPAN(v.rows[1].name, "X-Other");
    visitor_done(&v);
}

TEST(host_route, finds_the_parameter)
{
    CHECK_SPAN(host_route_access(STR("a=1&opensandbox_access=x-y&b")), "x-y");
    CHECK_EQ(host_route_access(STR("a=opensandbox_access")).n, 0u);
    CHECK_EQ(host_route_access(STR_NONE).n, 0u);
}

TEST(host_route, signs_in_and_stays_on_its_host)
{
    struct visitor v;
    struct str rows;

    visitor_init(&v, STR("80-box.localhost"), STR("/sandboxes/box/proxy/80//evil.test"),
                 STR("a=1&opensandbox_access=tok&b=2"));
    host_route_sign_in(&v.req, STR("//evil.test"), STR("tok"));
    CHECK_EQ(v.req.status, 303);
    rows = buf_str(&v.req.reply_headers);
    CHECK(str_find_str(rows, STR("Location: /.//evil.test?a=1&b=2\r\n")) < rows.n);
    CHECK(str_find_str(rows, STR("Set-Cookie: opensandbox_access=tok; Path=/; HttpOnly; "
                                 "SameSite=Lax\r\n")) < rows.n);
    visitor_done(&v);
}
