#include "server/tenants/principal.h"

#include "test.h"

TEST(principal, names_a_key_by_a_fingerprint_that_does_not_show_it)
{
    struct principal p = principal_of_key(STR("s3cret"));

    CHECK_EQ(strlen(p.key_id), strlen("key:") + 12);
    CHECK_EQ(strncmp(p.key_id, "key:", 4), 0);
    CHECK(!strstr(p.key_id, "s3cret"));
    CHECK_STR(p.tenant, "default");
    CHECK_EQ(p.role, ROLE_ADMIN);
}

/* It is stored with sandboxes, so it must be the same after a restart and in a later release. */
TEST(principal, gives_a_key_the_same_name_for_ever)
{
    CHECK_STR(principal_of_key(STR("s3cret")).key_id, "key:301128b24041");
}

TEST(principal, tells_keys_apart)
{
    struct principal a = principal_of_key(STR("first")), b = principal_of_key(STR("second"));

    CHECK(strcmp(a.key_id, b.key_id) != 0);
}

TEST(principal, names_a_sandbox_by_its_id)
{
    struct principal p = principal_of_sandbox(STR("5f0b2f3e-1111-4222-8333-444455556666"));

    CHECK_STR(p.key_id, "sandbox:5f0b2f3e-1111-4222-8333-444455556666");
    CHECK_EQ(p.role, ROLE_SANDBOX);
}

TEST(principal, cuts_an_id_that_is_too_long)
{
    char id[200];
    struct principal p;

    memset(id, 'x', sizeof(id));
    p = principal_of_sandbox(str_make(id, sizeof(id)));
    CHECK_EQ(strlen(p.key_id), sizeof(p.key_id) - 1);
}

TEST(principal, has_a_word_for_each_role)
{
    CHECK_STR(principal_role_name(principal_nobody.role), "none");
    CHECK_STR(principal_role_name(principal_anyone.role), "admin");
    CHECK_STR(principal_role_name(ROLE_SANDBOX), "sandbox");
}
