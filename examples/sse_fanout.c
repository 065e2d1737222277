/* sse_fanout.c - one ticker, any number of browsers: how an event hub handles fast and slow
 * clients.
 *
 *   GET /        a page that shows the events
 *   GET /events  the stream
 *   GET /stats   connected and dropped clients, and the reasons
 *
 * Usage and explanation: examples/README.md. SIGTERM and SIGINT end it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/json_write.h"
#include "net/http_server.h"
#include "net/sse.h"
#include "version.h"

enum { DATA_BYTES_MAX = 1 << 20, LEAVE_COUNT = SSE_LEFT_LAG_TIME + 1 };

struct options {
    uint32_t every_ms, bytes, count, hold, lagging_max, lag_bytes, lag_ms, ping_ms, send_buffer;
};

struct option_row {
    const char *name;
    size_t offset;
    const char *help;
};

#define ROW(name, field, help)                                                                     \
    {                                                                                              \
        name, offsetof(struct options, field), help                                                \
    }

static const struct option_row option_rows[] = {
    ROW("--every", every_ms, "milliseconds between two events (200)"),
    ROW("--bytes", bytes, "of padding in each event (64)"),
    ROW("--count", count, "of events, then the stream ends (0: never)"),
    ROW("--hold", hold, "the first event until so many clients joined (0)"),
    ROW("--lagging", lagging_max, "clients at most when an event is published (4294967295)"),
    ROW("--lag-bytes", lag_bytes, "a client may lag before it is dropped (1048576)"),
    ROW("--lag-ms", lag_ms, "milliseconds it may lag (10000)"),
    ROW("--ping", ping_ms, "milliseconds of silence before a comment (15000)"),
    ROW("--send-buffer", send_buffer, "bytes of SO_SNDBUF of each client (0: the kernel's)"),
};

struct fanout {
    struct options opt;
    struct loop *loop;
    struct loop_signals signals;
    struct loop_timer ticker;
    struct http_server *server;
    struct sse_hub *hub; /* NULL once the stream has ended */
    struct sse_hub_stats last;
    uint64_t seq;
    uint64_t left[LEAVE_COUNT]; /* by reason, counted in on_leave() */
};

static const char page[] =
    "<!doctype html><meta charset=utf-8><title>fan-out</title>\n"
    "<h1>Events</h1><p id=state>connecting</p><pre id=log></pre>\n"
    "<script>\n"
    "const state = document.getElementById('state'), log = document.getElementById('log');\n"
    "const source = new EventSource('/events');\n"
    "let lines = [];\n"
    "source.onopen = () => state.textContent = 'connected';\n"
    "source.onerror = () => state.textContent = 'lost; the browser tries again';\n"
    "source.addEventListener('tick', e => {\n"
    "    lines = [e.lastEventId + '  ' + e.data.slice(0, 100), ...lines.slice(0, 19)];\n"
    "    log.textContent = lines.join('\\n');\n"
    "});\n"
    "</script>\n";

/* --- the ticker --- */

/* A checksum that lets a client verify that every byte arrived (RFC 1950, 8.2). */
static uint32_t adler32(struct str s)
{
    uint32_t a = 1, b = 0;

    for (size_t i = 0; i < s.n; i++) {
        a = (a + (unsigned char)s.p[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static int format_data(struct buf *out, uint64_t seq, uint32_t pad_bytes)
{
    AUTO_BUF(pad, DATA_BYTES_MAX);
    struct json_writer w;

    for (uint32_t i = 0; i < pad_bytes; i++)
        (void)buf_add_char(&pad, (char)('a' + (seq + i) % 26));
    json_write_begin(&w, out);
    json_write_object(&w);
    json_write_key(&w, STR("seq"));
    json_write_u64(&w, seq);
    json_write_key(&w, STR("adler32"));
    json_write_u64(&w, adler32(buf_str(&pad)));
    json_write_key(&w, STR("pad"));
    json_write_string(&w, buf_str(&pad));
    json_write_object_end(&w);
    return json_write_end(&w);
}

static void publish_next(struct fanout *f)
{
    char id[24];
    AUTO_BUF(data, DATA_BYTES_MAX);
    int r = format_data(&data, f->seq + 1, f->opt.bytes);

    snprintf(id, sizeof(id), "%llu", (unsigned long long)f->seq + 1);
    if (r == 0)
        r = sse_hub_publish_event(f->hub,
                                  &(struct sse_event){STR("tick"), str_of(id), buf_str(&data)});
    if (r == 0)
        f->seq++;
    else
        fprintf(stderr, "sse_fanout: event %s not published: %s\n", id, strerror(-r));
}

static void end_stream(struct fanout *f)
{
    sse_hub_stats(f->hub, &f->last);
    sse_hub_free(f->hub);
    f->hub = NULL;
}

static void on_tick(struct loop_timer *t)
{
    struct fanout *f = container_of(t, struct fanout, ticker);
    struct sse_hub_stats stats;

    sse_hub_stats(f->hub, &stats);
    if (f->opt.count && f->seq == f->opt.count) {
        if (stats.lagging == 0) { /* every client has received everything, or was dropped */
            end_stream(f);
            return;
        }
    } else if (stats.joined >= f->opt.hold && stats.lagging <= f->opt.lagging_max) {
        publish_next(f);
    }
    loop_timer_set(f->loop, t, loop_now_ns(f->loop) + (uint64_t)f->opt.every_ms * 1000000, on_tick);
}

static void on_leave(void *user, struct http_req *req UNUSED, enum sse_leave why)
{
    struct fanout *f = user;

    f->left[why]++;
}

/* --- routes --- */

static void get_page(struct http_req *req)
{
    http_reply(req, 200, STR("text/html; charset=utf-8"), str_of(page));
}

static void get_events(struct http_req *req)
{
    struct fanout *f = req->server_user;

    if (f->hub)
        sse_hub_join(f->hub, req);
    else
        http_reply_error(req, 410, NULL, "the stream has ended");
}

static void write_number(struct json_writer *w, struct str key, uint64_t n)
{
    json_write_key(w, key);
    json_write_u64(w, n);
}

static void get_stats(struct http_req *req)
{
    struct fanout *f = req->server_user;
    AUTO_BUF(out, 4096);
    struct sse_hub_stats s = f->last;
    struct json_writer w;

    if (f->hub)
        sse_hub_stats(f->hub, &s);
    json_write_begin(&w, &out);
    json_write_object(&w);
    json_write_key(&w, STR("ended"));
    json_write_bool(&w, !f->hub);
    write_number(&w, STR("clients"), s.clients);
    write_number(&w, STR("lagging"), s.lagging);
    write_number(&w, STR("joined"), s.joined);
    write_number(&w, STR("published"), s.published);
    write_number(&w, STR("left"), s.left);
    write_number(&w, STR("dropped_slow"), s.dropped_lag + s.dropped_lag_time);
    json_write_key(&w, STR("dropped_reasons"));
    json_write_object(&w);
    write_number(&w, STR("lag_bytes"), f->left[SSE_LEFT_LAG]);
    write_number(&w, STR("lag_ms"), f->left[SSE_LEFT_LAG_TIME]);
    json_write_object_end(&w);
    write_number(&w, STR("lag_bytes"), s.lag_bytes);
    write_number(&w, STR("lag_bytes_peak"), s.lag_bytes_peak);
    write_number(&w, STR("lag_bytes_max"), f->opt.lag_bytes);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        http_reply_error(req, 500, NULL, "statistics do not fit");
    else
        http_reply(req, 200, STR("application/json"), buf_str(&out));
}

static const struct http_route routes[] = {
    {HTTP_BIT(HTTP_GET), "/",       0, get_page,   0},
    {HTTP_BIT(HTTP_GET), "/events", 0, get_events, 0},
    {HTTP_BIT(HTTP_GET), "/stats",  0, get_stats,  0},
};

/* --- the program --- */

static void print_usage(FILE *out)
{
    fprintf(out, "usage: sse_fanout ADDRESS [OPTION NUMBER]... | --version | --help\n"
                 "Sends the same events to all clients, at an address such as 127.0.0.1:8080.\n");
    for (size_t i = 0; i < ARRAY_LEN(option_rows); i++)
        fprintf(out, "  %-14s %s\n", option_rows[i].name, option_rows[i].help);
}

static int parse_option(struct options *opt, const char *name, const char *value, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(option_rows); i++)
        if (str_eq(str_of(name), str_of(option_rows[i].name))) {
            uint32_t *field = (uint32_t *)((char *)opt + option_rows[i].offset);

            if (!value || str_to_u32(str_of(value), field) < 0)
                return err_set(e, EINVAL, "%s wants a number", name);
            return 0;
        }
    return err_set(e, EINVAL, "unknown option '%s'; sse_fanout --help lists the options", name);
}

static int parse(int argc, char **argv, struct options *opt, struct sock_addr *addr, struct err *e)
{
    int r;

    if (argc < 2) {
        print_usage(stderr);
        return err_set(e, EINVAL, "expected an address");
    }
    if (argv[1][0] == '-')
        return parse_option(opt, argv[1], NULL, e);
    r = sock_addr_parse(str_of(argv[1]), addr, e);
    for (int i = 2; r == 0 && i < argc; i += 2)
        r = parse_option(opt, argv[i], argv[i + 1], e); /* argv ends with NULL */
    if (r == 0 && (opt->every_ms == 0 || opt->bytes > DATA_BYTES_MAX / 2))
        r = err_set(e, EINVAL, "--every is at least 1, --bytes at most %d", DATA_BYTES_MAX / 2);
    return r;
}

static void on_drained(void *user)
{
    loop_stop(((struct fanout *)user)->loop);
}

static void on_signal(struct loop_signals *s, int signo UNUSED)
{
    struct fanout *f = container_of(s, struct fanout, signals);

    loop_timer_stop(f->loop, &f->ticker);
    if (f->hub)
        end_stream(f);
    http_server_drain(f->server, 1000, on_drained, f);
}

static int listen_on(struct fanout *f, const struct sock_addr *addr, struct err *e)
{
    int send_buffer = (int)f->opt.send_buffer, fd = sock_listen(addr, 4096, e);
    char text[SOCK_ADDR_TEXT_MAX];
    struct sock_addr local;
    int r;

    if (fd < 0)
        return fd;
    /* Accepted sockets inherit SO_SNDBUF, and the kernel stops growing the buffer automatically. */
    if (send_buffer > 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer)) < 0) {
        r = err_sys(e, errno, "set SO_SNDBUF");
        fd_close(fd);
        return r;
    }
    r = sock_local_addr(fd, &local);
    if (r < 0) {
        fd_close(fd);
        return err_sys(e, -r, "ask for the address");
    }
    r = http_server_listen(f->server, fd, e);
    if (r < 0)
        return r;
    sock_addr_format(&local, text);
    printf("%s\n", text);
    return fflush(stdout) == 0 ? 0 : err_sys(e, errno, "write");
}

static int start(struct fanout *f, const struct sock_addr *addr, struct err *e)
{
    const struct http_server_conf server_conf = {
        .routes = routes, .route_count = ARRAY_LEN(routes), .user = f};
    const struct sse_hub_conf hub_conf = {
        .lag_ms_max = f->opt.lag_ms, .ping_ms = f->opt.ping_ms, .on_leave = on_leave, .user = f};
    sigset_t set;
    int r;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    r = loop_new(&f->loop, e);
    if (r == 0)
        r = loop_signals_start(f->loop, &f->signals, &set, on_signal, e);
    if (r == 0)
        r = http_server_new(f->loop, &server_conf, &f->server, e);
    if (r < 0)
        return r;
    r = sse_hub_new(f->loop, f->opt.lag_bytes, &f->hub);
    if (r < 0)
        return err_set(e, -r, "--lag-bytes is too small");
    sse_hub_configure(f->hub, &hub_conf);
    loop_timer_set(f->loop, &f->ticker, 0, on_tick);
    return listen_on(f, addr, e);
}

int main(int argc, char **argv)
{
    struct fanout f = {
        .opt =
            {
                  .every_ms = 200,
                  .bytes = 64,
                  .lagging_max = UINT32_MAX,
                  .lag_bytes = 1 << 20,
                  .lag_ms = 10000,
                  .ping_ms = 15000,
                  },
    };
    struct sock_addr addr;
    struct err e = {0};
    const char *word = argc > 1 ? argv[1] : "";
    int r;

    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(word, "--version") == 0)
        return printf("sse_fanout " OPENSANDBOX_VERSION "\n") < 0;
    if (parse(argc, argv, &f.opt, &addr, &e) < 0) {
        fprintf(stderr, "sse_fanout: %s\n", e.msg);
        return 2;
    }
    r = start(&f, &addr, &e);
    if (r == 0)
        r = loop_run(f.loop, &e);
    if (r < 0)
        fprintf(stderr, "sse_fanout: %s\n", e.msg);
    if (f.loop)
        loop_timer_stop(f.loop, &f.ticker);
    http_server_free(f.server);
    sse_hub_free(f.hub);
    if (f.signals.loop)
        loop_signals_stop(&f.signals);
    loop_free(f.loop);
    return r < 0;
}
