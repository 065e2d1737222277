/* config.h - where the API server is, which name it must prove to have, and our credentials.
 *
 * From a kubeconfig file (YAML; certificates, keys and tokens in files or inline, user and
 * password, exec plugins), or from what Kubernetes gives a pod. Any thread may use a configuration;
 * the token of a file is read again once a minute and after a 401, that of an exec plugin when it
 * expires. */
#pragma once

#include "base/buf.h"
#include "net/sock.h"

struct kube_config;
struct tls_client;

enum {
    KUBECONFIG_BYTES_MAX = 4 << 20,
    KUBE_TOKEN_BYTES_MAX = 64 << 10,
};

/* `path`: a kubeconfig; NULL or "" = $KUBECONFIG, else in a pod (see kube_config_in_cluster), else
 * ~/.kube/config. `context`: NULL or "" = its current-context. BLOCKS: reads files and resolves the
 * server's name. */
int kube_config_load(const char *path, const char *context, struct kube_config **ret,
                     struct err *e);
/* Only from $KUBERNETES_SERVICE_HOST, $KUBERNETES_SERVICE_PORT and the service account's files;
 * -ENOENT outside of a pod. */
int kube_config_in_cluster(struct kube_config **ret, struct err *e);
/* From the text of a kubeconfig; relative paths in it begin at `dir`. Reads no other file and
 * resolves nothing: for tests. */
int kube_config_parse(struct str text, const char *dir, const char *context,
                      struct kube_config **ret, struct err *e);
void kube_config_free(struct kube_config *c); /* NULL is fine */

const char *kube_config_server(const struct kube_config *c); /* "https://10.0.0.1:6443" */
/* Of the context or the pod; "default" when neither says. */
const char *kube_config_namespace(const struct kube_config *c);
