#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace talon {

/// How the numbers of features are stored. The values are those of files.
enum class FeatureType : std::uint32_t {
  f16 = 0,
  q8 = 1,  // each 32 numbers as a binary16 scale and integers from -127 to 127
};
std::string_view name_of(FeatureType type);
std::optional<FeatureType> feature_type_of(std::string_view name);

/// Rows of features as bytes, one behind the other.
struct FeatureRows {
  std::uint32_t values = 0;  // of a row; of type q8: a multiple of kGroup. 0: there are none
  FeatureType type = FeatureType::f16;

  static constexpr std::uint32_t kGroup = 32;  // numbers that share a scale
  bool operator==(const FeatureRows&) const = default;

  std::size_t row_bytes() const;
  /// Appends whole rows. Returns how many numbers lie beyond the half floats; they become the
  /// largest. Throws Error for NaN.
  std::uint32_t encode(std::span<const float> rows, std::vector<std::byte>& out) const;
  /// Numbers `first` to first + out.size() - 1 of a row, as half floats. REQUIRES: they are in the
  /// row; of type q8 `first` is a multiple of kGroup.
  void decode(std::span<const std::byte> row, std::size_t first,
              std::span<std::uint16_t> out) const;
};

}  // namespace talon
