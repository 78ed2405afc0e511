#include "train/image/network/picture_functions.h"

#include <ATen/Parallel.h>
#include <torch/csrc/api/include/torch/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

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

/// Calls `kernel` with each group of a batch as numbers of type T and their sums' type.
template <typename T, typename Wide, typename Kernel>
void each_group(const GroupNormSizes& sizes, const Kernel& kernel) {
  at::parallel_for(0, sizes.batch * sizes.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) kernel(i, T{}, Wide{});
  });
}
template <typename Kernel>
void by_type(torch::ScalarType type, const GroupNormSizes& sizes, const Kernel& kernel) {
  if (type == torch::kBFloat16) return each_group<Bf16, float>(sizes, kernel);
  if (type == torch::kFloat) return each_group<float, float>(sizes, kernel);
  return each_group<double, double>(sizes, kernel);
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
    by_type(x.scalar_type(), sizes, [&]<typename T, typename Wide>(std::int64_t i, T, Wide) {
      const std::int64_t at = i * sizes.channels * sizes.cells, c = i % groups * sizes.channels;
      std::vector<Wide> room(static_cast<std::size_t>(sizes.channels * sizes.cells));
      normalise_group(static_cast<const T*>(x.data_ptr()) + at, static_cast<T*>(y.data_ptr()) + at,
                      weight.data_ptr<Wide>() + c, bias.data_ptr<Wide>() + c, sizes,
                      mean.data_ptr<Wide>()[i], scale.data_ptr<Wide>()[i], room.data());
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
    by_type(x.scalar_type(), sizes, [&]<typename T, typename Wide>(std::int64_t i, T, Wide) {
      const std::int64_t count = sizes.channels * sizes.cells, c = i % groups * sizes.channels;
      std::vector<Wide> room(static_cast<std::size_t>(2 * count));
      normalise_group_backward(static_cast<const T*>(x.data_ptr()) + i * count,
                               static_cast<const T*>(dy.data_ptr()) + i * count,
                               static_cast<T*>(dx.data_ptr()) + i * count,
                               weight.data_ptr<Wide>() + c, bias.data_ptr<Wide>() + c, sizes,
                               mean.data_ptr<Wide>()[i], scale.data_ptr<Wide>()[i],
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

}  // namespace talon
