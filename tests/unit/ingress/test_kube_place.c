#include "ingress/kube_place.h"

#include "test.h"

static struct place place_of(void (*read)(const struct kube_object *, struct place *),
                             const char *annotations, const char *status)
{
    AUTO_BUF(text, 1 << 16);
    AUTO_BUF(reduced, 1 << 16);
    AUTO_ARENA(arena, 1 << 20);
    auto_object *o = NULL;
    struct json_writer w;
    struct json *root;
    struct place place;
    struct err e = {0};

    CHECK_EQ(buf_addf(&text,
                      "{\"metadata\":{\"name\":\"web\",\"namespace\":\"x\",\"uid\":\"u\","
                      "\"resourceVersion\":\"1\",\"annotations\":{%s}},\"spec\":{\"a\":1},"
                      "\"status\":{%s}}",
                      annotations, status),
             0);
    CHECK_EQ(json_parse(&arena, buf_str(&text), NULL, &root, &e), 0);
    json_write_begin(&w, &reduced);
    kube_place_reduce(root, &w);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK(!strstr(reduced.p, "spec"));
    CHECK_EQ(kube_object_parse(buf_str(&reduced), &o, &e), 0);
    CHECK_SPAN(o->name, "web");
    CHECK_SPAN(o->ns, "x");
    read(o, &place);
    return place;
}

#define TOKEN       "\"opensandbox.io/secure-access-token\":"
#define ENDPOINTS   "\"sandbox.opensandbox.io/endpoints\":"
#define BATCH(a, s) place_of(kube_place_of_batch, a, s)
#define AGENT(a, s) place_of(kube_place_of_agent, a, s)

TEST(kube_place, of_a_batch_sandbox_is_its_first_endpoint)
{
    struct place p =
        BATCH(ENDPOINTS "\"[\\\"10.1.2.3\\\",\\\"10.1.2.4\\\"]\"," TOKEN "\" t \"", "\"ready\":2");

    CHECK_EQ(p.state, PLACE_READY);
    CHECK_STR(p.host, "10.1.2.3");
    CHECK_STR(p.token, "t");
    p = BATCH(ENDPOINTS "\"[\\\"fd00::1\\\"]\"", "\"ready\":1");
    CHECK_STR(p.host, "fd00::1");
    CHECK_STR(p.token, "");
}

TEST(kube_place, of_a_batch_sandbox_may_not_be_ready)
{
    static const char *const bad[] = {
        "\"\"", "\"[]\"", "\"[\\\"\\\"]\"", "\"x\"", "\"{}\"", "\"[1]\"", "\"[\\\"a b\\\"]\"",
    };

    CHECK_EQ(BATCH(ENDPOINTS "\"[\\\"10.1.2.3\\\"]\"", "\"ready\":0").state, PLACE_NOT_READY);
    CHECK_EQ(BATCH(ENDPOINTS "\"[\\\"10.1.2.3\\\"]\"", "").state, PLACE_NOT_READY);
    CHECK_EQ(BATCH("", "\"ready\":1").state, PLACE_NOT_READY);
    CHECK_EQ(BATCH("", "\"ready\":0,\"phase\":\"Paused\"").state, PLACE_PAUSED);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char notes[128];
        struct place p;

        (void)snprintf(notes, sizeof(notes), ENDPOINTS "%s", bad[i]);
        p = BATCH(notes, "\"ready\":1");
        CHECK_EQ(p.state, PLACE_NOT_READY);
        CHECK(p.why);
    }
}

TEST(kube_place, of_an_agent_sandbox_is_its_service)
{
    struct place p =
        AGENT(TOKEN "\"t\"", "\"serviceFQDN\":\"web.x.svc.cluster.local\","
                             "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]");

    CHECK_EQ(p.state, PLACE_READY);
    CHECK_STR(p.host, "web.x.svc.cluster.local");
    CHECK_STR(p.token, "t");
    CHECK_EQ(AGENT("", "\"serviceFQDN\":\"a\"").state, PLACE_NOT_READY);
    CHECK_EQ(AGENT("", "\"serviceFQDN\":\"a\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
                       "\"False\"}]")
                 .state,
             PLACE_NOT_READY);
    CHECK_EQ(AGENT("", "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]").state,
             PLACE_NOT_READY);
    CHECK_EQ(AGENT("", "").state, PLACE_NOT_READY);
}

TEST(kube_place, with_a_token_that_is_too_long_lets_nothing_pass)
{
    char notes[1024], long_token[400];

    memset(long_token, 'a', sizeof(long_token));
    (void)snprintf(notes, sizeof(notes), TOKEN "\"%.399s\"", long_token);
    CHECK_EQ(BATCH(notes, "\"ready\":1").state, PLACE_FAILED);
}
