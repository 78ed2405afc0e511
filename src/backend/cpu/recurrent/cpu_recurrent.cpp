#include "backend/cpu/recurrent/cpu_recurrent.h"

#include <algorithm>
#include <cmath>

#include "backend/host_layout.h"
#include "core/error.h"

namespace talon::cpu {
namespace {

/// Value heads that share the work on a key head's q and k. Mamba-2 has one key head for most of a
/// layer, so several workers share it.
int heads_together(const RecurrentArgs& args) {
  constexpr int kMost = 4;
  const int of_key = args.shape.value_heads / args.shape.key_heads;
  return args.shape.rule == StateRule::mamba2 ? std::min(kMost, of_key) : of_key;
}

std::span<const StateRow> rows_of(const AttentionLayout& layout, const StateRun& run) {
  return std::span(layout.state_rows)
      .subspan(static_cast<std::size_t>(run.first), static_cast<std::size_t>(run.count));
}

}  // namespace

/// One run of a call and some value heads of a key head: `heads` of them, the first-th and those
/// behind it.
struct Recurrent::Call {
  const RecurrentArgs& args;
  const StateRun& run;
  std::span<const StateRow> rows;
  const StateWalk& steps;
  int key_head = 0;
  int first = 0;
  int heads = 0;

  int heads_of_key() const { return args.shape.value_heads / args.shape.key_heads; }
  int head(int index) const {
    return args.tiled_heads ? (first + index) * args.shape.key_heads + key_head
                            : key_head * heads_of_key() + first + index;
  }
  int width() const { return 2 * args.shape.key_dim + heads * args.shape.value_dim; }
  /// Where the channels of q, k and the values of the heads begin: part 0, 1, and from 2 on.
  int channel(int part) const {
    const StateShape& s = args.shape;
    if (part == 0) return s.first_query() + key_head * s.key_dim;
    if (part == 1) return s.first_key() + key_head * s.key_dim;
    return s.first_value() + head(part - 2) * s.value_dim;
  }
  int parts() const { return 2 + heads; }
  int part_size(int part) const { return part < 2 ? args.shape.key_dim : args.shape.value_dim; }
  /// All channels of the row `back` rows before an entry.
  const float* input_before(int entry, int back, const float* zeros) const {
    for (; back > 0 && entry >= 0; --back) entry = rows[static_cast<std::size_t>(entry)].parent;
    if (entry >= 0) return args.inputs.row(rows[static_cast<std::size_t>(entry)].row);
    if (run.from < 0) return zeros;
    return args.tails.row(run.from) +
           static_cast<std::ptrdiff_t>(args.shape.kernel - 2 - back) * args.shape.channels();
  }
  float* state(int slot, int value_head) const {
    return args.states.row(slot) +
           static_cast<std::ptrdiff_t>(value_head) * args.shape.key_dim * args.shape.value_dim;
  }
};

Recurrent::Recurrent(const Kernels& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool), convolution_(kernels, pool) {}

void Recurrent::prepare(const RecurrentArgs& args, const AttentionLayout& layout) {
  const StateShape& s = args.shape;
  // x / sqrt(sum + e) is x / sqrt(mean + e / n) / sqrt(n).
  const float length = std::sqrt(static_cast<float>(s.key_dim));
  q_factors_.assign(static_cast<std::size_t>(s.key_dim), 1.0F / static_cast<float>(s.key_dim));
  k_factors_.assign(static_cast<std::size_t>(s.key_dim), 1.0F / length);
  zeros_.assign(static_cast<std::size_t>(std::max(s.channels(), s.key_dim * s.value_dim)), 0.0F);
  walks_.clear();
  for (const StateRun& run : layout.runs) {
    walks_.push_back(StateWalk::of(run, rows_of(layout, run)));
  }
  workers_.resize(static_cast<std::size_t>(pool_.threads()));
}

void Recurrent::run(const RecurrentArgs& args) {
  check_recurrent(args);
  const StateShape& s = args.shape;
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  if (s.is_convolution()) return convolution_.run(args, layout);
  prepare(args, layout);
  const int together = heads_together(args), of_key = s.value_heads / s.key_heads;
  const int parts = (of_key + together - 1) / together;
  const auto items = static_cast<std::size_t>(s.key_heads * parts);
  const auto call_of = [&](std::size_t run) {
    return Call{args, layout.runs[run], rows_of(layout, layout.runs[run]), walks_[run]};
  };
  pool_.run([&](int index) {
    Worker& worker = workers_[static_cast<std::size_t>(index)];
    for (std::size_t item; (item = pool_.next(0)) < layout.runs.size() * items;) {
      const int part = static_cast<int>(item % items);
      Call call = call_of(item / items);
      call.key_head = part / parts;
      call.first = part % parts * together;
      call.heads = std::min(together, of_key - call.first);
      run_heads(call, worker);
      if (s.rule == StateRule::gated_delta) keep_tails(call);
    }
  });
  if (s.rule == StateRule::gated_delta) return;
  // What several workers have read and written: the tails of q and k, the results of all heads.
  const std::size_t rows = args.out ? layout.state_rows.size() : 0;
  pool_.run([&](int) {
    for (std::size_t item; (item = pool_.next(0)) < layout.runs.size() + rows;) {
      if (item >= layout.runs.size()) {
        finish_row(args, layout.state_rows[item - layout.runs.size()].row);
        continue;
      }
      Call call = call_of(item);
      for (call.heads = of_key; call.key_head < s.key_heads; ++call.key_head) keep_tails(call);
    }
  });
}

void Recurrent::run_heads(const Call& call, Worker& worker) {
  const auto count = static_cast<std::size_t>(call.run.count);
  float* values = worker.convolved.reserve<float>(count * static_cast<std::size_t>(call.width()));
  convolve(call, values);
  for (int index = 0; index < call.heads; ++index) walk(call, index, values, worker);
}

void Recurrent::convolve(const Call& call, float* values) const {
  const StateShape& s = call.args.shape;
  const float epsilon = kLengthEpsilon / static_cast<float>(s.key_dim);
  const View& bias = call.args.filter_bias;
  std::vector<const float*> taps(static_cast<std::size_t>(s.kernel));
  std::vector<const float*> from(taps.size());
  for (int entry = 0; entry < call.run.count; ++entry, values += call.width()) {
    for (int tap = 0; tap < s.kernel; ++tap) {
      taps[static_cast<std::size_t>(tap)] =
          call.input_before(entry, s.kernel - 1 - tap, zeros_.data());
    }
    float* to = values;
    for (int part = 0; part < call.parts(); to += call.part_size(part++)) {
      const int channel = call.channel(part);
      for (std::size_t tap = 0; tap < taps.size(); ++tap) from[tap] = taps[tap] + channel;
      kernels_.convolve({.inputs = from.data(),
                         .filter = call.args.filter.data + channel,
                         .step = call.args.filter.stride,
                         .bias = bias ? bias.data + channel : nullptr,
                         .taps = s.kernel,
                         .channels = call.part_size(part)},
                        to);
    }
    if (s.rule == StateRule::mamba2) continue;
    kernels_.rms_norm(values, q_factors_.data(), epsilon, s.key_dim, values);
    float* k = values + s.key_dim;
    kernels_.rms_norm(k, k_factors_.data(), epsilon, s.key_dim, k);
  }
}

/// All rows through the state of one value head, the index-th of the call.
void Recurrent::walk(const Call& call, int index, const float* values, Worker& worker) const {
  const RecurrentArgs& args = call.args;
  const StateShape& s = args.shape;
  const int head = call.head(index);
  const auto size = static_cast<std::size_t>(s.key_dim) * static_cast<std::size_t>(s.value_dim);
  float* buffers =
      worker.states.reserve<float>(size * static_cast<std::size_t>(call.steps.buffers));
  // The states of a line that is kept grow where they are kept.
  if (call.run.to >= 0) buffers = call.state(call.run.to, head);
  const float* start = call.run.from < 0 ? zeros_.data() : call.state(call.run.from, head);
  float* result =
      args.out ? worker.out.reserve<float>(static_cast<std::size_t>(s.value_dim)) : nullptr;
  for (const StateWalk::Visit& visit : call.steps.visits) {
    const StateRow& row = call.rows[static_cast<std::size_t>(visit.entry)];
    const auto [write, keep] = state_gates(args, row.row, head);
    const float* q = values + static_cast<std::ptrdiff_t>(visit.entry) * call.width();
    const float* v = q + 2 * s.key_dim + index * s.value_dim;
    const auto buffer = [&](int number) {
      return buffers + static_cast<std::size_t>(number) * size;
    };
    kernels_.state_step({.from = visit.from < 0 ? start : buffer(visit.from),
                         .to = visit.to < 0 ? nullptr : buffer(visit.to),
                         .q = q,
                         .k = q + s.key_dim,
                         .v = v,
                         .keep = keep,
                         .write = write,
                         .corrects = s.rule == StateRule::gated_delta,
                         .key_dim = s.key_dim,
                         .value_dim = s.value_dim,
                         .out = result});
    if (result) give(args, row.row, head, result, v);
    if (row.save >= 0) std::copy_n(buffer(visit.to), size, call.state(row.save, head));
  }
}

/// What a value head makes of S^T q. v: its values of the row.
void Recurrent::give(const RecurrentArgs& args, int row, int head, const float* result,
                     const float* v) const {
  const int width = args.shape.value_dim;
  float* out = args.out.row(row) + head * width;
  if (args.shape.rule == StateRule::mamba2) {
    kernels_.add_scaled(result, v, args.skip.data[head], width, out);
  } else {
    kernels_.rms_norm(result, args.norm.data, args.norm_epsilon, width, out);
  }
}

/// Gates the results of all value heads, and norms those of each key head.
void Recurrent::finish_row(const RecurrentArgs& args, int row) const {
  const StateShape& s = args.shape;
  const int width = s.values() / s.key_heads;
  for (int first = 0; first < s.values(); first += width) {
    float* out = args.out.row(row) + first;
    kernels_.silu_gate(args.gate.row(row) + first, out, width, out);
    if (!args.norm) continue;
    kernels_.rms_norm(out, args.norm.data + first, args.norm_epsilon, width, out);
  }
}

void Recurrent::keep_tails(const Call& call) const {
  for (int entry = 0; entry < call.run.count; ++entry) {
    const int save = call.rows[static_cast<std::size_t>(entry)].save;
    if (save >= 0) keep_tail(call, entry, save);
  }
  if (call.run.to >= 0) keep_tail(call, call.run.count - 1, call.run.to);
}

/// The inputs of the convolution behind an entry, of the channels of the call.
void Recurrent::keep_tail(const Call& call, int entry, int slot) const {
  const StateShape& s = call.args.shape;
  // Ascending: a tail that is written over is read further on than it is written.
  for (int row = 0; row + 1 < s.kernel; ++row) {
    const float* from = call.input_before(entry, s.kernel - 2 - row, zeros_.data());
    float* to = call.args.tails.row(slot) + static_cast<std::ptrdiff_t>(row) * s.channels();
    for (int part = 0; part < call.parts(); ++part) {
      const int channel = call.channel(part);
      std::copy_n(from + channel, call.part_size(part), to + channel);
    }
  }
}

}  // namespace talon::cpu
