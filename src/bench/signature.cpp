#include "bench/signature.h"

#include <array>
#include <map>
#include <string_view>

#include "core/error.h"
#include "text/prompt.h"

namespace talon {
namespace {

constexpr std::array<std::string_view, 4> kPrompts = {
    "Once upon a time, there was a little girl named Lily.",
    "Tom and his dog went to the park. The dog saw a big red ball. The dog",
    "One day, a boy found a box. In the box was a toy car. The boy took the box",
    "The sun was hot. The cat was hot. The bird was hot. The",
};
constexpr std::array<std::string_view, 2> kDrafters = {"none", "ngram"};
constexpr std::array<double, 2> kTemperatures = {0, 0.8};
constexpr int kMaxNew = 48;

/// FNV-1a over 32-bit numbers, byte by byte.
class Hash {
 public:
  void add(std::uint32_t number) {
    for (int byte = 0; byte < 4; ++byte) {
      value_ = (value_ ^ ((number >> (8 * byte)) & 0xffu)) * 16777619u;
    }
  }
  void add(const std::vector<int>& numbers) {
    add(static_cast<std::uint32_t>(numbers.size()));
    for (const int number : numbers) add(static_cast<std::uint32_t>(number));
  }
  std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_ = 2166136261u;
};

Request request_for(const Tokenizer& tokenizer, std::string_view prompt, double temperature) {
  Request request;
  request.prompt = encode_prompt(tokenizer, prompt, 0, /*parse_special=*/false);
  request.max_new = kMaxNew;
  request.sampler.temperature = temperature;
  request.reuse_prefix = false;
  request.end_tokens = tokenizer.end_tokens();
  return request;
}

}  // namespace

std::uint32_t engine_signature(const Model& model, KvCache& cache, const Tokenizer& tokenizer) {
  Hash hash;
  std::map<std::pair<std::string_view, double>, std::vector<TokenId>> plain;
  for (const std::string_view drafter : kDrafters) {
    DecodeSettings settings;
    settings.drafter = drafter;
    settings.policy = "fixed";
    Answerer answerer(model, cache, &tokenizer, settings);
    for (const double temperature : kTemperatures) {
      for (const std::string_view prompt : kPrompts) {
        const Answer answer = answerer.decode(request_for(tokenizer, prompt, temperature));
        const auto [first, is_first] = plain.try_emplace({prompt, temperature}, answer.tokens);
        if (!is_first && first->second != answer.tokens) {
          fail("bench signature: drafter \"{}\" changed the answer to \"{}\" at temperature {}",
               drafter, prompt, temperature);
        }
        hash.add(answer.tokens);
        hash.add(answer.statistics.accepted);
      }
    }
  }
  return hash.value();
}

std::string signature_text(std::uint32_t signature) { return fmt::format("{:08x}", signature); }

}  // namespace talon
