#include "model/load/tensor_loader.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "io/tensor_layout.h"
#include "model/finite.h"

namespace talon {

TensorLoader::TensorLoader(const Checkpoint& checkpoint, Backend& backend,
                           const LoadOptions& options)
    : checkpoint_(checkpoint),
      backend_(backend),
      options_(options),
      pool_(backend.threads(), /*pin=*/false) {
  if (checkpoint.format != CheckpointFormat::hugging_face) return;
  quantization_ = read_quantization(ConfigKeys(checkpoint.metadata, checkpoint.path.string()));
}

const StoredTensor& TensorLoader::checked(const std::string& name,
                                          const std::vector<std::int64_t>& shape) {
  const StoredTensor& tensor = checkpoint_.require(name);
  const std::string where = checkpoint_.path.string();
  if (!holds_reals(tensor.type)) {
    fail("load {} \"{}\": expected a floating-point or quantised type, found {}", where, name,
         name_of(tensor.type));
  }
  if (tensor.shape != shape) {
    fail("load {} \"{}\": expected [{}], found [{}]", where, name, fmt::join(shape, ", "),
         fmt::join(tensor.shape, ", "));
  }
  if (checked_.contains(name)) return tensor;
  const BlockShape block = block_shape(tensor.type);
  const auto cols = static_cast<std::size_t>(shape.empty() ? 1 : shape.back());
  if (cols % block.elements != 0) {
    fail("load {} \"{}\": expected rows of whole {} blocks of {}, found {} columns", where, name,
         name_of(tensor.type), block.elements, cols);
  }
  if (const auto value = find_not_finite(tensor.type, tensor.bytes, pool_)) {
    fail("load {} \"{}\": expected finite values, found NaN or infinity in row {} at column {}",
         where, name, *value / cols, *value % cols);
  }
  checked_.insert(name);
  read_.insert(name);
  if (options_.progress) options_.progress(checked_.size(), checkpoint_.tensors.size());
  return tensor;
}

std::unique_ptr<Weight> TensorLoader::load(const StoredMatrix& matrix, WeightLayout layout) {
  auto weight = backend_.load_weight(matrix, layout);
  weight_bytes_ += weight->bytes;
  return weight;
}

std::unique_ptr<Weight> TensorLoader::matrix(const std::string& name, int rows, int cols,
                                             const StoredRows& part) {
  return matrix_of_stack(name, 0, 0, rows, cols, part);
}

std::unique_ptr<Weight> TensorLoader::matrix_of_stack(const std::string& name, int count, int index,
                                                      int rows, int cols, const StoredRows& part) {
  return load(stored(name, count, index, rows, cols, part), options_.layout);
}

bool TensorLoader::make(const std::string& name, const StackedMatrix& place) {
  if (!quantization_) return false;
  const std::size_t first =
      static_cast<std::size_t>(place.index) * static_cast<std::size_t>(place.rows);
  if (made_name_ == name && made_first_ == first) return true;
  auto made = place.count == 0
                  ? make_quantized(checkpoint_, *quantization_, name, place.rows, place.cols)
                  : make_quantized_of_stack(checkpoint_, *quantization_, name, place);
  if (!made) return false;
  const auto width = static_cast<std::size_t>(place.cols);
  if (const auto value = find_not_finite(made->type, made->bytes, pool_)) {
    fail(
        "load {} \"{}\": expected products of codes and scales below 3.4e38, found a larger one in "
        "row {} at column {}",
        checkpoint_.path.string(), name, first + *value / width, *value % width);
  }
  made_ = std::move(*made);
  made_name_ = name;
  made_first_ = first;
  return true;
}

/// Of matrix `index` of a stack, or of all of it; of the only matrix where `count` is 0.
std::optional<float> TensorLoader::factor_of(const std::string& name, int count, int index) {
  const StoredTensor* factor = factor_beside(checkpoint_, name);
  if (!factor) return std::nullopt;
  const bool of_all = count == 0 || factor->shape == std::vector<std::int64_t>{1};
  const std::vector<float> all = values(factor->name, {of_all ? 1 : count});
  return all[of_all ? 0 : static_cast<std::size_t>(index)];
}

/// Puts together rows [first, first + rows) of a stored tensor, times `factor`. Parts of a matrix
/// are asked for one after the other.
void TensorLoader::multiply(const StoredTensor& tensor, std::size_t first, std::size_t rows,
                            float factor) {
  if (made_name_ == tensor.name && made_first_ == first) return;
  const auto cols = static_cast<std::size_t>(tensor.shape.back());
  const BlockShape block = block_shape(tensor.type);
  const std::size_t row_bytes = cols / block.elements * block.bytes;
  std::vector<float> values(rows * cols);
  dequantize(tensor.type, tensor.bytes.subspan(first * row_bytes, rows * row_bytes), values);
  for (float& value : values) value *= factor;
  const auto bytes = std::as_bytes(std::span(values));
  if (const auto value = find_not_finite(StorageType::f32, bytes, pool_)) {
    fail(
        "load {} \"{}\": expected products with its factor below 3.4e38, found a larger one in row "
        "{} at column {}",
        checkpoint_.path.string(), tensor.name, first + *value / cols, *value % cols);
  }
  made_.type = StorageType::f32;
  made_.bytes.assign(bytes.begin(), bytes.end());
  made_name_ = tensor.name;
  made_first_ = first;
}

/// A matrix that only lies there in parts which no configuration explains.
void TensorLoader::refuse_parts_of(const std::string& name) const {
  if (checkpoint_.find(name) || !name.ends_with(".weight")) return;
  for (const char* part : {"qweight", "weight_packed"}) {
    const std::string found = name.substr(0, name.size() - 6) + part;
    if (!checkpoint_.find(found)) continue;
    fail(
        "load {} \"{}\": expected this matrix, or parts of it that \"quantization_config\" in "
        "config.json explains, found \"{}\"",
        checkpoint_.path.string(), name, found);
  }
}

StoredMatrix TensorLoader::stored_matrix(const std::string& name, const StackedMatrix& place) {
  read_.insert(name);
  const auto matrix = [&](StorageType type, std::span<const std::byte> bytes) -> StoredMatrix {
    return {name, type, place.rows, place.cols, bytes};
  };
  if (make(name, place)) return matrix(made_.type, made_.bytes);
  refuse_parts_of(name);
  const StoredTensor& tensor = place.count > 0
                                   ? checked(name, {place.count, place.rows, place.cols})
                                   : checked(name, {place.rows, place.cols});
  const auto rows = static_cast<std::size_t>(place.rows);
  const std::size_t first = static_cast<std::size_t>(place.index) * rows;
  if (const auto factor = factor_of(name, place.count, place.index)) {
    multiply(tensor, first, rows, *factor);
    return matrix(made_.type, made_.bytes);
  }
  const BlockShape block = block_shape(tensor.type);
  const std::size_t row_bytes = static_cast<std::size_t>(place.cols) / block.elements * block.bytes;
  return matrix(tensor.type, tensor.bytes.subspan(first * row_bytes, rows * row_bytes));
}

StoredMatrix TensorLoader::stored(const std::string& name, int count, int index, int rows, int cols,
                                  const StoredRows& part) {
  const int all = part.stored > 0 ? part.stored : rows;
  StoredMatrix matrix = stored_matrix(name, {count, index, all, cols});
  const BlockShape block = block_shape(matrix.type);
  const std::size_t row_bytes = static_cast<std::size_t>(cols) / block.elements * block.bytes;
  const int taken = part.order.empty() ? rows : all - part.first;
  matrix.rows = rows;
  matrix.bytes = matrix.bytes.subspan(static_cast<std::size_t>(part.first) * row_bytes,
                                      static_cast<std::size_t>(taken) * row_bytes);
  matrix.row_order = part.order;
  return matrix;
}

std::unique_ptr<Weight> TensorLoader::float_matrix(const std::string& name, int rows, int cols,
                                                   const StoredRows& part) {
  return load(stored(name, 0, 0, rows, cols, part), WeightLayout::f32);
}

std::unique_ptr<Weight> TensorLoader::made_matrix(const StoredMatrix& matrix) {
  return load(matrix, options_.layout);
}

std::unique_ptr<Weight> TensorLoader::made_float_matrix(const StoredMatrix& matrix) {
  return load(matrix, WeightLayout::f32);
}

std::vector<float> TensorLoader::values(const std::string& name, std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  const StoredTensor& tensor = checked(name, shape);
  std::vector<float> values(count);
  dequantize(tensor.type, tensor.bytes, values);
  return values;
}

Buffer TensorLoader::vector(const std::string& name, int size, const StoredRows& part, float add) {
  const std::vector<float> stored = values(name, {part.stored > 0 ? part.stored : size});
  std::vector<float> taken(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::size_t from = part.order.empty() ? i : static_cast<std::size_t>(part.order[i]);
    taken[i] = stored[static_cast<std::size_t>(part.first) + from] + add;
  }
  return upload(taken, 1, size);
}

Buffer TensorLoader::upload(std::span<const float> values, int rows, int cols) {
  auto buffer = backend_.allocate(rows, cols);
  backend_.upload(values, buffer.view());
  return buffer;
}

void TensorLoader::report_end() {
  const std::size_t all = checkpoint_.tensors.size();
  if (options_.progress && checked_.size() < all) options_.progress(all, all);
}

}  // namespace talon
