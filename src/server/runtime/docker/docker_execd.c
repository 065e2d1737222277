/* docker_execd.c - execd for every container of the engine, without copying it into each.
 *
 * The program is in a volume named after its digest, which sandboxes mount read-only. The engine
 * fills the volume itself: when a container is made, it copies what the image has at the place
 * where an empty volume is mounted. So an image is imported that has nothing but execd, and a
 * container is made of it and removed again; it never runs. Works with an engine elsewhere, too. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha.h"
#include "base/tar.h"
#include "base/time.h"
#include "server/config/config.h"
#include "server/runtime/docker/docker_internal.h"

#define REPOSITORY   "opensandbox-execd"
#define LABEL_HELPER LABEL_PREFIX "execd-helper"

enum {
    EXECD_BYTES_MAX = 64 << 20,
    DIGEST_TEXT = 16, /* characters of it in names */
    IMPORT_MS = 120 * 1000,
    FILL_MS = 20 * 1000, /* for another server that fills the volume at this moment */
    LOOK_MS = 100,
};

struct providing {
    struct docker *docker;
    struct buf program;
    char tag[DIGEST_TEXT + 1];
    char helper[DOCKER_NAME_MAX];
};

static int read_program(struct providing *p, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    char text[HEX_TEXT_MAX(SHA256_BYTES)];
    struct stat st;
    int fd = p->docker->execd_fd, r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, ENOENT,
                       "there is no program execd at '%s'; runtime.execd_program names it",
                       p->docker->config->runtime.execd_program);
    if (st.st_size <= 0 || st.st_size > EXECD_BYTES_MAX)
        return err_set(e, EFBIG, "execd has %lld bytes; expected at most %d", (long long)st.st_size,
                       EXECD_BYTES_MAX);
    r = buf_reserve(&p->program, (size_t)st.st_size);
    for (off_t at = 0; r == 0 && at < st.st_size;) {
        ssize_t n = pread(fd, p->program.p + at, (size_t)(st.st_size - at), at);

        if (n <= 0 && !(n < 0 && errno == EINTR))
            r = n < 0 ? -errno : -EIO;
        at += n > 0 ? n : 0;
    }
    if (r < 0)
        return err_sys(e, -r, "read execd");
    buf_claim(&p->program, (size_t)st.st_size);
    sha256_of(buf_str(&p->program), digest);
    (void)hex_encode(str_make((const char *)digest, sizeof(digest)), text);
    (void)snprintf(p->tag, sizeof(p->tag), "%.*s", DIGEST_TEXT, text);
    return 0;
}

/* execd, and for the root of an image the directories above it. */
static int write_archive(const struct providing *p, bool as_root, struct buf *out)
{
    static const char *const dirs[] = {"opt/", "opt/opensandbox/", "opt/opensandbox/bin/"};
    const struct tar_entry file = {
        .type = TAR_FILE,
        .path = as_root ? STR("opt/opensandbox/bin/execd") : STR("execd"),
        .size = p->program.n,
        .mode = 0755,
    };
    int r = 0;

    for (size_t i = 0; r == 0 && as_root && i < ARRAY_LEN(dirs); i++)
        r = tar_write_head(
            out, &(struct tar_entry){.type = TAR_DIRECTORY, .path = str_of(dirs[i]), .mode = 0755});
    if (r == 0)
        r = tar_write_head(out, &file);
    if (r == 0)
        r = buf_add(out, buf_str(&p->program));
    for (size_t i = tar_padding(p->program.n); r == 0 && i > 0; i--)
        r = buf_add_char(out, '\0');
    return r < 0 ? r : tar_write_end(out);
}

bool docker_has_image(struct docker *d, const char *repository, const char *tag)
{
    return docker_ask(d, HTTP_GET, 0, NULL, "/images/%s:%s/json", repository, tag) >= 0;
}

/* Podman answers {"status":"sha256:..."} as Docker does, and names the image "latest". */
int docker_import_tag(struct docker *d, struct str answer, const char *repository, const char *tag,
                      struct err *e)
{
    AUTO_ARENA(arena, 64 << 10);
    struct json *tree = NULL;
    struct str id, line;

    if (docker_has_image(d, repository, tag))
        return 0;
    (void)str_cut(&answer, '\n', &line);
    if (json_parse(&arena, line, NULL, &tree, NULL) < 0 ||
        json_to_str(json_get(tree, STR("status")), &id) < 0 || !str_starts(id, STR("sha256:")))
        return err_set(e, EPROTO, "the Docker engine does not tell what it imported");
    return docker_ask(d, HTTP_POST, 0, e, "/images/%.*s/tag?repo=%s&tag=%s", STR_ARG(id),
                      repository, tag);
}

static int import_image(struct providing *p, struct err *e)
{
    struct docker *d = p->docker;
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(archive, EXECD_BYTES_MAX + (1 << 20));
    AUTO_BUF(target, 512);
    int r = docker_ask(d, HTTP_GET, 0, e, "/images/" REPOSITORY ":%s/json", p->tag);

    if (r != -ENOENT)
        return r < 0 ? r : 0;
    if (write_archive(p, true, &archive) < 0 ||
        buf_addf(&target, "/images/create?fromSrc=-&repo=" REPOSITORY "&tag=%s", p->tag) < 0)
        return err_set(e, ENOMEM, "no memory for the image of execd");
    r = engine_call(d->engine,
                    &(struct engine_request){
                        .method = HTTP_POST,
                        .target = target.p,
                        .body = buf_str(&archive),
                        .type = "application/x-tar",
                        .timeout_ms = IMPORT_MS,
                    },
                    &answer, e);
    if (r == 0 && str_find_str(buf_str(&answer.body), STR("\"error\"")) < answer.body.n)
        r = err_set(e, EIO, "import the image of execd: %.*s", (int)min_size(answer.body.n, 160),
                    answer.body.p);
    if (r == 0)
        r = docker_import_tag(d, buf_str(&answer.body), REPOSITORY, p->tag, e);
    return r < 0 ? r : 0;
}

/* A container that never runs: making it fills an empty volume, or shows that the engine takes what
 * it has in HostConfig. */
static int make_helper(struct providing *p, const char *more, struct err *e)
{
    struct docker *d = p->docker;
    auto_answer answer = ENGINE_ANSWER_NONE;
    char id[ID_UUID_MAX], target[256];
    AUTO_BUF(body, 4096);

    id_uuid(id);
    (void)snprintf(p->helper, sizeof(p->helper), "sandbox-execd-%s", id);
    (void)snprintf(target, sizeof(target), "/containers/create?name=%s", p->helper);
    (void)buf_addf(&body,
                   "{\"Image\":\"" REPOSITORY ":%s\",\"Cmd\":[\"" DOCKER_DIR "/execd\"],"
                   "\"Labels\":{\"" LABEL_HELPER "\":\"%s\"},"
                   "\"HostConfig\":{\"NetworkMode\":\"none\",\"Binds\":[\"%s:" DOCKER_DIR "\"]%s}}",
                   p->tag, d->owner, d->execd_volume, more);
    return engine_call(
        d->engine,
        &(struct engine_request){.method = HTTP_POST, .target = target, .body = buf_str(&body)},
        &answer, e);
}

static void drop_helper(struct providing *p)
{
    if (p->helper[0])
        (void)!docker_ask(p->docker, HTTP_DELETE, 0, NULL, "/containers/%s?force=1", p->helper);
    p->helper[0] = '\0';
}

/* The size of execd in the volume; 0 = it is not there. */
static int size_in_volume(struct providing *p, uint64_t *ret, struct err *e)
{
    AUTO_ARENA(arena, 64 << 10);
    auto_answer answer = ENGINE_ANSWER_NONE;
    char target[256], json[BASE64_DATA_MAX(sizeof(answer.path_stat))];
    struct json *tree = NULL;
    size_t n = 0;
    int r;

    *ret = 0;
    (void)snprintf(target, sizeof(target), "/containers/%s/archive?path=" DOCKER_DIR "/execd",
                   p->helper);
    r = engine_call(p->docker->engine,
                    &(struct engine_request){.method = HTTP_HEAD, .target = target}, &answer, e);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (base64_decode(str_of(answer.path_stat), BASE64_STD, json, sizeof(json), &n) < 0 ||
        json_parse(&arena, str_make(json, n), NULL, &tree, NULL) < 0 ||
        json_to_u64(json_get(tree, STR("size")), ret) < 0)
        return err_set(e, EPROTO, "the Docker engine does not tell the size of a file");
    return 0;
}

/* True once execd is all there. Another server may be filling the same volume. */
static int await_filled(struct providing *p, struct err *e)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    uint64_t deadline = deadline_in_ms(FILL_MS), size, before = 0;

    for (;;) {
        int r = size_in_volume(p, &size, e);

        if (r < 0)
            return r;
        if (size == p->program.n)
            return 1;
        if (size == before && size == 0)
            return 0; /* empty, and not being filled: the engine copies before it answers */
        if (deadline_passed(deadline))
            return 0;
        before = size;
        (void)nanosleep(&pause, NULL);
    }
}

/* What a server that was killed has left. */
static void drop_old_helpers(struct docker *d)
{
    AUTO_ARENA(arena, DOCKER_ARENA_MAX);
    AUTO_BUF(label, 256);
    AUTO_BUF(query, 1024);
    struct json *list = NULL;
    struct str id;

    (void)buf_addf(&label, LABEL_HELPER "=%s", d->owner);
    if (docker_add_filters(&query, (const char *const[]){"label", label.p, NULL}) < 0 ||
        docker_get(d, &arena, &list, NULL, "/containers/json?all=1&%s", query.p) < 0)
        return;
    json_each(item, list)
    {
        if (json_to_str(json_get(item, STR("Id")), &id) == 0)
            (void)!docker_ask(d, HTTP_DELETE, 0, NULL, "/containers/%.*s?force=1", STR_ARG(id));
    }
}

/* Podman fills a volume when its container starts, which the helper never does: put execd there. */
static int put_program(struct providing *p, struct err *e)
{
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(archive, EXECD_BYTES_MAX + (1 << 20));
    char target[256];

    if (write_archive(p, false, &archive) < 0)
        return err_set(e, ENOMEM, "no memory for the archive of execd");
    (void)snprintf(target, sizeof(target), "/containers/%s/archive?path=" DOCKER_DIR, p->helper);
    return engine_call(p->docker->engine,
                       &(struct engine_request){.method = HTTP_PUT,
                                                .target = target,
                                                .body = buf_str(&archive),
                                                .type = "application/x-tar",
                                                .timeout_ms = IMPORT_MS},
                       &answer, e);
}

static int fill(struct providing *p, struct err *e)
{
    int r = make_helper(p, "", e);

    if (r == 0)
        r = await_filled(p, e);
    if (r == 0 && put_program(p, e) == 0)
        r = await_filled(p, e);
    drop_helper(p);
    return r;
}

/* Whether the storage driver keeps limits of disk depends on its file system and mount options, so
 * it is asked for one. */
static void probe_quotas(struct providing *p)
{
    p->docker->quotas = make_helper(p, ",\"StorageOpt\":{\"size\":\"1073741824\"}", NULL) == 0;
    drop_helper(p);
    log_event(LOG_INFO,
              p->docker->quotas ? "the Docker engine keeps limits of disk"
                                : "the Docker engine keeps no limits of disk: those of requests "
                                  "have no effect",
              LOG_STR("driver", p->docker->driver));
}

static int provide(struct providing *p, struct err *e)
{
    struct docker *d = p->docker;
    int r = read_program(p, e);

    if (r < 0)
        return r;
    (void)snprintf(d->execd_volume, sizeof(d->execd_volume), REPOSITORY "-%s", p->tag);
    drop_old_helpers(d);
    r = import_image(p, e);
    if (r == 0)
        r = fill(p, e);
    if (r != 0)
        return r < 0 ? r : 0;
    log_event(LOG_WARN, "the volume of execd is not complete, filling it again",
              LOG_STR("volume", d->execd_volume));
    r = docker_ask(d, HTTP_DELETE, 0, e, "/volumes/%s", d->execd_volume);
    if (r >= 0 || r == -ENOENT)
        r = fill(p, e);
    if (r == 0)
        r = err_set(e, EIO, "the engine does not fill the volume %s", d->execd_volume);
    return r < 0 ? r : 0;
}

int docker_execd_provide(struct docker *d, struct err *e)
{
    struct providing p = {.docker = d};
    int r;

    buf_init(&p.program, EXECD_BYTES_MAX);
    r = provide(&p, e);
    if (r == 0)
        probe_quotas(&p);
    buf_done(&p.program);
    return r < 0 ? err_wrap(e, r, "provide execd") : 0;
}
