#pragma once

// How products leave the registers, in terms of the lanes_*.h of one instruction set, which the
// including unit has included before.
namespace talon::cpu {
namespace {

/// Fetches what write_rows() is going to write.
template <int kRows>
inline void prefetch_rows(const MultiplyCall& call, int output) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    prefetch_for_write(call.out + row * call.out_stride + output);
  }
}

/// Writes 16 products of a row, or as many as the call has outputs from `output` on.
inline void write_row(const MultiplyCall& call, int row, int output, Floats y) {
  const int n = call.outputs - output;
  float* out = call.out + row * call.out_stride + output;
  if (call.bias != nullptr) y = add(y, load_first(call.bias + output, n));
  if (call.accumulate) y = add(load_first(out, n), y);
  store_first(out, y, n);
}

template <int kRows>
inline void write_rows(const MultiplyCall& call, int output, const Floats (&products)[kRows]) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) write_row(call, row, output, products[row]);
}

}  // namespace
}  // namespace talon::cpu
