#include "model/load/quantized/matrix_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "io/tensor_layout.h"

namespace talon {
namespace {

std::size_t elements_of(const TensorShape& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

bool is_plain_float(StorageType type) {
  return type == StorageType::f16 || type == StorageType::bf16 || type == StorageType::f32 ||
         type == StorageType::f8_e4m3;
}

/// That of the tensor where it is listed, else the first.
const TensorShape& shape_among(const std::vector<TensorShape>& shapes, const StoredTensor& tensor) {
  const auto known = std::ranges::find(shapes, tensor.shape);
  return known == shapes.end() ? shapes[0] : *known;
}

}  // namespace

MatrixParts::MatrixParts(const Checkpoint& folder, std::string stem)
    : folder_(folder), stem_(std::move(stem)) {}

bool MatrixParts::has(std::string_view part) const {
  return folder_.find(stem_ + std::string(part)) != nullptr;
}

const StoredTensor& MatrixParts::require(std::string_view part) const {
  return folder_.require(stem_ + std::string(part));
}

std::string MatrixParts::place_of(std::string_view part) const {
  return fmt::format("{} \"{}{}\"", folder_.path.string(), stem_, part);
}

void MatrixParts::refuse(std::string_view part, std::string_view expected,
                         std::string_view found) const {
  fail("load {}: expected {}, found {}", place_of(part), expected, found);
}

void MatrixParts::refuse(std::string_view expected, long found) const {
  refuse("weight", expected, std::to_string(found));
}

const StoredTensor& MatrixParts::tensor(std::string_view part, const TensorShape& shape) const {
  const StoredTensor& found = require(part);
  if (found.shape != shape) {
    refuse(part, fmt::format("[{}]", fmt::join(shape, ", ")),
           fmt::format("[{}]", fmt::join(found.shape, ", ")));
  }
  return found;
}

std::span<const std::byte> MatrixParts::bytes(std::string_view part, StorageType type,
                                              const TensorShape& shape) const {
  const StoredTensor& found = tensor(part, shape);
  if (found.type != type) refuse(part, name_of(type), name_of(found.type));
  return found.bytes;
}

std::span<const std::byte> MatrixParts::bytes_of_one(std::string_view part, StorageType type,
                                                     const TensorShape& shape, int count,
                                                     int index) const {
  const auto all = bytes(part, type, shape);
  const std::size_t size = all.size() / static_cast<std::size_t>(count);
  return all.subspan(static_cast<std::size_t>(index) * size, size);
}

std::vector<std::uint32_t> MatrixParts::words(std::string_view part,
                                              const TensorShape& shape) const {
  return words_of_one(part, shape, 1, 0);
}

std::vector<std::uint32_t> MatrixParts::words_of_one(std::string_view part,
                                                     const TensorShape& shape, int count,
                                                     int index) const {
  const auto from = bytes_of_one(part, StorageType::i32, shape, count, index);
  std::vector<std::uint32_t> values(from.size() / sizeof(std::uint32_t));
  if (!from.empty()) std::memcpy(values.data(), from.data(), from.size());
  return values;
}

std::vector<std::int8_t> MatrixParts::bytes_of(std::string_view part,
                                               const std::vector<TensorShape>& shapes) const {
  const auto from = bytes(part, StorageType::i8, shape_among(shapes, require(part)));
  std::vector<std::int8_t> values(from.size());
  if (!from.empty()) std::memcpy(values.data(), from.data(), from.size());
  return values;
}

std::string_view MatrixParts::text(std::string_view part) const {
  const StoredTensor& found = require(part);
  const auto from = bytes(part, StorageType::u8, {static_cast<std::int64_t>(found.bytes.size())});
  return {reinterpret_cast<const char*>(from.data()), from.size()};
}

std::vector<float> MatrixParts::finite(std::string_view part, const StoredTensor& tensor,
                                       std::size_t first, std::size_t count) const {
  if (!is_plain_float(tensor.type)) refuse(part, "a floating-point type", name_of(tensor.type));
  const std::size_t size = block_shape(tensor.type).bytes;
  std::vector<float> values(count);
  dequantize(tensor.type, tensor.bytes.subspan(first * size, count * size), values);
  for (const float value : values) {
    if (!std::isfinite(value)) refuse(part, "finite values", fmt::format("{}", value));
  }
  return values;
}

std::vector<float> MatrixParts::numbers(std::string_view part, const TensorShape& shape) const {
  return finite(part, tensor(part, shape), 0, elements_of(shape));
}

std::vector<float> MatrixParts::numbers_of(std::string_view part,
                                           const std::vector<TensorShape>& shapes) const {
  return numbers(part, shape_among(shapes, require(part)));
}

std::vector<float> MatrixParts::numbers_of_one(std::string_view part,
                                               const std::vector<TensorShape>& shapes, int count,
                                               int index) const {
  const TensorShape& shape = shape_among(shapes, require(part));
  const std::size_t all = elements_of(shape);
  if (all == 1) return numbers(part, shape);
  const std::size_t of_one = all / static_cast<std::size_t>(count);
  return finite(part, tensor(part, shape), static_cast<std::size_t>(index) * of_one, of_one);
}

}  // namespace talon
