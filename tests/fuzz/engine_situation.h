#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/test_model.h"

namespace talon::fuzz {

/// Small choices, the same for the same seed.
class Chooser {
 public:
  explicit Chooser(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool chance(double p) { return std::uniform_real_distribution<>()(random_) < p; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  template <typename T>
  const T& one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  std::uint64_t number() { return random_(); }

 private:
  std::mt19937_64 random_;
};

/// All that came of a request.
struct FullAnswer : test::Answer {
  std::vector<TokenLogprobs> logprobs;
};
void note(test::TestEngine& engine, const Progress& progress, FullAnswer& answer);

/// Requests and the answers to them: plain, alone, with plenty of room.
struct PlainAnswers {
  std::vector<Request> requests;
  std::vector<FullAnswer> expected;
};

/// What requests are made of.
struct Askable {
  int vocabulary = 0;
  int context = 0;
  std::span<const std::shared_ptr<const ConstraintSource>> constraints = {};
  /// Of a model that draws pictures of words, which are the tokens from `vocabulary` to `inputs`.
  std::optional<ImagePlan> image = {};
  int inputs = 0;
};

/// What methods are made of. The drafter "random": trees that often hold the right tokens.
struct MethodParts {
  std::vector<std::string> drafters = {};
  std::vector<std::string> policies = {};
};

/// An engine and what is asked of it.
struct EngineSituation {
  struct MethodText {
    std::string drafter = {}, policy = {}, rule = {};
  };
  MethodText first;
  std::vector<MethodText> others;   // methods that are added on the way
  std::size_t draft_positions = 0;  // room of heads with a cache of their own
  int pages = 1;
  int near_pages = 0;   // at most, of layers with a window; 0: as many as the cache usually has
  int state_slots = 0;  // of a model with states; 0: likewise
  test::TestOptions options;
  const PlainAnswers* asked = nullptr;

  std::string describe() const;
};

/// Answers one request by plain decoding.
using PlainAnswer = std::function<FullAnswer(const Request&)>;

/// Prompts share beginnings with each other and with earlier answers; their lengths lie around
/// those of pages. What is asked for is what one request may: samplers, stop texts, constraints,
/// log-probabilities, least lengths, texts that are expected.
PlainAnswers make_answers(Chooser& choose, const Askable& of, const PlainAnswer& plain);

/// An engine that is asked `asked`, which must outlive the situation.
EngineSituation make_situation(Chooser& choose, const MethodParts& parts,
                               const PlainAnswers& asked);

}  // namespace talon::fuzz
