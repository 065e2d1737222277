#include "operator/label.h"
#include "operator/names.h"
#include "rig.h"

static const struct settings settings = {.registry = STR_INIT("reg.test/snap/"),
                                         .committer_image = STR_INIT("committer:1"),
                                         .containerd_socket = STR_INIT("/run/c.sock"),
                                         .push_secret = STR_INIT("push"),
                                         .commit_timeout_s = 600};

#define NAMED(name) "'name':'" name "','namespace':'ns','uid':'u-s','resourceVersion':'3'"
#define FINAL       ",'finalizers':['sandboxsnapshot.sandbox.opensandbox.io/cleanup']"
#define TEMPLATE    "'template':{'spec':{'containers':[{'name':'main'},{'name':'egress'}]}}"

static struct plan plan;

static const char *decide(const char *metadata, const char *status, struct snapshot_in in)
{
    in.snapshot = snapshot_read(rig_json(rig_format("{'metadata':{%s},'spec':{'sandboxName':'box'},"
                                                    "'status':{%s}}",
                                                    metadata, status)),
                                NULL);
    in.settings = in.settings ? in.settings : &settings;
    in.now_us = RIG_NOW;
    plan_init(&plan);
    snapshot_decide(&in, &plan);
    return rig_text(&plan);
}

static struct job *job(const char *status)
{
    return job_read(rig_json(rig_format("{'metadata':{'name':'j','namespace':'ns','uid':'u-j'},"
                                        "'status':{%s}}",
                                        status)),
                    NULL);
}

static const struct pod *pods[1];

static struct snapshot_in running(void)
{
    pods[0] = rig_pod("box-0", "10.0.0.1");
    return (struct snapshot_in){
        .sandbox = rig_sandbox("'generation':4", TEMPLATE, ""), .pods = pods, .pod_count = 1};
}

TEST(snapshot, first_gets_its_finalizer)
{
    CHECK_HOLDS(decide(NAMED("s"), "", running()), "'finalizers':['sandboxsnapshot.sandbox."
                                                   "opensandbox.io/cleanup']");
    CHECK_EQ(plan.write_count, 1);
}

TEST(snapshot, commits_by_a_job_on_the_node_of_the_pod)
{
    const char *text = decide(NAMED("box-pause") FINAL
                              ",'ownerReferences':[{'kind':'BatchSandbox','controller':true}]",
                              "", running());

    CHECK_HOLDS(text, "CREATE job box-pause-commit {'apiVersion':'batch/v1'");
    CHECK_HOLDS(text, "'nodeName':'n1'");
    CHECK_HOLDS(text, "'args':['box-0','ns','main:reg.test/snap/box-main:snap-gen4']");
    CHECK_HOLDS(text, "{'name':'SOURCE_POD_UID','value':'u-box-0'}");
    CHECK_HOLDS(text, "'hostPath':{'path':'/run/c.sock'}");
    CHECK_HOLDS(text, "'secretName':'push'");
    CHECK_HOLDS(text, "'backoffLimit':3,'ttlSecondsAfterFinished':300,'activeDeadlineSeconds':600");
    CHECK_HOLDS(text, "'phase':'Committing','sourcePodName':'box-0','sourceNodeName':'n1'");
    CHECK_LACKS(text, "egress");
    CHECK(plan.writes->step < plan.writes->next->step);
}

TEST(snapshot, of_the_server_has_a_tag_of_its_name)
{
    CHECK_HOLDS(decide(NAMED("osb-snap-0123456789abcdef0123456789abcdef") FINAL, "", running()),
                ":snap-0123456789abcdef0123456789abcdef");
    CHECK_HOLDS(decide(NAMED("mine") FINAL, "", running()), ":snap-");
}

TEST(snapshot, says_why_it_cannot_be_made)
{
    static const struct settings none = {0};
    struct snapshot_in in = running();

    in.settings = &none;
    CHECK_HOLDS(decide(NAMED("s") FINAL, "", in), "'reason':'RegistryNotConfigured'");
    in = (struct snapshot_in){0};
    CHECK_HOLDS(decide(NAMED("s") FINAL, "", in), "'reason':'BatchSandboxLookupFailed'");
    in = running();
    in.pod_count = 0;
    CHECK_HOLDS(decide(NAMED("s") FINAL, "", in), "'reason':'SourcePodNotFound'");
    in = running();
    in.sandbox = rig_sandbox("", "'template':{'spec':{'containers':[{'name':'egress'}]}}", "");
    CHECK_HOLDS(decide(NAMED("s") FINAL, "", in), "'reason':'NoContainers'");
}

TEST(snapshot, ends_as_its_job_does)
{
    struct snapshot_in in = running();
    struct pod *reporter = rig_pod_of(
        "j-x", "", "",
        "'phase':'Succeeded','containerStatuses':[{'name':'commit','state':{'terminated':{'"
        "exitCode'"
        ":0,'message':'{\\\"containers\\\":[{\\\"name\\\":\\\"main\\\",\\\"digest\\\":\\\"sha256:1"
        "\\\"}]}'}}}]");
    static const char *const committing =
        "'phase':'Committing','sourcePodName':'box-0','sourceNodeName':'n1','containers':[{"
        "'containerName':'main','imageUri':'r/i:t'}]";

    in.commit = job("'succeeded':1");
    in.commit_pod = reporter;
    CHECK_HOLDS(decide(NAMED("s") FINAL, committing, in), "'phase':'Succeed','containers':[{"
                                                          "'containerName':'main','imageUri':"
                                                          "'r/i:t','imageDigest':'sha256:1'}]");
    in.commit = job("'conditions':[{'type':'Failed','status':'True','message':'denied'}]");
    CHECK_HOLDS(decide(NAMED("s") FINAL, committing, in), "'reason':'CommitJobFailed','message':"
                                                          "'denied'");
    CHECK_HOLDS(rig_text(&plan), "CREATE job s-unpause");
    CHECK_HOLDS(rig_text(&plan), "'args':['unpause','box-0','ns','main']");
    in.commit = NULL;
    CHECK_HOLDS(decide(NAMED("s") FINAL, committing, in), "CREATE job s-commit");
}

TEST(snapshot, that_is_over_is_left_alone)
{
    CHECK_STR(decide(NAMED("s") FINAL, "'phase':'Failed'", running()), "");
    CHECK_STR(decide(NAMED("s") FINAL, "'phase':'Succeed'", running()), "");
}

TEST(snapshot, that_is_deleted_takes_its_jobs_along)
{
    struct snapshot_in in = running();

    in.commit = job("");
    CHECK_HOLDS(decide(NAMED("s") FINAL ",'deletionTimestamp':'2027-01-15T07:00:00Z'", "", in),
                "DELETE job j");
    CHECK_HOLDS(rig_text(&plan), "'finalizers':[]");
}

/* 15.3.13 */
TEST(snapshot, has_jobs_whose_names_fit)
{
    struct str name =
        STR("a-name-of-a-sandbox-that-is-really-very-long-indeed-and-then-some-pause");
    struct str job_name = label_fit(&rig_arena, name, STR("-commit"));

    CHECK(job_name.n <= 63);
    CHECK(str_ends(job_name, STR("-commit")));
    CHECK_SPAN(label_fit(&rig_arena, STR("short"), STR("-commit")), "short-commit");
}
