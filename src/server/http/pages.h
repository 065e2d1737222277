/* pages.h - what the server answers from files of this tree, embedded at build time. */
#pragma once

#include <stddef.h>

/* A NUL that the length does not count stands behind each. */
extern const char page_openapi_json[]; /* specs/lifecycle.yaml, as JSON */
extern const size_t page_openapi_json_len;
extern const char page_docs_html[]; /* docs.html: reads /openapi.json and shows it */
extern const size_t page_docs_html_len;
