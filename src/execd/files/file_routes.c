#include "execd/files/file_routes.h"

#define GET  HTTP_BIT(HTTP_GET)
#define POST HTTP_BIT(HTTP_POST)
#define DEL  HTTP_BIT(HTTP_DELETE)

static const struct http_route file_rows[] = {
    {GET,  "/files/info",        0,                 files_info,         0                  },
    {DEL,  "/files",             0,                 files_delete,       0                  },
    {POST, "/files/permissions", 0,                 files_permissions,  FILE_BODY_BYTES_MAX},
    {POST, "/files/mv",          0,                 files_move,         FILE_BODY_BYTES_MAX},
    {GET,  "/files/search",      0,                 files_search,       0                  },
    {POST, "/files/replace",     0,                 files_replace,      FILE_BODY_BYTES_MAX},
    {POST, "/files/upload",      ROUTE_STREAM_BODY, files_upload,       0                  },
    {GET,  "/files/download",    0,                 files_download,     0                  },
    {GET,  "/directories/list",  0,                 directories_list,   0                  },
    {GET,  "/directories/watch", 0,                 directories_watch,  0                  },
    {POST, "/directories",       0,                 directories_make,   FILE_BODY_BYTES_MAX},
    {DEL,  "/directories",       0,                 directories_delete, 0                  },
};
const struct http_route_group file_routes = {file_rows, ARRAY_LEN(file_rows)};

static const struct http_route archive_rows[] = {
    {GET,  "/directories/download", 0,                 directories_download, 0},
    {POST, "/directories/upload",   ROUTE_STREAM_BODY, directories_upload,   0},
};
const struct http_route_group archive_routes = {archive_rows, ARRAY_LEN(archive_rows)};
