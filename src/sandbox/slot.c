#include "sandbox/slot.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/tree.h"

enum {
    RECORD_MAGIC = 0x6f736231,
    RECORD_VERSION = 3,
    NAME_MAX_BYTES = 16,
    LITTLE_ENTRIES = 1000, /* about ten milliseconds */
};

static void slot_name(uint32_t slot, char out[NAME_MAX_BYTES])
{
    (void)snprintf(out, NAME_MAX_BYTES, "%u", slot);
}

/* --- claiming --- */

/* Files beside the writable layer, which execd opens and writes. */
static int slot_make_files(int dir, struct err *e)
{
    static const char *const names[] = {"exit", "log"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (mknodat(dir, names[i], S_IFREG | 0600, 0) < 0)
            return err_sys(e, errno, "make %s", names[i]);
    return 0;
}

int slot_open(const struct host *h, uint32_t slot, struct err *e)
{
    char name[NAME_MAX_BYTES];

    slot_name(slot, name);
    return fd_open_at(h->slots, name, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
}

int slot_claim(const struct host *h, uint32_t hint, uint32_t *ret_slot, int *ret_dir, struct err *e)
{
    for (uint32_t i = 0; i < SLOT_COUNT_MAX; i++) {
        uint32_t slot = (hint + i) % SLOT_COUNT_MAX;
        char name[NAME_MAX_BYTES];
        auto_fd dir = -EBADF;
        int r;

        slot_name(slot, name);
        if (mkdirat(h->slots, name, 0711) < 0) {
            if (errno == EEXIST)
                continue;
            return err_sys(e, errno, "claim slot %u", slot);
        }
        dir = slot_open(h, slot, e);
        r = dir < 0 ? dir : disk_make_layer(dir, slot_uid_first(slot), e);
        if (r == 0)
            r = slot_make_files(dir, e);
        if (r < 0) {
            (void)slot_remove(h, slot, NULL);
            return err_wrap(e, r, "slot %u", slot);
        }
        *ret_slot = slot;
        *ret_dir = take_fd(&dir);
        return 0;
    }
    return err_set(e, ENOSPC, "all %d slots are taken", SLOT_COUNT_MAX);
}

/* --- records --- */

int slot_write_record(int dir, const struct slot_record *record, struct err *e)
{
    struct slot_record r = *record;
    auto_fd fd = openat(dir, "record", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    r.magic = RECORD_MAGIC;
    r.version = RECORD_VERSION;
    /* A single write: a process that dies here leaves the old record or the new one. */
    if (fd < 0 || pwrite(fd, &r, sizeof(r), 0) != (ssize_t)sizeof(r))
        return err_sys(e, errno, "write the record of slot %u", r.slot);
    return 0;
}

int slot_read_record(int dir, struct slot_record *ret, struct err *e)
{
    auto_fd fd = fd_open_at(dir, "record", O_RDONLY, 0, PATH_STRICT, e);
    struct slot_record record;
    size_t n;
    int r;

    if (fd < 0)
        return fd;
    r = io_pread_full(fd, &record, sizeof(record), 0, &n);
    if (r < 0)
        return err_sys(e, -r, "read a record");
    if (n != sizeof(record) || record.magic != RECORD_MAGIC || record.version != RECORD_VERSION ||
        record.id[PLAN_ID_MAX - 1])
        return err_set(e, EBADMSG, "the record is not whole");
    *ret = record;
    return 0;
}

/* FNV-1a hash of the boot id, read once; 0 where there is none. */
static uint32_t boot_digest(void)
{
    static uint32_t digest;
    AUTO_BUF(id, 64);

    if (digest == 0 &&
        io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &id, NULL) == 0) {
        digest = 2166136261U;
        for (size_t i = 0; i < id.n; i++)
            digest = (digest ^ (unsigned char)id.p[i]) * 16777619U;
    }
    return digest;
}

int slot_owner_of(pid_t pid, struct slot_owner *ret)
{
    *ret = (struct slot_owner){.pid = pid, .boot = boot_digest()};
    return proc_start_time(pid, &ret->start_ticks);
}

bool slot_owner_alive(const struct slot_owner *owner)
{
    uint64_t ticks;

    return owner->pid > 0 && owner->boot == boot_digest() &&
           proc_start_time(owner->pid, &ticks) == 0 && ticks == owner->start_ticks;
}

/* --- removing --- */

static int remove_some(const struct host *h, uint32_t slot, size_t most, struct err *e)
{
    char name[NAME_MAX_BYTES];
    int r;

    slot_name(slot, name);
    r = tree_remove_some(h->slots, name, most, e);
    if (r == 0)
        disk_forget(&h->disk, h->slots, slot);
    return r;
}

int slot_remove(const struct host *h, uint32_t slot, struct err *e)
{
    return remove_some(h, slot, SIZE_MAX, e);
}

int slot_remove_little(const struct host *h, uint32_t slot, struct err *e)
{
    return remove_some(h, slot, LITTLE_ENTRIES, e);
}

int slot_each(const struct host *h, void (*visit)(void *user, uint32_t slot), void *user,
              struct err *e)
{
    int fd = openat(h->slots, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        fd_close(fd);
        return err_sys(e, errno, "list the slots");
    }
    for (struct dirent *d; (d = readdir(dir));) {
        uint64_t slot;

        if (str_to_u64_range(str_of(d->d_name), 0, SLOT_COUNT_MAX - 1, &slot) == 0)
            visit(user, (uint32_t)slot);
    }
    closedir(dir);
    return 0;
}
