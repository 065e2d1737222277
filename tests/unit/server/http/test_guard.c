#include "server/http/guard.h"

#include "net/http_server_internal.h"
#include "test.h"

/* A request whose connection is closed: what is replied goes nowhere, and its status stays. */
struct visitor {
    struct http_server server;
    struct http_conn conn;
    struct http_header rows[8];
    struct http_req req;
};

static void visitor_init(struct visitor *v, enum http_method method, struct str path)
{
    *v = (struct visitor){.conn.stream.state = STREAM_CLOSED};
    v->conn.server = &v->server;
    v->req = (struct http_req){.conn = &v->conn, .in_callback = true, .body_state = HTTP_BODY_DONE};
    v->req.head.method = method;
    v->req.head.path = path;
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

static bool replies_with(const struct visitor *v, struct str row)
{
    struct str rows = buf_str(&v->req.reply_headers);

    return str_find_str(rows, row) != rows.n;
}

static const struct guard two_keys = {
    .keys = {STR_INIT("first"), STR_INIT("second")},
    .key_count = 2,
};

/* The status a request ends with at the guard; 0 when it is let in. */
static int status_of(const struct guard *g, struct str path, struct str key)
{
    struct visitor v;
    int status;

    visitor_init(&v, HTTP_GET, path);
    if (key.p)
        visitor_says(&v, STR("open-sandbox-api-key"), key);
    CHECK_EQ(guard_admit(g, &v.req), v.req.status == 0);
    status = v.req.status;
    visitor_done(&v);
    return status;
}

TEST(guard, knows_all_its_keys_and_no_other)
{
    static const struct guard none = {.key_count = 0};
    static const struct guard empty = {.keys = {STR_INIT("")}, .key_count = 1};

    CHECK(guard_find_key(&two_keys, STR("first")));
    CHECK(guard_find_key(&two_keys, STR("second")));
    CHECK(!guard_find_key(&two_keys, STR("third")));
    CHECK(!guard_find_key(&two_keys, STR("firs")));
    CHECK(!guard_find_key(&two_keys, STR("firstfirst")));
    CHECK(!guard_find_key(&two_keys, STR("First")));
    CHECK(!guard_find_key(&two_keys, STR("")));
    CHECK(!guard_find_key(&two_keys, STR_NONE));
    CHECK(!guard_find_key(&none, STR("")));
    CHECK(!guard_find_key(&empty, STR("")));
}

/* Who the guard takes the sender for; "" when it is not let in. */
static struct principal caller_of(const struct guard *g, struct str path, struct str key)
{
    struct principal caller = {0};
    struct visitor v;

    visitor_init(&v, HTTP_GET, path);
    if (key.p)
        visitor_says(&v, STR("open-sandbox-api-key"), key);
    if (guard_admit(g, &v.req))
        caller = *guard_principal(&v.req);
    visitor_done(&v);
    return caller;
}

TEST(guard, knows_the_caller_by_the_key)
{
    struct guard g = {0};
    struct principal p;

    guard_add_key(&g, STR("first"));
    guard_add_key(&g, STR("second"));
    p = caller_of(&g, STR("/v1/sandboxes"), STR("second"));
    CHECK_STR(p.key_id, principal_of_key(STR("second")).key_id);
    CHECK_EQ(p.role, ROLE_ADMIN);
    CHECK_STR(caller_of(&g, STR("/v1/sandboxes"), STR("third")).key_id, "");
}

TEST(guard, gives_no_role_to_a_caller_without_a_key)
{
    struct guard g = {0};
    struct principal p;

    guard_add_key(&g, STR("first"));
    p = caller_of(&g, STR("/health"), STR_NONE);
    CHECK_STR(p.key_id, "anonymous");
    CHECK_EQ(p.role, ROLE_NONE);
    CHECK_EQ(caller_of(&g, STR("/sandboxes/a/proxy/80"), STR_NONE).role, ROLE_NONE);
}

TEST(guard, takes_every_caller_for_an_admin_when_open)
{
    static const struct guard open = {.key_count = 0};
    struct principal p = caller_of(&open, STR("/v1/sandboxes"), STR_NONE);

    CHECK_STR(p.key_id, "anonymous");
    CHECK_EQ(p.role, ROLE_ADMIN);
}

TEST(guard, keeps_as_many_keys_as_fit)
{
    struct guard g = {0};

    for (size_t i = 0; i < GUARD_KEYS_MAX + 1; i++)
        guard_add_key(&g, STR("key"));
    CHECK_EQ(g.key_count, GUARD_KEYS_MAX);
}

/* A configuration that is loaded again changes the keys, but not who sent a request of before. */
TEST(guard, remembers_the_caller_when_the_keys_change)
{
    struct guard g = {0};
    struct visitor v;

    guard_add_key(&g, STR("first"));
    visitor_init(&v, HTTP_GET, STR("/v1/sandboxes"));
    visitor_says(&v, STR("open-sandbox-api-key"), STR("first"));
    CHECK(guard_admit(&g, &v.req));
    g.key_count = 0;
    guard_add_key(&g, STR("second"));
    CHECK_STR(guard_principal(&v.req)->key_id, principal_of_key(STR("first")).key_id);
    visitor_done(&v);
}

TEST(guard, finds_all_its_keys_in_a_text)
{
    static const struct guard none = {.key_count = 0};

    CHECK(guard_holds_key(&two_keys, STR("first")));
    CHECK(guard_holds_key(&two_keys, STR("a=b; k=second")));
    CHECK(!guard_holds_key(&two_keys, STR("a=b; k=third")));
    CHECK(!guard_holds_key(&two_keys, STR("")));
    CHECK(!guard_holds_key(&none, STR("first")));
}

TEST(guard, asks_for_a_key)
{
    CHECK_EQ(status_of(&two_keys, STR("/v1/sandboxes"), STR_NONE), 401);
    CHECK_EQ(status_of(&two_keys, STR("/v1/sandboxes"), STR("")), 401);
    CHECK_EQ(status_of(&two_keys, STR("/v1/sandboxes"), STR("wrong")), 401);
    CHECK_EQ(status_of(&two_keys, STR("/v1/sandboxes"), STR("first")), 0);
    CHECK_EQ(status_of(&two_keys, STR("/no/such/path"), STR("second")), 0);
}

TEST(guard, lets_all_in_when_open_access_was_asked_for)
{
    static const struct guard open = {.key_count = 0};

    CHECK_EQ(status_of(&open, STR("/v1/sandboxes"), STR_NONE), 0);
    CHECK_EQ(status_of(&open, STR("/v1/sandboxes"), STR("whatever")), 0);
}

TEST(guard, exempts_paths_by_their_exact_name)
{
    static const struct {
        struct str path;
        bool open;
    } rows[] = {
        {STR_INIT("/"),                             true },
        {STR_INIT("//"),                            false},
        {STR_INIT("/health"),                       true },
        {STR_INIT("/ready"),                        true },
        {STR_INIT("/version"),                      true },
        {STR_INIT("/docs"),                         true },
        {STR_INIT("/openapi.json"),                 true },
        {STR_INIT("/console"),                      true },
        {STR_INIT("/console/"),                     true },
        {STR_INIT("/console/assets/a.js"),          true },
        {STR_INIT("/consoles"),                     false},
        {STR_INIT("/preview/ticket/a"),             true },
        {STR_INIT("/previews/ticket"),              false},
        {STR_INIT("/healthzzz"),                    false},
        {STR_INIT("/health/"),                      false},
        {STR_INIT("/HEALTH"),                       false},
        {STR_INIT("//health"),                      false},
        {STR_INIT("/health/../v1/sandboxes"),       false},
        {STR_INIT("/docs/x"),                       false},
        {STR_INIT("/metrics"),                      false},
        {STR_INIT("*"),                             false},
        {STR_INIT(""),                              false},
        {STR_INIT("/sandboxes/a/proxy/80"),         true },
        {STR_INIT("/v1/sandboxes/a/proxy/80"),      true },
        {STR_INIT("/v1/sandboxes/a/proxy/80/"),     true },
        {STR_INIT("/v1/sandboxes/a/proxy/80/b/.."), true },
        {STR_INIT("/v1/sandboxes/a/proxy/x"),       true },
        {STR_INIT("/v1/sandboxes/a/proxy/"),        false},
        {STR_INIT("/v1/sandboxes/a/proxy"),         false},
        {STR_INIT("/v1/sandboxes//proxy/80"),       false},
        {STR_INIT("/v1/sandboxes/a/proxyx/80"),     false},
        {STR_INIT("/v1/sandboxes/a/%70roxy/80"),    false},
        {STR_INIT("/v1/sandboxes/a/b/proxy/80"),    false},
        {STR_INIT("/v1/v1/sandboxes/a/proxy/80"),   false},
        {STR_INIT("/v2/sandboxes/a/proxy/80"),      false},
        {STR_INIT("/v1/snapshots/a/proxy/80"),      false},
        {STR_INIT("/v1sandboxes/a/proxy/80"),       false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (status_of(&two_keys, rows[i].path, STR_NONE) != (rows[i].open ? 0 : 401))
            test_fail(__FILE__, __LINE__, "%s", rows[i].path.p);
}

/* The id a request gets that came with `wanted`. */
static void check_id(struct str wanted, bool kept)
{
    struct visitor v;

    visitor_init(&v, HTTP_GET, STR("/health"));
    if (wanted.p)
        visitor_says(&v, STR("x-request-id"), wanted);
    CHECK(guard_admit(&two_keys, &v.req));
    CHECK_EQ(str_eq(v.req.id, wanted), kept);
    if (!kept)
        CHECK_EQ(v.req.id.n, 32);
    for (size_t i = 0; !kept && i < v.req.id.n; i++)
        CHECK(ascii_hex_value(v.req.id.p[i]) >= 0);
    CHECK(replies_with(&v, STR("X-Request-ID: ")) && replies_with(&v, v.req.id));
    visitor_done(&v);
}

TEST(guard, names_every_request)
{
    char long_id[GUARD_ID_BYTES_MAX + 1];

    memset(long_id, 'x', sizeof(long_id));
    check_id(STR_NONE, false);
    check_id(STR(""), false);
    check_id(STR("a"), true);
    check_id(STR("trace 1/2: {\"a\"}"), true);
    check_id(STR("\xc3\xa9"), false);
    check_id(STR("a\tb"), false);
    check_id(str_make(long_id, GUARD_ID_BYTES_MAX), true);
    check_id(str_make(long_id, GUARD_ID_BYTES_MAX + 1), false);
}

TEST(guard, names_what_is_no_request_once)
{
    struct visitor v;
    size_t n;

    visitor_init(&v, HTTP_OTHER, STR_NONE);
    guard_refuse(&v.req);
    n = v.req.reply_headers.n;
    CHECK_EQ(v.req.id.n, 32);
    guard_refuse(&v.req);
    CHECK_EQ(v.req.reply_headers.n, n);
    visitor_done(&v);
}

TEST(guard, names_refusals_too)
{
    struct visitor v;

    visitor_init(&v, HTTP_GET, STR("/v1/sandboxes"));
    visitor_says(&v, STR("Origin"), STR("https://a.example"));
    CHECK(!guard_admit(&two_keys, &v.req));
    CHECK_EQ(v.req.status, 401);
    CHECK(replies_with(&v, STR("X-Request-ID: ")));
    CHECK(replies_with(&v, STR("Access-Control-Allow-Origin: https://a.example\r\n")));
    visitor_done(&v);
}

TEST(guard, lets_any_origin_read_without_its_credentials)
{
    struct visitor v;

    visitor_init(&v, HTTP_GET, STR("/health"));
    CHECK(guard_admit(&two_keys, &v.req));
    CHECK(!replies_with(&v, STR("Access-Control")) && !replies_with(&v, STR("Vary")));
    visitor_done(&v);

    visitor_init(&v, HTTP_GET, STR("/health"));
    visitor_says(&v, STR("Origin"), STR("null"));
    CHECK(guard_admit(&two_keys, &v.req));
    CHECK(replies_with(&v, STR("Access-Control-Allow-Origin: null\r\nVary: Origin\r\n")));
    CHECK(!replies_with(&v, STR("Credentials")));
    visitor_done(&v);
}

TEST(guard, answers_preflights_before_it_asks_for_keys)
{
    struct visitor v;

    visitor_init(&v, HTTP_OPTIONS, STR("/v1/sandboxes"));
    visitor_says(&v, STR("Origin"), STR("https://a.example"));
    visitor_says(&v, STR("Access-Control-Request-Method"), STR("POST"));
    visitor_says(&v, STR("Access-Control-Request-Headers"), STR("open-sandbox-api-key, x-a"));
    CHECK(!guard_admit(&two_keys, &v.req));
    CHECK_EQ(v.req.status, 200);
    CHECK(replies_with(&v, STR("Access-Control-Allow-Origin: https://a.example\r\n")));
    CHECK(replies_with(&v, STR("Access-Control-Allow-Methods: "
                               "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT\r\n")));
    CHECK(replies_with(&v, STR("Access-Control-Max-Age: 600\r\n")));
    CHECK(replies_with(&v, STR("Access-Control-Allow-Headers: open-sandbox-api-key, x-a\r\n")));
    CHECK(!replies_with(&v, STR("Credentials")));
    visitor_done(&v);
}

TEST(guard, takes_other_options_for_ordinary_requests)
{
    static const struct str headers[] = {
        STR_INIT("Origin"),
        STR_INIT("Access-Control-Request-Method"),
    };

    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        struct visitor v;

        visitor_init(&v, HTTP_OPTIONS, STR("/v1/sandboxes"));
        visitor_says(&v, headers[i], STR("POST"));
        CHECK(!guard_admit(&two_keys, &v.req));
        CHECK_EQ(v.req.status, 401);
        visitor_done(&v);
    }
}
