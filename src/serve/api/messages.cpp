#include "serve/api/messages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "serve/api/api_error.h"
#include "serve/tools/tool_use.h"

namespace talon {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};
constexpr std::array<std::string_view, 1> kTextParts = {"text"};
/// A kind of a part of the assistant's, whose text has the same name.
constexpr std::string_view kRefusal = "refusal";
constexpr std::size_t kMostParts = 1024;

/// The arguments of a call: a text, or, as some clients have it, the object.
std::string read_arguments(const Fields& function) {
  const Json* arguments = function.find("arguments");
  if (!arguments) return "{}";
  if (!arguments->is_string() && !arguments->is_object()) {
    function.refuse("arguments", "a text that holds a JSON object");
  }
  return arguments->is_string() ? arguments->get<std::string>() : arguments->dump();
}

/// Of a message of the assistant, the last of `messages`.
void read_calls(const Fields& fields, std::vector<ChatMessage>& messages) {
  for (const char* name : {"reasoning_content", "reasoning"}) {
    if (const auto text = fields.text(name)) messages.back().more["reasoning_content"] = *text;
  }
  if (fields.find("function_call")) fields.refuse("function_call", "none: tool_calls have them");
  if (fields.find("audio")) fields.refuse("audio", "none: the server keeps no answers");
  const Json* calls = fields.array("tool_calls", kMostParts);
  if (!calls) return;
  for (std::size_t i = 0; i < calls->size(); ++i) {
    const std::string path = fields.path_of(fmt::format("tool_calls[{}]", i));
    if (!(*calls)[i].is_object()) refuse_field(path, "an object", (*calls)[i]);
    const Fields call((*calls)[i], path + ".");
    const auto function = call.object("function");
    if (!function) call.refuse("function", "an object");
    const auto name = function->text("name");
    if (!name) function->refuse("name", "a text");
    add_call(messages, call.text("id").value_or(""), *name, read_arguments(*function));
  }
}

/// A message of the assistant needs no content: it called, thought or refused instead.
bool is_silent(const Json& json) {
  return json.is_object() && json.value("role", Json()) == "assistant" &&
         (!json.contains("content") || json["content"].is_null());
}

std::optional<std::string> read_word(const Fields& fields, const char* name,
                                     std::span<const std::string_view> words) {
  auto word = fields.text(name);
  if (word && std::ranges::find(words, *word) == words.end()) {
    fields.refuse(name, fmt::format("one of {}", fmt::join(words, ", ")));
  }
  return word;
}

bool is_same_turn(const ChatMessage& message, const ChatMessage& next) {
  return message.role == next.role && (next.role == "user" || next.role == "assistant");
}

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
  const Json* content = fields.find("content");
  if (!content) fields.refuse("content", "a text or a list of text parts");
  std::vector<std::string_view> kinds(types.begin(), types.end());
  if (*role == "assistant") kinds.push_back(kRefusal);
  return {*role == "developer" ? "system" : *role,
          read_content(path + ".content", *content, kinds)};
}

void add_call(std::vector<ChatMessage>& messages, const std::string& id, const std::string& name,
              const std::string& arguments) {
  if (messages.empty() || messages.back().role != "assistant")
    messages.push_back({"assistant", ""});
  messages.back().more["tool_calls"].push_back(call_for_template(id, name, arguments));
}

ChatMessage call_result(const std::string& id, std::string content) {
  ChatMessage result{"tool", std::move(content)};
  result.more["tool_call_id"] = id;
  return result;
}

void name_results(std::vector<ChatMessage>& messages) {
  std::map<std::string, OrderedJson> names;  // of calls, by their ids
  for (ChatMessage& message : messages) {
    if (message.more.contains("tool_calls")) {
      for (const OrderedJson& call : message.more["tool_calls"]) {
        names[call["id"].get<std::string>()] = call["function"]["name"];
      }
    }
    if (!message.more.contains("tool_call_id")) continue;
    const auto found = names.find(message.more["tool_call_id"].get<std::string>());
    if (found != names.end()) message.more["name"] = found->second;
  }
}

void add_thought(ChatMessage& message, const std::string& text) {
  if (text.empty()) return;
  OrderedJson& thought = message.more["reasoning_content"];
  thought = thought.is_null() ? text : thought.get<std::string>() + "\n" + text;
}

void add_message(ChatMessage& message, const ChatMessage& more, std::string_view between) {
  if (!message.content.empty() && !more.content.empty()) message.content += between;
  message.content += more.content;
  if (more.more.contains("reasoning_content")) {
    add_thought(message, more.more["reasoning_content"].get<std::string>());
  }
  if (!more.more.contains("tool_calls")) return;
  for (const OrderedJson& call : more.more["tool_calls"]) {
    message.more["tool_calls"].push_back(call);
  }
}

bool has_repeated_turns(std::span<const ChatMessage> messages) {
  return std::ranges::adjacent_find(messages, is_same_turn) != messages.end();
}

void join_turns(std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> joined;
  for (ChatMessage& message : messages) {
    if (!joined.empty() && is_same_turn(joined.back(), message)) {
      add_message(joined.back(), message, "\n\n");
    } else {
      joined.push_back(std::move(message));
    }
  }
  messages = std::move(joined);
}

void name_thoughts_twice(std::vector<ChatMessage>& messages) {
  for (ChatMessage& message : messages) {
    if (!message.more.contains("reasoning_content")) continue;
    if (message.more.contains("tool_calls") && !message.content.empty()) continue;
    message.more["thinking"] = message.more["reasoning_content"];
  }
}

std::string read_content(const std::string& path, const Json& content,
                         std::span<const std::string_view> types) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array() || content.size() > kMostParts) {
    refuse_field(path, fmt::format("a text or at most {} text parts", kMostParts), content);
  }
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    text += read_part(fmt::format("{}[{}]", path, i), content[i], types);
  }
  return text;
}

std::string read_part(const std::string& path, const Json& json,
                      std::span<const std::string_view> types) {
  if (!json.is_object()) refuse_field(path, "an object", json);
  const Fields part(json, path + ".");
  const auto type = part.text("type");
  if (!type || std::find(types.begin(), types.end(), *type) == types.end()) {
    part.refuse("type", fmt::format("{}", fmt::join(types, " or ")));
  }
  const std::string_view name = *type == kRefusal ? kRefusal : "text";
  const auto said = part.text(name);
  if (!said) part.refuse(name, "a text");
  return *said;
}

std::vector<ChatMessage> read_messages(const Fields& fields, const RequestLimits& limits) {
  const Json* list = fields.array("messages", static_cast<std::size_t>(limits.messages));
  if (!list || list->empty()) fields.refuse("messages", "an array of at least one message");
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = fields.path_of(fmt::format("messages[{}]", i));
    const Json& json = (*list)[i];
    ChatMessage message = is_silent(json) ? ChatMessage{"assistant", ""}
                                          : read_message(path, json, kRoles, kTextParts);
    const Fields of_message(json, path + ".");
    if (message.role == "tool") {
      messages.push_back(
          call_result(of_message.text("tool_call_id").value_or(""), std::move(message.content)));
      continue;
    }
    if (is_silent(json)) message.content = of_message.text("refusal").value_or("");
    messages.push_back(std::move(message));
    if (messages.back().role == "assistant") read_calls(of_message, messages);
  }
  return messages;
}

ChatRenderOptions read_render_options(const Fields& fields) {
  ChatRenderOptions options;
  options.add_generation_prompt = fields.flag("add_generation_prompt").value_or(true);
  options.continues_last = fields.flag("continue_final_message").value_or(false);
  if (options.continues_last && fields.flag("add_generation_prompt").value_or(false)) {
    fields.refuse("add_generation_prompt", "false beside continue_final_message");
  }
  if (fields.object("chat_template_kwargs")) {
    options.variables = *fields.find("chat_template_kwargs");
    for (const char* name : {"messages", "add_generation_prompt"}) {
      if (options.variables.contains(name)) {
        refuse_field(fmt::format("chat_template_kwargs.{}", name), "no such entry",
                     options.variables[name]);
      }
    }
  }
  if (!fields.text("chat_template").value_or("").empty()) {
    fields.refuse("chat_template", "none: the model has its own");
  }
  if (const Json* documents = fields.array("documents", 1024); documents && !documents->empty()) {
    fields.refuse("documents", "none: chat_template_kwargs may have them");
  }
  read_effort(fields, "reasoning_effort", options);
  read_verbosity(fields, options);
  return options;
}

void read_effort(const Fields& fields, const char* name, ChatRenderOptions& options) {
  constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                        "high", "xhigh",   "max"};
  const auto effort = read_word(fields, name, kEfforts);
  if (!effort) return;
  options.variables["reasoning_effort"] = *effort;
  if (*effort == "none") ask_to_think(false, options);
}

void read_verbosity(const Fields& fields, ChatRenderOptions& options) {
  constexpr std::array<std::string_view, 3> kVerbosities = {"low", "medium", "high"};
  const auto verbosity = read_word(fields, "verbosity", kVerbosities);
  if (verbosity) options.variables["verbosity"] = *verbosity;
}

void ask_to_think(bool thinks, ChatRenderOptions& options) {
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (!options.variables.contains(name)) options.variables[name] = thinks;
  }
}

}  // namespace talon
