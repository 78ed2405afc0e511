#include "models.h"

#include <fstream>

#include "io/json.h"
#include "text/tokenizer.h"

namespace talon::test {

std::vector<std::vector<TokenId>> story_prompts() {
  const Tokenizer tokenizer = Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  std::vector<std::vector<TokenId>> prompts = {{1}};
  for (const char* text :
       {"Once upon a time, there was a little girl named Lily.",
        "The cat sat on the mat. The dog sat on the mat. The cat sat on the mat. The dog sat on",
        "Tom and Sam went to the park. Tom and Sam saw a big ball. Tom said, \"Let's play with the "
        "ball!\" Sam said, "
        "\"Yes, let's play with the big ball!\" Tom and Sam played with the ball. Then Tom and "
        "Sam"}) {
    prompts.push_back(tokenizer.encode(text));
    prompts.back().insert(prompts.back().begin(), 1);
  }
  return prompts;
}

std::vector<std::vector<TokenId>> question_prompts(const std::filesystem::path& model,
                                                   std::size_t count, std::size_t longest) {
  const Tokenizer tokenizer = Tokenizer::for_checkpoint(open_checkpoint(model));
  std::ifstream file(TALON_TEST_DATA "/spec_bench_dev.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i < count; ++i) {  // spread over the file, which is sorted by category
    const Json question = Json::parse(lines.at(i * lines.size() / count));
    prompts.push_back(tokenizer.encode(question.at("turns").at(0).get<std::string>()));
    if (prompts.back().size() > longest) prompts.back().resize(longest);
  }
  return prompts;
}

}  // namespace talon::test
