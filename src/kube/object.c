#include "kube/object.h"

#include <errno.h>

#include "base/mem.h"
#include "kube/object_internal.h"

#define OURS "sandbox.opensandbox.io"

const struct kube_kind kube_pods = {"", "v1", "pods", "Pod", false};
const struct kube_kind kube_secrets = {"", "v1", "secrets", "Secret", false};
const struct kube_kind kube_configmaps = {"", "v1", "configmaps", "ConfigMap", false};
const struct kube_kind kube_events = {"", "v1", "events", "Event", false};
const struct kube_kind kube_services = {"", "v1", "services", "Service", false};
const struct kube_kind kube_namespaces = {"", "v1", "namespaces", "Namespace", true};
const struct kube_kind kube_nodes = {"", "v1", "nodes", "Node", true};
const struct kube_kind kube_claims = {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim",
                                      false};
const struct kube_kind kube_jobs = {"batch", "v1", "jobs", "Job", false};
const struct kube_kind kube_leases = {"coordination.k8s.io", "v1", "leases", "Lease", false};
const struct kube_kind kube_runtime_classes = {"node.k8s.io", "v1", "runtimeclasses",
                                               "RuntimeClass", true};
const struct kube_kind kube_token_reviews = {"authentication.k8s.io", "v1", "tokenreviews",
                                             "TokenReview", true};
const struct kube_kind kube_access_reviews = {"authorization.k8s.io", "v1", "subjectaccessreviews",
                                              "SubjectAccessReview", true};
const struct kube_kind kube_crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                    "CustomResourceDefinition", true};
const struct kube_kind kube_batch_sandboxes = {OURS, "v1alpha1", "batchsandboxes", "BatchSandbox",
                                               false};
const struct kube_kind kube_pools = {OURS, "v1alpha1", "pools", "Pool", false};
const struct kube_kind kube_snapshots = {OURS, "v1alpha1", "sandboxsnapshots", "SandboxSnapshot",
                                         false};

enum {
    DEPTH_MAX = 128,
    NODES_MAX = 8 << 20,
    ARENA_SHARE = 48, /* a tree takes at most that many bytes of memory per byte of text */
};

/* --- a tree in one block --- */

/* Copies a tree into one block: the nodes, then their strings. Without a block it only measures. */
struct pack {
    struct json *nodes;
    size_t node_count;
    char *bytes;
    size_t byte_count;
};

static struct str pack_str(struct pack *p, struct str s)
{
    char *to = p->bytes ? p->bytes + p->byte_count : NULL;

    if (!s.p)
        return s;
    p->byte_count += s.n + 1;
    if (!to)
        return STR_NONE;
    memcpy(to, s.p, s.n);
    to[s.n] = '\0';
    return str_make(to, s.n);
}

/* Copies one node without its children. */
static struct json *pack_node(struct pack *p, const struct json *v)
{
    struct json *to = p->nodes ? &p->nodes[p->node_count] : NULL;
    struct str key = pack_str(p, v->key), text = STR_NONE;

    p->node_count++;
    if (v->type == JSON_STRING)
        text = pack_str(p, v->string);
    else if (v->type == JSON_NUMBER)
        text = pack_str(p, v->text);
    if (!to)
        return NULL;
    *to = *v;
    to->key = key;
    to->next = NULL;
    if (v->type == JSON_STRING)
        to->string = text;
    else if (v->type == JSON_NUMBER)
        to->text = text;
    else if (v->type != JSON_BOOL && v->type != JSON_NULL)
        to->first = NULL, to->count = 0;
    return to;
}

/* What the server keeps for itself about who set which field: often half of an object. */
static bool is_dropped(const struct json *parent, const struct json *v)
{
    return v->type == JSON_ARRAY && str_eq(v->key, STR("managedFields")) &&
           str_eq(parent->key, STR("metadata"));
}

static int pack_tree(struct pack *p, const struct json *root)
{
    struct {
        const struct json *from, *next;
        struct json *to, **tail;
    } stack[DEPTH_MAX];
    size_t depth = 0;
    struct json *to = pack_node(p, root);

    if (!json_first(root))
        return 0;
    stack[depth].from = root;
    stack[depth].next = json_first(root);
    stack[depth].to = to;
    stack[depth++].tail = to ? &to->first : NULL;
    while (depth) {
        const struct json *parent = stack[depth - 1].from, *v = stack[depth - 1].next;

        if (!v) {
            depth--;
            continue;
        }
        stack[depth - 1].next = v->next;
        if (is_dropped(parent, v))
            continue;
        to = pack_node(p, v);
        if (to && stack[depth - 1].tail) {
            *stack[depth - 1].tail = to;
            stack[depth - 1].tail = &to->next;
            stack[depth - 1].to->count++;
        }
        if (!json_first(v))
            continue;
        if (depth == DEPTH_MAX)
            return -EMSGSIZE;
        stack[depth].from = v;
        stack[depth].next = json_first(v);
        stack[depth].to = to;
        stack[depth++].tail = to ? &to->first : NULL;
    }
    return 0;
}

/* --- objects --- */

static void read_metadata(struct kube_object *o)
{
    const struct json *meta = json_get(o->root, STR("metadata"));

    o->ns = kube_str(meta, "namespace");
    o->name = kube_str(meta, "name");
    o->uid = kube_str(meta, "uid");
    o->version = kube_str(meta, "resourceVersion");
    if (str_to_u64(o->version, &o->revision) < 0)
        o->revision = 0;
    o->generation = kube_i64(meta, "generation");
    o->labels = json_get(meta, STR("labels"));
    o->annotations = json_get(meta, STR("annotations"));
    o->deleting = kube_str(meta, "deletionTimestamp").n > 0;
}

int kube_object_copy(const struct json *tree, struct kube_object **ret, struct err *e)
{
    struct pack p = {0};
    struct kube_object *o;
    size_t bytes;
    int r;

    if (!tree || tree->type != JSON_OBJECT)
        return err_set(e, EBADMSG, "expected a Kubernetes object, got %s",
                       tree ? json_type_name(tree) : "nothing");
    r = pack_tree(&p, tree);
    if (r < 0)
        return err_set(e, EMSGSIZE, "a Kubernetes object is nested more than %d deep", DEPTH_MAX);
    bytes = sizeof(*o) + p.node_count * sizeof(struct json) + p.byte_count;
    o = mem_try_realloc(NULL, bytes);
    if (!o)
        return err_set(e, ENOMEM, "no memory for a Kubernetes object of %zu bytes", bytes);
    *o = (struct kube_object){.bytes = bytes};
    atomic_init(&o->refs, 1);
    p = (struct pack){
        .nodes = (struct json *)(o + 1),
        .bytes = (char *)((struct json *)(o + 1) + p.node_count),
    };
    (void)pack_tree(&p, tree);
    o->root = (struct json *)(o + 1);
    ((struct json *)(o + 1))->key = STR_NONE; /* it may have been a member */
    read_metadata(o);
    *ret = o;
    return 0;
}

int kube_object_parse_max(struct str text, size_t bytes_max, struct kube_object **ret,
                          struct err *e)
{
    const struct json_limits limits = {
        .text_bytes_max = bytes_max,
        .nodes_max = NODES_MAX,
        .depth_max = DEPTH_MAX,
        .duplicates = JSON_DUPLICATES_LAST,
        .replace_invalid = true,
    };
    AUTO_ARENA(arena, bytes_max * ARENA_SHARE);
    struct json *tree;
    int r = json_parse(&arena, text, &limits, &tree, e);

    return r < 0 ? r : kube_object_copy(tree, ret, e);
}

int kube_object_parse(struct str text, struct kube_object **ret, struct err *e)
{
    return kube_object_parse_max(text, KUBE_OBJECT_BYTES_MAX, ret, e);
}

struct kube_object *kube_object_ref(struct kube_object *o)
{
    (void)atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

void kube_object_unref(struct kube_object *o)
{
    if (o && atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1)
        free(o);
}

/* --- reading --- */

const struct json *kube_get(const struct json *v, const char *path)
{
    struct str rest = str_of(path), step;

    while (v && str_cut(&rest, '.', &step))
        v = json_get(v, step);
    return v;
}

struct str kube_str(const struct json *v, const char *path)
{
    struct str s = STR("");

    (void)!json_to_str(kube_get(v, path), &s);
    return s;
}

int64_t kube_i64(const struct json *v, const char *path)
{
    int64_t n = 0;

    (void)!json_to_i64(kube_get(v, path), &n);
    return n;
}

bool kube_bool(const struct json *v, const char *path)
{
    bool b = false;

    (void)!json_to_bool(kube_get(v, path), &b);
    return b;
}

static struct str string_of(const struct json *v, struct str key)
{
    struct str s = STR_NONE;

    (void)!json_to_str(json_get(v, key), &s);
    return s;
}

struct str kube_label(const struct kube_object *o, struct str key)
{
    return string_of(o->labels, key);
}

struct str kube_annotation(const struct kube_object *o, struct str key)
{
    return string_of(o->annotations, key);
}

const struct json *kube_condition(const struct json *conditions, struct str type)
{
    json_each(c, conditions) if (str_eq(kube_str(c, "type"), type)) return c;
    return NULL;
}

const struct json *kube_controller_of(const struct kube_object *o)
{
    json_each(owner, kube_get(o->root, "metadata.ownerReferences"))
    {
        if (kube_bool(owner, "controller"))
            return owner;
    }
    return NULL;
}

bool kube_has_finalizer(const struct kube_object *o, struct str finalizer)
{
    struct str s;

    json_each(f, kube_get(o->root, "metadata.finalizers"))
    {
        if (json_to_str(f, &s) == 0 && str_eq(s, finalizer))
            return true;
    }
    return false;
}
