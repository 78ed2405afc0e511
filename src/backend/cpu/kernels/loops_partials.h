#pragma once

#include "backend/cpu/kernels/loops_math.h"

// What several workers or blocks found for one query becomes one result (kernels.h says how a
// partial lies in memory), in terms of the lanes_*.h of one instruction set.
namespace talon::cpu {
namespace {

inline void join_partial(float* total, const float* next, float top, float keep, float take,
                         int size) {
  total[0] = top;
  total[1] = __builtin_fmaf(next[1], take, total[1] * keep);
  const Floats kept = broadcast(keep);
  const Floats taken = broadcast(take);
  for (int d = kPartialHead; d < size; d += kLanes) {
    store(total + d, fma(load(next + d), taken, multiply(load(total + d), kept)));
  }
}

void join_partials(float* totals, const float* next, int count, int size) {
  for (int first = 0; first < count; first += kLanes) {
    const int n = lesser(kLanes, count - first);
    float before[kLanes] = {};
    float after[kLanes] = {};
    for (int i = 0; i < n; ++i) {
      before[i] = totals[(first + i) * size];
      after[i] = next[(first + i) * size];
    }
    const Floats old_top = load(before);
    const Floats new_top = load(after);
    const Floats top = larger(new_top, old_top);
    float tops[kLanes];
    store(tops, top);
    store(before, power_of_two(subtract(old_top, top)));
    store(after, power_of_two(subtract(new_top, top)));
    for (int i = 0; i < n; ++i) {
      join_partial(totals + (first + i) * size, next + (first + i) * size, tops[i], before[i],
                   after[i], size);
    }
  }
}

void finish_partial(const float* total, int dim, float* out) {
  const Floats sum = broadcast(total[1]);
  for (int d = 0; d < dim; d += kLanes) {
    store_first(out + d, divide(load_first(total + kPartialHead + d, dim - d), sum), dim - d);
  }
}

}  // namespace
}  // namespace talon::cpu
