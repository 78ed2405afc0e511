#include "backend/recurrent.h"

#include <cmath>

#include "backend/host_layout.h"
#include "core/error.h"

namespace talon {

void check_recurrent(const RecurrentArgs& args) {
  const StateShape& s = args.shape;
  expects(s.key_heads > 0 && s.value_heads % s.key_heads == 0 && s.key_dim > 0 && s.value_dim > 0 &&
              s.kernel > 1,
          "recurrent(): a multiple of the key heads");
  expects(args.inputs.cols == s.input_cols() && args.states.cols == s.state_values() &&
              args.tails.cols == s.tail_values() && args.states.rows == args.tails.rows,
          "recurrent(): matrices of its shape");
  expects(args.filter.rows == s.kernel && args.filter.cols == s.channels() &&
              args.decay.cols == s.value_heads && args.decay_bias.cols == s.value_heads &&
              args.norm.cols == s.value_dim,
          "recurrent(): weights of its shape");
  expects(!args.out ||
              (args.out.rows == args.inputs.rows && args.out.cols == s.value_heads * s.value_dim),
          "recurrent(): room for every row");
  expects(args.layout != nullptr, "recurrent(): a layout");
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  const auto is_slot = [&](std::int32_t slot) { return slot >= -1 && slot < args.states.rows; };
  for (const StateRun& run : layout.runs) {
    expects(is_slot(run.from) && is_slot(run.to), "recurrent(): slots of its states");
  }
  for (const StateRow& row : layout.state_rows) {
    expects(row.row < args.inputs.rows && is_slot(row.save), "recurrent(): rows of its inputs");
  }
}

StateGates state_gates(float b, float a, float decay, float bias) {
  constexpr double kStraight = 20;  // softplus(x) is x from there on
  const double x = static_cast<double>(a + bias);
  const double softplus = x > kStraight ? x : std::log1p(std::exp(x));
  return {static_cast<float>(1 / (1 + std::exp(-static_cast<double>(b)))),
          static_cast<float>(std::exp(decay * softplus))};
}

}  // namespace talon
