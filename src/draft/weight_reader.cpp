#include "draft/weight_reader.h"

#include <vector>

#include "core/error.h"
#include "io/quote.h"
#include "io/tensor_layout.h"
#include "model/finite.h"

namespace talon {

WeightReader::WeightReader(const HeadTensors& tensors, Backend& backend)
    : tensors_(tensors), backend_(backend), pool_(backend.threads(), /*pin=*/false) {}

const StoredTensor& WeightReader::checked(std::string_view name) {
  const StoredTensor& tensor = tensors_.require(name);
  if (!holds_reals(tensor.type)) {
    fail("{}: {}: expected floating-point numbers or blocks of them, found {}", tensors_.doing(),
         quote(tensor.name), name_of(tensor.type));
  }
  if (const auto value = find_not_finite(tensor.type, tensor.bytes, pool_)) {
    fail("{}: {}: expected finite values, found NaN or infinity at value {}", tensors_.doing(),
         quote(tensor.name), *value);
  }
  return tensor;
}

std::unique_ptr<Weight> WeightReader::matrix(std::string_view name, WeightLayout layout,
                                             std::span<const std::int32_t> row_order) {
  const StoredTensor& tensor = checked(name);
  return backend_.load_weight({tensor.name, tensor.type, static_cast<int>(tensor.shape[0]),
                               static_cast<int>(tensor.shape[1]), tensor.bytes, row_order},
                              layout);
}

Buffer WeightReader::vector(std::string_view name, bool present,
                            std::span<const std::int32_t> order) {
  if (!present) return {};
  const StoredTensor& tensor = checked(name);
  std::size_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  dequantize(tensor.type, tensor.bytes, values);
  if (!order.empty()) {
    const std::vector<float> stored = values;
    values.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      values[i] = stored[static_cast<std::size_t>(order[i])];
  }
  return upload(values, 1, static_cast<int>(values.size()));
}

Buffer WeightReader::upload(std::span<const float> values, int rows, int cols) {
  auto buffer = backend_.allocate(rows, cols);
  backend_.upload(values, buffer.view());
  return buffer;
}

}  // namespace talon
