#include "execd/code/jupyter/jupyter_place.h"

#include "base/io.h"
#include "base/json.h"
#include "execd/core/child.h"
#include "folder.h"

static struct str text_of(const struct json *v, const char *key)
{
    struct str s = STR_NONE;

    CHECK_EQ(json_to_str(json_get(v, str_of(key)), &s), 0);
    return s;
}

static void check_file(const struct jupyter_place *p, const struct jupyter_session *s,
                       const char *transport)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(text, 4096);
    struct json *v;
    struct stat st;
    char file[JUPYTER_FILE_MAX];

    jupyter_place_file(p, file);
    CHECK_EQ(stat(p->dir, &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0700);
    CHECK_EQ(stat(file, &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0600);
    CHECK_EQ(io_read_file(AT_FDCWD, file, 4096, &text, NULL), 0);
    CHECK_EQ(json_parse(&a, buf_str(&text), NULL, &v, NULL), 0);
    CHECK(str_eq(text_of(v, "transport"), str_of(transport)));
    CHECK(str_eq(text_of(v, "key"), str_of(s->key)));
    CHECK_SPAN(text_of(v, "signature_scheme"), "hmac-sha256");
    CHECK_EQ(json_count(v), 10);
}

TEST(jupyter_place, describes_sockets_and_is_removed)
{
    AUTO_FOLDER(f);
    struct jupyter_session s;
    struct jupyter_place p;
    char tmp[64], socket_path[128];
    const char *env[] = {tmp, NULL};
    struct sock_addr addr;

    (void)snprintf(tmp, sizeof(tmp), "TMPDIR=%s", f.path);
    jupyter_session_init(&s);
    CHECK_EQ(jupyter_place_make(&p, env, true, &(struct child_user){0}, &s, "k", NULL), 0);
    check_file(&p, &s, "ipc");
    jupyter_place_addr(&p, JUPYTER_IOPUB, &addr);
    (void)snprintf(socket_path, sizeof(socket_path), "%s/k-2", p.dir);
    CHECK_STR(addr.path.sun_path, socket_path);
    file_write(socket_path, "");
    jupyter_place_remove(&p);
    jupyter_place_remove(&p);
    CHECK_EQ(rmdir(f.path), 0); /* nothing was left in it */
    CHECK_EQ(mkdir(f.path, 0700), 0);
}

TEST(jupyter_place, picks_ports_that_differ)
{
    AUTO_FOLDER(f);
    struct jupyter_session s;
    struct jupyter_place p;
    const char *env[] = {NULL};
    struct sock_addr addr;

    jupyter_session_init(&s);
    CHECK_EQ(jupyter_place_make(&p, env, false, &(struct child_user){0}, &s, "k", NULL), 0);
    check_file(&p, &s, "tcp");
    for (size_t i = 0; i < JUPYTER_CHANNELS; i++) {
        CHECK(p.ports[i] >= 20000 && p.ports[i] < 32000);
        for (size_t k = 0; k < i; k++)
            CHECK(p.ports[i] != p.ports[k]);
    }
    jupyter_place_addr(&p, JUPYTER_SHELL, &addr);
    CHECK_EQ(sock_addr_port(&addr), p.ports[JUPYTER_SHELL]);
    jupyter_place_remove(&p);
}

TEST(jupyter_place, goes_elsewhere_when_the_path_is_too_long_for_a_socket)
{
    struct jupyter_session s;
    struct jupyter_place p;
    char tmp[200] = "TMPDIR=/";
    const char *env[] = {tmp, NULL};

    memset(tmp + 8, 'x', 150);
    jupyter_session_init(&s);
    CHECK_EQ(jupyter_place_make(&p, env, true, &(struct child_user){0}, &s, "k", NULL), 0);
    CHECK(str_starts(str_of(p.dir), STR("/tmp/")));
    jupyter_place_remove(&p);
}
