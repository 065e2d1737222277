/* pages.h - pages that the server answers from files of this tree, built in. */
#pragma once

#include <stddef.h>

/* Each ends with a NUL that its length does not count. */
extern const char page_openapi_json[]; /* specs/lifecycle.yaml, as JSON */
extern const size_t page_openapi_json_len;
extern const char page_docs_html[]; /* docs.html: reads /openapi.json and shows it */
extern const size_t page_docs_html_len;
