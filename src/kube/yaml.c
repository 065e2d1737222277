#include "kube/yaml.h"

#include <errno.h>
#include <yaml.h>

#include "base/json_write.h"

/* An open sequence or mapping. */
struct level {
    const yaml_node_t *node;
    size_t at;     /* items or pairs begun */
    bool in_value; /* of a mapping: the key was written */
};

struct convert {
    yaml_document_t *doc;
    struct json_writer w;
    struct level stack[KUBE_YAML_DEPTH_MAX];
    size_t depth;
    struct err *e;
};

static struct str scalar_of(const yaml_node_t *n)
{
    return str_make((const char *)n->data.scalar.value, n->data.scalar.length);
}

/* Whether JSON would read the text as a number. */
static bool is_number(struct str s)
{
    AUTO_ARENA(arena, 4096);
    struct json *v;

    return s.n && s.n < 64 && (s.p[0] == '-' || ascii_is_digit(s.p[0])) &&
           json_parse(&arena, s, NULL, &v, NULL) == 0 && v->type == JSON_NUMBER;
}

static void write_scalar(struct convert *c, const yaml_node_t *n)
{
    struct str s = scalar_of(n);
    bool plain = n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (plain && (!s.n || str_eq(s, STR("~")) || str_eq(s, STR("null")) || str_eq(s, STR("Null")) ||
                  str_eq(s, STR("NULL"))))
        json_write_null(&c->w);
    else if (plain && (str_eq(s, STR("true")) || str_eq(s, STR("True")) || str_eq(s, STR("TRUE"))))
        json_write_bool(&c->w, true);
    else if (plain &&
             (str_eq(s, STR("false")) || str_eq(s, STR("False")) || str_eq(s, STR("FALSE"))))
        json_write_bool(&c->w, false);
    else if (plain && is_number(s))
        json_write_raw(&c->w, s);
    else
        json_write_string(&c->w, s);
}

static int fail_at(struct convert *c, const yaml_node_t *n, const char *what)
{
    return err_set(c->e, EBADMSG, "line %zu: %s", n->start_mark.line + 1, what);
}

/* Writes a scalar, or begins a sequence or mapping. */
static int begin(struct convert *c, int index)
{
    const yaml_node_t *n = yaml_document_get_node(c->doc, index);

    if (!n)
        return err_set(c->e, EBADMSG, "no such node");
    if (n->type == YAML_SCALAR_NODE) {
        write_scalar(c, n);
        return 0;
    }
    if (c->depth == KUBE_YAML_DEPTH_MAX)
        return fail_at(c, n, "nested too deep");
    c->stack[c->depth++] = (struct level){.node = n};
    if (n->type == YAML_SEQUENCE_NODE)
        json_write_array(&c->w);
    else
        json_write_object(&c->w);
    return 0;
}

static bool has_key_before(struct convert *c, const yaml_node_t *map, const yaml_node_pair_t *pair,
                           struct str key)
{
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
        const yaml_node_t *other = yaml_document_get_node(c->doc, p->key);

        if (other && other->type == YAML_SCALAR_NODE && str_eq(scalar_of(other), key))
            return true;
    }
    return false;
}

static int step_mapping(struct convert *c, struct level *l)
{
    const yaml_node_pair_t *pair = l->node->data.mapping.pairs.start + l->at;
    const yaml_node_t *key;

    if (pair >= l->node->data.mapping.pairs.top) {
        json_write_object_end(&c->w);
        c->depth--;
        return 0;
    }
    key = yaml_document_get_node(c->doc, pair->key);
    if (!key || key->type != YAML_SCALAR_NODE)
        return fail_at(c, l->node, "a key is not a scalar");
    /* Quadratic, and so bounded: nobody writes larger mappings by hand. */
    if (l->at > 4096)
        return fail_at(c, l->node, "a mapping has more than 4096 keys");
    if (has_key_before(c, l->node, pair, scalar_of(key)))
        return fail_at(c, key, "a key occurs twice");
    json_write_key(&c->w, scalar_of(key));
    l->at++;
    return begin(c, pair->value);
}

static int step_sequence(struct convert *c, struct level *l)
{
    const yaml_node_item_t *item = l->node->data.sequence.items.start + l->at;

    if (item >= l->node->data.sequence.items.top) {
        json_write_array_end(&c->w);
        c->depth--;
        return 0;
    }
    l->at++;
    return begin(c, *item);
}

static int convert(yaml_document_t *doc, struct buf *out, struct err *e)
{
    struct convert c = {.doc = doc, .e = e};
    size_t before = out->n;
    int r = 0;

    json_write_begin(&c.w, out);
    if (yaml_document_get_root_node(doc))
        r = begin(&c, 1);
    else
        json_write_null(&c.w);
    while (r == 0 && c.depth && !c.w.error) {
        struct level *l = &c.stack[c.depth - 1];

        r = l->node->type == YAML_MAPPING_NODE ? step_mapping(&c, l) : step_sequence(&c, l);
    }
    if (r < 0 || c.w.error) {
        buf_cut(out, before);
        return r < 0 ? r : err_set(e, -c.w.error, "the YAML is too long");
    }
    return json_write_end(&c.w);
}

int kube_yaml_to_json(struct str text, struct buf *out, struct err *e)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    int r;

    if (text.n > KUBE_YAML_BYTES_MAX)
        return err_set(e, EMSGSIZE, "more than %d bytes of YAML", KUBE_YAML_BYTES_MAX);
    if (!yaml_parser_initialize(&parser))
        return err_set(e, ENOMEM, "no memory to read YAML");
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text.n ? text.p : ""), text.n);
    if (!yaml_parser_load(&parser, &doc)) {
        r = parser.error == YAML_MEMORY_ERROR
                ? err_set(e, ENOMEM, "no memory to read YAML")
                : err_set(e, EBADMSG, "line %zu: %s", parser.problem_mark.line + 1,
                          parser.problem ? parser.problem : "not valid YAML");
        yaml_parser_delete(&parser);
        return r;
    }
    r = convert(&doc, out, e);
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
    return r;
}
