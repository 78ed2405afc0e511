#pragma once

#include <string>
#include <vector>

#include "core/types.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace talon {

/// The messages of a chat so far, and how they become a prompt.
class Conversation {
 public:
  Conversation(const Tokenizer& tokenizer, std::string system);

  void set_system(std::string system);
  const std::string& system() const { return system_; }
  void reset() { turns_.clear(); }
  int turns() const { return static_cast<int>(turns_.size()); }

  /// Adds the user's next message.
  void ask(std::string message);
  /// Adds the answer to it; an empty one takes the message back.
  void answer(std::string message);

  struct Prompt {
    std::vector<TokenId> tokens;
    int dropped_turns = 0;  // oldest turns forgotten to make room
  };
  /// All of it as tokens, at most `room`: where it is longer the oldest turns (a question and its
  /// answer each) are forgotten. Throws Error if the newest message alone is too long.
  Prompt prompt(int room);

 private:
  std::vector<TokenId> render() const;

  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  std::string system_;
  std::vector<ChatMessage> turns_;  // user, assistant, user, ...
};

}  // namespace talon
