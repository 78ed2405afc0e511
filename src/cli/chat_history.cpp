#include "cli/chat_history.h"

#include <utility>

#include "cli/options/prompt_options.h"
#include "core/error.h"

namespace talon {

ChatHistory::ChatHistory(const Tokenizer& tokenizer, std::string system)
    : tokenizer_(tokenizer), template_(chat_template_of(tokenizer)), system_(std::move(system)) {}

void ChatHistory::set_system(std::string system) { system_ = std::move(system); }

void ChatHistory::ask(std::string message) { turns_.push_back({"user", std::move(message)}); }

void ChatHistory::answer(std::string message, std::span<const TokenId> tokens) {
  if (message.empty()) {
    turns_.pop_back();
    return;
  }
  if (!tokens.empty() && tokenizer_.decode(tokens) == message) {
    const bool has_end = tokenizer_.is_special(tokens.back());
    known_.text = prompt_.text + message + (has_end ? tokenizer_.bytes_of(tokens.back()) : "");
    known_.tokens = prompt_.tokens;
    known_.tokens.insert(known_.tokens.end(), tokens.begin(), tokens.end());
  }
  turns_.push_back({"assistant", std::move(message)});
}

void ChatHistory::render() {
  std::vector<ChatMessage> messages;
  if (!system_.empty()) messages.push_back({"system", system_});
  messages.insert(messages.end(), turns_.begin(), turns_.end());
  prompt_.text = template_.render(messages);
  if (!known_.text.empty() && prompt_.text.starts_with(known_.text)) {
    const auto rest = tokenizer_.encode(prompt_.text.substr(known_.text.size()),
                                        {.parse_special = true, .add_start = false});
    const auto is_special = [&](TokenId token) { return tokenizer_.is_special(token); };
    if (is_special(known_.tokens.back()) || (!rest.empty() && is_special(rest.front()))) {
      prompt_.tokens = known_.tokens;
      prompt_.tokens.insert(prompt_.tokens.end(), rest.begin(), rest.end());
      return;
    }
  }
  prompt_.tokens = encode_prompt(tokenizer_, prompt_.text);
}

ChatHistory::Prompt ChatHistory::prompt(int room) {
  int dropped_turns = 0;
  for (render(); static_cast<int>(prompt_.tokens.size()) > room; render()) {
    if (turns_.size() < 3) {
      fail(
          "the message has {} tokens with the chat's frame: expected at most {}, for an answer to "
          "fit into the context",
          prompt_.tokens.size(), room);
    }
    turns_.erase(turns_.begin(), turns_.begin() + 2);
    ++dropped_turns;
  }
  return {prompt_.tokens, dropped_turns};
}

}  // namespace talon
