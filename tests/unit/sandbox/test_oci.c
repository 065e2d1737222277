#include "sandbox/oci.h"

#include "base/arena.h"
#include "base/json.h"
#include "test.h"

static struct plan *a_plan(void)
{
    struct plan *p = malloc(sizeof(*p));

    CHECK(p);
    plan_init(p);
    CHECK_EQ(str_copy(p->id, sizeof(p->id), STR("a-1")), 0);
    CHECK_EQ(str_copy(p->runtime, sizeof(p->runtime), STR("gvisor")), 0);
    p->limits.tmp_bytes = 12345678;
    p->uid = 7;
    CHECK_EQ(plan_add_arg(p, STR("/bin/echo")), 0);
    CHECK_EQ(plan_add_arg(p, STR("a \"quoted\"\nline")), 0);
    CHECK_EQ(plan_add_env(p, STR("A"), STR("\xc3\xa4")), 0);
    CHECK_EQ(plan_set_cwd(p, STR("/srv")), 0);
    return p;
}

static struct str at(const struct json *root, const char *path, size_t i)
{
    const struct json *v = root;
    struct str rest = str_of(path), key, text = STR("");

    while (str_cut(&rest, '.', &key))
        v = json_get(v, key);
    json_each(each, v)
    {
        if (i-- == 0)
            CHECK_EQ(json_to_str(each, &text), 0);
    }
    return text;
}

static bool has(const struct json *root, const char *path, const char *text)
{
    for (size_t i = 0; i < 64; i++)
        if (str_eq(at(root, path, i), str_of(text)))
            return true;
    return false;
}

TEST(oci, bundle_has_what_the_plan_says)
{
    AUTO_BUF(out, OCI_BUNDLE_BYTES_MAX);
    AUTO_ARENA(arena, 1 << 20);
    struct plan *p = a_plan();
    struct json *root = NULL;
    struct str name;
    struct err e = {0};

    CHECK_EQ(oci_bundle_write(&(struct oci_bundle){p, 0x70000000}, &out, &e), 0);
    CHECK_EQ(json_parse(&arena, buf_str(&out), NULL, &root, &e), 0);
    CHECK_EQ(json_to_str(json_get(root, STR("hostname")), &name), 0);
    CHECK(str_eq(name, STR("a-1")));
    CHECK(str_eq(at(root, "process.args", 0), STR(OCI_EXECD_PLACE)));
    CHECK(has(root, "process.args", "a \"quoted\"\nline"));
    CHECK(has(root, "process.args", "/srv"));
    CHECK(has(root, "process.env", "A=\xc3\xa4"));
    CHECK(has(root, "process.capabilities.bounding", "CAP_CHOWN"));
    CHECK(!has(root, "process.capabilities.bounding", "CAP_SYS_PTRACE"));
    CHECK(str_find_str(buf_str(&out), STR("\"size=12345678\"")) < out.n);
    CHECK(str_find_str(buf_str(&out), STR("\"hostID\":1879048192,\"size\":65536")) < out.n);
    CHECK(str_find_str(buf_str(&out), STR("\"path\":\"/proc/1/ns/net\"")) < out.n);
    free(p);
}

TEST(oci, bundle_refuses_what_json_cannot_carry)
{
    AUTO_BUF(out, OCI_BUNDLE_BYTES_MAX);
    struct plan *p = a_plan();
    struct err e = {0};

    p->text[0] = '\xff';
    CHECK_EQ(oci_bundle_write(&(struct oci_bundle){p, 1}, &out, &e), -EINVAL);
    CHECK(strstr(e.msg, "UTF-8"));
    free(p);
}

TEST(oci, runtimes_are_a_name_a_program_and_arguments)
{
    struct oci_runtime *r = calloc(1, sizeof(*r));
    struct err e = {0};

    CHECK_EQ(oci_runtime_parse("gvisor=/bin/sh  --debug -x", r, &e), 0);
    CHECK_STR(r->name, "gvisor");
    CHECK_EQ(r->arg_count, 3);
    CHECK_STR(r->args[0], "/bin/sh");
    CHECK_STR(r->args[2], "-x");
    CHECK(r->kind->can & OCI_CAN_MEMORY);
    CHECK_EQ(oci_runtime_parse("my-own=/bin/sh", r, &e), 0);
    CHECK_EQ(r->kind->can, 0);
    CHECK(!r->kind->args[0]);
    free(r);
}

TEST(oci, runtimes_that_cannot_be_are_refused)
{
    static const char *const wrong[] = {
        "",
        "gvisor",
        "=/bin/sh",
        "gvisor=",
        "g=sh",
        "G=/bin/sh",
        "a b=/bin/sh",
        "gvisor=/nonexistent",
        "-=/bin/sh",
        "a-name-too-long-for-a-plan=/bin/sh",
    };
    struct oci_runtime *r = calloc(1, sizeof(*r));

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct err e = {0};

        if (oci_runtime_parse(wrong[i], r, &e) >= 0)
            test_fail(__FILE__, __LINE__, "\"%s\" was taken", wrong[i]);
        CHECK(e.msg[0]);
    }
    free(r);
}
