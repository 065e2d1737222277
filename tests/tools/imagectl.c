/* imagectl.c - drives an image store from the command line, for tests, benchmarks and people.
 *
 * usage: imagectl --store DIR --broker SOCKET COMMAND...
 *   import FILE [NAME]      prints the names of what was imported
 *   export NAME FILE
 *   list                    name, bytes, layers of each
 *   layers NAME             directories, the lowest first
 *   remove NAME, gc BYTES, verify, settle, usage */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "image/archive.h"
#include "server/runtime/embedded/image_hands.h"

static struct err err;

static int fail(const char *what)
{
    fprintf(stderr, "imagectl: %s: %s\n", what, err.msg);
    return 1;
}

static int copy_in(int from, int to)
{
    ssize_t n;

    while ((n = sendfile(to, from, NULL, 1 << 30)) > 0)
        ;
    return n < 0 ? err_sys(&err, errno, "copy the archive") : 0;
}

static int import(struct image_store *s, const char *path, const char *name)
{
    static struct image_imported imported;
    struct image_import in = {.name = name};
    auto_fd from = open(path, O_RDONLY | O_CLOEXEC);

    if (from < 0)
        return err_sys(&err, errno, "open '%s'", path), fail("import");
    image_platform_host(&in.platform);
    in.fd = image_store_temp_open(s, &err);
    if (in.fd < 0 || copy_in(from, in.fd) < 0 || image_import(s, &in, &imported, &err) < 0)
        return fail("import");
    for (size_t i = 0; i < imported.count; i++)
        printf("%s\n", imported.names[i]);
    return 0;
}

static int write_piece(void *ctx, struct str piece, struct err *e)
{
    int r = io_write_full(*(const int *)ctx, piece, DEADLINE_NEVER);

    return r < 0 ? err_sys(e, -r, "write") : 0;
}

static int export(struct image_store *s, const char *name, const char *path)
{
    auto_fd to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (to < 0)
        return err_sys(&err, errno, "open '%s'", path), fail("export");
    return image_export(s, name, write_piece, &to, &err) < 0 ? fail("export") : 0;
}

static int list(struct image_store *s)
{
    struct image_store_image **images = NULL;
    size_t count = 0;

    if (image_store_image_list(s, &images, &count, &err) < 0)
        return fail("list");
    for (size_t i = 0; i < count; i++) {
        printf("%s %llu %zu\n", images[i]->name, (unsigned long long)images[i]->bytes,
               images[i]->layers_count);
        free(images[i]);
    }
    free(images);
    return 0;
}

static int layers(struct image_store *s, const char *store, const char *name)
{
    struct image_store_image *image = NULL;

    if (image_store_image_get(s, name, NULL, &image, &err) < 0)
        return fail("layers");
    for (size_t i = 0; i < image->layers_count; i++)
        printf("%s/layers/%s/fs\n", store, image_digest_hex(&image->layers[i].diff_id));
    free(image);
    return 0;
}

static int gc(struct image_store *s, const char *text)
{
    struct image_store_freed freed;
    uint64_t bytes = 0;

    if (str_to_u64(str_of(text), &bytes) < 0 || image_store_gc(s, bytes, &freed, &err) < 0)
        return fail("gc");
    printf("images=%zu layers=%zu blobs=%zu bytes=%llu\n", freed.images, freed.layers, freed.blobs,
           (unsigned long long)freed.bytes);
    return 0;
}

static int usage(struct image_store *s)
{
    struct image_store_usage u;

    image_store_usage(s, &u);
    printf("images=%zu layers=%zu blobs=%zu\n", u.images, u.layers, u.blobs);
    return 0;
}

static int command(struct image_store *s, const char *store, int argc, char **argv)
{
    const char *name = argv[0];
    int r;

    if (strcmp(name, "import") == 0 && argc >= 2)
        return import(s, argv[1], argc > 2 ? argv[2] : NULL);
    if (strcmp(name, "export") == 0 && argc == 3)
        return export(s, argv[1], argv[2]);
    if (strcmp(name, "list") == 0)
        return list(s);
    if (strcmp(name, "layers") == 0 && argc == 2)
        return layers(s, store, argv[1]);
    if (strcmp(name, "gc") == 0 && argc == 2)
        return gc(s, argv[1]);
    if (strcmp(name, "usage") == 0)
        return usage(s);
    if (strcmp(name, "verify") == 0) {
        r = image_store_verify(s, &err);
        return r < 0 ? fail("verify") : printf("%d\n", r) < 0;
    }
    r = strcmp(name, "remove") == 0 && argc == 2 ? image_store_image_remove(s, argv[1], &err)
        : strcmp(name, "settle") == 0            ? image_store_settle(s, &err)
                                                 : err_set(&err, EINVAL, "unknown command");
    return r < 0 ? fail(name) : 0;
}

int main(int argc, char **argv)
{
    struct image_hands hands = {.limits = UNPACK_LIMITS_DEFAULT};
    struct image_store *s = NULL;
    struct image_store_conf conf;
    int r;

    if (argc < 6 || strcmp(argv[1], "--store") != 0 || strcmp(argv[3], "--broker") != 0) {
        fprintf(stderr, "usage: imagectl --store DIR --broker SOCKET COMMAND...\n");
        return 2;
    }
    hands.broker = argv[4];
    conf = (struct image_store_conf){argv[2], image_hands_of(&hands)};
    if (image_store_open(&conf, &s, &err) < 0)
        return fail("open");
    r = command(s, argv[2], argc - 5, argv + 5);
    image_store_close(s);
    return r;
}
