#include "serve/tools/tool_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "core/error.h"
#include "io/json_text.h"
#include "io/sha256.h"
#include "serve/tools/mark_search.h"

namespace talon {
namespace {

std::string text_of(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

constexpr std::size_t kMostEntries = 1024;  // of an object: keys are looked for one by one

bool has_few_entries(const Json& value) {
  if (value.is_object() && value.size() > kMostEntries) return false;
  return !value.is_structured() || std::ranges::all_of(value, has_few_entries);
}

/// Before what the user says first.
void put_before_user(std::vector<ChatMessage>& messages, const std::string& told) {
  const auto first = std::ranges::find(messages, "user", &ChatMessage::role);
  if (first == messages.end()) {
    messages.insert(messages.begin(), {"user", told});
  } else {
    first->content = told + "\n\n" + first->content;
  }
}

std::string short_call_id(const std::string& id) {
  constexpr std::size_t kSize = 9;
  const bool is_short =
      id.size() == kSize && std::ranges::all_of(id, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      });
  return is_short ? id : sha256_of(std::as_bytes(std::span(id))).substr(0, kSize);
}

void add_paragraph(std::string& text, const std::string& more) {
  text += (text.empty() ? "" : "\n") + more;
}

std::size_t call_count(const ChatMessage& message) {
  return message.more.contains("tool_calls") ? message.more["tool_calls"].size() : 0;
}

/// As Granite writes calls: a list behind its mark.
std::string spelled_list(const OrderedJson& calls) {
  OrderedJson list = OrderedJson::array();
  for (const OrderedJson& call : calls) list.push_back(call["function"]);
  return "<|tool_call|>" + text_of(list);
}

std::string spelled_tags(const OrderedJson& calls) {
  std::string text;
  for (const OrderedJson& call : calls) {
    add_paragraph(text, "<tool_call>\n" + text_of(call["function"]) + "\n</tool_call>");
  }
  return text;
}

/// As LFM2 writes calls: a list of what Python would call.
std::string spelled_python(const OrderedJson& calls) {
  const auto value_text = [](const OrderedJson& value) {
    if (value.is_boolean()) return std::string(value.get<bool>() ? "True" : "False");
    return value.is_null() ? "None" : text_of(value);
  };
  std::string list;
  for (const OrderedJson& call : calls) {
    const OrderedJson& arguments = call["function"]["arguments"];
    std::string inside;
    if (arguments.is_object()) {
      for (const auto& [key, value] : arguments.items()) {
        inside += (inside.empty() ? "" : ", ") + key + "=" + value_text(value);
      }
    }
    list += (list.empty() ? "" : ", ") + call["function"]["name"].get<std::string>() + "(" +
            inside + ")";
  }
  return "<|tool_call_start|>[" + list + "]<|tool_call_end|>";
}

/// A word that stands nowhere in a template; nine letters, so that Mistral's take it for an id.
constexpr const char* kProbe = "talonmark";
constexpr const char* kOtherId = "000000000";

/// if_refused: of a template that takes no such chat.
bool writes_probe(const ChatTemplate& chat, std::span<const ChatMessage> messages,
                  const ChatRenderOptions& options = {}, bool if_refused = false) {
  try {
    return chat.render(messages, options).find(kProbe) != std::string::npos;
  } catch (const BusyError&) {
    throw;
  } catch (const Error&) {
    return if_refused;
  }
}

ChatRenderOptions with_tool(const char* name) {
  ToolUse use;
  use.tools = {{name, name, {{"type", "object"}, {"properties", OrderedJson::object()}}}};
  ChatRenderOptions options;
  options.variables["tools"] = use.for_template();
  return options;
}

/// For templates that put the arguments of calls together with other texts, as Apertus'.
void tell_arguments_as_text(std::vector<ChatMessage>& messages) {
  for (ChatMessage& message : messages) {
    if (call_count(message) == 0) continue;
    for (OrderedJson& call : message.more["tool_calls"]) {
      OrderedJson& arguments = call["function"]["arguments"];
      if (!arguments.is_string()) arguments = text_of(arguments);
    }
  }
}

/// Whether a template writes the last of so many calls in a message. as_text: their arguments.
bool writes_calls(const ChatTemplate& chat, int count, bool if_refused, bool as_text = false) {
  std::vector<ChatMessage> messages = {{"user", "a"}, {"assistant", ""}};
  OrderedJson& calls = messages[1].more["tool_calls"];
  for (int i = 1; i < count; ++i) calls.push_back(call_for_template(kOtherId, "a", "{}"));
  calls.push_back(call_for_template(kProbe, kProbe, "{}"));
  if (as_text) tell_arguments_as_text(messages);
  return writes_probe(chat, messages, with_tool("a"), if_refused);
}

/// Whether a template looks for `tool_responses` in a message. Hunyuan's have a tag of that name.
bool reads_tool_responses(std::string_view source) {
  const std::string_view name = "tool_responses";
  std::size_t at = source.find(name);
  while (at != std::string_view::npos && at > 0 &&
         (source[at - 1] == '<' || source[at - 1] == '/')) {
    at = source.find(name, at + 1);
  }
  return at != std::string_view::npos;
}

/// Whether it writes the name of a result that is a message of its own; true of a template that
/// looks for results nowhere else.
bool takes_results(const ChatTemplate& chat) {
  if (!reads_tool_responses(chat.source())) return true;
  std::vector<ChatMessage> messages = {{"user", "a"}, {"assistant", ""}, {"tool", "b"}};
  messages[1].more["tool_calls"].push_back(call_for_template(kOtherId, "a", "{}"));
  messages[2].more["name"] = kProbe;
  return writes_probe(chat, messages, with_tool("a"), true);
}

}  // namespace

OrderedJson ToolUse::for_template() const {
  OrderedJson list = OrderedJson::array();
  for (const Tool& tool : tools) {
    list.push_back({{"type", "function"},
                    {"function",
                     {{"name", tool.name},
                      {"description", tool.description},
                      {"parameters", tool.parameters}}}});
  }
  return list;
}

OrderedJson object_in(const std::string& text) {
  if (trimmed(text).empty()) return OrderedJson::object();
  try {
    const Json json = parse_json(text, "arguments");
    if (json.is_object() && has_few_entries(json)) return OrderedJson::parse(text);
  } catch (const Error&) {  // a text like any other
  }
  return nullptr;
}

OrderedJson call_for_template(const std::string& id, const std::string& name,
                              const std::string& arguments) {
  OrderedJson json = object_in(arguments);
  if (json.is_null()) json = arguments;
  return {{"id", id},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", std::move(json)}}}};
}

void name_calls_by_ids(std::vector<ChatMessage>& messages) {
  std::map<std::string, std::string> renamed;
  int number = 0;
  for (ChatMessage& message : messages) {
    if (message.more.contains("tool_calls")) {
      for (OrderedJson& call : message.more["tool_calls"]) {
        const auto name = call["function"]["name"].get<std::string>();
        const std::string id = fmt::format("functions.{}:{}", name, number++);
        renamed[call["id"].get<std::string>()] = id;
        call["id"] = id;
      }
    }
    if (!message.more.contains("tool_call_id")) continue;
    const auto found = renamed.find(message.more["tool_call_id"].get<std::string>());
    if (found != renamed.end()) message.more["tool_call_id"] = found->second;
  }
}

void shorten_call_ids(std::vector<ChatMessage>& messages) {
  for (ChatMessage& message : messages) {
    const auto shorten = [](OrderedJson& id) { id = short_call_id(id.get<std::string>()); };
    if (message.more.contains("tool_calls")) {
      for (OrderedJson& call : message.more["tool_calls"]) shorten(call["id"]);
    }
    if (message.more.contains("tool_call_id")) shorten(message.more["tool_call_id"]);
  }
}

void spell_calls(std::vector<ChatMessage>& messages, ToolDialect dialect) {
  const auto spelled = dialect == ToolDialect::granite  ? spelled_list
                       : dialect == ToolDialect::lfm2   ? spelled_python
                       : dialect == ToolDialect::hermes ? spelled_tags
                                                        : nullptr;
  if (spelled == nullptr) return;
  for (ChatMessage& message : messages) {
    if (call_count(message) == 0) continue;
    add_paragraph(message.content, spelled(message.more["tool_calls"]));
    message.more.erase("tool_calls");
  }
}

void split_calls(std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> split;
  for (std::size_t i = 0; i < messages.size();) {
    ChatMessage message = std::move(messages[i++]);
    if (call_count(message) < 2) {
      split.push_back(std::move(message));
      continue;
    }
    const OrderedJson calls = std::exchange(message.more["tool_calls"], OrderedJson::array());
    std::multimap<std::string, ChatMessage> results;  // by the ids of calls, in their order
    for (; i < messages.size() && messages[i].role == "tool"; ++i) {
      const auto id = messages[i].more["tool_call_id"].get<std::string>();
      results.emplace(id, std::move(messages[i]));
    }
    for (const OrderedJson& call : calls) {
      message.more["tool_calls"].push_back(call);
      split.push_back(std::exchange(message, {"assistant", ""}));
      const auto id = call["id"].get<std::string>();
      const auto result = results.lower_bound(id);
      if (result == results.end() || result->first != id) continue;
      split.push_back(std::move(result->second));
      results.erase(result);
    }
    for (auto& [id, result] : results) split.push_back(std::move(result));  // of no call
  }
  messages = std::move(split);
}

void move_results(std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> moved;
  for (ChatMessage& message : messages) {
    const bool follows_call = !moved.empty() && call_count(moved.back()) > 0;
    const bool follows_results = follows_call && moved.back().more.contains("tool_responses");
    const bool has_calls = call_count(message) > 0;
    if (follows_call && message.role == "tool") {
      OrderedJson result;
      if (message.more.contains("name")) result["name"] = message.more["name"];
      result["response"] = std::move(message.content);
      moved.back().more["tool_responses"].push_back(std::move(result));
    } else if (follows_results && !has_calls && message.role == "assistant" &&
               moved.back().content.empty()) {
      moved.back().content = std::move(message.content);
    } else {
      if (has_calls && !message.content.empty()) {
        moved.push_back({"assistant", std::exchange(message.content, "")});
      }
      moved.push_back(std::move(message));
    }
  }
  messages = std::move(moved);
}

void fit_calls(const ChatTemplate& chat, std::vector<ChatMessage>& messages) {
  const ToolDialect dialect = dialect_of(chat.source());
  if (dialect == ToolDialect::kimi) name_calls_by_ids(messages);
  if (dialect == ToolDialect::mistral) shorten_call_ids(messages);
  std::size_t most = 0;
  for (const ChatMessage& message : messages) most = std::max(most, call_count(message));
  if (most == 0) return;
  const bool as_objects = writes_calls(chat, 1, false);
  const bool as_text = !as_objects && writes_calls(chat, 1, false, true);
  if (as_text) tell_arguments_as_text(messages);
  const bool leaves_out = !as_objects && !as_text && !writes_calls(chat, 1, true);
  if (leaves_out) return spell_calls(messages, dialect);
  if (most > 1 && !writes_calls(chat, 2, false, as_text)) split_calls(messages);
  if (!takes_results(chat)) move_results(messages);
}

bool writes_tools(const ChatTemplate& chat, bool with_system) {
  std::vector<ChatMessage> messages = {{"user", "a"}};
  if (with_system) messages.insert(messages.begin(), {"system", "a"});
  // One that refuses may look at tools more closely.
  return writes_probe(chat, messages, with_tool(kProbe), true);
}

bool takes_system(const ChatTemplate& chat) {
  const ChatMessage messages[] = {{"system", kProbe}, {"user", "a"}};
  return writes_probe(chat, messages);
}

bool takes_later_system(const ChatTemplate& chat) {
  const ChatMessage messages[] = {
      {"user", "a"}, {"system", kProbe}, {"assistant", "b"}, {"user", "c"}};
  return writes_probe(chat, messages);
}

bool takes_repeated_turns(const ChatTemplate& chat) {
  const ChatMessage messages[] = {{"user", "a"}, {"user", kProbe}};
  return writes_probe(chat, messages);
}

void tell_as_user(std::vector<ChatMessage>& messages, std::string_view role, std::size_t first) {
  std::vector<ChatMessage> told;
  bool joins = false;  // the next of the user with the last
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ChatMessage& message = messages[i];
    const bool is_told = i >= first && message.role == role;
    if (is_told) message.role = "user";
    const bool is_user = message.role == "user";
    const bool follows_user = is_user && !told.empty() && told.back().role == "user";
    if (follows_user && (joins || is_told)) {
      add_paragraph(told.back().content, message.content);
      joins = true;
    } else {
      told.push_back(std::move(message));
      joins = is_told;
    }
  }
  messages = std::move(told);
}

void spell_tools(std::vector<ChatMessage>& messages, const ToolUse& use, bool takes_system) {
  spell_calls(messages, ToolDialect::hermes);
  for (ChatMessage& message : messages) {
    if (message.role != "tool") continue;
    message.content = "<tool_response>\n" + message.content + "\n</tool_response>";
    message.more = {};
  }
  tell_as_user(messages, "tool");
  if (!use.is_offered()) return;
  std::string told = "You can call functions. They are, as JSON, one a line:\n";
  for (const OrderedJson& tool : use.for_template()) told += text_of(tool["function"]) + "\n";
  told +=
      "To call one, answer with\n<tool_call>\n{\"name\": \"its name\", \"arguments\": {...}}\n"
      "</tool_call>";
  if (!takes_system) return put_before_user(messages, told);
  if (messages.empty() || messages.front().role != "system") {
    messages.insert(messages.begin(), {"system", ""});
  }
  add_paragraph(messages.front().content, told);
}

}  // namespace talon
