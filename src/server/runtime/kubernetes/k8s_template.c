#include "server/runtime/kubernetes/k8s_template.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/io.h"
#include "kube/yaml.h"

int k8s_template_parse(struct arena *a, struct str text, const struct json **ret, struct err *e)
{
    AUTO_BUF(json, 4 * K8S_TEMPLATE_MAX);
    struct json *tree = NULL;
    int r = kube_yaml_to_json(text, &json, e);

    if (r == 0)
        r = json_parse(a, buf_str(&json), NULL, &tree, e);
    if (r)
        return r;
    if (tree->type != JSON_OBJECT && tree->type != JSON_NULL)
        return err_set(e, EINVAL, "expected a manifest with metadata and spec, got %s",
                       json_type_name(tree));
    *ret = tree->type == JSON_OBJECT ? tree : NULL;
    return 0;
}

int k8s_template_load(struct arena *a, const char *path, const struct json **ret, struct err *e)
{
    AUTO_BUF(text, K8S_TEMPLATE_MAX);
    int r;

    *ret = NULL;
    if (!path[0])
        return 0;
    r = io_read_file(AT_FDCWD, path, K8S_TEMPLATE_MAX, &text, e);
    if (r >= 0)
        r = k8s_template_parse(a, buf_str(&text), ret, e);
    return r < 0 ? err_wrap(e, r, "template %s", path) : 0;
}
