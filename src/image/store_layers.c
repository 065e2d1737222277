/* store_layers.c - unpacked layers. One is unpacked in layers/tmp-<random> and renamed to its diff
 * id when all of it is there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/io.h"
#include "base/mem.h"
#include "image/store_internal.h"

enum { TEMP_ID = 16, INFO_BYTES_MAX = 256, ENTRY_BYTES = 512 };

#define TEMP_PREFIX "tmp-"

/* --- info: "1 <bytes> <boot id> <entries>\n", the version first --- */

static int info_write(const struct image_store *s, int dir, const struct image_store_unpacked *u,
                      uint64_t bytes, struct err *e)
{
    char text[INFO_BYTES_MAX];
    int n = snprintf(text, sizeof(text), "1 %llu %s %llu\n", (unsigned long long)bytes, s->boot,
                     (unsigned long long)u->entries);

    return io_write_file_atomic(dir, "info", str_make(text, (size_t)n), 0600, e);
}

static bool info_read(const struct image_store *s, int dir, struct image_store_layer_state *ret)
{
    AUTO_BUF(text, INFO_BYTES_MAX);
    struct str rest, version, bytes, boot;
    struct stat st;

    if (io_read_regular(dir, "info", INFO_BYTES_MAX, &text, NULL) < 0)
        return false;
    rest = buf_str(&text);
    if (!str_cut(&rest, ' ', &version) || !str_eq(version, STR("1")) ||
        !str_cut(&rest, ' ', &bytes) || str_to_u64(bytes, &ret->bytes) < 0 ||
        !str_cut(&rest, ' ', &boot))
        return false;
    ret->settled = fstatat(dir, "settled", &st, AT_SYMLINK_NOFOLLOW) == 0;
    /* After a crash of the machine the files may be empty, unless they were made durable. */
    return (ret->settled || str_eq(boot, str_of(s->boot))) &&
           fstatat(dir, "fs", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* --- listing --- */

static int layer_load(struct image_store *s, const char *name, struct err *e)
{
    struct image_store_layer_state *state;
    auto_fd dir = fd_open_at(s->layers, name, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, NULL);
    int r;

    if (dir < 0) {
        (void)unlinkat(s->layers, name, 0);
        return 0;
    }
    state = mem_new(struct image_store_layer_state);
    if (image_store_is_hex(name) && info_read(s, dir, state)) {
        r = map_set(&s->layer_states, str_of(name), state);
        if (r == 0)
            return 0;
        free(state);
        return err_sys(e, -r, "remember a layer");
    }
    free(state);
    r = s->hands.erase(s->hands.ctx, s->layers, name, e);
    return r < 0 && r != -ENOENT ? err_wrap(e, r, "erase an unfinished layer") : 0;
}

int image_store_layers_load(struct image_store *s, struct err *e)
{
    return image_store_each(s->layers, layer_load, s, e);
}

int image_store_layer_erase(struct image_store *s, struct str hex, struct err *e)
{
    char name[2 * SHA256_BYTES + 1];
    int r;

    if (str_copy(name, sizeof(name), hex) < 0)
        return -EINVAL;
    r = s->hands.erase(s->hands.ctx, s->layers, name, e);
    if (r < 0 && r != -ENOENT)
        return err_wrap(e, r, "erase layer %s", name);
    (void)map_remove(&s->layer_states, hex);
    return 0;
}

int image_store_layer_find(struct image_store *s, const struct image_digest *diff_id)
{
    const struct image_store_layer_state *state;
    bool there;

    image_store_take_lock(s);
    state = map_get(&s->layer_states, image_store_hex(diff_id));
    there = state && !state->busy;
    image_store_give_lock(s);
    return there;
}

int image_store_layer_open(struct image_store *s, const struct image_digest *diff_id, struct err *e)
{
    char path[2 * SHA256_BYTES + sizeof("/fs")];

    (void)snprintf(path, sizeof(path), "%s/fs", image_digest_hex(diff_id));
    return fd_open_at(s->layers, path, O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
}

/* --- unpacking --- */

/* Waits until no thread unpacks it, and takes the turn. 1 = it is there, 0 = our turn. */
static int turn_take(struct image_store *s, const struct image_digest *diff_id, struct err *e)
{
    struct image_store_layer_state *state;
    int r = 0;

    image_store_take_lock(s);
    while ((state = map_get(&s->layer_states, image_store_hex(diff_id))) && state->busy)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    if (state) {
        r = 1;
    } else {
        state = mem_new(struct image_store_layer_state);
        state->busy = true;
        r = map_add(&s->layer_states, image_store_hex(diff_id), state);
        if (r < 0) {
            free(state);
            r = err_sys(e, -r, "remember a layer");
        }
    }
    image_store_give_lock(s);
    return r;
}

static void turn_end(struct image_store *s, const struct image_digest *diff_id, bool done,
                     uint64_t bytes)
{
    struct image_store_layer_state *state;

    image_store_take_lock(s);
    state = map_get(&s->layer_states, image_store_hex(diff_id));
    if (state && done)
        *state = (struct image_store_layer_state){.bytes = bytes};
    else
        (void)map_remove(&s->layer_states, image_store_hex(diff_id));
    (void)pthread_cond_broadcast(&s->changed);
    image_store_give_lock(s);
}

/* Gives an unpacked layer its name. */
static int layer_place(struct image_store *s, const char *temp, const struct image_digest *diff_id,
                       struct err *e)
{
    if (renameat2(s->layers, temp, s->layers, image_digest_hex(diff_id), RENAME_NOREPLACE) < 0)
        return err_sys(e, errno, "place layer %s", diff_id->text);
    return 0;
}

/* Unpacks into layers/<temp>; on failure the caller erases it. */
static int unpack_to(struct image_store *s, const char *temp, const struct image_digest *blob,
                     const volatile bool *cancel, struct image_store_unpacked *ret, struct err *e)
{
    auto_fd from = image_store_blob_open(s, blob, e), dir = -EBADF, fs = -EBADF;
    int r;

    if (from < 0)
        return from;
    if (mkdirat(s->layers, temp, 0700) < 0)
        return err_sys(e, errno, "make room for a layer");
    r = dir = fd_open_at(s->layers, temp, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
    if (r >= 0 && mkdirat(dir, "fs", 0755) < 0)
        r = err_sys(e, errno, "make room for a layer");
    if (r >= 0)
        r = fs = fd_open_at(dir, "fs", O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
    if (r >= 0)
        r = s->hands.unpack(s->hands.ctx, from, fs, cancel, ret, e);
    if (r >= 0)
        r = info_write(s, dir, ret, ret->file_bytes + ret->entries * ENTRY_BYTES, e);
    return r;
}

/* Whose turn it is when the diff id was not known before: another may have been faster. */
static int place_unknown(struct image_store *s, const char *temp,
                         const struct image_store_unpacked *u, uint64_t bytes, struct err *e)
{
    int r = turn_take(s, &u->diff_id, e);

    if (r == 1)
        (void)s->hands.erase(s->hands.ctx, s->layers, temp, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    r = layer_place(s, temp, &u->diff_id, e);
    turn_end(s, &u->diff_id, r == 0, bytes);
    return r;
}

int image_store_layer_unpack(struct image_store *s, const struct image_digest *blob,
                             const struct image_digest *diff_id, const volatile bool *cancel,
                             struct image_digest *ret_diff_id, struct err *e)
{
    char temp[sizeof(TEMP_PREFIX) + TEMP_ID] = TEMP_PREFIX;
    bool known = diff_id && image_digest_is_set(diff_id);
    struct image_store_unpacked u = {0};
    uint64_t bytes;
    int r = known ? turn_take(s, diff_id, e) : 0;

    if (r == 1 && ret_diff_id)
        *ret_diff_id = *diff_id;
    if (r != 0)
        return r < 0 ? r : 0;
    id_short(temp + sizeof(TEMP_PREFIX) - 1, TEMP_ID);
    r = unpack_to(s, temp, blob, cancel, &u, e);
    bytes = u.file_bytes + u.entries * ENTRY_BYTES;
    if (r >= 0 && known && !image_digest_eq(&u.diff_id, diff_id))
        r = err_set(e, EBADMSG, "it unpacks to %.19s..., but the image says %.19s...",
                    u.diff_id.text, diff_id->text);
    if (r >= 0)
        r = known ? layer_place(s, temp, diff_id, e) : place_unknown(s, temp, &u, bytes, e);
    if (r < 0)
        (void)s->hands.erase(s->hands.ctx, s->layers, temp, NULL);
    if (known)
        turn_end(s, diff_id, r >= 0, bytes);
    if (r < 0)
        return err_wrap(e, r, "layer %s", blob->text);
    if (ret_diff_id)
        *ret_diff_id = u.diff_id;
    return 0;
}

/* --- durability --- */

static int settle_one(struct image_store *s, struct str hex, struct err *e)
{
    char path[2 * SHA256_BYTES + sizeof("/settled")];
    auto_fd fd = -EBADF;

    (void)snprintf(path, sizeof(path), "%.*s/settled", STR_ARG(hex));
    fd = fd_open_at(s->layers, path, O_WRONLY | O_CREAT, 0600, PATH_STRICT, e);
    return fd < 0 ? fd : 0;
}

/* Notes which layers were there before the sync: what comes during it is not covered. */
int image_store_settle(struct image_store *s, struct err *e)
{
    auto_map fresh;
    struct str hex;
    void *value;
    size_t at = 0;
    int r = 0;

    map_init(&fresh, IMAGE_STORE_BLOBS_MAX, NULL);
    image_store_take_lock(s);
    while (r == 0 && map_next(&s->layer_states, &at, &hex, &value)) {
        const struct image_store_layer_state *state = value;

        if (!state->busy && !state->settled)
            r = map_add(&fresh, hex, NULL);
    }
    image_store_give_lock(s);
    if (r < 0 || fresh.n == 0)
        return r < 0 ? err_sys(e, -r, "remember layers") : 0;
    if (syncfs(s->dir) < 0)
        return err_sys(e, errno, "sync the image store");
    image_store_take_lock(s);
    for (at = 0; r == 0 && map_next(&fresh, &at, &hex, NULL);) {
        struct image_store_layer_state *state = map_get(&s->layer_states, hex);

        if (state)
            r = settle_one(s, hex, e);
        if (state && r == 0)
            state->settled = true;
    }
    image_store_give_lock(s);
    return r;
}
