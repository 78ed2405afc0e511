#pragma once

#include <cstdint>

#include "train/image/network/kernel_math.h"

namespace talon {

/// The sizes of a group normalisation over pictures [batch, groups, channels of a group, cells],
/// whose numbers lie one after the other.
struct GroupNormSizes {
  std::int64_t batch, groups, channels, cells;
  double epsilon;
  bool silu;  // of the result
};

/// Of one group: y = silu(norm(x) * weight + bias) and what its gradient needs. x, y, room:
/// [channels, cells]. T: Bf16, float, double; sums are in float, for double in double (Wide).
template <typename T, typename Wide>
void normalise_group(const T* x, T* y, const Wide* weight, const Wide* bias,
                     const GroupNormSizes& sizes, Wide& mean, Wide& scale, Wide* room);

/// The gradient: dx from dy; dweight, dbias [channels] are set. room: [2, channels, cells].
template <typename T, typename Wide>
void normalise_group_backward(const T* x, const T* dy, T* dx, const Wide* weight, const Wide* bias,
                              const GroupNormSizes& sizes, Wide mean, Wide scale, Wide* dweight,
                              Wide* dbias, Wide* room);

}  // namespace talon
