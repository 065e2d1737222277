/* cmd_teams.c - osb audit and events: for servers that several teams use. */
#include "osb/commands.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/codec.h"
#include "base/mem.h"
#include "base/sha.h"

/* --- the audit record --- */

enum { HASH_LEN = 2 * SHA256_BYTES, PAGE = 1000, FILES_MAX = 100 * 1000 };

/* A chain as far as it was checked. */
struct chain {
    uint64_t first, last;
    char hash[HASH_LEN + 1]; /* of `last` */
};

/* NULL, or what is wrong with the line. */
static const char *check_line(struct chain *c, struct str line, uint64_t *ret_seq)
{
    const struct str begin = STR("{\"seq\":"), mark = STR(",\"hash\":\""),
                     prev = STR(",\"prev\":\"");
    const size_t tail = mark.n + HASH_LEN + 2, prev_n = prev.n + HASH_LEN + 1;
    uint8_t digest[SHA256_BYTES];
    char hash[HASH_LEN + 1];
    struct str number, rest, body;

    *ret_seq = c->last + 1;
    if (!str_starts(line, begin) || line.n < begin.n + tail + prev_n)
        return "it is no entry";
    rest = str_skip(line, begin.n);
    if (!str_cut(&rest, ',', &number) || str_to_u64(number, ret_seq) < 0)
        return "it has no number";
    body = str_make(line.p, line.n - tail);
    rest = str_skip(line, body.n);
    sha256_of(body, digest);
    hash[hex_encode(str_make((const char *)digest, sizeof(digest)), hash)] = '\0';
    if (!str_starts(rest, mark) || !str_eq(str_make(rest.p + mark.n, HASH_LEN), str_of(hash)))
        return "its content does not fit its hash";
    rest = str_skip(body, body.n - prev_n);
    if (!str_starts(rest, prev))
        return "it does not name the entry before it";
    if (c->last && *ret_seq != c->last + 1)
        return *ret_seq > c->last ? "entries before it are missing"
                                  : "it stands in the wrong place";
    if (c->last && !str_eq(str_make(rest.p + prev.n, HASH_LEN), str_of(c->hash)))
        return "the entry before it is another one";
    if (!c->last)
        c->first = *ret_seq;
    c->last = *ret_seq;
    memcpy(c->hash, hash, sizeof(c->hash));
    return NULL;
}

static int check_text(struct cli *cli, struct chain *c, struct str text, const char *where)
{
    struct str line;
    uint64_t seq;

    while (str_cut(&text, '\n', &line)) {
        const char *why = line.n ? check_line(c, line, &seq) : NULL;

        if (why)
            return cli_error(cli, "Audit", "The record was changed: entry %llu in %s: %s.",
                             (unsigned long long)seq, where, why);
    }
    return 0;
}

static int is_part(const struct dirent *entry)
{
    struct str name = str_of(entry->d_name);

    return str_starts(name, STR("audit-")) && str_ends(name, STR(".jsonl"));
}

static int check_files(struct cli *cli, struct chain *c, const char *path)
{
    struct dirent **names = NULL;
    struct stat st;
    int n, r = 0;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        struct str text = cli_read_file(cli, path);

        return text.p ? check_text(cli, c, text, path) : EXIT_FAILED;
    }
    n = scandir(path, &names, is_part, alphasort);
    if (n < 0)
        return cli_error(cli, "File", "Cannot read '%s': %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *name = arena_printf(&cli->arena, "%s/%s", path, names[i]->d_name);
        struct str text = r || !name ? STR_NONE : cli_read_file(cli, name);

        if (!r)
            r = text.p ? check_text(cli, c, text, name) : EXIT_FAILED;
        free(names[i]);
    }
    free(names);
    return r;
}

static int check_server(struct cli *cli, struct chain *c)
{
    struct osb_answer *answer = NULL;
    size_t bytes;
    int r = cli_client(cli);
    bool more = true;

    while (r == 0 && more) {
        const char *path = arena_printf(&cli->arena, "/audit?format=jsonl&limit=%d&after=%llu",
                                        PAGE, (unsigned long long)c->last);
        uint64_t before = c->last;
        const char *body;

        r = cli_request(cli, &(struct osb_request){OSB_REQUEST, .method = "GET", .path = path},
                        &answer);
        if (r)
            break;
        body = osb_answer_body(answer, &bytes);
        r = check_text(cli, c, str_make(body, bytes), "the server's record");
        more = c->last >= before + PAGE;
        osb_answer_free(answer);
        answer = NULL;
    }
    return r;
}

int audit_verify(struct cli *cli)
{
    const char *path = cli_argument(cli, 0), *head = cli_text(cli, "head");
    struct chain c = {0};
    struct doc doc;
    int r = path ? check_files(cli, &c, path) : check_server(cli, &c);

    if (r)
        return r;
    if (head && strcmp(head, c.hash) != 0)
        return cli_error(cli, "Audit",
                         "The record does not end with %s: its last entry is %llu, %s.", head,
                         (unsigned long long)c.last, c.last ? c.hash : "none");
    doc_begin(&doc);
    json_member_u64(&doc.w, STR("first"), c.first);
    json_member_u64(&doc.w, STR("last"), c.last);
    json_member_u64(&doc.w, STR("entries"), c.last ? c.last - c.first + 1 : 0);
    doc_text(&doc, "head", c.hash);
    doc_text(&doc, "status", "intact");
    json_write_object_end(&doc.w);
    return cli_object(cli, "Audit record", &doc);
}

static const struct audit_option {
    const char *option, *query;
} audit_options[] = {
    {"principal", "principal"},
    {"tenant",    "tenant"   },
    {"method",    "method"   },
    {"route",     "route"    },
    {"target",    "target"   },
    {"outcome",   "outcome"  },
    {"since",     "since"    },
    {"until",     "until"    },
};

static int audit_ask(struct cli *cli, const char *format, struct osb_answer **ret)
{
    struct osb_pair query[ARRAY_LEN(audit_options) + 2];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(audit_options); i++)
        query[n++] =
            (struct osb_pair){audit_options[i].query, cli_text(cli, audit_options[i].option)};
    query[n++] = (struct osb_pair){"format", format};
    query[n++] = (struct osb_pair){
        "limit", arena_printf(&cli->arena, "%lld", (long long)cli_number(cli, "limit", 100))};
    return cli_request(cli,
                       &(struct osb_request){OSB_REQUEST, .method = "GET", .path = "/audit",
                                             .query = query, .query_count = n},
                       ret);
}

int audit_list_command(struct cli *cli)
{
    struct osb_answer *answer = NULL;
    const struct json *v;
    struct doc doc;
    int r = audit_ask(cli, "json", &answer);

    if (r)
        return r;
    v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    buf_init(&doc.text, DOC_BYTES_MAX);
    json_write_begin(&doc.w, &doc.text);
    shape_snake(&doc.w, cli->format == FORMAT_TABLE ? json_get(v, STR("items")) : v);
    r = cli->format == FORMAT_TABLE
            ? cli_rows(cli, "Audit", "seq time principal tenant method route target status", &doc)
            : cli_object(cli, "Audit", &doc);
    osb_answer_free(answer);
    return r;
}

int audit_export(struct cli *cli)
{
    struct osb_answer *answer = NULL;
    size_t bytes;
    const char *body;
    int r = audit_ask(cli, "jsonl", &answer);

    if (r)
        return r;
    body = osb_answer_body(answer, &bytes);
    r = cli_write(body, bytes) ? EXIT_FAILED : EXIT_OK;
    osb_answer_free(answer);
    return r;
}

/* --- events --- */

enum { EVENT_LINE_MAX = 64 << 10 };

struct event_lines {
    struct buf line;
};

/* Prints the data of each event, which is one line of JSON. */
static int on_piece(void *user, const char *data, size_t bytes)
{
    struct event_lines *e = user;

    for (size_t i = 0; i < bytes; i++) {
        struct str line = buf_str(&e->line);

        if (data[i] != '\n') {
            if (buf_add_char(&e->line, data[i]) < 0)
                return 1;
            continue;
        }
        if (str_starts(line, STR("data: {\""))) {
            (void)buf_add_char(&e->line, '\n');
            if (cli_write(e->line.p + STR("data: ").n, e->line.n - STR("data: ").n))
                return 1;
        }
        buf_clear(&e->line);
    }
    return 0;
}

int events(struct cli *cli)
{
    struct event_lines e;
    struct osb_pair query = {"sandboxId", cli_argument(cli, 0)};
    struct osb_pair last = {"Last-Event-ID", cli_text(cli, "since")};
    int r;

    buf_init(&e.line, EVENT_LINE_MAX);
    r = cli_request(cli,
                    &(struct osb_request){OSB_REQUEST, .method = "GET", .path = "/events",
                                          .query = &query, .query_count = 1, .headers = &last,
                                          .header_count = last.value ? 1 : 0, .sink = on_piece,
                                          .user = &e, .streams = true},
                    NULL);
    buf_done(&e.line);
    return r;
}
