#include "ingress/limits.h"

#include <arpa/inet.h>
#include <errno.h>

#include "base/mem.h"
#include "base/time.h"

enum { MILLI = 1000, SWEEP = 256 };

/* A bucket of thousandths of a permit; it fills with time. */
struct bucket {
    uint64_t at_ns;
    uint64_t milli;
};

struct source {
    uint32_t connections;
    struct bucket requests, failures;
};

void limits_init(struct limits *l, const struct limits_conf *conf)
{
    l->conf = *conf;
    if (!l->conf.burst)
        l->conf.burst = l->conf.rate;
    (void)pthread_mutex_init(&l->lock, NULL);
    map_init(&l->sources, LIMITS_SOURCES_MAX, free);
}

void limits_done(struct limits *l)
{
    map_done(&l->sources);
    (void)pthread_mutex_destroy(&l->lock);
}

static void addr_bytes(const struct sock_addr *addr, uint8_t out[16])
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    memset(out, 0, 16);
    if (addr->any.sa_family == AF_INET6) {
        memcpy(out, &addr->v6.sin6_addr, 16);
    } else if (addr->any.sa_family == AF_INET) {
        memcpy(out, mapped, sizeof(mapped));
        memcpy(out + 12, &addr->v4.sin_addr, 4);
    }
}

struct limits_key limits_key_of(const struct sock_addr *addr)
{
    struct limits_key key;
    bool v4 = addr->any.sa_family == AF_INET ||
              (addr->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr));

    addr_bytes(addr, key.bytes);
    if (!v4)
        memset(key.bytes + 8, 0, 8);
    return key;
}

static struct str key_str(const struct limits_key *key)
{
    return str_make((const char *)key->bytes, sizeof(key->bytes));
}

/* Makes room: the sources that came first and have no connection go. */
static void sweep(struct limits *l)
{
    size_t at = 0, gone = 0;
    struct str key;
    void *value;

    while (gone < SWEEP && map_next(&l->sources, &at, &key, &value))
        if (!((struct source *)value)->connections) {
            (void)map_remove(&l->sources, key);
            gone++;
        }
}

static struct source *source_of(struct limits *l, const struct limits_key *key)
{
    struct source *s = map_get(&l->sources, key_str(key));

    if (s)
        return s;
    if (l->sources.n >= LIMITS_SOURCES_MAX)
        sweep(l);
    s = mem_new(struct source);
    if (map_add(&l->sources, key_str(key), s) < 0) {
        free(s);
        return NULL;
    }
    return s;
}

static void bucket_fill(struct bucket *b, uint64_t now_ns, uint64_t per_minute, uint64_t burst)
{
    uint64_t passed_ms = (now_ns - b->at_ns) / TIME_NS_PER_MS;
    uint64_t added;

    if (!b->at_ns) {
        b->milli = burst * MILLI;
        b->at_ns = now_ns;
        return;
    }
    if (now_ns < b->at_ns)
        return; /* another thread's clock of its last wake-up */
    if (passed_ms > 60 * MILLI)
        passed_ms = 60 * MILLI; /* a minute fills any bucket */
    added = passed_ms * per_minute / 60;
    if (added) {
        b->milli = b->milli + added > burst * MILLI ? burst * MILLI : b->milli + added;
        b->at_ns = now_ns;
    }
}

bool limits_connect(struct limits *l, const struct limits_key *key)
{
    struct source *s;
    bool fits = true;

    if (!l->conf.connections)
        return true;
    (void)pthread_mutex_lock(&l->lock);
    s = source_of(l, key);
    if (s)
        fits = s->connections < l->conf.connections;
    if (s && fits)
        s->connections++;
    (void)pthread_mutex_unlock(&l->lock);
    return fits;
}

void limits_disconnect(struct limits *l, const struct limits_key *key)
{
    struct source *s;

    if (!l->conf.connections)
        return;
    (void)pthread_mutex_lock(&l->lock);
    s = map_get(&l->sources, key_str(key));
    if (s && s->connections)
        s->connections--;
    (void)pthread_mutex_unlock(&l->lock);
}

bool limits_request(struct limits *l, const struct limits_key *key, uint64_t now_ns)
{
    struct source *s;
    bool fits = true;

    if (!l->conf.rate)
        return true;
    (void)pthread_mutex_lock(&l->lock);
    s = source_of(l, key);
    if (s) {
        bucket_fill(&s->requests, now_ns, 60ULL * l->conf.rate, l->conf.burst);
        fits = s->requests.milli >= MILLI;
        if (fits)
            s->requests.milli -= MILLI;
    }
    (void)pthread_mutex_unlock(&l->lock);
    return fits;
}

bool limits_may_try(struct limits *l, const struct limits_key *key, uint64_t now_ns)
{
    struct source *s;
    bool may = true;

    if (!l->conf.failures)
        return true;
    (void)pthread_mutex_lock(&l->lock);
    s = map_get(&l->sources, key_str(key));
    if (s && s->failures.at_ns) {
        bucket_fill(&s->failures, now_ns, l->conf.failures, l->conf.failures);
        may = s->failures.milli >= MILLI;
    }
    (void)pthread_mutex_unlock(&l->lock);
    return may;
}

void limits_failed(struct limits *l, const struct limits_key *key, uint64_t now_ns)
{
    struct source *s;

    if (!l->conf.failures)
        return;
    (void)pthread_mutex_lock(&l->lock);
    s = source_of(l, key);
    if (s) {
        bucket_fill(&s->failures, now_ns, l->conf.failures, l->conf.failures);
        s->failures.milli -= s->failures.milli >= MILLI ? MILLI : s->failures.milli;
    }
    (void)pthread_mutex_unlock(&l->lock);
}

static int take_net(struct str text, struct limits_net *ret)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    char host[INET6_ADDRSTRLEN];
    struct str bits = text, address;
    uint64_t n;

    (void)str_cut(&bits, '/', &address);
    if (str_copy(host, sizeof(host), address) < 0)
        return -EINVAL;
    if (inet_pton(AF_INET, host, ret->bytes + 12) == 1) {
        memcpy(ret->bytes, mapped, sizeof(mapped));
        if (str_to_u64_range(bits.p ? bits : STR("32"), 0, 32, &n) < 0)
            return -EINVAL;
        ret->bits = 96 + (unsigned)n;
        return 0;
    }
    if (inet_pton(AF_INET6, host, ret->bytes) != 1 ||
        str_to_u64_range(bits.p ? bits : STR("128"), 0, 128, &n) < 0)
        return -EINVAL;
    ret->bits = (unsigned)n;
    return 0;
}

int limits_nets_parse(struct str text, struct limits_nets *ret, struct err *e)
{
    struct str part;

    ret->count = 0;
    while (str_cut(&text, ',', &part)) {
        part = str_trim(part);
        if (part.n == 0)
            continue;
        if (ret->count == LIMITS_NETS_MAX)
            return err_set(e, EINVAL, "more than %d networks", LIMITS_NETS_MAX);
        if (take_net(part, &ret->at[ret->count++]) < 0)
            return err_set(e, EINVAL, "'%.*s': expected a network, as 10.0.0.0/8 or fd00::/8",
                           (int)min_size(part.n, 64), part.p);
    }
    return 0;
}

bool limits_nets_have(const struct limits_nets *nets, const struct sock_addr *addr)
{
    uint8_t bytes[16];

    addr_bytes(addr, bytes);
    for (size_t i = 0; i < nets->count; i++) {
        const struct limits_net *net = &nets->at[i];
        unsigned whole = net->bits / 8, part = net->bits % 8;

        if (memcmp(bytes, net->bytes, whole) == 0 &&
            (part == 0 || (bytes[whole] ^ net->bytes[whole]) >> (8 - part) == 0))
            return true;
    }
    return false;
}
