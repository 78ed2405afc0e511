#include "core/error.h"
#include "io/json_text.h"
#include "serve/tools/readers.h"
#include "serve/tools/whole_call_reader.h"

namespace talon {
namespace {

constexpr std::string_view kNameEnd = "<｜tool▁sep｜>", kFence = "```";
constexpr std::string_view kBegin = "<｜tool▁call▁begin｜>", kEnd = "<｜tool▁call▁end｜>",
                           kAllBegin = "<｜tool▁calls▁begin｜>", kAllEnd = "<｜tool▁calls▁end｜>";

std::string_view without_space(std::string_view text) {
  text.remove_prefix(leading_space(text));
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_object(std::string_view text) {
  try {
    return parse_json(text, "arguments").is_object();
  } catch (const Error&) {
    return false;
  }
}

/// `NAME<sep>{...}`, or as V3 and R1 write it `function<sep>NAME` and the object between fences.
std::optional<ReadAnswer::Call> read_call(std::string_view text) {
  const std::size_t end = text.find(kNameEnd);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view name = without_space(text.substr(0, end));
  std::string_view arguments = without_space(text.substr(end + kNameEnd.size()));
  if (const std::size_t fence = arguments.find(kFence);
      fence != std::string_view::npos && !arguments.starts_with('{')) {
    name = without_space(arguments.substr(0, fence));
    arguments = arguments.substr(fence + kFence.size());
    arguments = arguments.substr(std::min(arguments.find('{'), arguments.size()));
    arguments = without_space(arguments.substr(0, arguments.rfind(kFence)));
  }
  if (name.empty() || !is_object(arguments)) return std::nullopt;
  return ReadAnswer::Call{std::string(name), std::string(arguments)};
}

}  // namespace

std::unique_ptr<AnswerReader> make_deepseek_reader() {
  return std::make_unique<WholeCallReader>(kBegin, kEnd, read_call,
                                           std::vector<std::string_view>{kEnd, kAllBegin, kAllEnd});
}

}  // namespace talon
