#include "base/time.h"
#include "operator/names.h"
#include "rig.h"

#define TEMPLATE                                                                                   \
    "'template':{'metadata':{'labels':{'app':'x'}},'spec':{'containers':[{'name':'main',"          \
    "'image':'img','env':[{'name':'A','value':'1'}]}]}}"

static const struct settings settings = {.registry = STR_INIT("reg.test/snap"),
                                         .pull_secret = STR_INIT("pull")};

struct rig {
    struct sandbox_in in;
    const struct pod *pods[RIG_MAX];
    const struct pool *pools[RIG_MAX];
    struct plan plan;
};

static const char *decide(struct rig *r)
{
    r->in.settings = &settings;
    if (!r->in.now_us)
        r->in.now_us = RIG_NOW;
    if (sandbox_is_pooled(r->in.sandbox) || r->in.sandbox->alloc.count) {
        r->in.allocated = r->pods;
        r->in.allocated_pools = r->pools;
    } else {
        r->in.own = r->pods;
        while (r->pods[r->in.own_count])
            r->in.own_count++;
    }
    plan_init(&r->plan);
    sandbox_decide(&r->in, &r->plan);
    return rig_text(&r->plan);
}

/* --- own pods --- */

TEST(sandbox, creates_missing_pods_of_its_own)
{
    struct rig r = {.in.sandbox = rig_sandbox("", "'replicas':2," TEMPLATE, "")};
    const char *text = decide(&r);

    CHECK_HOLDS(text, "CREATE pod box-0 {");
    CHECK_HOLDS(text, "CREATE pod box-1 {");
    CHECK_LACKS(text, "box-2");
    CHECK_HOLDS(text, "'batch-sandbox.sandbox.opensandbox.io/pod-index':'1'");
    CHECK_HOLDS(text, "'batch-sandbox.sandbox.opensandbox.io/name':'box'");
    CHECK_HOLDS(text, "'ownerReferences':[{'apiVersion':'sandbox.opensandbox.io/v1alpha1','kind':"
                      "'BatchSandbox','name':'box','uid':'u-box','controller':true,"
                      "'blockOwnerDeletion':true}]");
    CHECK_HOLDS(text, "'app':'x'");
}

TEST(sandbox, applies_shard_patches_by_name)
{
    struct rig r = {.in.sandbox = rig_sandbox(
                        "",
                        "'replicas':2," TEMPLATE
                        ",'shardPatches':[{'spec':{'containers':[{'name':'main','env':[{'name':'B',"
                        "'value':'2'}]}]},'metadata':{'name':'mine','labels':{'shard':'0'}}}]",
                        "")};
    const char *text = decide(&r);

    CHECK_HOLDS(text, "'env':[{'name':'A','value':'1'},{'name':'B','value':'2'}]");
    CHECK_HOLDS(text, "'shard':'0'");
    CHECK_LACKS(text, "'name':'mine'"); /* the name is the operator's */
}

TEST(sandbox, deletes_pods_beyond_its_replicas)
{
    struct rig r = {
        .in.sandbox = rig_sandbox("", "'replicas':1," TEMPLATE, ""),
        .pods = {rig_pod("box-0", "10.0.0.1"), rig_pod("box-1", "10.0.0.2")}
    };
    const char *text = decide(&r);

    CHECK_HOLDS(text, "DELETE pod box-1");
    CHECK_LACKS(text, "DELETE pod box-0");
}

TEST(sandbox, waits_for_a_pod_that_is_on_its_way_out)
{
    struct rig r = {
        .in.sandbox = rig_sandbox("", "'replicas':1," TEMPLATE, ""),
        .pods = {rig_pod_of("box-0", "'deletionTimestamp':'2027-01-15T07:59:00Z'", "", RIG_READY)}};

    CHECK_LACKS(decide(&r), "CREATE");
}

TEST(sandbox, writes_endpoints_and_then_its_status)
{
    struct rig r = {.in.sandbox = rig_sandbox("", "'replicas':1," TEMPLATE, ""),
                    .pods = {rig_pod("box-0", "10.0.0.1")}};
    struct rig then = {
        .in.sandbox =
            rig_sandbox("'annotations':{'sandbox.opensandbox.io/endpoints':'[\\\"10.0.0.1\\\"]'}",
                        "'replicas':1," TEMPLATE, ""),
        .pods = {rig_pod("box-0", "10.0.0.1")}};
    const char *text = decide(&r);

    CHECK_HOLDS(text, "PATCH sandbox box {'metadata':{'annotations':{'sandbox.opensandbox.io/"
                      "endpoints':'[\\\"10.0.0.1\\\"]'}}}");
    CHECK_LACKS(text, "STATUS");
    text = decide(&then);
    CHECK_LACKS(text, "PATCH");
    CHECK_HOLDS(text, "STATUS sandbox box {'metadata':{'resourceVersion':'7'},'status':{"
                      "'observedGeneration':1,'replicas':1,'allocated':1,'ready':1,'taskRunning':0,"
                      "'taskSucceed':0,'taskFailed':0,'taskPending':0,'taskUnknown':0,"
                      "'pauseObservedGeneration':1,'phase':'Succeed','conditions':[{'type':'Ready',"
                      "'status':'True','reason':'PodsReady'");
}

TEST(sandbox, does_not_write_a_status_that_is_so)
{
    struct rig r = {
        .in.sandbox = rig_sandbox(
            "'annotations':{'sandbox.opensandbox.io/endpoints':'[\\\"10.0.0.1\\\"]'}",
            "'replicas':1," TEMPLATE,
            "'observedGeneration':1,'replicas':1,'allocated':1,'ready':1,'taskRunning':0,"
            "'taskSucceed':0,'taskFailed':0,'taskPending':0,'taskUnknown':0,"
            "'pauseObservedGeneration':1,'phase':'Succeed','conditions':[{'type':'Ready','status':"
            "'True','reason':'PodsReady','message':'a pod is ready','lastTransitionTime':"
            "'2027-01-15T07:30:00Z'}]"),
        .pods = {rig_pod("box-0", "10.0.0.1")}};

    CHECK_STR(decide(&r), "");
}

TEST(sandbox, that_is_young_gets_no_status_of_waiting)
{
    struct rig r = {
        .in = {.sandbox = rig_sandbox("", "'replicas':1," TEMPLATE, ""),
               .now_us = RIG_NOW - 3600 * TIME_US_PER_S + 1000                               },
        .pods = {rig_pod_of("box-0",        "",                       "",  "'phase':'Pending'")}
    };

    CHECK_STR(decide(&r), "");
    CHECK_EQ(r.plan.again_us, RIG_NOW - 3599 * TIME_US_PER_S);
}

/* --- failures (15.3.2) --- */

#define WAITS(reason)                                                                              \
    "'phase':'Pending','containerStatuses':[{'name':'main','state':{'waiting':{'reason':'" reason  \
    "','message':'why'}}}]"

TEST(sandbox, reports_containers_that_cannot_start)
{
    struct rig r = {.in.sandbox = rig_sandbox("", "'replicas':1," TEMPLATE, ""),
                    .pods = {rig_pod_of("box-0", "", "", WAITS("ImagePullBackOff"))}};
    const char *text = decide(&r);

    CHECK_HOLDS(text, "'phase':'Failed'");
    CHECK_HOLDS(text, "{'type':'PodFailed','status':'True','reason':'ImagePullBackOff','message':"
                      "'1/1 pods failed: ImagePullBackOff, such as box-0: why'");
    CHECK_HOLDS(text, "EVENT PodFailed 1/1");
}

TEST(sandbox, recovers_from_a_failure_that_passed)
{
    struct rig r = {.in.sandbox = rig_sandbox(
                        "'annotations':{'sandbox.opensandbox.io/endpoints':'[\\\"10.0.0.1\\\"]'}",
                        "'replicas':1," TEMPLATE,
                        "'phase':'Failed','conditions':[{'type':'PodFailed','status':"
                        "'True','reason':'ErrImagePull'}]"),
                    .pods = {rig_pod("box-0", "10.0.0.1")}};
    const char *text = decide(&r);

    CHECK_HOLDS(text, "'phase':'Succeed'");
    CHECK_LACKS(text, "PodFailed");
}

TEST(sandbox, reports_pods_that_ended_and_takes_their_address_away)
{
    struct rig r = {.in.sandbox = rig_sandbox(
                        "'annotations':{'sandbox.opensandbox.io/endpoints':'[\\\"10.0.0.1\\\"]'}",
                        "'replicas':1," TEMPLATE, "'phase':'Succeed'"),
                    .pods = {rig_pod_of(
                        "box-0", "", "",
                        "'phase':'Failed','podIP':'10.0.0.1','containerStatuses':[{'name':"
                        "'main','state':{'terminated':{'exitCode':137,'reason':'OOMKilled'}}}]")}};
    struct rig then = {
        .in.sandbox = rig_sandbox("'annotations':{'sandbox.opensandbox.io/endpoints':'[\\\"\\\"]'}",
                                  "'replicas':1," TEMPLATE, "'phase':'Succeed'"),
        .pods = {r.pods[0]}};

    CHECK_HOLDS(decide(&r), "endpoints':'[\\\"\\\"]'");
    CHECK_HOLDS(decide(&then), "'reason':'OOMKilled'");
}

TEST(sandbox, reports_init_containers_that_failed)
{
    struct rig r = {.in.sandbox = rig_sandbox("", "'replicas':1," TEMPLATE, ""),
                    .pods = {rig_pod_of("box-0", "", "",
                                        "'phase':'Pending','initContainerStatuses':[{'name':'i',"
                                        "'state':{'waiting':{'reason':'ErrImagePull'}}}]")}};

    CHECK_HOLDS(decide(&r), "'reason':'ErrImagePull'");
}

TEST(sandbox, without_a_template_says_so)
{
    struct rig r = {.in.sandbox = rig_sandbox("", "'replicas':1,'template':null", "")};

    CHECK_HOLDS(decide(&r), "EVENT FailedCreate spec.template is missing");
}

TEST(sandbox, with_an_owner_of_its_own_creates_pods)
{
    struct rig r = {.in.sandbox = rig_sandbox(
                        "'ownerReferences':[{'kind':'X','name':'x','uid':'u-x','controller':true}]",
                        "'replicas':1," TEMPLATE, "")};
    const char *text = decide(&r);

    CHECK_HOLDS(text, "CREATE pod box-0");
    CHECK_LACKS(text, "u-x");
}

/* --- time --- */

TEST(sandbox, is_deleted_when_its_time_is_over)
{
    struct rig r = {.in.sandbox = rig_sandbox(
                        "",
                        "'replicas':1,'expireTime':'2027-01-15T07:59:59.123456+00:00'," TEMPLATE,
                        "'phase':'Paused'")};
    struct rig later = {
        .in.sandbox =
            rig_sandbox("", "'replicas':0,'expireTime':'2027-01-15T10:00:01+02:00'," TEMPLATE, "")};

    CHECK_STR(decide(&r), "DELETE sandbox box \nEVENT Expired its expireTime has passed\n");
    CHECK_STR(r.plan.writes->uid.p, "u-box");
    CHECK_LACKS(decide(&later), "DELETE");
    CHECK_EQ(later.plan.again_us, RIG_NOW + TIME_US_PER_S);
}

/* --- pools --- */

#define ALLOC(pods)                                                                                \
    "'annotations':{'sandbox.opensandbox.io/alloc-status':'{\\\"pods\\\":[" pods "]}'"
#define POD_A "\\\"warm-a\\\""
#define POD_B "\\\"warm-b\\\""

TEST(sandbox, of_a_pool_needs_one_status_write)
{
    struct rig r = {.in.sandbox = rig_sandbox(
                        ALLOC(POD_A) ",'sandbox.opensandbox.io/endpoints':'[\\\"10.0.0.1\\\"]'}",
                        "'replicas':1,'poolRef':'warm'", ""),
                    .pods = {rig_pod("warm-a", "10.0.0.1")}};

    CHECK_HOLDS(decide(&r), "STATUS sandbox box");
    CHECK_EQ(r.plan.write_count, 1);
}

TEST(sandbox, gives_pods_back_before_it_goes)
{
    static const struct {
        const char *recycle, *first;
    } rows[] = {
        {"Delete", "DELETE pod warm-a"            },
        {"Noop",   "PATCH sandbox box {'metadata'"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig r = {
            .in.sandbox = rig_sandbox(
                ALLOC(POD_A) "},'deletionTimestamp':'2027-01-15T07:59:00Z','finalizers':["
                             "'other/one','pool.sandbox.opensandbox.io/pool-allocation']",
                "'replicas':1,'poolRef':'warm'", ""),
            .pods = {rig_pod("warm-a", "10.0.0.1")},
            .pools = {
                rig_pool("", rig_format("'recycleStrategy':{'type':'%s'}", rows[i].recycle))}};
        const char *text = decide(&r);

        CHECK_EQ(r.plan.write_count, 1);
        CHECK_HOLDS(text, rows[i].first);
        if (i == 1)
            CHECK_HOLDS(text, "'finalizers':['other/one']");
    }
}

TEST(sandbox, goes_when_its_pods_are_gone)
{
    struct rig r = {
        .in.sandbox = rig_sandbox(
            ALLOC(POD_A "," POD_B) "},'deletionTimestamp':'2027-01-15T07:59:00Z','finalizers':["
                                   "'pool.sandbox.opensandbox.io/pool-allocation']",
            "'replicas':2,'poolRef':'warm'", ""),
        .pods = {NULL, rig_pod_of("warm-b", "'deletionTimestamp':'2027-01-15T07:59:01Z'", "", "")}
    };

    CHECK_STR(decide(&r), "PATCH sandbox box {\"metadata\":{\"resourceVersion\":\"7\","
                          "\"finalizers\":[]}}\n");
}

TEST(sandbox, does_not_hang_when_its_pool_is_gone_or_all_was_given_back)
{
    struct rig gone = {
        .in.sandbox =
            rig_sandbox(ALLOC(POD_A) "},'deletionTimestamp':'2027-01-15T07:59:00Z','finalizers':["
                                     "'pool.sandbox.opensandbox.io/pool-allocation']",
                        "'replicas':1,'poolRef':'warm'", ""),
        .pods = {rig_pod("warm-a", "10.0.0.1")}}; /* no pool */
    struct rig released = {
        .in.sandbox = rig_sandbox(
            ALLOC(POD_A) ",'sandbox.opensandbox.io/alloc-released':'{\\\"pods\\\":[" POD_A "]}'},"
                         "'deletionTimestamp':'2027-01-15T07:59:00Z','finalizers':["
                         "'pool.sandbox.opensandbox.io/pool-allocation']",
            "'replicas':1,'poolRef':'warm'", ""),
        .pods = {rig_pod("warm-a", "10.0.0.1")}};

    CHECK_HOLDS(decide(&gone), "DELETE pod warm-a");
    CHECK_HOLDS(decide(&released), "'finalizers':[]");
    CHECK_EQ(released.plan.write_count, 1);
}

TEST(sandbox, with_malformed_annotations_is_left_alone)
{
    struct rig r = {
        .in.sandbox = rig_sandbox("'annotations':{'sandbox.opensandbox.io/alloc-status':'{warm-a'}",
                                  "'replicas':1,'poolRef':'warm'", "")};

    CHECK_HOLDS(decide(&r), "EVENT MalformedAnnotation");
    CHECK_EQ(r.plan.write_count, 0);
    CHECK(sandbox_claims(r.in.sandbox, STR("warm-a")));
}

TEST(sandbox, keeps_its_pod_when_its_pool_ref_changes)
{
    struct rig r = {.in.sandbox = rig_sandbox(
                        ALLOC(POD_A) ",'sandbox.opensandbox.io/endpoints':'[\\\"10.0.0.1\\\"]'}",
                        "'replicas':1,'poolRef':'other'", "'phase':'Succeed'"),
                    .pods = {rig_pod("warm-a", "10.0.0.1")},
                    .pools = {rig_pool("", "")}};

    CHECK_LACKS(decide(&r), "pod warm-a");
}

TEST(sandbox, gives_the_pods_beyond_its_replicas_back)
{
    struct rig r = {
        .in.sandbox = rig_sandbox(ALLOC(POD_A "," POD_B) "}", "'replicas':1,'poolRef':'warm'", ""),
        .pods = {rig_pod("warm-a", "10.0.0.1"),                          rig_pod("warm-b", "10.0.0.2")                         },
        .pools = {rig_pool("",      "'recycleStrategy':{'type':'Noop'}"),
                 rig_pool("",                                                              "'recycleStrategy':{'type':'Noop'}")}
    };
    const char *text = decide(&r);

    CHECK_HOLDS(text, "alloc-status':'{\\\"pods\\\":[\\\"warm-a\\\"]}'");
    CHECK_LACKS(text, "pod warm-a");
}

/* --- restart recycling (15.2.5, 15.3.6) --- */

#define ENDING                                                                                     \
    "},'deletionTimestamp':'2027-01-15T07:59:00Z','finalizers':["                                  \
    "'pool.sandbox.opensandbox.io/pool-allocation']"

static struct pod *pod_with_record(const char *id, const char *recorded, const char *now,
                                   const char *retried, int retries)
{
    return rig_pod_of(
        "warm-a",
        rig_format(
            "'annotations':{'sandbox.opensandbox.io/restart-record':'{\\\"id\\\":\\\"%s\\\","
            "\\\"startTime\\\":\\\"2027-01-15T07:59:00Z\\\",\\\"containers\\\":{\\\"main\\\":"
            "\\\"%s\\\"},\\\"lastRetryTime\\\":\\\"%s\\\",\\\"retryCount\\\":%d}'}",
            id, recorded, retried, retries),
        "'nodeName':'n1','containers':[{'name':'main'}]",
        rig_format(RIG_READY ",'podIP':'10.0.0.1','containerStatuses':[{'name':'main',"
                             "'containerID':'%s','state':{'running':{}}}]",
                   now));
}

static const char *decide_restart(struct pod *pod)
{
    struct rig r = {.in.sandbox =
                        rig_sandbox(ALLOC(POD_A) ENDING, "'replicas':1,'poolRef':'warm'", ""),
                    .pods = {pod},
                    .pools = {rig_pool("", "'recycleStrategy':{'type':'Restart'}")}};

    return decide(&r);
}

TEST(restart, records_and_then_kills_each_container)
{
    const char *text = decide_restart(rig_pod("warm-a", "10.0.0.1"));

    CHECK_HOLDS(text, "PATCH pod warm-a");
    CHECK_HOLDS(text, "\\\"id\\\":\\\"u-box\\\"");
    CHECK_HOLDS(text, "EXEC pod warm-a/main ['kill','1']");
}

TEST(restart, is_over_when_every_container_is_another)
{
    CHECK_HOLDS(decide_restart(pod_with_record("u-box", "c1", "c2", "2027-01-15T07:59:59Z", 1)),
                "'finalizers':[]");
}

TEST(restart, of_an_earlier_sandbox_does_not_count)
{
    CHECK_HOLDS(decide_restart(pod_with_record("u-old", "c1", "c2", "2027-01-15T07:59:59Z", 1)),
                "EXEC pod warm-a");
}

TEST(restart, waits_for_its_interval_and_then_tries_again)
{
    CHECK_STR(decide_restart(pod_with_record("u-box", "c1", "c1", "2027-01-15T07:59:59Z", 1)), "");
    CHECK_HOLDS(decide_restart(pod_with_record("u-box", "c1", "c1", "2027-01-15T07:59:00Z", 1)),
                "\\\"retryCount\\\":2");
}

TEST(restart, that_fails_for_too_long_deletes_the_pod)
{
    const char *text =
        decide_restart(pod_with_record("u-box", "c1", "c1", "2027-01-15T07:59:00Z", 3));

    CHECK_HOLDS(text, "DELETE pod warm-a");
    CHECK_LACKS(text, "finalizers");
}

TEST(restart, of_a_pod_that_does_not_run_deletes_it)
{
    CHECK_HOLDS(decide_restart(rig_pod_of("warm-a", "", "'containers':[{'name':'main'}]",
                                          "'phase':'Pending'")),
                "DELETE pod warm-a");
}
