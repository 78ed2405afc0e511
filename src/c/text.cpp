#include <algorithm>

#include "c/defaults.h"
#include "c/handles.h"
#include "c/structs.h"
#include "io/json_text.h"
#include "text/prompt.h"
#include "text/utf8.h"

namespace talon {
namespace {

SharedModel& model_of(const talon_model* model) {
  return *require_pointer(model, "model", "a model").shared;
}

struct TextOptions {
  bool parse_special, add_start, skip_special;
  ChatRenderOptions chat;
  OrderedJson entries;  // of messages; null: none
};

/// Templates print the keys of objects in the order in which they came.
OrderedJson read_json(const char* text, const char* argument) {
  try {
    parse_json(text, argument);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  return OrderedJson::parse(text);
}

OrderedJson read_variables(const char* text) {
  OrderedJson variables = read_json(text, "options->variables");
  require(variables.is_object(), "options->variables", "a JSON object", variables.type_name());
  for (const char* name : {"messages", "add_generation_prompt"}) {
    require(!variables.contains(name), fmt::format("options->variables.{}", name), "no such entry",
            "one");
  }
  return variables;
}

OrderedJson read_entries(const char* text) {
  OrderedJson entries = read_json(text, "options->message_entries");
  require(entries.is_array(), "options->message_entries", "a JSON array", entries.type_name());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string at = fmt::format("options->message_entries[{}]", i);
    require(entries[i].is_object(), at, "an object", entries[i].type_name());
    for (const char* name : {"role", "content"})
      require(!entries[i].contains(name), fmt::format("{}.{}", at, name), "no such entry", "one");
  }
  return entries;
}

TextOptions read_text_options(const talon_text_options* given) {
  const auto known = read_struct(given, default_text_options(), "options");
  TextOptions options;
  options.parse_special = require_flag(known.parse_special, "options->parse_special");
  options.add_start = require_flag(known.add_start, "options->add_start");
  options.skip_special = require_flag(known.skip_special, "options->skip_special");
  options.chat.add_generation_prompt =
      require_flag(known.add_generation_prompt, "options->add_generation_prompt");
  if (known.variables) options.chat.variables = read_variables(known.variables);
  if (known.message_entries) options.entries = read_entries(known.message_entries);
  return options;
}

std::vector<ChatMessage> read_messages(const talon_message* messages, std::size_t count,
                                       const TextOptions& options) {
  std::vector<ChatMessage> chat;
  for (const talon_message& message : require_array(messages, count, "messages")) {
    const std::string at = fmt::format("messages[{}]", chat.size());
    ChatMessage read;
    read.role = &require_pointer(message.role, at + ".role", "a text");
    read.content = &require_pointer(message.content, at + ".content", "a text");
    chat.push_back(std::move(read));
  }
  if (options.entries.is_null()) return chat;
  require(options.entries.size() == chat.size(), "options->message_entries",
          fmt::format("{} objects, one for each message", chat.size()).c_str(),
          options.entries.size());
  for (std::size_t i = 0; i < chat.size(); ++i) chat[i].more = options.entries[i];
  return chat;
}

const ChatTemplate& template_of(const SharedModel& shared, std::span<const ChatMessage> messages,
                                const ChatRenderOptions& options) {
  const auto has = [](const OrderedJson& object, const char* name) {
    return object.contains(name) && !object[name].empty();
  };
  const auto calls = [&](const ChatMessage& message) { return has(message.more, "tool_calls"); };
  const bool has_tools = has(options.variables, "tools") || std::ranges::any_of(messages, calls);
  if (has_tools && shared.tool_chat) return *shared.tool_chat;
  if (!shared.chat) throw Error(shared.chat_problem);
  return *shared.chat;
}

std::vector<TokenId> chat_tokens(const SharedModel& shared, std::span<const ChatMessage> messages,
                                 const ChatRenderOptions& options) {
  try {
    return encode_chat(shared.loaded.require_tokenizer(), template_of(shared, messages, options),
                       messages, options, shared.loaded.model.config.context)
        .tokens;
  } catch (const PromptTooLong& error) {
    throw StatusError(TALON_TOO_LONG, fmt::format("messages: {}", error.what()));
  }
}

}  // namespace
}  // namespace talon

using namespace talon;

talon_status talon_tokenize(const talon_model* model, const char* text, size_t bytes,
                            const talon_text_options* options, int32_t** tokens, size_t* count) {
  return guarded(__func__, [&] {
    give_nothing(tokens, count);
    const SharedModel& shared = model_of(model);
    const auto given = require_array(text, bytes, "text");
    require(bytes <= kMostTextBytes, "bytes", fmt::format("at most {}", kMostTextBytes).c_str(),
            bytes);
    const TextOptions known = read_text_options(options);
    give_tokens(shared.loaded.require_tokenizer().encode(
                    {given.data(), given.size()},
                    {.parse_special = known.parse_special, .add_start = known.add_start}),
                tokens, count);
  });
}

talon_status talon_detokenize(const talon_model* model, const int32_t* tokens, size_t count,
                              const talon_text_options* options, char** text, size_t* bytes) {
  return guarded(__func__, [&] {
    give_nothing(text, bytes);
    const SharedModel& shared = model_of(model);
    const auto ids = require_array(tokens, count, "tokens");
    const TextOptions known = read_text_options(options);
    const Tokenizer& tokenizer = shared.loaded.require_tokenizer();
    shared.check_tokens(ids, "tokens");
    give_text(replace_ill_formed(tokenizer.decode(ids, known.skip_special)), text, bytes);
  });
}

talon_status talon_token_bytes(const talon_model* model, int32_t token, char** text,
                               size_t* bytes) {
  return guarded(__func__, [&] {
    give_nothing(text, bytes);
    const SharedModel& shared = model_of(model);
    const Tokenizer& tokenizer = shared.loaded.require_tokenizer();
    const int vocabulary = shared.loaded.model.config.vocabulary;
    require(token >= 0 && token < vocabulary, "token",
            fmt::format("a token id from 0 to {}", vocabulary - 1).c_str(), token);
    give_text(tokenizer.bytes_of(token), text, bytes);
  });
}

talon_status talon_chat_text(const talon_model* model, const talon_message* messages,
                             size_t message_count, const talon_text_options* options, char** text,
                             size_t* bytes) {
  return guarded(__func__, [&] {
    give_nothing(text, bytes);
    const SharedModel& shared = model_of(model);
    const TextOptions known = read_text_options(options);
    const auto chat = read_messages(messages, message_count, known);
    give_text(template_of(shared, chat, known.chat).render(chat, known.chat), text, bytes);
  });
}

talon_status talon_chat_tokenize(const talon_model* model, const talon_message* messages,
                                 size_t message_count, const talon_text_options* options,
                                 int32_t** tokens, size_t* count) {
  return guarded(__func__, [&] {
    give_nothing(tokens, count);
    const SharedModel& shared = model_of(model);
    const TextOptions known = read_text_options(options);
    const auto chat = read_messages(messages, message_count, known);
    give_tokens(chat_tokens(shared, chat, known.chat), tokens, count);
  });
}
