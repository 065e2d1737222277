/* catcher.c - connections of sandboxes to ports 80 and 443, and their credential vaults.
 *
 * The kernel redirects such connections of a sandbox with interception to NETNS_TLS_PORT of the
 * gateway. The source address tells the sandbox, SO_ORIGINAL_DST what it dialled. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/dns/message.h"
#include "egress/egress.h"

enum {
    ORIGINAL_DST = 80
}; /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST; their headers do not go with
                             * those of the C library */
enum { LISTENERS_MAX = 2, KEYS_BYTES_MAX = 16 * 1024, DOH_PORT = 443, QUERY_MAX = 512 };

struct door {
    struct sock_listener sock;
    struct catcher *catcher;
};

struct catcher {
    struct egress *egress;
    struct intercept *intercept;
    struct door doors[LISTENERS_MAX];
    size_t door_count;
};

/* --- policies --- */

static const void *addr_of(const struct sock_addr *a)
{
    return a->any.sa_family == AF_INET ? (const void *)&a->v4.sin_addr
                                       : (const void *)&a->v6.sin6_addr;
}

static int deny(struct guarded *b, struct str name, const struct sock_addr *to, const char *reason,
                struct err *e)
{
    char text[SOCK_ADDR_TEXT_MAX];

    sock_addr_format(to, text);
    b->denied++;
    guarded_event(b, "egress.deny", reason, name.n ? name : str_of(text));
    return err_set(e, EACCES, "the network policy denies %.*s",
                   STR_ARG(name.n ? name : str_of(text)));
}

/* Addresses of this host: from here they can be reached, from a sandbox they must not. */
static bool is_ours(const struct sock_addr *to)
{
    auto_fd fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sock_addr at = *to;

    if (at.any.sa_family == AF_INET)
        at.v4.sin_port = 0;
    else
        at.v6.sin6_port = 0;
    return fd < 0 || bind(fd, &at.any, at.size) == 0;
}

/* Whatever the policy says by default. */
static bool is_never_meant(const struct sock_addr *to)
{
    const struct in6_addr *v6 = &to->v6.sin6_addr;
    uint32_t v4 = ntohl(to->v4.sin_addr.s_addr);

    if (to->any.sa_family == AF_INET)
        return v4 >> 24 == 0 || v4 >> 24 == 127 || v4 >> 16 == 0xa9fe || v4 >> 28 >= 14;
    return IN6_IS_ADDR_UNSPECIFIED(v6) || IN6_IS_ADDR_LOOPBACK(v6) || IN6_IS_ADDR_LINKLOCAL(v6) ||
           IN6_IS_ADDR_MULTICAST(v6) || IN6_IS_ADDR_V4MAPPED(v6);
}

/* Encrypted DNS, as the kernel's rules have it for connections that are not intercepted. */
static bool is_doh(const struct egress *g, const struct sock_addr *to)
{
    if (sock_addr_port(to) != DOH_PORT)
        return false;
    return policy_judge_addr(g->doh, g->doh, to->any.sa_family, addr_of(to), 0, 0) == POLICY_DENY ||
           (g->conf.block_doh && g->doh->count == 0);
}

/* As the kernel judges a packet, and the resolver a name: the connection that is made for it leaves
 * from this host, outside of the sandbox's chain. Under default deny the name must have led to the
 * address: plain HTTP would carry the name of an allowed host anywhere. */
static int may_connect(void *user, void *sandbox, struct str name, const struct sock_addr *to,
                       struct err *e)
{
    const struct egress *g = user;
    struct guarded *b = sandbox;
    int family = to->any.sa_family;
    uint16_t port = sock_addr_port(to);
    const struct policy_rule *rule = NULL;
    bool known;
    enum policy_action by_addr =
        policy_judge_addr(g->always, b->policy, family, addr_of(to), IPPROTO_TCP, port);
    enum policy_action by_name =
        name.n ? policy_judge_name(g->always, b->policy, name, &rule) : POLICY_NO_RULE;

    if (is_ours(to))
        return deny(b, name, to, "the address is the host's own", e);
    if (by_addr == POLICY_DENY)
        return deny(b, name, to, "a rule denies the address", e);
    if (is_doh(g, to))
        return deny(b, name, to, "the address is of encrypted DNS", e);
    if (name.n && by_name == POLICY_DENY)
        return deny(b, name, to, rule ? "a rule denies the name" : "no rule allows the name", e);
    if (name.n && rule && !policy_rule_covers(rule, IPPROTO_TCP, port))
        return deny(b, name, to, "no rule allows this port of the name", e);
    if (by_addr == POLICY_ALLOW)
        return 0;
    if (is_never_meant(to) || (b->policy->default_action != POLICY_ALLOW &&
                               guarded_addr_is_inside(b, family, addr_of(to))))
        return deny(b, name, to, "the address is not public, and no rule allows it", e);
    if (b->policy->default_action == POLICY_ALLOW)
        return 0;
    if (name.n == 0)
        return deny(b, name, to, "no rule allows the address", e);
    if (!guarded_has_learned(b, name, to, &known))
        return deny(b, name, to, "DNS did not give this sandbox the address for the name", e);
    return 0;
}

/* Rules with methods and paths; the name was judged before. */
static int may_request(void *user, void *sandbox, const struct intercept_request *r, struct err *e)
{
    const struct egress *g = user;
    const struct guarded *b = sandbox;

    if (policy_judge_request(g->always, b->policy, r->host, r->method,
                             r->devious ? STR_NONE : r->path) != POLICY_DENY)
        return 0;
    return err_set(e, EACCES, "the network policy denies this method and path of the host");
}

/* --- whose address, for credentials over plain HTTP --- */

struct asking {
    struct dns_query asked;
    uint8_t addr[16];
    int family;
    bool found, resolved_http;
    struct intercept_ask *ask;
};

static int compare_record(void *user, const struct dns_record *record)
{
    struct asking *a = user;

    if (record->family == a->family &&
        memcmp(record->addr, a->addr, a->family == AF_INET ? 4 : 16) == 0)
        a->found = true;
    return 0;
}

/* A name that no resolver knows was pinned to the address inside of the sandbox: by its owner, as
 * some do for tests, or by the code that runs there. The configuration says which to expect. */
static void on_answer(void *user, struct str answer)
{
    struct asking *a = user;
    int rcode = answer.p ? dns_answer_read(answer, answer, &a->asked, compare_record, a) : -EIO;

    intercept_answer(a->ask, a->found || (rcode == DNS_NXDOMAIN && !a->resolved_http));
    free(a);
}

/* A question for the addresses of a name; 0 when it is no name. */
static size_t write_question(struct str name, uint16_t type, char out[QUERY_MAX])
{
    static const char head[12] = {0, 1, 1, 0, 0, 1};
    struct str label;
    size_t n = sizeof(head);

    memcpy(out, head, sizeof(head));
    while (str_cut(&name, '.', &label)) {
        if (label.n == 0 || label.n > 63 || n + label.n + 6 > QUERY_MAX)
            return 0;
        out[n++] = (char)label.n;
        memcpy(out + n, label.p, label.n);
        n += label.n;
    }
    memcpy(out + n, (const char[]){0, (char)(type >> 8), (char)type, 0, 1}, 5);
    return n + 5;
}

/* Plain HTTP proves nothing: the address must be one that DNS gave this sandbox for the name. Where
 * every address is allowed, and the sandbox did not ask, the resolvers are asked. */
static void is_address_of(void *user, void *sandbox, struct str name, const struct sock_addr *to,
                          struct intercept_ask *ask)
{
    const struct egress *g = user;
    const struct guarded *b = sandbox;
    struct asking *a;
    char question[QUERY_MAX];
    size_t n = write_question(name, to->any.sa_family == AF_INET ? DNS_A : DNS_AAAA, question);
    bool known, learned = guarded_has_learned(b, name, to, &known);

    if (learned || known || n == 0 || b->policy->default_action != POLICY_ALLOW) {
        intercept_answer(ask, learned);
        return;
    }
    a = mem_new(struct asking);
    *a = (struct asking){
        .family = to->any.sa_family, .resolved_http = g->conf.resolved_http, .ask = ask};
    memcpy(a->addr, addr_of(to), a->family == AF_INET ? 4 : 16);
    if (dns_query_read(str_make(question, n), &a->asked) != 0 ||
        !dns_forward_ask(g->forward, str_make(question, n), false, on_answer, a)) {
        free(a);
        intercept_answer(ask, false);
    }
}

static void on_event(void *user UNUSED, void *sandbox, const struct intercept_event *v)
{
    AUTO_BUF(detail, EVENT_DETAIL_MAX - 1);

    if (v->binding.n)
        (void)buf_addf(&detail, "%.*s %.*s binding=%.*s revision=%llu", STR_ARG(v->method),
                       STR_ARG(v->host), STR_ARG(v->binding), (unsigned long long)v->revision);
    else
        (void)buf_addf(&detail, "%.*s %.*s", STR_ARG(v->method), STR_ARG(v->host));
    if (str_eq(str_of(v->kind), STR("egress.deny")))
        ((struct guarded *)sandbox)->denied++;
    guarded_event(sandbox, v->kind, v->reason ? v->reason : "a binding matches", buf_str(&detail));
}

static int host_allowed_by(void *user, struct str host)
{
    const struct {
        const struct policy *always, *policy;
    } *both = user;

    return policy_allows_explicitly(both->always, both->policy, host);
}

int catcher_check(struct guarded *b, const struct policy *policy, struct err *e)
{
    struct {
        const struct policy *always, *policy;
    } both = {b->egress->always, policy};
    struct vault_host host = {.host_allowed = host_allowed_by, .user = &both};

    return b->vault ? vault_policy_check(b->vault, &host, e) : 0;
}

static int host_allowed_now(void *user, struct str host)
{
    const struct guarded *b = user;

    return policy_allows_explicitly(b->egress->always, b->policy, host);
}

struct vault_host catcher_vault_host(struct guarded *b)
{
    return (struct vault_host){.intercepting = b->intercept,
                               .insecure = b->egress->conf.insecure,
                               .cleartext = b->egress->conf.vault_cleartext,
                               .ready = b->box != NULL,
                               .host_allowed = host_allowed_now,
                               .store = vault_files_store,
                               .user = b};
}

void catcher_serve_vault(struct http_req *req, struct guarded *b, struct str path, struct str body)
{
    struct vault_host host = catcher_vault_host(b);
    struct err e = {0};

    if (vault_files_open(b, &e) < 0) {
        api_reply_text(req, 503, "internal error: %s", e.msg);
        return;
    }
    if (b->intercept && catcher_attach(b, &e) == 0)
        host.ready = true;
    vault_serve(b->vault, &host, req, path, body);
}

void catcher_policy_changed(struct guarded *b)
{
    if (b->box)
        intercept_cut(b->box);
}

/* --- sandboxes --- */

static int read_keys(int dir, const char *file, struct buf *keys, struct err *e)
{
    int r = io_read_regular(dir, file, KEYS_BYTES_MAX, keys, e);

    return r == -ENOENT ? 0 : r;
}

int catcher_attach(struct guarded *b, struct err *e)
{
    const struct egress *g = b->egress;
    const char *file = g->conf.ca_file ? g->conf.ca_file : EGRESS_CA_FILE;
    struct catcher *c = g->catcher;
    struct intercept_box_conf conf = {.sandbox = b, .id = str_of(b->id)};
    AUTO_BUF(keys, KEYS_BYTES_MAX);
    auto_fd dir = -EBADF;
    int r;

    if (!b->intercept || b->box)
        return 0;
    dir = g->enforcer->open_dir(b, e);
    if (dir < 0)
        return dir;
    buf_keep_secret(&keys);
    r = read_keys(dir, file, &keys, e);
    if (r < 0)
        return r;
    r = vault_files_open(b, e);
    if (r < 0)
        return r;
    conf.vault = b->vault;
    conf.ca_keys = buf_str(&keys);
    r = intercept_attach(c->intercept, &conf, &b->box, e);
    if (r == 0 && keys.n == 0)
        r = io_write_file_atomic(dir, file, intercept_ca_keys(b->box), 0600, e);
    if (r < 0)
        catcher_forget(b);
    return r < 0 ? err_wrap(e, r, "authority of sandbox %s", b->id) : 0;
}

void catcher_forget(struct guarded *b)
{
    intercept_detach(b->box);
    b->box = NULL;
}

/* --- connections --- */

static int original_of(int fd, int family, struct sock_addr *ret)
{
    bool v6 = family == AF_INET6;

    *ret = (struct sock_addr){.size = v6 ? sizeof(ret->v6) : sizeof(ret->v4)};
    return getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, ORIGINAL_DST, &ret->any, &ret->size) < 0
               ? -errno
               : 0;
}

static void on_accept(struct sock_listener *l, int fd, const struct sock_addr *peer)
{
    struct catcher *c = container_of(l, struct door, sock)->catcher;
    struct guarded *b = guarded_by_addr(c->egress, peer);
    struct sock_addr original, own;

    /* A connection to this port itself was not redirected. */
    if (!b || !b->box || original_of(fd, peer->any.sa_family, &original) < 0 ||
        (sock_local_addr(fd, &own) == 0 && sock_addr_eq(&own, &original)))
        fd_close(fd);
    else
        (void)intercept_accept(b->box, fd, &original);
}

static int open_door(struct catcher *c, const struct sock_addr *at, struct err *e)
{
    struct door *door = &c->doors[c->door_count];
    int fd = resolver_socket(at, SOCK_STREAM, e);

    if (fd < 0)
        return fd;
    door->catcher = c;
    c->door_count++;
    return sock_listener_start(&door->sock, c->egress->loop, fd, on_accept, e);
}

int catcher_start(struct egress *g, const struct broker_info *info, struct err *e)
{
    struct intercept_conf conf = {.loop = g->loop,
                                  .user = g,
                                  .may_connect = may_connect,
                                  .may_request = may_request,
                                  .is_address_of = is_address_of,
                                  .event = on_event,
                                  .on_socket = g->enforcer->on_socket,
                                  .trust_file = g->conf.trust,
                                  .trust_dir = g->conf.trust_dir,
                                  .insecure = g->conf.insecure};
    uint16_t port = htons(g->conf.tls_port ? g->conf.tls_port : NETNS_TLS_PORT);
    struct sock_addr v4 = {.size = sizeof(v4.v4)}, v6 = {.size = sizeof(v6.v6)};
    struct catcher *c = mem_new(struct catcher);
    int r;

    g->catcher = c;
    c->egress = g;
    r = intercept_new(&conf, &c->intercept, e);
    if (r < 0)
        return r;
    v4.v4.sin_family = AF_INET;
    v4.v4.sin_port = port;
    v4.v4.sin_addr = info->gateway;
    v6.v6.sin6_family = AF_INET6;
    v6.v6.sin6_port = port;
    v6.v6.sin6_addr = info->gateway6;
    r = open_door(c, &v4, e);
    if (r >= 0 && !IN6_IS_ADDR_UNSPECIFIED(&info->gateway6))
        r = open_door(c, &v6, e);
    return r;
}

void catcher_free(struct catcher *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->door_count; i++)
        sock_listener_stop(&c->doors[i].sock);
    intercept_free(c->intercept);
    free(c);
}
