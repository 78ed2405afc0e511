#include "image/vq_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "io/sha256.h"

namespace talon {
namespace {

constexpr std::int64_t kMostCodes = 1 << 20, kMostWidth = 1 << 12;
constexpr int kMostBlocks = 64;

constexpr VqLayout kLlamaGen = {.middle_first = "mid.0",
                                .middle_attention = "mid.1",
                                .middle_second = "mid.2",
                                .up = "decoder.conv_blocks.{}.",
                                .down = "encoder.conv_blocks.{}.",
                                .block = "res.{}"};
constexpr VqLayout kChameleon = {.middle_first = "mid.block_1",
                                 .middle_attention = "mid.attn_1",
                                 .middle_second = "mid.block_2",
                                 .up = "decoder.up.{}.",
                                 .down = "encoder.down.{}.",
                                 .block = "block.{}",
                                 .counts_down = true,
                                 .unit_codes = false};

}  // namespace

const VqLayout& vq_layout(const Checkpoint& checkpoint) {
  return is_chameleon_vq(checkpoint) ? kChameleon : kLlamaGen;
}

std::string vq_name(std::string_view name, int number) {
  return fmt::format(fmt::runtime(name), number);
}

VqCodebook read_vq_codebook(const VqTensors& tensors, bool unit) {
  const std::string name(kVqCodebook);
  const auto shape = tensors.shape(name);
  if (shape.size() != 2 || shape[0] < 1 || shape[0] > kMostCodes || shape[1] < 1 ||
      shape[1] > kMostWidth) {
    tensors.refuse(name, fmt::format("[1 to {} codes, 1 to {}]", kMostCodes, kMostWidth),
                   fmt::format("[{}]", fmt::join(shape, ", ")));
  }
  VqCodebook book{static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                  tensors.values(name, shape)};
  for (int code = 0; unit && code < book.codes; ++code) {
    const auto row =
        std::span(book.vectors)
            .subspan(static_cast<std::size_t>(code) * static_cast<std::size_t>(book.width),
                     static_cast<std::size_t>(book.width));
    double squares = 0;
    for (const float value : row) squares += static_cast<double>(value) * value;
    if (!(squares > 0)) tensors.refuse(name, "rows that are not zero", fmt::format("row {}", code));
    for (float& value : row) value = static_cast<float>(value / std::sqrt(squares));
  }
  return book;
}

std::string vq_fingerprint(const Checkpoint& checkpoint) {
  constexpr std::size_t kDigits = 16, kMostBytes = 4096;  // of a tensor
  std::vector<const StoredTensor*> tensors;
  for (const StoredTensor& tensor : checkpoint.tensors) tensors.push_back(&tensor);
  std::ranges::sort(tensors, {}, &StoredTensor::name);
  Sha256 hash;
  for (const StoredTensor* tensor : tensors) {
    const std::string shape = fmt::format("{} [{}] ", tensor->name, fmt::join(tensor->shape, ", "));
    hash.update(std::as_bytes(std::span(shape)));
    hash.update(tensor->bytes.first(std::min(kMostBytes, tensor->bytes.size())));
  }
  return hash.finish().substr(0, kDigits);
}

Plane VqLevel::operator()(Plane x) const {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    x = blocks[i](std::move(x));
    if (i < attentions.size()) x = attentions[i](std::move(x));
  }
  return resize ? (*resize)(x) : std::move(x);
}

Convolution VqReader::convolution(const std::string& name, ConvolutionKind kind) {
  Convolution next(tensors, name, size, kind);
  block_values = std::max(block_values, size.values() + next.out().values());
  size = next.out();
  return next;
}

ResidualBlock VqReader::block(const std::string& name) {
  constexpr std::size_t kPlanes = 3;  // x, what a layer gets, what it gives
  ResidualBlock next(tensors, name, size);
  const std::size_t most = std::max(size.values(), next.out().values());
  block_values = std::max(block_values, kPlanes * most);
  size = next.out();
  return next;
}

CellAttention VqReader::attention(const std::string& name) {
  attention_values = std::max(attention_values, CellAttention::values_at_once(size));
  return {tensors, name, size};
}

VqMiddle VqReader::middle() {
  ResidualBlock first = block(half + std::string(layout.middle_first));
  CellAttention second = attention(half + std::string(layout.middle_attention));
  ResidualBlock third = block(half + std::string(layout.middle_second));
  return {std::move(first), std::move(second), std::move(third)};
}

VqLevel VqReader::level(const std::string& at) {
  const auto block_at = [&](int i) { return at + vq_name(layout.block, i); };
  VqLevel level;
  for (int i = 0; i == 0 || tensors.has(block_at(i) + ".norm1.weight"); ++i) {
    if (i == kMostBlocks) tensors.refuse(at, fmt::format("at most {} blocks", kMostBlocks), "more");
    level.blocks.push_back(block(block_at(i)));
    const std::string name = at + vq_name("attn.{}", i);
    if (!tensors.has(name + ".norm.weight")) continue;
    if (static_cast<int>(level.attentions.size()) != i)
      tensors.refuse(name, "attention behind every block or none", "some");
    level.attentions.push_back(attention(name));
  }
  return level;
}

int VqReader::count_levels(std::string_view name) const {
  int levels = 0;
  while (levels < kMostVqLevels &&
         tensors.has(vq_name(name, levels) + vq_name(layout.block, 0) + ".norm1.weight"))
    ++levels;
  return levels;
}

}  // namespace talon
