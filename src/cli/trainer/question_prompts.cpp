#include "cli/trainer/question_prompts.h"

#include <algorithm>

#include "bench/spec/spec_questions.h"
#include "cli/options/prompt_options.h"

namespace talon {

std::vector<std::vector<TokenId>> question_prompts(const LoadedModel& loaded,
                                                   const QuestionOptions& options) {
  const Tokenizer& tokenizer = loaded.require_tokenizer();
  const std::vector<Question> all = read_questions(options.file);
  const std::size_t most = options.limit > 0 ? static_cast<std::size_t>(options.limit) : all.size();
  const std::size_t count = std::min(all.size(), most);
  const int room = loaded.model.config.context - options.max_new;
  const auto longest = static_cast<std::size_t>(std::max(0, room));
  PromptOptions chat;
  chat.chat = tokenizer.chat_template().has_value();
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& turn = all[i * all.size() / count].turns.front();
    std::vector<TokenId> prompt = encode_prompt(tokenizer, chat, turn);
    if (prompt.size() < longest) prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace talon
