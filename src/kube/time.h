/* time.h - times as Kubernetes writes them: Time has whole seconds, MicroTime six digits. To read
 * them: time_parse of base/time.h. */
#pragma once

#include "base/time.h"

size_t kube_time_format(int64_t us, char out[TIME_TEXT_MAX]);
size_t kube_micro_time_format(int64_t us, char out[TIME_TEXT_MAX]);
