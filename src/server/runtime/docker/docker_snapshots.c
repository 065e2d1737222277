/* docker_snapshots.c - snapshots: images that the engine commits from containers.
 *
 * The engine copies the container's labels and environment into the image. Those of the server, and
 * the variables of the request, are overwritten with nothing: a snapshot hands no secrets on. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "base/url.h"
#include "server/runtime/docker/docker_internal.h"

enum { CHANGES_MAX = 1 << 20, COMMIT_MS = 30 * 60 * 1000 };

/* Podman lists what it adds to every container, as if the request had it. */
static bool is_of_podman(struct str text)
{
    static const struct str usual[] = {
        STR_INIT("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        STR_INIT("TERM=xterm"),
        STR_INIT("container=podman"),
    };

    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (str_eq(text, usual[i]))
            return true;
    return false;
}

static void write_texts(struct json_writer *w, const struct json *container,
                        const struct json *image)
{
    struct str text, name, mine;

    json_write_key(w, STR("Env"));
    json_write_array(w);
    json_each(item, json_get(json_get(container, STR("Config")), STR("Env")))
    {
        bool of_image;

        if (json_to_str(item, &text) < 0)
            continue;
        of_image = is_of_podman(text);
        json_each(other, json_get(json_get(image, STR("Config")), STR("Env")))
        {
            of_image |= json_to_str(other, &mine) == 0 && str_eq(mine, text);
        }
        name = text;
        name.n = str_find(text, '=');
        if (of_image) {
            json_write_string(w, text);
        } else {
            char empty[256];

            if (name.n < sizeof(empty) - 1) {
                (void)snprintf(empty, sizeof(empty), "%.*s=", STR_ARG(name));
                json_write_string(w, str_of(empty));
            }
        }
    }
    json_write_array_end(w);
}

/* The engine lays this over the container's configuration. */
static int write_config(const struct docker *d, const struct json *container,
                        const struct json *image, struct str snapshot_id, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    write_texts(&w, container, image);
    json_write_key(&w, STR("Labels"));
    json_write_object(&w);
    json_each(item, json_get(json_get(container, STR("Config")), STR("Labels")))
    {
        if (str_starts(item->key, STR(LABEL_PREFIX)) && !str_eq(item->key, STR(LABEL_OWNER)) &&
            !str_eq(item->key, STR(LABEL_SNAPSHOT)))
            json_member_string(&w, item->key, STR(""));
    }
    json_member_string(&w, STR(LABEL_OWNER), str_of(d->owner));
    json_member_string(&w, STR(LABEL_SNAPSHOT), snapshot_id);
    json_write_object_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w);
}

/* As lines of a Dockerfile hold a name or a label: without blanks, quotes and "$". */
static bool is_plain(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] > '~' || strchr("\"'$\\", text.p[i]))
            return false;
    return true;
}

static int add_line(struct buf *lines, const char *verb, struct str name, struct str value)
{
    if (!is_plain(name) || !is_plain(value))
        return -EINVAL;
    return buf_addf(lines, "%s %.*s=%.*s\n", verb, STR_ARG(name), STR_ARG(value));
}

/* Podman does not read the configuration in the body: the same as lines of a Dockerfile. Without
 * them its image would have the variables of the request. */
static int add_changes(struct str config, struct buf *target, struct err *e)
{
    AUTO_ARENA(arena, 4 * CHANGES_MAX);
    AUTO_BUF(lines, ENGINE_TARGET_MAX);
    struct json *tree = NULL;
    struct str text;
    int r = json_parse(&arena, config, NULL, &tree, e);

    json_each(item, json_get(tree, STR("Env")))
    {
        if (r == 0 && json_to_str(item, &text) == 0 && str_ends(text, STR("=")))
            r = add_line(&lines, "ENV", str_make(text.p, text.n - 1), STR(""));
    }
    json_each(item, json_get(tree, STR("Labels")))
    {
        if (r == 0 && json_to_str(item, &text) == 0)
            r = add_line(&lines, "LABEL", item->key, text);
    }
    while (lines.n && lines.p[lines.n - 1] == '\n')
        lines.n--;
    if (r == 0)
        r = buf_add(target, STR("&changes="));
    if (r == 0)
        r = url_encode(buf_str(&lines), URL_SET_QUERY_VALUE, target);
    return r < 0 ? err_set(e, EINVAL,
                           "variables or labels of the sandbox have characters, or a "
                           "length, with which Podman cannot keep them out of an image")
                 : 0;
}

static int image_of(struct docker *d, struct arena *a, const struct json *container,
                    struct json **ret, struct err *e)
{
    struct str id;

    if (json_to_str(json_get(container, STR("Image")), &id) < 0)
        return err_set(e, EPROTO, "the Docker engine names no image of the container");
    return docker_get(d, a, ret, e, "/images/%.*s/json", STR_ARG(id));
}

int docker_snapshot(struct runtime *r, struct runtime_snapshot *s, struct err *e)
{
    struct docker *d = docker_of(r);
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    AUTO_BUF(config, CHANGES_MAX);
    AUTO_BUF(target, ENGINE_TARGET_MAX);
    auto_answer answer = ENGINE_ANSWER_NONE;
    char name[DOCKER_NAME_MAX];
    struct json *container = NULL, *image = NULL, *made = NULL;
    uint64_t begin;
    int result;

    if (d->hides_changes)
        return err_set(
            e, ENOTSUP,
            "OCI runtime '%s' keeps what sandboxes write where the Docker engine does not "
            "see it: the snapshot would be empty. Register it with the engine with "
            "\"runtimeArgs\": [\"--overlay2=none\"]",
            d->oci_runtime);
    docker_name(s->id, name);
    result = docker_get(d, &arena, &container, e, "/containers/%s/json", name);
    if (result == 0 && image_of(d, &arena, container, &image, e) < 0)
        image = NULL; /* it was removed by force: all variables count as the request's */
    if (result == 0 && write_config(d, container, image, s->snapshot_id, &config) < 0)
        result = err_set(e, EMSGSIZE, "the container's environment is too long");
    if (result < 0)
        return result;
    (void)buf_addf(&target, "/commit?container=%s&repo=" DOCKER_SNAPSHOTS "&tag=%.*s&pause=1", name,
                   STR_ARG(s->snapshot_id));
    if (engine_is_podman(d->engine) && add_changes(buf_str(&config), &target, e) < 0)
        return -e->code;
    begin = time_mono_ns();
    result = engine_call(d->engine,
                         &(struct engine_request){.method = HTTP_POST,
                                                  .target = target.p,
                                                  .body = buf_str(&config),
                                                  .timeout_ms = COMMIT_MS},
                         &answer, e);
    s->frozen_us = (time_mono_ns() - begin) / 1000;
    if (result == 0)
        result = docker_get(d, &arena, &made, e, "/images/" DOCKER_SNAPSHOTS ":%.*s/json",
                            STR_ARG(s->snapshot_id));
    if (result < 0)
        return result;
    (void)!json_to_u64(json_get(made, STR("Size")), &s->size_bytes);
    return 1;
}

/* An image that sandboxes use loses its name only, and goes with the last of them. Not on Podman,
 * which by force removes the containers, too. */
int docker_snapshot_remove(struct runtime *r, struct str snapshot_id, struct err *e)
{
    struct docker *d = docker_of(r);
    int result = docker_ask(d, HTTP_DELETE, 0, e, "/images/" DOCKER_SNAPSHOTS ":%.*s?force=%d",
                            STR_ARG(snapshot_id), !engine_is_podman(d->engine));

    if (result == -ENOENT)
        return 0;
    if (result == -ESTALE)
        return err_set(e, EBUSY, "a sandbox was made of the snapshot: %s", e->msg);
    return result < 0 ? result : 1;
}

void docker_snapshots_prune(struct docker *d)
{
    AUTO_BUF(owner, 256);
    AUTO_BUF(query, 1024);
    struct err e = {0};

    (void)buf_addf(&owner, LABEL_OWNER "=%s", d->owner);
    if (docker_add_filters(
            &query, (const char *const[]){"dangling", "true", "label", owner.p, NULL}) == 0 &&
        docker_ask(d, HTTP_POST, 0, &e, "/images/prune?%s", query.p) < 0)
        log_event(LOG_WARN, "cannot remove images of deleted snapshots", LOG_STR("error", e.msg));
}

int docker_snapshot_each(struct runtime *r, runtime_snapshot_visit_fn *visit, void *user,
                         struct err *e)
{
    struct docker *d = docker_of(r);
    AUTO_ARENA(arena, 4 * DOCKER_ARENA_MAX);
    AUTO_BUF(owner, 256);
    AUTO_BUF(query, 1024);
    struct json *list = NULL;
    struct str tag, prefix = STR(DOCKER_SNAPSHOTS ":");
    uint64_t size;
    int result;

    (void)buf_addf(&owner, LABEL_OWNER "=%s", d->owner);
    if (docker_add_filters(&query, (const char *const[]){"label", owner.p, NULL}) < 0)
        return err_set(e, EMSGSIZE, "the owner is too long");
    result = docker_get(d, &arena, &list, e, "/images/json?%s", query.p);
    if (result < 0)
        return result;
    json_each(item, list)
    {
        size = 0;
        (void)!json_to_u64(json_get(item, STR("Size")), &size);
        json_each(name, json_get(item, STR("RepoTags")))
        {
            if (json_to_str(name, &tag) == 0 && str_starts(tag, prefix))
                visit(user, str_skip(tag, prefix.n), size);
        }
    }
    return 0;
}
