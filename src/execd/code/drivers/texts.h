/* texts.h - the programs of src/execd/code/drivers, which tools/embed embeds in execd. */
#pragma once

#include <stddef.h>

extern const char driver_go[];
extern const size_t driver_go_len;
extern const char driver_go_start[];
extern const size_t driver_go_start_len;
extern const char driver_java[];
extern const size_t driver_java_len;
extern const char driver_javascript[];
extern const size_t driver_javascript_len;
extern const char driver_python[];
extern const size_t driver_python_len;
