/* The client of the Docker engine, against an engine that answers by a script. */
#include "server/runtime/docker/engine.h"

#include "runtime/docker/scripted_engine.h"

static int call(struct scripted_engine *s, const struct engine_request *rq,
                struct engine_answer *answer, struct err *e)
{
    struct engine_conf conf = {.host = s->host, .cert_dir = "", .timeout_ms = 5000};
    struct engine *en = NULL;
    int r;

    CHECK_EQ(engine_new(&conf, &en, e), 0);
    r = engine_call(en, rq, answer, e);
    engine_free(en);
    return r;
}

TEST(engine, knows_where_an_engine_is)
{
    struct engine_place place;
    struct err e = {0};

    CHECK_EQ(engine_place_parse("unix:///var/run/docker.sock", &place, &e), 0);
    CHECK_STR(place.host, "");
    CHECK_EQ(engine_place_parse("tcp://127.0.0.1:2375", &place, &e), 0);
    CHECK_STR(place.host, "127.0.0.1");
    CHECK_EQ(sock_addr_port(&place.addr), 2375);
    CHECK_EQ(engine_place_parse("tcp://[::1]:99/", &place, &e), 0);
    CHECK_STR(place.host, "::1");
    CHECK_EQ(sock_addr_port(&place.addr), 99);
    CHECK_EQ(engine_place_parse("tcp://127.0.0.1", &place, &e), 0);
    CHECK_EQ(sock_addr_port(&place.addr), 2375);
}

TEST(engine, refuses_what_is_no_place)
{
    static const char *const texts[] = {"",          "unix:relative",   "ssh://host",
                                        "tcp://",    "tcp://h:0",       "tcp://h:99999",
                                        "/var/sock", "tcp://[::1:2375", "npipe:////./pipe/x"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct engine_place place;
        struct err e = {0};

        CHECK_EQ(engine_place_parse(texts[i], &place, &e), -EINVAL);
        CHECK(strstr(e.msg, "tcp://host:port"));
    }
}

TEST(engine, agrees_on_a_version_and_uses_it)
{
    static const struct {
        const char *answer;
        unsigned minor;
    } rows[] = {
        {HTTP_ANSWER("200 OK", "{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}"), 41},
        {HTTP_ANSWER("200 OK", "{\"ApiVersion\":\"1.30\"}"),                            30},
        {HTTP_ANSWER("200 OK", "{\"ApiVersion\":\"1.47\",\"MinAPIVersion\":\"1.24\"}"), 41},
        {HTTP_ANSWER("200 OK", "{\"ApiVersion\":\"1.52\",\"MinAPIVersion\":\"1.44\"}"), 44},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct scripted_engine s = {
            .answers = {rows[i].answer, HTTP_ANSWER("200 OK", "OK")}
        };
        auto_answer answer = ENGINE_ANSWER_NONE;
        struct engine *en = NULL;
        struct err e = {0};
        char want[64];

        engine_start_script(&s);
        CHECK_EQ(engine_new(&(struct engine_conf){s.host, "", 5000}, &en, &e), 0);
        CHECK_EQ(engine_negotiate(en, &e), 0);
        CHECK_EQ(engine_api_minor(en), rows[i].minor);
        CHECK_EQ(
            engine_call(en, &(struct engine_request){HTTP_GET, .target = "/_ping"}, &answer, &e),
            0);
        engine_free(en);
        engine_end_script(&s);
        (void)snprintf(want, sizeof(want), "GET /v1.%u/_ping HTTP/1.1\r\n", rows[i].minor);
        CHECK(strncmp(s.asked[1], want, strlen(want)) == 0);
    }
}

TEST(engine, refuses_what_is_no_engine_or_too_old)
{
    static const char *const answers[] = {
        HTTP_ANSWER("200 OK", "{}"),
        HTTP_ANSWER("200 OK", "{\"ApiVersion\":\"1.12\"}"),
        HTTP_ANSWER("200 OK", "{\"ApiVersion\":\"x\"}"),
        HTTP_ANSWER("200 OK", "<html>"),
    };

    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        struct scripted_engine s = {.answers = {answers[i]}};
        struct engine *en = NULL;
        struct err e = {0};

        engine_start_script(&s);
        CHECK_EQ(engine_new(&(struct engine_conf){s.host, "", 5000}, &en, &e), 0);
        CHECK(engine_negotiate(en, &e) < 0);
        CHECK(e.code != 0);
        engine_free(en);
        engine_end_script(&s);
    }
}

TEST(engine, turns_refusals_into_codes_with_the_engines_message)
{
    static const struct {
        const char *answer;
        int code;
    } rows[] = {
        {HTTP_ANSWER("404 Not Found",   "{\"message\":\"No such image: x\"}"), ENOENT},
        {HTTP_ANSWER("409 Conflict",    "{\"message\":\"No such image: x\"}"), ESTALE},
        {HTTP_ANSWER("400 Bad Request", "{\"message\":\"No such image: x\"}"), EINVAL},
        {HTTP_ANSWER("500 Internal",    "No such image: x\n"),                 EIO   },
        {HTTP_ANSWER("403 Forbidden",   "{\"message\":\"No such image: x\"}"), EACCES},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct scripted_engine s = {.answers = {rows[i].answer}};
        auto_answer answer = ENGINE_ANSWER_NONE;
        struct err e = {0};

        engine_start_script(&s);
        CHECK_EQ(call(&s, &(struct engine_request){HTTP_GET, .target = "/x"}, &answer, &e),
                 -rows[i].code);
        CHECK(strstr(e.msg, "No such image: x"));
        engine_end_script(&s);
    }
}

TEST(engine, sends_a_body_and_a_registrys_credentials)
{
    struct scripted_engine s = {.answers = {HTTP_ANSWER("201 Created", "{\"Id\":\"a\"}")}};
    struct engine_request rq = {HTTP_POST, .target = "/y", .body = STR("{}"), .auth = STR("QQ==")};
    auto_answer answer = ENGINE_ANSWER_NONE;
    struct err e = {0};

    engine_start_script(&s);
    CHECK_EQ(call(&s, &rq, &answer, &e), 0);
    CHECK_EQ(answer.status, 201);
    CHECK_STR(answer.body.p, "{\"Id\":\"a\"}");
    engine_end_script(&s);
    CHECK(strstr(s.asked[0], "X-Registry-Auth: QQ==\r\n"));
    CHECK(strstr(s.asked[0], "Content-Type: application/json\r\n"));
    CHECK(strstr(s.asked[0], "\r\n\r\n{}"));
}

TEST(engine, says_whether_an_engine_that_is_gone_may_have_acted)
{
    struct scripted_engine none = {.host = "unix:///no/such/socket"};
    struct scripted_engine s = {.answers = {""}};
    auto_answer answer = ENGINE_ANSWER_NONE;
    struct engine_request rq = {HTTP_POST, .target = "/x", .body = STR("{}")};
    struct err e = {0};

    CHECK_EQ(call(&none, &rq, &answer, &e), -EBUSY); /* it has seen nothing */
    CHECK(strstr(e.msg, "/no/such/socket"));
    engine_start_script(&s);
    CHECK_EQ(call(&s, &rq, &answer, &e), -ETIMEDOUT); /* it has, and broke off */
    engine_end_script(&s);
}

TEST(engine, gives_up_at_its_deadline)
{
    struct scripted_engine s = {.answers = {"HTTP/1.1 200 OK\r\n"}, .silent = true};
    struct engine_request rq = {HTTP_GET, .target = "/x", .timeout_ms = 50};
    auto_answer answer = ENGINE_ANSWER_NONE;
    struct err e = {0};

    engine_start_script(&s);
    CHECK_EQ(call(&s, &rq, &answer, &e), -ETIMEDOUT);
    engine_end_script(&s);
}

TEST(engine, ends_early_when_it_is_cancelled)
{
    struct scripted_engine s = {.answers = {"HTTP/1.1 200 OK\r\n"}, .silent = true};
    atomic_bool cancelled = true;
    struct engine_request rq = {HTTP_GET, .target = "/x", .cancelled = &cancelled};
    auto_answer answer = ENGINE_ANSWER_NONE;
    struct err e = {0};

    engine_start_script(&s);
    CHECK_EQ(call(&s, &rq, &answer, &e), -ECANCELED);
    engine_end_script(&s);
}

TEST(engine, refuses_an_answer_past_its_limit)
{
    struct scripted_engine s = {.answers = {HTTP_ANSWER("200 OK", "0123456789")}};
    struct engine_request rq = {HTTP_GET, .target = "/x", .answer_max = 4};
    auto_answer answer = ENGINE_ANSWER_NONE;
    struct err e = {0};

    engine_start_script(&s);
    CHECK_EQ(call(&s, &rq, &answer, &e), -EMSGSIZE);
    engine_end_script(&s);
}

static int take_piece(void *user, struct str piece, struct err *e UNUSED)
{
    return buf_add(user, piece);
}

TEST(engine, hands_a_long_answer_on_in_pieces)
{
    struct scripted_engine s = {.answers = {HTTP_ANSWER("200 OK", "line 1\nline 2\n")}};
    AUTO_BUF(text, 100);
    struct engine_request rq = {HTTP_GET, .target = "/x", .on_piece = take_piece, .user = &text,
                                .answer_max = 1};
    auto_answer answer = ENGINE_ANSWER_NONE;
    struct err e = {0};

    engine_start_script(&s);
    CHECK_EQ(call(&s, &rq, &answer, &e), 0);
    CHECK_STR(text.p, "line 1\nline 2\n");
    engine_end_script(&s);
}
