#include "execd/code/jupyter/kernelspec.h"

#include "folder.h"

#define SPEC(language)                                                                             \
    "{\"argv\": [\"python3\", \"-m\", \"k\", \"-f\", \"{connection_file}\"], \"language\": "       \
    "\"" language "\"}"

static void make_spec(const char *folder, const char *name, const char *text)
{
    char path[512];

    (void)snprintf(path, sizeof(path), "mkdir -p '%s/%s'", folder, name);
    CHECK_EQ(system(path), 0);
    (void)snprintf(path, sizeof(path), "%s/%s/kernel.json", folder, name);
    file_write(path, text);
}

struct env {
    char home[128], path[128], jupyter[256];
    const char *rows[4];
};

/* Only the folder's own specs, besides those of the machine. */
static void make_env(const struct folder *f, struct env *env)
{
    (void)snprintf(env->home, sizeof(env->home), "HOME=%s/home", f->path);
    (void)snprintf(env->path, sizeof(env->path), "PATH=%s/prefix/bin", f->path);
    (void)snprintf(env->jupyter, sizeof(env->jupyter), "JUPYTER_PATH=%s/a:%s/b", f->path, f->path);
    env->rows[0] = env->home;
    env->rows[1] = env->path;
    env->rows[2] = env->jupyter;
    env->rows[3] = NULL;
}

TEST(kernelspec, reads_a_kernel_json)
{
    AUTO_ARENA(a, 1 << 20);
    struct kernelspec s = {0};

    CHECK_EQ(kernelspec_parse(&a,
                              STR("{\"argv\":[\"k\",\"{connection_file}\"],\"language\":\"R\","
                                  "\"display_name\":\"R 4\",\"env\":{\"A\":\"1\"},"
                                  "\"interrupt_mode\":\"message\",\"metadata\":{\"x\":[]}}"),
                              &s, NULL),
             0);
    CHECK_SPAN(s.language, "R");
    CHECK_EQ(s.argv_count, 2);
    CHECK_EQ(s.env_count, 1);
    CHECK(s.interrupt_by_message);
}

TEST(kernelspec, refuses_what_cannot_be_started)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{\"language\":\"x\"}",
        "{\"argv\":[],\"language\":\"x\"}",
        "{\"argv\":[\"\"],\"language\":\"x\"}",
        "{\"argv\":[\"a\\u0000b\"],\"language\":\"x\"}",
        "{\"argv\":[1],\"language\":\"x\"}",
        "{\"argv\":[\"a\"],\"language\":\"x\",\"interrupt_mode\":\"shout\"}",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct kernelspec s = {0};
        struct err e = {0};

        CHECK_EQ(kernelspec_parse(&a, str_of(texts[i]), &s, &e), -EBADMSG);
        CHECK(e.msg[0]);
    }
}

TEST(kernelspec, prefers_the_name_of_the_api_then_the_language)
{
    AUTO_FOLDER(f);
    AUTO_ARENA(a, 8 << 20);
    struct env env;
    const struct kernelspec *s;

    make_env(&f, &env);
    make_spec("a/kernels", "aaa", SPEC("Snobol"));
    make_spec("b/kernels", "snobol", SPEC("snobol"));
    make_spec("a/kernels", "broken", "{");
    CHECK_EQ(mkdir("a/kernels/pipe", 0755), 0);
    CHECK_EQ(mkfifo("a/kernels/pipe/kernel.json", 0600), 0); /* nobody waits for it */
    CHECK_EQ(kernelspec_find(&a, env.rows, STR("SNOBOL"), NULL, &s, NULL), 0);
    CHECK_STR(s->name, "snobol");
    CHECK_EQ(kernelspec_find(&a, env.rows, STR("snobol"), "aaa", &s, NULL), 0);
    CHECK_STR(s->name, "aaa");
    make_spec("a/kernels", "go", SPEC("go"));
    make_spec("b/kernels", "gonb", SPEC("go"));
    CHECK_EQ(kernelspec_find(&a, env.rows, STR("go"), NULL, &s, NULL), 0);
    CHECK_STR(s->name, "gonb");
}

TEST(kernelspec, takes_the_first_of_a_name)
{
    AUTO_FOLDER(f);
    AUTO_ARENA(a, 8 << 20);
    struct env env;
    const struct kernelspec *s;

    make_env(&f, &env);
    make_spec("b/kernels", "k1", SPEC("second"));
    make_spec("home/.local/share/jupyter/kernels", "k1", SPEC("third"));
    make_spec("a/kernels", "k1", SPEC("first"));
    CHECK_EQ(kernelspec_find(&a, env.rows, STR(""), "k1", &s, NULL), 0);
    CHECK_SPAN(s->language, "first");
}

TEST(kernelspec, says_what_is_missing)
{
    AUTO_FOLDER(f);
    AUTO_ARENA(a, 8 << 20);
    struct env env;
    const struct kernelspec *s;
    struct err e = {0};

    make_env(&f, &env);
    make_spec("a/kernels", "k1", SPEC("one"));
    CHECK_EQ(kernelspec_find(&a, env.rows, STR("ruby"), NULL, &s, &e), -ENOENT);
    CHECK(strstr(e.msg, "'ruby'") && strstr(e.msg, "install") && strstr(e.msg, "k1"));
}

TEST(kernelspec, starts_the_python_of_its_own_prefix)
{
    AUTO_FOLDER(f);
    AUTO_ARENA(a, 8 << 20);
    struct env env;
    const struct kernelspec *s;
    const char *program, *const *argv, *const *rows;
    char want[256];

    make_env(&f, &env);
    CHECK_EQ(
        system("mkdir -p prefix/bin && touch prefix/bin/python3 && chmod +x prefix/bin/python3"),
        0);
    make_spec("prefix/share/jupyter/kernels", "k2",
              "{\"argv\":[\"python3\",\"-f={connection_file}\",\"{resource_dir}/x\"],"
              "\"language\":\"k2\",\"env\":{\"B\":\"${HOME}/b\"}}");
    CHECK_EQ(kernelspec_find(&a, env.rows, STR("k2"), NULL, &s, NULL), 0);
    CHECK_EQ(kernelspec_command(&a, s, env.rows, "/c.json", &program, &argv, NULL), 0);
    (void)snprintf(want, sizeof(want), "%s/prefix/bin/python3", f.path);
    CHECK_STR(program, want);
    CHECK_STR(argv[1], "-f=/c.json");
    (void)snprintf(want, sizeof(want), "%s/prefix/share/jupyter/kernels/k2/x", f.path);
    CHECK_STR(argv[2], want);
    CHECK(!argv[3]);
    CHECK_EQ(kernelspec_env(&a, s, env.rows, &rows), 0);
    (void)snprintf(want, sizeof(want), "B=%s/home/b", f.path);
    while (*rows && strcmp(*rows, want) != 0)
        rows++;
    CHECK(*rows);
}

TEST(kernelspec, names_a_program_that_is_not_there)
{
    AUTO_FOLDER(f);
    AUTO_ARENA(a, 8 << 20);
    struct env env;
    const struct kernelspec *s;
    const char *program, *const *argv;
    struct err e = {0};

    make_env(&f, &env);
    make_spec("a/kernels", "k3", "{\"argv\":[\"no-such-kernel\"],\"language\":\"k3\"}");
    CHECK_EQ(kernelspec_find(&a, env.rows, STR("k3"), NULL, &s, NULL), 0);
    CHECK_EQ(kernelspec_command(&a, s, env.rows, "/c.json", &program, &argv, &e), -ENOENT);
    CHECK(strstr(e.msg, "'no-such-kernel'"));
}
