#include "base/time.h"
#include "operator/names.h"
#include "rig.h"

struct rig {
    struct pool_in in;
    struct pool_pod pods[RIG_MAX];
    const struct sandbox *sandboxes[RIG_MAX];
    const struct pod *const *allocated[RIG_MAX];
    bool busy[RIG_MAX];
    struct plan plan;
};

static const struct pod *nothing[RIG_MAX];

static const char *decide(struct rig *r)
{
    r->in.pods = r->pods;
    while (r->pods[r->in.pod_count].pod)
        r->in.pod_count++;
    while (r->sandboxes[r->in.sandbox_count]) {
        if (!r->allocated[r->in.sandbox_count])
            r->allocated[r->in.sandbox_count] = nothing;
        r->in.sandbox_count++;
    }
    r->in.sandboxes = r->sandboxes;
    r->in.allocated = r->allocated;
    r->in.busy = r->busy;
    r->in.now_us = RIG_NOW;
    plan_init(&r->plan);
    pool_decide(&r->in, &r->plan);
    return rig_text(&r->plan);
}

#define CAPACITY(buffer_min, buffer_max, pool_min, pool_max)                                       \
    "'capacitySpec':{'bufferMin':" #buffer_min ",'bufferMax':" #buffer_max ",'poolMin':" #pool_min \
    ",'poolMax':" #pool_max "}"

/* A pod of the pool's present template. */
static struct pool_pod idle(const struct pool *pool, const char *name, bool ready)
{
    struct pod *p =
        rig_pod_of(name,
                   rig_format("'labels':{'sandbox.opensandbox.io/pool-revision':'%.*s'},"
                              "'creationTimestamp':'2027-01-15T07:%02d:00Z'",
                              STR_ARG(pool->revision), name[strlen(name) - 1] % 60),
                   "'nodeName':'n1'",
                   ready ? rig_format(RIG_READY ",'podIP':'10.0.0.%d'", name[strlen(name) - 1])
                         : "'phase':'Pending'");

    return (struct pool_pod){.pod = p};
}

static const struct sandbox *want(const char *name, int replicas, int minute)
{
    return rig_sandbox(
        rig_format("'name':'%s','creationTimestamp':'2027-01-15T07:%02d:00Z'", name, minute),
        rig_format("'replicas':%d,'poolRef':'warm'", replicas), "");
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;

    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

/* --- allocation --- */

TEST(pool, gives_a_pod_by_one_patch)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    struct rig r = {
        .in.pool = pool,
        .pods = {idle(pool, "warm-a", true)},
        .sandboxes = {rig_sandbox("'finalizers':['x/y']", "'replicas':1,'poolRef':'warm'", "")}};
    const char *text = decide(&r);

    CHECK_HOLDS(text, "PATCH sandbox box {'metadata':{'resourceVersion':'7','finalizers':['x/y',"
                      "'pool.sandbox.opensandbox.io/pool-allocation'],'annotations':{"
                      "'sandbox.opensandbox.io/alloc-status':'{\\\"pods\\\":[\\\"warm-a\\\"]}',"
                      "'sandbox.opensandbox.io/endpoints':'[\\\"10.0.0.97\\\"]'}}}");
    CHECK_EQ(count(text, "PATCH"), 1);
    CHECK_EQ(r.plan.writes->granted_count, 1);
    CHECK_HOLDS(text, "'total':1,'allocated':1,'available':0");
}

TEST(pool, never_gives_a_pod_that_is_taken_marked_unready_or_leaving)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    struct rig r = {.in.pool = pool, .sandboxes = {want("s1", 5, 1)}};
    struct pod *evicted = (struct pod *)idle(pool, "warm-b", true).pod;
    struct pod *leaving = (struct pod *)idle(pool, "warm-d", true).pod;

    r.pods[0] = idle(pool, "warm-a", true);
    r.pods[0].claimed = true;
    evicted->evict = true;
    r.pods[1].pod = evicted;
    r.pods[2] = idle(pool, "warm-c", false);
    leaving->meta.deleting_us = 1;
    r.pods[3].pod = leaving;
    CHECK_LACKS(decide(&r), "PATCH sandbox");
}

TEST(pool, serves_the_oldest_first_and_leaves_busy_ones_alone)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    struct rig r = {
        .in.pool = pool,
        .pods = {idle(pool,    "warm-a", true)},
        .sandboxes = {want("young", 1,        9),    want("busy", 1, 1), want("old", 1, 5)},
        .busy = {false,           true,                 false           }
    };
    const char *text = decide(&r);

    CHECK_HOLDS(text, "PATCH sandbox old");
    CHECK_EQ(count(text, "PATCH"), 1);
    CHECK_EQ(r.plan.again_us, RIG_NOW + 5 * TIME_US_PER_S); /* one waits */
}

TEST(pool, gives_a_part_and_fills_up_later)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    struct rig r = {
        .in.pool = pool, .pods = {idle(pool, "warm-a", true)}, .sandboxes = {want("s1", 3, 1)}};

    CHECK_HOLDS(decide(&r), "endpoints':'[\\\"10.0.0.97\\\",\\\"\\\",\\\"\\\"]'");
}

TEST(pool, replaces_an_allocated_pod_that_died)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    const struct pod *alive = rig_pod("warm-x", "10.0.0.9");
    const struct pod *pods[] = {NULL, alive};
    struct rig r = {
        .in.pool = pool,
        .pods = {idle(pool, "warm-a", true)},
        .sandboxes = {rig_sandbox("'annotations':{'sandbox.opensandbox.io/alloc-status':'{\\\"pods"
                                  "\\\":[\\\"gone\\\",\\\"warm-x\\\"],\\\"poolRef\\\":\\\"w\\\"}'}",
                                  "'replicas':2,'poolRef':'warm'", "'phase':'Succeed'")},
        .allocated = {pods}};
    const char *text = decide(&r);

    CHECK_HOLDS(text, "{\\\"pods\\\":[\\\"warm-a\\\",\\\"warm-x\\\"]}");
    CHECK_HOLDS(text, "endpoints':'[\\\"10.0.0.97\\\",\\\"10.0.0.9\\\"]'");
}

TEST(pool, does_not_replace_pods_whose_task_ended)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    struct rig r = {
        .in.pool = pool,
        .pods = {idle(pool, "warm-a", true)},
        .sandboxes = {rig_sandbox("'annotations':{'sandbox.opensandbox.io/alloc-status':'{\\\"pods"
                                  "\\\":[\\\"gone\\\"]}','sandbox.opensandbox.io/alloc-release':"
                                  "'{\\\"pods\\\":[\\\"gone\\\"]}'}",
                                  "'replicas':1,'poolRef':'warm'", "'phase':'Succeed'")}};

    CHECK_LACKS(decide(&r), "PATCH sandbox");
}

TEST(pool, serves_a_sandbox_that_has_a_template_too)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    struct rig r = {.in.pool = pool,
                    .pods = {idle(pool, "warm-a", true)},
                    .sandboxes = {rig_sandbox("",
                                              "'replicas':1,'poolRef':'warm','template':{'spec':"
                                              "{'containers':[{'image':'i'}]}}",
                                              "")}};

    CHECK_HOLDS(decide(&r), "PATCH sandbox box");
}

TEST(pool, adds_the_finalizer_of_tasks_in_the_same_patch)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    struct rig r = {
        .in.pool = pool,
        .pods = {idle(pool, "warm-a", true)},
        .sandboxes = {rig_sandbox("", "'replicas':1,'poolRef':'warm','taskTemplate':{}", "")}};

    CHECK_HOLDS(decide(&r), "'finalizers':['batch-sandbox.sandbox.opensandbox.io/task-cleanup',"
                            "'pool.sandbox.opensandbox.io/pool-allocation']");
}

TEST(pool, does_not_serve_what_is_deleted_paused_malformed_or_expired)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    struct rig r = {
        .in.pool = pool,
        .pods = {idle(pool, "warm-a", true)                                            },
        .sandboxes = {
                 rig_sandbox("'deletionTimestamp':'2027-01-15T07:00:00Z'", "'poolRef':'warm'", ""),
                 rig_sandbox("", "'poolRef':'warm'", "'phase':'Paused'"),
                 rig_sandbox("'annotations':{'sandbox.opensandbox.io/alloc-status':'['}",
                 "'poolRef':'warm'", ""),
                 rig_sandbox("", "'poolRef':'warm','expireTime':'2027-01-15T07:59:59Z'", ""),
                 }
    };

    CHECK_LACKS(decide(&r), "PATCH sandbox");
}

/* --- eviction, ended pods --- */

TEST(pool, evicts_idle_pods_and_never_used_ones)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 10, 0, 10));
    struct rig r = {.in.pool = pool};

    for (size_t i = 0; i < 2; i++) {
        struct pod *p = (struct pod *)idle(pool, i ? "warm-b" : "warm-a", true).pod;

        p->evict = true;
        r.pods[i] = (struct pool_pod){.pod = p, .claimed = i == 0};
    }
    CHECK_HOLDS(decide(&r), "DELETE pod warm-b");
    CHECK_LACKS(rig_text(&r.plan), "DELETE pod warm-a");
    CHECK_HOLDS(rig_text(&r.plan), "EVENT PodEvicted pod warm-b");
}

TEST(pool, replaces_idle_pods_that_ended)
{
    const struct pool *pool = rig_pool("", CAPACITY(1, 1, 0, 5));
    struct rig r = {.in.pool = pool};
    struct pod *p = (struct pod *)idle(pool, "warm-a", true).pod;

    p->finished = true;
    r.pods[0].pod = p;
    CHECK_HOLDS(decide(&r), "DELETE pod warm-a");
    CHECK_HOLDS(rig_text(&r.plan), "CREATE pod");
}

/* --- scaling --- */

TEST(pool, fills_its_buffer_as_fast_as_its_strategy_allows)
{
    const struct pool *pool = rig_pool("", CAPACITY(4, 8, 0, 100));
    struct rig r = {.in.pool = pool};
    struct rig all = {.in.pool = rig_pool("", CAPACITY(4, 8, 0, 100) ",'scaleStrategy':{"
                                                                     "'maxUnavailable':'100%'}")};

    CHECK_EQ(count(decide(&r), "CREATE pod"), 2); /* 25% of 6 */
    CHECK_EQ(count(decide(&all), "CREATE pod"), 6);
    CHECK_HOLDS(rig_text(&all.plan), "'generateName':'warm-'");
    CHECK_HOLDS(rig_text(&all.plan), "'sandbox.opensandbox.io/pool-name':'warm'");
    CHECK_HOLDS(rig_text(&all.plan), "'kind':'Pool'");
}

TEST(pool, counts_pods_that_are_being_created)
{
    struct rig r = {
        .in = {.pool = rig_pool("", CAPACITY(4, 8, 0, 100) ",'scaleStrategy':{"
                                                           "'maxUnavailable':20}"),
               .pods_expected = 6}
    };

    CHECK_EQ(count(decide(&r), "CREATE pod"), 0);
}

TEST(pool, never_has_more_pods_than_its_maximum)
{
    const struct pool *pool = rig_pool("", CAPACITY(5, 5, 5, 3) ",'scaleStrategy':{"
                                                                "'maxUnavailable':100}");
    struct rig r = {
        .in.pool = pool, .pods = {idle(pool, "warm-a", true)}, .sandboxes = {want("s1", 9, 1)}};

    CHECK_EQ(count(decide(&r), "CREATE pod"), 2);
}

TEST(pool, deletes_the_oldest_idle_pods_beyond_its_buffer)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 2, 0, 100));
    struct rig r = {
        .in.pool = pool,
        .pods = {idle(pool, "warm-d", true), idle(pool, "warm-a", true), idle(pool, "warm-c", true),
                 idle(pool, "warm-b", true)}
    };
    const char *text = decide(&r);

    CHECK_EQ(count(text, "DELETE"), 3); /* to (0 + 2) / 2 */
    CHECK_LACKS(text, "DELETE pod warm-d");
}

TEST(pool, keeps_its_minimum)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 1, 3, 100));
    struct rig r = {
        .in.pool = pool,
        .pods = {idle(pool, "warm-a", true), idle(pool, "warm-b", true),
                 idle(pool, "warm-c", true)}
    };

    CHECK_LACKS(decide(&r), "pod warm");
}

TEST(pool, without_a_template_says_so_and_creates_nothing)
{
    struct rig r = {.in.pool = pool_facts_read(rig_json("{'metadata':{'name':'warm'},'spec':{"
                                                        "'capacitySpec':{'poolMin':3,'poolMax':3,"
                                                        "'bufferMin':1,'bufferMax':1}}}"),
                                               NULL)};

    CHECK_HOLDS(decide(&r), "EVENT InvalidPool spec.template is missing");
    CHECK_LACKS(rig_text(&r.plan), "CREATE");
}

/* --- rollout --- */

static struct pool_pod outdated(const struct pool *pool, const char *name, bool ready)
{
    struct pool_pod x = idle(pool, name, ready);

    ((struct pod *)x.pod)->revision = STR("old");
    return x;
}

TEST(pool, replaces_idle_pods_of_an_old_template_within_its_budget)
{
    const struct pool *pool =
        rig_pool("", CAPACITY(4, 4, 0, 100) ",'scaleStrategy':{'maxUnavailable':100}");
    struct rig r = {.in.pool = pool};
    const char *text;

    r.pods[0] = outdated(pool, "warm-a", true);
    r.pods[1] = outdated(pool, "warm-b", true);
    r.pods[2] = outdated(pool, "warm-c", true);
    r.pods[3] = outdated(pool, "warm-d", true);
    r.pods[4] = outdated(pool, "warm-e", true);
    r.pods[4].claimed = true;
    text = decide(&r);
    CHECK_EQ(count(text, "DELETE"), 2); /* 25% of 5, rounded up */
    CHECK_EQ(count(text, "CREATE"), 2);
    CHECK_LACKS(text, "DELETE pod warm-e");
}

TEST(pool, replaces_unready_pods_of_an_old_template_always)
{
    const struct pool *pool = rig_pool("", CAPACITY(2, 2, 0, 100));
    struct rig r = {.in.pool = pool};

    r.pods[0] = outdated(pool, "warm-a", false);
    r.pods[1] = outdated(pool, "warm-b", true);
    CHECK_HOLDS(decide(&r), "DELETE pod warm-a");
    CHECK_LACKS(rig_text(&r.plan), "DELETE pod warm-b");
}

/* --- status --- */

TEST(pool, reports_a_burst_once)
{
    const struct pool *pool = rig_pool("", CAPACITY(0, 9, 0, 9));
    struct rig r = {
        .in = {.pool = pool, .status_us = RIG_NOW - 1000},
          .pods = { idle(pool,    "warm-a",                       true)}
    };

    CHECK_LACKS(decide(&r), "STATUS");
    CHECK_EQ(r.plan.again_us, RIG_NOW + 499000);
}

TEST(pool, that_is_being_deleted_does_nothing)
{
    struct rig r = {
        .in.pool = rig_pool("'deletionTimestamp':'2027-01-15T07:00:00Z'", CAPACITY(5, 5, 5, 5))};

    CHECK_STR(decide(&r), "");
}
