#include "cli/options/prompt_options.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/terminal/console.h"
#include "core/error.h"
#include "text/utf8.h"

namespace talon {

void add_prompt_flags(CLI::App& app, PromptOptions& options, bool takes_ids) {
  options.text_flag = app.add_option("-p,--prompt", options.text, "the text")->type_name("TEXT");
  options.file_flag =
      app.add_option("-f,--file", options.file, "a file with the text, - for standard input")
          ->type_name("FILE");
  if (takes_ids) {
    options.ids_flag = app.add_option("--prompt-ids", options.ids, "the text as token ids, 1,2,3")
                           ->type_name("IDS");
  }
  app.add_flag("--chat", options.chat,
               "the text is a user's message: apply the model's chat template");
}

void add_system_flag(CLI::App& app, PromptOptions& options) {
  options.system_flag =
      app.add_option("--system", options.system, "system message of the chat")->type_name("TEXT");
}

bool has_ids(const PromptOptions& options) {
  return options.ids_flag && options.ids_flag->count() > 0;
}

namespace {

std::string read_bounded(std::istream& input, const std::string& file) {
  std::string text(kMostTextBytes + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(input.gcount()));
  if (text.size() > kMostTextBytes) {
    fail("read {}: expected a text of at most {} bytes ({} MiB), found more", file, kMostTextBytes,
         kMostTextBytes >> 20);
  }
  return text;
}

/// Tokenizers read U+FFFD for other bytes, which is rarely what was meant.
std::string note_other_bytes(std::string text, std::string_view where) {
  const std::size_t good = well_formed_bytes(text);
  if (good == text.size()) return text;
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(good), '\n');
  note("note: read {}: byte 0x{:02X} at place {} (line {}) is no UTF-8, U+FFFD takes its place",
       where, static_cast<unsigned char>(text[good]), good, line + 1);
  return text;
}

}  // namespace

std::string read_text_file(const std::string& file) {
  if (file == "-") {
    errno = 0;
    std::string text = read_bounded(std::cin, "standard input");
    if (std::ferror(stdin)) fail("read standard input: {}", std::strerror(errno));
    return note_other_bytes(std::move(text), "standard input");
  }
  if (std::error_code unknown; std::filesystem::is_directory(file, unknown))
    fail("read {}: expected a file, found a directory", file);
  errno = 0;
  std::ifstream input(file, std::ios::binary);
  if (!input) fail("read {}: {}", file, std::strerror(errno));
  std::string text = read_bounded(input, file);
  if (input.bad()) fail("read {}: {}", file, std::strerror(errno));
  return note_other_bytes(std::move(text), file);
}

std::string prompt_text(const PromptOptions& options) {
  if (options.system_flag && options.system_flag->count() > 0 && !options.chat) {
    throw UsageError("--system: needs --chat");
  }
  const bool from_text = options.text_flag->count() > 0;
  const bool from_file = options.file_flag->count() > 0;
  const int sources = int{from_text} + int{from_file} + int{has_ids(options)};
  if (sources != 1) {
    throw UsageError(fmt::format("expected exactly one of -p, -f{}, got {}",
                                 options.ids_flag ? " and --prompt-ids" : "", sources));
  }
  return from_file ? read_text_file(options.file) : note_other_bytes(options.text, "--prompt");
}

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const PromptOptions& options,
                                   const std::string& text, int context) {
  if (!options.chat) return encode_prompt(tokenizer, text, context);
  std::vector<ChatMessage> messages;
  if (options.system_flag && options.system_flag->count() > 0)
    messages.push_back({"system", note_other_bytes(options.system, "--system")});
  messages.push_back({"user", text});
  return encode_chat(tokenizer, chat_template_of(tokenizer), messages, {}, context).tokens;
}

void check_ids(std::string_view what, const std::vector<TokenId>& ids, int vocabulary) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      throw UsageError(fmt::format("{}: token id {} at place {}: expected 0 to {}", what, ids[i], i,
                                   vocabulary - 1));
    }
  }
}

}  // namespace talon
