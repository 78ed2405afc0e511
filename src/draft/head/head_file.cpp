#include "draft/head/head_file.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/half.h"
#include "io/quant/quantize.h"
#include "io/quote.h"
#include "io/tensor_layout.h"
#include "model/config/tensor_names.h"

namespace talon {
namespace {

template <typename Value>
std::vector<std::byte> copy_bytes(const std::vector<Value>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// `type`: one that HeadFile::type_of() gives.
std::vector<std::byte> bytes_in(StorageType type, const std::vector<float>& values) {
  if (type == StorageType::f32) return copy_bytes(values);
  if (type == StorageType::q8_0) return quantize_q8_0(values);
  if (type == StorageType::q4_1) return quantize_q4_1(values);
  std::vector<std::uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), float_to_half);
  return copy_bytes(halves);
}

const StoredTensor& checked_table(const Checkpoint& target, const std::string& name,
                                  const std::vector<std::int64_t>& shape) {
  const StoredTensor& table = target.require(name);
  if (table.shape != shape) {
    fail("read target {}: {}: expected {}, found {}", quote(target.path.string()),
         quote(table.name), show_shape(shape), show_shape(table.shape));
  }
  if (!holds_reals(table.type)) {
    fail("read target {}: {}: expected floating-point numbers or blocks of them, found {}",
         quote(target.path.string()), quote(table.name), name_of(table.type));
  }
  return table;
}

/// Values of one row of a matrix.
void read_row(const StoredTensor& matrix, std::size_t row, std::span<float> values) {
  const std::size_t bytes = matrix.bytes.size() / static_cast<std::size_t>(matrix.shape[0]);
  dequantize(matrix.type, matrix.bytes.subspan(row * bytes, bytes), values);
}

void expect_reals(const StoredTensor& tensor, const std::string& doing) {
  if (holds_reals(tensor.type)) return;
  fail("{}: {}: expected floating-point numbers or blocks of them, found {}", doing,
       quote(tensor.name), name_of(tensor.type));
}

}  // namespace

StorageType HeadFile::type_of(std::int64_t width) const {
  const auto block = static_cast<std::int64_t>(block_shape(StorageType::q8_0).elements);
  const bool whole_blocks = width % block == 0;
  if (storage_ == HeadStorage::f32) return StorageType::f32;
  if (storage_ == HeadStorage::q8_0 && whole_blocks) return StorageType::q8_0;
  if (storage_ == HeadStorage::q4_1 && whole_blocks) return StorageType::q4_1;
  return StorageType::f16;
}

void HeadFile::add(std::string_view name, const std::vector<std::int64_t>& shape,
                   const std::vector<float>& values) {
  const StorageType type = shape.size() == 1 ? StorageType::f32 : type_of(shape.back());
  add_bytes(name, type, shape, bytes_in(type, values));
}

void HeadFile::add_exactly(std::string_view name, const std::vector<std::int64_t>& shape,
                           const std::vector<float>& values) {
  add_bytes(name, StorageType::f32, shape, copy_bytes(values));
}

void HeadFile::add_bytes(std::string_view name, StorageType type,
                         const std::vector<std::int64_t>& shape, std::vector<std::byte> bytes) {
  kept_.push_back(std::move(bytes));
  written_.push_back({std::string(name), type, shape, kept_.back()});
}

void HeadFile::add_vocabulary(std::span<const TokenId> tokens) {
  if (tokens.empty()) return;
  const std::vector<std::int64_t> ids(tokens.begin(), tokens.end());
  add_bytes("d2t", StorageType::i64, {static_cast<std::int64_t>(ids.size())}, copy_bytes(ids));
}

bool HeadFile::write(const std::filesystem::path& file, const GgufMetadata& keys,
                     const StopFlag* stop) const {
  std::vector<TensorOutline> outlines;
  for (const TensorToWrite& tensor : written_) {
    outlines.push_back({tensor.name, tensor.type, tensor.shape});
  }
  GgufWriter writer(file, keys, outlines);
  for (const TensorToWrite& tensor : written_) {
    if (stop && stop->requested()) return false;
    writer.write(tensor.bytes);
  }
  writer.commit();
  return true;
}

std::vector<float> head_values(const StoredTensor& tensor, const std::string& doing) {
  expect_reals(tensor, doing);
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  std::vector<float> values(static_cast<std::size_t>(count));
  dequantize(tensor.type, tensor.bytes, values);
  return values;
}

void append_origin(const Checkpoint& head, GgufMetadata& keys) {
  if (head.metadata.contains("talon")) {
    keys.emplace_back("talon.origin",
                      head.metadata["talon"].dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  if (head.metadata.contains("talon.origin")) {  // of a GGUF file
    keys.emplace_back("talon.origin", head.metadata["talon.origin"]);
  }
}

void append_tokenizer(const Checkpoint& target, GgufMetadata& keys) {
  if (target.format != CheckpointFormat::gguf) return;
  const GgufMetadata before = keys;
  for (const auto& [key, value] : target.metadata.items()) {
    const bool is_there =
        std::ranges::find(before, key, &GgufMetadata::value_type::first) != before.end();
    if (key.starts_with("tokenizer.") && !is_there) keys.emplace_back(key, value);
  }
}

const StoredTensor& output_of_target(const Checkpoint& target, const ModelConfig& config,
                                     int width) {
  const auto names = TensorNames::of(target.format, config);
  return checked_table(target, config.tied_output ? names.embedding : names.output,
                       {config.vocabulary, width});
}

const StoredTensor& embedding_of_target(const Checkpoint& target, const ModelConfig& config,
                                        int width) {
  return checked_table(target, TensorNames::of(target.format, config).embedding,
                       {config.vocabulary, width});
}

void expect_same_rows(const StoredTensor& ours, const StoredTensor& theirs,
                      std::span<const TokenId> tokens, const std::string& doing) {
  constexpr double kMostDifference = 0.03;  // of a row's length
  expect_reals(ours, doing);
  const auto rows = static_cast<std::size_t>(ours.shape[0]);
  const auto width = static_cast<std::size_t>(ours.shape[1]);
  std::vector<float> a(width), b(width);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto token = tokens.empty() ? static_cast<TokenId>(i) : tokens[i];
    read_row(ours, i, a);
    read_row(theirs, static_cast<std::size_t>(token), b);
    double difference = 0, length = 0;
    for (std::size_t k = 0; k < width; ++k) {
      difference += std::pow(a[k] - b[k], 2);
      length += std::pow(b[k], 2);
    }
    if (difference <= length * kMostDifference * kMostDifference) continue;
    fail("{}: {}: expected the target's rows, found another for token {}", doing, quote(ours.name),
         token);
  }
}

}  // namespace talon
