/* Opening and closing: the file, the lock file beside it, the checks before data is used. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/tree.h"
#include "server/store/store_sqlite_internal.h"

enum {
    BUSY_TIMEOUT_MS = 5000, /* for an administrator's sqlite3 shell on the file */
    LENGTH_MAX = 4 << 20,   /* of a row, a string or a statement */
};

/* Creates every directory above the file. */
static int make_dirs(const char *path, struct err *e)
{
    const char *name = strrchr(path, '/');
    char dir[PATH_MAX];
    int r;

    if (!name || name == path)
        return 0;
    if (str_copy(dir, sizeof(dir), str_make(path, (size_t)(name - path))) < 0)
        return err_sys(e, ENAMETOOLONG, "%s", path);
    r = tree_make(dir, 0700);
    return r < 0 ? err_sys(e, -r, "mkdir %s", dir) : 0;
}

/* The lock is a separate file: SQLite loses its POSIX locks on the database when any descriptor of
 * it is closed. The file is never removed, as that would race with the next server. */
static int take_lock(const char *path, int *ret_fd, struct err *e)
{
    char name[PATH_MAX];
    auto_fd fd = -EBADF;
    int n = snprintf(name, sizeof(name), "%s-lock", path);

    if (n < 0 || (size_t)n >= sizeof(name))
        return err_sys(e, ENAMETOOLONG, "%s", path);
    fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "open %s", name);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return err_set(e, EBUSY, "in use by another server, which holds %s", name);
        return err_sys(e, errno, "lock %s", name);
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

/* Creates the file with our mode, not SQLite's, and learns by errno whether it can be written. */
static int touch_file(const char *path, struct err *e)
{
    auto_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    return fd < 0 ? err_sys(e, errno, "open") : 0;
}

/* Runs a query whose first row must be the text `want`. */
static int expect_text(sqlite3 *db, const char *sql, const char *want, int code, const char *story,
                       struct err *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), r = 0;
    const char *got;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc != SQLITE_ROW) {
        r = sql_fail(db, rc, e);
    } else {
        got = (const char *)sqlite3_column_text(stmt, 0);
        if (!got || strcmp(got, want) != 0)
            r = err_set(e, code, "%s: %s", story, got ? got : "no answer");
    }
    (void)sqlite3_finalize(stmt);
    return r;
}

/* Writes nothing before the file is known to be ours, undamaged, and of no newer version. */
static int check_and_migrate(sqlite3 *db, struct err *e)
{
    uint32_t version;
    int r = sql_identify(db, SQL_VERSION, &version, e);

    if (r < 0)
        return r;
    r = expect_text(db, "PRAGMA integrity_check(1)", "ok", EUCLEAN, "damaged", e);
    if (r < 0)
        return r;
    r = expect_text(db, "PRAGMA journal_mode = WAL", "wal", ENOTSUP,
                    "its file system keeps SQLite from write-ahead logging; journal mode is", e);
    if (r < 0)
        return r;
    /* Deleted rows held users' secrets: secure_delete overwrites them. The WAL keeps them until
     * sql_forget. */
    r = sql_exec(db,
                 "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; "
                 "PRAGMA secure_delete = ON",
                 e);
    return r < 0 ? r : sql_migrate(db, version, sql_steps, SQL_VERSION, e);
}

static int open_database(struct sql_store *s, const char *path, struct err *e)
{
    int rc = sqlite3_open_v2(
        path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

    if (!s->db)
        return err_sys(e, ENOMEM, "open");
    if (rc != SQLITE_OK)
        return sql_fail(s->db, rc, e);
    (void)sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
    (void)sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, LENGTH_MAX);
    /* A file that another user prepared must not make us run code from its schema. */
    (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return check_and_migrate(s->db, e);
}

static int open_parts(struct sql_store *s, const char *path, struct err *e)
{
    int r = make_dirs(path, e);

    if (r >= 0)
        r = take_lock(path, &s->lock, e);
    if (r >= 0)
        r = touch_file(path, e);
    if (r >= 0)
        r = open_database(s, path, e);
    return r < 0 ? r : sql_prepare(s, e);
}

int store_sqlite_open(const char *path, struct store **ret_store, struct err *e)
{
    struct sql_store *s = mem_new(struct sql_store);
    int r;

    s->base.ops = &sql_ops;
    s->lock = -EBADF;
    s->to_forget = true; /* by a server that was killed */
    (void)pthread_mutex_init(&s->mutex, NULL);
    r = open_parts(s, path, e);
    if (r < 0) {
        sql_close(&s->base);
        return err_wrap(e, r, "store %s", path);
    }
    *ret_store = &s->base;
    return 0;
}

void sql_close(struct store *base)
{
    struct sql_store *s = sql_of(base);

    for (size_t i = 0; i < SQL_STMT_COUNT; i++)
        (void)sqlite3_finalize(s->stmts[i]);
    (void)sqlite3_close(s->db);
    fd_close(s->lock); /* last, so that the next server finds the file closed */
    (void)pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* The caller holds the mutex. */
static int empty_wal(struct sql_store *s, struct err *e)
{
    int rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    if (rc != SQLITE_OK)
        return err_wrap(e, sql_fail(s->db, rc, e), "store: checkpoint");
    s->to_forget = false;
    return 0;
}

int sql_checkpoint(struct store *base, struct err *e)
{
    struct sql_store *s = sql_of(base);
    int r;

    (void)pthread_mutex_lock(&s->mutex);
    r = empty_wal(s, e);
    (void)pthread_mutex_unlock(&s->mutex);
    return r;
}

int sql_forget(struct store *base, struct err *e)
{
    struct sql_store *s = sql_of(base);
    int r = 0;

    (void)pthread_mutex_lock(&s->mutex);
    if (s->to_forget) {
        (void)sqlite3_busy_timeout(s->db, 0); /* do not wait: creates wait for the mutex */
        r = empty_wal(s, e);
        (void)sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
    }
    (void)pthread_mutex_unlock(&s->mutex);
    return r;
}
