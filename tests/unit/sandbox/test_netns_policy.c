/* In the world of netns_world.h: what a policy lets pass, as packets. */
#include "sandbox/netns_policy.h"

#include <errno.h>

#include "base/time.h"
#include "netns_world.h"
#include "sandbox/netns_internal.h"
#include "test.h"

static struct netns_entry entry_of(enum netns_entry_kind kind, const char *text, uint8_t bits)
{
    struct netns_entry entry = {.kind = kind, .family = AF_INET, .bits = bits, .seconds = 60};

    if (inet_pton(AF_INET, text, entry.addr) != 1) {
        entry.family = AF_INET6;
        CHECK_EQ(inet_pton(AF_INET6, text, entry.addr), 1);
    }
    return entry;
}

static struct netns_policy *policy_of(uint32_t mark, uint32_t flags)
{
    static struct netns_policy p;

    p = (struct netns_policy){.mark = mark, .flags = flags};
    return &p;
}

static void add(struct netns_policy *p, struct netns_entry entry)
{
    p->entries[p->count++] = entry;
}

static void set(uint32_t slot, const struct netns_policy *p)
{
    CHECK_OK(netns_policy_set(conf, slot, p, &e));
}

static bool reaches(const struct world *w, int sandbox, const char *to)
{
    /* Only a silence needs the short wait; what passes is waited for. */
    return connect_from(w->host, sandbox, to, SILENCE_MS) == 0 ||
           connect_from(w->host, sandbox, to, SILENCE_MS) == 0;
}

static void check_reaches(const struct world *w, int sandbox, const char *to)
{
    CHECK_EQ(connect_from(w->host, sandbox, to, ANSWER_MS), 0);
}

TEST(netns_policy, a_closed_sandbox_reaches_nothing_and_its_neighbour_all)
{
    struct world w;
    int sandbox, other;

    world_make(&w);
    sandbox = sandbox_make(0);
    other = sandbox_make(1);
    CHECK_OK(netns_policy_close(conf, 0, &e));
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
    CHECK(!reaches(&w, sandbox, "2001:db8:3::9"));
    CHECK(ping_from(w.host, sandbox, "203.0.113.9", SILENCE_MS) < 0);
    check_reaches(&w, other, "203.0.113.9");
    check_reaches(&w, other, "2001:db8:3::9");
    CHECK_OK(netns_policy_clear(conf, 0, &e));
    check_reaches(&w, sandbox, "203.0.113.9");
    CHECK_OK(netns_policy_clear(conf, 0, &e)); /* absent is fine */
}

TEST(netns_policy, passes_what_is_allowed_and_denial_comes_first)
{
    struct world w;
    struct netns_policy *p = policy_of(1, 0);
    int sandbox;

    world_make(&w);
    sandbox = sandbox_make(0);
    add(p, entry_of(NETNS_ALLOW, "203.0.113.0", 24));
    add(p, entry_of(NETNS_ALLOW, "203.0.113.9", 32)); /* inside the other: no conflict */
    add(p, entry_of(NETNS_ALLOW, "2001:db8:3::", 48));
    set(0, p);
    check_reaches(&w, sandbox, "203.0.113.9");
    check_reaches(&w, sandbox, "2001:db8:3::9");
    CHECK(!reaches(&w, sandbox, "198.51.100.2"));
    CHECK(ping_from(w.host, sandbox, "198.51.100.2", SILENCE_MS) < 0);
    add(p, entry_of(NETNS_DENY, "203.0.113.9", 32));
    p->mark = 2;
    set(0, p);
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
    check_reaches(&w, sandbox, "2001:db8:3::9");
}

TEST(netns_policy, default_allow_passes_all_but_the_denied)
{
    struct world w;
    struct netns_policy *p = policy_of(1, NETNS_DEFAULT_ALLOW);
    int sandbox;

    world_make(&w);
    sandbox = sandbox_make(0);
    add(p, entry_of(NETNS_DENY, "203.0.113.9", 32));
    add(p, entry_of(NETNS_DENY, "0.0.0.0", 1)); /* up to 127.255.255.255 */
    set(0, p);
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
    check_reaches(&w, sandbox, "198.51.100.2");
    CHECK_EQ(ping_from(w.host, sandbox, "198.51.100.2", ANSWER_MS), 0);
    CHECK(ping_from(w.host, sandbox, "203.0.113.9", SILENCE_MS) < 0);
}

TEST(netns_policy, ports_and_protocols_narrow_a_rule)
{
    struct world w;
    struct netns_policy *p = policy_of(1, 0);
    struct netns_entry entry = entry_of(NETNS_ALLOW, "203.0.113.9", 32);
    int sandbox;

    world_make(&w);
    sandbox = sandbox_make(0);
    entry.port_from = entry.port_to = PORT + 1;
    add(p, entry);
    set(0, p);
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
    p->entries[0].port_from = PORT - 1;
    p->mark++;
    set(0, p);
    check_reaches(&w, sandbox, "203.0.113.9");
    p->entries[0].protocol = IPPROTO_UDP;
    p->mark++;
    set(0, p);
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
    p->entries[0] = entry_of(NETNS_ALLOW, "203.0.113.9", 32);
    p->entries[0].protocol = IPPROTO_ICMP;
    p->mark++;
    set(0, p);
    CHECK_EQ(ping_from(w.host, sandbox, "203.0.113.9", ANSWER_MS), 0);
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
}

TEST(netns_policy, learned_addresses_pass_for_their_ports)
{
    struct world w;
    struct netns_policy *p = policy_of(1, 0);
    struct netns_entry entries[] = {entry_of(NETNS_LEARNED, "203.0.113.9", 32),
                                    entry_of(NETNS_LEARNED, "2001:db8:3::9", 128)};
    int sandbox;

    world_make(&w);
    sandbox = sandbox_make(0);
    set(0, p);
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
    CHECK_OK(netns_policy_learn(conf, 0, entries, 2, &e));
    CHECK_OK(netns_policy_learn(conf, 0, entries, 2, &e)); /* again is fine */
    check_reaches(&w, sandbox, "203.0.113.9");
    check_reaches(&w, sandbox, "2001:db8:3::9");
    CHECK(ping_from(w.host, sandbox, "203.0.113.9", SILENCE_MS) < 0);
    p->mark = 2;
    entries[0].protocol = entries[1].protocol = IPPROTO_TCP;
    entries[0].port_from = entries[0].port_to = PORT;
    entries[1].port_from = entries[1].port_to = PORT + 1;
    add(p, entries[0]);
    add(p, entries[1]);
    set(0, p);
    check_reaches(&w, sandbox, "203.0.113.9");
    CHECK(!reaches(&w, sandbox, "2001:db8:3::9"));
    CHECK_EQ(netns_policy_learn(conf, 1, entries, 1, NULL), -ENOENT); /* no policy there */
}

/* Opens a connection from the sandbox; both ends stay open. */
static void open_flow(const struct world *w, int sandbox, const char *to, int *ret_near,
                      int *ret_far)
{
    struct sockaddr_storage sa;
    socklen_t n = address(to, &sa);

    enter(sandbox);
    *ret_near = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(*ret_near, (struct sockaddr *)&sa, n), 0);
    enter(w->host);
    *ret_far = accept4(w->internet_v4, NULL, NULL, SOCK_CLOEXEC);
    CHECK(*ret_far >= 0);
}

static bool passes(int from, int to, int timeout_ms)
{
    char c = 'x';
    struct pollfd p = {.fd = to, .events = POLLIN};

    CHECK_EQ(send(from, &c, 1, MSG_NOSIGNAL), 1);
    return poll(&p, 1, timeout_ms) == 1 && recv(to, &c, 1, 0) == 1;
}

TEST(netns_policy, a_change_cuts_open_connections_that_it_denies_and_no_others)
{
    struct world w;
    struct netns_policy *p = policy_of(1, 0);
    struct netns_entry learned = entry_of(NETNS_LEARNED, "203.0.113.9", 32);
    int sandbox, near, far;

    world_make(&w);
    sandbox = sandbox_make(0);
    check_reaches(&w, sandbox, "2001:db8:3::9"); /* its port forwards by now */
    set(0, p);
    CHECK_OK(netns_policy_learn(conf, 0, &learned, 1, &e));
    open_flow(&w, sandbox, "203.0.113.9", &near, &far);
    CHECK(passes(near, far, ANSWER_MS));
    p->mark = 2; /* another policy that has it, too: both directions go on, either first */
    add(p, learned);
    set(0, p);
    CHECK(passes(far, near, ANSWER_MS));
    CHECK(passes(near, far, ANSWER_MS));
    p->mark = 3;
    p->count = 0;
    set(0, p);
    CHECK(!passes(far, near, SILENCE_MS));
    CHECK(!passes(near, far, SILENCE_MS));
    CHECK_OK(netns_policy_close(conf, 0, &e));
    CHECK(!passes(near, far, SILENCE_MS));
}

TEST(netns_policy, an_open_connection_outlives_the_time_of_its_address)
{
    struct world w;
    struct netns_policy *p = policy_of(1, 0);
    struct netns_entry learned = entry_of(NETNS_LEARNED, "203.0.113.9", 32);
    int sandbox, near, far;

    world_make(&w);
    sandbox = sandbox_make(0);
    check_reaches(&w, sandbox, "2001:db8:3::9"); /* its port forwards by now */
    learned.seconds = 1;
    add(p, learned);
    set(0, p);
    open_flow(&w, sandbox, "203.0.113.9", &near, &far);
    while (reaches(&w, sandbox, "203.0.113.9")) /* until its time is over */
        ;
    CHECK(passes(near, far, ANSWER_MS));
    CHECK(passes(far, near, ANSWER_MS));
}

TEST(netns_policy, stays_in_force_when_the_host_is_set_up_again)
{
    struct world w;
    int sandbox;

    world_make(&w);
    sandbox = sandbox_make(0);
    set(0, policy_of(1, 0));
    CHECK_OK(netns_host_setup(conf, &e));
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
    CHECK_OK(netns_host_remove(conf, &e));
    CHECK_OK(netns_host_setup(conf, &e));
}

/* Sends DNS to anywhere; the proxy on the bridge hears it and its answer has the asked address. */
static void check_redirected(const struct world *w, int sandbox, const char *gateway,
                             const char *server)
{
    struct sockaddr_storage at, to, from;
    socklen_t at_n = address(gateway, &at), to_n = address(server, &to), n = sizeof(from);
    uint64_t deadline = deadline_in_ms(ANSWER_MS);
    int proxy, asks;
    char c = 'q';

    ((struct sockaddr_in *)&at)->sin_port = htons(NETNS_DNS_PORT); /* the same place in both */
    ((struct sockaddr_in *)&to)->sin_port = htons(53);
    proxy = socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(proxy, (struct sockaddr *)&at, at_n), 0);
    enter(sandbox);
    asks = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(asks, (struct sockaddr *)&to, to_n), 0);
    enter(w->host);
    do /* the bridge may drop the first: a new port forwards once its carrier was noticed */
        CHECK_EQ(send(asks, &c, 1, 0), 1);
    while (poll(&(struct pollfd){.fd = proxy, .events = POLLIN}, 1, SILENCE_MS) == 0 &&
           !deadline_passed(deadline));
    CHECK_EQ(recvfrom(proxy, &c, 1, 0, (struct sockaddr *)&from, &n), 1);
    if (from.ss_family == AF_INET)
        CHECK_EQ(((struct sockaddr_in *)&from)->sin_addr.s_addr, netns_slot_v4(conf, 0).s_addr);
    CHECK_EQ(sendto(proxy, &c, 1, 0, (struct sockaddr *)&from, n), 1);
    CHECK_EQ(poll(&(struct pollfd){.fd = asks, .events = POLLIN}, 1, ANSWER_MS), 1);
    CHECK_EQ(recv(asks, &c, 1, 0), 1); /* of a connected socket: only from the server it asked */
    close(proxy);
    close(asks);
}

TEST(netns_policy, dns_goes_to_the_proxy_whatever_server_it_asks)
{
    struct world w;
    int sandbox;

    world_make(&w);
    sandbox = sandbox_make(0);
    set(0, policy_of(1, NETNS_DEFAULT_ALLOW));
    check_redirected(&w, sandbox, "10.231.0.1", "203.0.113.9");
    check_redirected(&w, sandbox, "10.231.0.1", "10.231.0.1");
    check_redirected(&w, sandbox, "fd4f:7362:ae7::1", "2001:db8:3::9");
}

TEST(netns_policy, tells_once_what_it_dropped)
{
    struct netns_denied got[NETNS_DENIED_MAX];
    struct netns_policy *p = policy_of(1, 0);
    const struct netns_addr from = netns_addr_of(conf, 0);
    struct world w;
    int sandbox;

    world_make(&w);
    sandbox = sandbox_make(0);
    CHECK_EQ(netns_policy_denied(conf, got, NULL), 0); /* there is no table yet, or no set */
    add(p, entry_of(NETNS_ALLOW, "198.51.100.0", 24));
    set(0, p);
    check_reaches(&w, sandbox, "198.51.100.2");
    CHECK_EQ(netns_policy_denied(conf, got, NULL), 0);
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
    CHECK(!reaches(&w, sandbox, "2001:db8:3::9"));
    CHECK_EQ(netns_policy_denied(conf, got, NULL), 2); /* though each was tried twice */
    CHECK_EQ(got[0].family, AF_INET);
    CHECK_EQ(got[0].protocol, IPPROTO_TCP);
    CHECK(memcmp(got[0].from, &from.v4, 4) == 0);
    CHECK(memcmp(got[0].to, entry_of(NETNS_DENY, "203.0.113.9", 32).addr, 4) == 0);
    CHECK(got[0].port != 0);
    CHECK_EQ(got[1].family, AF_INET6);
    CHECK(memcmp(got[1].from, &from.v6, 16) == 0);
    CHECK(memcmp(got[1].to, entry_of(NETNS_DENY, "2001:db8:3::9", 128).addr, 16) == 0);
    CHECK_EQ(netns_policy_denied(conf, got, NULL), 0);
    CHECK(!reaches(&w, sandbox, "203.0.113.9"));
    CHECK_EQ(netns_policy_clear(conf, 0, NULL), 0); /* for the next sandbox of the slot */
    CHECK_EQ(netns_policy_denied(conf, got, NULL), 0);
}

TEST(netns_policy, refuses_what_it_could_not_program)
{
    struct netns_policy *p = policy_of(0, 0);

    CHECK_EQ(netns_policy_check(p, NULL), -EINVAL);
    p->mark = 1;
    CHECK_EQ(netns_policy_check(p, NULL), 0);
    add(p, entry_of(NETNS_LEARNED, "203.0.113.9", 24));
    CHECK_EQ(netns_policy_check(p, NULL), -EINVAL);
    p->entries[0].bits = 33;
    p->entries[0].kind = NETNS_ALLOW;
    CHECK_EQ(netns_policy_check(p, NULL), -EINVAL);
    p->entries[0].bits = 32;
    p->entries[0].port_from = 9;
    CHECK_EQ(netns_policy_check(p, NULL), -EINVAL);
    p->count = NETNS_POLICY_ENTRIES_MAX + 1;
    CHECK_EQ(netns_policy_check(p, NULL), -EINVAL);
}
