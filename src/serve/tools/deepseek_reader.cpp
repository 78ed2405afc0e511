#include "core/error.h"
#include "io/json_text.h"
#include "serve/tools/readers.h"
#include "serve/tools/whole_call_reader.h"

namespace talon {
namespace {

constexpr std::string_view kNameEnd = "<｜tool▁sep｜>", kFence = "```";
constexpr std::string_view kBegin = "<｜tool▁call▁begin｜>", kEnd = "<｜tool▁call▁end｜>",
                           kAllBegin = "<｜tool▁calls▁begin｜>", kAllEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kKimiNameEnd = "<|tool_call_argument_begin|>",
                           kKimiPrefix = "functions.";
constexpr std::string_view kKimiBegin = "<|tool_call_begin|>", kKimiEnd = "<|tool_call_end|>",
                           kKimiAllBegin = "<|tool_calls_section_begin|>",
                           kKimiAllEnd = "<|tool_calls_section_end|>";

bool is_object(std::string_view text) {
  try {
    return parse_json(text, "arguments").is_object();
  } catch (const Error&) {
    return false;
  }
}

/// `NAME<sep>{...}`, or as V3 and R1 write it `function<sep>NAME` and the object between fences.
WholeCallReader::Calls read_call(std::string_view text) {
  const std::size_t end = text.find(kNameEnd);
  if (end == std::string_view::npos) return {};
  std::string_view name = trimmed(text.substr(0, end));
  std::string_view arguments = trimmed(text.substr(end + kNameEnd.size()));
  if (const std::size_t fence = arguments.find(kFence);
      fence != std::string_view::npos && !arguments.starts_with('{')) {
    name = trimmed(arguments.substr(0, fence));
    arguments = arguments.substr(fence + kFence.size());
    arguments = arguments.substr(std::min(arguments.find('{'), arguments.size()));
    arguments = trimmed(arguments.substr(0, arguments.rfind(kFence)));
  }
  if (name.empty() || !is_object(arguments)) return {};
  return {{std::string(name), std::string(arguments)}};
}

/// `functions.NAME:NUMBER<mark>{...}`
WholeCallReader::Calls read_kimi_call(std::string_view text) {
  const std::size_t end = text.find(kKimiNameEnd);
  if (end == std::string_view::npos) return {};
  std::string_view name = trimmed(text.substr(0, end));
  const std::string_view arguments = trimmed(text.substr(end + kKimiNameEnd.size()));
  if (name.starts_with(kKimiPrefix)) name.remove_prefix(kKimiPrefix.size());
  name = name.substr(0, name.rfind(':'));
  if (name.empty() || !is_object(arguments)) return {};
  return {{std::string(name), std::string(arguments)}};
}

}  // namespace

std::unique_ptr<AnswerReader> make_kimi_reader() {
  return std::make_unique<WholeCallReader>(
      kKimiBegin, kKimiEnd, read_kimi_call,
      std::vector<std::string_view>{kKimiEnd, kKimiAllBegin, kKimiAllEnd});
}

std::unique_ptr<AnswerReader> make_deepseek_reader() {
  return std::make_unique<WholeCallReader>(kBegin, kEnd, read_call,
                                           std::vector<std::string_view>{kEnd, kAllBegin, kAllEnd});
}

}  // namespace talon
