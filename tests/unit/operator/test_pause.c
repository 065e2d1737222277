#include "base/time.h"
#include "operator/names.h"
#include "rig.h"

#define TEMPLATE                                                                                   \
    "'replicas':1,'template':{'spec':{'containers':[{'name':'main','image':'img'},{'name':"        \
    "'egress','image':'e'}]}}"
#define SAVED                                                                                      \
    "'phase':'Succeed','sourcePodName':'box-0','containers':[{'containerName':'main','imageUri':"  \
    "'reg/box-main:snap-gen2'}]"

static const struct settings settings = {.pull_secret = STR_INIT("pull")};

static struct snapshot *snapshot(const char *status)
{
    return snapshot_read(rig_json(rig_format("{'metadata':{'name':'box-pause','namespace':'ns',"
                                             "'uid':'u-snap'},'spec':{'sandboxName':'box'},"
                                             "'status':{%s}}",
                                             status)),
                         NULL);
}

static struct plan plan;

static const char *decide(const char *metadata, const char *spec, const char *status,
                          struct snapshot *s, const struct pod *pod)
{
    const struct pod *pods[] = {pod};
    static const struct pod *none[RIG_MAX];
    static const struct pool *pools[RIG_MAX];
    struct sandbox *sandbox = rig_sandbox(metadata, spec, status);
    bool pooled = sandbox_is_pooled(sandbox);
    struct sandbox_in in = {.sandbox = sandbox,
                            .snapshot = s,
                            .settings = &settings,
                            .now_us = RIG_NOW,
                            .own = pods,
                            .own_count = pod && !pooled,
                            .allocated = pooled ? pods : none,
                            .allocated_pools = pools};

    plan_init(&plan);
    sandbox_decide(&in, &plan);
    return rig_text(&plan);
}

#define GEN2 "'generation':2"

TEST(pause, begins_with_the_status)
{
    const char *text =
        decide(GEN2, TEMPLATE ",'pause':true", "'phase':'Succeed','pauseObservedGeneration':1",
               NULL, rig_pod("box-0", "10.0.0.1"));

    CHECK_HOLDS(text, "'pauseObservedGeneration':2,'phase':'Pausing'");
    CHECK_LACKS(text, "CREATE");
}

TEST(pause, then_makes_a_snapshot_and_waits_for_it)
{
    CHECK_HOLDS(decide(GEN2, TEMPLATE ",'pause':true",
                       "'phase':'Pausing','pauseObservedGeneration':2", NULL,
                       rig_pod("box-0", "10.0.0.1")),
                "CREATE snapshot box-pause {'apiVersion':'sandbox.opensandbox.io/v1alpha1','kind':"
                "'SandboxSnapshot'");
    CHECK_STR(decide(GEN2, TEMPLATE ",'pause':true",
                     "'phase':'Pausing','pauseObservedGeneration':2",
                     snapshot("'phase':'Committing'"), rig_pod("box-0", "10.0.0.1")),
              "");
}

TEST(pause, ends_with_the_pod_gone_and_phase_paused)
{
    const char *text =
        decide(GEN2, TEMPLATE ",'pause':true", "'phase':'Pausing','pauseObservedGeneration':2",
               snapshot(SAVED), rig_pod("box-0", "10.0.0.1"));

    CHECK_HOLDS(text, "DELETE pod box-0");
    CHECK_HOLDS(text, "'phase':'Paused'");
    CHECK(plan.writes->step < plan.writes->next->step);
}

TEST(pause, that_failed_leaves_the_sandbox_running)
{
    const char *text = decide(
        GEN2, TEMPLATE ",'pause':true", "'phase':'Pausing','pauseObservedGeneration':2",
        snapshot("'phase':'Failed','conditions':[{'type':'Failed','message':'no registry'}]"),
        rig_pod("box-0", "10.0.0.1"));

    CHECK_HOLDS(text, "'phase':'Succeed'");
    CHECK_HOLDS(text, "{'type':'PauseFailed','status':'True','reason':'SnapshotFailed','message':"
                      "'no registry'");
    CHECK_LACKS(text, "DELETE");
}

TEST(pause, of_a_batch_is_refused)
{
    CHECK_HOLDS(decide(GEN2, "'replicas':2,'template':{},'pause':true",
                       "'phase':'Succeed','pauseObservedGeneration':1", NULL, NULL),
                "'reason':'UnsupportedReplicas'");
}

/* 15.2.1: another change of the specification while paused, such as a new expireTime. */
TEST(pause, is_not_repeated_by_another_change_while_paused)
{
    const char *text =
        decide("'generation':5", TEMPLATE ",'pause':true,'expireTime':'2027-01-15T09:00:00Z'",
               "'phase':'Paused','pauseObservedGeneration':2", snapshot(SAVED), NULL);

    CHECK_LACKS(text, "snapshot");
    CHECK_LACKS(text, "pod ");
    CHECK_HOLDS(text, "'pauseObservedGeneration':5,'phase':'Paused'");
}

/* 15.2.2: the same after a resume. */
TEST(pause, does_not_resume_what_runs)
{
    CHECK_LACKS(decide("'generation':9", TEMPLATE ",'pause':false",
                       "'phase':'Succeed','pauseObservedGeneration':4", NULL,
                       rig_pod_of("box-0", "", "", "'phase':'Running'")),
                "Resuming");
}

/* 15.2.3 */
TEST(pause, false_from_the_beginning_is_an_ordinary_sandbox)
{
    const char *text = decide("", TEMPLATE ",'pause':false", "", NULL, NULL);

    CHECK_HOLDS(text, "CREATE pod box-0");
    CHECK_LACKS(text, "Paused");
}

TEST(pause, resumes_by_status_then_images_then_a_pod)
{
    const char *spec = TEMPLATE ",'pause':false";
    const char *text =
        decide("'generation':3", spec, "'phase':'Paused','pauseObservedGeneration':2",
               snapshot(SAVED), NULL);

    CHECK_HOLDS(text, "'pauseObservedGeneration':3,'phase':'Resuming'");
    text = decide("'generation':3", spec, "'phase':'Resuming','pauseObservedGeneration':3",
                  snapshot(SAVED), NULL);
    CHECK_HOLDS(text, "PATCH sandbox box {'metadata':{'resourceVersion':'7'},'spec':{'template':{"
                      "'spec':{'containers':[{'name':'main','image':'reg/box-main:snap-gen2'},{"
                      "'name':'egress','image':'e'}],'imagePullSecrets':[{'name':'pull'}]}}}}");
    text = decide("'generation':4",
                  "'replicas':1,'pause':false,'template':{'spec':{'containers':[{'name':'main',"
                  "'image':'reg/box-main:snap-gen2'}]}}",
                  "'phase':'Resuming','pauseObservedGeneration':3", snapshot(SAVED), NULL);
    CHECK_HOLDS(text, "CREATE pod box-0");
}

TEST(pause, resume_without_a_snapshot_says_so)
{
    const char *text = decide("'generation':3", TEMPLATE ",'pause':false",
                              "'phase':'Resuming','pauseObservedGeneration':3", NULL, NULL);

    CHECK_HOLDS(text, "'phase':'Paused'");
    CHECK_HOLDS(text, "'type':'ResumeFailed','status':'True','reason':'SnapshotNotFound'");
}

TEST(pause, forgets_the_snapshot_once_the_sandbox_runs)
{
    CHECK_HOLDS(decide("'generation':4", TEMPLATE ",'pause':false",
                       "'phase':'Succeed','pauseObservedGeneration':4", snapshot(SAVED),
                       rig_pod("box-0", "10.0.0.1")),
                "DELETE snapshot box-pause");
}

TEST(pause, of_a_pooled_sandbox_needs_the_whole_pod_and_leaves_the_pool)
{
    static const char *const alloc =
        "'generation':2,'annotations':{'sandbox.opensandbox.io/alloc-status':'{\\\"pods\\\":["
        "\\\"warm-a\\\"]}'}";
    struct sandbox *s = rig_sandbox(alloc, "'replicas':1,'poolRef':'warm','pause':true",
                                    "'phase':'Pausing','pauseObservedGeneration':2");
    const struct pod *pods[] = {rig_pod("warm-a", "10.0.0.1")};
    static const struct pool *pools[RIG_MAX];
    struct sandbox_in in = {.sandbox = s,
                            .snapshot = snapshot("'phase':'Succeed','sourcePodName':'warm-a'"),
                            .settings = &settings,
                            .now_us = RIG_NOW,
                            .allocated = pods,
                            .allocated_pools = pools};

    plan_init(&plan);
    sandbox_decide(&in, &plan);
    CHECK_SPAN(plan.need_pod, "warm-a");
    in.whole_pod = rig_json("{'metadata':{'labels':{'a':'b','sandbox.opensandbox.io/pool-name':'w',"
                            "'sandbox.opensandbox.io/pool-revision':'r'}},'spec':{'nodeName':'n1',"
                            "'containers':[{'name':'main'}]}}");
    plan_init(&plan);
    sandbox_decide(&in, &plan);
    CHECK_HOLDS(rig_text(&plan), "'spec':{'template':{'metadata':{'labels':{'a':'b'}},'spec':{"
                                 "'containers':[{'name':'main'}]}},'poolRef':''}");
}

/* 15.2.4: what the pool's pod does afterwards is not this sandbox's any more. */
TEST(pause, after_the_pool_the_old_pod_is_given_back_and_not_used)
{
    struct sandbox *s = rig_sandbox(
        "'annotations':{'sandbox.opensandbox.io/alloc-status':'{\\\"pods\\\":[\\\"warm-a\\\"]}'},"
        "'finalizers':['pool.sandbox.opensandbox.io/pool-allocation']",
        TEMPLATE ",'pause':true", "'phase':'Paused','pauseObservedGeneration':1");
    const struct pod *pods[] = {rig_pod("warm-a", "10.0.0.1")};
    const struct pool *pools[] = {rig_pool("", "'recycleStrategy':{'type':'Noop'}")};
    struct sandbox_in in = {.sandbox = s,
                            .settings = &settings,
                            .now_us = RIG_NOW,
                            .allocated = pods,
                            .allocated_pools = pools};

    plan_init(&plan);
    sandbox_decide(&in, &plan);
    CHECK_HOLDS(rig_text(&plan), "'sandbox.opensandbox.io/alloc-status':null");
    CHECK_HOLDS(rig_text(&plan), "'finalizers':[]");
}
