/* Reads a kubeconfig, and the YAML of it alone: what comes out must be JSON. */
#include "fuzz.h"

#include "base/arena.h"
#include "base/json.h"
#include "kube/config.h"
#include "kube/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    struct kube_config *config;
    AUTO_BUF(out, 1 << 20);
    AUTO_ARENA(arena, 64 << 20);
    struct json *tree;
    struct err e = {0};

    if (kube_yaml_to_json(text, &out, &e) == 0)
        FUZZ_CHECK(json_parse(&arena, buf_str(&out), NULL, &tree, &e) == 0);
    else
        FUZZ_CHECK(e.code && e.msg[0] && out.n == 0);
    if (kube_config_parse(text, "/", NULL, &config, NULL) == 0) {
        FUZZ_CHECK(kube_config_server(config) && kube_config_namespace(config));
        kube_config_free(config);
    }
    return 0;
}
