/* vault_files.c - what of a vault outlives this process: a file in the directory of its sandbox,
 * sealed by a key that the server holds, or without values. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "egress/egress.h"
#include "egress/vault/vault_keep.h"

#define NEW_FILE EGRESS_VAULT_FILE ".new"

static const unsigned char *key_of(const struct egress *g)
{
    return g->conf.seals_vaults ? g->conf.vault_key : NULL;
}

/* Without fsync: it would hold up the loop, and so the DNS of all sandboxes. A kill of any process
 * of ours loses nothing; what a power failure leaves half-written does not open, and is lost. */
static int replace_file(int dir, struct str text, struct err *e)
{
    auto_fd fd = openat(dir, NEW_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : io_write_full(fd, text, DEADLINE_NEVER);

    if (r == 0 && renameat(dir, NEW_FILE, dir, EGRESS_VAULT_FILE) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(dir, NEW_FILE, 0);
    return r < 0 ? err_sys(e, -r, "store the credential vault") : 0;
}

int vault_files_store(void *user, const struct vault_set *next, struct err *e)
{
    struct guarded *b = user;
    AUTO_BUF(text, VAULT_FILE_BYTES_MAX);
    auto_fd dir = -EBADF;
    int r;

    if (b->egress->only) /* a sidecar: nothing outlives it */
        return 0;
    dir = b->egress->enforcer->open_dir(b, e);
    if (dir < 0)
        return dir;
    if (!next)
        return unlinkat(dir, EGRESS_VAULT_FILE, 0) < 0 && errno != ENOENT
                   ? err_sys(e, errno, "remove the stored credential vault")
                   : 0;
    r = vault_keep_write(next, key_of(b->egress), str_of(b->id), &text, e);
    return r < 0 ? r : replace_file(dir, buf_str(&text), e);
}

/* Values that the configuration does not want on disk any more go. */
static void forget_values(struct guarded *b)
{
    struct vault_set *s = vault_current(b->vault);
    struct err e = {0};

    if (s && vault_files_store(b, s, &e) < 0)
        (void)log_err(&e, "cannot remove values of a lost vault");
    vault_set_unref(s);
}

static void report_loss(struct guarded *b, const struct err *why)
{
    static const char reason[] = "the values did not outlive opensandbox-egress: requests with "
                                 "their placeholders are refused";

    b->vault_lost = true;
    b->egress->stats.vaults_lost++;
    guarded_event(b, "vault.lost", reason, str_of(why->msg));
    log_event(LOG_ERROR, "a credential vault is lost", LOG_STR("sandbox", b->id),
              LOG_STR("error", why->msg));
}

int vault_files_open(struct guarded *b, struct err *e)
{
    AUTO_BUF(text, VAULT_FILE_BYTES_MAX);
    struct vault *vault;
    auto_fd dir = -EBADF;
    struct err why = {0};
    int r;

    if (b->vault)
        return 0;
    if (!b->egress->only) {
        dir = b->egress->enforcer->open_dir(b, e);
        if (dir < 0)
            return dir;
    }
    vault = vault_new();
    r = dir < 0 ? -ENOENT
                : io_read_regular(dir, EGRESS_VAULT_FILE, VAULT_FILE_BYTES_MAX, &text, &why);
    if (r != -ENOENT) /* what cannot be read at all is lost, too */
        r = vault_keep_read(vault, key_of(b->egress), str_of(b->id), buf_str(&text), &why);
    if (r < 0 && r != -ENOENT) {
        vault_free(vault);
        *e = why;
        return r;
    }
    b->vault = vault;
    if (r == VAULT_LOST)
        report_loss(b, &why);
    if (r == VAULT_LOST && !b->egress->conf.seals_vaults)
        forget_values(b);
    return 0;
}
