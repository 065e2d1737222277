#include "ingress/kube_place.h"

#define TOKEN_ANNOTATION     "opensandbox.io/secure-access-token"
#define ENDPOINTS_ANNOTATION "sandbox.opensandbox.io/endpoints"

enum { ENDPOINTS_ARENA_MAX = 1 << 20 };

const struct kube_kind kube_place_agent_sandboxes = {"agents.x-k8s.io", "v1alpha1", "sandboxes",
                                                     "Sandbox", false};

static bool is_host(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) && !strchr(".:-_", s.p[i]))
            return false;
    return s.n > 0;
}

static bool take_token(const struct kube_object *o, struct place *ret)
{
    struct str token = kube_annotation(o, STR(TOKEN_ANNOTATION));

    *ret = (struct place){.state = PLACE_NOT_READY};
    if (!str_trim(token).n || str_copy(ret->token, sizeof(ret->token), str_trim(token)) == 0)
        return true;
    /* It is protected by what cannot be shown: nothing may pass. */
    ret->state = PLACE_FAILED;
    return false;
}

static void take_host(struct str host, struct place *ret)
{
    if (!is_host(host) || str_copy(ret->host, sizeof(ret->host), host) < 0)
        ret->why = "its endpoint is not a host";
    else
        ret->state = PLACE_READY;
}

void kube_place_of_batch(const struct kube_object *o, struct place *ret)
{
    struct str text = kube_annotation(o, STR(ENDPOINTS_ANNOTATION)), host = STR_NONE;
    AUTO_ARENA(arena, ENDPOINTS_ARENA_MAX);
    struct json *list = NULL;

    if (!take_token(o, ret))
        return;
    if (str_eq(kube_str(o->root, "status.phase"), STR("Paused")))
        ret->state = PLACE_PAUSED;
    else if (kube_i64(o->root, "status.ready") < 1)
        ret->why = "no pod is ready";
    else if (!str_trim(text).n)
        ret->why = "it has no endpoint yet";
    else if (json_parse(&arena, text, NULL, &list, NULL) < 0 || list->type != JSON_ARRAY)
        ret->why = "its endpoints are malformed";
    else if (json_to_str(json_first(list), &host) < 0 || !str_trim(host).n)
        ret->why = "it has no endpoint yet";
    else
        take_host(str_trim(host), ret);
}

void kube_place_of_agent(const struct kube_object *o, struct place *ret)
{
    const struct json *ready = kube_condition(kube_get(o->root, "status.conditions"), STR("Ready"));
    struct str host = kube_str(o->root, "status.serviceFQDN");

    if (!take_token(o, ret))
        return;
    if (!ready || !str_eq(kube_str(ready, "status"), STR("True")))
        ret->why = "its condition Ready is not True";
    else if (!host.n)
        ret->why = "it has no service yet";
    else
        take_host(host, ret);
}

static void write_member(struct json_writer *w, const struct json *from, const char *key)
{
    const struct json *v = json_get(from, str_of(key));

    if (!v)
        return;
    json_write_key(w, str_of(key));
    json_write_value(w, v);
}

void kube_place_reduce(const struct json *full, struct json_writer *w)
{
    static const char *const metadata[] = {"name", "namespace", "uid", "resourceVersion",
                                           "deletionTimestamp"};
    static const char *const annotations[] = {TOKEN_ANNOTATION, ENDPOINTS_ANNOTATION};
    static const char *const status[] = {"ready", "phase", "serviceFQDN", "conditions"};
    const struct json *meta = json_get(full, STR("metadata"));
    const struct json *notes = json_get(meta, STR("annotations"));
    const struct json *state = json_get(full, STR("status"));

    json_write_object(w);
    json_write_key(w, STR("metadata"));
    json_write_object(w);
    for (size_t i = 0; i < ARRAY_LEN(metadata); i++)
        write_member(w, meta, metadata[i]);
    json_write_key(w, STR("annotations"));
    json_write_object(w);
    for (size_t i = 0; i < ARRAY_LEN(annotations); i++)
        write_member(w, notes, annotations[i]);
    json_write_object_end(w);
    json_write_object_end(w);
    json_write_key(w, STR("status"));
    json_write_object(w);
    for (size_t i = 0; i < ARRAY_LEN(status); i++)
        write_member(w, state, status[i]);
    json_write_object_end(w);
    json_write_object_end(w);
}
