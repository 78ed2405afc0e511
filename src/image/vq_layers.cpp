#include "image/vq_layers.h"

#include <dnnl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <dnnl.hpp>

#include "core/error.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

// Of libgomp, whose threads oneDNN's are. Not every compiler comes with a header of OpenMP.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int threads);

namespace talon {
namespace {

constexpr int kGroups = 32;
constexpr double kEpsilon = 1e-6;
constexpr int kMostChannels = 1 << 14;
// Of an attention's rows that are computed at once: all rows of the usual grids, up to 53 by 53.
constexpr std::int64_t kMostShares = 1 << 23;

using Format = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;

dnnl::memory::desc floats(const Dims& dims, Format format) {
  return {dims, dnnl::memory::data_type::f32, format};
}

/// [rows of a] x [columns of b or rows of its transpose].
void multiply(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float scale,
              const float* a, const float* b, float* out) {
  const auto status = dnnl_sgemm('N', transpose_b ? 'T' : 'N', m, n, k, scale, a, k, b,
                                 transpose_b ? k : n, 0, out, n);
  if (status != dnnl_success) fail("multiply matrices with oneDNN: status {}", int{status});
}

void softmax(std::span<float> row) {
  const float largest = *std::ranges::max_element(row);
  double sum = 0;
  for (float& value : row) sum += value = std::exp(value - largest);
  for (float& value : row) value = static_cast<float>(value / sum);
}

void add(const Plane& more, Plane& to) {
  for (std::size_t i = 0; i < to.values.size(); ++i) to.values[i] += more.values[i];
}

}  // namespace

std::vector<float> VqTensors::values(const std::string& name,
                                     const std::vector<std::int64_t>& shape) const {
  const StoredTensor& tensor = checkpoint_.require(prefix_ + name);
  if (tensor.shape != shape) {
    refuse(name, fmt::format("[{}]", fmt::join(shape, ", ")),
           fmt::format("[{}]", fmt::join(tensor.shape, ", ")));
  }
  if (!holds_reals(tensor.type)) refuse(name, "floating-point values", name_of(tensor.type));
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  dequantize(tensor.type, tensor.bytes, values);
  for (const float value : values) {
    if (!std::isfinite(value)) refuse(name, "finite values", "NaN or infinity");
  }
  return values;
}

void VqTensors::refuse(const std::string& name, std::string_view expected,
                       std::string_view found) const {
  fail("load {} {}: expected {}, found {}", quote(checkpoint_.path.string()), quote(prefix_ + name),
       expected, found);
}

OneDnnThreads::OneDnnThreads(int most) : before_(omp_get_max_threads()) {
  omp_set_num_threads(most);
}
OneDnnThreads::~OneDnnThreads() { omp_set_num_threads(before_); }

struct Convolution::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::convolution_forward primitive;
  dnnl::memory::desc in, out, scratch;
  dnnl::memory weight, bias;
};

Convolution::Convolution(const VqTensors& tensors, const std::string& name, int channels, int rows,
                         int columns, int step)
    : step_(step), state_(std::make_unique<State>()) {
  expects(step == 1 || step == 2, "a convolution that keeps the sides or halves them");
  const std::vector<std::int64_t> shape = tensors.shape(name + ".weight");
  const bool known = shape.size() == 4 && shape[0] >= 1 && shape[0] <= kMostChannels &&
                     shape[1] == channels && shape[2] == shape[3] &&
                     (shape[2] == 3 || (shape[2] == 1 && step == 1));
  if (!known) {
    tensors.refuse(name + ".weight",
                   fmt::format("[channels, {}, {}, as many]", channels, step == 1 ? "1 or 3" : "3"),
                   fmt::format("[{}]", fmt::join(shape, ", ")));
  }
  out_channels_ = static_cast<int>(shape[0]);
  State& s = *state_;
  std::vector<float> weight = tensors.values(name + ".weight", shape);
  const std::vector<float> bias = tensors.values(name + ".bias", {shape[0]});
  const Dims after(2, shape[2] / 2), before(2, step == 1 ? shape[2] / 2 : 0);  // zeros around
  s.in = floats({1, channels, rows, columns}, Format::nhwc);
  s.out = floats({1, out_channels_, rows / step, columns / step}, Format::nhwc);
  const auto bias_form = floats({out_channels_}, Format::x);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  try {
    const dnnl::convolution_forward::primitive_desc plan(
        {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, s.in,
         floats(shape, Format::any), bias_form, s.out, Dims{step, step}, before, after},
        attributes, s.engine);
    s.primitive = dnnl::convolution_forward(plan);
    s.scratch = plan.scratchpad_desc();
    s.weight = dnnl::memory(plan.weights_desc(), s.engine);
    s.bias = dnnl::memory(bias_form, s.engine);
    dnnl::memory stored(floats(shape, Format::oihw), s.engine, weight.data());
    dnnl::reorder(stored, s.weight).execute(s.stream, stored, s.weight);
    s.stream.wait();
  } catch (const dnnl::error& error) {
    fail(
        "prepare {} with oneDNN: {}; it compiles as it loads, so the system must let programs run "
        "memory that they wrote (MemoryDenyWriteExecute of systemd forbids that)",
        quote(name), error.what());
  }
  std::ranges::copy(bias, static_cast<float*>(s.bias.get_data_handle()));
}

Convolution::~Convolution() = default;
Convolution::Convolution(Convolution&&) noexcept = default;
Convolution& Convolution::operator=(Convolution&&) noexcept = default;

Plane Convolution::operator()(const Plane& in) const {
  State& s = *state_;
  Plane out{in.rows / step_, in.columns / step_, out_channels_, {}};
  out.values.resize(static_cast<std::size_t>(out.cells()) *
                    static_cast<std::size_t>(out_channels_));
  dnnl::memory from(s.in, s.engine, const_cast<float*>(in.values.data()));
  dnnl::memory to(s.out, s.engine, out.values.data());
  dnnl::memory scratch(s.scratch, s.engine);
  s.primitive.execute(s.stream, {{DNNL_ARG_SRC, from},
                                 {DNNL_ARG_WEIGHTS, s.weight},
                                 {DNNL_ARG_BIAS, s.bias},
                                 {DNNL_ARG_DST, to},
                                 {DNNL_ARG_SCRATCHPAD, scratch}});
  s.stream.wait();
  return out;
}

GroupNorm::GroupNorm(const VqTensors& tensors, const std::string& name, int channels, bool silu)
    : weight_(tensors.values(name + ".weight", {channels})),
      bias_(tensors.values(name + ".bias", {channels})),
      silu_(silu) {
  if (channels % kGroups != 0) {
    tensors.refuse(name + ".weight", fmt::format("a multiple of {} channels", kGroups),
                   fmt::to_string(channels));
  }
}

Plane GroupNorm::operator()(const Plane& in) const {
  const auto channels = static_cast<std::size_t>(in.channels);
  const std::size_t width = channels / kGroups;
  std::vector<double> sum(channels), squares(channels);
  for (std::size_t at = 0; at < in.values.size(); at += channels) {
    for (std::size_t c = 0; c < channels; ++c) {
      const double value = in.values[at + c];
      sum[c] += value;
      squares[c] += value * value;
    }
  }
  std::vector<float> factor(channels), shift(channels);
  const double count = static_cast<double>(in.cells()) * static_cast<double>(width);
  for (std::size_t first = 0; first < channels; first += width) {
    double total = 0, total_squares = 0;
    for (std::size_t c = first; c < first + width; ++c) {
      total += sum[c];
      total_squares += squares[c];
    }
    const double mean = total / count;
    const double variance = std::max(0.0, total_squares / count - mean * mean);
    const double scale = 1 / std::sqrt(variance + kEpsilon);
    for (std::size_t c = first; c < first + width; ++c) {
      factor[c] = static_cast<float>(scale * weight_[c]);
      shift[c] = static_cast<float>(bias_[c] - mean * scale * weight_[c]);
    }
  }
  Plane out = in;
  for (std::size_t at = 0; at < out.values.size(); at += channels) {
    for (std::size_t c = 0; c < channels; ++c) {
      const float normed = out.values[at + c] * factor[c] + shift[c];
      out.values[at + c] = silu_ ? normed / (1 + std::exp(-normed)) : normed;
    }
  }
  return out;
}

ResidualBlock::ResidualBlock(const VqTensors& tensors, const std::string& name, int channels,
                             int rows, int columns)
    : first_norm_(tensors, name + ".norm1", channels, true),
      first_(tensors, name + ".conv1", channels, rows, columns),
      second_norm_(tensors, name + ".norm2", first_.out_channels(), true),
      second_(tensors, name + ".conv2", first_.out_channels(), rows, columns) {
  const std::string shortcut = name + ".nin_shortcut";
  if (channels != second_.out_channels() || tensors.has(shortcut + ".weight"))
    shortcut_ = std::make_unique<Convolution>(tensors, shortcut, channels, rows, columns);
  if (shortcut_ && shortcut_->out_channels() != second_.out_channels()) {
    tensors.refuse(shortcut + ".weight", fmt::format("{} channels out", second_.out_channels()),
                   fmt::to_string(shortcut_->out_channels()));
  }
}

Plane ResidualBlock::operator()(const Plane& in) const {
  Plane out = second_(second_norm_(first_(first_norm_(in))));
  if (shortcut_) {
    add((*shortcut_)(in), out);
  } else {
    add(in, out);
  }
  return out;
}

CellAttention::CellAttention(const VqTensors& tensors, const std::string& name, int channels,
                             int rows, int columns)
    : norm_(tensors, name + ".norm", channels, false),
      q_(tensors, name + ".q", channels, rows, columns),
      k_(tensors, name + ".k", channels, rows, columns),
      v_(tensors, name + ".v", channels, rows, columns),
      out_(tensors, name + ".proj_out", channels, rows, columns) {
  for (const Convolution* part : {&q_, &k_, &v_, &out_}) {
    if (part->out_channels() == channels) continue;
    tensors.refuse(name, fmt::format("{} channels of q, k, v and proj_out", channels),
                   fmt::to_string(part->out_channels()));
  }
}

Plane CellAttention::operator()(const Plane& in) const {
  const Plane normed = norm_(in), k = k_(normed), v = v_(normed);
  Plane q = q_(normed);
  const std::int64_t cells = in.cells(), width = in.channels;
  const std::int64_t most = std::clamp<std::int64_t>(kMostShares / cells, 1, cells);
  std::vector<float> shares(static_cast<std::size_t>(most * cells));
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width)));
  for (std::int64_t first = 0; first < cells; first += most) {
    const std::int64_t rows = std::min(most, cells - first);
    float* const own = q.values.data() + first * width;  // queries, then what they attend to
    multiply(true, rows, cells, width, scale, own, k.values.data(), shares.data());
    for (std::int64_t row = 0; row < rows; ++row)
      softmax({shares.data() + row * cells, static_cast<std::size_t>(cells)});
    multiply(false, rows, width, cells, 1, shares.data(), v.values.data(), own);
  }
  Plane out = out_(q);
  add(in, out);
  return out;
}

Plane twice_as_large(const Plane& in) {
  Plane out{2 * in.rows, 2 * in.columns, in.channels, {}};
  out.values.reserve(4 * in.values.size());
  for (int row = 0; row < out.rows; ++row) {
    for (int column = 0; column < out.columns; ++column) {
      const auto from =
          in.values.begin() +
          (static_cast<std::ptrdiff_t>(row / 2) * in.columns + column / 2) * in.channels;
      out.values.insert(out.values.end(), from, from + in.channels);
    }
  }
  return out;
}

}  // namespace talon
