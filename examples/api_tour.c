/* api_tour.c - the life of a sandbox over HTTP, driven by a client in C.
 *
 *   OPEN_SANDBOX_API_KEY=... api_tour http://127.0.0.1:8080
 *
 * Creates a sandbox, runs commands in it, writes a file and reads it back, and deletes the sandbox.
 * Prints the duration and the result of each step. Exits with 0 if every step succeeded. The
 * sandbox is deleted in any case, also after Ctrl-C. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/time.h"
#include "base/url.h"
#include "exchange.h"
#include "version.h"

enum {
    ARENA_BYTES_MAX = 1 << 20,
    RUNNING_S_MAX = 30,  /* for a sandbox to start */
    POLL_US = 10 * 1000, /* between two polls of its state */
    EXECD_PORT = 44772,
};

#define SHELL_LINE  "echo $GREETING; id -un; uname -n; ls -d /proc/[0-9]*"
#define PYTHON_LINE "python3 -c 'print(sum(n * n for n in range(1000)))'"
#define FILE_PATH   "/tmp/letter.txt"
#define FILE_TEXT   "Dear sandbox, this came over HTTP.\nYours, the host\n"
#define BOUNDARY    "--a-line-that-the-file-does-not-have"

struct tour {
    struct client client;
    struct arena arena;           /* for data that outlives a step */
    struct place server;          /* the lifecycle API */
    struct place execd;           /* the daemon inside the sandbox, through the server */
    struct str id;                /* of the sandbox; empty if there is none */
    struct buf shown;             /* output of a step, as lines */
    uint64_t asked_ns, output_ns; /* time of the create request, and of the first output */
};

/* --- one exchange, and the answer as JSON --- */

/* Parses the answer into `a` if the caller wants it: a 204 has none. */
static int ask(struct tour *t, struct exchange *x, struct arena *a, struct json **ret,
               struct err *e)
{
    int r = exchange_run(&t->client, x, e);

    if (r == 0 && ret)
        r = json_parse(a, buf_str(&x->answer), NULL, ret, e);
    exchange_done(x);
    return r;
}

static int want_str(const struct json *object, struct str key, struct str *ret, struct err *e)
{
    if (json_to_str(json_get(object, key), ret) < 0)
        return err_set(e, EBADMSG, "the answer has no '%.*s'", STR_ARG(key));
    return 0;
}

/* --- create --- */

static const char create_request[] =
    "{\"image\":{\"uri\":\"host\"},"
    "\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\"],"
    "\"resourceLimits\":{\"cpu\":\"1\",\"memory\":\"512Mi\"},"
    "\"env\":{\"GREETING\":\"Hello from a sandbox\"},"
    "\"metadata\":{\"made-by\":\"api_tour\"},"
    "\"timeout\":300}"; /* seconds: if all else fails, the server deletes the sandbox */

/* Polls the sandbox once: 1 = it runs, 0 = it may still start. */
static int look(struct tour *t, struct str *ret_state, struct err *e)
{
    char target[128];
    struct exchange x = {.place = &t->server, .method = HTTP_GET, .target = target};
    struct json *answer;
    struct str why = STR("no reason given");
    int r;

    (void)snprintf(target, sizeof(target), "/sandboxes/%.*s", STR_ARG(t->id));
    r = ask(t, &x, &t->arena, &answer, e);
    if (r == 0)
        r = want_str(json_get(answer, STR("status")), STR("state"), ret_state, e);
    if (r < 0)
        return r;
    (void)json_to_str(json_get(json_get(answer, STR("status")), STR("message")), &why);
    if (str_eq(*ret_state, STR("Failed")) || str_eq(*ret_state, STR("Terminated")))
        return err_set(e, ECHILD, "it is %.*s: %.*s", STR_ARG(*ret_state), STR_ARG(why));
    return str_eq(*ret_state, STR("Running"));
}

/* The answer says Running if the start was quick, and Pending otherwise. */
static int create(struct tour *t, struct err *e)
{
    struct exchange x = {
        .place = &t->server,
        .method = HTTP_POST,
        .target = "/sandboxes",
        .content_type = STR("application/json"),
        .body = str_of(create_request),
        .must_finish = true, /* otherwise a sandbox with an unknown id may remain */
    };
    uint64_t deadline = deadline_in_ms(RUNNING_S_MAX * 1000);
    struct str state = STR_NONE, id;
    struct json *answer;
    int r;

    t->asked_ns = time_mono_ns();
    r = ask(t, &x, &t->arena, &answer, e);
    if (r == 0)
        r = want_str(answer, STR("id"), &id, e);
    if (r < 0)
        return r;
    t->id = id;
    r = want_str(json_get(answer, STR("status")), STR("state"), &state, e);
    if (r == 0)
        r = str_eq(state, STR("Running"));
    while (r == 0) {
        if (deadline_passed(deadline))
            return err_set(e, ETIMEDOUT, "still not running after %d s", RUNNING_S_MAX);
        (void)usleep(POLL_US);
        r = look(t, &state, e);
    }
    return r < 0 ? r : buf_addf(&t->shown, "%.*s is %.*s\n", STR_ARG(id), STR_ARG(state));
}

/* --- endpoint --- */

/* An endpoint is "host:port/path" without a scheme, with headers that grant access. */
static int locate(struct tour *t, struct err *e)
{
    char target[128];
    struct exchange x = {.place = &t->server, .method = HTTP_GET, .target = target};
    struct json *answer;
    struct str endpoint;
    char *url;
    int r;

    (void)snprintf(target, sizeof(target), "/sandboxes/%.*s/endpoints/%d?use_server_proxy=true",
                   STR_ARG(t->id), EXECD_PORT);
    r = ask(t, &x, &t->arena, &answer, e);
    if (r == 0)
        r = want_str(answer, STR("endpoint"), &endpoint, e);
    if (r < 0)
        return r;
    url = arena_printf(&t->arena, "http://%.*s", STR_ARG(endpoint));
    r = place_init(&t->execd, &t->arena, str_of(url), e);
    if (r < 0)
        return r;
    json_each(header, json_get(answer, STR("headers")))
    {
        struct str value;

        if (json_to_str(header, &value) == 0 && t->execd.header_count < PLACE_HEADERS_MAX)
            t->execd.headers[t->execd.header_count++] = (struct http_header){header->key, value};
    }
    return buf_addf(&t->shown, "http://%.*s\n", STR_ARG(endpoint));
}

/* --- commands --- */

/* State of one command while its events arrive. */
struct command {
    struct tour *tour;
    struct arena arena; /* for one event */
    bool complete;
    char exit_code[16]; /* of a command that failed */
};

static void on_output(struct command *c, struct str text)
{
    if (c->tour->output_ns == 0)
        c->tour->output_ns = time_mono_ns();
    (void)buf_addf(&c->tour->shown, "%.*s\n", STR_ARG(text));
}

/* An event is a JSON object on its own line. Unknown types are ignored. */
static void on_event(struct exchange *x, struct str line)
{
    struct command *c = x->user;
    struct str type = STR_NONE, text = STR_NONE;
    struct json *event;

    arena_reset(&c->arena);
    if (json_parse(&c->arena, line, NULL, &event, NULL) < 0)
        return;
    (void)json_to_str(json_get(event, STR("type")), &type);
    (void)json_to_str(json_get(event, STR("text")), &text);
    if (str_eq(type, STR("stdout")) || str_eq(type, STR("stderr"))) {
        on_output(c, text);
    } else if (str_eq(type, STR("execution_complete"))) {
        c->complete = true;
    } else if (str_eq(type, STR("error"))) {
        (void)json_to_str(json_get(json_get(event, STR("error")), STR("evalue")), &text);
        (void)!str_copy(c->exit_code, sizeof(c->exit_code), text);
    }
}

static int run(struct tour *t, const char *line, struct err *e)
{
    struct command c = {.tour = t};
    struct exchange x = {
        .place = &t->execd,
        .method = HTTP_POST,
        .target = "/command",
        .content_type = STR("application/json"),
        .on_line = on_event,
        .user = &c,
    };
    AUTO_BUF(body, 4096);
    struct json_writer w;
    int r;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_write_key(&w, STR("command"));
    json_write_string(&w, str_of(line));
    json_write_object_end(&w);
    r = json_write_end(&w);
    if (r < 0)
        return err_sys(e, -r, "write the request");
    arena_init(&c.arena, ARENA_BYTES_MAX);
    x.body = buf_str(&body);
    r = ask(t, &x, NULL, NULL, e);
    arena_done(&c.arena);
    if (r == 0 && !c.complete)
        r = err_set(e, ECHILD, "the command failed, status %s:\n%s", c.exit_code, t->shown.p);
    return r;
}

static int run_shell(struct tour *t, struct err *e)
{
    return run(t, SHELL_LINE, e);
}

static int run_python(struct tour *t, struct err *e)
{
    return run(t, PYTHON_LINE, e);
}

/* --- files --- */

static int write_file(struct tour *t, struct err *e)
{
    static const char form[] =
        "--" BOUNDARY "\r\n"
        "Content-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
        "Content-Type: application/json\r\n\r\n"
        "{\"path\":\"" FILE_PATH "\",\"mode\":644}\r\n"
        "--" BOUNDARY "\r\n"
        "Content-Disposition: form-data; name=\"file\"; filename=\"letter.txt\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\n" FILE_TEXT "\r\n"
        "--" BOUNDARY "--\r\n";
    struct exchange x = {
        .place = &t->execd,
        .method = HTTP_POST,
        .target = "/files/upload",
        .content_type = STR("multipart/form-data; boundary=" BOUNDARY),
        .body = str_of(form),
    };
    int r = ask(t, &x, NULL, NULL, e);

    return r < 0 ? r : buf_addf(&t->shown, "%zu bytes\n", sizeof(FILE_TEXT) - 1);
}

static int read_file(struct tour *t, struct err *e)
{
    AUTO_BUF(target, 256);
    struct exchange x = {.place = &t->execd, .method = HTTP_GET};
    int r = buf_add(&target, STR("/files/download?path="));

    if (r == 0)
        r = url_encode(STR(FILE_PATH), URL_SET_QUERY_VALUE, &target);
    if (r < 0)
        return err_sys(e, -r, "write the request");
    x.target = target.p;
    r = exchange_run(&t->client, &x, e);
    if (r == 0 && !str_eq(buf_str(&x.answer), STR(FILE_TEXT)))
        r = err_set(e, EBADMSG, "other bytes came back: %s", x.answer.p);
    if (r == 0)
        r = buf_add(&t->shown, buf_str(&x.answer));
    exchange_done(&x);
    return r;
}

/* --- delete --- */

static int delete_sandbox(struct tour *t, struct err *e)
{
    char target[128];
    struct exchange x = {
        .place = &t->server, .method = HTTP_DELETE, .target = target, .must_finish = true};

    (void)snprintf(target, sizeof(target), "/sandboxes/%.*s", STR_ARG(t->id));
    t->id = STR_NONE; /* do not try again */
    return ask(t, &x, NULL, NULL, e);
}

/* --- the tour --- */

static const struct step {
    const char *what;
    int (*take)(struct tour *t, struct err *e);
} steps[] = {
    {"create a sandbox from the image 'host'",    create        },
    {"ask for the endpoint of the daemon inside", locate        },
    {"run " SHELL_LINE,                           run_shell     },
    {"run " PYTHON_LINE,                          run_python    },
    {"write " FILE_PATH,                          write_file    },
    {"read " FILE_PATH,                           read_file     },
    {"delete the sandbox",                        delete_sandbox},
};

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
    return (double)(to_ns - from_ns) / 1e6;
}

static int take_step(struct tour *t, const struct step *step, struct err *e)
{
    uint64_t began_ns = time_mono_ns();
    struct str rest, line;
    int r;

    buf_clear(&t->shown);
    r = step->take(t, e);
    if (r < 0)
        return err_wrap(e, r, "%s", step->what);
    printf("%8.1f ms  %s\n", ms_between(began_ns, time_mono_ns()), step->what);
    rest = buf_str(&t->shown);
    while (str_cut(&rest, '\n', &line) && (line.n > 0 || rest.n > 0))
        printf("             %.*s\n", STR_ARG(line));
    return fflush(stdout) == 0 ? 0 : err_sys(e, errno, "print");
}

static int walk(struct tour *t, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(steps); i++)
        r = take_step(t, &steps[i], e);
    if (t->id.n > 0) {
        struct err second = {0};

        if (delete_sandbox(t, &second) < 0)
            fprintf(stderr, "api_tour: delete the sandbox: %s\n", second.msg);
    }
    if (r == 0)
        printf("%8.1f ms  from asking for a sandbox to the first output of a command in it\n",
               ms_between(t->asked_ns, t->output_ns));
    return r;
}

static int prepare(struct tour *t, const char *address, struct err *e)
{
    const char *key = getenv("OPEN_SANDBOX_API_KEY");
    const char *url = arena_printf(&t->arena, "%s/v1", address);
    int r = client_open(&t->client, e);

    if (r == 0)
        r = place_init(&t->server, &t->arena, str_of(url), e);
    if (r == 0 && key && *key)
        t->server.headers[t->server.header_count++] =
            (struct http_header){STR("OPEN-SANDBOX-API-KEY"), str_of(key)};
    return r;
}

/* 0 = continue, 1 = done, 2 = wrong usage. */
static int parse(int argc, char **argv)
{
    static const char help[] =
        "usage: api_tour http://HOST:PORT | --version | --help\n"
        "Goes through the API of a server, with OPEN_SANDBOX_API_KEY from the environment.\n";
    const char *word = argc > 1 ? argv[1] : "";

    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return fputs(help, stdout) < 0 ? 2 : 1;
    if (strcmp(word, "--version") == 0)
        return printf("api_tour " OPENSANDBOX_VERSION "\n") < 0 ? 2 : 1;
    if (argc == 2 && word[0] != '-')
        return 0;
    if (word[0] == '-')
        fprintf(stderr, "api_tour: unknown option '%s'\n", word);
    fputs(help, stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct tour t = {0};
    struct err e = {0};
    int r = parse(argc, argv);

    if (r)
        return r == 1 ? EXIT_SUCCESS : r;
    arena_init(&t.arena, ARENA_BYTES_MAX);
    buf_init(&t.shown, ANSWER_BYTES_MAX);
    r = prepare(&t, argv[1], &e);
    if (r == 0)
        r = walk(&t, &e);
    if (r < 0)
        fprintf(stderr, "api_tour: %s\n", e.msg);
    client_close(&t.client);
    buf_done(&t.shown);
    arena_done(&t.arena);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
