#include "execd/pty/pty_query.h"

#include "base/str.h"

enum { ENQ = 0x05, BEL = 0x07, CAN = 0x18, SUB = 0x1a, ESC = 0x1b };

struct view {
    char *ring;
    size_t cap;
    uint64_t end;
};

/* 0 where nothing is: no sequence has a NUL. */
static unsigned char byte_at(const struct view *v, uint64_t at)
{
    return at < v->end ? (unsigned char)v->ring[at % v->cap] : 0;
}

/* A control sequence in parts: CSI prefix numbers intermediate final. */
struct csi {
    unsigned char prefix, intermediate, final; /* 0 = none */
    uint32_t first;                            /* number */
};

/* `at` is behind "ESC [". Returns the offset behind the sequence, 0 if it is none. */
static uint64_t csi_read(const struct view *v, uint64_t at, struct csi *ret)
{
    bool in_first = true;
    uint64_t limit = at + PTY_QUERY_BYTES_MAX;

    *ret = (struct csi){0};
    if (byte_at(v, at) >= '<' && byte_at(v, at) <= '?')
        ret->prefix = byte_at(v, at++);
    for (; at < limit && byte_at(v, at) >= '0' && byte_at(v, at) <= '?'; at++) {
        unsigned char c = byte_at(v, at);

        in_first = in_first && c <= '9';
        if (in_first && ret->first < 1000)
            ret->first = ret->first * 10 + (c - '0');
    }
    for (; at < limit && byte_at(v, at) >= ' ' && byte_at(v, at) <= '/'; at++)
        ret->intermediate = byte_at(v, at);
    ret->final = byte_at(v, at);
    return ret->final >= '@' && ret->final <= '~' ? at + 1 : 0;
}

/* Reports of a window's state and sizes, of XTWINOPS. */
static bool is_window_report(uint32_t n)
{
    return n == 11 || (n >= 13 && n <= 16) || (n >= 18 && n <= 21);
}

static bool csi_is_query(const struct csi *c)
{
    switch (c->final) {
    case 'c': /* DA1, DA2, DA3; with '?' it is a cursor of the Linux console */
        return !c->intermediate && c->prefix != '?';
    case 'n': /* DSR; with '>' it sets a key's modifiers */
        return !c->intermediate && c->prefix != '>';
    case 'p': /* DECRQM */
        return c->intermediate == '$';
    case 'q': /* XTVERSION */
        return c->prefix == '>' && !c->intermediate;
    case 't':
        return !c->prefix && !c->intermediate && is_window_report(c->first);
    case 'u': /* flags of the keyboard protocol */
    case 'S': /* XTSMGRAPHICS */
        return c->prefix == '?' && !c->intermediate;
    case 'x': /* DECREQTPARM */
        return !c->prefix && !c->intermediate;
    default:
        return false;
    }
}

/* `at` is behind the first two bytes of an OSC, DCS or APC. Returns the offset behind its end, and
 * that of its end; 0 if it has none. */
static uint64_t string_read(const struct view *v, uint64_t at, bool bel_ends, uint64_t *ret_end)
{
    for (uint64_t limit = at + PTY_QUERY_BYTES_MAX; at < limit && at < v->end; at++) {
        unsigned char c = byte_at(v, at);

        *ret_end = at;
        if (c == BEL && bel_ends)
            return at + 1;
        if (c == ESC)
            return byte_at(v, at + 1) == '\\' ? at + 2 : 0;
        if (c == CAN || c == SUB)
            return 0;
    }
    return 0;
}

/* "10;?", "4;1;?", "52;c;?": one of its fields is a question mark. */
static bool osc_is_query(const struct view *v, uint64_t at, uint64_t end)
{
    for (; at + 1 < end; at++)
        if (byte_at(v, at) == ';' && byte_at(v, at + 1) == '?' &&
            (at + 2 == end || byte_at(v, at + 2) == ';'))
            return true;
    return false;
}

/* DECRQSS and XTGETTCAP. */
static bool dcs_is_query(const struct view *v, uint64_t at, uint64_t end)
{
    return at + 1 < end && (byte_at(v, at) == '$' || byte_at(v, at) == '+') &&
           byte_at(v, at + 1) == 'q';
}

/* The graphics protocol of kitty answers any command that has an id; programs ask by "a=q". */
static bool apc_is_query(const struct view *v, uint64_t at, uint64_t end)
{
    if (byte_at(v, at) != 'G')
        return false;
    for (; at + 2 < end && byte_at(v, at) != ';'; at++)
        if (byte_at(v, at) == 'a' && byte_at(v, at + 1) == '=' && byte_at(v, at + 2) == 'q')
            return true;
    return false;
}

/* Returns the offset behind the request that begins with the ESC at `at`; 0 if none does. */
static uint64_t query_end(const struct view *v, uint64_t at)
{
    static const struct {
        unsigned char introducer;
        bool (*is_query)(const struct view *v, uint64_t at, uint64_t end);
    } strings[] = {
        {']', osc_is_query},
        {'P', dcs_is_query},
        {'_', apc_is_query},
    };
    unsigned char introducer = byte_at(v, at + 1);
    uint64_t next, end = 0;
    struct csi csi;

    if (introducer == 'Z') /* DECID */
        return at + 2;
    if (introducer == '[') {
        next = csi_read(v, at + 2, &csi);
        return next && csi_is_query(&csi) ? next : 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
        if (strings[i].introducer != introducer)
            continue;
        next = string_read(v, at + 2, introducer == ']', &end);
        return next && strings[i].is_query(v, at + 2, end) ? next : 0;
    }
    return 0;
}

void pty_query_blank(char *ring, size_t cap, uint64_t from, uint64_t end)
{
    const struct view v = {ring, cap, end};

    for (uint64_t at = from; at < end; at++) {
        unsigned char c = byte_at(&v, at);
        uint64_t next = c == ENQ ? at + 1 : c == ESC ? query_end(&v, at) : 0;

        if (!next)
            continue;
        ring[at % cap] = c == ESC ? CAN : '\0';
        for (at++; at < next; at++)
            ring[at % cap] = '\0';
        at = next - 1;
    }
}
