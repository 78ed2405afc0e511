#include "train/image/network/picture_functions.h"

#include <ATen/Parallel.h>
#include <torch/csrc/api/include/torch/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <memory>
#include <vector>

#include "train/image/network/attention_kernel.h"
#include "train/image/network/group_norm_kernel.h"

namespace talon {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Convolve : Function<Convolve> {
  static Tensor forward(AutogradContext* ctx, Tensor x, Tensor value, Tensor bias, Tensor low,
                        Tensor low_bias, std::int64_t stride, std::int64_t padding) {
    static_cast<void>(bias);
    ctx->save_for_backward({x, low});
    ctx->saved_data["type"] = static_cast<std::int64_t>(value.scalar_type());
    ctx->saved_data["stride"] = stride;
    ctx->saved_data["padding"] = padding;
    return at::conv2d(x, low, low_bias, stride, padding);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &low = saved[1];
    const std::int64_t stride = ctx->saved_data["stride"].toInt();
    const std::int64_t padding = ctx->saved_data["padding"].toInt();
    const auto type = static_cast<torch::ScalarType>(ctx->saved_data["type"].toInt());
    const auto [dx, dweight, dbias] =
        at::convolution_backward(grads[0].contiguous(), x, low, at::IntArrayRef{low.size(0)},
                                 {stride, stride}, {padding, padding}, {1, 1}, /*transposed=*/false,
                                 {0, 0}, /*groups=*/1, {ctx->needs_input_grad(0), true, true});
    return {dx, dweight.to(type), dbias.to(type), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

/// Calls `kernel` with 0 .. count - 1, as numbers of type T and their sums' type.
template <typename T, typename Wide, typename Kernel>
void each_of(std::int64_t count, const Kernel& kernel) {
  at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) kernel(i, T{}, Wide{});
  });
}
template <typename Kernel>
void by_type(torch::ScalarType type, std::int64_t count, const Kernel& kernel) {
  if (type == torch::kBFloat16) return each_of<Bf16, float>(count, kernel);
  if (type == torch::kFloat) return each_of<float, float>(count, kernel);
  return each_of<double, double>(count, kernel);
}

GroupNormSizes sizes_of(const Tensor& x, std::int64_t groups, double epsilon, bool silu) {
  return {x.size(0), groups, x.size(1) / groups, x.size(2) * x.size(3), epsilon, silu};
}

/// Saves its input and what the groups were divided by: all else is made again for the gradient.
struct GroupNormed : Function<GroupNormed> {
  static Tensor forward(AutogradContext* ctx, Tensor x, Tensor weight, Tensor bias,
                        std::int64_t groups, double epsilon, bool silu) {
    const GroupNormSizes sizes = sizes_of(x, groups, epsilon, silu);
    const Tensor y = at::empty_like(x);
    const Tensor mean = at::empty({sizes.batch * groups}, weight.options());
    const Tensor scale = at::empty_like(mean);
    by_type(x.scalar_type(), sizes.batch * groups,
            [&]<typename T, typename Wide>(std::int64_t i, T, Wide) {
              const std::int64_t at = i * sizes.channels * sizes.cells,
                                 c = i % groups * sizes.channels;
              std::vector<Wide> room(static_cast<std::size_t>(sizes.channels * sizes.cells));
              normalise_group(static_cast<const T*>(x.data_ptr()) + at,
                              static_cast<T*>(y.data_ptr()) + at, weight.data_ptr<Wide>() + c,
                              bias.data_ptr<Wide>() + c, sizes, mean.data_ptr<Wide>()[i],
                              scale.data_ptr<Wide>()[i], room.data());
            });
    ctx->save_for_backward({x, weight, bias, mean, scale});
    ctx->saved_data["groups"] = groups;
    ctx->saved_data["silu"] = silu;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3],
                 &scale = saved[4];
    const Tensor dy = grads[0].contiguous();
    const std::int64_t groups = ctx->saved_data["groups"].toInt();
    const GroupNormSizes sizes = sizes_of(x, groups, 0, ctx->saved_data["silu"].toBool());
    const Tensor dx = at::empty_like(x);
    const Tensor dweight = at::empty({sizes.batch, weight.numel()}, weight.options());
    const Tensor dbias = at::empty_like(dweight);
    by_type(x.scalar_type(), sizes.batch * groups,
            [&]<typename T, typename Wide>(std::int64_t i, T, Wide) {
              const std::int64_t count = sizes.channels * sizes.cells,
                                 c = i % groups * sizes.channels;
              std::vector<Wide> room(static_cast<std::size_t>(2 * count));
              normalise_group_backward(static_cast<const T*>(x.data_ptr()) + i * count,
                                       static_cast<const T*>(dy.data_ptr()) + i * count,
                                       static_cast<T*>(dx.data_ptr()) + i * count,
                                       weight.data_ptr<Wide>() + c, bias.data_ptr<Wide>() + c,
                                       sizes, mean.data_ptr<Wide>()[i], scale.data_ptr<Wide>()[i],
                                       dweight.data_ptr<Wide>() + i * sizes.channels,
                                       dbias.data_ptr<Wide>() + i * sizes.channels, room.data());
            });
    return {dx, dweight.sum(0), dbias.sum(0), Tensor(), Tensor(), Tensor()};
  }
};

struct DoubleSize : Function<DoubleSize> {
  static Tensor forward(AutogradContext*, Tensor x) {
    const std::int64_t b = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
    return x.view({b, c, h, 1, w, 1}).expand({b, c, h, 2, w, 2}).reshape({b, c, 2 * h, 2 * w});
  }
  static variable_list backward(AutogradContext*, variable_list grads) {
    const Tensor dy = grads[0].contiguous();
    return {dy.view({dy.size(0), dy.size(1), dy.size(2) / 2, 2, dy.size(3) / 2, 2}).sum({3, 5})};
  }
};

/// Where the numbers of one head of one picture lie.
struct HeadPlaces {
  AttentionSizes sizes;
  std::int64_t heads, pictures;

  HeadPlaces(const Tensor& qkv, const Tensor& cosine, std::int64_t head_dim)
      : sizes{cosine.size(0), head_dim, qkv.size(1), qkv.size(1) / 3},
        heads(qkv.size(1) / 3 / head_dim),
        pictures(qkv.size(0) / cosine.size(0)) {}

  std::int64_t query(std::int64_t i) const {
    return i / heads * sizes.rows * sizes.stride + i % heads * sizes.width;
  }
  std::int64_t key(std::int64_t i) const { return query(i) + sizes.out_stride; }
  std::int64_t value(std::int64_t i) const { return key(i) + sizes.out_stride; }
  std::int64_t out(std::int64_t i) const {
    return i / heads * sizes.rows * sizes.out_stride + i % heads * sizes.width;
  }
  std::vector<std::int64_t> log_sums() const { return {pictures * heads, sizes.rows}; }
  template <typename Wide>
  std::unique_ptr<Wide[]> room() const {
    return std::make_unique_for_overwrite<Wide[]>(static_cast<std::size_t>(attention_room(sizes)));
  }
};

/// Saves its input, its result and the sums of the softmax: all else is made again.
struct AttendPictures : Function<AttendPictures> {
  static Tensor forward(AutogradContext* ctx, Tensor qkv, Tensor cosine, Tensor sine,
                        std::int64_t head_dim) {
    const HeadPlaces places(qkv, cosine, head_dim);
    const Tensor out = at::empty({qkv.size(0), places.sizes.out_stride}, qkv.options());
    const Tensor log_sums = at::empty(places.log_sums(), cosine.options());
    by_type(qkv.scalar_type(), places.pictures * places.heads,
            [&]<typename T, typename Wide>(std::int64_t i, T, Wide) {
              const T* from = static_cast<const T*>(qkv.data_ptr());
              const auto room = places.room<Wide>();
              attend_head(from + places.query(i), from + places.key(i), from + places.value(i),
                          static_cast<T*>(out.data_ptr()) + places.out(i),
                          log_sums.data_ptr<Wide>() + i * places.sizes.rows,
                          cosine.data_ptr<Wide>(), sine.data_ptr<Wide>(), places.sizes, room.get());
            });
    ctx->save_for_backward({qkv, cosine, sine, out, log_sums});
    ctx->saved_data["head_dim"] = head_dim;
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &qkv = saved[0], &cosine = saved[1], &sine = saved[2], &out = saved[3],
                 &log_sums = saved[4];
    const HeadPlaces places(qkv, cosine, ctx->saved_data["head_dim"].toInt());
    const Tensor dout = grads[0].contiguous(), dqkv = at::empty_like(qkv);
    by_type(qkv.scalar_type(), places.pictures * places.heads,
            [&]<typename T, typename Wide>(std::int64_t i, T, Wide) {
              const T* from = static_cast<const T*>(qkv.data_ptr());
              T* to = static_cast<T*>(dqkv.data_ptr());
              const auto room = places.room<Wide>();
              attend_head_backward(
                  from + places.query(i), from + places.key(i), from + places.value(i),
                  static_cast<const T*>(out.data_ptr()) + places.out(i),
                  static_cast<const T*>(dout.data_ptr()) + places.out(i), to + places.query(i),
                  to + places.key(i), to + places.value(i),
                  static_cast<const Wide*>(log_sums.data_ptr<Wide>()) + i * places.sizes.rows,
                  static_cast<const Wide*>(cosine.data_ptr<Wide>()),
                  static_cast<const Wide*>(sine.data_ptr<Wide>()), places.sizes, room.get());
            });
    return {dqkv, Tensor(), Tensor(), Tensor()};
  }
};

struct Drop : Function<Drop> {
  static Tensor forward(AutogradContext* ctx, Tensor x, double share, std::int64_t seed) {
    ctx->saved_data["share"] = share;
    ctx->saved_data["seed"] = seed;
    return dropped(x, share, seed);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {dropped(grads[0].contiguous(), ctx->saved_data["share"].toDouble(),
                    ctx->saved_data["seed"].toInt()),
            Tensor(), Tensor()};
  }
  static Tensor dropped(const Tensor& x, double share, std::int64_t seed) {
    constexpr std::int64_t kPart = 1 << 15;
    constexpr double kChances = 1 << 16;
    const double least = std::round(share * kChances);
    const Tensor y = at::empty_like(x);
    by_type(x.scalar_type(), (x.numel() + kPart - 1) / kPart,
            [&]<typename T, typename Wide>(std::int64_t i, T, Wide) {
              const std::int64_t first = i * kPart, count = std::min(kPart, x.numel() - first);
              drop_numbers(static_cast<const Wide*>(x.data_ptr<Wide>()) + first,
                           y.data_ptr<Wide>() + first, first, count,
                           static_cast<std::uint32_t>(least),
                           static_cast<Wide>(kChances / (kChances - least)),
                           static_cast<std::uint64_t>(seed));
            });
    return y;
  }
};

}  // namespace

Tensor convolve(const Tensor& x, const Parameter& weight, const Parameter& bias,
                std::int64_t stride, std::int64_t padding) {
  return Convolve::apply(x, weight.value, bias.value, weight.low, bias.low, stride, padding);
}

Tensor group_norm(const Tensor& x, const GroupNorm& norm) {
  return GroupNormed::apply(x.contiguous(), norm.weight.value, norm.bias.value, norm.groups,
                            norm.epsilon, norm.silu);
}

Tensor double_size(const Tensor& x) { return DoubleSize::apply(x.contiguous()); }

Tensor attend_pictures(const Tensor& qkv, const Tensor& cosine, const Tensor& sine,
                       std::int64_t head_dim) {
  return AttendPictures::apply(qkv.contiguous(), cosine, sine, head_dim);
}

Tensor drop(const Tensor& x, double share, std::uint64_t seed) {
  if (share <= 0) return x;
  return Drop::apply(x.contiguous(), share, static_cast<std::int64_t>(seed));
}

}  // namespace talon
