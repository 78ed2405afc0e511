#include "image/vq_layers.h"

#include <dnnl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

// Of libgomp, whose threads oneDNN's are. Not every compiler comes with a header of OpenMP.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int threads);

namespace talon {

struct OneDnnState {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive primitive, bias_adder;  // bias_adder: none where `primitive` adds the bias
  dnnl::memory::desc in, out, weight_form, bias_form, scratch;
  std::vector<float> bias_values;
  dnnl::memory weight, bias;

  /// Compiles what `Forward` does by `description`. Returns its plan.
  template <typename Forward>
  typename Forward::primitive_desc plan(const typename Forward::desc& description,
                                        const dnnl::post_ops& after = {}) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attributes.set_post_ops(after);
    const typename Forward::primitive_desc made(description, attributes, engine);
    primitive = Forward(made);
    scratch = made.scratchpad_desc();
    return made;
  }

  dnnl::memory at(const dnnl::memory::desc& form, const float* values) const {
    return dnnl::memory(form, engine, const_cast<float*>(values));
  }

  void run(std::unordered_map<int, dnnl::memory> arguments) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratch, engine));
    primitive.execute(stream, arguments);
    stream.wait();
  }
};

void FreeOneDnn::operator()(OneDnnState* state) const { delete state; }

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

dnnl::memory::desc form_of(const PlaneSize& size) {
  return floats({1, size.channels, size.rows, size.columns}, Format::nhwc);
}

/// What `make` compiles and fills in; what oneDNN refuses is told with the layer's name.
template <typename Make>
OneDnn compile(const std::string& name, const Make& make) {
  try {
    OneDnn state(new OneDnnState);
    make(*state);
    return state;
  } catch (const dnnl::error& error) {
    fail(
        "prepare {} with oneDNN: {}; it compiles as it loads, so the system must let programs run "
        "memory that they wrote (MemoryDenyWriteExecute of systemd forbids that)",
        quote(name), error.what());
  }
}

/// Of a 3x3 behind a doubling of the sides: [out, in, 4, 4] of the transposed convolution in steps
/// of two that does the same. Cell i reaches the pixels 2i - 1 to 2i + 2, pixel 2i - 1 + y of them
/// through all rows of the 3x3 that see one of the pixels 2i and 2i + 1: 2 - y and 3 - y.
std::vector<float> doubling(const std::vector<float>& weight) {
  std::vector<float> wide;
  for (std::size_t at = 0; at < weight.size(); at += 9) {
    for (std::size_t place = 0; place < 16; ++place) {
      double sum = 0;
      for (std::size_t i = 0; i < 9; ++i) {
        if ((place / 4 + i / 3) / 2 == 1 && (place % 4 + i % 3) / 2 == 1) sum += weight[at + i];
      }
      wide.push_back(static_cast<float>(sum));
    }
  }
  return wide;
}

/// Brings what is stored [out, in, rows, columns] into the order that the plan asks for.
void set_weight(OneDnnState& s, const dnnl::memory::desc& form, const Dims& shape,
                const std::vector<float>& weight) {
  s.weight = dnnl::memory(form, s.engine);
  dnnl::memory stored = s.at(floats(shape, Format::oihw), weight.data());
  dnnl::reorder(stored, s.weight).execute(s.stream, stored, s.weight);
  s.stream.wait();
}

void plan_convolution(OneDnnState& s, ConvolutionKind kind, const Dims& shape,
                      const std::vector<float>& weight) {
  const bool halves = kind == ConvolutionKind::halving;
  const Dims step(2, halves ? 2 : 1);
  const Dims before(2, halves ? 0 : shape[2] / 2), after(2, shape[2] / 2);  // zeros around
  dnnl::post_ops sum;
  if (kind == ConvolutionKind::adding) sum.append_sum();
  s.bias_form = floats({shape[0]}, Format::x);
  const auto plan = s.plan<dnnl::convolution_forward>(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, s.in,
       floats(shape, Format::any), s.bias_form, s.out, step, before, after},
      sum);
  set_weight(s, plan.weights_desc(), shape, weight);
}

/// oneDNN adds the bias of such a convolution by a loop that it does not compile, so it is added
/// by a primitive of its own.
void plan_doubling(OneDnnState& s, const Dims& shape, const std::vector<float>& weight) {
  const Dims wide = {shape[0], shape[1], 4, 4};
  const Dims step(2, 2), cut(2, 1);
  const auto plan = s.plan<dnnl::deconvolution_forward>(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct, s.in,
       floats(wide, Format::any), s.out, step, cut, cut});
  set_weight(s, plan.weights_desc(), wide, doubling(weight));
  s.bias_form = floats({1, shape[0], 1, 1}, Format::nhwc);
  s.bias_adder = dnnl::binary(dnnl::binary::primitive_desc(
      {dnnl::algorithm::binary_add, s.out, s.bias_form, s.out}, s.engine));
}

/// Of each channel: the sum of its values, and that of their squares.
struct ChannelSums {
  std::vector<double> values, squares;
};
ChannelSums sums_of(const Plane& plane) {
  constexpr std::size_t kAtOnce = kGroups;  // a number that the compiler knows and makes vectors of
  const std::span<const float> all = plane.values();
  const auto channels = static_cast<std::size_t>(plane.size().channels);
  const std::size_t row = static_cast<std::size_t>(plane.size().columns) * channels;
  ChannelSums sums{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t begin = 0; begin < all.size(); begin += row) {
    for (std::size_t first = 0; first < channels; first += kAtOnce) {
      double values[kAtOnce] = {}, squares[kAtOnce] = {};
      for (std::size_t at = begin + first; at < begin + row; at += channels) {
        for (std::size_t i = 0; i < kAtOnce; ++i) {
          const double value = all[at + i];
          values[i] += value;
          squares[i] += value * value;
        }
      }
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        sums.values[first + i] += values[i];
        sums.squares[first + i] += squares[i];
      }
    }
  }
  return sums;
}

int rows_at_once(const PlaneSize& size) {
  const auto cells = static_cast<std::int64_t>(size.cells());
  return static_cast<int>(std::clamp<std::int64_t>(kMostShares / cells, 1, cells));
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

Convolution::Convolution(const VqTensors& tensors, const std::string& name, const PlaneSize& in,
                         ConvolutionKind kind)
    : kind_(kind), in_(in), out_(in) {
  const bool keeps_sides = kind == ConvolutionKind::same || kind == ConvolutionKind::adding;
  const std::vector<std::int64_t> shape = tensors.shape(name + ".weight");
  const bool known = shape.size() == 4 && shape[0] >= 1 && shape[0] <= kMostChannels &&
                     shape[1] == in.channels && shape[2] == shape[3] &&
                     (shape[2] == 3 || (shape[2] == 1 && keeps_sides));
  if (!known) {
    tensors.refuse(
        name + ".weight",
        fmt::format("[channels, {}, {}, as many]", in.channels, keeps_sides ? "1 or 3" : "3"),
        fmt::format("[{}]", fmt::join(shape, ", ")));
  }
  out_.channels = static_cast<int>(shape[0]);
  if (kind == ConvolutionKind::halving) out_ = {in.rows / 2, in.columns / 2, out_.channels};
  if (kind == ConvolutionKind::doubling) out_ = {2 * in.rows, 2 * in.columns, out_.channels};
  const std::vector<float> weight = tensors.values(name + ".weight", shape);
  std::vector<float> bias = tensors.values(name + ".bias", {shape[0]});
  state_ = compile(name, [&](OneDnnState& s) {
    s.in = form_of(in_);
    s.out = form_of(out_);
    if (kind == ConvolutionKind::doubling) {
      plan_doubling(s, shape, weight);
    } else {
      plan_convolution(s, kind, shape, weight);
    }
    s.bias_values = std::move(bias);
    s.bias = s.at(s.bias_form, s.bias_values.data());
  });
}

Plane Convolution::operator()(const Plane& in) const {
  expects(kind_ != ConvolutionKind::adding, "a convolution that does not add");
  Plane out = in.like(out_);
  run(in, out);
  return out;
}

void Convolution::add(const Plane& in, Plane& sum) const {
  expects(kind_ == ConvolutionKind::adding, "a convolution that adds");
  run(in, sum);
}

void Convolution::run(const Plane& in, Plane& out) const {
  expects(in.size() == in_ && out.size() == out_, "planes of the sizes that it was made for");
  OneDnnState& s = *state_;
  const dnnl::memory to = s.at(s.out, out.values().data());
  s.run({{DNNL_ARG_SRC, s.at(s.in, in.values().data())},
         {DNNL_ARG_WEIGHTS, s.weight},
         {DNNL_ARG_BIAS, s.bias},
         {DNNL_ARG_DST, to}});
  if (!s.bias_adder) return;
  s.bias_adder.execute(s.stream,
                       {{DNNL_ARG_SRC_0, to}, {DNNL_ARG_SRC_1, s.bias}, {DNNL_ARG_DST, to}});
  s.stream.wait();
}

GroupNorm::GroupNorm(const VqTensors& tensors, const std::string& name, const PlaneSize& size,
                     bool silu)
    : weight_(tensors.values(name + ".weight", {size.channels})),
      bias_(tensors.values(name + ".bias", {size.channels})) {
  if (size.channels % kGroups != 0) {
    tensors.refuse(name + ".weight", fmt::format("a multiple of {} channels", kGroups),
                   fmt::to_string(size.channels));
  }
  state_ = compile(name, [&](OneDnnState& s) {
    const Dims step(2, 1), around(2, 0);
    dnnl::post_ops after;
    if (silu) after.append_eltwise(1, dnnl::algorithm::eltwise_swish, 1, 0);
    s.in = s.out = form_of(size);
    s.bias_form = floats({size.channels}, Format::x);
    const auto plan = s.plan<dnnl::convolution_forward>(
        {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, s.in,
         floats({size.channels, 1, 1, 1, 1}, Format::any), s.bias_form, s.out, step, around,
         around},
        after);
    s.weight_form = plan.weights_desc();
    expects(s.weight_form.get_size() == weight_.size() * sizeof(float), "factors in a row");
  });
}

GroupNorm::Map GroupNorm::map_of(const Plane& in) const {
  const ChannelSums sums = sums_of(in);
  const std::size_t channels = weight_.size(), width = channels / kGroups;
  const double count = static_cast<double>(in.size().cells()) * static_cast<double>(width);
  Map map{std::vector<float>(channels), std::vector<float>(channels)};
  for (std::size_t first = 0; first < channels; first += width) {
    double total = 0, total_squares = 0;
    for (std::size_t c = first; c < first + width; ++c) {
      total += sums.values[c];
      total_squares += sums.squares[c];
    }
    const double mean = total / count;
    const double variance = std::max(0.0, total_squares / count - mean * mean);
    const double scale = 1 / std::sqrt(variance + kEpsilon);
    for (std::size_t c = first; c < first + width; ++c) {
      map.factor[c] = static_cast<float>(scale * weight_[c]);
      map.shift[c] = static_cast<float>(bias_[c] - mean * scale * weight_[c]);
    }
  }
  return map;
}

Plane GroupNorm::operator()(const Plane& in) const {
  const Map map = map_of(in);
  Plane out = in.like(in.size());
  OneDnnState& s = *state_;
  s.run({{DNNL_ARG_SRC, s.at(s.in, in.values().data())},
         {DNNL_ARG_WEIGHTS, s.at(s.weight_form, map.factor.data())},
         {DNNL_ARG_BIAS, s.at(s.bias_form, map.shift.data())},
         {DNNL_ARG_DST, s.at(s.out, out.values().data())}});
  return out;
}

ResidualBlock::ResidualBlock(const VqTensors& tensors, const std::string& name, const PlaneSize& in)
    : first_norm_(tensors, name + ".norm1", in, true),
      first_(tensors, name + ".conv1", in),
      second_norm_(tensors, name + ".norm2", first_.out(), true),
      second_(tensors, name + ".conv2", first_.out(), ConvolutionKind::adding) {
  const std::string shortcut = name + ".nin_shortcut";
  if (in != second_.out() || tensors.has(shortcut + ".weight"))
    shortcut_ = std::make_unique<Convolution>(tensors, shortcut, in);
  if (shortcut_ && shortcut_->out() != second_.out()) {
    tensors.refuse(shortcut + ".weight", fmt::format("{} channels out", second_.out().channels),
                   fmt::to_string(shortcut_->out().channels));
  }
}

Plane ResidualBlock::operator()(Plane x) const {
  Plane hidden = first_(first_norm_(x));
  hidden = second_norm_(hidden);
  Plane sum = shortcut_ ? (*shortcut_)(x) : std::move(x);
  second_.add(hidden, sum);
  return sum;
}

CellAttention::CellAttention(const VqTensors& tensors, const std::string& name,
                             const PlaneSize& size)
    : norm_(tensors, name + ".norm", size, false),
      q_(tensors, name + ".q", size),
      k_(tensors, name + ".k", size),
      v_(tensors, name + ".v", size),
      out_(tensors, name + ".proj_out", size, ConvolutionKind::adding) {
  for (const Convolution* part : {&q_, &k_, &v_, &out_}) {
    if (part->out() == size) continue;
    tensors.refuse(name, fmt::format("{} channels of q, k, v and proj_out", size.channels),
                   fmt::to_string(part->out().channels));
  }
  softmax_ = compile(name, [&](OneDnnState& s) {
    s.in = floats({rows_at_once(size), static_cast<std::int64_t>(size.cells())}, Format::ab);
    s.plan<dnnl::softmax_forward>({dnnl::prop_kind::forward_inference, s.in, 1});
  });
}

std::size_t CellAttention::values_at_once(const PlaneSize& size) {
  constexpr std::size_t kPlanes = 5;  // x, normed, q, k, v
  return kPlanes * size.values() + static_cast<std::size_t>(rows_at_once(size)) * size.cells();
}

Plane CellAttention::operator()(Plane x) const {
  const Plane normed = norm_(x), k = k_(normed), v = v_(normed);
  Plane q = q_(normed);
  const auto cells = static_cast<std::int64_t>(x.size().cells());
  const std::int64_t width = x.size().channels, most = rows_at_once(x.size());
  Plane shares = x.like({static_cast<int>(most), static_cast<int>(cells), 1});
  const dnnl::memory scores = softmax_->at(softmax_->in, shares.values().data());
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width)));
  for (std::int64_t first = 0; first < cells; first += most) {
    const std::int64_t rows = std::min(most, cells - first);
    float* const own = q.values().data() + first * width;  // queries, then what they attend to
    multiply(true, rows, cells, width, scale, own, k.values().data(), shares.values().data());
    softmax_->run({{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, scores}});  // of rows of before, too
    multiply(false, rows, width, cells, 1, shares.values().data(), v.values().data(), own);
  }
  out_.add(q, x);
  return x;
}

}  // namespace talon
