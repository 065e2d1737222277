/* commands.h - the functions that table.c names: each runs one command and returns the exit status.
 */
#pragma once

#include "osb/cli.h"

int template_create(struct cli *cli);
int template_get(struct cli *cli);
int template_list(struct cli *cli);

int sandbox_create(struct cli *cli);
int sandbox_list(struct cli *cli);
int sandbox_get(struct cli *cli);
int sandbox_kill(struct cli *cli);
int sandbox_pause(struct cli *cli);
int sandbox_resume(struct cli *cli);
int sandbox_renew(struct cli *cli);
int sandbox_metadata(struct cli *cli);
int sandbox_endpoint(struct cli *cli);
int sandbox_health(struct cli *cli);
int sandbox_metrics(struct cli *cli);

int command_run(struct cli *cli);
int command_status(struct cli *cli);
int command_logs(struct cli *cli);
int command_interrupt(struct cli *cli);
int session_create(struct cli *cli);
int session_run(struct cli *cli);
int session_delete(struct cli *cli);

int file_cat(struct cli *cli);
int file_write(struct cli *cli);
int file_upload(struct cli *cli);
int file_download(struct cli *cli);
int file_rm(struct cli *cli);
int file_rmdir(struct cli *cli);
int file_mkdir(struct cli *cli);
int file_mv(struct cli *cli);
int file_chmod(struct cli *cli);
int file_replace(struct cli *cli);
int file_search(struct cli *cli);
int file_info(struct cli *cli);
int file_ls(struct cli *cli);
int file_watch(struct cli *cli);
int copy(struct cli *cli);

int egress_get(struct cli *cli);
int egress_patch(struct cli *cli);
int diagnostics_logs(struct cli *cli);
int diagnostics_events(struct cli *cli);
int devops_text(struct cli *cli);
int snapshot_create(struct cli *cli);
int snapshot_get(struct cli *cli);
int snapshot_list(struct cli *cli);
int snapshot_delete(struct cli *cli);

int config_init(struct cli *cli);
int config_show(struct cli *cli);
int config_set(struct cli *cli);
int completion(struct cli *cli);

int skills_list(struct cli *cli);
int skills_show(struct cli *cli);
int skills_install(struct cli *cli);
int skills_uninstall(struct cli *cli);

int run_new(struct cli *cli);
int run_exec(struct cli *cli);
int run_shell(struct cli *cli);

int login(struct cli *cli);
int audit_list_command(struct cli *cli);
int audit_export(struct cli *cli);
int audit_verify(struct cli *cli);
int events(struct cli *cli);

int doctor(struct cli *cli);
int up(struct cli *cli);

int rest_command(struct cli *cli);
int code(struct cli *cli);
int logs(struct cli *cli);
int top(struct cli *cli);
int port_forward(struct cli *cli);
int open_port(struct cli *cli);
int sync_command(struct cli *cli);

int image_list(struct cli *cli);
int image_get(struct cli *cli);
int image_pull(struct cli *cli);
int image_import(struct cli *cli);
int image_export(struct cli *cli);
int image_remove(struct cli *cli);
int image_prune(struct cli *cli);
int volume_list(struct cli *cli);
int volume_get(struct cli *cli);
int volume_create(struct cli *cli);
int volume_remove(struct cli *cli);
int pool_create(struct cli *cli);
int pool_update(struct cli *cli);
