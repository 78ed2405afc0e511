#include "draft/weight_reader.h"

#include <vector>

#include "core/error.h"
#include "io/quote.h"
#include "model/finite.h"

namespace talon {
namespace {

bool is_float(StorageType type) {
  return type == StorageType::f32 || type == StorageType::f16 || type == StorageType::bf16 ||
         type == StorageType::f64;
}

}  // namespace

WeightReader::WeightReader(const HeadTensors& tensors, Backend& backend)
    : tensors_(tensors), backend_(backend), pool_(backend.threads(), /*pin=*/false) {}

const StoredTensor& WeightReader::checked(std::string_view name) {
  const StoredTensor& tensor = tensors_.require(name);
  if (!is_float(tensor.type)) {
    fail("{}: {}: expected f32, f16, bf16 or f64, found {}", tensors_.doing(), quote(tensor.name),
         name_of(tensor.type));
  }
  if (const auto value = find_not_finite(tensor.type, tensor.bytes, pool_)) {
    fail("{}: {}: expected finite values, found NaN or infinity at value {}", tensors_.doing(),
         quote(tensor.name), *value);
  }
  return tensor;
}

std::unique_ptr<Weight> WeightReader::matrix(std::string_view name, WeightLayout layout) {
  const StoredTensor& tensor = checked(name);
  return backend_.load_weight({tensor.name, tensor.type, static_cast<int>(tensor.shape[0]),
                               static_cast<int>(tensor.shape[1]), tensor.bytes},
                              layout);
}

Buffer WeightReader::vector(std::string_view name, bool present) {
  if (!present) return {};
  const StoredTensor& tensor = checked(name);
  std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
  dequantize(tensor.type, tensor.bytes, values);
  return upload(values, 1, static_cast<int>(values.size()));
}

Buffer WeightReader::upload(std::span<const float> values, int rows, int cols) {
  auto buffer = backend_.allocate(rows, cols);
  backend_.upload(values, buffer.view());
  return buffer;
}

}  // namespace talon
