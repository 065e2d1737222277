#include "server/config/init_config.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "server/config/config_internal.h"
#include "server/config/example_texts.h"

enum { TEXT_BYTES_MAX = CONFIG_FILE_BYTES_MAX, ARENA_BYTES = 64 * 1024 };

static const struct {
    const char *name;
    const char *text;
} examples[] = {
    {"embedded",  example_config    },
    {"docker",    example_docker    },
    {"docker-zh", example_docker    },
    {"k8s",       example_kubernetes},
    {"k8s-zh",    example_kubernetes},
};

int init_config_text(const char *example, struct buf *out, struct err *e)
{
    int r = -ENOENT;

    if (!example)
        r = config_print_skeleton(out);
    for (size_t i = 0; example && i < ARRAY_LEN(examples); i++)
        if (strcmp(example, examples[i].name) == 0)
            r = buf_add(out, str_of(examples[i].text));
    if (r == -ENOENT)
        return err_set(e, EINVAL, "--example '%s': expected embedded, docker or k8s", example);
    return r < 0 ? err_sys(e, -r, "compose the file") : 0;
}

/* Creates the file with all of the text, or not at all. */
static int write_new(int dir, const char *name, struct str text, struct err *e)
{
    auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r;

    if (fd < 0 && errno == EEXIST)
        return err_set(e, EEXIST, "there is one already; --force replaces it");
    if (fd < 0)
        return err_sys(e, errno, "create it");
    r = io_write_full(fd, text, DEADLINE_NEVER);
    if (r < 0) {
        (void)unlinkat(dir, name, 0);
        return err_sys(e, -r, "write it");
    }
    return 0;
}

static int write_at(const char *path, struct str text, bool force, struct err *e)
{
    const char *name = strrchr(path, '/') + 1; /* the path is absolute */
    AUTO_ARENA(arena, ARENA_BYTES);
    const char *parent = arena_strdup(&arena, str_make(path, (size_t)(name - path)));
    auto_fd dir = parent ? open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC) : -ENOMEM;

    if (dir < 0)
        return err_sys(e, errno, "open its directory");
    if (!force)
        return write_new(dir, name, text, e);
    return io_write_file_atomic(dir, name, text, 0600, e);
}

int init_config_write(const char *path, const char *example, bool force, struct buf *says,
                      struct err *e)
{
    AUTO_ARENA(arena, ARENA_BYTES);
    AUTO_BUF(text, TEXT_BYTES_MAX);
    int r = init_config_text(example, &text, e);

    if (r < 0)
        return r;
    path = config_path_resolve(&arena, path ? path : "~/.sandbox.toml");
    if (!path)
        return err_set(e, ENAMETOOLONG, "this path is too long");
    r = write_at(path, buf_str(&text), force, e);
    if (r < 0)
        return err_wrap(e, r, "%s", path);
    return buf_addf(says, "wrote %s; opensandbox-server --config %s --check checks it\n", path,
                    path);
}
