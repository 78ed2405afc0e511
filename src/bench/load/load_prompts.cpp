#include "bench/load/load_prompts.h"

#include <algorithm>
#include <random>

#include "core/error.h"
#include "text/prompt.h"

namespace talon {

LoadPrompts::LoadPrompts(const Tokenizer& tokenizer, const ChatTemplate* chat,
                         std::span<const Question> questions, LoadPromptSettings settings)
    : tokenizer_(tokenizer), chat_(chat), settings_(settings) {
  for (const Question& question : questions) {
    const std::string& text = question.turns.front();
    const auto tokens = static_cast<int>(made_of(text, 0).tokens.size());
    if (tokens <= settings_.max_prompt) texts_.push_back({text, tokens});
  }
  if (texts_.empty()) {
    fail("questions: expected one of at most {} tokens, found none", settings_.max_prompt);
  }
  std::mt19937_64 random(settings_.seed);
  for (std::size_t i = texts_.size(); i > 1; --i) std::swap(texts_[i - 1], texts_[random() % i]);
}

LoadPrompt LoadPrompts::made_of(const std::string& text, int number) const {
  LoadPrompt prompt;
  prompt.text = text;
  if (chat_) {
    prompt.tokens = encode_chat(tokenizer_, *chat_, std::vector{ChatMessage{"user", text}}).tokens;
  } else {
    prompt.tokens = encode_prompt(tokenizer_, text);
  }
  std::mt19937_64 random(settings_.seed * 1'000'003 + static_cast<std::uint64_t>(number));
  const int least = std::max(1, settings_.max_new / 2);
  prompt.max_new =
      least +
      static_cast<int>(random() % static_cast<std::uint64_t>(settings_.max_new - least + 1));
  prompt.seed = random() >> 32;
  return prompt;
}

LoadPrompt LoadPrompts::at(int number) const {
  const auto place = static_cast<std::size_t>(number);
  const std::string& text = texts_[place % texts_.size()].text;
  const std::size_t pass = place / texts_.size();
  return made_of(pass == 0 ? text : fmt::format("{}. {}", pass + 1, text), number);
}

LoadPrompt LoadPrompts::long_at(int number, int tokens) const {
  expects(tokens >= kLeastLongPrompt, "a long prompt has room for its end");
  std::string text = fmt::format("Sum up part {}:", number + 1);
  std::size_t place = static_cast<std::size_t>(number) * 7;
  for (int so_far = 0; so_far < tokens;) {
    const Text& next = texts_[place++ % texts_.size()];
    text += "\n" + next.text;
    so_far += next.tokens;
  }
  LoadPrompt prompt = made_of(text, number);
  const auto most = static_cast<std::size_t>(tokens);
  if (prompt.tokens.size() > most) {
    // Its end asks for the answer.
    constexpr std::ptrdiff_t kEnd = 32;
    const auto cut =
        prompt.tokens.end() - kEnd - static_cast<std::ptrdiff_t>(prompt.tokens.size() - most);
    prompt.tokens.erase(cut, prompt.tokens.end() - kEnd);
  }
  return prompt;
}

}  // namespace talon
