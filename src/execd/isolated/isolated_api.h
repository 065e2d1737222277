/* isolated_api.h - handlers of the routes below /v1/isolated. */
#pragma once

struct http_req;

void get_isolated_capabilities(struct http_req *req);
void post_isolated_session(struct http_req *req);
void get_isolated_session(struct http_req *req);
void get_isolated_sessions(struct http_req *req);
void delete_isolated_session(struct http_req *req);
void post_isolated_run(struct http_req *req);
void get_isolated_run(struct http_req *req);
void get_isolated_run_logs(struct http_req *req);
void get_isolated_diff(struct http_req *req);
void post_isolated_commit(struct http_req *req);
void isolated_files(struct http_req *req); /* all routes of files and directories; streams bodies */
