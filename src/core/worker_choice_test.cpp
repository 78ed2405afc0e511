#include "core/worker_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "core/philox.h"

namespace talon::worker_choice_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// A machine whose time stands still but for the regions that it runs: their work takes as long as
/// the number of workers and the time of day say.
class Machine {
 public:
  using Cost =
      std::function<double(int workers, double second)>;  // ms per unit of work, without gaps
  using Gap = std::function<double(int workers, double second)>;  // ms lost, once a region

  explicit Machine(int processors) : choice_(processors) {}

  /// Returns the units of work done in the time.
  double run(double seconds, const Cost& cost, const Gap& gap) {
    double done = 0;
    for (const double end = second() + seconds; second() < end;) {
      // As in a model: matrices of several sizes.
      const double work = sizes_[regions_++ % sizes_.size()];
      const int workers = choice_.workers();
      const double ms = work * cost(workers, second()) + gap(workers, second());
      const auto begin = now_;
      now_ += nanoseconds(static_cast<std::int64_t>(ms * 1e6));
      choice_.learn(work, begin, now_);
      (workers == watched_ ? inside_ : outside_) += ms;
      done += work;
    }
    return done;
  }
  /// The share of the time with `workers` workers, over what follows.
  void watch(int workers) {
    watched_ = workers;
    inside_ = outside_ = 0;
  }
  double share() const { return inside_ / (inside_ + outside_); }
  void rest(milliseconds time) { now_ += time; }
  const WorkerChoice& choice() const { return choice_; }
  double second() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }

 private:
  std::vector<double> sizes_ = {600, 200, 1800, 900};
  WorkerChoice choice_;
  WorkerChoice::Time now_{};
  std::size_t regions_ = 0;
  int watched_ = 0;
  double inside_ = 0, outside_ = 0;
};

double even(int workers, double) { return 5e-5 / workers; }
double quiet(int, double) { return 0; }

/// Each worker beyond the first loses its processor for 4 ms every 40 regions: a step of decoding
/// takes twice the time of one worker alone.
class BusyNeighbour {
 public:
  double operator()(int workers, double) { return workers > 1 && ++regions_ % 40 == 0 ? 4 : 0; }

 private:
  int regions_ = 0;
};

TEST(WorkerChoice, TriesNothingOnAQuietMachine) {
  Machine machine(8);
  const PositionRandom random(1, 0);
  std::uint64_t draws = 0;
  machine.watch(8);
  machine.run(20, even,
              [&](int, double) { return 0.01 * random.uniform(draws++, RandomUse::test); });
  EXPECT_EQ(machine.share(), 1);
  EXPECT_FALSE(machine.choice().is_disturbed());
}

TEST(WorkerChoice, LeavesABusyProcessorToItsNeighbour) {
  Machine machine(2);
  machine.run(0.3, even, BusyNeighbour());
  EXPECT_EQ(machine.choice().workers(), 1);
  EXPECT_TRUE(machine.choice().is_disturbed());
  machine.watch(1);
  const double adaptive = machine.run(30, even, BusyNeighbour());
  EXPECT_GT(machine.share(), 0.97);
  EXPECT_GT(adaptive, 0.97 * 30'000 / even(1, 0));
}

TEST(WorkerChoice, ComesBackWhenTheNeighbourIsGone) {
  Machine machine(2);
  machine.run(30, even, BusyNeighbour());
  machine.run(4.5, even, quiet);
  EXPECT_EQ(machine.choice().workers(), 2);
  machine.watch(2);
  machine.run(5, even, quiet);
  EXPECT_EQ(machine.share(), 1);
  EXPECT_FALSE(machine.choice().is_disturbed());
}

TEST(WorkerChoice, ComesBackSoonAfterARest) {
  Machine machine(2);
  machine.run(30, even, BusyNeighbour());
  machine.rest(milliseconds(60'000));
  machine.run(0.4, even, quiet);
  EXPECT_EQ(machine.choice().workers(), 2);
}

TEST(WorkerChoice, KeepsAllWorkersWhereTheyAreFasterDespiteTheirGaps) {
  Machine machine(2);
  int regions = 0;
  const auto rare = [&](int workers, double) {
    return workers > 1 && ++regions % 400 == 0 ? 4 : 0;
  };
  machine.watch(2);
  machine.run(30, even, rare);
  EXPECT_GT(machine.share(), 0.95);
}

TEST(WorkerChoice, SeesAQuotaAsGaps) {
  // One processor's worth of time in periods of 100 ms: two workers have used it up after 50, and
  // the system's work of sharing out makes them slower than one.
  Machine machine(2);
  double period = 0, used = 0;
  const auto throttled = [&](int workers, double second) {
    if (second * 1000 >= period + 100) period += 100, used = 0;
    used += 0.05;
    return workers > 1 && second * 1000 - period > 50 ? period + 101 - second * 1000 : 0;
  };
  const auto cost = [](int workers, double) { return workers > 1 ? 3.2e-5 : 5e-5; };
  machine.run(1, cost, throttled);
  machine.watch(1);
  machine.run(20, cost, throttled);
  EXPECT_GT(machine.share(), 0.95);
}

TEST(WorkerChoice, FindsTheProcessorsThatAreLeftOfMany) {
  const auto costly = [](int workers, double) { return 1e-4 / workers; };
  for (const int busy : {1, 3, 12}) {
    Machine machine(16);
    int regions = 0;
    const auto gaps = [&](int workers, double) {
      return workers > 16 - busy && ++regions % 20 == 0 ? 4 : 0;
    };
    machine.run(20, costly, gaps);
    machine.watch(16 - busy);
    machine.run(30, costly, gaps);
    EXPECT_GT(machine.share(), 0.8) << busy << " of 16 processors busy";
    machine.run(20, costly, quiet);
    machine.watch(16);
    machine.run(5, costly, quiet);
    EXPECT_EQ(machine.share(), 1) << "after " << busy;
  }
}

TEST(WorkerChoice, ComparesLikeWorkWithLikeWork) {
  // Work of one size is four times as dear as its units say. A trial that meets more of it is not
  // worse for that.
  WorkerChoice choice(2);
  WorkerChoice::Time now{};
  int regions = 0;
  const auto learn = [&](double work, double ms) {
    const auto begin = now;
    now += nanoseconds(static_cast<std::int64_t>(ms * 1e6));
    choice.learn(work, begin, now);
  };
  for (int step = 0; step < 20'000; ++step) {
    const bool two = choice.workers() == 2;
    const double gap = two && ++regions % 40 == 0 ? 4 : 0;
    learn(1000, (two ? 0.025 : 0.05) + gap);
    for (int i = 0; i < (two ? 1 : 5); ++i) learn(100, two ? 0.01 : 0.02);
  }
  EXPECT_EQ(choice.workers(), 1);
}

TEST(WorkerChoice, OfOneWorkerIsOne) {
  Machine machine(1);
  machine.watch(1);
  machine.run(5, even, [](int, double second) { return std::fmod(second, 0.1) < 0.01 ? 4 : 0; });
  EXPECT_EQ(machine.share(), 1);
}

}  // namespace
}  // namespace talon::worker_choice_test
