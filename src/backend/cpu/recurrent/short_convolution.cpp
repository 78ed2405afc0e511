#include "backend/cpu/recurrent/short_convolution.h"

#include <algorithm>
#include <array>
#include <span>

namespace talon::cpu {
namespace {

constexpr int kChannelsTogether = 64;
constexpr std::array<float, kChannelsTogether> kBeforeTheText = {};

}  // namespace

/// One run of a call and some channels, the first-th and those behind it.
struct ShortConvolution::Call {
  const RecurrentArgs& args;
  const StateRun& run;
  std::span<const StateRow> rows;
  int first = 0;
  int channels = 0;
  float* inputs = nullptr;  // of the convolution: [rows][channels]

  float* inputs_of(int entry) const {
    return inputs + static_cast<std::ptrdiff_t>(entry) * channels;
  }
  float* tail(int slot, int row) const {
    return args.tails.row(slot) + static_cast<std::ptrdiff_t>(row) * args.shape.channels() + first;
  }
  /// Of the row `back` rows before an entry.
  const float* inputs_before(int entry, int back) const {
    for (; back > 0 && entry >= 0; --back) entry = rows[static_cast<std::size_t>(entry)].parent;
    if (entry >= 0) return inputs_of(entry);
    if (run.from < 0) return kBeforeTheText.data();
    return tail(run.from, args.shape.kernel - 2 - back);
  }
};

ShortConvolution::ShortConvolution(const Kernels& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool) {}

void ShortConvolution::run(const RecurrentArgs& args, const AttentionLayout& layout) {
  const int channels = args.shape.channels();
  const auto blocks =
      static_cast<std::size_t>((channels + kChannelsTogether - 1) / kChannelsTogether);
  inputs_.resize(static_cast<std::size_t>(pool_.threads()));
  pool_.run([&](int index) {
    Scratch& scratch = inputs_[static_cast<std::size_t>(index)];
    for (std::size_t item; (item = pool_.next(0)) < layout.runs.size() * blocks;) {
      const StateRun& run = layout.runs[item / blocks];
      const auto rows =
          std::span(layout.state_rows)
              .subspan(static_cast<std::size_t>(run.first), static_cast<std::size_t>(run.count));
      Call call{args, run, rows};
      call.first = static_cast<int>(item % blocks) * kChannelsTogether;
      call.channels = std::min(kChannelsTogether, channels - call.first);
      call.inputs = scratch.reserve<float>(rows.size() * static_cast<std::size_t>(call.channels));
      run_channels(call);
    }
  });
}

void ShortConvolution::run_channels(const Call& call) const {
  const RecurrentArgs& args = call.args;
  const int kernel = args.shape.kernel, channels = args.shape.channels();
  for (int entry = 0; entry < call.run.count; ++entry) {
    const float* v = args.inputs.row(call.rows[static_cast<std::size_t>(entry)].row) + call.first;
    float* product = call.inputs_of(entry);
    for (int i = 0; i < call.channels; ++i) product[i] = v[i] * v[channels + i];
  }
  std::vector<const float*> taps(static_cast<std::size_t>(kernel));
  for (int entry = 0; args.out && entry < call.run.count; ++entry) {
    for (int tap = 0; tap < kernel; ++tap) {
      taps[static_cast<std::size_t>(tap)] = call.inputs_before(entry, kernel - 1 - tap);
    }
    const int row = call.rows[static_cast<std::size_t>(entry)].row;
    kernels_.convolve({.inputs = taps.data(),
                       .filter = args.filter.data + call.first,
                       .step = args.filter.stride,
                       .bias = args.filter_bias ? args.filter_bias.data + call.first : nullptr,
                       .taps = kernel,
                       .channels = call.channels,
                       .gate = args.gate.row(row) + call.first},
                      args.out.row(row) + call.first);
  }
  for (int entry = 0; entry < call.run.count; ++entry) {
    const int save = call.rows[static_cast<std::size_t>(entry)].save;
    if (save >= 0) keep_inputs(call, entry, save);
  }
  if (call.run.to >= 0) keep_inputs(call, call.run.count - 1, call.run.to);
}

/// The inputs behind an entry that the next rows need.
void ShortConvolution::keep_inputs(const Call& call, int entry, int slot) const {
  // Ascending: a tail that is written over is read further on than it is written.
  for (int row = 0; row + 1 < call.args.shape.kernel; ++row) {
    const float* from = call.inputs_before(entry, call.args.shape.kernel - 2 - row);
    std::copy_n(from, call.channels, call.tail(slot, row));
  }
}

}  // namespace talon::cpu
