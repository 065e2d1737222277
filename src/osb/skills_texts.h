/* skills_texts.h - the files of skills/, which tools/embed embeds in osb. */
#pragma once

#include <stddef.h>

extern const char skill_sandbox_troubleshooting[];
extern const size_t skill_sandbox_troubleshooting_len;
extern const char skill_sandbox_lifecycle[];
extern const size_t skill_sandbox_lifecycle_len;
extern const char skill_command_execution[];
extern const size_t skill_command_execution_len;
extern const char skill_file_operations[];
extern const size_t skill_file_operations_len;
extern const char skill_network_egress[];
extern const size_t skill_network_egress_len;
extern const char skill_credential_vault[];
extern const size_t skill_credential_vault_len;
extern const char skill_troubleshoot_sandbox[];
extern const size_t skill_troubleshoot_sandbox_len;
