/* Claims as principals, secrets of a sign-in, sessions, the provider's documents. */
#include <errno.h>

#include "base/map.h"
#include "server/oidc/claims.h"
#include "server/oidc/login.h"
#include "server/oidc/metadata.h"
#include "server/oidc/sessions.h"
#include "test.h"

static const unsigned char key[LOGIN_KEY_BYTES] = "0123456789abcdef0123456789abcde";

/* --- claims --- */

static struct config_pair roles[] = {
    {"viewers", "read_only"    },
    {"makers",  "operator"     },
    {"chiefs",  "admin"        },
    {"owners",  "service_admin"},
};
static struct config_pair tenants[] = {
    {"team-a", "a"},
    {"team-b", "b"},
};

static struct config with_groups(void)
{
    struct config c = {0};

    c.auth_oidc.issuer = "https://idp.example";
    c.auth_oidc.user_claim = "preferred_username";
    c.auth_oidc.groups_claim = "groups";
    c.auth_oidc.tenant = c.auth_oidc.tenant_claim = "";
    c.auth_oidc.roles = (struct config_pairs){roles, ARRAY_LEN(roles)};
    c.auth_oidc.tenants = (struct config_pairs){tenants, ARRAY_LEN(tenants)};
    return c;
}

static int principal_of(const struct config *c, const char *claims, struct principal *ret)
{
    AUTO_ARENA(a, 1 << 20);
    struct json *root;

    CHECK_EQ(json_parse(&a, str_of(claims), NULL, &root, NULL), 0);
    return claims_principal(root, c, ret, NULL);
}

TEST(claims, give_the_highest_role_and_the_first_tenant)
{
    struct config c = with_groups();
    struct principal p, q;

    CHECK_EQ(principal_of(&c,
                          "{\"sub\":\"1\",\"preferred_username\":\"ann\",\"groups\":[\"viewers\","
                          "\"makers\",\"team-b\",\"team-a\"]}",
                          &p),
             0);
    CHECK_EQ(p.role, ROLE_OPERATOR);
    CHECK_STR(p.tenant, "a");
    CHECK_STR(p.user, "ann");
    CHECK(!p.everywhere && !p.sandbox[0]);
    CHECK(str_starts(str_of(p.key_id), STR(CLAIMS_PRINCIPAL)));
    /* A name that is taken by somebody else makes no other principal. */
    CHECK_EQ(principal_of(&c,
                          "{\"sub\":\"2\",\"preferred_username\":\"ann\",\"groups\":[\"viewers\","
                          "\"team-a\"]}",
                          &q),
             0);
    CHECK(strcmp(p.key_id, q.key_id) != 0);
    CHECK_EQ(principal_of(&c, "{\"sub\":\"1\",\"groups\":[\"chiefs\",\"team-a\"]}", &q), 0);
    CHECK_STR(p.key_id, q.key_id);
    CHECK_STR(q.user, "1");
    CHECK_EQ(q.role, ROLE_ADMIN);
    CHECK(!q.everywhere);
}

TEST(claims, without_a_group_that_counts_give_nothing)
{
    struct config c = with_groups();
    struct principal p = {"untouched", "", ROLE_NONE, false, "", ""};
    const char *const wrong[] = {
        "{\"sub\":\"1\"}",
        "{\"sub\":\"1\",\"groups\":[]}",
        "{\"sub\":\"1\",\"groups\":\"team-a\"}",
        "{\"sub\":\"1\",\"groups\":[\"admin\",\"team-a\"]}", /* a role's name is no group */
        "{\"sub\":\"1\",\"groups\":[\"makers\"]}",           /* no tenant */
        "{\"sub\":\"1\",\"groups\":{\"makers\":1,\"team-a\":1}}",
        "{\"sub\":\"1\",\"groups\":[[\"makers\",\"team-a\"]]}",
        "{\"groups\":[\"makers\",\"team-a\"]}",
    };

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        CHECK_EQ(principal_of(&c, wrong[i], &p), -EACCES);
    CHECK_STR(p.key_id, "untouched");
    c.auth_oidc.tenant = "rest";
    CHECK_EQ(principal_of(&c, "{\"sub\":\"1\",\"groups\":\"makers\"}", &p), 0);
    CHECK_STR(p.tenant, "rest");
}

TEST(claims, need_an_allowed_group_if_there_are_any)
{
    static const char *const staff[] = {"staff"};
    struct config c = with_groups();
    struct principal p;

    c.auth_oidc.allowed_groups = (struct config_list){staff, 1};
    CHECK_EQ(principal_of(&c, "{\"sub\":\"1\",\"groups\":[\"makers\",\"team-a\"]}", &p), -EACCES);
    CHECK_EQ(principal_of(&c, "{\"sub\":\"1\",\"groups\":[\"staff\",\"makers\",\"team-a\"]}", &p),
             0);
}

TEST(claims, name_a_tenant_themselves_if_so_configured)
{
    struct config c = with_groups();
    struct principal p;

    c.auth_oidc.tenant_claim = "org";
    c.auth_oidc.tenant = "rest";
    c.auth_oidc.groups_claim = "realm_access.roles";
    CHECK_EQ(
        principal_of(
            &c, "{\"sub\":\"1\",\"org\":\"blue\",\"realm_access\":{\"roles\":[\"makers\"]}}", &p),
        0);
    CHECK_STR(p.tenant, "blue");
    /* The claim decides alone: a user without it does not fall into another tenant. */
    CHECK_EQ(principal_of(&c, "{\"sub\":\"1\",\"realm_access\":{\"roles\":[\"makers\"]}}", &p),
             -EACCES);
    CHECK_EQ(principal_of(&c,
                          "{\"sub\":\"1\",\"org\":\"0123456789012345678901234567890123456789"
                          "0123456789012345678901234567890\",\"realm_access\":{\"roles\":"
                          "[\"makers\"]}}",
                          &p),
             -EACCES);
    CHECK_EQ(principal_of(&c, "{\"sub\":\"1\",\"realm_access\":{\"roles\":[\"owners\"]}}", &p), 0);
    CHECK(p.everywhere);
    CHECK_STR(p.tenant, TENANT_DEFAULT);
}

TEST(claims, show_no_name_that_breaks_a_log_line)
{
    struct config c = with_groups();
    struct principal p;

    CHECK_EQ(
        principal_of(&c,
                     "{\"sub\":\"a\\nb\",\"preferred_username\":\"x y\",\"groups\":[\"makers\","
                     "\"team-a\"]}",
                     &p),
        0);
    CHECK_STR(p.user, p.key_id);
}

/* --- the secrets of a sign-in --- */

TEST(login, is_resumed_with_its_own_cookie_and_state_only)
{
    struct login one, two, back;

    login_begin(key, 1000, &one);
    login_begin(key, 1000, &two);
    CHECK_EQ(login_resume(key, str_of(one.cookie), str_of(one.state), 1000 + LOGIN_S, &back, NULL),
             0);
    CHECK_STR(back.verifier, one.verifier);
    CHECK_STR(back.nonce, one.nonce);
    CHECK(strcmp(one.state, one.nonce) != 0 && strcmp(one.nonce, one.verifier) != 0 &&
          strcmp(one.state, two.state) != 0);
    CHECK_EQ(login_resume(key, str_of(two.cookie), str_of(one.state), 1000, &back, NULL), -EACCES);
    CHECK_EQ(login_resume(key, STR_NONE, str_of(one.state), 1000, &back, NULL), -EACCES);
    CHECK_EQ(login_resume(key, str_of(one.cookie), STR(""), 1000, &back, NULL), -EACCES);
    CHECK_EQ(login_resume(key, str_of(one.cookie), str_of(one.state), 1001 + LOGIN_S, &back, NULL),
             -EACCES);
    CHECK_EQ(login_resume((const unsigned char *)"another key of as many bytes....",
                          str_of(one.cookie), str_of(one.state), 1000, &back, NULL),
             -EACCES);
    one.cookie[strlen(LOGIN_PREFIX)] = '9'; /* another time */
    CHECK_EQ(login_resume(key, str_of(one.cookie), str_of(one.state), 1000, &back, NULL), -EACCES);
}

/* --- sessions --- */

static struct principal named(const char *key_id)
{
    struct principal p = {"", TENANT_DEFAULT, ROLE_OPERATOR, false, "", ""};

    CHECK_EQ(str_copy(p.key_id, sizeof(p.key_id), str_of(key_id)), 0);
    return p;
}

TEST(sessions, end_at_their_time_and_when_told)
{
    struct sessions *s = sessions_new();
    struct principal p = named("oidc:1");
    char one[SESSION_TEXT_MAX], two[SESSION_TEXT_MAX];

    CHECK_EQ(sessions_add(s, &p, 100, 200, one), 0);
    CHECK_EQ(sessions_add(s, &p, 100, 300, two), 0);
    CHECK(strcmp(one, two) != 0 && strlen(one) > 43 && sessions_held_by(str_of(one)));
    CHECK_STR(sessions_find(s, str_of(one), 199)->key_id, "oidc:1");
    CHECK(!sessions_find(s, str_of(one), 200));
    CHECK(!sessions_find(s, str_make(two, strlen(two) - 1), 100));
    CHECK(!sessions_find(s, STR("osbs_"), 100) && !sessions_find(s, STR_NONE, 100));
    sessions_end(s, str_of(two));
    CHECK(!sessions_find(s, str_of(two), 100));
    sessions_free(s);
}

TEST(sessions, of_one_user_cannot_end_those_of_another)
{
    struct sessions *s = sessions_new();
    struct principal p = named("oidc:1"), q = named("oidc:2");
    char first[SESSION_TEXT_MAX], more[SESSION_TEXT_MAX], own[SESSION_TEXT_MAX];

    CHECK_EQ(sessions_add(s, &q, 100, 200, first), 0);
    CHECK_EQ(sessions_add(s, &p, 100, 200, own), 0);
    for (int i = 0; i < 5 * SESSIONS_PER_USER_MAX; i++)
        CHECK_EQ(sessions_add(s, &p, 100, 200, more), 0);
    CHECK_EQ(sessions_count(s), SESSIONS_PER_USER_MAX + 1);
    CHECK(sessions_find(s, str_of(first), 100) && sessions_find(s, str_of(more), 100));
    CHECK(!sessions_find(s, str_of(own), 100));
    sessions_free(s);
}

TEST(sessions, are_never_more_than_there_may_be)
{
    struct sessions *s = sessions_new();
    char first[SESSION_TEXT_MAX], last[SESSION_TEXT_MAX], name[32];

    for (int i = 0; i < SESSIONS_MAX + 2; i++) {
        struct principal p;

        (void)snprintf(name, sizeof(name), "oidc:%d", i);
        p = named(name);
        CHECK_EQ(sessions_add(s, &p, 100, 200, i ? last : first), 0);
    }
    CHECK_EQ(sessions_count(s), SESSIONS_MAX);
    CHECK(!sessions_find(s, str_of(first), 100) && sessions_find(s, str_of(last), 100));
    CHECK_EQ(sessions_add(s, &(struct principal){0}, 200, 300, last), 0);
    CHECK_EQ(sessions_count(s), 1); /* the others are over */
    sessions_free(s);
}

/* --- documents --- */

#define DOCUMENT(issuer, token)                                                                    \
    "{\"issuer\":\"" issuer "\",\"authorization_endpoint\":\"https://i.example/auth?x=1\","        \
    "\"token_endpoint\":\"" token "\",\"jwks_uri\":\"http://127.0.0.1:9/jwks\""

TEST(metadata, is_taken_of_the_right_issuer_with_safe_addresses)
{
    const char *const wrong[] = {
        "",
        "[]",
        "{}",
        DOCUMENT("https://other.example", "https://i.example/token") "}",
        DOCUMENT("https://i.example", "http://i.example/token") "}",
        DOCUMENT("https://i.example", "http://127.evil.example/token") "}",
        DOCUMENT("https://i.example", "ftp://i.example/token") "}",
        DOCUMENT("https://i.example", "") "}",
    };
    AUTO_ARENA(a, 1 << 20);
    struct metadata m;

    CHECK_EQ(metadata_parse(&a, STR(DOCUMENT("https://i.example", "https://i.example/token") "}"),
                            STR("https://i.example"), &m, NULL),
             0);
    CHECK_SPAN(m.token_endpoint, "https://i.example/token");
    CHECK(!m.secret_in_body);
    CHECK_EQ(
        metadata_parse(
            &a,
            STR(DOCUMENT("https://i.example",
                         "https://i.example/token") ",\"token_endpoint_auth_methods_supported\":"
                                                    "[\"client_secret_post\"]}"),
            STR("https://i.example"), &m, NULL),
        0);
    CHECK(m.secret_in_body);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        CHECK_EQ(metadata_parse(&a, str_of(wrong[i]), STR("https://i.example"), &m, NULL),
                 -EBADMSG);
}
