#pragma once

#include <span>
#include <vector>

#include "backend/memory.h"
#include "core/thread_pool.h"
#include "sample/race.h"

namespace talon::cpu {

/// Races and their noise, of which the workers share each row. Borrows the pool.
class Race {
 public:
  explicit Race(ThreadPool& pool);
  /// As Operations::race(), of one row.
  TokenId run(std::span<const float> logits, const RaceDraw& draw, float& largest);
  /// As Operations::gumbel(), of one row.
  void fill(const GumbelNoise& noise, std::span<const TokenId> tokens, std::span<float> out);

 private:
  /// What one worker finds among its tokens, on cache lines of its own.
  struct alignas(128) Part {
    LargestLogit largest;
    RaceWinner winner;
  };
  LargestLogit largest_of_parts(int workers) const;

  ThreadPool& pool_;
  const RaceKernels& kernels_ = best_race_kernels();
  std::vector<Part> parts_;  // by worker
};

}  // namespace talon::cpu
