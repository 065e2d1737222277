/* docker_egress.c - an image of the egress sidecar for servers without egress.image.
 *
 * It has opensandbox-egress as it is installed here, the shared libraries that this process has
 * loaded (the program links a part of them), and the authorities that this machine trusts. Its tag
 * is the digest of its archive, so an update of any of these makes another image. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha.h"
#include "base/tar.h"
#include "base/url.h"
#include "server/config/config.h"
#include "server/runtime/docker/docker_internal.h"

#define REPOSITORY "opensandbox-egress"
#define PROGRAM    "opt/opensandbox-egress/egress"
#define TRUST_DIR  "/etc/ssl/certs"

enum {
    FILE_MAX = 64 << 20,
    ARCHIVE_MAX = 256 << 20,
    AUTHORITIES_MAX = 4096,
    IMPORT_MS = 120 * 1000,
    DIGEST_TEXT = 16, /* characters of it in the tag */
    DIR_NAMES_MAX = 64,
};

struct making_egress {
    struct buf archive;
    char dirs[DIR_NAMES_MAX][PATH_MAX]; /* that are in it */
    size_t dir_count;
    struct err err;
    int result;
};

bool docker_egress_can(const struct docker *d)
{
    return access(d->config->egress.program, R_OK) == 0;
}

/* --- the archive --- */

/* The directories above a path, each once. */
static int add_dirs(struct making_egress *m, const char *path)
{
    int r = 0;

    for (const char *slash = strchr(path, '/'); r == 0 && slash; slash = strchr(slash + 1, '/')) {
        struct str dir = str_make(path, (size_t)(slash - path) + 1);
        bool there = false;

        for (size_t i = 0; i < m->dir_count; i++)
            there |= str_eq(dir, str_of(m->dirs[i]));
        if (there)
            continue;
        if (m->dir_count == DIR_NAMES_MAX || str_copy(m->dirs[m->dir_count], PATH_MAX, dir) < 0)
            return -EMSGSIZE;
        m->dir_count++;
        r = tar_write_head(&m->archive,
                           &(struct tar_entry){.type = TAR_DIRECTORY, .path = dir, .mode = 0755});
    }
    return r;
}

/* A file of this machine, by its name without links; `to` has no slash before it. */
static int add_file(struct making_egress *m, const char *from, const char *to, unsigned mode)
{
    AUTO_BUF(content, FILE_MAX);
    int r = io_read_file(AT_FDCWD, from, FILE_MAX, &content, &m->err);

    if (r < 0)
        return r;
    r = add_dirs(m, to);
    if (r == 0)
        r = tar_write_head(&m->archive, &(struct tar_entry){.type = TAR_FILE,
                                                            .path = str_of(to),
                                                            .size = content.n,
                                                            .mode = mode});
    if (r == 0)
        r = buf_add(&m->archive, buf_str(&content));
    for (size_t i = tar_padding(content.n); r == 0 && i > 0; i--)
        r = buf_add_char(&m->archive, '\0');
    return r;
}

static int on_library(struct dl_phdr_info *info, size_t size UNUSED, void *user)
{
    struct making_egress *m = user;

    if (info->dlpi_name[0] != '/') /* the program itself, the vDSO */
        return 0;
    m->result = add_file(m, info->dlpi_name, info->dlpi_name + 1, 0755);
    return m->result;
}

/* Those that OpenSSL finds by the hash in their names: "5ed36f99.0". */
static int add_authorities(struct making_egress *m)
{
    struct dirent **names = NULL;
    int count = scandir(TRUST_DIR, &names, NULL, alphasort), r = 0; /* the same order each time */
    char path[PATH_MAX];

    for (int i = 0; i < count; i++) {
        struct str name = str_of(names[i]->d_name);

        if (r == 0 && i < AUTHORITIES_MAX && name.n == strlen("01234567.0") &&
            name.p[name.n - 2] == '.') {
            (void)snprintf(path, sizeof(path), TRUST_DIR "/%s", names[i]->d_name);
            if (access(path, R_OK) == 0) /* a link may lead nowhere */
                r = add_file(m, path, path + 1, 0644);
        }
        free(names[i]);
    }
    free(names);
    return r;
}

static int write_archive(struct making_egress *m, const char *program)
{
    int r = add_file(m, program, PROGRAM, 0755);

    if (r == 0)
        r = dl_iterate_phdr(on_library, m);
    if (r == 0)
        r = add_authorities(m);
    /* Where it puts its authority, reads lists, and keeps its key. */
    if (r == 0)
        r = add_dirs(m, "opt/opensandbox/");
    if (r == 0)
        r = add_dirs(m, "var/egress/rules/");
    if (r == 0)
        r = add_dirs(m, "var/lib/mitmproxy/");
    return r == 0 ? tar_write_end(&m->archive) : r;
}

/* --- the image --- */

static int import_archive(struct docker *d, const struct making_egress *m, const char *tag,
                          struct err *e)
{
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(target, 512);
    int r;

    (void)buf_addf(&target, "/images/create?fromSrc=-&repo=" REPOSITORY "&tag=%s&changes=", tag);
    if (url_encode(STR("ENTRYPOINT [\"/" PROGRAM "\"]"), URL_SET_QUERY_VALUE, &target) < 0)
        return err_set(e, EMSGSIZE, "the request is too long");
    r = engine_call(d->engine,
                    &(struct engine_request){.method = HTTP_POST,
                                             .target = target.p,
                                             .body = buf_str(&m->archive),
                                             .type = "application/x-tar",
                                             .timeout_ms = IMPORT_MS},
                    &answer, e);
    if (r == 0 && str_find_str(buf_str(&answer.body), STR("\"error\"")) < answer.body.n)
        r = err_set(e, EIO, "%.*s", (int)min_size(answer.body.n, 160), answer.body.p);
    return r < 0 ? r : docker_import_tag(d, buf_str(&answer.body), REPOSITORY, tag, e);
}

static int provide(struct docker *d, struct making_egress *m, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    char text[HEX_TEXT_MAX(SHA256_BYTES)], tag[DIGEST_TEXT + 1];
    int r = write_archive(m, d->config->egress.program);

    if (r < 0)
        return m->err.code ? err_set(e, m->err.code, "%s", m->err.msg)
                           : err_sys(e, -r, "pack opensandbox-egress");
    sha256_of(buf_str(&m->archive), digest);
    (void)hex_encode(str_make((const char *)digest, sizeof(digest)), text);
    (void)snprintf(tag, sizeof(tag), "%.*s", DIGEST_TEXT, text);
    r = docker_ask(d, HTTP_GET, 0, e, "/images/" REPOSITORY ":%s/json", tag);
    if (r == -ENOENT) {
        r = import_archive(d, m, tag, e);
        if (r >= 0)
            log_event(LOG_INFO, "gave the Docker engine an image of the egress sidecar",
                      LOG_STR("image", REPOSITORY), LOG_STR("tag", tag));
    }
    if (r >= 0)
        (void)snprintf(d->egress_image, sizeof(d->egress_image), REPOSITORY ":%s", tag);
    return r < 0 ? r : 0;
}

int docker_egress_provide(struct docker *d, bool again, char ret_image[DOCKER_NAME_MAX],
                          struct err *e)
{
    struct making_egress *m;
    int r = 0;

    (void)pthread_mutex_lock(&d->execd_lock);
    if (again || !d->egress_image[0]) {
        m = mem_new(struct making_egress);
        buf_init(&m->archive, ARCHIVE_MAX);
        r = provide(d, m, e);
        buf_done(&m->archive);
        free(m);
    }
    memcpy(ret_image, d->egress_image, DOCKER_NAME_MAX);
    (void)pthread_mutex_unlock(&d->execd_lock);
    return r < 0 ? err_wrap(e, r, "provide the image of the egress sidecar") : 0;
}
