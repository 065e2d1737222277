#include "server/runtime/docker/boxes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"

enum { PORT_TRIES = 200 };

struct box {
    struct box_facts facts;
    int watch; /* an eventfd, the other descriptor of which belongs to the table of sandboxes */
};

static void box_free(void *p)
{
    struct box *box = p;

    fd_close(box->watch);
    mem_wipe(box->facts.token, sizeof(box->facts.token));
    mem_wipe(box->facts.egress_token, sizeof(box->facts.egress_token));
    free(box);
}

void boxes_init(struct boxes *b)
{
    (void)pthread_mutex_init(&b->lock, NULL);
    map_init(&b->by_id, BOXES_MAX, box_free);
    map_init(&b->resting, BOXES_MAX, free);
}

void boxes_done(struct boxes *b)
{
    map_done(&b->by_id);
    map_done(&b->resting);
    (void)pthread_mutex_destroy(&b->lock);
}

/* Call with the lock held. */
static void mark_port(struct boxes *b, uint16_t port, bool used)
{
    unsigned at = (unsigned)port - BOX_PORT_FIRST;

    if (port < BOX_PORT_FIRST || port > BOX_PORT_LAST)
        return;
    if (used)
        b->ports[at / 8] |= (uint8_t)(1U << at % 8);
    else
        b->ports[at / 8] &= (uint8_t) ~(1U << at % 8);
}

static void mark_ports(struct boxes *b, const uint16_t ports[BOX_PORTS], bool used)
{
    for (size_t i = 0; i < BOX_PORTS; i++)
        mark_port(b, ports[i], used);
}

/* Frees the ports of what there is by that id; the box belongs to the caller. False when there is
 * nothing. */
static bool give_up(struct boxes *b, struct str id, struct box **ret_box)
{
    uint16_t *resting = map_take(&b->resting, id);
    struct box *box = *ret_box = map_take(&b->by_id, id);
    bool was_there = resting || box;

    if (resting)
        mark_ports(b, resting, false);
    if (box)
        mark_ports(b, box->facts.ports, false);
    free(resting);
    return was_there;
}

static void wake(struct box *box)
{
    const uint64_t one = 1;

    (void)!write(box->watch, &one, sizeof(one));
}

uint64_t boxes_wakes(struct boxes *b)
{
    uint64_t wakes;

    (void)pthread_mutex_lock(&b->lock);
    wakes = b->wakes;
    (void)pthread_mutex_unlock(&b->lock);
    return wakes;
}

/* Whether a wake for it came since; in doubt, yes. Call with the lock held. */
static bool was_woken(const struct boxes *b, struct str id, uint64_t since)
{
    if (b->wakes - since > BOXES_RECENT)
        return true;
    for (uint64_t i = since; i < b->wakes; i++)
        if (str_eq(id, str_of(b->recent[i % BOXES_RECENT])))
            return true;
    return false;
}

int boxes_set(struct boxes *b, struct str id, const struct box_facts *facts, uint64_t wakes,
              int *ret_watch)
{
    int watch = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int theirs = watch < 0 ? -1 : fcntl(watch, F_DUPFD_CLOEXEC, 3);
    struct box *box, *old;
    int r;

    if (theirs < 0) {
        r = -errno;
        fd_close(watch);
        return r;
    }
    box = mem_new(struct box);
    *box = (struct box){*facts, watch};
    (void)pthread_mutex_lock(&b->lock);
    (void)give_up(b, id, &old);
    r = map_add(&b->by_id, id, box);
    if (r == 0)
        mark_ports(b, facts->ports, true);
    if (r == 0 && was_woken(b, id, wakes))
        wake(box);
    (void)pthread_mutex_unlock(&b->lock);
    if (old)
        box_free(old);
    if (r < 0) {
        box_free(box);
        fd_close(theirs);
        return r;
    }
    *ret_watch = theirs;
    return 0;
}

bool boxes_remove(struct boxes *b, struct str id)
{
    struct box *box;
    bool was_there;

    (void)pthread_mutex_lock(&b->lock);
    was_there = give_up(b, id, &box);
    (void)pthread_mutex_unlock(&b->lock);
    if (box)
        box_free(box);
    return was_there;
}

int boxes_get(struct boxes *b, struct str id, struct box_facts *ret)
{
    struct box *box;

    (void)pthread_mutex_lock(&b->lock);
    box = map_get(&b->by_id, id);
    if (box)
        *ret = box->facts;
    (void)pthread_mutex_unlock(&b->lock);
    return box ? 0 : -ENOENT;
}

bool boxes_wake(struct boxes *b, struct str id)
{
    struct box *box;
    bool rests;

    (void)pthread_mutex_lock(&b->lock);
    (void)!str_copy(b->recent[b->wakes++ % BOXES_RECENT], ID_UUID_MAX, id);
    box = map_get(&b->by_id, id);
    if (box)
        wake(box);
    rests = map_has(&b->resting, id);
    (void)pthread_mutex_unlock(&b->lock);
    return rests;
}

void boxes_rest(struct boxes *b, struct str id, const uint16_t ports[BOX_PORTS])
{
    uint16_t *resting = mem_alloc(BOX_PORTS * sizeof(*resting));
    struct box *box;

    memcpy(resting, ports, BOX_PORTS * sizeof(*resting));
    (void)pthread_mutex_lock(&b->lock);
    (void)give_up(b, id, &box);
    if (map_add(&b->resting, id, resting) == 0)
        mark_ports(b, resting, true);
    else
        free(resting);
    (void)pthread_mutex_unlock(&b->lock);
    if (box)
        box_free(box);
}

void boxes_wake_others(struct boxes *b, const struct map *keep)
{
    struct str id;
    void *box;
    size_t at = 0;

    (void)pthread_mutex_lock(&b->lock);
    b->wakes += BOXES_RECENT + 1; /* boxes that are being entered now are looked at once more */
    while (map_next(&b->by_id, &at, &id, &box))
        if (!map_has(keep, id))
            wake(box);
    (void)pthread_mutex_unlock(&b->lock);
}

/* --- ports --- */

/* Whether a process could listen there now. The engine's machine may be another one: then this says
 * little, and the engine refuses a port that is taken. */
static bool is_free(const char *ip, uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || inet_pton(AF_INET, ip, &addr.sin_addr) != 1)
        return true;
    return bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 || errno != EADDRINUSE;
}

uint16_t boxes_port_take(struct boxes *b, const char *ip)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        uint16_t port, random;
        unsigned at;
        bool taken;

        id_random_bytes(&random, sizeof(random));
        at = random % (BOX_PORT_LAST - BOX_PORT_FIRST + 1);
        port = (uint16_t)(BOX_PORT_FIRST + at);
        (void)pthread_mutex_lock(&b->lock);
        taken = b->ports[at / 8] & (1U << at % 8);
        if (!taken)
            mark_port(b, port, true);
        (void)pthread_mutex_unlock(&b->lock);
        if (!taken && is_free(ip, port))
            return port;
        if (!taken)
            boxes_port_give(b, port);
    }
    return 0;
}

void boxes_port_give(struct boxes *b, uint16_t port)
{
    (void)pthread_mutex_lock(&b->lock);
    mark_port(b, port, false);
    (void)pthread_mutex_unlock(&b->lock);
}
