#pragma once

#include <CLI/CLI.hpp>

#include "runtime/answerer.h"
#include "runtime/heads/auto_drafter.h"

namespace talon {

/// Declares -d, for commands that use one drafter.
void add_drafter_flag(CLI::App& app, DecodeSettings& settings);
/// Takes a policy and a rule behind the drafter of -d out of it. Throws UsageError where --policy
/// or --verify says otherwise, and for a drafter, policy or rule that does not exist: before a
/// model is loaded.
void split_drafter(const CLI::App& app, DecodeSettings& settings);
/// Puts the drafter that auto stands for into `settings`, and says which on standard error.
void choose_drafter(DecodeSettings& settings, OutputKind output = OutputKind::text);
/// Whether the rule promises the tokens of plain decoding, at every temperature.
bool keeps_tokens(const DecodeSettings& settings);
/// Declares --policy, --verify, --chunk and --max-nodes.
void add_decode_flags(CLI::App& app, DecodeSettings& settings);

}  // namespace talon
