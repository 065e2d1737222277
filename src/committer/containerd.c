#include "committer/containerd.h"

#include <errno.h>
#include <stdio.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/time.h"
#include "committer/wire.h"

enum {
    CALL_MS = 30 * 1000,
    REQUEST_BYTES_MAX = 1 << 20,
    ANSWER_BYTES_MAX = GRPC_MESSAGE_BYTES_MAX,
    LEASE_HOURS = 24, /* of one whose owner was killed */
    MOUNTS_MAX = 16,
};

#define SERVICE(name, method) "/containerd.services." name ".v1." method
#define LAYER_TYPE            "application/vnd.oci.image.layer.v1.tar+gzip"

struct containerd {
    struct grpc *grpc;
    char lease[64];
    bool has_lease;
};

/* --- calls --- */

static int keep_one(void *user, struct str message)
{
    struct buf *out = user;

    if (out->n)
        return -EPROTO; /* of a call with one answer */
    return buf_add(out, message);
}

/* A call with one message each way; `answer` may be NULL. */
static int ask(struct containerd *c, const char *path, struct str request, uint32_t timeout_ms,
               struct buf *answer, struct err *e)
{
    struct grpc_call call = {
        .path = path,
        .request = request,
        .timeout_ms = timeout_ms,
        .on_message = answer ? keep_one : NULL,
        .user = answer,
    };

    return grpc_do(c->grpc, &call, e);
}

/* The same at the end, signal or not. */
static int tell(struct containerd *c, const char *path, struct str request, struct err *e)
{
    struct grpc_call call = {
        .path = path, .request = request, .timeout_ms = CALL_MS, .ignores_stop = true};

    return grpc_do(c->grpc, &call, e);
}

static int bad_answer(struct err *e, const char *what)
{
    return err_set(e, EPROTO, "containerd's answer makes no sense: %s", what);
}

int containerd_open(const struct containerd_conf *conf, struct containerd **ret, struct err *e)
{
    struct grpc_conf grpc = {.path = conf->socket, .stop = conf->stop};
    struct containerd *c = mem_new(struct containerd);
    int r = grpc_open(&grpc, &c->grpc, e);

    if (r < 0) {
        free(c);
        return r;
    }
    grpc_set_header(c->grpc, "containerd-namespace", conf->ns);
    *ret = c;
    return 0;
}

void containerd_close(struct containerd *c)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);

    if (!c)
        return;
    if (c->has_lease && wire_add_bytes(&rq, 1, str_of(c->lease)) == 0)
        (void)tell(c, SERVICE("leases", "Leases/Delete"), buf_str(&rq), NULL);
    grpc_close(c->grpc);
    free(c);
}

int containerd_lease(struct containerd *c, struct err *e)
{
    char hex[ID_REQUEST_MAX], until[TIME_TEXT_MAX];
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    int r;

    id_request(hex);
    (void)snprintf(c->lease, sizeof(c->lease), "opensandbox-commit-%s", hex);
    time_format(time_wall_us() + (int64_t)LEASE_HOURS * 3600 * 1000000, until);
    r = wire_add_bytes(&rq, 1, str_of(c->lease));
    if (r == 0)
        r = wire_add_pair(&rq, 3, STR("containerd.io/gc.expire"), str_of(until));
    if (r == 0)
        r = ask(c, SERVICE("leases", "Leases/Create"), buf_str(&rq), CALL_MS, NULL, e);
    if (r < 0)
        return r;
    c->has_lease = true;
    grpc_set_header(c->grpc, "containerd-lease", c->lease);
    return 0;
}

/* --- containers --- */

static int add_filter(struct buf *rq, struct str pod, struct str ns, struct str uid,
                      struct str container)
{
    AUTO_BUF(text, 8192);
    int r = buf_addf(&text,
                     "labels.\"io.kubernetes.pod.name\"==\"%.*s\","
                     "labels.\"io.kubernetes.pod.namespace\"==\"%.*s\","
                     "labels.\"io.kubernetes.container.name\"==\"%.*s\"",
                     STR_ARG(pod), STR_ARG(ns), STR_ARG(container));

    if (r == 0 && uid.n)
        r = buf_addf(&text, ",labels.\"io.kubernetes.pod.uid\"==\"%.*s\"", STR_ARG(uid));
    return r < 0 ? r : wire_add_bytes(rq, 1, buf_str(&text));
}

/* Of containerd. Unknown: what runs the task does not answer. */
enum { STATE_UNKNOWN, STATE_CREATED, STATE_RUNNING, STATE_STOPPED, STATE_PAUSED };

/* The state of a container's process. -ENOENT when it has none. */
static int state_of(struct containerd *c, struct str id, uint64_t *ret, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    AUTO_BUF(answer, ANSWER_BYTES_MAX);
    struct grpc_call call = {
        .path = SERVICE("tasks", "Tasks/Get"),
        .timeout_ms = CALL_MS,
        .ignores_stop = true,
        .on_message = keep_one,
        .user = &answer,
    };
    struct str process;
    int r = wire_add_bytes(&rq, 1, id);

    call.request = buf_str(&rq);
    if (r == 0)
        r = grpc_do(c->grpc, &call, e);
    if (r < 0)
        return r;
    if (wire_get_bytes(buf_str(&answer), 1, &process) < 0 || wire_get_u64(process, 4, ret) < 0)
        return bad_answer(e, "the state of a process");
    return 0;
}

static int read_container(struct arena *a, struct str text, struct containerd_container *ret)
{
    int r = wire_get_bytes(text, 1, &ret->id);

    if (r == 0)
        r = wire_get_bytes(text, 3, &ret->image);
    if (r == 0)
        r = wire_get_bytes(text, 6, &ret->snapshotter);
    if (r == 0)
        r = wire_get_bytes(text, 7, &ret->snapshot);
    if (r < 0)
        return r;
    ret->id = arena_str(a, ret->id);
    ret->image = arena_str(a, ret->image);
    ret->snapshotter = arena_str(a, ret->snapshotter);
    ret->snapshot = arena_str(a, ret->snapshot);
    return ret->snapshot.p && ret->snapshotter.p && ret->image.p && ret->id.p ? 0 : -ENOMEM;
}

int containerd_find(struct containerd *c, struct arena *a, struct str pod, struct str ns,
                    struct str uid, struct str container, struct containerd_container *ret,
                    struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    AUTO_BUF(answer, ANSWER_BYTES_MAX);
    struct containerd_container one;
    struct wire_field f;
    struct str rest;
    uint64_t state;
    int n = 0, r = add_filter(&rq, pod, ns, uid, container);

    if (r < 0)
        return err_set(e, EINVAL, "the names are too long");
    r = ask(c, SERVICE("containers", "Containers/List"), buf_str(&rq), CALL_MS, &answer, e);
    if (r < 0)
        return r;
    rest = buf_str(&answer);
    while ((r = wire_next(&rest, &f)) > 0) {
        if (f.number != 1 || f.type != WIRE_BYTES)
            continue;
        if (read_container(a, f.bytes, &one) < 0)
            return bad_answer(e, "a container");
        r = state_of(c, one.id, &state, e);
        if (r == -ENOENT || (r == 0 && state == STATE_STOPPED))
            continue; /* an earlier one that ended may still be listed */
        if (r < 0)
            return r;
        *ret = one;
        n++;
    }
    if (r < 0)
        return bad_answer(e, "a list of containers");
    if (n == 0)
        return err_set(e, ENOENT, "no container '%.*s' of pod %.*s/%.*s runs on this node",
                       STR_ARG(container), STR_ARG(ns), STR_ARG(pod));
    if (n > 1)
        return err_set(e, EEXIST, "%d containers '%.*s' of pods called %.*s/%.*s run", n,
                       STR_ARG(container), STR_ARG(ns), STR_ARG(pod));
    return 0;
}

int containerd_pause(struct containerd *c, const struct containerd_container *box, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    uint64_t state = 0;
    int r = state_of(c, box->id, &state, e);

    if (r < 0 || state == STATE_PAUSED)
        return r;
    r = wire_add_bytes(&rq, 1, box->id);
    return r < 0 ? r : ask(c, SERVICE("tasks", "Tasks/Pause"), buf_str(&rq), CALL_MS, NULL, e);
}

int containerd_resume(struct containerd *c, const struct containerd_container *box, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    uint64_t state = 0;
    int r = state_of(c, box->id, &state, e);

    if (r == -ENOENT || (r == 0 && state >= STATE_CREATED && state <= STATE_STOPPED))
        return 0;
    if (r == 0)
        r = wire_add_bytes(&rq, 1, box->id);
    if (r == 0)
        r = tell(c, SERVICE("tasks", "Tasks/Resume"), buf_str(&rq), e);
    return r == -ENOENT ? 0 : r;
}

/* --- differences --- */

/* Adds the mounts of an answer, as they came, to a request. */
static int copy_mounts(struct buf *rq, unsigned field, struct str answer)
{
    struct wire_field f;
    int r, n = 0;

    while ((r = wire_next(&answer, &f)) > 0) {
        if (f.number != 1 || f.type != WIRE_BYTES)
            continue;
        if (++n > MOUNTS_MAX)
            return -E2BIG;
        r = wire_add_bytes(rq, field, f.bytes);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : n ? 0 : -ENOENT;
}

static int parent_of(struct containerd *c, struct arena *a, const struct containerd_container *box,
                     struct str *ret, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    AUTO_BUF(answer, ANSWER_BYTES_MAX);
    struct str info, parent;
    int r = wire_add_bytes(&rq, 1, box->snapshotter);

    if (r == 0)
        r = wire_add_bytes(&rq, 2, box->snapshot);
    if (r == 0)
        r = ask(c, SERVICE("snapshots", "Snapshots/Stat"), buf_str(&rq), CALL_MS, &answer, e);
    if (r < 0)
        return r;
    if (wire_get_bytes(buf_str(&answer), 1, &info) < 0 || wire_get_bytes(info, 2, &parent) < 0)
        return bad_answer(e, "a snapshot");
    *ret = arena_str(a, parent);
    return ret->p ? 0 : err_set(e, ENOMEM, "out of room");
}

/* Mounts of a snapshot, added to `out` as field `field`: of a view made of `parent` under `key`, or
 * when that is empty, of the snapshot `key` itself. */
static int add_mounts(struct containerd *c, struct str snapshotter, struct str key,
                      struct str parent, unsigned field, struct buf *out, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    AUTO_BUF(answer, ANSWER_BYTES_MAX);
    const char *path = parent.n ? SERVICE("snapshots", "Snapshots/View")
                                : SERVICE("snapshots", "Snapshots/Mounts");
    int r = wire_add_bytes(&rq, 1, snapshotter);

    if (r == 0)
        r = wire_add_bytes(&rq, 2, key);
    if (r == 0)
        r = wire_add_bytes(&rq, 3, parent);
    if (r == 0)
        r = ask(c, path, buf_str(&rq), CALL_MS, &answer, e);
    if (r < 0)
        return r;
    if (copy_mounts(out, field, buf_str(&answer)) < 0)
        return bad_answer(e, "mounts");
    return 0;
}

static void remove_view(struct containerd *c, struct str snapshotter, struct str key)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);

    if (wire_add_bytes(&rq, 1, snapshotter) == 0 && wire_add_bytes(&rq, 2, key) == 0)
        (void)tell(c, SERVICE("snapshots", "Snapshots/Remove"), buf_str(&rq), NULL);
}

static int read_descriptor(struct arena *a, struct str text, struct image_descriptor *ret)
{
    struct str digest;

    *ret = (struct image_descriptor){0};
    if (wire_get_bytes(text, 1, &ret->media_type) < 0 || wire_get_bytes(text, 2, &digest) < 0 ||
        wire_get_u64(text, 3, &ret->bytes) < 0 ||
        image_digest_parse(digest, &ret->digest, NULL) < 0)
        return -EPROTO;
    ret->media_type = arena_str(a, ret->media_type);
    ret->media = image_media_of(ret->media_type);
    return ret->media_type.p ? 0 : -ENOMEM;
}

/* The digest of a layer's tar, which the store keeps as a label. */
static int diff_id_of(struct containerd *c, const struct image_digest *digest,
                      struct image_digest *ret, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    AUTO_BUF(answer, ANSWER_BYTES_MAX);
    struct str info, value;
    int r = wire_add_bytes(&rq, 1, str_of(digest->text));

    if (r == 0)
        r = ask(c, SERVICE("content", "Content/Info"), buf_str(&rq), CALL_MS, &answer, e);
    if (r < 0)
        return r;
    if (wire_get_bytes(buf_str(&answer), 1, &info) < 0 ||
        wire_get_pair(info, 5, STR("containerd.io/uncompressed"), &value) < 0 ||
        image_digest_parse(value, ret, NULL) < 0)
        return bad_answer(e, "a layer without the digest of its tar");
    return 0;
}

static int run_diff(struct containerd *c, struct arena *a, struct buf *rq, uint32_t timeout_ms,
                    struct commit_layer *ret, struct err *e)
{
    AUTO_BUF(answer, ANSWER_BYTES_MAX);
    struct image_descriptor d;
    struct str text;
    int r = wire_add_bytes(rq, 3, STR(LAYER_TYPE));

    if (r == 0)
        r = wire_add_bytes(rq, 4, str_of(c->lease)); /* a name for what is being written */
    if (r == 0)
        r = ask(c, SERVICE("diff", "Diff/Diff"), buf_str(rq), timeout_ms, &answer, e);
    if (r < 0)
        return r;
    if (wire_get_bytes(buf_str(&answer), 3, &text) < 0 || read_descriptor(a, text, &d) < 0)
        return bad_answer(e, "a layer");
    ret->digest = d.digest;
    ret->bytes = d.bytes;
    ret->media = IMAGE_MEDIA_LAYER_GZIP;
    return diff_id_of(c, &d.digest, &ret->diff_id, e);
}

int containerd_diff(struct containerd *c, struct arena *a, const struct containerd_container *box,
                    uint32_t timeout_ms, struct commit_layer *ret, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    char hex[ID_REQUEST_MAX];
    struct str parent, view;
    int r = parent_of(c, a, box, &parent, e);

    if (r < 0)
        return r;
    if (!parent.n)
        return err_set(e, ENOTSUP, "its files do not lie on an image");
    id_request(hex);
    view = str_of(arena_printf(a, "opensandbox-commit-%s", hex));
    r = view.p ? add_mounts(c, box->snapshotter, view, parent, 1, &rq, e) : -ENOMEM;
    if (r < 0)
        return r;
    r = add_mounts(c, box->snapshotter, box->snapshot, STR(""), 2, &rq, e);
    if (r == 0)
        r = run_diff(c, a, &rq, timeout_ms, ret, e);
    remove_view(c, box->snapshotter, view);
    return r;
}

/* --- images and content --- */

int containerd_image(struct containerd *c, struct arena *a, struct str name,
                     struct image_descriptor *ret, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    AUTO_BUF(answer, ANSWER_BYTES_MAX);
    struct str image, target;
    int r = wire_add_bytes(&rq, 1, name);

    if (r == 0)
        r = ask(c, SERVICE("images", "Images/Get"), buf_str(&rq), CALL_MS, &answer, e);
    if (r < 0)
        return r;
    if (wire_get_bytes(buf_str(&answer), 1, &image) < 0 || wire_get_bytes(image, 3, &target) < 0 ||
        read_descriptor(a, target, ret) < 0)
        return bad_answer(e, "an image");
    return 0;
}

struct reading {
    struct buf *out;
    uint64_t left;
};

static int on_piece(void *user, struct str message)
{
    struct reading *reading = user;
    struct str data;

    if (wire_get_bytes(message, 2, &data) < 0 || data.n > reading->left)
        return -EPROTO;
    reading->left -= data.n;
    return buf_add(reading->out, data);
}

int containerd_read(struct containerd *c, const struct image_digest *digest, uint64_t offset,
                    uint64_t bytes, struct buf *out, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    struct reading reading = {out, bytes};
    struct grpc_call call = {
        .path = SERVICE("content", "Content/Read"),
        .timeout_ms = CALL_MS,
        .on_message = on_piece,
        .user = &reading,
    };
    int r = wire_add_bytes(&rq, 1, str_of(digest->text));

    if (r == 0)
        r = wire_add_u64(&rq, 2, offset);
    if (r == 0)
        r = wire_add_u64(&rq, 3, bytes);
    call.request = buf_str(&rq);
    if (r == 0 && bytes)
        r = grpc_do(c->grpc, &call, e);
    if (r == 0 && reading.left)
        r = err_set(e, EPROTO, "containerd sent %llu bytes too few of %s",
                    (unsigned long long)reading.left, digest->text);
    return r;
}

int containerd_has(struct containerd *c, const struct image_digest *digest, struct err *e)
{
    AUTO_BUF(rq, REQUEST_BYTES_MAX);
    int r = wire_add_bytes(&rq, 1, str_of(digest->text));

    return r < 0 ? r : ask(c, SERVICE("content", "Content/Info"), buf_str(&rq), CALL_MS, NULL, e);
}
