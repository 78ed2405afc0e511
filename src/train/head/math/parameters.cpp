#include "train/head/math/parameters.h"

#include <algorithm>

#include "core/error.h"
#include "train/head/math/rounding.h"

namespace talon {
namespace {

std::int64_t size_of(const std::vector<std::int64_t>& shape) {
  std::int64_t size = 1;
  for (const std::int64_t dimension : shape) size *= dimension;
  return size;
}

}  // namespace

ParameterStore::ParameterStore(const std::vector<Shape>& shapes, torch::ScalarType wide,
                               torch::ScalarType low, torch::Device device, bool rounds)
    : rounds_(rounds) {
  std::int64_t count = 0;
  for (const auto& [name, shape] : shapes) {
    names_.push_back(name);
    shapes_.push_back(shape);
    offsets_.push_back(count);
    count += size_of(shape);
  }
  const auto options = torch::TensorOptions().device(device);
  values_ = torch::zeros({count}, options.dtype(wide));
  gradients_ = torch::zeros({count}, options.dtype(wide));
  low_ = low == wide && !rounds ? values_ : torch::zeros({count}, options.dtype(low));
  for (const std::string& name : names_) {
    Parameter parameter{part(values_, name).detach().requires_grad_(), part(low_, name).detach()};
    parameter.value.mutable_grad() = part(gradients_, name);
    parameters_.push_back(std::move(parameter));
  }
}

std::size_t ParameterStore::index_of(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  expects(found != names_.end(), "a parameter of that name");
  return static_cast<std::size_t>(found - names_.begin());
}

bool ParameterStore::has(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

const Parameter& ParameterStore::operator[](std::string_view name) const {
  return parameters_[index_of(name)];
}

torch::Tensor ParameterStore::part(const torch::Tensor& flat, std::string_view name) const {
  const std::size_t i = index_of(name);
  return flat.narrow(0, offsets_[i], size_of(shapes_[i])).view(shapes_[i]);
}

void ParameterStore::set(std::string_view name, const torch::Tensor& value) {
  const torch::NoGradGuard no_gradient;
  part(values_, name).copy_(value);
}

void ParameterStore::refresh_low() {
  const torch::NoGradGuard no_gradient;
  if (!low_.is_same(values_)) low_.copy_(values_);
  if (!rounds_) return;
  for (const std::string& name : names_) {
    const torch::Tensor value = part(values_, name);
    if (value.dim() == 2) part(low_, name).copy_(rounded_to_int4(value));
  }
}

}  // namespace talon
