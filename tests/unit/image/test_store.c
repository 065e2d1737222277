#include "image/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/io.h"
#include "base/map.h"
#include "base/time.h"
#include "folder.h"

/* Hands without a broker: a "layer" is one file with the blob's bytes, its diff id their hash. */
struct hands {
    int unpacked, erased;
    bool fails;
};

static int fake_unpack(void *ctx, int blob, int dir, const volatile bool *cancel,
                       struct image_store_unpacked *ret, struct err *e)
{
    struct hands *h = ctx;
    char bytes[4096];
    auto_fd fd = openat(dir, "content", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ssize_t n = read(blob, bytes, sizeof(bytes));

    __atomic_add_fetch(&h->unpacked, 1, __ATOMIC_SEQ_CST);
    CHECK(fd >= 0 && n >= 0);
    CHECK_EQ(write(fd, bytes, (size_t)n), n);
    if (cancel && *cancel)
        return err_set(e, ECANCELED, "cancelled");
    if (h->fails)
        return err_set(e, ENOSPC, "'x': write: No space left on device");
    (void)usleep(20000); /* others come to wait */
    *ret = (struct image_store_unpacked){.entries = 1, .file_bytes = (uint64_t)n};
    image_digest_of(str_make(bytes, (size_t)n), &ret->diff_id);
    return 0;
}

static int fake_erase(void *ctx, int parent, const char *name, struct err *e)
{
    struct hands *h = ctx;

    h->erased++;
    return tree_remove(parent, name, e);
}

static struct image_store *open_store(struct hands *h)
{
    struct image_store *s = NULL;
    struct err e = {0};
    struct image_store_conf conf = {
        "store", {fake_unpack, fake_erase, h}
    };

    if (image_store_open(&conf, &s, &e) < 0)
        printf("# %s\n", e.msg);
    CHECK(s);
    return s;
}

static struct image_digest put(struct image_store *s, const char *text)
{
    struct image_digest d;
    struct err e = {0};

    image_digest_of(str_of(text), &d);
    CHECK_EQ(image_store_blob_put(s, &d, str_of(text), &e), 0);
    return d;
}

/* An image of one layer, unpacked and recorded. */
static struct image_store_image make_image(struct image_store *s, const char *name,
                                           const char *layer)
{
    struct image_store_image image = {.layers_count = 1};
    struct err e = {0};

    (void)snprintf(image.name, sizeof(image.name), "%s", name);
    image.manifest = put(s, name);
    image.config = put(s, "{}");
    image.layers[0].blob = image.layers[0].diff_id = put(s, layer);
    CHECK_EQ(image_store_layer_unpack(s, &image.layers[0].blob, &image.layers[0].diff_id, NULL,
                                      NULL, &e),
             0);
    CHECK_EQ(image_store_image_put(s, &image, &e), 0);
    return image;
}

TEST(store, blobs_appear_whole_and_are_found_again)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_digest d = put(s, "hello");
    AUTO_BUF(text, 100);
    uint64_t bytes = 0;

    CHECK_EQ(image_store_blob_find(s, &d, &bytes), 1);
    CHECK_EQ(bytes, 5);
    image_store_close(s);
    s = open_store(&h);
    CHECK_EQ(image_store_blob_find(s, &d, NULL), 1);
    CHECK_EQ(image_store_blob_read(s, &d, 100, &text, NULL), 0);
    CHECK(str_eq(buf_str(&text), STR("hello")));
    image_store_close(s);
}

TEST(store, a_part_goes_on_where_it_ended)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_digest d;
    uint64_t have = 9;
    int fd = -EBADF, other;

    image_digest_of(STR("hello world"), &d);
    CHECK_EQ(image_store_part_open(s, &d, &fd, &have, NULL), 0);
    CHECK_EQ(have, 0);
    CHECK_EQ(image_store_part_open(s, &d, &other, &have, NULL), -EBUSY);
    CHECK_EQ(write(fd, "hello ", 6), 6);
    image_store_part_abandon(s, &d, fd, true);
    image_store_close(s);
    s = open_store(&h);
    CHECK_EQ(image_store_part_open(s, &d, &fd, &have, NULL), 0);
    CHECK_EQ(have, 6);
    CHECK_EQ(pwrite(fd, "world", 5, 6), 5);
    CHECK_EQ(image_store_part_commit(s, &d, fd, NULL), 0);
    CHECK_EQ(image_store_blob_find(s, &d, &have), 1);
    CHECK_EQ(have, 11);
    CHECK_EQ(image_store_verify(s, NULL), 0);
    image_store_close(s);
}

TEST(store, a_file_without_a_name_becomes_a_blob)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_digest d;
    int fd = image_store_temp_open(s, NULL);

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "tmp", 3), 3);
    image_digest_of(STR("tmp"), &d);
    CHECK_EQ(image_store_temp_commit(s, &d, fd, NULL), 0);
    fd = image_store_blob_open(s, &d, NULL);
    CHECK(fd >= 0);
    fd_close(fd);
    image_store_close(s);
}

TEST(store, two_processes_cannot_use_one_directory)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h), *other = NULL;
    struct err e = {0};
    struct image_store_conf conf = {
        "store", {fake_unpack, fake_erase, &h}
    };

    CHECK_EQ(image_store_open(&conf, &other, &e), -EBUSY);
    image_store_close(s);
}

static void *unpack_again(void *ctx)
{
    struct image_digest d;

    image_digest_of(STR("layer"), &d);
    CHECK_EQ(image_store_layer_unpack(ctx, &d, &d, NULL, NULL, NULL), 0);
    return NULL;
}

TEST(store, a_layer_is_unpacked_once)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    pthread_t threads[4];
    struct image_digest d = put(s, "layer");
    int fd;

    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, unpack_again, s), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(h.unpacked, 1);
    CHECK_EQ(image_store_layer_find(s, &d), 1);
    fd = image_store_layer_open(s, &d, NULL);
    CHECK(fd >= 0);
    fd_close(fd);
    image_store_close(s);
}

TEST(store, a_failed_unpack_leaves_nothing)
{
    AUTO_FOLDER(folder);
    struct hands h = {.fails = true};
    struct image_store *s = open_store(&h);
    struct image_digest d = put(s, "layer"), other;
    bool cancel = true;
    struct err e = {0};

    CHECK_EQ(image_store_layer_unpack(s, &d, &d, NULL, NULL, &e), -ENOSPC);
    CHECK(strstr(e.msg, d.text) && strstr(e.msg, "No space"));
    h.fails = false;
    CHECK_EQ(image_store_layer_unpack(s, &d, &d, &cancel, NULL, &e), -ECANCELED);
    image_digest_of(STR("other"), &other);
    CHECK_EQ(image_store_layer_unpack(s, &d, &other, NULL, NULL, &e), -EBADMSG);
    other.text[19] = '\0'; /* as far as it is told */
    CHECK(strstr(e.msg, other.text));
    CHECK_EQ(image_store_layer_find(s, &d), 0);
    CHECK_EQ(rmdir("store/layers"), 0); /* it is empty */
    CHECK_EQ(mkdir("store/layers", 0700), 0);
    image_store_close(s);
}

TEST(store, an_unknown_diff_id_is_told)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_digest d = put(s, "layer"), found = {""};

    CHECK_EQ(image_store_layer_unpack(s, &d, NULL, NULL, &found, NULL), 0);
    CHECK(image_digest_eq(&d, &found));
    CHECK_EQ(image_store_layer_unpack(s, &d, NULL, NULL, &found, NULL), 0); /* again: the same */
    CHECK_EQ(image_store_layer_find(s, &d), 1);
    image_store_close(s);
}

TEST(store, leftovers_are_swept_at_start)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_digest d = put(s, "layer");

    CHECK_EQ(image_store_layer_unpack(s, &d, &d, NULL, NULL, NULL), 0);
    image_store_close(s);
    CHECK_EQ(mkdir("store/layers/tmp-x", 0700), 0);
    CHECK_EQ(mkdir("store/layers/tmp-x/fs", 0700), 0);
    file_write("store/blobs/.half", "x");
    file_write("store/parts/what", "x");
    file_write("store/images/rubbish", "x");
    h.erased = 0;
    s = open_store(&h);
    CHECK_EQ(h.erased, 1);
    CHECK_EQ(access("store/layers/tmp-x", F_OK), -1);
    CHECK_EQ(access("store/blobs/.half", F_OK), -1);
    CHECK_EQ(access("store/parts/what", F_OK), -1);
    CHECK_EQ(access("store/images/rubbish", F_OK), -1);
    CHECK_EQ(image_store_layer_find(s, &d), 1);
    image_store_close(s);
}

/* Writes another boot id into the layer's info, as if the machine had restarted. */
static void pretend_restart(const struct image_digest *d)
{
    char path[200];

    (void)snprintf(path, sizeof(path), "store/layers/%.64s/info", image_digest_hex(d));
    file_write(path, "1 5 another-boot 1\n");
}

TEST(store, after_a_crash_of_the_machine_only_settled_layers_count)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_digest a = put(s, "settled"), b = put(s, "not settled");

    CHECK_EQ(image_store_layer_unpack(s, &a, &a, NULL, NULL, NULL), 0);
    CHECK_EQ(image_store_settle(s, NULL), 0);
    CHECK_EQ(image_store_layer_unpack(s, &b, &b, NULL, NULL, NULL), 0);
    image_store_close(s);
    pretend_restart(&a);
    pretend_restart(&b);
    s = open_store(&h);
    CHECK_EQ(image_store_layer_find(s, &a), 1);
    CHECK_EQ(image_store_layer_find(s, &b), 0);
    image_store_close(s);
}

TEST(store, images_are_recorded_found_and_listed)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_store_image image = make_image(s, "docker.io/library/b:1", "layer"), *found = NULL;
    struct image_store_image **list = NULL;
    size_t count = 0;

    (void)make_image(s, "docker.io/library/a:1", "layer");
    image_store_close(s);
    s = open_store(&h);
    CHECK_EQ(image_store_image_get(s, image.name, NULL, &found, NULL), 0);
    CHECK(image_digest_eq(&found->manifest, &image.manifest) && found->layers_count == 1);
    CHECK_EQ(found->bytes, strlen(image.name) + 2 + 5);
    CHECK(found->created_us > 0 && found->last_used_us > 0);
    free(found);
    CHECK_EQ(image_store_image_list(s, &list, &count, NULL), 0);
    CHECK_EQ(count, 2);
    CHECK(strcmp(list[0]->name, "docker.io/library/a:1") == 0);
    free(list[0]);
    free(list[1]);
    free(list);
    CHECK_EQ(image_store_image_get(s, "none", NULL, &found, NULL), -ENOENT);
    image_store_close(s);
}

TEST(store, a_record_needs_all_of_the_image)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_store_image image = make_image(s, "a", "layer");
    struct err e = {0};

    image_digest_of(STR("missing"), &image.layers[0].blob);
    CHECK_EQ(image_store_image_put(s, &image, &e), -ENOENT);
    CHECK(strstr(e.msg, image.layers[0].blob.text));
    image_store_close(s);
}

TEST(store, gc_keeps_what_records_and_pins_need)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_store_image image = make_image(s, "a", "layer");
    struct image_digest loose = put(s, "loose"), held = put(s, "held");
    struct image_store_pins *pins = image_store_pins_new(s);
    struct image_store_freed freed;

    CHECK_EQ(image_store_layer_unpack(s, &loose, &loose, NULL, NULL, NULL), 0);
    CHECK_EQ(image_store_layer_unpack(s, &held, &held, NULL, NULL, NULL), 0);
    image_store_pins_add(pins, &held);
    image_store_pins_add(pins, &held);
    CHECK_EQ(image_store_gc(s, UINT64_MAX, &freed, NULL), 0);
    CHECK_EQ(freed.layers, 1);
    CHECK_EQ(freed.blobs, 1);
    CHECK_EQ(image_store_layer_find(s, &loose), 0);
    CHECK_EQ(image_store_layer_find(s, &held), 1);
    CHECK_EQ(image_store_layer_find(s, &image.layers[0].diff_id), 1);
    image_store_pins_free(pins);
    CHECK_EQ(image_store_gc(s, UINT64_MAX, &freed, NULL), 0);
    CHECK_EQ(freed.layers, 1);
    image_store_close(s);
}

TEST(store, gc_removes_the_least_recently_used_that_is_not_in_use)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_store_pins *pins = image_store_pins_new(s);
    struct image_store_image *found = NULL;
    struct image_store_freed freed;
    struct image_store_usage usage;

    (void)make_image(s, "used", "layer of used");
    (void)make_image(s, "old", "layer of old");
    (void)make_image(s, "new", "layer of new");
    CHECK_EQ(image_store_image_get(s, "used", pins, &found, NULL), 0);
    free(found);
    image_store_usage(s, &usage);
    CHECK_EQ(usage.images, 3);
    CHECK_EQ(image_store_gc(s, usage.blob_bytes + usage.layer_bytes - 1, &freed, NULL), 0);
    CHECK_EQ(freed.images, 1);
    CHECK_EQ(image_store_image_get(s, "old", NULL, &found, NULL), -ENOENT);
    CHECK_EQ(image_store_gc(s, 0, &freed, NULL), 0);
    CHECK_EQ(freed.images, 1);
    CHECK_EQ(image_store_image_get(s, "used", NULL, &found, NULL), 0);
    free(found);
    image_store_pins_free(pins);
    CHECK_EQ(image_store_gc(s, 0, &freed, NULL), 0);
    image_store_usage(s, &usage);
    CHECK_EQ(usage.images + usage.layers + usage.blobs, 0);
    image_store_close(s);
}

TEST(store, verify_drops_bad_blobs_with_their_images)
{
    AUTO_FOLDER(folder);
    struct hands h = {0};
    struct image_store *s = open_store(&h);
    struct image_store_image image = make_image(s, "a", "layer"), *found = NULL;
    char path[200];

    (void)make_image(s, "b", "other layer");
    CHECK_EQ(image_store_verify(s, NULL), 0);
    (void)snprintf(path, sizeof(path), "store/blobs/%.64s",
                   image_digest_hex(&image.layers[0].blob));
    file_write(path, "laxer");
    CHECK_EQ(image_store_verify(s, NULL), 1);
    CHECK_EQ(image_store_image_get(s, "a", NULL, &found, NULL), -ENOENT);
    CHECK_EQ(image_store_image_get(s, "b", NULL, &found, NULL), 0);
    free(found);
    image_store_close(s);
}
