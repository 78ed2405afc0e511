#include "engine_situation.h"

#include <fmt/format.h>

#include <algorithm>

#include "exactness.h"

namespace talon::fuzz {
namespace {

using Tokens = std::vector<TokenId>;

// Tokens that the stories model often says.
constexpr TokenId kUsual[] = {261, 413, 265, 282, 295, 433};
constexpr int kTexts = 4;
constexpr std::size_t kLongestPrompt = 511;  // one less than the context

TokenId random_token(Chooser& choose, int vocabulary) {
  if (choose.chance(0.5)) return kUsual[choose.below(std::size(kUsual))];
  return static_cast<TokenId>(choose.below(static_cast<std::size_t>(vocabulary)));
}

/// The beginning of `text`, of random length.
Tokens beginning(Chooser& choose, const Tokens& text) {
  return {text.begin(), text.begin() + static_cast<std::ptrdiff_t>(choose.below(text.size() + 1))};
}

// Small sizes are frequent and large ones rare, since a few large situations take most of the time.
std::vector<Tokens> make_texts(Chooser& choose, int vocabulary) {
  std::vector<Tokens> texts;
  for (int i = 0; i < kTexts; ++i) {
    Tokens text;
    if (i > 0 && choose.chance(0.7)) text = beginning(choose, choose.one_of(texts));
    const int length = choose.chance(0.8) ? choose.one_of({1, 3, 10, 20, 40, 63, 64, 65})
                                          : choose.one_of({127, 128, 129, 200});
    for (int left = length; left > 0; --left) {
      text.push_back(random_token(choose, vocabulary));
    }
    text.resize(std::min(text.size(), kLongestPrompt));
    texts.push_back(std::move(text));
  }
  return texts;
}

SamplerOptions make_sampler(Chooser& choose) {
  SamplerOptions sampler;
  if (choose.chance(0.6)) {
    sampler.temperature = choose.one_of({0.5, 1.0, 1.7});
    if (choose.chance(0.3)) sampler.top_k = 5;
    if (choose.chance(0.3)) sampler.top_p = 0.8;
    if (choose.chance(0.2)) sampler.min_p = 0.1;
    if (choose.chance(0.2)) sampler.typical_p = 0.5;
  }
  if (choose.chance(0.3)) {
    sampler.repetition_penalty = 1.2;
    sampler.penalty_window = choose.one_of({0, 5, 64});
  }
  if (choose.chance(0.2)) sampler.presence_penalty = 0.5;
  if (choose.chance(0.2)) sampler.frequency_penalty = 0.3;
  if (choose.chance(0.2)) sampler.banned = {261, 413};
  return sampler;
}

class AnswerMaker {
 public:
  AnswerMaker(Chooser& choose, int vocabulary, const PlainAnswer& plain)
      : choose_(choose),
        vocabulary_(vocabulary),
        plain_(plain),
        texts_(make_texts(choose, vocabulary)) {}

  void add_request(PlainAnswers& answers) {
    Request request;
    request.prompt = choose_.one_of(texts_);
    if (!answers.requests.empty() && choose_.chance(0.3)) continue_answer(answers, request);
    if (choose_.chance(0.1)) {
      request.prompt.resize(std::min(request.prompt.size(), 1 + choose_.below(70)));
    }
    request.max_new = choose_.chance(0.95) ? choose_.one_of({1, 2, 7, 30, 63, 64, 65})
                                           : choose_.one_of({120, 250, 400});
    request.seed = choose_.number();
    request.choice = static_cast<std::uint32_t>(choose_.below(3));
    request.sampler = make_sampler(choose_);
    if (choose_.chance(0.5)) request.end_tokens = {1, 13};
    request.reuse_prefix = choose_.chance(0.85);
    request.tenant = choose_.below(2);
    request.priority = static_cast<int>(choose_.below(2));
    answers.expected.push_back(plain_(request));
    answers.requests.push_back(std::move(request));
  }

 private:
  /// Asks on from somewhere in an earlier answer, as the next turn of a conversation does.
  void continue_answer(const PlainAnswers& answers, Request& request) {
    const std::size_t earlier = choose_.below(answers.requests.size());
    request.prompt = answers.requests[earlier].prompt;
    const Tokens more = beginning(choose_, answers.expected[earlier].tokens);
    request.prompt.insert(request.prompt.end(), more.begin(), more.end());
    if (choose_.chance(0.5)) request.prompt.push_back(random_token(choose_, vocabulary_));
    if (request.prompt.size() > kLongestPrompt) request.prompt.resize(kLongestPrompt);
  }

  Chooser& choose_;
  int vocabulary_;
  const PlainAnswer& plain_;
  std::vector<Tokens> texts_;
};

}  // namespace

std::string EngineSituation::describe() const {
  std::string text = fmt::format(
      "drafter {} of {} positions, policy {}, {} pages, chunk {}, {} nodes, {} rows, {} requests",
      drafter, draft_positions, options.policy, pages, options.chunk, options.max_nodes,
      options.max_rows, asked->requests.size());
  for (const Other& other : others) {
    text += fmt::format(", then drafter {}, policy {}", other.drafter, other.policy);
  }
  return text;
}

PlainAnswers make_answers(Chooser& choose, int vocabulary, const PlainAnswer& plain) {
  PlainAnswers answers;
  AnswerMaker maker(choose, vocabulary, plain);
  for (int left = choose.one_of({1, 2, 2, 3, 3, 4, 5, 8}); left > 0; --left) {
    maker.add_request(answers);
  }
  return answers;
}

EngineSituation make_situation(Chooser& choose, const std::vector<std::string>& drafters,
                               const PlainAnswers& asked) {
  static const std::vector<std::string> policies = test::all_policies();
  EngineSituation situation;
  situation.asked = &asked;
  situation.drafter = choose.one_of(drafters);
  situation.draft_positions = choose.one_of<std::size_t>({0, 0, 64, 200});
  situation.pages = choose.one_of({1, 2, 3, 5, 8, 12, 30});
  situation.options.policy = choose.one_of(policies);
  situation.options.chunk = choose.one_of({1, 2, 7, 63, 64, 65, 256});
  situation.options.max_nodes = choose.one_of({0, 1, 3, 7, 16, 64, 200});
  situation.options.max_rows = choose.one_of({1, 2, 5, 33, 70, 300});
  situation.options.step_ms = choose.one_of({0.0, 0.0, 0.3});
  for (std::size_t left = choose.below(3); left > 0; --left) {
    situation.others.push_back({choose.one_of(drafters), choose.one_of(policies)});
  }
  return situation;
}

}  // namespace talon::fuzz
