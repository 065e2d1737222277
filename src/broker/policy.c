/* policy.c - policies of the network: a file in the slot's directory says that there are rules. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"

#define MARKER "guarded" /* made before the first rule of the slot */

static int note(int dir, struct err *e)
{
    auto_fd fd = openat(dir, MARKER, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    return fd < 0 ? err_sys(e, errno, "note the policy") : 0;
}

int policy_close(const struct broker *b, uint32_t slot, int dir, struct err *e)
{
    int r;

    if (!b->host.has_bridge)
        return err_set(e, EINVAL, "a sandbox without a network needs no policy");
    r = note(dir, e);
    return r < 0 ? r : netns_policy_close(&b->host.net, slot, e);
}

/* Takes the slot's lock, so that its number is not reused while its rules change. */
static int lock(const struct broker *b, const struct slot_record *record, int dir, struct err *e)
{
    if (record->net != PLAN_NET_BRIDGE)
        return err_set(e, EINVAL, "sandbox '%s' has no network", record->id);
    if (flock(dir, LOCK_EX) < 0)
        return err_sys(e, errno, "lock slot %u", record->slot);
    if (life_is_current(b, record->slot, dir))
        return 0;
    (void)flock(dir, LOCK_UN);
    return err_set(e, ENOENT, "sandbox '%s' was removed", record->id);
}

int policy_set(const struct broker *b, const struct slot_record *record, int dir,
               const struct netns_policy *policy, struct err *e)
{
    int r = lock(b, record, dir, e);

    if (r < 0)
        return r;
    r = note(dir, e);
    if (r == 0)
        r = netns_policy_set(&b->host.net, record->slot, policy, e);
    (void)flock(dir, LOCK_UN);
    return r < 0 ? err_wrap(e, r, "policy of sandbox '%s'", record->id) : 0;
}

int policy_learn(const struct broker *b, const struct slot_record *record, int dir,
                 const struct netns_entry *entries, size_t count, struct err *e)
{
    int r = lock(b, record, dir, e);

    if (r < 0)
        return r;
    r = netns_policy_learn(&b->host.net, record->slot, entries, count, e);
    (void)flock(dir, LOCK_UN);
    return r;
}

int policy_traffic_of(const struct broker *b, const struct slot_record *record,
                      struct netns_traffic *ret, struct err *e)
{
    if (record->net != PLAN_NET_BRIDGE)
        return err_set(e, EINVAL, "sandbox '%s' has no network", record->id);
    return netns_policy_traffic(&b->host.net, record->slot, ret, e);
}

int policy_forget(const struct broker *b, uint32_t slot, int dir, struct err *e)
{
    int r = 0;

    if (faccessat(dir, MARKER, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        r = netns_policy_clear(&b->host.net, slot, e);
    return r < 0 ? err_wrap(e, r, "remove its rules") : 0;
}
