/* store_fixture.h - a directory for a test's store, and rows to put into it. */
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tree.h"
#include "server/store/store.h"
#include "test.h"

#define RUNNING (STATE_BIT(SANDBOX_RUNNING))
#define ANY     (STATE_BIT(SANDBOX_STATE_COUNT) - 1)

static char store_dir[64];         /* removed at exit, also after a failed test */
static char store_path[128];       /* of a file in it */
static UNUSED char store_dsn[256]; /* of a schema of PostgreSQL */

static void remove_store_dir(void)
{
    (void)tree_remove(AT_FDCWD, store_dir, NULL);
}

/* Names the file and its directory, neither of which exists. */
static UNUSED void make_store_path(void)
{
    (void)snprintf(store_dir, sizeof(store_dir), "test-store-%d", (int)getpid());
    (void)snprintf(store_path, sizeof(store_path), "%s/state/store.db", store_dir);
    remove_store_dir();
    CHECK_EQ(atexit(remove_store_dir), 0);
}

/* With OSB_TEST_POSTGRES in the environment the store is in a schema of its own in that database,
 * and store_dsn the connection string; see tests/integration/postgres_process.py. */
static UNUSED bool store_is_postgres(void)
{
    return getenv("OSB_TEST_POSTGRES") != NULL;
}

static UNUSED void make_store_schema(void)
{
    const char *dsn = getenv("OSB_TEST_POSTGRES");
    char command[512];

    (void)snprintf(command, sizeof(command),
                   "exec psql -X -q '%s' -c 'DROP SCHEMA IF EXISTS t%d CASCADE' "
                   "-c 'CREATE SCHEMA t%d' 2>/dev/null",
                   dsn, (int)getpid(), (int)getpid());
    CHECK_EQ(system(command), 0);
    (void)snprintf(store_dsn, sizeof(store_dsn), "%s options='-c search_path=t%d'", dsn,
                   (int)getpid());
}

static UNUSED struct store *reopen_store(void)
{
    struct store *s = NULL;
    struct err e = {0};

    if ((store_is_postgres() ? store_open(STORE_POSTGRES, store_dsn, &s, &e)
                             : store_open(STORE_SQLITE, store_path, &s, &e)) < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    return s;
}

static UNUSED struct store *open_store(void)
{
    if (store_is_postgres())
        make_store_schema();
    else
        make_store_path();
    return reopen_store();
}

static UNUSED struct store_sandbox row_of(struct str id)
{
    return (struct store_sandbox){
        .id = id,
        .state = SANDBOX_RUNNING,
        .reason = STR("CONTAINER_RUNNING"),
        .message = STR("it runs"),
        .created_us = 1000,
        .since_us = 1001,
        .expires_us = 5000,
        .image = STR("python:3.12"),
        .entrypoint = STR("[\"sleep\",\"1\"]"),
        .metadata = STR("{\"a\":\"b\"}"),
        .token = STR("secret"),
        .tenant = STR("default"),
        .owner = STR("key:0123456789ab"),
        .spec = STR("{}"),
        .renew_extend_s = UINT32_MAX,
    };
}

static UNUSED void insert_row_of(struct store *s, struct str id)
{
    struct store_sandbox row = row_of(id);
    struct err e = {0};

    if (store_insert(s, &row, &e) != 1)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
}

/* One row, found by its id; its texts are copies. */
struct found {
    struct str id;
    bool there;
    struct store_sandbox row;
};

static struct str copy_text(struct str s)
{
    char *p = mem_alloc(s.n + 1);

    memcpy(p, s.p, s.n);
    return str_make(p, s.n);
}

static UNUSED int find_visit(void *user, const struct store_sandbox *row)
{
    struct found *f = user;

    if (!str_eq(row->id, f->id))
        return 0;
    f->there = true;
    f->row = *row;
    f->row.id = f->id;
    f->row.reason = copy_text(row->reason);
    f->row.message = copy_text(row->message);
    f->row.image = copy_text(row->image);
    f->row.snapshot_id = copy_text(row->snapshot_id);
    f->row.os = copy_text(row->os);
    f->row.arch = copy_text(row->arch);
    f->row.entrypoint = copy_text(row->entrypoint);
    f->row.metadata = copy_text(row->metadata);
    f->row.token = copy_text(row->token);
    f->row.tenant = copy_text(row->tenant);
    f->row.owner = copy_text(row->owner);
    f->row.spec = copy_text(row->spec);
    return 1;
}

static UNUSED void found_done(struct found *f)
{
    struct str texts[] = {f->row.reason,     f->row.message,  f->row.image,  f->row.snapshot_id,
                          f->row.os,         f->row.arch,     f->row.token,  f->row.spec,
                          f->row.entrypoint, f->row.metadata, f->row.tenant, f->row.owner};

    for (size_t i = 0; f->there && i < ARRAY_LEN(texts); i++)
        free((void *)(uintptr_t)texts[i].p);
}
#define auto_found __attribute__((cleanup(found_done))) struct found

static UNUSED struct found find_row(struct store *s, struct str id)
{
    struct found f = {.id = id};

    CHECK(store_each(s, find_visit, &f, NULL) >= 0);
    return f;
}

static UNUSED int count_visit(void *user, const struct store_sandbox *row)
{
    ++*(size_t *)user;
    return 0;
}

static UNUSED size_t count_rows(struct store *s)
{
    size_t n = 0;

    CHECK_EQ(store_each(s, count_visit, &n, NULL), 0);
    return n;
}
