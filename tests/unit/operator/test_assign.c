#include "operator/names.h"
#include "rig.h"

static struct str why;

static const char *choose(const char *metadata, const char *template, const char *profiles,
                          const char *const *pools)
{
    const struct pool *rows[RIG_MAX];
    struct sandbox *s = rig_sandbox(
        metadata, rig_format("'poolRef':'*'%s%s", template[0] ? ",'template':" : "", template), "");
    const struct pool *best;
    size_t n = 0;

    for (; pools[n]; n++)
        rows[n] = pool_facts_read(rig_json(pools[n]), NULL);
    best = assign_pool(s, rows, n, profiles ? rig_json(profiles) : NULL, &why, &rig_arena);
    return best ? best->meta.name.p : "";
}

#define POOL(name, labels, image, cpu, total, allocated)                                           \
    "{'metadata':{'name':'" name "','labels':{" labels "}},'spec':{'template':{'spec':{"           \
    "'nodeSelector':{'disk':'ssd'},'containers':[{'name':'m','image':'" image                      \
    "','resources':{'requests':{'cpu':'" cpu "'}}}]}}},'status':{'total':" #total                  \
    ",'allocated':" #allocated "}}"

TEST(assign, takes_the_least_used_pool_and_the_first_of_equals)
{
    CHECK_STR(choose("", "", NULL,
                     (const char *const[]){POOL("b", "", "i", "1", 4, 1),
                                           POOL("a", "", "i", "1", 4, 3), NULL}),
              "b");
    CHECK_STR(choose("", "", NULL,
                     (const char *const[]){POOL("b", "", "i", "1", 4, 1),
                                           POOL("a", "", "i", "1", 4, 1), NULL}),
              "a");
}

TEST(assign, wants_an_image_resources_and_nodes_that_fit)
{
    const char *const pools[] = {POOL("a", "'zone':'z1'", "one", "500m", 1, 0),
                                 POOL("b", "'zone':'z2'", "two", "2", 1, 0), NULL};

    CHECK_STR(choose("", "{'spec':{'containers':[{'image':'two'}]}}", NULL, pools), "b");
    CHECK_STR(
        choose("", "{'spec':{'containers':[{'resources':{'requests':{'cpu':'1'}}}]}}", NULL, pools),
        "b");
    CHECK_STR(choose("", "{'spec':{'nodeSelector':{'zone':'z1','disk':'ssd'}}}", NULL, pools), "a");
    CHECK_STR(choose("",
                     "{'spec':{'affinity':{'nodeAffinity':{"
                     "'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{"
                     "'matchExpressions':[{'key':'zone','operator':'In','values':['z2']}]}]}}}}}",
                     NULL, pools),
              "b");
}

TEST(assign, says_why_none_fits)
{
    const char *const pools[] = {POOL("a", "", "one", "1", 1, 0), NULL};

    CHECK_STR(choose("", "{'spec':{'containers':[{'image':'three'}]}}", NULL, pools), "");
    CHECK_HOLDS(why.p, "has none of the images");
    CHECK_STR(choose("", "", NULL, (const char *const[]){NULL}), "");
    CHECK_HOLDS(why.p, "no pool");
}

TEST(assign, follows_the_profile)
{
    const char *const pools[] = {POOL("a", "'team':'x'", "one", "1", 4, 0),
                                 POOL("b", "'team':'y'", "two", "1", 4, 3), NULL};

    CHECK_STR(choose("'labels':{'team':'y'}", "{'spec':{'containers':[{'image':'one'}]}}",
                     "[{'name':'default','plugins':{'predicate':['labelselector','unknown'],'score'"
                     ":[]},'pluginConf':[{'name':'labelselector','args':{'keys':['team']}}]}]",
                     pools),
              "b");
    CHECK_STR(choose("", "",
                     "[{'name':'default','plugins':{'predicate':[],'score':[{'name':'resbalance',"
                     "'weight':1}]},'pluginConf':[{'name':'resbalance','args':{'strategy':"
                     "'MostAllocated'}}]}]",
                     pools),
              "b");
}
