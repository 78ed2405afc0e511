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
  if (entry >= 0) {
    const float* inputs = args.inputs.row(row_of(layout, run, entry).row);
    const int channels = args.shape.channels();
    return args.shape.is_convolution() ? inputs[channel] * inputs[channels + channel]
                                       : inputs[channel];
  }
  if (run.from < 0) return 0;
  const int oldest_first = args.shape.kernel - 2 - back;
  return args.tails.row(run.from)[oldest_first * args.shape.channels() + channel];
}

/// What the convolution gives for some channels, before SiLU.
std::vector<double> filtered(const RecurrentArgs& args, const AttentionLayout& layout,
                             const StateRun& run, int entry, int first, int count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    double sum = args.filter_bias ? args.filter_bias.data[first + i] : 0;
    for (int tap = 0; tap < args.shape.kernel; ++tap) {
      const int back = args.shape.kernel - 1 - tap;
      sum += double{args.filter.row(tap)[first + i]} *
             input_before(args, layout, run, entry, back, first + i);
    }
    values[static_cast<std::size_t>(i)] = sum;
  }
  return values;
}

/// All rows of a short convolution.
void convolve_run(const RecurrentArgs& args, const AttentionLayout& layout, const StateRun& run) {
  const int channels = args.shape.channels();
  for (int entry = 0; args.out && entry < run.count; ++entry) {
    const std::vector<double> values = filtered(args, layout, run, entry, 0, channels);
    const int row = row_of(layout, run, entry).row;
    for (int i = 0; i < channels; ++i) {
      args.out.row(row)[i] =
          static_cast<float>(args.gate.row(row)[i] * values[static_cast<std::size_t>(i)]);
    }
  }
}

/// `values` over their length, times `factor`.
void to_length(std::vector<double>& values, double factor) {
  double squares = kLengthEpsilon;
  for (const double value : values) squares += value * value;
  for (double& value : values) value *= factor / std::sqrt(squares);
}

/// What a row brings to a value head, behind the convolution.
struct HeadInputs {
  std::vector<double> q, k, v;
};
HeadInputs inputs_of(const RecurrentArgs& args, const AttentionLayout& layout, const StateRun& run,
                     int entry, int head) {
  const StateShape& s = args.shape;
  const int key_head = args.tiled_heads ? head % s.key_heads : head / (s.value_heads / s.key_heads);
  const auto part = [&](int first, int count) {
    std::vector<double> values = filtered(args, layout, run, entry, first, count);
    for (double& value : values) value /= 1 + std::exp(-value);
    return values;
  };
  HeadInputs inputs{part(s.first_query() + key_head * s.key_dim, s.key_dim),
                    part(s.first_key() + key_head * s.key_dim, s.key_dim),
                    part(s.first_value() + head * s.value_dim, s.value_dim)};
  if (s.rule == StateRule::gated_delta) {
    to_length(inputs.q, 1 / std::sqrt(static_cast<double>(s.key_dim)));
    to_length(inputs.k, 1);
  }
  return inputs;
}

}  // namespace

void recur_head(const RecurrentArgs& args, const AttentionLayout& layout, const StateRun& run,
                int head) {
  const StateShape& s = args.shape;
  if (s.is_convolution()) return convolve_run(args, layout, run);
  const auto key_dim = static_cast<std::size_t>(s.key_dim);
  const auto value_dim = static_cast<std::size_t>(s.value_dim);
  const std::size_t size = key_dim * value_dim;
  const bool mamba = s.rule == StateRule::mamba2;
  const std::size_t corrected = mamba ? 0 : key_dim;  // what the state knows already
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
    const HeadInputs inputs = inputs_of(args, layout, run, entry, head);
    const auto& [q, k, v] = inputs;
    const auto [write, keep] = state_gates(args, row.row, head);
    std::vector<double> out(value_dim, 0.0);
    for (std::size_t col = 0; col < value_dim; ++col) {
      double known = 0;
      for (std::size_t i = 0; i < corrected; ++i) known += k[i] * keep * state[i * value_dim + col];
      const double change = write * (v[col] - known);
      for (std::size_t i = 0; i < key_dim; ++i) {
        float& value = state[i * value_dim + col];
        value = static_cast<float>(double{keep} * value + k[i] * change);
        out[col] += q[i] * value;
      }
    }
    if (args.out) {
      if (mamba) {
        const double skip = args.skip.data[head];
        for (std::size_t col = 0; col < value_dim; ++col) out[col] += skip * v[col];
      } else {
        rms_norm(out, args.norm.data, args.norm_epsilon);
      }
      std::copy(out.begin(), out.end(), args.out.row(row.row) + head * s.value_dim);
    }
    if (row.save >= 0) std::copy(state.begin(), state.end(), place(row.save));
    if (run.to >= 0 && entry == run.count - 1) std::copy(state.begin(), state.end(), place(run.to));
    behind[static_cast<std::size_t>(entry)] = std::move(state);
  }
}

void finish_row(const RecurrentArgs& args, int row) {
  const StateShape& s = args.shape;
  const int width = s.values() / s.key_heads;
  for (int first = 0; first < s.values(); first += width) {
    float* out = args.out.row(row) + first;
    const float* gate = args.gate.row(row) + first;
    std::vector<double> gated;
    for (int i = 0; i < width; ++i) gated.push_back(silu_gate(gate[i], out[i]));
    if (args.norm) rms_norm(gated, args.norm.data + first, args.norm_epsilon);
    std::copy(gated.begin(), gated.end(), out);
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
