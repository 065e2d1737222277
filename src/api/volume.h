/* volume.h - the volumes a request asks for. Whether what they name may be had is the runtime's
 * matter: nothing here looks at a file system or at configuration. */
#pragma once

#include "api/fail.h"
#include "base/json_bind.h"

enum { API_VOLUMES_MAX = 64 };

enum api_volume_kind { API_VOLUME_HOST, API_VOLUME_PVC, API_VOLUME_OSSFS };

struct api_volume {
    struct str name, mount_path, sub_path; /* sub_path: "" = none; relative, no ".." component */
    bool read_only;
    enum api_volume_kind kind;
    struct str host_path;  /* HOST: absolute, clean: no "", "." or ".." component */
    struct str claim_name; /* PVC */
    bool create_if_missing, delete_with_sandbox;
};

/* How the binder reads an element of volumes[]: into a struct of its own, which only the check
 * below looks into. */
struct api_volume_body;
extern const struct json_field api_volume_element;

/* Check what was bound, by the codes VOLUME::... of the contract: first what is wrong with a volume
 * whatever the others are, then the rest, which relies on it. */
int api_volumes_check_shape(const struct api_volume_body *bodies, size_t count, struct api_fail *f);
int api_volumes_check(struct arena *a, const struct api_volume_body *bodies, size_t count,
                      struct api_volume **ret_volumes, struct api_fail *f);
