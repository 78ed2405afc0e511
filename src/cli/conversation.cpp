#include "cli/conversation.h"

#include <utility>

#include "cli/prompt_options.h"
#include "core/error.h"

namespace talon {

Conversation::Conversation(const Tokenizer& tokenizer, std::string system)
    : tokenizer_(tokenizer), template_(chat_template_of(tokenizer)), system_(std::move(system)) {}

void Conversation::set_system(std::string system) { system_ = std::move(system); }

void Conversation::ask(std::string message) { turns_.push_back({"user", std::move(message)}); }

void Conversation::answer(std::string message) {
  if (message.empty()) {
    turns_.pop_back();
  } else {
    turns_.push_back({"assistant", std::move(message)});
  }
}

std::vector<TokenId> Conversation::render() const {
  std::vector<ChatMessage> messages;
  if (!system_.empty()) messages.push_back({"system", system_});
  messages.insert(messages.end(), turns_.begin(), turns_.end());
  return encode_prompt(tokenizer_, template_.render(messages));
}

Conversation::Prompt Conversation::prompt(int room) {
  Prompt prompt{render(), 0};
  while (static_cast<int>(prompt.tokens.size()) > room) {
    if (turns_.size() < 3) {
      fail(
          "the message has {} tokens with the chat's frame: expected at most {}, for an answer to "
          "fit into the context",
          prompt.tokens.size(), room);
    }
    turns_.erase(turns_.begin(), turns_.begin() + 2);
    ++prompt.dropped_turns;
    prompt.tokens = render();
  }
  return prompt;
}

}  // namespace talon
