#include "operator/strategic.h"

#include "rig.h"

static const char *apply(const char *target, const char *patch, enum strategic_schema schema)
{
    struct err e = {0};
    struct json *v;

    if (strategic_apply(&rig_arena, rig_json(target), rig_json(patch), schema, &v, &e) < 0)
        return rig_format("error: %s", e.msg);
    return doc_text(&rig_arena, v).p;
}

#define CHECK_APPLY(target, patch, want)                                                           \
    CHECK_STR(apply((target), (patch), STRATEGIC_POD), doc_text(&rig_arena, rig_json(want)).p)

TEST(strategic, merges_maps_and_deletes_by_null)
{
    CHECK_APPLY("{'a':{'b':1,'c':2}}", "{'a':{'b':null,'d':3}}", "{'a':{'c':2,'d':3}}");
}

TEST(strategic, merges_lists_by_their_key)
{
    CHECK_APPLY("{'containers':[{'name':'a','image':'1'},{'name':'b'}]}",
                "{'containers':[{'name':'a','env':[{'name':'X','value':'y'}]},{'name':'c'}]}",
                "{'containers':[{'name':'a','image':'1','env':[{'name':'X','value':'y'}]},"
                "{'name':'b'},{'name':'c'}]}");
    CHECK_APPLY("{'ports':[{'containerPort':1,'name':'x'}]}", "{'ports':[{'containerPort':2}]}",
                "{'ports':[{'containerPort':1,'name':'x'},{'containerPort':2}]}");
}

TEST(strategic, replaces_other_lists)
{
    CHECK_APPLY("{'command':['a','b'],'tolerations':[{'key':'x'}]}",
                "{'command':['c'],'tolerations':[]}", "{'command':['c'],'tolerations':[]}");
    CHECK_STR(apply("{'env':[{'name':'A'}]}", "{'env':[{'name':'B'}]}", STRATEGIC_NONE),
              "{\"env\":[{\"name\":\"B\"}]}");
}

TEST(strategic, understands_directives)
{
    CHECK_APPLY("{'containers':[{'name':'a'},{'name':'b','image':'1'}]}",
                "{'containers':[{'name':'a','$patch':'delete'},{'name':'b','$patch':'replace',"
                "'x':1}]}",
                "{'containers':[{'name':'b','x':1}]}");
    CHECK_APPLY("{'containers':[{'name':'a'}]}",
                "{'containers':[{'$patch':'replace'},{'name':'z'}]}",
                "{'containers':[{'name':'z'}]}");
    CHECK_APPLY("{'labels':{'a':'1'}}", "{'labels':{'$patch':'replace','b':'2'}}",
                "{'labels':{'b':'2'}}");
    CHECK_APPLY("{'finalizers':['a','b']}",
                "{'$deleteFromPrimitiveList/finalizers':['a'],'finalizers':['c','b']}",
                "{'finalizers':['b','c']}");
    CHECK_APPLY("{'containers':[{'name':'a'},{'name':'b'}]}",
                "{'$setElementOrder/containers':[{'name':'b'},{'name':'a'}]}",
                "{'containers':[{'name':'b'},{'name':'a'}]}");
    CHECK_APPLY(
        "{'volumes':[{'name':'v','emptyDir':{}}]}",
        "{'volumes':[{'name':'v','$retainKeys':['name','hostPath'],'hostPath':{'path':'/'}}]}",
        "{'volumes':[{'name':'v','hostPath':{'path':'/'}}]}");
}

TEST(strategic, refuses_what_cannot_be_merged)
{
    CHECK_STR(apply("{}", "{'containers':[{'image':'x'}]}", STRATEGIC_POD),
              "error: an element of 'containers' has no 'name' to merge it by");
    CHECK_HOLDS(apply("{}", "[]", STRATEGIC_POD), "a patch must be an object");
}
