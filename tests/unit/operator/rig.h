/* rig.h - objects as JSON in, a plan as text out: for tests of the operator's decisions. */
#pragma once

#include "base/buf.h"
#include "kube/object.h"
#include "operator/decide.h"
#include "operator/doc.h"
#include "test.h"

enum { RIG_MAX = 64, RIG_TEXT_MAX = 1 << 20 };
#define RIG_NOW INT64_C(1800000000000000) /* 2027-01-15T08:00:00Z */

static struct arena rig_arena = {.max = 64 << 20};

/* What a test reads lives until its process ends: no test frees facts or plans. So leaks of the
 * operator are looked for in tests/integration/test_operator.py only. */
#ifdef __SANITIZE_ADDRESS__
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}
#endif

/* Single quotes stand for double ones. */
static inline const struct json *rig_json(const char *text)
{
    char *copy = arena_strdup(&rig_arena, str_of(text));
    struct err e = {0};
    struct json *v;

    for (char *at = copy; *at; at++)
        if (*at == '\'')
            *at = '"';
    if (json_parse(&rig_arena, str_of(copy),
                   &(struct json_limits){.duplicates = JSON_DUPLICATES_LAST}, &v, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", e.msg, copy);
    return v;
}

#define rig_format(...) arena_printf(&rig_arena, __VA_ARGS__)

/* metadata and status are members without braces, such as "'uid':'u1'"; either may be "". */
static inline struct sandbox *rig_sandbox(const char *metadata, const char *spec,
                                          const char *status)
{
    struct err e = {0};
    struct sandbox *s = sandbox_read(
        rig_json(rig_format("{'apiVersion':'sandbox.opensandbox.io/v1alpha1','kind':'BatchSandbox',"
                            "'metadata':{'name':'box','namespace':'ns','uid':'u-box',"
                            "'resourceVersion':'7','generation':1,"
                            "'creationTimestamp':'2027-01-15T07:00:00Z'%s%s},"
                            "'spec':{%s},'status':{%s}}",
                            metadata[0] ? "," : "", metadata, spec, status)),
        &e);

    if (!s)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    return s;
}

static inline struct pod *rig_pod_of(const char *name, const char *metadata, const char *spec,
                                     const char *status)
{
    struct err e = {0};
    struct pod *p =
        pod_read(rig_json(rig_format("{'metadata':{'name':'%s','namespace':'ns',"
                                     "'uid':'u-%s'%s%s},'spec':{%s},'status':{%s}}",
                                     name, name, metadata[0] ? "," : "", metadata, spec, status)),
                 &e);

    if (!p)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    return p;
}

#define RIG_READY                                                                                  \
    "'phase':'Running','conditions':[{'type':'Ready','status':'True',"                             \
    "'lastTransitionTime':'2027-01-15T07:30:00Z'}]"

/* A pod that is ready. */
static inline struct pod *rig_pod(const char *name, const char *ip)
{
    return rig_pod_of(name, "", "'nodeName':'n1','containers':[{'name':'main'}]",
                      rig_format(RIG_READY ",'podIP':'%s','containerStatuses':[{'name':'main',"
                                           "'containerID':'c1','state':{'running':{}}}]",
                                 ip));
}

static inline struct pool *rig_pool(const char *metadata, const char *spec)
{
    struct err e = {0};
    struct pool *p = pool_facts_read(
        rig_json(rig_format("{'metadata':{'name':'warm','namespace':'ns','uid':'u-warm',"
                            "'generation':1%s%s},'spec':{'template':{'spec':{'containers':["
                            "{'name':'main','image':'img'}]}}%s%s}}",
                            metadata[0] ? "," : "", metadata, spec[0] ? "," : "", spec)),
        &e);

    if (!p)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    return p;
}

/* One line for each write, then one for each event. */
static inline const char *rig_text(const struct plan *p)
{
    static const char *const verbs[] = {"CREATE", "PATCH", "STATUS", "DELETE", "TASKS", "EXEC"};
    static const char *const kinds[] = {"sandbox", "pool", "snapshot", "pod", "job"};
    AUTO_BUF(out, RIG_TEXT_MAX);

    CHECK(!p->failed);
    for (const struct write *w = p->writes; w; w = w->next)
        buf_addf(&out, "%s %s %.*s%s%.*s %.*s\n", verbs[w->verb], kinds[w->kind], STR_ARG(w->name),
                 w->container.n ? "/" : "", STR_ARG(w->container), STR_ARG(w->body));
    for (const struct event *e = p->events; e; e = e->next)
        buf_addf(&out, "EVENT %s %.*s\n", e->reason, STR_ARG(e->message));
    return arena_strdup(&rig_arena, buf_str(&out));
}

/* Whether text holds `part`, with single quotes for double ones. */
static inline bool rig_holds(const char *text, const char *part)
{
    char *copy = arena_strdup(&rig_arena, str_of(part));

    for (char *at = copy; *at; at++)
        if (*at == '\'')
            *at = '"';
    return strstr(text, copy) != NULL;
}

#define CHECK_HOLDS(text, part)                                                                    \
    do {                                                                                           \
        if (!rig_holds((text), (part)))                                                            \
            test_fail(__FILE__, __LINE__, "no %s in:\n%s", (part), (text));                        \
    } while (0)
#define CHECK_LACKS(text, part)                                                                    \
    do {                                                                                           \
        if (rig_holds((text), (part)))                                                             \
            test_fail(__FILE__, __LINE__, "%s is in:\n%s", (part), (text));                        \
    } while (0)
