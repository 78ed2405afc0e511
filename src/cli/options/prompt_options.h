#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/types.h"
#include "text/prompt.h"

namespace talon {

/// Where the text comes from, and how it becomes tokens.
struct PromptOptions {
  std::string text;
  std::string file;  // "-": standard input
  std::string ids;
  bool chat = false;
  std::string system;
  CLI::Option* text_flag = nullptr;
  CLI::Option* file_flag = nullptr;
  CLI::Option* ids_flag = nullptr;  // null: the command does not take ids
  CLI::Option* system_flag = nullptr;
};

/// -p, -f and --chat, and --prompt-ids with `takes_ids`.
void add_prompt_flags(CLI::App& app, PromptOptions& options, bool takes_ids);
void add_system_flag(CLI::App& app, PromptOptions& options);

/// The text of -p or -f. Throws UsageError unless exactly one source was given, Error for a file
/// that cannot be read.
std::string prompt_text(const PromptOptions& options);
bool has_ids(const PromptOptions& options);

/// Reads all of `file` ("-": standard input). Throws Error naming it and the system's reason, or
/// that it has more than kMostTextBytes, of which no more is read. Notes what of it is no UTF-8.
std::string read_text_file(const std::string& file);

/// What the model is fed for `text`: the one-message conversation that --chat makes of it, or the
/// text as it is.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const PromptOptions& options,
                                   const std::string& text, int context = 0);

/// Throws UsageError for an id outside [0, vocabulary), naming it and its place.
void check_ids(std::string_view what, const std::vector<TokenId>& ids, int vocabulary);

}  // namespace talon
