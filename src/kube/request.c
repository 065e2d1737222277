#include "kube/request.h"

#include <errno.h>

#include "base/json_write.h"
#include "base/url.h"

enum { NAME_BYTES_MAX = 253 };

int kube_query_add(struct buf *query, const char *key, struct str value)
{
    size_t before = query->n;
    int r = buf_addf(query, "%s%s=", query->n ? "&" : "", key);

    if (r == 0)
        r = url_encode(value, URL_SET_QUERY_VALUE, query);
    if (r < 0)
        buf_cut(query, before);
    return r;
}

int kube_delete_options(struct buf *out, const char *propagation, int64_t grace_s, struct str uid,
                        struct str version)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR("v1"));
    json_member_string(&w, STR("kind"), STR("DeleteOptions"));
    if (propagation)
        json_member_string(&w, STR("propagationPolicy"), str_of(propagation));
    if (grace_s >= 0)
        json_member_i64(&w, STR("gracePeriodSeconds"), grace_s);
    if (uid.n || version.n) {
        json_write_key(&w, STR("preconditions"));
        json_write_object(&w);
        if (uid.n)
            json_member_string(&w, STR("uid"), uid);
        if (version.n)
            json_member_string(&w, STR("resourceVersion"), version);
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
    return json_write_end(&w);
}

/* "/part", where part is one segment. */
static int add_segment(struct buf *out, struct str part, struct err *e)
{
    int r;

    if (!part.n || part.n > NAME_BYTES_MAX || str_eq(part, STR(".")) || str_eq(part, STR("..")) ||
        str_find(part, '/') < part.n || str_find(part, '%') < part.n || str_has_nul(part))
        return err_set(e, EINVAL, "'%.*s' cannot be the name of a Kubernetes object",
                       STR_ARG(part));
    r = buf_add_char(out, '/');
    return r < 0 ? r : url_encode(part, URL_SET_SEGMENT, out);
}

static int add_resource(const struct kube_request *rq, struct buf *out, struct err *e)
{
    const struct kube_kind *k = rq->kind;
    bool named = rq->verb != KUBE_LIST && (rq->verb != KUBE_CREATE || rq->subresource.n);
    int r = k->group[0] ? buf_addf(out, "/apis/%s/%s", k->group, k->version)
                        : buf_addf(out, "/api/%s", k->version);

    if (r == 0 && rq->ns.n && !k->cluster_wide) {
        r = buf_add(out, STR("/namespaces"));
        if (r == 0)
            r = add_segment(out, rq->ns, e);
    } else if (!rq->ns.n && !k->cluster_wide && rq->verb != KUBE_LIST) {
        return err_set(e, EINVAL, "a request for one of %s needs a namespace", k->plural);
    }
    if (r == 0)
        r = buf_addf(out, "/%s", k->plural);
    /* DELETE without a name deletes a collection: never by accident. */
    if (r == 0 && named)
        r = add_segment(out, rq->name, e);
    if (r == 0 && rq->subresource.n)
        r = add_segment(out, rq->subresource, e);
    return r;
}

int kube_request_target(const struct kube_request *rq, struct buf *out, struct err *e)
{
    struct err why = {0};
    int r = rq->kind ? add_resource(rq, out, &why) : buf_add(out, rq->path);

    if (r == 0 && rq->query.n)
        r = buf_addf(out, "?%.*s", STR_ARG(rq->query));
    if (r < 0 && !why.code)
        (void)err_set(&why, -r, "a request to Kubernetes is too long");
    return r < 0 ? err_set(e, why.code, "%s", why.msg) : 0;
}
