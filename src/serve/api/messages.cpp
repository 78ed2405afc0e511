#include "serve/api/messages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "serve/api/api_error.h"

namespace talon {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};
constexpr std::array<std::string_view, 1> kTextParts = {"text"};
constexpr std::size_t kMostParts = 1024;

}  // namespace

ChatMessage read_message(const std::string& path, const Json& json,
                         std::span<const std::string_view> roles,
                         std::span<const std::string_view> types) {
  if (!json.is_object()) refuse_field(path, "an object", json);
  const Fields fields(json, path + ".");
  const auto role = fields.text("role");
  if (!role || std::find(roles.begin(), roles.end(), *role) == roles.end()) {
    fields.refuse("role", fmt::format("one of {}", fmt::join(roles, ", ")));
  }
  if (const Json* calls = fields.array("tool_calls", kMostParts); calls && !calls->empty()) {
    fields.refuse("tool_calls", "none: tool calls are not served");
  }
  const Json* content = fields.find("content");
  if (!content) fields.refuse("content", "a text or a list of text parts");
  return {*role == "developer" ? "system" : *role,
          read_content(path + ".content", *content, types)};
}

std::string read_content(const std::string& path, const Json& content,
                         std::span<const std::string_view> types) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array() || content.size() > kMostParts) {
    refuse_field(path, fmt::format("a text or at most {} text parts", kMostParts), content);
  }
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!content[i].is_object()) refuse_field(at, "an object", content[i]);
    const Fields part(content[i], at + ".");
    const auto type = part.text("type");
    if (!type || std::find(types.begin(), types.end(), *type) == types.end()) {
      part.refuse("type", fmt::format("{}", fmt::join(types, " or ")));
    }
    const auto said = part.text("text");
    if (!said) part.refuse("text", "a text");
    text += *said;
  }
  return text;
}

std::vector<ChatMessage> read_messages(const Fields& fields, const RequestLimits& limits) {
  const Json* list = fields.array("messages", static_cast<std::size_t>(limits.messages));
  if (!list || list->empty()) fields.refuse("messages", "an array of at least one message");
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < list->size(); ++i) {
    messages.push_back(read_message(fields.path_of(fmt::format("messages[{}]", i)), (*list)[i],
                                    kRoles, kTextParts));
  }
  return messages;
}

ChatRenderOptions read_render_options(const Fields& fields) {
  ChatRenderOptions options;
  options.add_generation_prompt = fields.flag("add_generation_prompt").value_or(true);
  if (fields.object("chat_template_kwargs")) {
    options.variables = *fields.find("chat_template_kwargs");
    for (const char* name : {"messages", "add_generation_prompt"}) {
      if (options.variables.contains(name)) {
        refuse_field(fmt::format("chat_template_kwargs.{}", name), "no such entry",
                     options.variables[name]);
      }
    }
  }
  if (const auto effort = fields.text("reasoning_effort")) {
    options.variables["reasoning_effort"] = *effort;
  }
  return options;
}

}  // namespace talon
