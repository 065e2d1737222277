/* cmd_login.c - osb login: an API key from standard input, or of a user who signs in in a browser.
 *
 * The latter as RFC 8252 has it: a browser is led to the server, with a port of this machine's
 * loopback and the hash of a secret; from there to the provider; and at the end to that port, with
 * a code. Code and secret are given for a key. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/sha.h"
#include "base/url.h"
#include "net/http_server.h"
#include "net/loop.h"
#include "net/sock.h"
#include "osb/commands.h"

enum {
    SIGN_IN_MS = 10 * 60 * 1000, /* for which the server remembers that it was begun */
    DRAIN_MS = 1000,
    CONNECTIONS_MAX = 16,
    SECRET_BYTES = 32, /* as many as a SHA-256 has */
    SECRET_TEXT_MAX = BASE64_TEXT_MAX(SECRET_BYTES),
    HOST_LEN_MAX = 20,
};

/* --- the browser --- */

struct sign_in {
    struct loop *loop;
    struct http_server *server;
    struct loop_signals signals;
    struct loop_timer timer;
    struct arena *arena;
    char *code; /* NULL until the browser brought it */
    char verifier[SECRET_TEXT_MAX], challenge[SECRET_TEXT_MAX];
};

static void stop(void *user)
{
    struct sign_in *s = user;

    loop_stop(s->loop);
}

static void on_signal(struct loop_signals *at, int signo UNUSED)
{
    stop(container_of(at, struct sign_in, signals));
}

static void on_due(struct loop_timer *at)
{
    stop(container_of(at, struct sign_in, timer));
}

/* Anything else that asks here, such as for an icon, has no code. */
static void on_request(struct http_req *req)
{
    struct sign_in *s = req->server_user;
    struct str code = STR_NONE;

    if (s->code || url_query_get(req->head.query, STR("code"), &req->arena, &code) != 1) {
        http_reply_error(req, 404, "NOT_FOUND", "osb waits here for the end of a sign-in");
        return;
    }
    s->code = arena_strdup(s->arena, code);
    (void)http_reply_header(req, STR("Cache-Control"), STR("no-store"));
    (void)http_reply_header(req, STR("Referrer-Policy"), STR("no-referrer"));
    http_reply(req, 200, STR("text/html; charset=utf-8"),
               STR("<!doctype html><title>osb</title><p>You are signed in: osb goes on. This page "
                   "can be closed.</p>\n"));
    http_server_drain(s->server, DRAIN_MS, stop, s);
}

static const struct http_route routes[] = {
    {HTTP_BIT(HTTP_GET), "/*", 0, on_request, 0},
    {HTTP_BIT(HTTP_GET), "/",  0, on_request, 0},
};

static int listen_here(struct sign_in *s, uint16_t *ret_port, struct err *e)
{
    struct http_server_conf conf = {.routes = routes,
                                    .route_count = ARRAY_LEN(routes),
                                    .user = s,
                                    .connections_max = CONNECTIONS_MAX};
    struct sock_addr addr;
    char text[SOCK_ADDR_TEXT_MAX];
    struct str rest, host;
    sigset_t set;
    int fd, r = loop_new(&s->loop, e);

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (r == 0)
        r = loop_signals_start(s->loop, &s->signals, &set, on_signal, e);
    if (r == 0)
        r = http_server_new(s->loop, &conf, &s->server, e);
    if (r == 0)
        r = sock_addr_parse(STR("127.0.0.1:0"), &addr, e);
    if (r < 0)
        return r;
    fd = sock_listen(&addr, CONNECTIONS_MAX, e);
    if (fd < 0)
        return fd;
    r = sock_local_addr(fd, &addr);
    if (r == 0)
        r = http_server_listen(s->server, fd, e);
    else
        (void)close(fd);
    sock_addr_format(&addr, text);
    rest = str_of(text);
    (void)str_cut(&rest, ':', &host);
    return r < 0 ? r : str_to_u16(rest, ret_port);
}

static void make_secret(struct sign_in *s)
{
    unsigned char bytes[SECRET_BYTES];
    uint8_t digest[SHA256_BYTES];

    id_random_bytes(bytes, sizeof(bytes));
    (void)base64_encode(str_make((const char *)bytes, sizeof(bytes)), BASE64_URL | BASE64_NO_PAD,
                        s->verifier);
    sha256_of(str_of(s->verifier), digest);
    (void)base64_encode(str_make((const char *)digest, sizeof(digest)), BASE64_URL | BASE64_NO_PAD,
                        s->challenge);
    mem_wipe(bytes, sizeof(bytes));
}

/* Leads a browser through the sign-in that begins at `url`, until it brings a code. */
static int wait_for_code(struct cli *cli, struct sign_in *s, const char *url)
{
    struct err e = {0};
    uint16_t port = 0;
    int r = listen_here(s, &port, &e);

    if (r < 0)
        return cli_error(cli, "Login", "%s", e.msg);
    url = arena_printf(&cli->arena, "%s?port=%u&challenge=%s", url, port, s->challenge);
    if (!url)
        return EXIT_FAILED;
    fprintf(stderr, "Sign in by a browser of this machine:\n\n    %s\n\n", url);
    (void)cli_open_browser(url);
    loop_timer_after(s->loop, &s->timer, SIGN_IN_MS, on_due);
    if (loop_run(s->loop, &e) < 0)
        return cli_error(cli, "Login", "%s", e.msg);
    return s->code ? 0 : cli_error(cli, "Login", "Nobody has signed in. Nothing was changed.");
}

/* The key for code and secret. */
static int redeem(struct cli *cli, const struct sign_in *s)
{
    struct osb_answer *answer = NULL;
    char host[HOST_LEN_MAX + 1] = "";
    struct doc doc;
    int r;

    if (gethostname(host, sizeof(host)) < 0 && !host[sizeof(host) - 1])
        host[0] = '\0';
    host[sizeof(host) - 1] = '\0';
    doc_begin(&doc);
    doc_text(&doc, "code", s->code);
    doc_text(&doc, "verifier", s->verifier);
    doc_text(&doc, "host", host);
    json_write_object_end(&doc.w);
    if (json_write_end(&doc.w) < 0)
        return EXIT_FAILED;
    r = cli_request(cli,
                    &(struct osb_request){OSB_REQUEST, .method = "POST", .path = "/auth/token",
                                          .body = doc.text.p, .body_bytes = doc.text.n},
                    &answer);
    if (r == 0)
        cli->settings.api_key = arena_strdup(&cli->arena, str_of(osb_answer_text(answer, "key")));
    buf_done(&doc.text);
    osb_answer_free(answer);
    return r;
}

static int key_of_browser(struct cli *cli)
{
    struct sign_in s = {.arena = &cli->arena};
    struct osb_answer *answer = NULL;
    const char *url = NULL;
    int r;

    cli->settings.api_key = NULL;
    r = cli_client(cli);
    if (r == 0)
        r = cli_request(
            cli, &(struct osb_request){OSB_REQUEST, .method = "GET", .path = "/auth/session"},
            &answer);
    if (r)
        return r;
    if (osb_answer_text(answer, "signIn.url"))
        url = arena_strdup(&cli->arena, str_of(osb_answer_text(answer, "signIn.url")));
    osb_answer_free(answer);
    if (!url)
        return cli_error(cli, "Login",
                         "This server has no OpenID provider. Write an API key to standard input: "
                         "osb login < file");
    make_secret(&s);
    r = wait_for_code(cli, &s, url);
    http_server_free(s.server);
    if (s.loop)
        loop_timer_stop(s.loop, &s.timer);
    if (s.signals.loop)
        loop_signals_stop(&s.signals);
    loop_free(s.loop);
    if (r == 0)
        r = redeem(cli, &s);
    mem_wipe(s.verifier, sizeof(s.verifier));
    osb_client_close(cli->client); /* the next one has the key */
    cli->client = NULL;
    return r;
}

/* --- the command --- */

static int key_of_input(struct cli *cli)
{
    struct str key = cli_read_file(cli, "-");

    key = str_trim(str_make(key.p, str_find(key, '\n'))); /* its first line */
    if (!key.n)
        return cli_error(cli, "Login",
                         "Write the API key to standard input: osb login < file. Or sign in: "
                         "osb login --browser");
    cli->settings.api_key = arena_strdup(&cli->arena, key);
    return 0;
}

static int store_setting(struct cli *cli, const char *field, const char *value)
{
    struct str text = cli_read_file(cli, cli->settings.path);

    if (!text.p)
        return EXIT_FAILED;
    text = settings_set(&cli->arena, text, STR("connection"), str_of(field), str_of(value));
    return text.p ? settings_write(cli, text) : EXIT_FAILED;
}

/* Asks the server who the key is before it is stored: a wrong one changes nothing. A key comes from
 * standard input, so that it is in no list of processes. */
int login(struct cli *cli)
{
    const char *domain = cli_argument(cli, 0);
    struct osb_answer *answer = NULL;
    int r;

    if (domain)
        cli->settings.domain = domain;
    r = cli_flag(cli, "browser") ? key_of_browser(cli) : key_of_input(cli);
    if (r == 0)
        r = cli_client(cli);
    if (r == 0)
        r = cli_request(cli, &(struct osb_request){OSB_REQUEST, .method = "GET", .path = "/whoami"},
                        &answer);
    if (r == 0 && !cli->settings.file_exists)
        r = settings_write(cli, str_of(settings_template));
    if (r == 0)
        r = store_setting(cli, "api_key", cli->settings.api_key);
    if (r == 0 && domain)
        r = store_setting(cli, "domain", domain);
    if (r == 0)
        r = cli_message(cli, "Logged in as %s, role %s, tenant %s",
                        osb_answer_text(answer, "user") ? osb_answer_text(answer, "user")
                                                        : osb_answer_text(answer, "principal"),
                        osb_answer_text(answer, "role"),
                        osb_answer_bool(answer, "allTenants", false)
                            ? "any"
                            : osb_answer_text(answer, "tenant"));
    osb_answer_free(answer);
    return r;
}
