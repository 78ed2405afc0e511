#include "backend/recurrent.h"

#include <algorithm>
#include <cmath>

#include "backend/host_layout.h"
#include "core/error.h"

namespace talon {
namespace {

double softplus(double x) {
  constexpr double kStraight = 20;  // it is x from there on
  return x > kStraight ? x : std::log1p(std::exp(x));
}

/// What one rule has and the other has not.
void check_rule(const RecurrentArgs& args) {
  const StateShape& s = args.shape;
  const bool mamba = s.rule == StateRule::mamba2;
  expects(args.norm.cols == (mamba ? s.values() : s.value_dim) || (mamba && !args.norm),
          "recurrent(): a norm of its rule");
  if (!mamba) {
    return expects(!args.skip && !args.gate, "recurrent(): neither skips nor gates here");
  }
  expects(args.skip.cols == s.value_heads && !args.tiled_heads, "recurrent(): heads of its rule");
}

/// Of rules whose heads have states.
void check_heads(const RecurrentArgs& args) {
  const StateShape& s = args.shape;
  expects(s.key_heads > 0 && s.value_heads % s.key_heads == 0 && s.key_dim > 0,
          "recurrent(): a multiple of the key heads");
  expects(args.states.cols == s.state_values() && args.states.rows == args.tails.rows,
          "recurrent(): states of its shape");
  expects(args.decay.cols == s.value_heads && args.decay_bias.cols == s.value_heads,
          "recurrent(): decays of its shape");
  check_rule(args);
}

void check_convolution(const RecurrentArgs& args) {
  expects(args.shape.state_values() == 0 && !args.states, "recurrent(): nothing beside the tail");
  expects(!args.decay && !args.decay_bias && !args.norm && !args.skip,
          "recurrent(): a filter alone");
}

}  // namespace

void check_recurrent(const RecurrentArgs& args) {
  const StateShape& s = args.shape;
  expects(s.value_heads > 0 && s.value_dim > 0 && s.kernel > 1, "recurrent(): a shape");
  expects(args.inputs.cols == s.input_cols() && args.tails.cols == s.tail_values(),
          "recurrent(): matrices of its shape");
  expects(args.filter.rows == s.kernel && args.filter.cols == s.channels(),
          "recurrent(): weights of its shape");
  expects(!args.filter_bias || args.filter_bias.cols == s.channels(),
          "recurrent(): a bias of every channel");
  expects(!args.out || (args.out.rows == args.inputs.rows && args.out.cols == s.values()),
          "recurrent(): room for every row");
  s.is_convolution() ? check_convolution(args) : check_heads(args);
  const bool gates = s.rule != StateRule::gated_delta && args.out;
  expects(!gates || (args.gate.rows == args.out.rows && args.gate.cols == args.out.cols),
          "recurrent(): a gate of every result");
  expects(args.layout != nullptr, "recurrent(): a layout");
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  const auto is_slot = [&](std::int32_t slot) { return slot >= -1 && slot < args.tails.rows; };
  for (const StateRun& run : layout.runs) {
    expects(is_slot(run.from) && is_slot(run.to), "recurrent(): slots of its states");
  }
  for (const StateRow& row : layout.state_rows) {
    expects(row.row < args.inputs.rows && is_slot(row.save), "recurrent(): rows of its inputs");
  }
}

StateGates state_gates(const RecurrentArgs& args, int row, int value_head) {
  const StateShape& s = args.shape;
  const float* gates = args.inputs.row(row) + s.channels();
  const float a = gates[(s.gates() - 1) * s.value_heads + value_head];
  const float decay = args.decay.data[value_head];
  const double step = softplus(static_cast<double>(a + args.decay_bias.data[value_head]));
  if (s.rule == StateRule::mamba2) {
    const double least = args.steps.least, most = args.steps.most;
    const double t = std::min(std::max(step, least), most);
    return {static_cast<float>(t), static_cast<float>(std::exp(decay * t))};
  }
  const float b = gates[value_head];
  return {static_cast<float>(1 / (1 + std::exp(-static_cast<double>(b)))),
          static_cast<float>(std::exp(decay * step))};
}

}  // namespace talon
