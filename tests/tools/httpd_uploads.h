/* httpd_uploads.h - routes of the test server whose handlers count, throttle, refuse or parse a
 * body. */
#pragma once

#include "net/http_server.h"

void httpd_count(struct http_req *req);  /* counts the bytes of a body of any size */
void httpd_refuse(struct http_req *req); /* 403 at the first piece, without accepting any */
void httpd_early(struct http_req *req);  /* 200 before any of the body has arrived */
void httpd_sip(struct http_req *req);    /* counts; accepts 16 KiB per millisecond */
void httpd_form(struct http_req *req);   /* multipart: [{name, filename, bytes, sha256}, ...] */
