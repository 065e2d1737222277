/* Input: what a sandbox sends over a connection to port 80 that is intercepted. A server on
 * loopback sees what comes out: never a placeholder of another host or its value; a credential only
 * with its own Host; one framing, and lines that end in CRLF. What the server echoes comes back
 * redacted. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "egress/intercept/intercept.h"
#include "fuzz.h"

#define VALUE       "Zq9sEcReTvAlUe"
#define PLACEHOLDER "PUT-THE-VALUE-HERE"
#define ENV_VALUE   "Yw8eNvIrOnMeNtSeCrEt"
#define ENV_HOLDER  "osb_secret_fuzzfuzzfuzzfuzzfuzzfuzzfuz"

enum {
    INPUT_BYTES_MAX = 32 * 1024,
    SEEN_BYTES_MAX = 4 << 20,
    CONNS_MAX = 64,
    TURN_MS = 20,
    QUIET_TURNS = 3, /* without news: nothing more comes */
    TURNS_MAX = 500,
};

struct conn {
    struct loop_io io;
    struct buf seen;
    bool answered;
};

/* One per process: what an input leaves in it is closed connections. */
static struct world {
    struct loop *loop;
    struct intercept *intercept;
    struct sock_listener door;
    struct sock_addr at;
    struct conn conns[CONNS_MAX];
    size_t count;
    uint64_t news;
} world;

/* --- the server --- */

static void answer(struct conn *c)
{
    bool got = str_find_str(buf_str(&c->seen), STR(VALUE)) < c->seen.n;
    const char *echo = got ? VALUE : "nothing";
    AUTO_BUF(out, 1024);

    c->answered = true;
    (void)buf_addf(&out,
                   "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\nX-Echo: %s\r\n"
                   "\r\n%s",
                   strlen(echo), echo, echo);
    (void)!write(c->io.fd, out.p, out.n);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
    struct conn *c = container_of(io, struct conn, io);
    ssize_t n;

    (void)events;
    world.news++;
    if (buf_reserve(&c->seen, 65536) < 0 || (n = read(io->fd, c->seen.p + c->seen.n, 65536)) <= 0) {
        int fd = io->fd;

        loop_io_stop(world.loop, io);
        close(fd);
        return;
    }
    buf_claim(&c->seen, (size_t)n);
    if (!c->answered && str_find_str(buf_str(&c->seen), STR("\r\n\r\n")) < c->seen.n)
        answer(c);
}

static void on_accept(struct sock_listener *l, int fd, const struct sock_addr *peer)
{
    struct conn *c = &world.conns[world.count];
    struct err e = {0};

    (void)l;
    (void)peer;
    world.news++;
    if (world.count == CONNS_MAX) {
        close(fd);
        return;
    }
    *c = (struct conn){0};
    buf_init(&c->seen, SEEN_BYTES_MAX);
    world.count++;
    FUZZ_CHECK(loop_io_start(world.loop, &c->io, fd, EPOLLIN, on_ready, &e) == 0);
}

/* --- the interceptor --- */

static int may_connect(void *user, void *sandbox, struct str name, const struct sock_addr *to,
                       struct err *e)
{
    (void)user;
    (void)sandbox;
    (void)name;
    (void)to;
    (void)e;
    return 0;
}

static void is_address_of(void *user, void *sandbox, struct str name, const struct sock_addr *to,
                          struct intercept_ask *ask)
{
    (void)user;
    (void)sandbox;
    (void)name;
    (void)to;
    intercept_answer(ask, true);
}

/* Bindings are for port 80: an address of loopback that only this process takes. Without the right
 * to that port, another, and no credential is put in. */
static void open_door(void)
{
    const unsigned pid = (unsigned)getpid();
    struct err e = {0};
    char text[64];
    int fd = -1;

    for (int port = 80; fd < 0; port = 0) {
        (void)snprintf(text, sizeof(text), "127.%u.%u.%u:%d", 64 + pid / 65025 % 64,
                       pid / 255 % 255, 1 + pid % 254, port);
        FUZZ_CHECK(sock_addr_parse(str_of(text), &world.at, &e) == 0);
        fd = sock_listen(&world.at, CONNS_MAX, &e);
        FUZZ_CHECK(fd >= 0 || port == 80);
    }
    FUZZ_CHECK(sock_local_addr(fd, &world.at) == 0);
    FUZZ_CHECK(sock_listener_start(&world.door, world.loop, fd, on_accept, &e) == 0);
}

static void open_world(void)
{
    struct err e = {0};

    if (world.loop)
        return;
    FUZZ_CHECK(loop_new(&world.loop, &e) == 0);
    const struct intercept_conf conf = {
        .loop = world.loop, .may_connect = may_connect, .is_address_of = is_address_of};
    FUZZ_CHECK(intercept_new(&conf, &world.intercept, &e) == 0);
    open_door();
}

static struct vault *fill_vault(void)
{
    static const struct vault_host any_host = {.intercepting = true, .ready = true};
    struct str hosts[] = {STR("other.test")};
    struct vault_secret_env env = {STR("KEY"), STR(ENV_VALUE), STR(ENV_HOLDER), hosts, 1};
    struct vault *v = vault_new();
    struct err e = {0};

    FUZZ_CHECK(vault_add_env(v, &env, 1, &any_host, &e) == 0);
    FUZZ_CHECK(
        vault_create(v,
                     STR("{\"credentials\":[{\"name\":\"a\",\"source\":{\"value\":\"" VALUE
                         "\"}}],\"bindings\":[{\"name\":\"b\",\"match\":{\"hosts\":["
                         "\"api.test\"],\"schemes\":[\"http\"],\"paths\":[\"/v1/*\"]},"
                         "\"auth\":{\"type\":\"bearer\",\"credential\":\"a\","
                         "\"substitutions\":[{\"credential\":\"a\",\"placeholder\":\"" PLACEHOLDER
                         "\",\"in\":[\"path\",\"query\",\"header\",\"body\"]}]"
                         "}}]}"),
                     &any_host, &e) == 0);
    return v;
}

/* --- what must hold --- */

static bool holds(struct str text, const char *what)
{
    return str_find_str(text, str_of(what)) < text.n;
}

static struct str head_of(struct str text)
{
    return str_make(text.p, str_find_str(text, STR("\r\n\r\n")));
}

/* How many rows of the head begin with the name. */
static size_t rows_with(struct str head, struct str name)
{
    struct str line;
    size_t n = 0;

    while (str_cut(&head, '\n', &line))
        n += line.n > name.n && line.p[name.n] == ':' &&
             str_eq_nocase(str_make(line.p, name.n), name);
    return n;
}

static void check_request(struct str text, struct str input)
{
    struct str head = head_of(text);

    FUZZ_CHECK(!holds(text, ENV_VALUE) || holds(input, ENV_VALUE));
    FUZZ_CHECK(!holds(text, ENV_HOLDER));
    if (text.n == 0)
        return;
    FUZZ_CHECK(rows_with(head, STR("Host")) == 1);
    FUZZ_CHECK(rows_with(head, STR("Content-Length")) + rows_with(head, STR("Transfer-Encoding")) <=
               1);
    for (size_t i = 0; i < head.n; i++)
        FUZZ_CHECK(head.p[i] != '\0' && (head.p[i] != '\n' || (i && head.p[i - 1] == '\r')));
    if (holds(text, VALUE) && !holds(input, VALUE)) {
        struct str line;
        bool ours = false;

        while (str_cut(&head, '\n', &line))
            ours |= line.n >= 14 && str_eq_nocase(str_make(line.p, 14), STR("Host: api.test"));
        FUZZ_CHECK(ours);
    }
}

/* --- one input --- */

static void run(int fd, struct buf *out)
{
    struct err e = {0};
    int quiet = 0;

    for (int i = 0; i < TURNS_MAX && quiet < QUIET_TURNS; i++) {
        uint64_t before = world.news;
        ssize_t n;

        FUZZ_CHECK(loop_turn(world.loop, quiet ? TURN_MS : 1, &e) >= 0);
        FUZZ_CHECK(buf_reserve(out, 65536) == 0);
        n = read(fd, out->p + out->n, 65536);
        if (n == 0)
            return; /* all is answered */
        if (n > 0)
            buf_claim(out, (size_t)n);
        quiet = n > 0 || world.news != before ? 0 : quiet + 1;
    }
}

static void forget_conns(struct str input)
{
    for (size_t i = 0; i < world.count; i++) {
        struct conn *c = &world.conns[i];
        int fd = c->io.fd;

        check_request(buf_str(&c->seen), input);
        if (fd >= 0) {
            loop_io_stop(world.loop, &c->io);
            close(fd);
        }
        buf_done(&c->seen);
    }
    world.count = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = str_make((const char *)data, size);
    struct vault *vault;
    struct intercept_box_conf conf = {.id = STR("fuzz")};
    struct intercept_box *box = NULL;
    AUTO_BUF(out, SEEN_BYTES_MAX);
    struct err e = {0};
    int ends[2];

    if (size > INPUT_BYTES_MAX)
        return 0;
    open_world();
    conf.vault = vault = fill_vault();
    FUZZ_CHECK(intercept_attach(world.intercept, &conf, &box, &e) == 0);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    FUZZ_CHECK(write(ends[0], data, size) == (ssize_t)size);
    (void)shutdown(ends[0], SHUT_WR);
    (void)intercept_accept(box, ends[1], &world.at);
    run(ends[0], &out);
    FUZZ_CHECK(!holds(buf_str(&out), VALUE) || holds(input, VALUE));
    FUZZ_CHECK(!holds(buf_str(&out), ENV_VALUE) || holds(input, ENV_VALUE));
    intercept_detach(box);
    loop_settle(world.loop);
    forget_conns(input);
    close(ends[0]);
    vault_free(vault);
    return 0;
}
