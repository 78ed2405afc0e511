#include "backend/reference/reference_recurrent.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/reference/reference_math.h"

namespace talon::reference {
namespace {

const StateRow& row_of(const AttentionLayout& layout, const StateRun& run, int entry) {
  return layout.state_rows[static_cast<std::size_t>(run.first + entry)];
}

/// Input of a channel `back` rows before entry `entry` of the run.
double input_before(const RecurrentArgs& args, const AttentionLayout& layout, const StateRun& run,
                    int entry, int back, int channel) {
  for (; back > 0 && entry >= 0; --back) entry = row_of(layout, run, entry).parent;
  if (entry >= 0) return args.inputs.row(row_of(layout, run, entry).row)[channel];
  if (run.from < 0) return 0;
  const int oldest_first = args.shape.kernel - 2 - back;
  return args.tails.row(run.from)[oldest_first * args.shape.channels() + channel];
}

std::vector<double> convolved(const RecurrentArgs& args, const AttentionLayout& layout,
                              const StateRun& run, int entry, int first, int count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    double sum = 0;
    for (int tap = 0; tap < args.shape.kernel; ++tap) {
      const int back = args.shape.kernel - 1 - tap;
      sum += double{args.filter.row(tap)[first + i]} *
             input_before(args, layout, run, entry, back, first + i);
    }
    values[static_cast<std::size_t>(i)] = sum / (1 + std::exp(-sum));
  }
  return values;
}

/// `values` over their length, times `factor`.
void to_length(std::vector<double>& values, double factor) {
  double squares = kLengthEpsilon;
  for (const double value : values) squares += value * value;
  for (double& value : values) value *= factor / std::sqrt(squares);
}

}  // namespace

void recur_head(const RecurrentArgs& args, const AttentionLayout& layout, const StateRun& run,
                int head) {
  const StateShape& s = args.shape;
  const int key_head = args.tiled_heads ? head % s.key_heads : head / (s.value_heads / s.key_heads);
  const auto key_dim = static_cast<std::size_t>(s.key_dim);
  const auto value_dim = static_cast<std::size_t>(s.value_dim);
  const std::size_t size = key_dim * value_dim;
  const auto place = [&](int slot) {
    return args.states.row(slot) + static_cast<std::size_t>(head) * size;
  };
  std::vector<float> start(size, 0.0F);
  if (run.from >= 0) std::copy_n(place(run.from), size, start.begin());
  std::vector<std::vector<float>> behind(static_cast<std::size_t>(run.count));
  for (int entry = 0; entry < run.count; ++entry) {
    const StateRow& row = row_of(layout, run, entry);
    std::vector<float> state =
        row.parent < 0 ? start : behind[static_cast<std::size_t>(row.parent)];
    auto q = convolved(args, layout, run, entry, key_head * s.key_dim, s.key_dim);
    auto k = convolved(args, layout, run, entry, (s.key_heads + key_head) * s.key_dim, s.key_dim);
    const auto v = convolved(args, layout, run, entry,
                             2 * s.key_heads * s.key_dim + head * s.value_dim, s.value_dim);
    to_length(q, 1 / std::sqrt(static_cast<double>(s.key_dim)));
    to_length(k, 1);
    const float* gates = args.inputs.row(row.row) + s.channels();
    const auto [write, keep] = state_gates(gates[head], gates[s.value_heads + head],
                                           args.decay.data[head], args.decay_bias.data[head]);
    std::vector<double> out(value_dim, 0.0);
    for (std::size_t col = 0; col < value_dim; ++col) {
      double known = 0;
      for (std::size_t i = 0; i < key_dim; ++i) known += k[i] * keep * state[i * value_dim + col];
      const double change = write * (v[col] - known);
      for (std::size_t i = 0; i < key_dim; ++i) {
        float& value = state[i * value_dim + col];
        value = static_cast<float>(double{keep} * value + k[i] * change);
        out[col] += q[i] * value;
      }
    }
    if (args.out) {
      rms_norm(out, args.norm.data, args.norm_epsilon);
      std::copy(out.begin(), out.end(), args.out.row(row.row) + head * s.value_dim);
    }
    if (row.save >= 0) std::copy(state.begin(), state.end(), place(row.save));
    if (run.to >= 0 && entry == run.count - 1) std::copy(state.begin(), state.end(), place(run.to));
    behind[static_cast<std::size_t>(entry)] = std::move(state);
  }
}

void keep_tails(const RecurrentArgs& args, const AttentionLayout& layout, const StateRun& run) {
  const StateShape& s = args.shape;
  const auto tail_behind = [&](int entry) {
    std::vector<float> tail;
    for (int back = s.kernel - 2; back >= 0; --back) {
      for (int channel = 0; channel < s.channels(); ++channel) {
        tail.push_back(static_cast<float>(input_before(args, layout, run, entry, back, channel)));
      }
    }
    return tail;
  };
  for (int entry = 0; entry < run.count; ++entry) {
    const int save = row_of(layout, run, entry).save;
    if (save >= 0) std::ranges::copy(tail_behind(entry), args.tails.row(save));
  }
  if (run.to >= 0) std::ranges::copy(tail_behind(run.count - 1), args.tails.row(run.to));
}

}  // namespace talon::reference
