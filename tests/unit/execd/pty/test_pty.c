#include "execd/pty/pty.h"

#include "base/buf.h"
#include "rig.h"

static struct rig rig; /* a test is a process of its own */
static struct ptys *all;

struct viewer {
    struct pty *pty;
    struct buf out;
    int ready, ends, fails, lost, taken_over, exit_code;
};

static bool on_ready(void *user)
{
    struct viewer *v = user;

    v->ready++;
    return true;
}

static void on_fail(void *user, const struct err *why)
{
    struct viewer *v = user;

    CHECK(why->code > 0 && why->msg[0]);
    v->fails++;
}

static bool on_output(void *user, enum pty_channel from UNUSED, struct str data)
{
    struct viewer *v = user;

    CHECK(v->ready && !v->lost);
    CHECK_EQ(buf_add(&v->out, data), 0);
    return true;
}

static void on_room(void *user UNUSED)
{
}

static void on_end(void *user, int exit_code)
{
    struct viewer *v = user;

    v->ends++;
    v->exit_code = exit_code;
}

static void on_lost(void *user, bool taken_over)
{
    struct viewer *v = user;

    v->lost++;
    v->taken_over += taken_over;
}

static const struct pty_viewer_ops ops = {on_ready, on_fail, on_output, on_room, on_end, on_lost};

static void world_open(void)
{
    static const struct child_place place = {0};

    rig_open(&rig);
    ptys_new(rig.loop, &rig.reaper, &place, &all);
}

static void world_close(void)
{
    ptys_free(all);
    rig_close(&rig);
}

static struct pty *make(const char *command)
{
    struct pty *p;

    CHECK_EQ(pty_new(all, STR_NONE, command ? str_of(command) : STR_NONE, &p, NULL), 0);
    CHECK(ptys_find(all, str_of(p->id)) == p);
    return p;
}

static void view(struct viewer *v, struct pty *p)
{
    *v = (struct viewer){.pty = p, .exit_code = -99};
    buf_init(&v->out, 16 << 20);
    pty_hold(p, &ops, v);
    pty_begin(p, false);
}

TEST(pty, starts_its_shell_with_the_first_viewer_and_again_after_its_end)
{
    struct viewer v;
    struct pty *p;

    world_open();
    p = make("echo again; exit 2");
    CHECK(!pty_is_running(p) && !pty_is_held(p));
    for (int i = 1; i <= 2; i++) {
        view(&v, p);
        CHECK(pty_is_running(p) && pty_is_held(p));
        RIG_UNTIL(&rig, v.ends == 1);
        CHECK_EQ(v.exit_code, 2);
        CHECK(v.ready == 1 && v.lost == 0 && !pty_is_held(p));
        CHECK_EQ(p->replay.written, 6 * i);
        buf_done(&v.out);
    }
    world_close();
}

TEST(pty, belongs_to_the_viewer_that_came_last)
{
    struct viewer first, second;
    struct pty *p;

    world_open();
    p = make("echo one; read x; echo two");
    view(&first, p);
    RIG_UNTIL(&rig, p->replay.written == 4);
    view(&second, p);
    CHECK(first.lost == 1 && first.taken_over == 1 && second.ready == 1);
    CHECK_EQ(pty_write(p, STR("\n")), 1);
    RIG_UNTIL(&rig, second.ends == 1);
    CHECK_EQ(first.ends, 0);
    CHECK_STR(second.out.p, "two\n");
    buf_done(&first.out);
    buf_done(&second.out);
    world_close();
}

TEST(pty, prints_on_without_a_viewer)
{
    struct viewer v;
    struct pty *p;

    world_open();
    p = make("echo one; read x; echo two");
    view(&v, p);
    RIG_UNTIL(&rig, v.ready == 1);
    pty_proc_pause(&p->proc);
    pty_release(p);
    CHECK_EQ(pty_write(p, STR("\n")), 1);
    RIG_UNTIL(&rig, !pty_is_running(p) && p->replay.written == 8);
    CHECK_EQ(v.ends, 0);
    buf_done(&v.out);
    world_close();
}

static void count_call(void *user)
{
    ++*(int *)user;
}

TEST(pty, is_gone_at_once_and_tells_its_viewer_the_end)
{
    struct viewer v;
    char id[ID_UUID_MAX];
    int removed = 0;
    struct pty *p;

    world_open();
    p = make("sleep 100");
    memcpy(id, p->id, sizeof(id));
    view(&v, p);
    RIG_UNTIL(&rig, v.ready == 1);
    pty_remove(p, count_call, &removed);
    CHECK(!ptys_find(all, str_of(id)));
    RIG_UNTIL(&rig, removed == 1 && v.ends == 1);
    CHECK_EQ(v.exit_code, -1);
    buf_done(&v.out);
    world_close();
}

TEST(pty, takes_the_place_of_the_oldest_that_is_idle)
{
    char first[ID_UUID_MAX], second[ID_UUID_MAX];
    struct viewer viewers[PTYS_MAX];
    struct pty *p;
    struct err e = {0};

    world_open();
    for (size_t i = 0; i < PTYS_MAX; i++) {
        p = make(NULL);
        if (i < 2)
            memcpy(i ? second : first, p->id, sizeof(first));
    }
    pty_hold(ptys_find(all, str_of(first)), &ops, &viewers[0]); /* so it is not idle */
    viewers[0] = (struct viewer){0};
    (void)make(NULL);
    CHECK(ptys_find(all, str_of(first)) && !ptys_find(all, str_of(second)));
    for (size_t i = 1; i < PTYS_MAX; i++) {
        viewers[i] = (struct viewer){0};
        pty_hold(make(NULL), &ops, &viewers[i]);
    }
    CHECK_EQ(pty_new(all, STR_NONE, STR_NONE, &p, &e), -EAGAIN);
    CHECK_STR(e.msg, "128 sessions are in use already");
    world_close();
    for (size_t i = 0; i < PTYS_MAX; i++)
        CHECK(viewers[i].lost == 1 && !viewers[i].taken_over);
}

TEST(pty, keeps_the_newest_replays_of_those_that_ended)
{
    struct pty *sessions[8];
    struct viewer v;

    world_open();
    for (size_t i = 0; i < ARRAY_LEN(sessions); i++) {
        sessions[i] = make("head -c 1000000 /dev/zero");
        view(&v, sessions[i]);
        RIG_UNTIL(&rig, v.ends == 1);
        CHECK_EQ(v.out.n, 1000000);
        buf_done(&v.out);
    }
    for (size_t i = 0; i < ARRAY_LEN(sessions); i++) {
        CHECK_EQ(pty_replay_kept(&sessions[i]->replay), i < 4 ? 0 : 1000000);
        CHECK_EQ(sessions[i]->replay.written, 1000000);
    }
    world_close();
}
