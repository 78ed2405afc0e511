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
};

TextOptions read_text_options(const talon_text_options* given) {
  const auto known = read_struct(given, default_text_options(), "options");
  TextOptions options;
  options.parse_special = require_flag(known.parse_special, "options->parse_special");
  options.add_start = require_flag(known.add_start, "options->add_start");
  options.skip_special = require_flag(known.skip_special, "options->skip_special");
  options.chat.add_generation_prompt =
      require_flag(known.add_generation_prompt, "options->add_generation_prompt");
  if (!known.variables) return options;
  options.chat.variables = parse_json(known.variables, "options->variables");
  require(options.chat.variables.is_object(), "options->variables", "a JSON object",
          options.chat.variables.type_name());
  return options;
}

std::vector<ChatMessage> read_messages(const talon_message* messages, std::size_t count) {
  std::vector<ChatMessage> chat;
  for (const talon_message& message : require_array(messages, count, "messages")) {
    const std::string at = fmt::format("messages[{}]", chat.size());
    ChatMessage read;
    read.role = &require_pointer(message.role, at + ".role", "a text");
    read.content = &require_pointer(message.content, at + ".content", "a text");
    chat.push_back(std::move(read));
  }
  return chat;
}

const ChatTemplate& template_of(const SharedModel& shared) {
  if (!shared.chat) throw Error(shared.chat_problem);
  return *shared.chat;
}

std::vector<TokenId> chat_tokens(const SharedModel& shared, std::span<const ChatMessage> messages,
                                 const ChatRenderOptions& options) {
  try {
    return encode_chat(shared.loaded.require_tokenizer(), template_of(shared), messages, options,
                       shared.loaded.model.config.context)
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
    const SharedModel& shared = model_of(model);
    const auto given = require_array(text, bytes, "text");
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
    const SharedModel& shared = model_of(model);
    const auto chat = read_messages(messages, message_count);
    const TextOptions known = read_text_options(options);
    give_text(template_of(shared).render(chat, known.chat), text, bytes);
  });
}

talon_status talon_chat_tokenize(const talon_model* model, const talon_message* messages,
                                 size_t message_count, const talon_text_options* options,
                                 int32_t** tokens, size_t* count) {
  return guarded(__func__, [&] {
    const SharedModel& shared = model_of(model);
    const auto chat = read_messages(messages, message_count);
    give_tokens(chat_tokens(shared, chat, read_text_options(options).chat), tokens, count);
  });
}
