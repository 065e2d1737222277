#include "server/runtime/docker/pull_report.h"

#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"

enum { LINE_BYTES_MAX = 64 << 10, LINE_ARENA_MAX = 1 << 20, MB = 1000 * 1000 };

struct pull_layer {
    uint64_t current, total;
    bool complete;
};

void pull_report_init(struct pull_report *p)
{
    *p = (struct pull_report){0};
    buf_init(&p->text, LINE_BYTES_MAX);
    map_init(&p->layers, PULL_LAYERS_MAX, free);
}

void pull_report_done(struct pull_report *p)
{
    buf_done(&p->text);
    map_done(&p->layers);
}

static struct pull_layer *layer_of(struct pull_report *p, struct str id)
{
    struct pull_layer *layer = map_get(&p->layers, id);

    if (layer)
        return layer;
    layer = mem_new(struct pull_layer);
    if (map_add(&p->layers, id, layer) == 0)
        return layer;
    free(layer);
    return NULL;
}

static void take_layer(struct pull_report *p, const struct json *tree, struct str id,
                       struct str status)
{
    static const struct {
        struct str status;
        bool complete;
    } rows[] = {
        {STR_INIT("Pulling fs layer"),   false},
        {STR_INIT("Waiting"),            false},
        {STR_INIT("Downloading"),        false},
        {STR_INIT("Verifying Checksum"), false},
        {STR_INIT("Download complete"),  false},
        {STR_INIT("Extracting"),         false},
        {STR_INIT("Pull complete"),      true },
        {STR_INIT("Already exists"),     true },
    };
    const struct json *detail = json_get(tree, STR("progressDetail"));

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct pull_layer *layer = str_eq(status, rows[i].status) ? layer_of(p, id) : NULL;

        if (!layer)
            continue;
        layer->complete = rows[i].complete;
        if (!str_eq(status, STR("Downloading")))
            continue;
        (void)!json_to_u64(json_get(detail, STR("current")), &layer->current);
        (void)!json_to_u64(json_get(detail, STR("total")), &layer->total);
    }
}

static void take_line(struct pull_report *p, struct str line)
{
    AUTO_ARENA(arena, LINE_ARENA_MAX);
    const struct json_limits limits = {.duplicates = JSON_DUPLICATES_LAST, .replace_invalid = true};
    struct json *tree = NULL;
    struct str text, id;

    if (json_parse(&arena, line, &limits, &tree, NULL) < 0)
        return;
    if (json_to_str(json_get(tree, STR("error")), &text) == 0 && text.n)
        (void)snprintf(p->error, sizeof(p->error), "%.*s", STR_ARG(text));
    if (json_to_str(json_get(tree, STR("status")), &text) == 0 &&
        json_to_str(json_get(tree, STR("id")), &id) == 0)
        take_layer(p, tree, id, text);
}

void pull_report_feed(struct pull_report *p, struct str piece)
{
    while (piece.n) {
        size_t end = str_find(piece, '\n');

        if (!p->skipping && buf_add(&p->text, str_make(piece.p, end)) < 0) {
            p->skipping = true;
            buf_clear(&p->text);
        }
        if (end == piece.n)
            return;
        if (!p->skipping)
            take_line(p, buf_str(&p->text));
        buf_clear(&p->text);
        p->skipping = false;
        piece = str_skip(piece, end + 1);
    }
}

void pull_report_message(const struct pull_report *p, struct str image, char *out, size_t out_size)
{
    uint64_t current = 0, total = 0;
    size_t complete = 0, at = 0;
    struct str name = str_make(image.p, image.n > 120 ? 120 : image.n);
    void *value;

    while (map_next(&p->layers, &at, NULL, &value)) {
        const struct pull_layer *layer = value;

        complete += layer->complete;
        current += layer->complete ? layer->total : layer->current;
        total += layer->total;
    }
    if (!p->layers.n)
        (void)snprintf(out, out_size, "pulling image %.*s", STR_ARG(name));
    else
        (void)snprintf(out, out_size, "pulling image %.*s: %zu of %zu layers, %llu of %llu MB",
                       STR_ARG(name), complete, p->layers.n, (unsigned long long)(current / MB),
                       (unsigned long long)((total + MB - 1) / MB));
}
