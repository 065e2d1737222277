/* cmd_file.c - osb file, and osb cp: files and directories of a sandbox. */
#include "osb/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"

static unsigned mode_option(const struct cli *cli, unsigned otherwise)
{
    return (unsigned)cli_number(cli, "mode", otherwise);
}

static int write_sink(void *user, const char *data, size_t bytes)
{
    return io_write_full(*(int *)user, str_make(data, bytes), DEADLINE_NEVER);
}

int file_cat(struct cli *cli)
{
    struct osb_read read = {OSB_READ};
    int fd = STDOUT_FILENO, r = cli_connect(cli);

    if (r)
        return r;
    read.range = cli_text(cli, "range");
    read.first_line = cli_number(cli, "line", 0);
    read.line_count = cli_number(cli, "lines", 0);
    if (osb_file_read(cli->sandbox, cli_argument(cli, 1), &read, write_sink, &fd) < 0)
        return cli_failed(cli);
    return EXIT_OK;
}

static long read_source(void *user, char *out, size_t size)
{
    ssize_t n;

    do
        n = read(*(int *)user, out, size);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

int file_write(struct cli *cli)
{
    const char *content = cli_text(cli, "content");
    int fd = STDIN_FILENO, r = cli_connect(cli);
    struct osb_upload upload = {
        .path = cli_argument(cli, 1),
        .mode = mode_option(cli, 0755),
        .owner = cli_text(cli, "owner"),
        .group = cli_text(cli, "group"),
    };

    if (r)
        return r;
    if (content) {
        upload.data = content;
        upload.data_bytes = strlen(content);
    } else {
        upload.source = read_source;
        upload.user = &fd;
    }
    if (osb_files_upload(cli->sandbox, &upload, 1) < 0)
        return cli_failed(cli);
    return cli_message(cli, "Written: %s", upload.path);
}

int file_upload(struct cli *cli)
{
    const char *local = cli_argument(cli, 1), *remote = cli_argument(cli, 2);
    struct osb_upload upload = {.path = remote, .mode = 0755, .local_path = local};
    struct stat st;
    int r;

    if (stat(local, &st) < 0) {
        cli_error(cli, "Usage", "Path '%s' does not exist.", local);
        return EXIT_USAGE;
    }
    r = cli_connect(cli);
    if (r)
        return r;
    r = S_ISDIR(st.st_mode) ? osb_tree_upload(cli->sandbox, local, remote, NULL)
                            : osb_files_upload(cli->sandbox, &upload, 1);
    if (r < 0)
        return cli_failed(cli);
    return cli_message(cli, "Uploaded: %s → %s", local, remote);
}

/* Directories above a local file, as mkdir -p makes them. */
static int make_parents(struct cli *cli, const char *path)
{
    char *copy = arena_strdup(&cli->arena, str_of(path));

    for (char *slash = copy ? strchr(copy + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST)
            return cli_error(cli, "File", "Cannot make '%s': %s", copy, strerror(errno));
        *slash = '/';
    }
    return copy ? 0 : EXIT_FAILED;
}

/* Into a file beside it that takes its name at the end: a failed download leaves what was there. */
static int download_file(struct cli *cli, const char *remote, const char *local)
{
    char *part = arena_printf(&cli->arena, "%s.part-%d", local, (int)getpid());
    auto_fd fd = part ? open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -EBADF;
    int r;

    if (fd < 0)
        return cli_error(cli, "File", "Cannot write '%s': %s", local, strerror(errno));
    r = osb_file_read(cli->sandbox, remote, NULL, write_sink, &fd);
    if (r == 0 && rename(part, local) == 0)
        return 0;
    if (r == 0)
        r = cli_error(cli, "File", "Cannot write '%s': %s", local, strerror(errno));
    else
        r = cli_failed(cli);
    unlink(part);
    return r;
}

int file_download(struct cli *cli)
{
    const char *remote = cli_argument(cli, 1), *local = cli_argument(cli, 2);
    int r = cli_connect(cli);

    if (r == 0)
        r = make_parents(cli, local);
    if (r == 0)
        r = download_file(cli, remote, local);
    return r ? r : cli_message(cli, "Downloaded: %s → %s", remote, local);
}

/* A row per path: {path, status}. */
static int print_paths(struct cli *cli, const char *title, const char *status)
{
    const char *const *paths = cli_arguments(cli, 1);
    struct doc doc;

    doc_begin_array(&doc);
    for (size_t i = 0; paths[i]; i++) {
        json_write_object(&doc.w);
        doc_text(&doc, "path", paths[i]);
        doc_text(&doc, "status", status);
        json_write_object_end(&doc.w);
    }
    return cli_rows(cli, title, "path status", &doc);
}

static size_t path_count(const struct cli *cli)
{
    return cli->line.argument_count - 1;
}

int file_rm(struct cli *cli)
{
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_files_remove(cli->sandbox, cli_arguments(cli, 1), path_count(cli)) < 0)
        return cli_failed(cli);
    return print_paths(cli, "Deleted Files", "deleted");
}

int file_rmdir(struct cli *cli)
{
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_directories_remove(cli->sandbox, cli_arguments(cli, 1), path_count(cli)) < 0)
        return cli_failed(cli);
    return print_paths(cli, "Removed Directories", "removed");
}

int file_mkdir(struct cli *cli)
{
    const char *const *paths = cli_arguments(cli, 1);
    struct osb_permission *list =
        arena_new_array(&cli->arena, struct osb_permission, path_count(cli));
    int r = cli_connect(cli);

    if (r)
        return r;
    for (size_t i = 0; list && paths[i]; i++)
        list[i] = (struct osb_permission){paths[i], mode_option(cli, 0755), cli_text(cli, "owner"),
                                          cli_text(cli, "group")};
    if (osb_directories_make(cli->sandbox, list, path_count(cli)) < 0)
        return cli_failed(cli);
    return print_paths(cli, "Created Directories", "created");
}

int file_mv(struct cli *cli)
{
    struct osb_move move = {cli_argument(cli, 1), cli_argument(cli, 2)};
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_files_move(cli->sandbox, &move, 1) < 0)
        return cli_failed(cli);
    return cli_message(cli, "Moved: %s → %s", move.from, move.to);
}

int file_chmod(struct cli *cli)
{
    struct osb_permission permission = {cli_argument(cli, 1), mode_option(cli, 0),
                                        cli_text(cli, "owner"), cli_text(cli, "group")};
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_files_chmod(cli->sandbox, &permission, 1) < 0)
        return cli_failed(cli);
    return cli_message(cli, "Permissions set: %s", permission.path);
}

int file_replace(struct cli *cli)
{
    struct osb_replace replace = {cli_argument(cli, 1), cli_text(cli, "old"), cli_text(cli, "new")};
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_files_replace(cli->sandbox, &replace, 1, NULL) < 0)
        return cli_failed(cli);
    return cli_message(cli, "Replaced in: %s", replace.path);
}

/* --- what is there --- */

static int print_files(struct cli *cli, struct osb_answer *answer, const char *title,
                       const char *columns)
{
    const struct json *v;
    struct doc doc;

    doc_begin_array(&doc);
    for (size_t i = 0; i < osb_file_count(answer); i++) {
        v = cli_parse(cli, str_of(osb_file_json(osb_file_at(answer, i))));
        shape_write(&doc.w, v, SHAPE_FILE);
    }
    osb_answer_free(answer);
    return cli_rows(cli, title, columns, &doc);
}

int file_search(struct cli *cli)
{
    struct osb_answer *answer = NULL;
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_files_search(cli->sandbox, cli_argument(cli, 1), cli_text(cli, "pattern"), &answer) < 0)
        return cli_failed(cli);
    if (cli->format == FORMAT_TABLE && osb_file_count(answer) == 0) {
        osb_answer_free(answer);
        return cli_info(cli, "No files found.");
    }
    return print_files(cli, answer, "Search Results", "path size owner");
}

int file_info(struct cli *cli)
{
    struct osb_answer *answer = NULL;
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_files_info(cli->sandbox, cli_arguments(cli, 1), path_count(cli), &answer) < 0)
        return cli_failed(cli);
    return print_files(cli, answer, "Path Info",
                       "path size mode owner group created_at modified_at");
}

int file_ls(struct cli *cli)
{
    const char *path = cli_argument(cli, 1);
    struct osb_answer *answer = NULL;
    int r = cli_connect(cli);

    if (r)
        return r;
    if (osb_files_list(cli->sandbox, path ? path : "/", (unsigned)cli_number(cli, "depth", 1),
                       &answer) < 0)
        return cli_failed(cli);
    return print_files(cli, answer, path ? path : "/",
                       "entry_type mode owner size modified_at path");
}

static int print_change(void *user, enum osb_change change, const char *path, const char *from,
                        bool is_directory)
{
    static const char *const names[] = {
        [OSB_CHANGE_READY] = "ready",   [OSB_CHANGE_CREATE] = "create",
        [OSB_CHANGE_MODIFY] = "modify", [OSB_CHANGE_DELETE] = "delete",
        [OSB_CHANGE_MOVE] = "move",     [OSB_CHANGE_OVERFLOW] = "overflow"};
    AUTO_BUF(line, 64 * 1024);

    buf_addf(&line, "%s %s%s%s%s\n", names[change], path ? path : "", is_directory ? "/" : "",
             from ? " from " : "", from ? from : "");
    return cli_write(line.p, line.n);
}

/* Ends by Ctrl-C, or with the reader of its output. */
int file_watch(struct cli *cli)
{
    const char *path = cli_argument(cli, 1);
    int r = cli_connect(cli);

    if (r)
        return r;
    cli_interruptible(cli, true);
    r = osb_files_watch(cli->sandbox, path, true, print_change, cli);
    return cli_interruptible(cli, false) || r >= 0 ? EXIT_OK : cli_failed(cli);
}

/* --- cp --- */

bool cli_split_place(struct cli *cli, const char *place, const char **ret_id, const char **ret_path)
{
    struct str rest = str_of(place), id;

    str_cut(&rest, ':', &id);
    if (!rest.p || id.n == 0 || str_find(id, '/') < id.n || str_eq(id, STR(".")))
        return false;
    *ret_id = arena_strdup(&cli->arena, id);
    *ret_path = rest.n ? rest.p : ".";
    return *ret_id != NULL;
}

struct progress {
    uint64_t entries, bytes;
    bool shown;
};

static int on_entry(void *user, const char *path, int64_t bytes)
{
    struct progress *p = user;

    p->entries++;
    p->bytes += bytes > 0 ? (uint64_t)bytes : 0;
    if (p->shown)
        fprintf(stderr, "\r\033[K%llu entries, %.1f MiB  %.60s", (unsigned long long)p->entries,
                (double)p->bytes / 1048576, path);
    return 0;
}

static const char *into(struct cli *cli, const char *directory, const char *source)
{
    char *copy = arena_strdup(&cli->arena, str_of(source));

    return arena_printf(&cli->arena, "%s/%s", directory, basename(copy));
}

static bool remote_is_directory(struct cli *cli, const char *path)
{
    struct osb_answer *answer = NULL;
    bool yes = osb_files_info(cli->sandbox, &path, 1, &answer) == 0 && osb_file_count(answer) > 0 &&
               strcmp(osb_file_type(osb_file_at(answer, 0)), "directory") == 0;

    osb_answer_free(answer);
    return yes;
}

static int copy_in(struct cli *cli, const char *local, const char *remote, struct osb_tree *tree)
{
    struct osb_upload upload = {.path = remote, .local_path = local};
    size_t n = strlen(remote);
    struct stat st;

    if (stat(local, &st) < 0)
        return cli_error(cli, "File", "'%s': %s", local, strerror(errno));
    if (remote[n - 1] == '/' || remote_is_directory(cli, remote))
        upload.path = remote = into(cli, remote, local);
    upload.mode = st.st_mode & 07777;
    if ((S_ISDIR(st.st_mode) ? osb_tree_upload(cli->sandbox, local, remote, tree)
                             : osb_files_upload(cli->sandbox, &upload, 1)) < 0)
        return cli_failed(cli);
    return 0;
}

static int copy_out(struct cli *cli, const char *remote, const char *local, struct osb_tree *tree)
{
    struct stat st;

    if (stat(local, &st) == 0 && S_ISDIR(st.st_mode))
        local = into(cli, local, remote);
    if (!remote_is_directory(cli, remote))
        return download_file(cli, remote, local);
    if (osb_tree_download(cli->sandbox, remote, local, tree) < 0)
        return cli_failed(cli);
    return 0;
}

int copy(struct cli *cli)
{
    struct progress progress = {.shown = isatty(STDERR_FILENO)};
    struct osb_tree tree = {OSB_TREE, .on_entry = on_entry, .user = &progress};
    const char *id[2], *path[2], *place[2] = {cli_argument(cli, 0), cli_argument(cli, 1)};
    bool remote[2];
    int r;

    for (int i = 0; i < 2; i++)
        remote[i] = cli_split_place(cli, place[i], &id[i], &path[i]);
    if (remote[0] == remote[1])
        return cli_error(cli, "Usage", "One of the two must be in a sandbox: ID:/path");
    r = cli_connect_to(cli, id[remote[1]]);
    if (r)
        return r;
    r = remote[1] ? copy_in(cli, place[0], path[1], &tree)
                  : copy_out(cli, path[0], place[1], &tree);
    if (progress.shown && progress.entries)
        fputs("\r\033[K", stderr);
    return r ? r : cli_message(cli, "Copied: %s → %s", place[0], place[1]);
}
