#include "backend/cpu/recurrent/cpu_recurrent.h"

#include <algorithm>
#include <cmath>

#include "backend/host_layout.h"
#include "core/error.h"

namespace talon::cpu {

/// One run of a call.
struct Recurrent::Call {
  const RecurrentArgs& args;
  const StateRun& run;
  std::span<const StateRow> rows;
  const StateWalk& steps;

  int heads_of_key() const { return args.shape.value_heads / args.shape.key_heads; }
  /// The value heads of a key head.
  int head(int key_head, int index) const {
    return args.tiled_heads ? index * args.shape.key_heads + key_head
                            : key_head * heads_of_key() + index;
  }
  int width() const { return 2 * args.shape.key_dim + heads_of_key() * args.shape.value_dim; }
  /// Where the channels of q, k and the values of a key head begin: part 0, 1, and from 2 on.
  int channel(int key_head, int part) const {
    const StateShape& s = args.shape;
    if (part < 2) return (part * s.key_heads + key_head) * s.key_dim;
    return 2 * s.key_heads * s.key_dim + head(key_head, part - 2) * s.value_dim;
  }
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

Recurrent::Recurrent(const Kernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

void Recurrent::run(const RecurrentArgs& args) {
  check_recurrent(args);
  const StateShape& s = args.shape;
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  // x / sqrt(sum + e) is x / sqrt(mean + e / n) / sqrt(n).
  const float length = std::sqrt(static_cast<float>(s.key_dim));
  q_factors_.assign(static_cast<std::size_t>(s.key_dim), 1.0F / static_cast<float>(s.key_dim));
  k_factors_.assign(static_cast<std::size_t>(s.key_dim), 1.0F / length);
  zeros_.assign(static_cast<std::size_t>(std::max(s.channels(), s.key_dim * s.value_dim)), 0.0F);
  walks_.clear();
  for (const StateRun& run : layout.runs) {
    walks_.push_back(StateWalk::of(run, std::span(layout.state_rows)
                                            .subspan(static_cast<std::size_t>(run.first),
                                                     static_cast<std::size_t>(run.count))));
  }
  workers_.resize(static_cast<std::size_t>(pool_.threads()));
  const auto heads = static_cast<std::size_t>(s.key_heads);
  pool_.run([&](int index) {
    Worker& worker = workers_[static_cast<std::size_t>(index)];
    for (std::size_t item; (item = pool_.next(0)) < layout.runs.size() * heads;) {
      const StateRun& run = layout.runs[item / heads];
      const Call call{
          args, run,
          std::span(layout.state_rows)
              .subspan(static_cast<std::size_t>(run.first), static_cast<std::size_t>(run.count)),
          walks_[item / heads]};
      run_key_head(call, static_cast<int>(item % heads), worker);
    }
  });
}

void Recurrent::run_key_head(const Call& call, int key_head, Worker& worker) {
  const auto count = static_cast<std::size_t>(call.run.count);
  float* values = worker.convolved.reserve<float>(count * static_cast<std::size_t>(call.width()));
  convolve(call, key_head, values);
  for (int index = 0; index < call.heads_of_key(); ++index) {
    walk(call, key_head, index, values, worker);
  }
  for (int entry = 0; entry < call.run.count; ++entry) {
    const int save = call.rows[static_cast<std::size_t>(entry)].save;
    if (save >= 0) keep_tail(call, key_head, entry, save);
  }
  if (call.run.to >= 0) keep_tail(call, key_head, call.run.count - 1, call.run.to);
}

void Recurrent::convolve(const Call& call, int key_head, float* values) const {
  const StateShape& s = call.args.shape;
  const float epsilon = kLengthEpsilon / static_cast<float>(s.key_dim);
  std::vector<const float*> taps(static_cast<std::size_t>(s.kernel));
  std::vector<const float*> from(taps.size());
  for (int entry = 0; entry < call.run.count; ++entry, values += call.width()) {
    for (int tap = 0; tap < s.kernel; ++tap) {
      taps[static_cast<std::size_t>(tap)] =
          call.input_before(entry, s.kernel - 1 - tap, zeros_.data());
    }
    float* to = values;
    for (int part = 0; part < 2 + call.heads_of_key(); to += call.part_size(part++)) {
      const int channel = call.channel(key_head, part);
      for (std::size_t tap = 0; tap < taps.size(); ++tap) from[tap] = taps[tap] + channel;
      kernels_.convolve(from.data(), call.args.filter.data + channel, call.args.filter.stride,
                        s.kernel, call.part_size(part), to);
    }
    kernels_.rms_norm(values, q_factors_.data(), epsilon, s.key_dim, values);
    float* k = values + s.key_dim;
    kernels_.rms_norm(k, k_factors_.data(), epsilon, s.key_dim, k);
  }
}

/// All rows through the state of one value head, the index-th of the key head.
void Recurrent::walk(const Call& call, int key_head, int index, const float* values,
                     Worker& worker) const {
  const RecurrentArgs& args = call.args;
  const StateShape& s = args.shape;
  const int head = call.head(key_head, index);
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
    const float* gates = args.inputs.row(row.row) + s.channels();
    const auto [write, keep] = state_gates(gates[head], gates[s.value_heads + head],
                                           args.decay.data[head], args.decay_bias.data[head]);
    const float* q = values + static_cast<std::ptrdiff_t>(visit.entry) * call.width();
    const auto buffer = [&](int number) {
      return buffers + static_cast<std::size_t>(number) * size;
    };
    kernels_.delta_step({.from = visit.from < 0 ? start : buffer(visit.from),
                         .to = visit.to < 0 ? nullptr : buffer(visit.to),
                         .q = q,
                         .k = q + s.key_dim,
                         .v = q + 2 * s.key_dim + index * s.value_dim,
                         .keep = keep,
                         .write = write,
                         .key_dim = s.key_dim,
                         .value_dim = s.value_dim,
                         .out = result});
    if (result) {
      kernels_.rms_norm(result, args.norm.data, args.norm_epsilon, s.value_dim,
                        args.out.row(row.row) + head * s.value_dim);
    }
    if (row.save >= 0) std::copy_n(buffer(visit.to), size, call.state(row.save, head));
  }
}

/// The inputs of the convolution behind an entry, of the key head's channels.
void Recurrent::keep_tail(const Call& call, int key_head, int entry, int slot) const {
  const StateShape& s = call.args.shape;
  // Ascending: a tail that is written over is read further on than it is written.
  for (int row = 0; row + 1 < s.kernel; ++row) {
    const float* from = call.input_before(entry, s.kernel - 2 - row, zeros_.data());
    float* to = call.args.tails.row(slot) + static_cast<std::ptrdiff_t>(row) * s.channels();
    for (int part = 0; part < 2 + call.heads_of_key(); ++part) {
      const int channel = call.channel(key_head, part);
      std::copy_n(from + channel, call.part_size(part), to + channel);
    }
  }
}

}  // namespace talon::cpu
