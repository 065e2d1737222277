#include "base/time.h"
#include "operator/options.h"
#include "rig.h"
#include <stdarg.h>

TEST(facts, read_times_of_any_offset)
{
    CHECK_EQ(rig_sandbox("", "'expireTime':'2027-01-15T09:00:00.000001+01:00'", "")->expire_us,
             RIG_NOW + 1);
    CHECK_EQ(rig_sandbox("", "'expireTime':'nonsense'", "")->expire_us, 0);
}

TEST(facts, take_null_for_absent)
{
    struct sandbox *s = rig_sandbox("", "'template':null,'taskTemplate':null,'pause':null", "");

    CHECK(!s->has_template && !s->has_tasks);
    CHECK_EQ(s->pause, PAUSE_UNSAID);
    CHECK_EQ(s->replicas, 1);
}

TEST(facts, know_claims_from_annotations)
{
    struct sandbox *s = rig_sandbox(
        "'annotations':{'sandbox.opensandbox.io/alloc-status':'{\\\"pods\\\":[\\\"a\\\",\\\"b\\\"],"
        "\\\"poolRef\\\":\\\"x\\\"}','sandbox.opensandbox.io/alloc-released':'{\\\"pods\\\":[\\\"b"
        "\\\"]}'}",
        "", "");

    CHECK(!s->malformed);
    CHECK(sandbox_claims(s, STR("a")) && !sandbox_claims(s, STR("b")));
}

TEST(facts, survive_annotations_of_any_kind)
{
    static const char *const texts[] = {"[]",  "{", "1", "{\\\"pods\\\":1}", "{\\\"pods\\\":[1]}",
                                        "null"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        CHECK(rig_sandbox(rig_format("'annotations':{'sandbox.opensandbox.io/alloc-status':'%s'}",
                                     texts[i]),
                          "", "")
                  ->malformed);
}

TEST(facts, round_percentages_up_to_at_least_one)
{
    CHECK_EQ(int_or_percent_of((struct int_or_percent){25, true}, 10), 3);
    CHECK_EQ(int_or_percent_of((struct int_or_percent){0, true}, 10), 1);
    CHECK_EQ(int_or_percent_of((struct int_or_percent){4, false}, 10), 4);
    CHECK_EQ(rig_pool("", "'scaleStrategy':{'maxUnavailable':'50%'}")->scale_unavailable.value, 50);
}

TEST(facts, index_pods_by_label_or_name)
{
    CHECK_EQ(rig_pod_of("box-7", "", "", "")->index, 7);
    CHECK_EQ(rig_pod_of("box-x", "", "", "")->index, -1);
    CHECK_EQ(rig_pod_of("box-7", "'labels':{'batch-sandbox.sandbox.opensandbox.io/pod-index':'2'}",
                        "", "")
                 ->index,
             2);
}

static int parse(struct options *o, struct err *e, ...)
{
    char *argv[16] = {(char *)"operator"};
    int argc = 1;
    va_list ap;

    options_default(o);
    va_start(ap, e);
    while ((argv[argc] = va_arg(ap, char *)))
        argc++;
    va_end(ap);
    return options_parse(o, argc, argv, e);
}

TEST(options, are_those_of_the_original)
{
    struct options o;
    struct err e = {0};

    CHECK_EQ(parse(&o, &e, "--leader-elect", "--health-probe-bind-address=:9",
                   "-metrics-bind-address", ":8443", "--commit-job-timeout=1h30m", "--concurrency",
                   "batchsandbox=4;pool=2", "--zap-log-level", "debug", "--enable-http2=false",
                   "--metrics-secure=false", NULL),
             0);
    CHECK(o.leader_elect && !o.metrics_secure);
    CHECK_STR(o.probe_bind, ":9");
    CHECK_STR(o.metrics_bind, ":8443");
    CHECK_EQ(o.commit_timeout_s, 5400);
    CHECK_EQ(o.sandbox_workers * 10 + o.pool_workers, 42);
}

TEST(options, that_are_wrong_say_what_is_expected)
{
    struct options o;
    struct err e = {0};

    CHECK_EQ(parse(&o, &e, "--nonsense", NULL), -EINVAL);
    CHECK_HOLDS(e.msg, "--nonsense is no flag");
    CHECK_EQ(parse(&o, &e, "--concurrency", "pool=0", NULL), -EINVAL);
    CHECK_HOLDS(e.msg, "numbers above 0");
    CHECK_EQ(parse(&o, &e, "--commit-job-timeout", "10", NULL), -EINVAL);
    CHECK_HOLDS(e.msg, "no duration");
    CHECK_EQ(parse(&o, &e, "--leader-elect=maybe", NULL), -EINVAL);
    CHECK_EQ(parse(&o, &e, "--kubeconfig", NULL), -EINVAL);
}
