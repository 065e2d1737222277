#include <errno.h>

#include "committer/options.h"
#include "test.h"

static const char *uid, *insecure, *path;

static char *env(const char *name)
{
    const char *value = NULL;

    if (strcmp(name, "SOURCE_POD_UID") == 0)
        value = uid;
    else if (strcmp(name, "SNAPSHOT_REGISTRY_INSECURE") == 0)
        value = insecure;
    else if (strcmp(name, "CONTAINERD_SOCKET") == 0)
        value = path;
    return (char *)(uintptr_t)value;
}

static struct commit_options o;

static int read_words(const char *a, const char *b, const char *c, const char *d)
{
    const char *argv[] = {"image-committer", a, b, c, d, NULL};
    int argc = 1;

    while (argv[argc])
        argc++;
    return commit_options_read(&o, argc, (char **)(uintptr_t)argv, env, NULL);
}

TEST(options, of_a_commit_are_read)
{
    CHECK_EQ(read_words("pod-0", "ns", "main:r.io:5000/a/b:snap-gen2", "side:10.1.2.3/x:1"), 0);
    CHECK(!o.unpause);
    CHECK_SPAN(o.pod, "pod-0");
    CHECK_EQ(o.target_count, 2);
    CHECK_SPAN(o.targets[0].container, "main");
    CHECK_STR(o.targets[0].image.registry, "r.io:5000");
    CHECK_STR(o.targets[0].image.repository, "a/b");
    CHECK_STR(o.targets[0].image.tag, "snap-gen2");
    CHECK_STR(o.targets[1].image.registry, "10.1.2.3");
    CHECK_STR(o.socket, "/run/containerd/containerd.sock");
    CHECK_STR(o.containerd_ns, "k8s.io");
}

TEST(options, of_an_unpause_are_read)
{
    path = "/x.sock";
    uid = "1-2";
    CHECK_EQ(read_words("unpause", "pod", "ns", "main"), 0);
    CHECK(o.unpause);
    CHECK_SPAN(o.targets[0].container, "main");
    CHECK_SPAN(o.uid, "1-2");
    CHECK_STR(o.socket, "/x.sock");
}

TEST(options, that_could_leave_a_filter_are_refused)
{
    CHECK_EQ(read_words("p\"", "n", "c:x:1", NULL), -EINVAL);
    CHECK_EQ(read_words("p", "n,m", "c:x:1", NULL), -EINVAL);
    CHECK_EQ(read_words("unpause", "p", "n", "c\"=="), -EINVAL);
    uid = "\"";
    CHECK_EQ(read_words("p", "n", "c:x:1", NULL), -EINVAL);
    CHECK_EQ(read_words("p", "n", NULL, NULL), -EINVAL);
    uid = NULL;
    CHECK_EQ(read_words("p", "n", "c", NULL), -EINVAL);
    CHECK_EQ(read_words("p", "n", ":x:1", NULL), -EINVAL);
    CHECK_EQ(read_words("p", "n",
                        "c:x@sha256:" /* 64 digits */
                        "00000000000000000000000000000000"
                        "00000000000000000000000000000000",
                        NULL),
             -EINVAL);
}

TEST(options, trust_private_networks_unless_told)
{
    static const char *const inside[] = {"localhost:5000", "registry.local", "127.1.2.3:5000",
                                         "10.0.0.1:5000",  "192.168.1.1",    "172.16.0.1",
                                         "172.31.255.1:1", "a.cluster.local"};
    static const char *const outside[] = {"registry.example", "172.15.0.1", "172.32.0.1:5000",
                                          "11.0.0.1",         "172.x",      "193.168.1.1"};

    CHECK_EQ(read_words("p", "n", "c:x:1", NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(inside); i++)
        CHECK(commit_is_insecure(&o, inside[i]));
    for (size_t i = 0; i < ARRAY_LEN(outside); i++)
        CHECK(!commit_is_insecure(&o, outside[i]));
    insecure = "False";
    CHECK_EQ(read_words("p", "n", "c:x:1", NULL), 0);
    CHECK(!commit_is_insecure(&o, "localhost"));
    insecure = "true";
    CHECK_EQ(read_words("p", "n", "c:x:1", NULL), 0);
    CHECK(commit_is_insecure(&o, "registry.example"));
}
