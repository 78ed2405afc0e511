#pragma once

// The table of the loops of one instruction set.
namespace talon::cpu {
namespace {

constexpr Kernels table_of(const char* name) {
  return {name,
          block_rows,
          kWideRows,
          multiply_call,
          multiply_rounded<FloatPairs>,
          round_row<FloatPairs>,
          FloatPairs::kInputBytes,
          quantize_row,
          rms_norm,
          silu_gate,
          silu_row,
          sigmoid_row,
          layer_norm,
          transform_row,
          soft_cap_row,
          add_scaled_rows,
          add_rows,
          softmax,
          argmax,
          find_above,
          rotate,
          store_half_row,
          store_bf16_row,
          attend,
          attend_pairs<FloatPairs>,
          join_partials,
          finish_partial,
          convolve_row,
          state_step};
}

}  // namespace
}  // namespace talon::cpu
