/* What the Docker runtime makes of the engine's words: containers, events, output, pulls; and its
 * table of boxes. */
#include <poll.h>

#include "base/fd.h"
#include "server/runtime/docker/docker_internal.h"
#include "server/runtime/docker/pull_report.h"
#include "test.h"

#define OWNER "0a0a"

static int facts_of(const char *text, struct docker_facts *ret)
{
    AUTO_ARENA(arena, 1 << 20);
    struct json *tree = NULL;
    struct err e = {0};

    CHECK_EQ(json_parse(&arena, str_of(text), NULL, &tree, &e), 0);
    return docker_facts_read(tree, OWNER, "mine", ret, &e);
}

#define CONTAINER(state)                                                                           \
    "{\"Id\":\"abc\",\"State\":" state                                                             \
    ",\"Config\":{\"Env\":[\"A=b\",\"EXECD_ACCESS_TOKEN=opensandbox-t0ken\"],\"Labels\":{"         \
    "\"opensandbox.io/owner\":\"0a0a\",\"opensandbox.io/embedding-proxy-port\":\"40123\"}},"       \
    "\"NetworkSettings\":{\"IPAddress\":\"\",\"Networks\":{\"other\":{\"IPAddress\":\"10.0.0.9\"}" \
    ",\"mine\":{\"IPAddress\":\"10.1.2.3\"}}}}"

TEST(docker_inspect, reads_a_running_container)
{
    struct docker_facts f;

    CHECK_EQ(facts_of(CONTAINER("{\"Status\":\"running\",\"Pid\":42}"), &f), 0);
    CHECK_EQ(f.status.state, RUNTIME_RUNNING);
    CHECK(f.owned && !f.created);
    CHECK_STR(f.token, "opensandbox-t0ken");
    CHECK_EQ(f.execd_port, 40123);
    CHECK_EQ(ntohl(f.address.s_addr), 0x0a010203);
    CHECK_EQ(f.pid, 42);
}

TEST(docker_inspect, reads_how_a_container_ended)
{
    struct docker_facts f;

    CHECK_EQ(facts_of(CONTAINER("{\"Status\":\"exited\",\"ExitCode\":3,\"OOMKilled\":true,"
                                "\"FinishedAt\":\"2026-01-02T03:04:05.123456789Z\"}"),
                      &f),
             0);
    CHECK_EQ(f.status.state, RUNTIME_EXITED);
    CHECK_EQ(f.status.exit_code, 3);
    CHECK(f.status.out_of_memory);
    CHECK_EQ(f.status.ended_us % 1000000, 123456);
    CHECK_EQ(facts_of(CONTAINER("{\"Status\":\"created\",\"Error\":\"no port\"}"), &f), 0);
    CHECK_EQ(f.status.state, RUNTIME_FAILED);
    CHECK(f.created && strstr(f.status.err.msg, "no port"));
    CHECK_EQ(facts_of(CONTAINER("{\"Status\":\"paused\"}"), &f), 0);
    CHECK_EQ(f.status.state, RUNTIME_PAUSED);
}

TEST(docker_inspect, takes_a_token_of_the_request_for_none_of_its_own)
{
    struct docker_facts f;

    CHECK_EQ(facts_of("{\"Id\":\"a\",\"State\":{\"Status\":\"running\"},\"Config\":{\"Env\":["
                      "\"EXECD_ACCESS_TOKEN=mine\"],\"Labels\":{}}}",
                      &f),
             0);
    CHECK_STR(f.token, "");
    CHECK(!f.owned);
    CHECK_EQ(facts_of("{\"Id\":\"a\"}", &f), -EBADMSG);
    CHECK_EQ(facts_of("[]", &f), -EBADMSG);
}

#define EVENT(action)                                                                              \
    "{\"Type\":\"container\",\"Action\":\"" action "\",\"Actor\":{\"ID\":\"x\",\"Attributes\":"    \
    "{\"opensandbox.io/id\":\"box-1\"}}}"

TEST(docker_events, tell_which_sandbox_has_changed)
{
    char id[ID_UUID_MAX];

    CHECK(docker_event_read(STR(EVENT("die")), id, sizeof(id)));
    CHECK_STR(id, "box-1");
    CHECK(docker_event_read(STR(EVENT("destroy")), id, sizeof(id)));
    CHECK(!docker_event_read(STR(EVENT("exec_start: sh")), id, sizeof(id)));
    CHECK(!docker_event_read(STR("{}"), id, sizeof(id)));
    CHECK(!docker_event_read(STR("not json"), id, sizeof(id)));
}

TEST(docker_events, of_a_sidecar_are_of_its_sandbox)
{
    char id[ID_UUID_MAX];

    CHECK(docker_event_read(STR("{\"Action\":\"die\",\"Actor\":{\"Attributes\":{"
                                "\"opensandbox.io/egress-sidecar-for\":\"box-2\"}}}"),
                            id, sizeof(id)));
    CHECK_STR(id, "box-2");
}

TEST(docker_inspect, knows_a_sandbox_with_a_sidecar_by_its_label)
{
    struct docker_facts f;

    CHECK_EQ(facts_of("{\"Id\":\"a\",\"State\":{\"Status\":\"running\"},\"Config\":{\"Labels\":{"
                      "\"opensandbox.io/egress-auth-token\":\"t\"}}}",
                      &f),
             0);
    CHECK(f.has_sidecar);
    /* A restored sandbox inherits the label of its image, emptied. */
    CHECK_EQ(facts_of("{\"Id\":\"a\",\"State\":{\"Status\":\"running\"},\"Config\":{\"Labels\":{"
                      "\"opensandbox.io/egress-auth-token\":\"\"}}}",
                      &f),
             0);
    CHECK(!f.has_sidecar);
}

TEST(docker_logs, takes_frames_apart)
{
    AUTO_BUF(out, 100);

    CHECK_EQ(docker_logs_unframe(STR("\1\0\0\0\0\0\0\3one\2\0\0\0\0\0\0\4 two"), &out), 0);
    CHECK_STR(out.p, "one two");
    buf_clear(&out);
    CHECK_EQ(docker_logs_unframe(STR("\1\0\0\0\0\0\0\11cut"), &out), 0);
    CHECK_STR(out.p, "cut");
    CHECK_EQ(docker_logs_unframe(STR("\1\0\0\0"), &out), -EBADMSG);
    CHECK_EQ(docker_logs_unframe(STR("plain text"), &out), -EBADMSG);
    CHECK_EQ(docker_logs_unframe(STR(""), &out), 0);
}

TEST(pull_report, counts_layers_and_bytes)
{
    struct pull_report p;
    char text[200];

    pull_report_init(&p);
    pull_report_message(&p, STR("python"), text, sizeof(text));
    CHECK_STR(text, "pulling image python");
    pull_report_feed(&p,
                     STR("{\"status\":\"Pulling fs layer\",\"id\":\"a\"}\r\n{\"status\":\"Down"));
    pull_report_feed(&p, STR("loading\",\"progressDetail\":{\"current\":2000000,\"total\":9000000},"
                             "\"id\":\"b\"}\nnonsense\n"));
    pull_report_feed(&p, STR("{\"status\":\"Pull complete\",\"id\":\"a\"}\n"));
    pull_report_message(&p, STR("python"), text, sizeof(text));
    CHECK_STR(text, "pulling image python: 1 of 2 layers, 2 of 9 MB");
    CHECK_STR(p.error, "");
    pull_report_feed(&p, STR("{\"errorDetail\":{\"message\":\"x\"},\"error\":\"denied\"}\n"));
    CHECK_STR(p.error, "denied");
    pull_report_done(&p);
}

static bool is_readable(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, 0) == 1;
}

TEST(boxes, wake_the_watch_of_a_box)
{
    struct boxes b = {0};
    struct box_facts facts =
                         {
                             .token = "t", .ports = {40001, 0}
    },
                     got;
    auto_fd one = -EBADF, two = -EBADF;
    auto_map keep;

    map_init(&keep, 10, NULL);
    boxes_init(&b);
    CHECK_EQ(boxes_get(&b, STR("one"), &got), -ENOENT);
    CHECK_EQ(boxes_set(&b, STR("one"), &facts, boxes_wakes(&b), &one), 0);
    CHECK_EQ(boxes_set(&b, STR("two"), &facts, boxes_wakes(&b), &two), 0);
    CHECK_EQ(boxes_get(&b, STR("one"), &got), 0);
    CHECK_STR(got.token, "t");
    CHECK(!is_readable(one));
    (void)boxes_wake(&b, STR("one"));
    CHECK(is_readable(one) && !is_readable(two));
    CHECK_EQ(map_add(&keep, STR("one"), &b), 0);
    boxes_wake_others(&b, &keep);
    CHECK(is_readable(two));
    CHECK(boxes_remove(&b, STR("one")));
    CHECK_EQ(boxes_get(&b, STR("one"), &got), -ENOENT);
    boxes_done(&b);
}

/* The engine tells of an end between the answer that a container runs and its entry here. */
TEST(boxes, do_not_miss_a_wake_that_came_before_they_were_entered)
{
    struct boxes b = {0};
    struct box_facts facts = {0};
    auto_fd one = -EBADF, two = -EBADF;
    uint64_t wakes;

    boxes_init(&b);
    wakes = boxes_wakes(&b);
    (void)boxes_wake(&b, STR("one"));
    CHECK_EQ(boxes_set(&b, STR("one"), &facts, wakes, &one), 0);
    CHECK_EQ(boxes_set(&b, STR("two"), &facts, wakes, &two), 0);
    CHECK(is_readable(one) && !is_readable(two));
    boxes_done(&b);
}

/* Nobody watches it, but its removal must be told. */
TEST(boxes, tell_of_a_container_that_rests)
{
    struct boxes b = {0};
    struct box_facts facts = {.ports = {40001}};
    auto_fd one = -EBADF;

    boxes_init(&b);
    CHECK_EQ(boxes_set(&b, STR("one"), &facts, boxes_wakes(&b), &one), 0);
    CHECK(!boxes_wake(&b, STR("one")));
    boxes_rest(&b, STR("one"), facts.ports);
    CHECK_EQ(boxes_get(&b, STR("one"), &facts), -ENOENT);
    CHECK(boxes_wake(&b, STR("one")) && !boxes_wake(&b, STR("two")));
    fd_close(take_fd(&one));
    CHECK_EQ(boxes_set(&b, STR("one"), &facts, boxes_wakes(&b), &one), 0);
    CHECK(!boxes_wake(&b, STR("one")));
    boxes_rest(&b, STR("one"), facts.ports);
    CHECK(boxes_remove(&b, STR("one")) && !boxes_remove(&b, STR("one")));
    CHECK(!boxes_wake(&b, STR("one")));
    boxes_done(&b);
}

static bool is_used(const struct boxes *b, uint16_t port)
{
    unsigned at = (unsigned)port - BOX_PORT_FIRST;

    return b->ports[at / 8] & (1U << at % 8);
}

TEST(boxes, hold_the_ports_of_a_container_that_rests)
{
    struct boxes b = {0};
    struct box_facts facts = {
        .ports = {40001, 40002}
    };
    const uint16_t others[BOX_PORTS] = {40003};
    auto_fd one = -EBADF;

    boxes_init(&b);
    CHECK_EQ(boxes_set(&b, STR("one"), &facts, boxes_wakes(&b), &one), 0);
    boxes_rest(&b, STR("one"), facts.ports);
    CHECK(is_used(&b, 40001) && is_used(&b, 40002));
    boxes_rest(&b, STR("one"), others);
    CHECK(!is_used(&b, 40001) && !is_used(&b, 40002) && is_used(&b, 40003));
    fd_close(take_fd(&one));
    CHECK_EQ(boxes_set(&b, STR("one"), &facts, boxes_wakes(&b), &one), 0);
    CHECK(is_used(&b, 40001) && !is_used(&b, 40003));
    boxes_rest(&b, STR("one"), facts.ports);
    CHECK(boxes_remove(&b, STR("one")));
    CHECK(!is_used(&b, 40001) && !is_used(&b, 40002));
    boxes_done(&b);
}

TEST(boxes, give_each_port_once)
{
    struct boxes b = {0};
    uint16_t first, second;

    boxes_init(&b);
    first = boxes_port_take(&b, "127.0.0.1");
    second = boxes_port_take(&b, "127.0.0.1");
    CHECK(first >= BOX_PORT_FIRST && first <= BOX_PORT_LAST && second && first != second);
    boxes_port_give(&b, first);
    boxes_port_give(&b, 0);
    boxes_done(&b);
}
