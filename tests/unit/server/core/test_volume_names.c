#include "server/core/volume_names.h"

#include <errno.h>

#include "test.h"

static const struct principal all = {"key:a", "default", ROLE_ADMIN, true, "", ""};
static const struct principal home = {"key:b", "default", ROLE_ADMIN, false, "", ""};
static const struct principal acme = {"key:c", "acme", ROLE_ADMIN, false, "", ""};
static const struct principal acm = {"key:d", "acm", ROLE_ADMIN, false, "", ""};

TEST(volume_names, names_go_in_and_out)
{
    char inside[VOLUME_NAME_MAX];
    struct str shown;

    CHECK_EQ(volume_name_inside(&acme, STR("data"), inside), 0);
    CHECK_STR(inside, "t--acme--data");
    CHECK_EQ(volume_name_outside(&acme, str_of(inside), &shown), true);
    CHECK_EQ(str_eq(shown, STR("data")), true);
    CHECK_EQ(volume_name_outside(&acm, str_of(inside), &shown), false);
    CHECK_EQ(volume_name_outside(&home, str_of(inside), &shown), false);
    CHECK_EQ(volume_name_outside(&all, str_of(inside), &shown), true);
    CHECK_EQ(str_eq(shown, str_of(inside)), true);
    CHECK_EQ(volume_name_inside(&home, STR("data"), inside), 0);
    CHECK_STR(inside, "data");
    CHECK_EQ(volume_name_outside(&acme, STR("data"), &shown), false);
    CHECK_EQ(volume_name_outside(&home, STR("data"), &shown), true);
}

TEST(volume_names, names_of_others_cannot_be_said)
{
    char inside[VOLUME_NAME_MAX], name[VOLUME_NAME_MAX];

    CHECK_EQ(volume_name_inside(&acme, STR("t--home--data"), inside), -ENOENT);
    CHECK_EQ(volume_name_inside(&home, STR("t--acme--data"), inside), -ENOENT);
    CHECK_EQ(volume_name_inside(&all, STR("t--acme--data"), inside), 0);
    memset(name, 'a', sizeof(name));
    CHECK_EQ(volume_name_inside(&acme, str_make(name, 253), inside), -EMSGSIZE);
    CHECK_EQ(volume_name_inside(&home, str_make(name, 253), inside), 0);
}
