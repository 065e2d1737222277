/* k8s_change.c - state of sandboxes, and changes of those that are there. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "api/metadata.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/runtime/kubernetes/k8s_internal.h"

enum { PATCH_MAX = 1 << 20, LIST_PAGE = 500 };

int k8s_adopt(struct runtime *r, struct str id, int *ret_watch, struct runtime_status *ret,
              struct err *e)
{
    struct k8s *k = k8s_of(r);
    struct k8s_facts facts;
    char *metadata = NULL;
    int result = k8s_table_watch(&k->table, id, &facts, &metadata, ret_watch);

    if (result == -ENOENT) {
        result = k8s_fetch(k, id, e);
        if (result == 0)
            result = k8s_table_watch(&k->table, id, &facts, &metadata, ret_watch);
    }
    if (result < 0)
        return result == -ENOENT ? err_set(e, ENOENT, "the cluster has no such sandbox") : result;
    *ret = (struct runtime_status){
        .state = facts.state,
        .reason = facts.reason,
        .news = true,
        .expires_us = facts.expires_us,
        .metadata = metadata,
    };
    memcpy(ret->note, facts.message, sizeof(ret->note));
    static_assert(sizeof(ret->note) == sizeof(facts.message), "the whole message fits");
    if (facts.state == RUNTIME_FAILED)
        (void)err_set(&ret->err, EIO, "%s", facts.message);
    return 0;
}

/* --- pause and resume --- */

static int intend(struct k8s *k, struct str id, bool pause, struct err *e)
{
    enum runtime_state from = pause ? RUNTIME_RUNNING : RUNTIME_PAUSED;
    struct k8s_facts facts;
    int r = 0;

    if (k->agent)
        return err_set(e, ENOTSUP, "the provider agent-sandbox cannot pause sandboxes");
    if (k8s_table_get(&k->table, id, &facts) < 0)
        return err_set(e, ESRCH, "the sandbox is gone");
    if (facts.state != from)
        return err_set(e, ESRCH, "the sandbox is not %s any more", pause ? "running" : "paused");
    /* The operator acts on a new generation: an intent that failed is taken back first. */
    if (pause ? facts.pause_failed : facts.resume_failed)
        r = k8s_patch(k, id, STR("{\"spec\":{\"pause\":null}}"), e);
    if (r >= 0)
        r = k8s_patch(
            k, id, pause ? STR("{\"spec\":{\"pause\":true}}") : STR("{\"spec\":{\"pause\":false}}"),
            e);
    if (r == -ENOENT)
        return err_set(e, ESRCH, "the sandbox is gone");
    return r < 0 ? r : 1;
}

int k8s_pause(struct runtime *r, struct str id, struct err *e)
{
    return intend(k8s_of(r), id, true, e);
}

int k8s_resume(struct runtime *r, struct str id, struct err *e)
{
    return intend(k8s_of(r), id, false, e);
}

/* --- expiry and metadata --- */

int k8s_renew(struct runtime *r, struct str id, int64_t expires_us, struct err *e)
{
    struct k8s *k = k8s_of(r);
    AUTO_BUF(patch, PATCH_MAX);
    struct json_writer w;

    json_write_begin(&w, &patch);
    json_write_object(&w);
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    k8s_time_write(&w, k->agent ? STR("shutdownTime") : STR("expireTime"), expires_us);
    json_write_object_end(&w);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        return err_set(e, ENOMEM, "no memory left");
    return k8s_patch(k, id, buf_str(&patch), e);
}

int k8s_relabel(struct runtime *r, struct str id, const struct api_patch *patch, struct err *e)
{
    AUTO_BUF(body, PATCH_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_write_key(&w, STR("metadata"));
    json_write_object(&w);
    json_write_key(&w, STR("labels"));
    json_write_object(&w);
    for (size_t i = 0; i < patch->count; i++) {
        json_write_key(&w, patch->pairs[i].key);
        if (patch->pairs[i].value.p)
            json_write_string(&w, patch->pairs[i].value);
        else
            json_write_null(&w);
    }
    json_write_object_end(&w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        return err_set(e, EMSGSIZE, "the metadata is too large");
    return k8s_patch(k8s_of(r), id, buf_str(&body), e);
}

/* Gives an object that has no token one, for all servers alike: the first to write it wins. */
static int give_token(struct k8s *k, const struct kube_object *o, struct err *e)
{
    AUTO_BUF(patch, PATCH_MAX);
    struct json_writer w;
    char token[ID_TOKEN_MAX];
    int r;

    id_token(token);
    json_write_begin(&w, &patch);
    json_write_object(&w);
    json_write_key(&w, STR("metadata"));
    json_write_object(&w);
    json_member_string(&w, STR("resourceVersion"), o->version);
    json_write_key(&w, STR("annotations"));
    json_write_object(&w);
    json_member_string(&w, STR(K8S_NOTE_TOKEN), str_of(token));
    json_write_object_end(&w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        return err_set(e, ENOMEM, "no memory left");
    r = k8s_patch(k, kube_label(o, STR(K8S_LABEL_ID)), buf_str(&patch), e);
    return r == -ESTALE ? k8s_fetch(k, kube_label(o, STR(K8S_LABEL_ID)), e) : r;
}

/* Whether it has a token, or is given one. */
static int has_token(struct k8s *k, struct str id, struct err *e)
{
    enum { TRIES = 5 };

    for (int i = 0; i < TRIES; i++) {
        auto_object *o = k8s_table_object(&k->table, id);
        int r;

        if (!o)
            return err_set(e, ENOENT, "the cluster has no such sandbox");
        if (kube_annotation(o, STR(K8S_NOTE_SECURE_TOKEN)).n ||
            kube_annotation(o, STR(K8S_NOTE_TOKEN)).n ||
            kube_annotation(o, STR(K8S_NOTE_EGRESS_TOKEN)).n)
            return 0;
        r = give_token(k, o, e);
        if (r < 0)
            return r;
    }
    return err_set(e, EBUSY, "the sandbox changes too often, trying again later");
}

int k8s_describe_sandbox(struct runtime *r, struct arena *a, struct str id,
                         struct runtime_description *ret, struct err *e)
{
    struct k8s *k = k8s_of(r);
    auto_object *known = k8s_table_object(&k->table, id);
    auto_object *o = NULL;
    int result = known ? 0 : k8s_fetch(k, id, e); /* the informer may be late */

    if (result == 0)
        result = has_token(k, id, e);
    if (result < 0)
        return result;
    o = k8s_table_object(&k->table, id);
    return o ? k8s_describe(o, k->agent, a, ret, e)
             : err_set(e, ENOENT, "the cluster has no such sandbox");
}

/* --- end --- */

int k8s_remove(struct runtime *r, struct str id, struct err *e)
{
    struct k8s *k = k8s_of(r);
    char name[K8S_NAME_MAX];
    AUTO_BUF(options, PATCH_MAX);
    int result;

    k8s_object_name(k, id, name);
    if (kube_delete_options(&options, "Background", 0, STR_NONE, STR_NONE) < 0)
        return err_set(e, ENOMEM, "no memory left");
    result = k8s_call(k,
                      &(struct kube_request){.verb = KUBE_DELETE,
                                             .kind = &k->kind,
                                             .ns = str_of(k->namespace),
                                             .name = str_of(name),
                                             .body = buf_str(&options)},
                      NULL, e);
    if (result < 0 && result != -ENOENT)
        return result;
    k8s_table_forget(&k->table, id);
    return result == -ENOENT ? 0 : 1;
}

/* --- list --- */

/* Enters all objects of the cluster, a page at a time: before the informer has. */
static int fill(struct k8s *k, struct err *e)
{
    AUTO_BUF(next, PATCH_MAX);
    int r;

    do {
        auto_object *page = NULL;
        AUTO_BUF(query, PATCH_MAX);
        char limit[16];

        (void)snprintf(limit, sizeof(limit), "%d", LIST_PAGE);
        r = kube_query_add(&query, "labelSelector", STR(K8S_LABEL_ID));
        if (r == 0)
            r = kube_query_add(&query, "limit", str_of(limit));
        if (r == 0 && next.n)
            r = kube_query_add(&query, "continue", buf_str(&next));
        if (r < 0)
            return err_set(e, -r, "compose the query of a list");
        r = k8s_call(k,
                     &(struct kube_request){.verb = KUBE_LIST,
                                            .kind = &k->kind,
                                            .ns = str_of(k->namespace),
                                            .query = buf_str(&query)},
                     &page, e);
        if (r < 0 || !page)
            return r;
        json_each(item, json_get(page->root, STR("items")))
        {
            auto_object *o = NULL;

            if (kube_object_copy(item, &o, NULL) == 0)
                (void)k8s_table_apply(&k->table, o);
        }
        buf_clear(&next);
        if (buf_add(&next, kube_str(page->root, "metadata.continue")) < 0)
            return err_set(e, EMSGSIZE, "the API server's list is cut");
    } while (next.n);
    return 0;
}

int k8s_list(struct runtime *r, runtime_visit_fn *visit, void *user, struct err *e)
{
    struct k8s *k = k8s_of(r);

    if (!kube_informer_is_synced(k->sandboxes)) {
        int result = fill(k, e);

        if (result < 0)
            return result;
    }
    k8s_table_each(&k->table, visit, user);
    return 0;
}
