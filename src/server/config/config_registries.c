/* config_registries.c - how to reach registries of images, from three keys of [images]. */
#include "base/url.h"
#include "server/config/config_internal.h"

/* The entry for a registry, made if need be. NULL when there are too many. */
static struct config_registry *registry_of(struct config *c, const char *name)
{
    for (size_t i = 0; i < c->registry_count; i++)
        if (strcmp(c->registries[i].name, name) == 0)
            return &c->registries[i];
    if (c->registry_count == CONFIG_REGISTRIES_MAX)
        return NULL;
    c->registries[c->registry_count] = (struct config_registry){.name = name};
    return &c->registries[c->registry_count++];
}

static bool is_mirror(struct str text)
{
    struct url url;

    return url_split(text, &url, NULL) == 0 && (url.scheme == URL_HTTPS || url.scheme == URL_HTTP);
}

/* The addresses of one entry, separated by blanks. */
static bool add_mirrors(struct config *c, struct config_registry *r, const char *text)
{
    struct str rest = str_of(text), word;
    const char **at = arena_new_array(&c->arena, const char *, CONFIG_MIRRORS_MAX);

    r->mirrors = (struct config_list){at, 0};
    while (at && str_cut(&rest, ' ', &word)) {
        if (word.n == 0)
            continue;
        if (r->mirrors.count == CONFIG_MIRRORS_MAX || !is_mirror(word))
            return false;
        at[r->mirrors.count++] = arena_strdup(&c->arena, word);
    }
    return r->mirrors.count > 0;
}

void config_registries(struct config *c, const struct toml *root, struct config_report *report)
{
    const struct toml *table = toml_get_path(root, STR("images.mirrors"));
    const struct config_pairs *pairs = &c->oci.mirrors;
    struct config_registry *r = NULL;

    c->registries = arena_new_array(&c->arena, struct config_registry, CONFIG_REGISTRIES_MAX);
    if (!c->registries)
        return;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct toml *v = toml_get(table, str_of(pairs->at[i].name));
        struct config_place at = {c->path, v ? toml_pos(v) : (struct toml_pos){0}};

        r = registry_of(c, pairs->at[i].name);
        if (!r || !add_mirrors(c, r, pairs->at[i].value))
            config_error(
                report, &at,
                "images.mirrors.\"%.80s\": expected 1 to %d addresses such as "
                "https://mirror.example.com, separated by spaces, of at most %d registries",
                pairs->at[i].name, CONFIG_MIRRORS_MAX, CONFIG_REGISTRIES_MAX);
    }
    for (size_t i = 0; i < c->oci.plain_http.count; i++)
        if ((r = registry_of(c, c->oci.plain_http.at[i])))
            r->plain_http = true;
    for (size_t i = 0; i < c->oci.skip_verify.count; i++)
        if ((r = registry_of(c, c->oci.skip_verify.at[i])))
            r->skip_verify = true;
}
