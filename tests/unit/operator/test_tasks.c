#include "base/time.h"
#include "operator/names.h"
#include "rig.h"

#define TASKS                                                                                      \
    "'replicas':1,'poolRef':'warm','taskTemplate':{'spec':{'process':{'command':['run'],'env':["   \
    "{'name':'A','value':'1'}]},'timeoutSeconds':9}}"
#define MINE                                                                                       \
    "'annotations':{'sandbox.opensandbox.io/alloc-status':'{\\\"pods\\\":[\\\"warm-a\\\"]}',"      \
    "'sandbox.opensandbox.io/"                                                                     \
    "endpoints':'[\\\"10.0.0.1\\\"]'},'finalizers':['batch-sandbox.sandbox"                        \
    ".opensandbox.io/task-cleanup','pool.sandbox.opensandbox.io/pool-allocation']"

static struct plan plan;

static const char *decide(const char *metadata, const char *spec, const char *status,
                          struct task_view view, const char *recycle)
{
    const struct pod *pods[] = {rig_pod("warm-a", "10.0.0.1")};
    const struct pool *pools[] = {
        rig_pool("", rig_format("'recycleStrategy':{'type':'%s'}", recycle))};
    struct sandbox_in in = {.sandbox = rig_sandbox(metadata, spec, status),
                            .now_us = RIG_NOW,
                            .allocated = pods,
                            .allocated_pools = pools,
                            .tasks = &view,
                            .task_count = 1};

    plan_init(&plan);
    sandbox_decide(&in, &plan);
    return rig_text(&plan);
}

static struct task_view saw(enum task_state state, int64_t seconds_ago)
{
    return (struct task_view){.state = state,
                              .pod_uid = STR("u-warm-a"),
                              .asked_us = RIG_NOW - seconds_ago * TIME_US_PER_S};
}

TEST(tasks, are_asked_for_and_reported)
{
    struct task_view none = {0};
    const char *text = decide(MINE, TASKS, "", none, "Delete");

    CHECK_HOLDS(text, "TASKS pod warm-a [{'name':'box-0','process':{'command':['run'],'env':[{"
                      "'name':'A','value':'1'}],'timeoutSeconds':9}}]");
    CHECK_HOLDS(text, "'taskPending':1");
    text = decide(MINE, TASKS, "", saw(TASK_RUNNING, 1), "Delete");
    CHECK_LACKS(text, "TASKS");
    CHECK_HOLDS(text, "'taskRunning':1");
    CHECK_EQ(plan.again_us, RIG_NOW + 2 * TIME_US_PER_S);
}

TEST(tasks, are_patched_for_their_shard)
{
    struct task_view none = {0};

    CHECK_HOLDS(decide(MINE,
                       TASKS ",'shardTaskPatches':[{'spec':{'timeoutSeconds':3,'process':{'env':["
                             "{'name':'B','value':'2'}]}}}]",
                       "", none, "Delete"),
                "'env':[{'name':'B','value':'2'}],'timeoutSeconds':3}}]");
}

TEST(tasks, of_another_pod_do_not_count)
{
    struct task_view old = saw(TASK_SUCCEED, 1);

    old.pod_uid = STR("u-gone");
    CHECK_HOLDS(decide(MINE, TASKS, "", old, "Delete"), "TASKS pod warm-a");
}

TEST(tasks, that_ended_give_their_pod_back_when_asked_to)
{
    const char *release = TASKS ",'taskResourcePolicyWhenCompleted':'Release'";
    const char *text = decide(MINE, release, "", saw(TASK_FAILED, 1), "Delete");

    CHECK_HOLDS(text, "'taskFailed':1"); /* first the status, then the pod */
    CHECK_LACKS(text, "alloc-release");
    CHECK_HOLDS(decide(MINE, release, "'taskFailed':1", saw(TASK_FAILED, 1), "Delete"),
                "'sandbox.opensandbox.io/alloc-release':'{\\\"pods\\\":[\\\"warm-a\\\"]}'");
    CHECK_LACKS(decide(MINE, TASKS, "", saw(TASK_SUCCEED, 1), "Delete"), "alloc-release");
}

#define ENDING MINE ",'deletionTimestamp':'2027-01-15T07:59:50Z'"

TEST(tasks, are_stopped_before_the_pod_goes_back)
{
    CHECK_STR(decide(ENDING, TASKS, "", saw(TASK_RUNNING, 1), "Noop"), "TASKS pod warm-a []\n");
    CHECK_HOLDS(decide(ENDING, TASKS, "", saw(TASK_GONE, 1), "Noop"), "'finalizers':[]");
}

/* 15.3.10: an executor that does not answer has not stopped its task. */
TEST(tasks, are_not_gone_because_their_executor_is_silent)
{
    struct task_view silent = saw(TASK_UNKNOWN, 1);
    const char *text;

    silent.unreachable = true;
    text = decide(ENDING, TASKS, "", silent, "Noop");
    CHECK_HOLDS(text, "TASKS pod warm-a []");
    CHECK_LACKS(text, "finalizers");
    /* After a minute its pod is deleted instead of being used again. */
    text = decide(MINE ",'deletionTimestamp':'2027-01-15T07:58:00Z'", TASKS, "", silent, "Noop");
    CHECK_HOLDS(text, "DELETE pod warm-a");
    CHECK_HOLDS(text, "EVENT TaskNotStopped");
}

TEST(tasks, have_the_state_that_the_executor_says)
{
    static const struct {
        const char *status;
        enum task_state state;
    } rows[] = {
        {"'running':{'startedAt':'x'}", TASK_RUNNING},
        {"'terminated':{'exitCode':0}", TASK_SUCCEED},
        {"'terminated':{'exitCode':3}", TASK_FAILED },
        {"'waiting':{}",                TASK_UNKNOWN},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_EQ(task_state_of(
                     rig_json(rig_format("[{'name':'t','processStatus':{%s}}]", rows[i].status)),
                     STR("t")),
                 rows[i].state);
    CHECK_EQ(task_state_of(rig_json("[]"), STR("t")), TASK_GONE);
}
