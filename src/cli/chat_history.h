#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/stop.h"
#include "core/types.h"
#include "text/prompt.h"

namespace talon {

/// The messages of a chat so far, and how they become a prompt.
class ChatHistory {
 public:
  ChatHistory(const Tokenizer& tokenizer, std::string system, int context);

  void set_system(std::string system);
  const std::string& system() const { return system_; }
  void reset() { turns_.clear(); }
  int turns() const { return static_cast<int>(turns_.size()); }

  /// Adds the user's next message.
  void ask(std::string message);
  /// Adds the answer to it, as text and as the tokens that followed the last prompt(); an empty one
  /// takes the message back.
  void answer(std::string message, std::span<const TokenId> tokens);

  struct Prompt {
    std::vector<TokenId> tokens;
    int dropped_turns = 0;  // oldest turns forgotten to make room
  };
  /// All of it as tokens, at most `room`: where it is longer the oldest turns (a question and its
  /// answer each) are forgotten. Throws Error if the newest message alone is too long, and once
  /// `stop` is requested; nothing is forgotten then.
  Prompt prompt(int room, const StopFlag& stop);

 private:
  ChatPrompts prompts_;
  std::string system_;
  std::vector<ChatMessage> turns_;  // user, assistant, user, ...
};

}  // namespace talon
