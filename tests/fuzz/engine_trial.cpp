#include "engine_trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "compare_answers.h"
#include "draft/random_tree.h"
#include "draft/registry.h"
#include "io/quote.h"

namespace talon::fuzz {
namespace {

using test::TestEngine;

/// Hears what becomes text, and wants rows of the target; remembers some beginnings.
class Watch : public CommitListener {
 public:
  explicit Watch(Chooser& choose) : most_known_(choose.one_of<std::size_t>({0, 10, 100})) {}
  std::vector<FeatureTap> taps() const override { return {{1}}; }
  int remembers(std::span<const TokenId> text) override {
    return static_cast<int>(std::min(text.size(), most_known_));
  }
  void begin(SequenceId sequence, std::span<const TokenId> known) override {
    Heard& heard = heard_[sequence];
    heard.tokens.assign(known.begin(), known.end());
    heard.rows = std::max<std::size_t>(known.size(), 1) - 1;
  }
  void committed(SequenceId sequence, const CommittedTokens& committed) override {
    Heard& heard = heard_.at(sequence);
    heard.rows += static_cast<std::size_t>(committed.features.rows);
    heard.tokens.insert(heard.tokens.end(), committed.tokens.begin(), committed.tokens.end());
  }
  void end(SequenceId) override {}

  /// Whether it has heard this text, each token but the first with a row.
  bool has(SequenceId sequence, const std::vector<TokenId>& text) const {
    const auto heard = heard_.find(sequence);
    return heard != heard_.end() && heard->second.tokens == text &&
           heard->second.rows + 1 == text.size();
  }

 private:
  struct Heard {
    std::vector<TokenId> tokens;
    std::size_t rows = 0;
  };
  std::size_t most_known_;
  std::map<SequenceId, Heard> heard_;
};

/// Runs one situation, and notes the answers and what came of them.
class EngineTrial {
 public:
  EngineTrial(FuzzModel& model, const EngineSituation& situation, Chooser& choose)
      : situation_(situation),
        choose_(choose),
        model_(model),
        watch_(choose),
        rules_{make_verifier(situation.first.rule)},
        test_(model.model(), make(situation.first.drafter), options(), shape(), rules_[0]),
        asked_(situation.asked->requests.size()) {}

  std::optional<std::string> run() {
    constexpr int kMostSteps = 200'000;
    for (int steps = 0; next_ < asked_.size() || !test_.engine.idle(); ++steps) {
      if (steps == kMostSteps) return "the engine does not come to an end";
      if (rules_.size() <= situation_.others.size() && choose_.chance(0.1)) add_method();
      submit_some();
      if (!running_.empty() && choose_.chance(0.01)) cancel_one();
      for (const Progress& progress : test_.engine.step()) {
        note(test_, progress, asked_[running_.at(progress.sequence)].found);
      }
    }
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      if (auto wrong = asked_[i].taken ? difference(i) : std::nullopt) return wrong;
    }
    for (const auto& [sequence, i] : running_) {
      if (auto wrong = watches_ ? unheard(sequence, i) : std::nullopt) return wrong;
    }
    if (test_.cache.free_pages() == most_free_) return std::nullopt;
    return fmt::format("{} of {} pages are free at the end", test_.cache.free_pages(), most_free_);
  }

 private:
  /// What became of a request.
  struct Asked {
    FullAnswer found;
    std::size_t method = 0;
    bool cancelled = false, late = false, taken = false;
  };

  test::TestOptions options() {
    test::TestOptions result = situation_.options;
    result.policy = situation_.first.policy;
    result.tokenizer = &model_.tokenizer();
    watches_ = choose_.chance(0.5);
    if (watches_) result.listener = &watch_;
    return result;
  }

  KvShape shape() const {
    KvShape result = kv_shape(model_.model().model.config, situation_.pages);
    if (situation_.near_pages > 0) {
      result.near.pages = std::min(result.near.pages, situation_.near_pages);
    }
    if (situation_.state_slots > 0 && result.states.layers > 0) {
      result.states.slots = situation_.state_slots;
    }
    return result;
  }

  std::unique_ptr<Drafter> make(const std::string& drafter) const {
    if (drafter != "random") {
      return make_drafter(drafter, {.target = &model_.model().model,
                                    .cache_positions = situation_.draft_positions});
    }
    std::vector<std::vector<TokenId>> texts;
    for (std::size_t i = 0; i < situation_.asked->requests.size(); ++i) {
      texts.push_back(situation_.asked->requests[i].prompt);
      const std::vector<TokenId>& answer = situation_.asked->expected[i].tokens;
      texts.back().insert(texts.back().end(), answer.begin(), answer.end());
    }
    return make_random_tree_drafter(
        {.hit = 0.8, .probes = 0.2, .vocabulary = model_.model().vocabulary()}, texts);
  }

  void add_method() {
    const EngineSituation::MethodText& other = situation_.others[rules_.size() - 1];
    const PolicyContext context{model_.model().model.config.hidden};
    std::shared_ptr<const Verifier> rule = make_verifier(other.rule);
    test_.engine.add({make(other.drafter), make_policy(other.policy, context), rule});
    rules_.push_back(std::move(rule));
  }

  void submit_some() {
    while (next_ < asked_.size() && (test_.engine.idle() || choose_.chance(0.25))) {
      Request request = situation_.asked->requests[next_];
      Asked& asked = asked_[next_];
      asked.method = choose_.below(rules_.size());
      request.method = static_cast<MethodId>(asked.method);
      asked.late = choose_.chance(0.05);
      if (asked.late) {
        request.deadline =
            std::chrono::steady_clock::now() + std::chrono::milliseconds(choose_.below(20));
      }
      const auto result = test_.engine.submit(std::move(request));
      if (const auto* id = std::get_if<SequenceId>(&result)) {
        running_[*id] = next_;
        asked.taken = true;
      }
      ++next_;
    }
  }

  void cancel_one() {
    const auto chosen =
        std::next(running_.begin(), static_cast<std::ptrdiff_t>(choose_.below(running_.size())));
    test_.engine.cancel(chosen->first);
    asked_[chosen->second].cancelled = true;
  }

  /// Whether the answer was cut from outside, as it may have been; nothing: it was not.
  std::optional<bool> cut_rightly(std::size_t i) const {
    const Asked& asked = asked_[i];
    const Request& request = situation_.asked->requests[i];
    const std::size_t positions = request.prompt.size() + asked.found.tokens.size();
    switch (asked.found.finish) {
      case FinishReason::cancelled:
        return asked.cancelled;
      case FinishReason::deadline:
        return asked.late;
      case FinishReason::no_room:
        return positions ==
               static_cast<std::size_t>(situation_.pages / request.streams() * kPageRows);
      default:
        return std::nullopt;
    }
  }

  std::optional<std::string> difference(std::size_t i) const {
    const Request& request = situation_.asked->requests[i];
    const FullAnswer& found = asked_[i].found;
    const FullAnswer& expected = situation_.asked->expected[i];
    const Verifier& rule = *rules_[asked_[i].method];
    const auto cut = cut_rightly(i);
    std::string wrong;
    if (!is_exact(rule, request.sampler)) {
      wrong = what_is_wrong(request, found, model_.askable());
      if (wrong.empty() && cut == false) wrong = "an end without a reason";
    } else if (cut) {
      if (!*cut || !is_beginning(request, found, expected)) wrong = "another beginning";
    } else if (!is_same(request, found, expected, rule.drafts_may_know_noise())) {
      wrong = "another answer";
    }
    if (wrong.empty()) return std::nullopt;
    return fmt::format(
        "request {} of {} prompt tokens, rule {}: {}: expected {} {} {} {}, found {} {} {} {}", i,
        request.prompt.size(), rule.name(), wrong, expected.tokens, name_of(expected.finish),
        expected.error, quote(expected.text), found.tokens, name_of(found.finish), found.error,
        quote(found.text));
  }

  /// Of a sequence that began: one that ends while it waits is not heard of again.
  std::optional<std::string> unheard(SequenceId sequence, std::size_t i) const {
    const FullAnswer& answer = asked_[i].found;
    if (answer.finish == FinishReason::cancelled || answer.finish == FinishReason::deadline ||
        answer.finish == FinishReason::failed) {
      return std::nullopt;
    }
    std::vector<TokenId> text = situation_.asked->requests[i].prompt;
    text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
    if (watch_.has(sequence, text)) return std::nullopt;
    return fmt::format("request {}: the listener heard another text", i);
  }

  const EngineSituation& situation_;
  Chooser& choose_;
  FuzzModel& model_;
  Watch watch_;
  bool watches_ = false;
  std::vector<std::shared_ptr<const Verifier>> rules_;  // of the methods
  TestEngine test_;
  const int most_free_ = test_.cache.free_pages();
  std::vector<Asked> asked_;
  std::map<SequenceId, std::size_t> running_;
  std::size_t next_ = 0;
};

}  // namespace

std::optional<std::string> run_trial(FuzzModel& model, const EngineSituation& situation,
                                     Chooser& choose) {
  return EngineTrial(model, situation, choose).run();
}

}  // namespace talon::fuzz
