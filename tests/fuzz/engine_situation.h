#pragma once

#include <cstdint>
#include <functional>
#include <random>
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

/// Requests and the answers to them: plain, alone, with plenty of room.
struct PlainAnswers {
  std::vector<Request> requests;
  std::vector<test::Answer> expected;
};

/// An engine and what is asked of it.
struct EngineSituation {
  std::string drafter;  // of the table, or "random": trees that often hold the right tokens
  std::size_t draft_positions = 0;  // room of heads with a cache of their own
  int pages = 1;
  test::TestOptions options;
  struct Other {
    std::string drafter, policy;
  };
  std::vector<Other> others;  // methods that are added on the way
  const PlainAnswers* asked = nullptr;

  std::string describe() const;
};

/// Answers one request by plain decoding.
using PlainAnswer = std::function<test::Answer(const Request&)>;

/// Prompts share beginnings with each other and with earlier answers; their lengths lie around
/// those of pages.
PlainAnswers make_answers(Chooser& choose, int vocabulary, const PlainAnswer& plain);

/// An engine that is asked `asked`, which must outlive the situation.
EngineSituation make_situation(Chooser& choose, const std::vector<std::string>& drafters,
                               const PlainAnswers& asked);

}  // namespace talon::fuzz
