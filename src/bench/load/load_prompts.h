#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/spec/spec_questions.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace talon {

/// A question as it is sent.
struct LoadPrompt {
  std::string text;
  std::vector<TokenId> tokens;
  int max_new = 0;
  std::uint64_t seed = 0;
};

constexpr int kLeastLongPrompt = 64;  // tokens

struct LoadPromptSettings {
  int max_new = 128;      // answers get from half of it to all of it
  int max_prompt = 1024;  // tokens; longer questions are left out
  std::uint64_t seed = 1;
};

/// Prompts by number, each another text: servers that remember prefixes, and drafters that copy
/// from earlier texts, gain nothing by one that came before. Questions come in an order of the
/// seed; once all have been asked they get a number in front. Borrows the tokenizer and the
/// template, which may be null. May be asked from several threads.
class LoadPrompts {
 public:
  /// Throws Error if no question is short enough.
  LoadPrompts(const Tokenizer& tokenizer, const ChatTemplate* chat,
              std::span<const Question> questions, LoadPromptSettings settings);

  LoadPrompt at(int number) const;
  /// Questions one after the other, of at most and about so many tokens where ids are sent.
  /// tokens: at least kLeastLongPrompt.
  LoadPrompt long_at(int number, int tokens) const;

 private:
  LoadPrompt made_of(const std::string& text, int number) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  LoadPromptSettings settings_;
  struct Text {
    std::string text;
    int tokens = 0;
  };
  std::vector<Text> texts_;
};

}  // namespace talon
