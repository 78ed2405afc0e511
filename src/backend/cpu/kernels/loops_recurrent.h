#pragma once

// Layers with a state in terms of the lanes_*.h of one instruction set, which the including unit
// has included before, and of loops_math.h.
namespace talon::cpu {
namespace {

inline void convolve_row(const Convolution& c, float* out) {
  for (int i = 0; i < c.channels; i += kLanes) {
    const int n = c.channels - i;
    Floats sum = c.bias == nullptr ? zero_floats() : load_first(c.bias + i, n);
    for (int tap = 0; tap < c.taps; ++tap) {
      sum = fma(load_first(c.filter + tap * c.step + i, n), load_first(c.inputs[tap] + i, n), sum);
    }
    store_first(out + i, c.gate == nullptr ? silu(sum) : multiply(load_first(c.gate + i, n), sum),
                n);
  }
}

/// `kVectors` times 16 columns of the state; the last may have fewer than 16.
template <int kVectors>
inline void step_columns(const StateStep& s, int first, int n) {
  const Floats keep = broadcast(s.keep);
  const auto columns = [&](const float* row, int j) {
    return kVectors > 1 ? load(row + j * kLanes) : load_first(row, n);
  };
  Floats known[kVectors];
  for (Floats& sum : known) sum = zero_floats();
  const std::ptrdiff_t stride = s.value_dim;
  const int corrected = s.corrects ? s.key_dim : 0;
  for (int i = 0; i < corrected; ++i) {
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

inline void state_step(const StateStep& s) {
  constexpr int kMost = 4;
  int col = 0;
  for (; col + kMost * kLanes <= s.value_dim; col += kMost * kLanes) {
    step_columns<kMost>(s, col, kLanes);
  }
  for (; col < s.value_dim; col += kLanes) step_columns<1>(s, col, s.value_dim - col);
}

}  // namespace
}  // namespace talon::cpu
