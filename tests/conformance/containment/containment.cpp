#include "containment.h"

#include <algorithm>

#include "draft/random_tree.h"
#include "draft/registry.h"
#include "faulty_parts.h"

namespace talon::test {
namespace {

constexpr int kMostSteps = 400;
constexpr SequenceId kNoSequence = -1;

std::vector<Request> first_requests() {
  constexpr std::size_t kTokens = kPageRows + 6;
  std::vector<Request> requests = {
      asking(long_prompt(kTokens, {403, 407}), 5), asking(long_prompt(kTokens, {261, 378, 300}), 4),
      asking({1, 403, 407}, 6, 0.8), asking(long_prompt(kTokens, {403, 407}), 6)};
  requests[2].stop_texts = {"no such text"};
  return requests;
}

/// A request for which there is no memory is one that failed.
SequenceId submit(Engine& engine, Request request, Answer& answer) {
  try {
    const FaultyAllocations scope;
    return std::get<SequenceId>(engine.submit(std::move(request)));
  } catch (const std::bad_alloc& error) {
    answer.finish = FinishReason::failed;
    answer.error = error.what();
    return kNoSequence;
  }
}

}  // namespace

const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  return tokenizer;
}

std::vector<TokenId> long_prompt(std::size_t tokens, std::initializer_list<TokenId> end) {
  std::vector<TokenId> prompt = {1};
  while (prompt.size() < tokens) {
    prompt.push_back(static_cast<TokenId>(260 + (prompt.size() * prompt.size() * 7) % 240));
  }
  prompt.insert(prompt.end(), end);
  return prompt;
}

Request asking(std::vector<TokenId> prompt, int max_new, double temperature) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_new = max_new;
  request.sampler.temperature = temperature;
  request.seed = 7;
  return request;
}

Containment::Containment(const std::filesystem::path& model) : path_(model) {
  load(1);
  if (!model_->model.config.image) ask(first_requests());
}

void Containment::load(int threads) {
  auto faulty = std::make_unique<FaultyBackend>(cpu_backend(threads));
  backend_ = faulty.get();
  model_ = std::make_unique<TestModel>(path_, std::move(faulty));
}

void Containment::ask(std::vector<Request> requests) {
  requests_ = std::move(requests);
  plain_.clear();
  later_.clear();
  plain_later_.clear();
  const bool are_pictures = model_->model.config.image.has_value();
  for (Request& request : requests_) {
    if (!are_pictures) {
      for (TokenId& token : request.prompt) token %= model_->vocabulary();
    }
    plain_.push_back(answer_plainly(request));
  }
  if (are_pictures) {
    later_ = requests_;
    plain_later_ = plain_;
    return;
  }
  // Later prompts begin with the earlier ones and the beginnings of their answers.
  for (const std::size_t i : {0, 1}) {
    for (const std::size_t known : {1, 3}) {
      std::vector<TokenId> prompt = requests_[i].prompt;
      prompt.insert(prompt.end(), plain_[i].tokens.begin(),
                    plain_[i].tokens.begin() + static_cast<std::ptrdiff_t>(known));
      later_.push_back(asking(std::move(prompt), 3));
      plain_later_.push_back(answer_plainly(later_.back()));
    }
  }
}

void Containment::constrain(const std::shared_ptr<const ConstraintSource>& grammar) {
  std::vector<Request> requests = requests_;
  for (std::size_t i = 0; i < requests.size(); i += 2) requests[i].constraint = grammar;
  ask(std::move(requests));
}

Answer Containment::answer_plainly(Request request) {
  request.reuse_prefix = false;
  TestOptions options;
  options.tokenizer = &small_tokenizer();
  return TestEngine(*model_, make_drafter("none", {}), options).run(request);
}

std::unique_ptr<Drafter> Containment::make(const Setting& setting) {
  if (setting.drafter.starts_with("unknown")) {
    return std::make_unique<UnknownTokens>(model_->vocabulary(), setting.drafter != "unknown");
  }
  if (setting.drafter != "knowing") {
    return make_drafter(setting.drafter, DrafterContext{&model_->model});
  }
  std::vector<std::vector<TokenId>> texts;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    texts.push_back(requests_[i].prompt);
    texts.back().insert(texts.back().end(), plain_[i].tokens.begin(), plain_[i].tokens.end());
  }
  return make_random_tree_drafter({.hit = 0.8, .vocabulary = model_->vocabulary()},
                                  std::move(texts));
}

void Containment::sweep(const Setting& setting, Trigger& trigger, bool lasts) {
  int at = 1;
  while (!HasFailure() && run(setting, trigger, at, lasts)) ++at;
  EXPECT_GT(at, 5) << "hardly a call to fail";
  RecordProperty("faults", at - 1);
}

bool Containment::has_grammar() const {
  return std::ranges::any_of(requests_,
                             [](const Request& request) { return request.constraint != nullptr; });
}

void Containment::expect_answer(const Answer& answer, std::size_t i) const {
  const Answer& plain = plain_[i];
  if (answer.finish == FinishReason::failed) {
    EXPECT_TRUE(may_fail_ && (backend_may_fail_ || !has_grammar() || requests_[i].constraint))
        << answer.error;
    EXPECT_FALSE(answer.error.empty());
    ASSERT_LE(answer.tokens.size(), plain.tokens.size());
    EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), plain.tokens.begin()));
    EXPECT_TRUE(plain.text.starts_with(answer.text)) << answer.text;
    return;
  }
  EXPECT_EQ(answer.finish, plain.finish);
  EXPECT_EQ(answer.tokens, plain.tokens);
  EXPECT_EQ(answer.text, plain.text);
}

void Containment::expect_later(Engine& engine, std::size_t first) const {
  for (std::size_t i = first; i < later_.size(); i += 2) {
    const SequenceId id = std::get<SequenceId>(engine.submit(later_[i]));
    std::vector<TokenId> tokens;
    while (!engine.idle()) {
      for (const Progress& progress : engine.step()) {
        EXPECT_EQ(progress.sequence, id);
        tokens.insert(tokens.end(), progress.tokens.begin(), progress.tokens.end());
      }
    }
    EXPECT_EQ(tokens, plain_later_[i].tokens);
  }
}

/// Of the requests, three of them together at first.
std::vector<Answer> Containment::answers_of(TestEngine& test, MethodId method) {
  std::vector<Answer> answers(requests_.size());
  std::vector<SequenceId> ids;
  int step = 0;
  for (; step < kMostSteps && (ids.size() < requests_.size() || !test.engine.idle()); ++step) {
    if (ids.size() < requests_.size() && (ids.size() < 3 || step >= 8)) {
      Request request = requests_[ids.size()];
      request.method = method;
      ids.push_back(submit(test.engine, std::move(request), answers[ids.size()]));
    }
    std::span<const Progress> news;
    try {
      const FaultyAllocations scope;
      news = test.engine.step();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "step threw: " << error.what();
      break;
    }
    for (const Progress& progress : news) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == progress.sequence) test.note(progress, answers[i]);
      }
    }
  }
  EXPECT_LT(step, kMostSteps);
  return answers;
}

bool Containment::run(const Setting& setting, Trigger& trigger, long at, bool lasts) {
  SCOPED_TRACE(fmt::format("{}, {}, {}, fault {}{}", setting.drafter, setting.policy, setting.rule,
                           at, lasts ? " and all after it" : ""));
  TestOptions options;
  options.chunk = chunk_;
  options.max_rows = chunk_ + 16;
  options.max_nodes = 12;
  options.policy = setting.policy;
  options.tokenizer = tokenizer_;
  options.observer = observer_;
  options.listener = listener_;
  options.timekeeper = timekeeper_;
  std::unique_ptr<Drafter> drafter = make(setting);
  if (faulty_drafter_) drafter = std::make_unique<FaultyDrafter>(std::move(drafter), trigger);
  std::unique_ptr<Verifier> rule = make_verifier(setting.rule);
  if (faulty_rule_) rule = std::make_unique<FaultyRule>(std::move(rule), trigger);
  TestEngine test(*model_, std::move(drafter), options, pages_, std::move(rule));
  MethodId method = 0;
  if (faulty_policy_) {
    auto policy = std::make_shared<FaultyPolicy>(make_policy(setting.policy), trigger);
    method = test.engine.add({test.drafter, std::move(policy), make_verifier(setting.rule)});
  }

  trigger.arm(at, lasts);
  const std::vector<Answer> answers = answers_of(test, method);
  const bool fired = trigger.fired;
  trigger.arm(0, false);
  EXPECT_TRUE(test.engine.idle());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    expect_answer(answers[i], i);
    preemptions_ += answers[i].statistics.preemptions;
  }
  EXPECT_TRUE(backend_may_fail_ || test.engine.statistics().throws.backend == 0);
  EXPECT_EQ(test.cache.free_pages(), test.cache.total_pages());
  expect_later(test.engine, 0);
  Engine another(model_->model, test.cache, {});
  another.add({make_drafter("none", {}), make_policy("fixed"), make_verifier("follow")});
  expect_later(another, 1);
  return fired;
}

}  // namespace talon::test
