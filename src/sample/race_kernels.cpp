#include "sample/race_kernels.h"

#include <algorithm>

#include "sample/race_units.h"

namespace talon {

std::span<const RaceKernels> race_kernels() {
  using namespace sample;
  static const RaceKernels kKernels[] = {
#if defined(__x86_64__)
    {"avx512",
     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl"),
     largest_avx512, rank_avx512, next_survivor_avx512, words_avx512, gumbel_avx512},
    {"avx2", __builtin_cpu_supports("avx2") != 0, largest_avx2, rank_avx2, next_survivor_avx2,
     words_avx2, gumbel_avx2},
#endif
    {"portable", true, largest_portable, rank_portable, next_survivor_portable, words_portable,
     gumbel_portable}
  };
  return kKernels;
}

const RaceKernels& best_race_kernels() {
  static const RaceKernels& best = *std::ranges::find_if(race_kernels(), &RaceKernels::supported);
  return best;
}

}  // namespace talon
