#include "server/runtime/embedded/roots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/config/dirs.h"

/* A copy of the descriptor for `path` that an older set opened as root, if any. */
static int find_opened(const struct roots *older, const char *path)
{
    for (; older; older = older->next)
        for (size_t i = 0; i < older->config->image_count; i++)
            if (older->images[i].dir >= 0 && strcmp(older->config->images[i].dir, path) == 0)
                return fcntl(older->images[i].dir, F_DUPFD_CLOEXEC, 0);
    return -ENOENT;
}

static int open_shown(const char *path, const struct roots *older)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && errno == EACCES)
        fd = find_opened(older, path);
    if (fd < 0)
        log_event(LOG_WARN, "cannot open a directory of the configuration, going on without it",
                  LOG_STR("path", path), LOG_STR("error", strerror(errno)));
    return fd;
}

/* A directory that sandboxes may mount need not exist yet, nor need those below it. */
static int open_host_path(const char *path)
{
    struct err e = {0};
    bool made;
    int fd;

    if (geteuid() != 0 || access(path, F_OK) == 0)
        return open_shown(path, NULL);
    fd = dirs_make(path, 0755, &made, &e);
    if (fd < 0)
        log_event(LOG_WARN, "cannot make a directory of the configuration, going on without it",
                  LOG_STR("path", path), LOG_STR("error", e.msg));
    return fd;
}

struct roots *roots_open(const struct config *config, struct roots *older)
{
    const struct config_list *paths = &config->storage.allowed_host_paths;
    struct roots *r = mem_new(struct roots);

    r->config = config;
    r->next = older;
    r->images = mem_new_array(struct embedded_root, config->image_count + 1);
    r->host_paths = mem_new_array(struct embedded_path, paths->count + 1);
    for (size_t i = 0; i < config->image_count; i++) {
        const struct config_image *image = &config->images[i];

        r->images[i].host = image->kind == CONFIG_IMAGE_HOST;
        r->images[i].dir = r->images[i].host ? -EBADF : open_shown(image->dir, older);
        r->images[i].path = image->dir;
    }
    for (size_t i = 0; i < paths->count; i++) {
        int fd = open_host_path(paths->at[i]);

        if (fd >= 0)
            r->host_paths[r->host_path_count++] = (struct embedded_path){paths->at[i], fd};
    }
    return r;
}

void roots_free(struct roots *r)
{
    while (r) {
        struct roots *older = r->next;

        for (size_t i = 0; i < r->config->image_count; i++)
            fd_close(r->images[i].dir);
        for (size_t i = 0; i < r->host_path_count; i++)
            fd_close(r->host_paths[i].fd);
        free(r->images);
        free(r->host_paths);
        free(r);
        r = older;
    }
}

const struct embedded_root *roots_find(const struct roots *roots, struct str image)
{
    static const struct embedded_root host = {.host = true, .dir = -EBADF};
    const struct config_image *found = config_image_find(roots->config, image);
    size_t i = found ? (size_t)(found - roots->config->images) : 0;

    if (!found)
        return NULL;
    if (found->kind == CONFIG_IMAGE_HOST)
        return &host;
    return i < roots->config->image_count && roots->images[i].dir >= 0 ? &roots->images[i] : NULL;
}

const struct embedded_root *roots_find_dir(const struct roots *roots, struct str path)
{
    for (size_t i = 0; i < roots->config->image_count; i++)
        if (roots->images[i].dir >= 0 && str_eq(str_of(roots->images[i].path), path))
            return &roots->images[i];
    return NULL;
}

static bool is_at_or_below(const char *path, const char *dir)
{
    struct str prefix = str_of(dir);

    while (str_ends(prefix, STR("/")))
        prefix.n--;
    return str_starts(str_of(path), prefix) && (!path[prefix.n] || path[prefix.n] == '/');
}

/* Whether a broker that was started with these roots knows the path. */
static bool is_known(const struct roots *roots, const char *path)
{
    for (size_t i = 0; i < roots->config->image_count; i++)
        if (roots->images[i].dir >= 0 && is_at_or_below(path, roots->config->images[i].dir))
            return true;
    for (size_t i = 0; i < roots->host_path_count; i++)
        if (is_at_or_below(path, roots->host_paths[i].path))
            return true;
    return false;
}

static void warn_unless_known(const struct roots *roots, const char *path)
{
    if (!is_known(roots, path))
        log_event(
            LOG_WARN,
            "the broker refuses a new directory of the configuration: its allow-list is fixed at "
            "start; restart the broker and the server",
            LOG_STR("path", path));
}

void roots_warn_new(const struct roots *now)
{
    const struct config_list *paths = &now->config->storage.allowed_host_paths;
    const struct roots *first = now;

    while (first->next)
        first = first->next;
    for (size_t i = 0; i < now->config->image_count; i++)
        if (now->config->images[i].kind == CONFIG_IMAGE_DIR)
            warn_unless_known(first, now->config->images[i].dir);
    for (size_t i = 0; i < paths->count; i++)
        warn_unless_known(first, paths->at[i]);
}
