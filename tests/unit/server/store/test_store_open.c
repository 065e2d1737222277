/* The file of the store: made, refused, recovered. Where a test needs a disk that is full or cannot
 * be written, it mounts one in a namespace of its own. */
#include "server/store/store.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "server/store/store_sqlite_internal.h"
#include "store_fixture.h"

/* What opening answers; the message is in e. */
static int try_open(struct err *e)
{
    struct store *s = NULL;
    int r = store_open(STORE_SQLITE, store_path, &s, e);

    store_close(s);
    return r;
}

static mode_t mode_of(const char *suffix)
{
    char name[160];
    struct stat st;

    (void)snprintf(name, sizeof(name), "%s%s", store_path, suffix);
    return stat(name, &st) < 0 ? 0 : st.st_mode & 07777;
}

static void run_sql(const char *sql)
{
    sqlite3 *db = NULL;

    CHECK_EQ(sqlite3_open(store_path, &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

static void set_version(int version)
{
    char sql[64];

    (void)snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", version);
    run_sql(sql);
}

/* A store of a few rows, closed. */
static void make_store(void)
{
    struct store *s = open_store();

    insert_row_of(s, STR("one"));
    insert_row_of(s, STR("two"));
    store_close(s);
}

TEST(store_open, makes_files_for_its_owner_only)
{
    struct store *s;
    struct stat st;

    (void)umask(0);
    s = open_store();
    insert_row_of(s, STR("one"));
    CHECK_EQ(mode_of(""), 0600);
    CHECK_EQ(mode_of("-wal"), 0600);
    CHECK_EQ(mode_of("-lock"), 0600);
    CHECK_EQ(stat(store_dir, &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0700);
    store_close(s);
    CHECK_EQ(mode_of("-wal"), 0); /* a clean end leaves one file to copy */
}

TEST(store_open, checkpoints_on_request)
{
    struct store *s = open_store();
    char wal[160];
    struct stat st;

    (void)snprintf(wal, sizeof(wal), "%s-wal", store_path);
    insert_row_of(s, STR("one"));
    CHECK_EQ(stat(wal, &st), 0);
    CHECK(st.st_size > 0);
    CHECK_EQ(store_checkpoint(s, NULL), 0);
    CHECK_EQ(stat(wal, &st), 0);
    CHECK_EQ(st.st_size, 0);
    store_close(s);
}

TEST(store_open, keeps_a_second_server_out)
{
    struct store *s = open_store();
    struct err e = {0};

    CHECK_EQ(try_open(&e), -EBUSY);
    CHECK(strstr(e.msg, store_path) && strstr(e.msg, "another server"));
    insert_row_of(s, STR("one")); /* and the first goes on */
    store_close(s);
    CHECK_EQ(try_open(&e), 0);
}

TEST(store_open, lets_an_operator_read_along)
{
    struct store *s = open_store();
    sqlite3 *db = NULL;
    struct err e = {0};

    insert_row_of(s, STR("one"));
    CHECK_EQ(sqlite3_open_v2(store_path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, "BEGIN; SELECT * FROM sandboxes", NULL, NULL, NULL), SQLITE_OK);
    insert_row_of(s, STR("two"));
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
    CHECK_EQ(store_checkpoint(s, &e), 0);
    CHECK_EQ(count_rows(s), 2);
    store_close(s);
}

TEST(store_open, starts_from_an_empty_file)
{
    struct store *s;

    make_store();
    CHECK_EQ(truncate(store_path, 0), 0);
    s = reopen_store();
    CHECK_EQ(count_rows(s), 0);
    insert_row_of(s, STR("one"));
    store_close(s);
}

TEST(store_open, refuses_a_newer_version)
{
    struct err e = {0};

    make_store();
    run_sql("PRAGMA user_version = 1000");
    CHECK_EQ(try_open(&e), -ENOTSUP);
    CHECK(strstr(e.msg, store_path) && strstr(e.msg, "version 1000"));
    set_version(SQL_VERSION + 1);
    CHECK_EQ(try_open(&e), -ENOTSUP);
    set_version(SQL_VERSION);
    CHECK_EQ(try_open(&e), 0);
}

TEST(store_open, refuses_another_programs_database)
{
    struct err e = {0};

    make_store();
    CHECK_EQ(unlink(store_path), 0);
    run_sql("CREATE TABLE recipes (name TEXT)");
    CHECK_EQ(try_open(&e), -EINVAL);
    CHECK(strstr(e.msg, store_path) && strstr(e.msg, "another program"));
    run_sql("INSERT INTO recipes VALUES ('soup')"); /* it is as it was */
}

static void overwrite(off_t offset, const char *bytes)
{
    int fd = open(store_path, O_WRONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_EQ(pwrite(fd, bytes, strlen(bytes), offset), (ssize_t)strlen(bytes));
    CHECK_EQ(close(fd), 0);
}

struct pages {
    off_t at[16];
    size_t count;
};

static int add_page(void *user, int count UNUSED, char **values, char **names UNUSED)
{
    struct pages *pages = user;

    CHECK(pages->count < ARRAY_LEN(pages->at));
    pages->at[pages->count++] = (strtoll(values[0], NULL, 10) - 1) * 4096;
    return 0;
}

/* Where the schema and each table begin; between them are pages that nothing uses. */
static struct pages used_pages(void)
{
    struct pages pages = {.count = 1};
    sqlite3 *db = NULL;

    CHECK_EQ(sqlite3_open(store_path, &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, "SELECT rootpage FROM sqlite_schema WHERE type = 'table'", add_page,
                          &pages, NULL),
             SQLITE_OK);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
    return pages;
}

TEST(store_open, refuses_a_damaged_file_by_name)
{
    struct pages pages;

    make_store();
    pages = used_pages();
    CHECK(pages.count > 2);
    for (size_t i = 0; i < pages.count; i++) {
        struct err e = {0};

        make_store();
        overwrite(pages.at[i], "this was never written by a database");
        CHECK_EQ(try_open(&e), -EUCLEAN);
        CHECK(strstr(e.msg, store_path));
    }
}

TEST(store_open, refuses_a_file_cut_short)
{
    struct err e = {0};

    make_store();
    CHECK_EQ(truncate(store_path, 4096), 0);
    CHECK_EQ(try_open(&e), -EUCLEAN);
}

TEST(store_open, answers_a_state_that_no_version_knows)
{
    struct store *s;
    size_t n = 0;
    struct err e = {0};

    make_store();
    run_sql("PRAGMA ignore_check_constraints = ON; UPDATE sandboxes SET state = 99");
    /* The integrity check of newer SQLites sees it first. */
    if (store_open(STORE_SQLITE, store_path, &s, &e) == 0) {
        CHECK_EQ(store_each(s, count_visit, &n, &e), -EUCLEAN);
        store_close(s);
    }
    CHECK_EQ(e.code, EUCLEAN);
    CHECK_EQ(n, 0);
}

/* --- migrations --- */

static const char *const good_steps[] = {
    "CREATE TABLE t (a)",
    "INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN b DEFAULT 2",
};
static const char *const bad_steps[] = {
    "CREATE TABLE t (a)",
    "INSERT INTO t VALUES (1); INSERT INTO nowhere VALUES (1)",
};

static int table_rows(sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;
    int n;

    CHECK_EQ(sqlite3_prepare_v2(db, "SELECT count(*) FROM t", -1, &stmt, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_step(stmt), SQLITE_ROW);
    n = sqlite3_column_int(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return n;
}

TEST(store_migrate, goes_step_by_step_and_stays_where_a_step_failed)
{
    sqlite3 *db = NULL;
    struct err e = {0};
    uint32_t version = 99;

    CHECK_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
    CHECK_EQ(sql_identify(db, 2, &version, &e), 0);
    CHECK_EQ(version, 0);
    CHECK(sql_migrate(db, 0, bad_steps, 2, &e) < 0);
    CHECK(strstr(e.msg, "to version 2") && strstr(e.msg, "nowhere"));
    CHECK_EQ(sql_identify(db, 2, &version, &e), 0);
    CHECK_EQ(version, 1);
    CHECK_EQ(table_rows(db), 0); /* nothing half done */

    CHECK_EQ(sql_migrate(db, version, good_steps, 2, &e), 0);
    CHECK_EQ(sql_identify(db, 2, &version, &e), 0);
    CHECK_EQ(version, 2);
    CHECK_EQ(table_rows(db), 1);
    CHECK_EQ(sql_identify(db, 1, &version, &e), -ENOTSUP);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

/* A file of version 1, as the servers before owners wrote it. Never edited: files do not change
 * either. */
static const char version_1[] =
    "PRAGMA application_id = 1330856536; PRAGMA user_version = 1; PRAGMA journal_mode = WAL;"
    "CREATE TABLE sandboxes ("
    " n INTEGER PRIMARY KEY,"
    " id TEXT NOT NULL UNIQUE CHECK (id <> ''),"
    " state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 7),"
    " reason TEXT NOT NULL, message TEXT NOT NULL,"
    " created_us INTEGER NOT NULL, since_us INTEGER NOT NULL,"
    " expires_us INTEGER NOT NULL CHECK (expires_us >= 0),"
    " image TEXT NOT NULL, snapshot_id TEXT NOT NULL, os TEXT NOT NULL, arch TEXT NOT NULL,"
    " entrypoint TEXT NOT NULL, metadata TEXT NOT NULL, token TEXT NOT NULL, spec TEXT NOT NULL,"
    " renew_extend_s INTEGER NOT NULL CHECK (renew_extend_s BETWEEN 0 AND 4294967295)) STRICT;"
    "CREATE TABLE events ("
    " sandbox INTEGER NOT NULL REFERENCES sandboxes (n) ON DELETE CASCADE,"
    " seq INTEGER NOT NULL, at_us INTEGER NOT NULL,"
    " state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 7),"
    " reason TEXT NOT NULL, message TEXT NOT NULL,"
    " PRIMARY KEY (sandbox, seq)) STRICT, WITHOUT ROWID;"
    "INSERT INTO sandboxes VALUES (7, 'old', 1, 'CONTAINER_RUNNING', 'it runs', 11, 12, 99,"
    " 'python:3.12', '', 'linux', 'amd64', '[\"sleep\"]', '{\"a\":\"b\"}', 'secret', '{}', 300);"
    "INSERT INTO events VALUES (7, 1, 11, 0, 'CONTAINER_STARTING', 'wait'),"
    " (7, 2, 12, 1, 'CONTAINER_RUNNING', 'it runs');";

static struct store *open_version_1(void)
{
    make_store_path();
    CHECK_EQ(mkdir(store_dir, 0700), 0);
    (void)snprintf(store_path, sizeof(store_path), "%s/store.db", store_dir);
    run_sql(version_1);
    return reopen_store();
}

static void count_event(void *user, const struct store_event *event UNUSED)
{
    ++*(size_t *)user;
}

TEST(store_migrate, keeps_the_sandboxes_of_version_1)
{
    struct store_status status = {SANDBOX_ALLOCATED, STR("WHY"), STR("because"), 13};
    struct store *s = open_version_1();
    size_t events = 0;

    {
        auto_found f = find_row(s, STR("old"));

        CHECK(f.there);
        CHECK_EQ(f.row.state, SANDBOX_RUNNING);
        CHECK_EQ(f.row.created_us, 11);
        CHECK_EQ(f.row.expires_us, 99);
        CHECK_EQ(f.row.renew_extend_s, 300);
        CHECK(str_eq(f.row.token, STR("secret")));
        CHECK(str_eq(f.row.metadata, STR("{\"a\":\"b\"}")));
        CHECK(str_eq(f.row.tenant, STR("default")));
        CHECK(str_eq(f.row.owner, STR("")));
    }
    CHECK_EQ(store_set_status(s, STR("old"), RUNNING, &status, NULL), 1);
    CHECK_EQ(store_history(s, STR("old"), 10, count_event, &events, NULL), 3);
    insert_row_of(s, STR("new"));
    store_close(s);
    s = reopen_store(); /* it was migrated once and for all */
    CHECK_EQ(count_rows(s), 2);
    CHECK_EQ(store_delete(s, STR("old"), NULL), 1);
    store_close(s);
}

static int add_row(void *user, int count, char **values, char **names UNUSED)
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(buf_addf(user, "%s ", values[i] ? values[i] : "-"), 0);
    return buf_add_char(user, '\n');
}

/* Tables and columns; free() it. */
static char *schema_of_file(void)
{
    AUTO_BUF(out, 1 << 16);
    sqlite3 *db = NULL;

    CHECK_EQ(sqlite3_open(store_path, &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db,
                          "SELECT t.name, c.name, c.type, c.\"notnull\", c.dflt_value, c.pk"
                          " FROM sqlite_schema AS t, pragma_table_info(t.name) AS c"
                          " WHERE t.type = 'table' ORDER BY t.name, c.cid",
                          add_row, &out, NULL),
             SQLITE_OK);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
    return buf_take(&out);
}

TEST(store_migrate, leads_to_the_tables_of_a_new_file)
{
    struct store *s = open_version_1();
    char *old, *made;

    store_close(s);
    old = schema_of_file();
    remove_store_dir();
    store_close(open_store());
    made = schema_of_file();
    CHECK_STR(old, made);
    free(old);
    free(made);
}

/* --- disks --- */

/* A tmpfs that goes with the test's process, in place of store_dir. */
static void mount_disk(const char *options)
{
    if (geteuid() != 0)
        test_skip("needs root");
    make_store_path();
    if (unshare(CLONE_NEWNS) < 0)
        test_skip("no mount namespace here");
    CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_EQ(mkdir(store_dir, 0700), 0);
    CHECK_EQ(mount("tmpfs", store_dir, "tmpfs", 0, options), 0);
}

static void unmount_disk(void)
{
    CHECK_EQ(umount2(store_dir, MNT_DETACH), 0);
}

TEST(store_open, says_that_the_disk_is_read_only)
{
    struct err e = {0};

    mount_disk("size=1m");
    store_close(reopen_store());
    CHECK_EQ(mount(NULL, store_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    CHECK_EQ(try_open(&e), -EROFS);
    CHECK(strstr(e.msg, store_path) && strstr(e.msg, "Read-only"));
    unmount_disk();
}

TEST(store_open, says_that_a_directory_cannot_be_made)
{
    struct err e = {0};

    make_store_path();
    (void)snprintf(store_path, sizeof(store_path), "/proc/self/nowhere/store.db");
    CHECK_EQ(try_open(&e), -ENOENT);
    CHECK(strstr(e.msg, "mkdir /proc/self/nowhere"));
}

/* Inserts rows of some size until one fails; how many did not. */
static size_t fill_disk(struct store *s, struct err *e)
{
    static char spec[2048];
    struct store_sandbox row = row_of(STR_NONE);
    char id[24];
    int r = 1;

    memset(spec, 'x', sizeof(spec));
    row.spec = str_make(spec, sizeof(spec));
    for (size_t i = 0; i < 10000; i++) {
        (void)snprintf(id, sizeof(id), "row-%zu", i);
        row.id = str_of(id);
        r = store_insert(s, &row, e);
        if (r != 1)
            return i;
    }
    return SIZE_MAX;
}

TEST(store_open, does_nothing_by_halves_on_a_full_disk)
{
    struct store_status status = {SANDBOX_PAUSED, STR("WHY"), STR("because"), 1};
    struct store *s;
    struct err e = {0};
    size_t rows;

    mount_disk("size=1m");
    s = reopen_store();
    rows = fill_disk(s, &e);
    CHECK_EQ(e.code, ENOSPC);
    CHECK(strstr(e.msg, "full"));
    CHECK(rows > 10 && rows != SIZE_MAX);
    CHECK_EQ(count_rows(s), rows);
    CHECK_EQ(mount(NULL, store_dir, NULL, MS_REMOUNT, "size=8m"), 0);
    CHECK_EQ(store_set_status(s, STR("row-0"), ANY, &status, &e), 1); /* as if nothing had been */
    insert_row_of(s, STR("another"));
    store_close(s);
    s = reopen_store();
    CHECK_EQ(count_rows(s), rows + 1);
    store_close(s);
    unmount_disk();
}

TEST(store_open, says_that_a_new_store_does_not_fit)
{
    struct err e = {0};

    mount_disk("size=8k");
    CHECK_EQ(try_open(&e), -ENOSPC);
    CHECK(strstr(e.msg, store_path));
    CHECK_EQ(mount(NULL, store_dir, NULL, MS_REMOUNT, "size=1m"), 0);
    CHECK_EQ(try_open(&e), 0);
    unmount_disk();
}

/* --- sudden death --- */

enum { DEATHS = 100, ACKS_MAX = 4096 };

/* Changes rows without end, and tells about each by its number once it was told so itself. */
static _Noreturn void write_until_killed(int round, int acks)
{
    struct store_status status = {SANDBOX_PAUSED, STR("WHY"), STR("because"), 1};
    struct store *s = reopen_store();

    for (uint32_t i = 0; i < ACKS_MAX; i++) {
        char id[32];

        (void)snprintf(id, sizeof(id), "%d-%u", round, i);
        insert_row_of(s, str_of(id));
        CHECK_EQ(store_set_status(s, str_of(id), RUNNING, &status, NULL), 1);
        CHECK_EQ(io_write_full(acks, str_make((char *)&i, sizeof(i)), DEADLINE_NEVER), 0);
    }
    for (;;)
        (void)pause();
}

struct survivors {
    int round;
    uint32_t count;
    bool seen[ACKS_MAX];
};

static int survivors_visit(void *user, const struct store_sandbox *row)
{
    struct survivors *v = user;
    struct str rest = row->id, head;
    uint64_t round, i;

    CHECK(str_cut(&rest, '-', &head));
    CHECK_EQ(str_to_u64(head, &round), 0);
    CHECK_EQ(str_to_u64(rest, &i), 0);
    if ((int)round != v->round)
        return 0;
    CHECK(i < ACKS_MAX);
    v->count++;
    v->seen[i] = row->state == SANDBOX_PAUSED;
    return 0;
}

/* Whatever the child had been told of is there; returns how much that was. */
static uint32_t check_survivors(int round, int acks)
{
    struct survivors *v = mem_new(struct survivors);
    struct store *s = reopen_store();
    uint32_t i, told = 0;
    size_t n;

    v->round = round;
    CHECK_EQ(store_each(s, survivors_visit, v, NULL), 0);
    while (io_read_full(acks, &i, sizeof(i), DEADLINE_NEVER, &n) == 0 && n == sizeof(i)) {
        CHECK(v->seen[i]);
        told++;
    }
    CHECK(v->count <= told + 1); /* the one that was under way */
    store_close(s);
    free(v);
    return told;
}

TEST(store_open, forgets_nothing_when_killed)
{
    uint32_t told = 0;

    make_store_path();
    for (int round = 0; round < DEATHS; round++) {
        int acks[2], status;
        pid_t child;

        CHECK_EQ(pipe2(acks, O_CLOEXEC), 0);
        child = fork();
        CHECK(child >= 0);
        if (child == 0)
            write_until_killed(round, acks[1]);
        (void)close(acks[1]);
        CHECK_EQ(poll(&(struct pollfd){acks[0], POLLIN, 0}, 1, -1), 1); /* it is at it */
        (void)usleep((useconds_t)(round * 137 % 9000));
        CHECK_EQ(kill(child, SIGKILL), 0);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status));
        told += check_survivors(round, acks[0]);
        (void)close(acks[0]);
    }
    printf("# %u changes were confirmed before %d deaths\n", told, DEATHS);
    CHECK(told >= DEATHS);
}

static bool file_has(const char *path, struct str text)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    AUTO_BUF(all, 64 << 20);
    ssize_t n = 1;

    while (fd >= 0 && n > 0) {
        char piece[1 << 16];

        n = read(fd, piece, sizeof(piece));
        CHECK(n >= 0);
        CHECK_EQ(buf_add(&all, str_make(piece, (size_t)n)), 0);
    }
    return all.n > 0 && memmem(all.p, all.n, text.p, text.n);
}

TEST(store_open, keeps_nothing_of_what_was_deleted)
{
    static char env[100000]; /* on pages of its own */
    struct store *s = open_store();
    struct store_sandbox row = row_of(STR("a"));
    struct str secret = STR("correct horse battery staple");

    for (size_t at = 0; at + secret.n < sizeof(env); at += secret.n)
        memcpy(env + at, secret.p, secret.n);
    for (int i = 0; i < 2; i++) { /* in a page beside others, and in many */
        row.id = i ? STR("b") : STR("a");
        row.spec = i ? str_make(env, sizeof(env) - 64) : secret;
        CHECK_EQ(store_insert(s, &row, NULL), 1);
    }
    CHECK_EQ(store_checkpoint(s, NULL), 0);
    CHECK(file_has(store_path, secret));
    CHECK_EQ(store_delete(s, STR("a"), NULL), 1);
    CHECK_EQ(store_delete(s, STR("b"), NULL), 1);
    CHECK_EQ(store_checkpoint(s, NULL), 0);
    CHECK(!file_has(store_path, secret));
    store_close(s);
}

TEST(store_open, forgets_deleted_rows_once_no_reader_is_left)
{
    struct store *s = open_store();
    struct store_sandbox row = row_of(STR("a"));
    struct str secret = row.spec = STR("correct horse battery staple");
    uint64_t fastest_ns = UINT64_MAX;
    sqlite3 *db = NULL;
    char wal[160];

    (void)snprintf(wal, sizeof(wal), "%s-wal", store_path);
    CHECK_EQ(store_forget(s, NULL), 0);
    CHECK_EQ(store_insert(s, &row, NULL), 1);
    CHECK_EQ(store_forget(s, NULL), 0);
    CHECK(file_has(wal, secret)); /* nothing was deleted, so nothing is done */
    CHECK_EQ(store_delete(s, STR("a"), NULL), 1);
    CHECK(file_has(wal, secret));

    CHECK_EQ(sqlite3_open_v2(store_path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, "BEGIN; SELECT * FROM sandboxes", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; i < 5; i++) { /* one of them undisturbed */
        uint64_t begin_ns = time_mono_ns(), ns;

        CHECK_EQ(store_forget(s, NULL), -EBUSY);
        ns = time_mono_ns() - begin_ns;
        fastest_ns = ns < fastest_ns ? ns : fastest_ns;
    }
    CHECK(fastest_ns < 4000 * TIME_NS_PER_MS); /* it does not wait for the reader */
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);

    CHECK_EQ(store_forget(s, NULL), 0);
    CHECK(!file_has(wal, secret));
    CHECK(!file_has(store_path, secret));
    store_close(s);
}
