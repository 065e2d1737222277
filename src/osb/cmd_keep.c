/* cmd_keep.c - osb image, volume and pool: what a server keeps. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "osb/commands.h"

/* --- progress --- */

enum { BAR_COLUMNS = 24, LINE_MS = 100 };

/* A bar on standard error, on terminals only. */
struct bar {
    bool shown, drawn;
    uint64_t next; /* when it may be drawn again */
};

static void bar_init(struct bar *b)
{
    *b = (struct bar){.shown = isatty(STDERR_FILENO)};
}

static void bar_draw(struct bar *b, const char *text, int64_t done, int64_t total)
{
    static const char full[] = "########################", empty[] = "                        ";
    int filled = total > 0 ? (int)(done * BAR_COLUMNS / total) : 0;

    if (!b->shown || (b->drawn && !deadline_passed(b->next)))
        return;
    b->next = deadline_in_ms(LINE_MS);
    b->drawn = true;
    filled = filled > BAR_COLUMNS ? BAR_COLUMNS : filled;
    if (total > 0)
        fprintf(stderr, "\r\033[K[%.*s%.*s] %3d%% %.1f/%.1f MiB %.40s", filled, full,
                BAR_COLUMNS - filled, empty, (int)(done * 100 / total), (double)done / 1048576,
                (double)total / 1048576, text);
    else
        fprintf(stderr, "\r\033[K%.1f MiB %.60s", (double)done / 1048576, text);
}

static void bar_end(struct bar *b)
{
    if (b->drawn)
        fputs("\r\033[K", stderr);
}

/* --- answers --- */

/* The object of an answer, in snake case; frees the answer. */
static int show_object(struct cli *cli, struct osb_answer *answer, const char *title)
{
    const struct json *v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    struct doc doc;

    osb_answer_free(answer);
    buf_init(&doc.text, DOC_BYTES_MAX);
    json_write_begin(&doc.w, &doc.text);
    shape_snake(&doc.w, v);
    return cli_object(cli, title, &doc);
}

/* A page: all of it as JSON, its items as a table. */
static int show_page(struct cli *cli, struct osb_answer *answer, const char *title,
                     const char *columns, const char *none)
{
    const struct json *v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    const struct json *items = json_get(v, STR("items"));
    struct doc doc;

    osb_answer_free(answer);
    if (cli->format == FORMAT_TABLE && json_count(items) == 0)
        return cli_info(cli, "%s", none);
    buf_init(&doc.text, DOC_BYTES_MAX);
    json_write_begin(&doc.w, &doc.text);
    shape_snake(&doc.w, cli->format == FORMAT_TABLE ? items : v);
    return cli->format == FORMAT_TABLE ? cli_rows(cli, title, columns, &doc)
                                       : cli_object(cli, title, &doc);
}

/* A row per argument: what became of it. Goes on after an error, and then returns EXIT_FAILED. */
static int each_argument(struct cli *cli, const char *key, const char *title,
                         int (*fn)(struct osb_client *client, const char *name))
{
    const char *const *names = cli_arguments(cli, 0);
    const char *columns = arena_printf(&cli->arena, "%s status", key);
    struct doc doc;
    int status = EXIT_OK;

    doc_begin_array(&doc);
    for (size_t i = 0; names[i]; i++) {
        bool failed = fn(cli->client, names[i]) < 0;

        if (failed)
            status = cli_failed(cli);
        json_write_object(&doc.w);
        doc_text(&doc, key, names[i]);
        doc_text(&doc, "status", failed ? "error" : "deleted");
        json_write_object_end(&doc.w);
    }
    cli_rows(cli, title, columns, &doc);
    return status;
}

static struct osb_filter page_of(const struct cli *cli)
{
    return (struct osb_filter){OSB_FILTER, .page = (uint32_t)cli_number(cli, "page", 0),
                               .page_size = (uint32_t)cli_number(cli, "page-size", 0)};
}

/* --- images --- */

int image_list(struct cli *cli)
{
    struct osb_filter filter = page_of(cli);
    struct osb_answer *answer = NULL;

    if (osb_image_list(cli->client, &filter, &answer) < 0)
        return cli_failed(cli);
    return show_page(cli, answer, "Images", "names size layers in_use last_used_at",
                     "No images found.");
}

int image_get(struct cli *cli)
{
    struct osb_answer *answer = NULL;

    if (osb_image_get(cli->client, cli_argument(cli, 0), &answer) < 0)
        return cli_failed(cli);
    return show_object(cli, answer, "Image");
}

static int on_progress(void *user, const char *message, int64_t done, int64_t total)
{
    bar_draw(user, message, done, total);
    return 0;
}

int image_pull(struct cli *cli)
{
    struct bar bar;
    struct osb_pull pull = {OSB_PULL,
                            .image = cli_argument(cli, 0),
                            .user = cli_text(cli, "username"),
                            .password = cli_text(cli, "password"),
                            .platform = cli_text(cli, "platform"),
                            .policy = cli_text(cli, "policy"),
                            .on_progress = on_progress,
                            .progress_user = &bar};
    struct osb_answer *answer = NULL;
    int r;

    if (!pull.user != !pull.password) {
        cli_error(cli, "Usage", "Pass both --username and --password.");
        return EXIT_USAGE;
    }
    bar_init(&bar);
    cli_interruptible(cli, true);
    r = osb_image_pull(cli->client, &pull, &answer);
    bar_end(&bar);
    if (cli_interruptible(cli, false))
        return 130;
    return r < 0 ? cli_failed(cli) : show_object(cli, answer, "Image Pulled");
}

struct upload {
    int fd;
    int64_t done, total;
    struct bar bar;
};

static long read_upload(void *user, char *out, size_t size)
{
    struct upload *u = user;
    ssize_t n;

    do
        n = read(u->fd, out, size);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        u->done += n;
    bar_draw(&u->bar, "imported", u->done, u->total);
    return n < 0 ? -errno : n;
}

int image_import(struct cli *cli)
{
    const char *file = cli_argument(cli, 0);
    bool input = strcmp(file, "-") == 0;
    struct upload u = {.fd = input ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC)};
    struct osb_answer *answer = NULL;
    struct stat st;
    int r;

    if (u.fd < 0)
        return cli_error(cli, "File", "'%s': %s", file, strerror(errno));
    if (fstat(u.fd, &st) == 0 && S_ISREG(st.st_mode) && !input)
        u.total = st.st_size;
    bar_init(&u.bar);
    r = osb_image_import(cli->client, cli_text(cli, "name"), read_upload, &u, u.total, &answer);
    bar_end(&u.bar);
    if (!input)
        fd_close(u.fd);
    return r < 0 ? cli_failed(cli) : show_object(cli, answer, "Image Imported");
}

struct download {
    int fd;
    int64_t done;
    struct bar bar;
};

static int write_download(void *user, const char *data, size_t bytes)
{
    struct download *d = user;

    d->done += (int64_t)bytes;
    bar_draw(&d->bar, "exported", d->done, 0);
    return io_write_full(d->fd, str_make(data, bytes), DEADLINE_NEVER);
}

/* Into a file that takes its name when it is whole, or to standard output. */
int image_export(struct cli *cli)
{
    const char *name = cli_argument(cli, 0), *file = cli_argument(cli, 1);
    bool output = !file || strcmp(file, "-") == 0;
    const char *part = output ? NULL : arena_printf(&cli->arena, "%s.part-%d", file, (int)getpid());
    struct download d = {.fd = STDOUT_FILENO};
    int r;

    if (output && isatty(STDOUT_FILENO))
        return cli_error(cli, "Usage", "An archive on a terminal helps nobody: name a file.");
    if (!output)
        d.fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (d.fd < 0)
        return cli_error(cli, "File", "Cannot write '%s': %s", file, strerror(errno));
    bar_init(&d.bar);
    r = osb_image_export(cli->client, name, write_download, &d);
    bar_end(&d.bar);
    if (output)
        return r < 0 ? cli_failed(cli) : EXIT_OK;
    fd_close(d.fd);
    if (r < 0 || rename(part, file) < 0) {
        r = r < 0 ? cli_failed(cli)
                  : cli_error(cli, "File", "Cannot write '%s': %s", file, strerror(errno));
        unlink(part);
        return r;
    }
    return cli_message(cli, "Exported: %s → %s", name, file);
}

int image_remove(struct cli *cli)
{
    return each_argument(cli, "image", "Images Deleted", osb_image_delete);
}

int image_prune(struct cli *cli)
{
    int64_t max = cli_flag(cli, "all") ? 0 : cli_number(cli, "max-bytes", -1);
    struct osb_answer *answer = NULL;

    if (osb_image_prune(cli->client, max, &answer) < 0)
        return cli_failed(cli);
    return show_object(cli, answer, "Images Pruned");
}

/* --- volumes --- */

int volume_list(struct cli *cli)
{
    struct osb_filter filter = page_of(cli);
    struct osb_answer *answer = NULL;

    if (osb_volume_list(cli->client, &filter, &answer) < 0)
        return cli_failed(cli);
    return show_page(cli, answer, "Volumes", "name size_bytes used_bytes used_by created_at",
                     "No volumes found.");
}

int volume_get(struct cli *cli)
{
    struct osb_answer *answer = NULL;

    if (osb_volume_get(cli->client, cli_argument(cli, 0), &answer) < 0)
        return cli_failed(cli);
    return show_object(cli, answer, "Volume");
}

int volume_create(struct cli *cli)
{
    struct osb_answer *answer = NULL;

    if (osb_volume_create(cli->client, cli_argument(cli, 0), cli_text(cli, "size"), &answer) < 0)
        return cli_failed(cli);
    return show_object(cli, answer, "Volume Created");
}

int volume_remove(struct cli *cli)
{
    return each_argument(cli, "volume", "Volumes Deleted", osb_volume_delete);
}

/* --- pools --- */

static struct osb_capacity capacity_of(const struct cli *cli)
{
    int64_t buffer_max = cli_number(cli, "buffer-max", 2);

    return (struct osb_capacity){
        .buffer_min = cli_number(cli, "buffer-min", buffer_max ? 1 : 0),
        .buffer_max = buffer_max,
        .pool_min = cli_number(cli, "pool-min", 0),
        .pool_max = cli_number(cli, "pool-max", 10),
    };
}

/* By options; or by a file, which has all of the request. */
int pool_create(struct cli *cli)
{
    struct osb_create sandbox = {OSB_CREATE};
    struct osb_pool_create pool = {OSB_POOL_CREATE, .name = cli_argument(cli, 0),
                                   .sandbox = &sandbox, .warm_up = cli_text(cli, "warm-up"),
                                   .capacity = capacity_of(cli)};
    struct osb_answer *answer = NULL;
    int r;

    if (cli_text(cli, "file"))
        return rest_command(cli);
    if (!pool.name) {
        cli_error(cli, "Usage", "A pool wants a name and an image, or a request by --file.");
        return EXIT_USAGE;
    }
    r = cli_fill_create(cli, &sandbox);
    if (r)
        return r;
    if (osb_pool_create(cli->client, &pool, &answer) < 0)
        return cli_failed(cli);
    return show_object(cli, answer, "Pool");
}

int pool_update(struct cli *cli)
{
    struct osb_capacity capacity = capacity_of(cli);
    struct osb_answer *answer = NULL;

    if (cli_text(cli, "file"))
        return rest_command(cli);
    if (osb_pool_resize(cli->client, cli_argument(cli, 0), &capacity, &answer) < 0)
        return cli_failed(cli);
    return show_object(cli, answer, "Pool");
}
