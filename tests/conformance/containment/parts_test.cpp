#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "containment.h"
#include "core/thread_pool.h"
#include "faulty_grammar.h"
#include "faulty_parts.h"
#include "maker_data.h"

// Parts that only some requests, drafters or models have.

namespace talon::test::parts_test {
namespace {

TEST_F(Containment, OfADrafterThatSeesWhatIsDrawn) {
  faulty_drafter_ = true;
  may_fail_ = false;
  sweep({.drafter = "jacobi"}, trigger_, /*lasts=*/false);
}

TEST_F(Containment, OfADrafterThatProposesWhatIsNoToken) {
  may_fail_ = false;
  for (const bool has_grammar : {false, true}) {
    if (has_grammar) constrain(std::make_shared<FaultyGrammar>(model_->vocabulary(), trigger_));
    for (const char* drafter : {"unknown", "unknown drawn"}) {
      EXPECT_FALSE(run({.drafter = drafter}, trigger_, /*at=*/0, /*lasts=*/false));
    }
  }
}

TEST_F(Containment, OfAGrammarWhichIsOneAnswersAlone) {
  constrain(std::make_shared<FaultyGrammar>(model_->vocabulary(), trigger_));
  sweep({}, trigger_, /*lasts=*/false);
  sweep({.drafter = "suffix", .policy = "throughput"}, trigger_, /*lasts=*/true);
  backend_may_fail_ = true;
  sweep({}, allocation_trigger(), /*lasts=*/false);
}

/// Without noise they give what the target itself does.
TEST_F(Containment, OfOtherRules) {
  std::vector<Request> requests = requests_;
  requests[2].sampler.temperature = 0;
  ask(std::move(requests));
  faulty_rule_ = true;
  for (const char* rule : {"token", "block", "traversal"}) {
    sweep({.rule = rule}, trigger_, /*lasts=*/false);
  }
}

/// Both grow by two pages, for which there is room for one of them.
TEST_F(Containment, OfSequencesThatAreSetBack) {
  const std::vector<TokenId> first = long_prompt(kPageRows - 2, {});
  ask({asking(first, 68), asking({first.rbegin(), first.rend()}, 68)});
  pages_ = 4;
  faulty_drafter_ = true;
  may_fail_ = false;
  sweep({}, trigger_, /*lasts=*/false);
  EXPECT_GT(preemptions_, 0);
  faulty_drafter_ = false;
  may_fail_ = backend_may_fail_ = true;
  sweep({}, backend_->trigger, /*lasts=*/false);
  sweep({}, allocation_trigger(), /*lasts=*/false);
}

class ContainmentOfStates : public Containment {
 protected:
  ContainmentOfStates() : Containment(unpack_maker("qwen3_next").folder) {}
};

TEST_F(ContainmentOfStates, AndOfExpertsInABackend) {
  backend_may_fail_ = true;
  sweep({}, backend_->trigger, /*lasts=*/false);
  sweep({}, allocation_trigger(), /*lasts=*/false);
}

/// What a step may ask of a backend. An operation that is added is added here.
TEST(FaultyBackends, FailAtEveryOperation) {
  FaultyBackend backend(cpu_backend(1));
  Weight table;
  KvStore cache;
  const View x = {};
  const Indices ids = {};
  std::vector<float> values(1);
  std::vector<std::int32_t> numbers(1);
  const std::span<const float> given = values;
  const std::span<const std::int32_t> given_numbers = numbers;
  const std::pair<const char*, std::function<void()>> operations[] = {
      {"allocate", [&] { backend.allocate(1, 1); }},
      {"allocate_indices", [&] { backend.allocate_indices(1); }},
      {"upload", [&] { backend.upload(given, x); }},
      {"upload of indices", [&] { backend.upload(given_numbers, ids); }},
      {"download_async", [&] { backend.download_async(x, values); }},
      {"download_async of indices", [&] { backend.download_async(ids, numbers); }},
      {"embed", [&] { backend.embed(table, ids, x); }},
      {"linear", [&] { backend.linear({}); }},
      {"linear_all", [&] { backend.linear_all({}); }},
      {"route", [&] { backend.route({}); }},
      {"experts", [&] { backend.experts({}); }},
      {"rms_norm", [&] { backend.rms_norm(x, x, 1, x); }},
      {"layer_norm", [&] { backend.layer_norm(x, x, x, 1, x); }},
      {"add", [&] { backend.add(x, x, x); }},
      {"add_scaled", [&] { backend.add_scaled(x, x, 1, x); }},
      {"scale", [&] { backend.scale(x, 1); }},
      {"scale_rows", [&] { backend.scale_rows(x, x); }},
      {"soft_cap", [&] { backend.soft_cap(x, 1); }},
      {"activate", [&] { backend.activate(x, Activation::silu); }},
      {"copy", [&] { backend.copy(x, x); }},
      {"gather_rows", [&] { backend.gather_rows(x, ids, x); }},
      {"scatter_rows", [&] { backend.scatter_rows(x, ids, x); }},
      {"prepare", [&] { backend.prepare({}); }},
      {"attention", [&] { backend.attention({}); }},
      {"recurrent", [&] { backend.recurrent({}); }},
      {"copy_kv", [&] { backend.copy_kv(cache, ids, ids); }},
      {"softmax", [&] { backend.softmax(x, 1, x); }},
      {"argmax", [&] { backend.argmax(x, ids, x); }},
      {"race", [&] { backend.race(x, {}, ids, x); }},
      {"gumbel", [&] { backend.gumbel({}, ids, x); }},
      {"top_k", [&] { backend.top_k(x, 1, x, ids); }},
      {"replay", [&] { backend.replay({}, [] {}); }},
      {"synchronize", [&] { backend.synchronize(); }}};
  for (const auto& [name, call] : operations) {
    backend.trigger.arm(1, /*for_ever=*/false);
    EXPECT_THROW(call(), Error) << name;
  }
}

TEST(ThreadPoolFaults, OneThatFindsNoMemoryForAThreadThrows) {
  Trigger& trigger = allocation_trigger();
  const auto starts = [] {
    try {
      const FaultyAllocations scope;
      ThreadPool(4, /*pin=*/false);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  };
  constexpr long kMany = 1'000'000;
  EXPECT_TRUE(starts());  // what is made once is made
  trigger.arm(kMany, false);
  EXPECT_TRUE(starts());
  const long all = kMany - trigger.left;
  ASSERT_GT(all, 3);
  for (long last = 0; last < 3; ++last) {  // each thread has something of its own
    trigger.arm(all - last, false);
    EXPECT_FALSE(starts());
  }
  trigger.arm(0, false);
}

}  // namespace
}  // namespace talon::test::parts_test
