#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "io/json.h"

namespace talon {

/// A question to the target.
struct Prompt {
  std::string text;
  std::string source;
  std::string licence;
};

/// A question and its ready-made answer.
struct ReadyResponse {
  std::vector<TokenId> prompt, response;  // neither is empty
  double temperature = 0;
  std::string source;
};

/// Calls `line` with each line that is not empty, one JSON object, and where it is, for messages.
/// The file may be compressed (.zst). Lines end at "\n" only: texts contain other line separators.
void read_json_lines(const std::filesystem::path& file,
                     const std::function<void(const Json& line, const std::string& where)>& line);

/// Lines with "prompt", and "source" and "licence" where they are known. Throws Error naming file,
/// line and field.
std::vector<Prompt> read_prompts(const std::filesystem::path& file);
/// Lines with "prompt_ids", "response_ids", "temperature", "source"; ids below `vocabulary`. Of a
/// folder: the conversations of a data set.
std::vector<ReadyResponse> read_responses(const std::filesystem::path& path, int vocabulary);
/// The texts of lines with "prompt" or "turns" (a list): questions to be kept out of training.
std::vector<std::string> read_questions_held_out(const std::filesystem::path& file);

}  // namespace talon
