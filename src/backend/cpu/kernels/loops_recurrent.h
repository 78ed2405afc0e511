#pragma once

// Layers with a state in terms of the lanes_*.h of one instruction set, which the including unit
// has included before, and of loops_math.h.
namespace talon::cpu {
namespace {

inline void convolve_row(const float* const* inputs, const float* filter, std::ptrdiff_t step,
                         int count, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    Floats sum = zero_floats();
    for (int tap = 0; tap < count; ++tap) {
      sum =
          fma(load_first(filter + tap * step + i, n - i), load_first(inputs[tap] + i, n - i), sum);
    }
    store_first(out + i, silu(sum), n - i);
  }
}

/// `kVectors` times 16 columns of the state; the last may have fewer than 16.
template <int kVectors>
inline void delta_columns(const DeltaStep& s, int first, int n) {
  const Floats keep = broadcast(s.keep);
  const auto columns = [&](const float* row, int j) {
    return kVectors > 1 ? load(row + j * kLanes) : load_first(row, n);
  };
  Floats known[kVectors];
  for (Floats& sum : known) sum = zero_floats();
  const std::ptrdiff_t stride = s.value_dim;
  for (int i = 0; i < s.key_dim; ++i) {
    const Floats k = broadcast(s.k[i]);
    for (int j = 0; j < kVectors; ++j) {
      known[j] = fma(k, multiply(keep, columns(s.from + i * stride + first, j)), known[j]);
    }
  }
  Floats change[kVectors], out[kVectors];
  for (int j = 0; j < kVectors; ++j) {
    change[j] = multiply(broadcast(s.write), subtract(columns(s.v + first, j), known[j]));
    out[j] = zero_floats();
  }
  for (int i = 0; i < s.key_dim; ++i) {
    const Floats k = broadcast(s.k[i]), q = broadcast(s.q[i]);
    for (int j = 0; j < kVectors; ++j) {
      const float* from = s.from + i * stride + first;
      const Floats state = fma(k, change[j], multiply(keep, columns(from, j)));
      if (s.to != nullptr) store_first(s.to + i * stride + first + j * kLanes, state, n);
      out[j] = fma(q, state, out[j]);
    }
  }
  if (s.out == nullptr) return;
  for (int j = 0; j < kVectors; ++j) store_first(s.out + first + j * kLanes, out[j], n);
}

inline void delta_step(const DeltaStep& s) {
  constexpr int kMost = 4;
  int col = 0;
  for (; col + kMost * kLanes <= s.value_dim; col += kMost * kLanes) {
    delta_columns<kMost>(s, col, kLanes);
  }
  for (; col < s.value_dim; col += kLanes) delta_columns<1>(s, col, s.value_dim - col);
}

}  // namespace
}  // namespace talon::cpu
