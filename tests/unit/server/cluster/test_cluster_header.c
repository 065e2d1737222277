#include "server/cluster/cluster.h"

#include <errno.h>
#include <stdio.h>

#include "test.h"

enum { NOW = 1800000000 };

static const struct principal client = {
    "key:0123456789ab", "blue", ROLE_OPERATOR, false, "11111111-2222-3333-4444-555555555555",
    "j;d o\xc3\xa9"};
static const struct cluster_request request = {
    STR_INIT("POST"), STR_INIT("/v1/sandboxes/x/pause?a=b"), STR_INIT("request-1")};

static void write_header(struct buf *out)
{
    CHECK_EQ(
        cluster_header_write(STR("secret"), STR("from"), STR("to"), &request, &client, NOW, out),
        0);
}

static int read_header(struct str value)
{
    struct principal by;

    return cluster_header_read(STR("secret"), STR("to"), &request, value, NOW, &by);
}

TEST(cluster_header, carries_a_principal)
{
    AUTO_BUF(value, CLUSTER_HEADER_MAX);
    struct principal by;

    write_header(&value);
    CHECK_EQ(cluster_header_read(STR("secret"), STR("to"), &request, buf_str(&value),
                                 NOW + CLUSTER_HEADER_AGE_S, &by),
             0);
    CHECK_STR(by.key_id, client.key_id);
    CHECK_STR(by.tenant, client.tenant);
    CHECK_STR(by.sandbox, client.sandbox);
    CHECK_STR(by.user, client.user);
    CHECK_EQ(by.role, ROLE_OPERATOR);
    CHECK(!by.everywhere);
}

TEST(cluster_header, is_for_one_request_to_one_server_for_a_while)
{
    struct cluster_request others[] = {request, request, request};
    AUTO_BUF(value, CLUSTER_HEADER_MAX);
    struct principal by;

    write_header(&value);
    others[0].method = STR("GET");
    others[1].target = STR("/v1/sandboxes/y/pause?a=b");
    others[2].id = STR("request-2");
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        CHECK_EQ(
            cluster_header_read(STR("secret"), STR("to"), &others[i], buf_str(&value), NOW, &by),
            -EACCES);
    CHECK_EQ(cluster_header_read(STR("secret"), STR("other"), &request, buf_str(&value), NOW, &by),
             -EACCES);
    CHECK_EQ(cluster_header_read(STR("Secret"), STR("to"), &request, buf_str(&value), NOW, &by),
             -EACCES);
    CHECK_EQ(cluster_header_read(STR("secret"), STR("to"), &request, buf_str(&value),
                                 NOW + CLUSTER_HEADER_AGE_S + 1, &by),
             -EACCES);
    CHECK_EQ(cluster_header_read(STR("secret"), STR("to"), &request, buf_str(&value),
                                 NOW - CLUSTER_HEADER_AGE_S - 1, &by),
             -EACCES);
}

TEST(cluster_header, refuses_every_other_text)
{
    static const char *const texts[] = {
        "", ";", ";;;;;;;;;", "1;2;3", "1;1800000000;from;key:0;default;4;1;;;00",
    };
    AUTO_BUF(value, CLUSTER_HEADER_MAX);

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        CHECK_EQ(read_header(str_of(texts[i])), -EACCES);
    write_header(&value);
    for (size_t i = 0; i < value.n; i++) {
        char was = value.p[i];

        value.p[i] = was == 'a' ? 'b' : 'a';
        CHECK_EQ(read_header(buf_str(&value)), -EACCES);
        value.p[i] = was;
        CHECK_EQ(read_header(str_make(value.p, i)), -EACCES);
    }
    CHECK_EQ(read_header(buf_str(&value)), 0);
}

TEST(cluster_header, carries_nothing_that_would_read_as_more)
{
    struct principal by = client;
    AUTO_BUF(value, CLUSTER_HEADER_MAX);

    (void)snprintf(by.tenant, sizeof(by.tenant), "a;4");
    CHECK_EQ(
        cluster_header_write(STR("secret"), STR("from"), STR("to"), &request, &by, NOW, &value),
        -EINVAL);
}
