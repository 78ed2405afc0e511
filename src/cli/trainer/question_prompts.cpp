#include "cli/trainer/question_prompts.h"

#include <algorithm>

#include "bench/spec/spec_questions.h"
#include "cli/options/prompt_options.h"
#include "core/error.h"
#include "train/data/prompt_file.h"

namespace talon {
namespace {

/// `limit` of `all` at most, evenly spread; 0: all.
template <typename T>
std::vector<T> some_of(const std::vector<T>& all, int limit) {
  const std::size_t most = limit > 0 ? static_cast<std::size_t>(limit) : all.size();
  const std::size_t count = std::min(all.size(), most);
  std::vector<T> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

}  // namespace

std::vector<std::vector<TokenId>> question_prompts(const LoadedModel& loaded,
                                                   const QuestionOptions& options) {
  const Tokenizer& tokenizer = loaded.require_tokenizer();
  const int room = loaded.model.config.context - options.max_new;
  const auto longest = static_cast<std::size_t>(std::max(0, room));
  PromptOptions chat;
  chat.chat = tokenizer.chat_template().has_value();
  std::vector<std::vector<TokenId>> prompts;
  for (const Question& question : some_of(read_questions(options.file), options.limit)) {
    std::vector<TokenId> prompt = encode_prompt(tokenizer, chat, question.turns.front());
    if (prompt.size() < longest) prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) {
    fail(
        "--questions {}: expected one that leaves room for an answer of {} tokens (-n) in a "
        "context "
        "of {}, found none",
        options.file, options.max_new, loaded.model.config.context);
  }
  return prompts;
}

std::vector<PicturePrompt> picture_prompts(const Model& target, const QuestionOptions& options) {
  std::vector<PicturePrompt> prompts;
  for (const Prompt& prompt : some_of(read_prompts(options.file), options.limit))
    prompts.push_back(text_prompt(target, nullptr, prompt.text));
  return prompts;
}

}  // namespace talon
