#include "train/data/feature_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/half.h"

namespace talon {
namespace {

constexpr float kLargestHalf = 65504;
constexpr std::array<std::string_view, 2> kNames = {"f16", "q8"};

/// 32 numbers as they lie in memory.
struct Group {
  std::uint16_t scale = 0;
  std::int8_t codes[FeatureRows::kGroup] = {};
};
static_assert(sizeof(Group) == 2 + FeatureRows::kGroup);

Group quantized(const float* x) {
  float largest = 0;
  for (std::size_t i = 0; i < FeatureRows::kGroup; ++i) largest = std::max(largest, std::abs(x[i]));
  Group group;
  group.scale = float_to_half(largest / 127);
  const float scale = half_to_float(group.scale);
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (std::size_t i = 0; i < FeatureRows::kGroup; ++i) {
    group.codes[i] = static_cast<std::int8_t>(std::clamp(std::rint(x[i] * inverse), -127.F, 127.F));
  }
  return group;
}

std::uint16_t clamped_half(float value) {
  return float_to_half(std::clamp(value, -kLargestHalf, kLargestHalf));
}

}  // namespace

std::string_view name_of(FeatureType type) { return kNames.at(static_cast<std::size_t>(type)); }

std::optional<FeatureType> feature_type_of(std::string_view name) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<FeatureType>(found - kNames.begin());
}

std::size_t FeatureRows::row_bytes() const {
  if (type == FeatureType::f16) return std::size_t{values} * sizeof(std::uint16_t);
  return std::size_t{values} / kGroup * sizeof(Group);
}

std::uint32_t FeatureRows::encode(std::span<const float> rows, std::vector<std::byte>& out) const {
  if (rows.empty()) return 0;
  expects(values > 0 && rows.size() % values == 0, "whole rows of features");
  expects(type == FeatureType::f16 || values % kGroup == 0, "rows of whole groups");
  std::uint32_t saturated = 0;
  for (const float value : rows) {
    if (std::isnan(value)) fail("record features: expected numbers, found NaN");
    saturated += std::abs(value) > kLargestHalf ? 1 : 0;
  }
  const std::size_t before = out.size();
  out.resize(before + rows.size() / values * row_bytes());
  std::byte* at = out.data() + before;
  if (type == FeatureType::f16) {
    for (const float value : rows) {
      const std::uint16_t half = clamped_half(value);
      std::memcpy(at, &half, sizeof(half));
      at += sizeof(half);
    }
    return saturated;
  }
  for (std::size_t i = 0; i < rows.size(); i += kGroup, at += sizeof(Group)) {
    float clamped[kGroup];
    for (std::size_t j = 0; j < kGroup; ++j) {
      clamped[j] = std::clamp(rows[i + j], -kLargestHalf, kLargestHalf);
    }
    const Group group = quantized(clamped);
    std::memcpy(at, &group, sizeof(group));
  }
  return saturated;
}

void FeatureRows::decode(std::span<const std::byte> row, std::size_t first,
                         std::span<std::uint16_t> out) const {
  expects(row.size() == row_bytes() && first + out.size() <= values,
          "numbers of a row of features");
  if (type == FeatureType::f16) {
    std::memcpy(out.data(), row.data() + first * sizeof(std::uint16_t), out.size_bytes());
    return;
  }
  expects(first % kGroup == 0, "a row from the first number of a group on");
  const std::byte* at = row.data() + first / kGroup * sizeof(Group);
  for (std::size_t i = 0; i < out.size(); i += kGroup, at += sizeof(Group)) {
    Group group;
    std::memcpy(&group, at, sizeof(group));
    const float scale = half_to_float(group.scale);
    const std::size_t count = std::min<std::size_t>(kGroup, out.size() - i);
    for (std::size_t j = 0; j < count; ++j) {
      out[i + j] = clamped_half(scale * static_cast<float>(group.codes[j]));
    }
  }
}

}  // namespace talon
