#include "net/router.h"

#include <errno.h>

#include "base/mem.h"

enum { ROUTE_SEGMENTS_MAX = 32 };

/* A node is one segment of the tree of paths. */
struct route_node {
    struct str segment; /* literal; of "{name}" and "*" children, the name */
    struct route_node *first_child, *next;
    struct route_node *param; /* "{name}" */
    struct route_node *rest;  /* "*" */
    const struct http_route *by_method[HTTP_METHOD_COUNT];
    unsigned methods;
};

/* A row of a group with its whole path. */
struct route_made {
    struct route_made *next;
    struct http_route row;
    char path[];
};

struct router {
    struct route_node root;
    struct route_made *made;
};

/* Prepends a node, if not NULL, to a list linked by `next`. */
static void nodes_push(struct route_node **list, struct route_node *n)
{
    if (!n)
        return;
    n->next = *list;
    *list = n;
}

static void nodes_push_children(struct route_node **list, const struct route_node *n)
{
    for (struct route_node *c = n->first_child, *next; c; c = next) {
        next = c->next;
        nodes_push(list, c);
    }
    nodes_push(list, n->param);
    nodes_push(list, n->rest);
}

void router_free(struct router *r)
{
    struct route_node *doomed = NULL, *n;

    if (!r)
        return;
    nodes_push_children(&doomed, &r->root);
    while ((n = doomed)) {
        doomed = n->next;
        nodes_push_children(&doomed, n);
        free(n);
    }
    for (struct route_made *m = r->made, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    free(r);
}

/* Removes a byte, or a percent code. A '%' that begins none is literal. */
static char cut_byte(struct str *raw)
{
    int high = raw->n > 2 ? ascii_hex_value(raw->p[1]) : -1;
    int low = raw->n > 2 ? ascii_hex_value(raw->p[2]) : -1;
    bool coded = raw->p[0] == '%' && high >= 0 && low >= 0;
    char c = coded ? (char)(high << 4 | low) : raw->p[0];

    *raw = str_skip(*raw, coded ? 3 : 1);
    return c;
}

static bool segment_spells(struct str raw, struct str literal)
{
    while (raw.n && literal.n && cut_byte(&raw) == literal.p[0])
        literal = str_skip(literal, 1);
    return !raw.n && !literal.n;
}

static struct route_node *node_literal(const struct route_node *n, struct str segment)
{
    for (struct route_node *c = n->first_child; c; c = c->next)
        if (segment_spells(segment, c->segment))
            return c;
    return NULL;
}

static struct route_node *node_add(struct route_node **slot, struct str segment)
{
    if (!*slot) {
        *slot = mem_new(struct route_node);
        (*slot)->segment = segment;
    }
    return *slot;
}

/* The child for one segment of a row, created if missing; NULL if the row is malformed. */
static struct route_node *node_step(struct route_node *n, struct str segment, bool last)
{
    struct route_node *child;

    if (str_eq(segment, STR("*")))
        return last ? node_add(&n->rest, segment) : NULL;
    if (segment.n && segment.p[0] == '{') {
        struct str name;

        if (segment.n < 3 || segment.p[segment.n - 1] != '}')
            return NULL;
        name = str_make(segment.p + 1, segment.n - 2);
        child = node_add(&n->param, name);
        return str_eq(child->segment, name) ? child : NULL;
    }
    child = node_literal(n, segment);
    if (!child) {
        child = mem_new(struct route_node);
        child->segment = segment;
        child->next = n->first_child;
        n->first_child = child;
    }
    return child;
}

static int router_claim(struct route_node *n, const struct http_route *route, struct err *e)
{
    for (int m = 0; m < HTTP_METHOD_COUNT; m++) {
        if (!(route->methods & HTTP_BIT(m)))
            continue;
        if (n->by_method[m])
            return err_set(e, EINVAL, "route '%s' is claimed twice", route->path);
        n->by_method[m] = route;
    }
    n->methods |= route->methods;
    return 0;
}

static int router_add(struct router *r, const struct http_route *route, struct err *e)
{
    struct str rest = str_of(route->path), segment;
    struct route_node *n = &r->root;
    size_t segments = 0, params = 0;

    if (!str_starts(rest, STR("/")))
        return err_set(e, EINVAL, "route '%s' does not begin with '/'", route->path);
    rest = str_skip(rest, 1);
    while (str_cut(&rest, '/', &segment)) {
        struct route_node *next = node_step(n, segment, !rest.p);

        if (!next)
            return err_set(e, EINVAL, "route '%s': '%.*s' cannot stand here", route->path,
                           STR_ARG(segment));
        params += next == n->param || next == n->rest;
        n = next;
        if (++segments > ROUTE_SEGMENTS_MAX || params > ROUTE_PARAMS_MAX)
            return err_set(e, EINVAL, "route '%s' is too long", route->path);
    }
    return router_claim(n, route, e);
}

static struct route_made *route_make(const struct http_route *group, const struct http_route *inner)
{
    size_t prefix = strlen(group->path), path = strlen(inner->path);
    struct route_made *m = mem_alloc(sizeof(*m) + prefix + path + 1);

    m->row = group->handler ? *group : *inner;
    m->row.methods = inner->methods;
    m->row.group = NULL;
    m->row.path = m->path;
    memcpy(m->path, group->path, prefix);
    memcpy(m->path + prefix, inner->path, path + 1);
    return m;
}

static int router_add_group(struct router *r, const struct http_route *group, struct err *e)
{
    int error = 0;

    for (size_t i = 0; i < group->group->count && error >= 0; i++) {
        struct route_made *m = route_make(group, &group->group->routes[i]);

        m->next = r->made;
        r->made = m;
        error = router_add(r, &m->row, e);
    }
    return error;
}

int router_new(const struct http_route *routes, size_t count, struct router **ret, struct err *e)
{
    struct router *r = mem_new(struct router);

    for (size_t i = 0; i < count; i++) {
        int error =
            routes[i].group ? router_add_group(r, &routes[i], e) : router_add(r, &routes[i], e);

        if (error < 0) {
            router_free(r);
            return error;
        }
    }
    *ret = r;
    return 0;
}

/* --- matching --- */

/* One segment being matched, and which kinds of child were tried already, for backtracking. */
struct route_choice {
    const struct route_node *node;
    struct str rest; /* the path from this segment on; STR_NONE at its end */
    size_t param_count;
    enum { TRY_LITERAL, TRY_PARAM, TRY_REST, TRIED_ALL } stage;
};

static bool match_end(const struct route_node *n, enum http_method method, struct route_match *m)
{
    m->allowed |= n->methods;
    m->route = n->by_method[method];
    if (n->methods & HTTP_BIT(HTTP_GET)) {
        m->allowed |= HTTP_BIT(HTTP_HEAD);
        if (!m->route && method == HTTP_HEAD)
            m->route = n->by_method[HTTP_GET];
    }
    return m->route != NULL;
}

/* The next child to try, or NULL; *after is the rest of the path behind it. */
static const struct route_node *match_step(struct route_choice *c, struct str *after,
                                           struct route_match *m)
{
    const struct route_node *next = NULL;
    struct str segment = STR_NONE;

    *after = c->rest;
    str_cut(after, '/', &segment);
    switch (c->stage++) {
    case TRY_LITERAL:
        return node_literal(c->node, segment);
    case TRY_PARAM:
        next = segment.n ? c->node->param : NULL;
        break;
    default:
        next = c->node->rest;
        segment = c->rest;
        *after = STR_NONE;
    }
    if (next)
        m->params[m->param_count++] = (struct route_param){next->segment, segment};
    return next;
}

/* Depth-first with an explicit stack, no deeper than the tree. Each node is entered at most once,
 * for any path. */
void router_find(const struct router *r, enum http_method method, struct str path,
                 struct route_match *ret)
{
    struct route_choice stack[ROUTE_SEGMENTS_MAX + 1];
    size_t depth = 1;

    *ret = (struct route_match){0};
    if (!str_starts(path, STR("/")))
        return;
    stack[0] = (struct route_choice){.node = &r->root, .rest = str_skip(path, 1)};
    while (depth > 0) {
        struct route_choice *c = &stack[depth - 1];
        const struct route_node *next;
        struct str after;

        ret->param_count = c->param_count;
        if (!c->rest.p) {
            if (match_end(c->node, method, ret))
                return;
            depth--;
        } else if (c->stage == TRIED_ALL) {
            depth--;
        } else if ((next = match_step(c, &after, ret))) {
            stack[depth++] = (struct route_choice){next, after, ret->param_count, TRY_LITERAL};
        }
    }
}

/* --- as text --- */

static int route_print(const char *prefix, const struct http_route *route, struct buf *out)
{
    bool any = route->methods & HTTP_BIT(HTTP_OTHER);
    int r = any ? buf_addf(out, "* %s%s\n", prefix, route->path) : 0;

    for (int m = 0; m < HTTP_METHOD_COUNT && r >= 0 && !any; m++)
        if (route->methods & HTTP_BIT(m))
            r = buf_addf(out, "%.*s %s%s\n", STR_ARG(http_method_name(m)), prefix, route->path);
    return r;
}

static int group_print(const struct http_route *group, struct buf *out)
{
    int r = 0;

    for (size_t i = 0; i < group->group->count && r >= 0; i++)
        r = route_print(group->path, &group->group->routes[i], out);
    return r;
}

int routes_print(const struct http_route *routes, size_t count, struct buf *out)
{
    int r = 0;

    for (size_t i = 0; i < count && r >= 0; i++)
        r = routes[i].group ? group_print(&routes[i], out) : route_print("", &routes[i], out);
    return r;
}
