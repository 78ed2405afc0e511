#include <functional>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/scratch.h"
#include "backend/wrap/forwarding.h"
#include "containment.h"
#include "core/thread_pool.h"
#include "draft/registry.h"
#include "maker_data.h"

// Memory that runs out in the workers of a backend.

namespace talon::test::workers_test {
namespace {

constexpr int kThreads = 3;
constexpr long kNever = 1'000'000'000;  // an allocation that no test comes to

TEST(ThreadPoolFaults, AWorkerThatFindsNoMemoryThrowsInTheCaller) {
  ThreadPool pool(kThreads, /*pin=*/false);
  std::vector<std::unique_ptr<int>> made(kThreads);
  const auto make = [&](int worker) {
    made[static_cast<std::size_t>(worker)] = std::make_unique<int>(worker);
  };
  Trigger& trigger = worker_allocation_trigger();
  trigger.arm(1, /*for_ever=*/false);
  {
    const FaultyAllocations scope;
    EXPECT_THROW(pool.run(make), std::bad_alloc);
  }
  EXPECT_TRUE(trigger.fired);
  trigger.arm(0, false);
  pool.run(make);
  for (const std::unique_ptr<int>& each : made) EXPECT_NE(each, nullptr);
}

TEST(ScratchFaults, OneThatCannotGrowStaysAsItWas) {
  cpu::Scratch scratch;
  float* const before = scratch.reserve<float>(100);
  Trigger& trigger = allocation_trigger();
  trigger.arm(1, /*for_ever=*/false);
  {
    const FaultyAllocations scope;
    EXPECT_THROW(scratch.reserve<float>(1000), std::bad_alloc);
  }
  trigger.arm(0, false);
  EXPECT_EQ(scratch.reserve<float>(100), before);
  EXPECT_NE(scratch.reserve<float>(1000), nullptr);
}

class WorkerFaults : public Containment {
 protected:
  explicit WorkerFaults(const std::filesystem::path& model = kStories260k) : Containment(model) {
    backend_may_fail_ = true;
  }

  /// Each of the first allocations of workers fails, and some of the later ones, all on workers
  /// that have no memory yet. Which of them copies what is chance, so some faults do not come.
  void sweep_workers(const Setting& setting) {
    int faults = 0, missed = 0;
    for (int at = 1; missed < 3 && !HasFailure(); at += 1 + at / 8) {
      load(kThreads);
      ++(run(setting, worker_allocation_trigger(), at, /*lasts=*/false) ? faults : missed);
    }
    EXPECT_GT(faults, 5) << "hardly an allocation to fail";
    RecordProperty("faults", faults);
  }
};

TEST_F(WorkerFaults, AreThoseOfTheBackend) {
  load(kThreads);
  TestOptions options;
  options.chunk = chunk_;
  TestEngine test(*model_, make_drafter("none", {}), options);
  test.submit(requests_[0]);
  Trigger& trigger = worker_allocation_trigger();
  trigger.arm(1, /*for_ever=*/false);
  Answer answer;
  {
    const FaultyAllocations scope;
    for (const Progress& progress : test.engine.step()) test.note(progress, answer);
  }
  EXPECT_TRUE(trigger.fired);
  trigger.arm(0, false);
  EXPECT_EQ(answer.finish, FinishReason::failed);
  EXPECT_EQ(test.engine.statistics().throws.backend, 1);
  EXPECT_EQ(test.run(requests_[0]).tokens, plain_[0].tokens);
}

TEST_F(WorkerFaults, LeaveAllLaterAnswersAsTheyWere) {
  sweep_workers({});
  sweep_workers(
      {.drafter = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head+ngram"});
}

class WorkerFaultsOfStates : public WorkerFaults {
 protected:
  WorkerFaultsOfStates() : WorkerFaults(unpack_maker("qwen3_next").folder) {}
};

TEST_F(WorkerFaultsOfStates, LeaveAllLaterAnswersAsTheyWere) { sweep_workers({}); }

/// Counts what workers allocate while an armed trigger's fault is far off.
class CountingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void linear(const LinearArgs& args) override {
    in_linear += allocations_of([&] { ForwardingBackend::linear(args); });
  }
  void linear_all(std::span<const LinearArgs> calls) override {
    in_linear += allocations_of([&] { ForwardingBackend::linear_all(calls); });
  }
  void replay(const ReplayKey& key, const std::function<void()>& body) override {
    const long before = in_linear;
    const long all = allocations_of([&] { ForwardingBackend::replay(key, body); });
    in_other += all - (in_linear - before);
  }

  long in_linear = 0;
  long in_other = 0;  // operations of layers

 private:
  template <typename Work>
  static long allocations_of(const Work& work) {
    const long before = worker_allocation_trigger().left;
    work();
    return before - worker_allocation_trigger().left;
  }
};

/// Workers of linear() allocate where they prepare inputs for themselves, until they have room.
/// Those of attention, who wait at barriers where nobody may throw, never do. Workers take memory
/// each time where layers have a state, and outside layers where rows move in the cache.
TEST_F(WorkerFaults, ComeInLayersUntilWorkersHaveRoomAndNotInAttention) {
  auto counting = std::make_unique<CountingBackend>(
      make_cpu_backend({.threads = kThreads,
                        .activations = Activations::mixed,
                        .pin = false,
                        .adapt = false}));  // all of them, each time
  const CountingBackend& counted = *counting;
  backend_ = nullptr;  // not the one in use
  model_ = std::make_unique<TestModel>(kStories260k, std::move(counting));
  EXPECT_FALSE(run({}, worker_allocation_trigger(), kNever, /*lasts=*/false));
  const long first = counted.in_linear;
  EXPECT_GT(first, 0);
  EXPECT_FALSE(run({}, worker_allocation_trigger(), kNever, /*lasts=*/false));
  EXPECT_EQ(counted.in_linear, first);
  EXPECT_EQ(counted.in_other, 0);
}

}  // namespace
}  // namespace talon::test::workers_test
