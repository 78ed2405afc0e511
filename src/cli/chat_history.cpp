#include "cli/chat_history.h"

#include <utility>

#include "cli/options/prompt_options.h"
#include "core/error.h"

namespace talon {

ChatHistory::ChatHistory(const Tokenizer& tokenizer, std::string system, int context)
    : prompts_(tokenizer, context), system_(std::move(system)) {}

void ChatHistory::set_system(std::string system) { system_ = std::move(system); }

void ChatHistory::ask(std::string message) { turns_.push_back({"user", std::move(message)}); }

void ChatHistory::answer(std::string message, std::span<const TokenId> tokens) {
  if (message.empty()) {
    turns_.pop_back();
    return;
  }
  prompts_.answered(message, tokens);
  turns_.push_back({"assistant", std::move(message)});
}

ChatHistory::Prompt ChatHistory::prompt(int room, const StopFlag& stop) {
  for (int dropped_turns = 0;; ++dropped_turns) {
    if (stop.requested()) fail("stopped before the answer began");
    const auto first = turns_.begin() + 2 * dropped_turns;
    std::vector<ChatMessage> messages;
    if (!system_.empty()) messages.push_back({"system", system_});
    messages.insert(messages.end(), first, turns_.end());
    const ChatPrompt& prompt = prompts_.next(messages);
    if (!prompt.is_too_long && static_cast<int>(prompt.tokens.size()) <= room) {
      turns_.erase(turns_.begin(), first);
      return {prompt.tokens, dropped_turns};
    }
    if (turns_.end() - first < 3) {
      fail(
          "the message has {} with the chat's frame: expected at most {} tokens, for an answer to "
          "fit into context and cache",
          prompt.is_too_long ? std::string("too many bytes")
                             : fmt::format("{} tokens", prompt.tokens.size()),
          room);
    }
  }
}

}  // namespace talon
