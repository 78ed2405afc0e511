#include "engine_situation.h"

#include <fmt/format.h>

#include <algorithm>

namespace talon::fuzz {
namespace {

using Tokens = std::vector<TokenId>;

// Tokens that the stories model often says.
constexpr TokenId kUsual[] = {261, 413, 265, 282, 295, 433};
constexpr int kTexts = 4;

TokenId usual_token(const Askable& of, std::size_t index) {
  return static_cast<TokenId>(kUsual[index] % of.vocabulary);
}

TokenId random_token(Chooser& choose, const Askable& of) {
  if (choose.chance(0.5)) return usual_token(of, choose.below(std::size(kUsual)));
  return static_cast<TokenId>(choose.below(static_cast<std::size_t>(of.vocabulary)));
}

/// One less than the context.
std::size_t longest_prompt(const Askable& of) { return static_cast<std::size_t>(of.context) - 1; }

/// The beginning of `text`, of random length.
Tokens beginning(Chooser& choose, const Tokens& text) {
  return {text.begin(), text.begin() + static_cast<std::ptrdiff_t>(choose.below(text.size() + 1))};
}

// Small sizes are frequent and large ones rare, since a few large situations take most of the time.
std::vector<Tokens> make_texts(Chooser& choose, const Askable& of) {
  std::vector<Tokens> texts;
  for (int i = 0; i < kTexts; ++i) {
    Tokens text;
    if (i > 0 && choose.chance(0.7)) text = beginning(choose, choose.one_of(texts));
    const int length = choose.chance(0.8) ? choose.one_of({1, 3, 10, 20, 40, 63, 64, 65})
                                          : choose.one_of({127, 128, 129, 200});
    for (int left = length; left > 0; --left) {
      text.push_back(random_token(choose, of));
    }
    text.resize(std::min(text.size(), longest_prompt(of)));
    texts.push_back(std::move(text));
  }
  return texts;
}

SamplerOptions make_sampler(Chooser& choose, const Askable& of) {
  SamplerOptions sampler;
  if (choose.chance(0.6)) {
    sampler.temperature = choose.one_of({0.3, 0.7, 1.0, 1.5});
    if (choose.chance(0.3)) sampler.top_k = choose.one_of({1, 5, 40});
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
  if (choose.chance(0.2)) sampler.banned = {usual_token(of, 0), usual_token(of, 1)};
  if (choose.chance(0.2)) {
    sampler.logit_bias = {
        {usual_token(of, 2), 2.5F}, {13, -3.0F}, {random_token(choose, of), 1.0F}};
  }
  return sampler;
}

class AnswerMaker {
 public:
  AnswerMaker(Chooser& choose, const Askable& of, const PlainAnswer& plain)
      : choose_(choose), of_(of), plain_(plain), texts_(make_texts(choose, of)) {
    for (int i = 0; of.image && i < kTexts; ++i) prompts_.push_back(random_words());
  }

  void add_request(PlainAnswers& answers) {
    Request request;
    of_.image ? ask_for_picture(request) : ask_for_text(answers, request);
    request.seed = choose_.number();
    request.choice = static_cast<std::uint32_t>(choose_.below(3));
    request.sampler = make_sampler(choose_, of_);
    if (of_.image) request.sampler.repetition_penalty = 1;  // others are refused
    if (choose_.chance(0.5)) request.end_tokens = {1, 13};
    request.reuse_prefix = choose_.chance(0.85);
    request.tenant = choose_.below(2);
    request.priority = static_cast<int>(choose_.below(2));
    ask_for_more(request);
    FullAnswer answer = plain_(request);
    expect_some(answer, request);
    answers.expected.push_back(std::move(answer));
    answers.requests.push_back(std::move(request));
  }

 private:
  void ask_for_text(const PlainAnswers& answers, Request& request) {
    request.prompt = choose_.one_of(texts_);
    if (!answers.requests.empty() && choose_.chance(0.3)) continue_answer(answers, request);
    if (choose_.chance(0.1)) {
      request.prompt.resize(std::min(request.prompt.size(), 1 + choose_.below(70)));
    }
    request.max_new = choose_.chance(0.95) ? choose_.one_of({1, 2, 7, 30, 63, 64, 65})
                                           : choose_.one_of({120, 250, 400});
  }

  /// Mostly guided, some of them for a part.
  void ask_for_picture(Request& request) {
    request.prompt = choose_.one_of(prompts_);
    request.guide_prompt = choose_.one_of(prompts_);
    request.guidance = choose_.one_of({0.0F, 1.0F, 2.5F, 2.5F, 7.0F});
    request.guidance_tokens = choose_.one_of({0, 0, 1, 5, 40, 90});
    request.max_new = choose_.one_of({1, 7, 30, 65, of_.image->cells()});
  }

  Tokens random_words() {
    Tokens words;
    for (int i = 0; i < of_.image->prompt_tokens; ++i) {
      const auto others = static_cast<std::size_t>(of_.inputs - of_.vocabulary);
      words.push_back(of_.vocabulary + static_cast<TokenId>(choose_.below(others)));
    }
    return words;
  }

  /// Asks on from somewhere in an earlier answer, as the next turn of a conversation does.
  void continue_answer(const PlainAnswers& answers, Request& request) {
    const std::size_t earlier = choose_.below(answers.requests.size());
    request.prompt = answers.requests[earlier].prompt;
    const Tokens more = beginning(choose_, answers.expected[earlier].tokens);
    request.prompt.insert(request.prompt.end(), more.begin(), more.end());
    if (choose_.chance(0.5)) request.prompt.push_back(random_token(choose_, of_));
    request.prompt.resize(std::min(request.prompt.size(), longest_prompt(of_)));
  }

  void ask_for_more(Request& request) {
    static const std::vector<std::vector<std::string>> stops = {
        {"e"}, {" the", "."}, {"ab", "Lily", "\n"}, {std::string(30, 'a'), "a b"}};
    if (choose_.chance(0.2)) request.stop_texts = choose_.one_of(stops);
    if (choose_.chance(0.3)) request.logprobs = choose_.one_of({0, 1, 3});
    if (choose_.chance(0.15)) {
      request.min_new =
          static_cast<int>(1 + choose_.below(static_cast<std::size_t>(request.max_new)));
    }
    request.shows_special = choose_.chance(0.1);
    if (of_.constraints.empty() || !choose_.chance(0.2)) return;
    request.constraint = of_.constraints[choose_.below(of_.constraints.size())];
    request.max_new = std::min(request.max_new, 65);
    request.min_new = std::min(request.min_new, request.max_new);
  }

  /// A text that changes no token: drafts follow it where it is right.
  void expect_some(const FullAnswer& answer, Request& request) {
    if (!choose_.chance(0.15)) return;
    Tokens text = choose_.chance(0.6) ? answer.tokens : choose_.one_of(texts_);
    if (!text.empty() && choose_.chance(0.5)) {
      text[choose_.below(text.size())] = random_token(choose_, of_);
    }
    request.expected = std::make_shared<const Tokens>(std::move(text));
  }

  Chooser& choose_;
  const Askable& of_;
  const PlainAnswer& plain_;
  std::vector<Tokens> texts_;
  std::vector<Tokens> prompts_;  // of pictures
};

/// Mostly the one whose texts are plain decoding's at every temperature.
std::string make_rule(Chooser& choose) {
  static const std::vector<std::string> others = {"token", "block", "traversal", "typical",
                                                  "epsilon:e=0.2"};
  return choose.chance(0.7) ? "follow" : choose.one_of(others);
}

}  // namespace

void note(test::TestEngine& engine, const Progress& progress, FullAnswer& answer) {
  engine.note(progress, answer);
  answer.logprobs.insert(answer.logprobs.end(), progress.logprobs.begin(), progress.logprobs.end());
}

std::string EngineSituation::describe() const {
  std::string text = fmt::format(
      "drafter {} of {} positions, policy {}, rule {}, {} pages, {} near ones, {} states, chunk "
      "{}, {} nodes, {} rows, {} requests",
      first.drafter, draft_positions, first.policy, first.rule, pages, near_pages, state_slots,
      options.chunk, options.max_nodes, options.max_rows, asked->requests.size());
  for (const MethodText& other : others) {
    text += fmt::format(", then drafter {}, policy {}, rule {}", other.drafter, other.policy,
                        other.rule);
  }
  return text;
}

PlainAnswers make_answers(Chooser& choose, const Askable& of, const PlainAnswer& plain) {
  PlainAnswers answers;
  AnswerMaker maker(choose, of, plain);
  for (int left = choose.one_of({1, 2, 2, 3, 3, 4, 5, 8}); left > 0; --left) {
    maker.add_request(answers);
  }
  return answers;
}

EngineSituation make_situation(Chooser& choose, const MethodParts& parts,
                               const PlainAnswers& asked) {
  const auto make_method = [&] {
    EngineSituation::MethodText method;
    method.drafter = choose.one_of(parts.drafters);
    method.policy = choose.one_of(parts.policies);
    method.rule = make_rule(choose);
    return method;
  };
  EngineSituation situation;
  situation.asked = &asked;
  situation.first = make_method();
  situation.draft_positions = choose.one_of<std::size_t>({0, 0, 64, 200});
  situation.pages = choose.one_of({1, 2, 3, 5, 8, 12, 30});
  situation.near_pages = choose.one_of({0, 0, 5, 6, 8});
  situation.state_slots = choose.one_of({0, 2, 3, 6});
  situation.options.chunk = choose.one_of({1, 2, 7, 63, 64, 65, 256});
  situation.options.max_nodes = choose.one_of({0, 1, 3, 7, 16, 64, 200});
  situation.options.max_rows = choose.one_of({1, 2, 5, 33, 70, 300});
  situation.options.step_ms = choose.one_of({0.0, 0.0, 0.3});
  for (std::size_t left = choose.below(4); left > 0; --left) {
    situation.others.push_back(make_method());
  }
  return situation;
}

}  // namespace talon::fuzz
