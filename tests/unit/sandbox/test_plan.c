#include "sandbox/plan.h"

#include "test.h"

/* A plan that is fine; heap, because it is large. */
static struct plan *good_plan(void)
{
    struct plan *p = malloc(sizeof(*p));

    CHECK(p);
    plan_init(p);
    CHECK_EQ(str_copy(p->id, sizeof(p->id), STR("a-1")), 0);
    p->root = PLAN_ROOT_HOST;
    CHECK_EQ(plan_add_arg(p, STR("/bin/echo")), 0);
    CHECK_EQ(plan_add_arg(p, STR("")), 0);
    CHECK_EQ(plan_add_env(p, STR("A"), STR("b=c")), 0);
    CHECK_EQ(plan_add_env(p, STR("EMPTY"), STR("")), 0);
    CHECK_EQ(plan_set_cwd(p, STR("/srv")), 0);
    return p;
}

static void check_refused(const struct plan *p, const char *field)
{
    struct err e = {0};

    CHECK_EQ(plan_check(p, &e), -EINVAL);
    if (!strstr(e.msg, field))
        test_fail(__FILE__, __LINE__, "\"%s\" does not name %s", e.msg, field);
}

TEST(plan, gives_back_the_strings_that_were_added)
{
    const char *argv[PLAN_ARGS_MAX + 1], *env[PLAN_ENV_MAX + 1], *cwd;
    struct plan *p = good_plan();
    struct err e = {0};

    CHECK_EQ(plan_check(p, &e), 0);
    plan_strings(p, argv, env, &cwd);
    CHECK_STR(argv[0], "/bin/echo");
    CHECK_STR(argv[1], "");
    CHECK(!argv[2]);
    CHECK_STR(env[0], "A=b=c");
    CHECK_STR(env[1], "EMPTY=");
    CHECK(!env[2]);
    CHECK_STR(cwd, "/srv");
    free(p);
}

TEST(plan, takes_nothing_that_it_could_not_give_back)
{
    struct plan *p = good_plan();
    uint32_t before = p->text_bytes;

    CHECK_EQ(plan_add_env(p, STR(""), STR("v")), -EINVAL);
    CHECK_EQ(plan_add_env(p, STR("A=B"), STR("v")), -EINVAL);
    CHECK_EQ(plan_add_env(p, STR("A"), STR("v\0w")), -EINVAL);
    CHECK_EQ(plan_set_cwd(p, STR("srv")), -EINVAL);
    CHECK_EQ(p->text_bytes, before);
    free(p);
}

TEST(plan, gives_back_the_places_of_volumes)
{
    const char *targets[PLAN_BINDS_MAX + 1], *argv[PLAN_ARGS_MAX + 1], *env[PLAN_ENV_MAX + 1], *cwd;
    struct plan *p = good_plan();
    struct err e = {0};

    plan_targets(p, targets);
    CHECK(!targets[0]);
    CHECK_EQ(plan_add_bind(p, STR("/data"), false), 0);
    CHECK_EQ(plan_add_bind(p, STR("/data/in/side"), true), 0);
    CHECK_EQ(plan_check(p, &e), 0);
    CHECK_EQ(p->bind_count, 2);
    CHECK_EQ(p->binds_read_only, 2);
    plan_targets(p, targets);
    CHECK_STR(targets[0], "/data");
    CHECK_STR(targets[1], "/data/in/side");
    CHECK(!targets[2]);
    plan_strings(p, argv, env, &cwd);
    CHECK_STR(cwd, "/srv");
    CHECK(!env[2]);
    free(p);
}

TEST(plan, counts_its_volumes)
{
    struct plan *p = good_plan();
    char target[16];

    for (int i = 0; i < PLAN_BINDS_MAX; i++) {
        (void)snprintf(target, sizeof(target), "/v/%d", i);
        CHECK_EQ(plan_add_bind(p, str_of(target), true), 0);
    }
    CHECK_EQ(plan_check(p, NULL), 0);
    CHECK_EQ(p->binds_read_only, (1U << PLAN_BINDS_MAX) - 1);
    CHECK_EQ(plan_add_bind(p, STR("/v/more"), false), -E2BIG);
    CHECK_EQ(plan_check(p, NULL), 0);
    free(p);
}

TEST(plan, knows_where_a_volume_may_be)
{
    static const char *const good[] = {"/a",     "/a/b",     "/proc2",    "/process/x", "/a/proc",
                                       "/a/dev", "/...",     "/usr",      "/tmp",       "/etc/x",
                                       "/.a/b.", "/a/..b/c", "/sys.d/x y"};
    static const char *const bad[] = {
        "",    "/",    "a",       "a/b",   "./a",     "//",   "/a/",     "//a",  "/a//b",   "/.",
        "/..", "/a/.", "/a/../b", "/proc", "/proc/1", "/sys", "/sys/fs", "/dev", "/dev/shm"};
    char path[PLAN_TARGET_MAX + 1];

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!plan_target_is_valid(str_of(good[i])))
            test_fail(__FILE__, __LINE__, "%s is refused", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (plan_target_is_valid(str_of(bad[i])))
            test_fail(__FILE__, __LINE__, "%s is taken", bad[i]);
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    CHECK(plan_target_is_valid(str_make(path, PLAN_TARGET_MAX - 1)));
    CHECK(!plan_target_is_valid(str_make(path, PLAN_TARGET_MAX)));
    CHECK(!plan_target_is_valid(STR_NONE));
}

TEST(plan, names_the_volume_that_is_wrong)
{
    struct plan *p = good_plan();
    uint32_t before = p->text_bytes;

    CHECK_EQ(plan_add_bind(p, STR("/a/../b"), false), -EINVAL);
    CHECK_EQ(plan_add_bind(p, STR("/a\0b"), false), -EINVAL);
    CHECK_EQ(p->text_bytes, before);
    p->binds_read_only = 1;
    check_refused(p, "binds_read_only");
    p->binds_read_only = 0;
    p->binds_given = 1;
    check_refused(p, "binds_given");
    p->binds_given = 0;
    CHECK_EQ(plan_add_bind(p, STR("/a"), false), 0);
    CHECK_EQ(plan_add_bind(p, STR("/usr"), false), 0);
    check_refused(p, "bind 1");
    p->root = PLAN_ROOT_DIR;
    p->layer_count = 1;
    CHECK_EQ(plan_check(p, NULL), 0);
    CHECK_EQ(plan_add_bind(p, STR("/a"), true), 0);
    check_refused(p, "binds 0 and 2");
    p->bind_count++;
    check_refused(p, "text");
    p->bind_count = PLAN_BINDS_MAX + 1;
    check_refused(p, "bind_count");
    free(p);
}

TEST(plan, fills_to_the_last_byte_and_no_further)
{
    struct plan *p = malloc(sizeof(*p));
    char *text = calloc(1, PLAN_TEXT_MAX);

    CHECK(p && text);
    memset(text, 'x', PLAN_TEXT_MAX);
    plan_init(p);
    CHECK_EQ(plan_add_arg(p, str_make(text, PLAN_STRING_MAX)), -E2BIG); /* and its NUL */
    CHECK_EQ(plan_add_arg(p, str_make(text, PLAN_STRING_MAX - 1)), 0);
    CHECK_EQ(plan_add_arg(p, str_make(text, PLAN_TEXT_MAX - PLAN_STRING_MAX)), -E2BIG);
    CHECK_EQ(plan_add_arg(p, str_make(text, PLAN_TEXT_MAX - PLAN_STRING_MAX - 3)), 0);
    CHECK_EQ(plan_set_cwd(p, STR("/a")), -E2BIG);
    CHECK_EQ(plan_set_cwd(p, STR("/")), 0);
    CHECK_EQ(p->text_bytes, PLAN_TEXT_MAX);
    CHECK_EQ(str_copy(p->id, sizeof(p->id), STR("a")), 0);
    CHECK_EQ(plan_check(p, NULL), 0);
    free(text);
    free(p);
}

TEST(plan, counts_its_arguments)
{
    struct plan *p = malloc(sizeof(*p));

    CHECK(p);
    plan_init(p);
    for (int i = 0; i < PLAN_ARGS_MAX; i++)
        CHECK_EQ(plan_add_arg(p, STR("a")), 0);
    CHECK_EQ(plan_add_arg(p, STR("a")), -E2BIG);
    for (int i = 0; i < PLAN_ENV_MAX; i++)
        CHECK_EQ(plan_add_env(p, STR("a"), STR("")), 0);
    CHECK_EQ(plan_add_env(p, STR("a"), STR("")), -E2BIG);
    free(p);
}

TEST(plan, names_the_field_that_is_wrong)
{
    struct plan *good = good_plan(), *p = malloc(sizeof(*p));

    CHECK(p);
#define CHECK_REFUSED(field, change)                                                               \
    do {                                                                                           \
        *p = *good;                                                                                \
        change;                                                                                    \
        check_refused(p, field);                                                                   \
    } while (0)
    CHECK_REFUSED("id", p->id[0] = '\0');
    CHECK_REFUSED("id", p->id[0] = '/');
    CHECK_REFUSED("id", memset(p->id, 'a', sizeof(p->id)));
    CHECK_REFUSED("hostname", p->hostname[0] = '\n');
    CHECK_REFUSED("hostname", memset(p->hostname, 'a', sizeof(p->hostname)));
    CHECK_REFUSED("root", p->root = (enum plan_root)7);
    CHECK_REFUSED("net", p->net = (enum plan_net)7);
    CHECK_REFUSED("layer_count", p->layer_count = PLAN_LAYERS_MAX + 1);
    CHECK_REFUSED("lasting", p->lasting = 2);
    CHECK_REFUSED("lasting", (p->lasting = 1, p->limits.disk_bytes = 1 << 30));
    CHECK_REFUSED("layer_flags", p->layer_flags[0] = PLAN_LAYER_SHIFTED);
    CHECK_REFUSED("layer_flags", (p->layer_count = 1, p->layer_flags[0] = 0x80));
    CHECK_REFUSED("layer_count", p->root = PLAN_ROOT_DIR);
    CHECK_REFUSED("uid", p->uid = PLAN_UID_RANGE);
    CHECK_REFUSED("gid", p->gid = UINT32_MAX);
    CHECK_REFUSED("memory_bytes", p->limits.memory_bytes = UINT64_MAX);
    CHECK_REFUSED("disk_bytes", p->limits.disk_bytes = UINT64_MAX);
    CHECK_REFUSED("cpu_millicores", p->limits.cpu_millicores = UINT32_MAX);
    CHECK_REFUSED("pids", p->limits.pids = UINT32_MAX);
    CHECK_REFUSED("io_weight", p->limits.io_weight = 10001);
    CHECK_REFUSED("open_files", p->limits.open_files = UINT32_MAX);
    CHECK_REFUSED("arg_count", p->arg_count = 0);
    CHECK_REFUSED("arg_count", p->arg_count = UINT32_MAX);
    CHECK_REFUSED("env_count", p->env_count = PLAN_ENV_MAX + 1);
    CHECK_REFUSED("text_bytes", p->text_bytes = 0);
    CHECK_REFUSED("text_bytes", p->text_bytes = PLAN_TEXT_MAX + 1);
    CHECK_REFUSED("text", p->text[p->text_bytes - 1] = 'x');
    CHECK_REFUSED("text", p->text_bytes++);
    CHECK_REFUSED("argument", p->text[0] = '\0');
    CHECK_REFUSED("environment", p->arg_count--);
    CHECK_REFUSED("cwd", p->env_count--);
#undef CHECK_REFUSED
    free(p);
    free(good);
}

TEST(plan, knows_an_id)
{
    CHECK(plan_id_is_valid(STR("a")));
    CHECK(plan_id_is_valid(STR("0-9-z")));
    CHECK(!plan_id_is_valid(STR("")));
    CHECK(!plan_id_is_valid(STR("-a")));
    CHECK(!plan_id_is_valid(STR("a-")));
    CHECK(!plan_id_is_valid(STR("A")));
    CHECK(!plan_id_is_valid(STR("../x")));
    CHECK(!plan_id_is_valid(STR("a\0b")));
}
