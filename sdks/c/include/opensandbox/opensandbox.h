/* opensandbox.h - includes all headers of libopensandbox, the OpenSandbox client in C.
 *
 *   struct osb_client *client;
 *   struct osb_sandbox *box;
 *   struct osb_execution *done;
 *   char why[OSB_MESSAGE_MAX];
 *
 *   if (osb_client_open(NULL, &client, why) < 0)
 *       errx(1, "%s", why);
 *   if (osb_sandbox_create(client, &(struct osb_create){OSB_CREATE, .image = "host"}, &box) < 0 ||
 *       osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "echo hello"}, &done) < 0)
 *       errx(1, "%s", osb_error_message(osb_client_error(client)));
 *   fputs(osb_execution_stdout(done), stdout);
 *
 * Functions that return int return 0, or a count, or a negative errno value; osb_client_error then
 * tells more. Out parameters are written only on success. Every object is freed by the function
 * that ends in _free, or _close; all of these accept NULL. */
#pragma once

#include <opensandbox/answer.h>
#include <opensandbox/client.h>
#include <opensandbox/code.h>
#include <opensandbox/command.h>
#include <opensandbox/egress.h>
#include <opensandbox/files.h>
#include <opensandbox/image.h>
#include <opensandbox/pool.h>
#include <opensandbox/pty.h>
#include <opensandbox/sandbox.h>
#include <opensandbox/task.h>
#include <opensandbox/vault.h>
#include <opensandbox/volume.h>
