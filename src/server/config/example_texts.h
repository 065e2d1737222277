/* example_texts.h - the files of deploy/ that init-config writes; made by tools/embed. */
#pragma once

#include <stddef.h>

extern const char example_config[]; /* deploy/config.toml */
extern const size_t example_config_len;
extern const char example_docker[]; /* deploy/examples/docker.toml */
extern const size_t example_docker_len;
extern const char example_kubernetes[]; /* deploy/examples/kubernetes.toml */
extern const size_t example_kubernetes_len;
