#include "verify/relaxed/neighbour_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "io/checkpoint.h"
#include "io/pictures/vq_names.h"

namespace talon {
namespace {

/// The rows in double, divided by their norms if wanted.
std::vector<double> used_rows(std::span<const float> codebook, std::size_t width, bool unit) {
  std::vector<double> rows(codebook.begin(), codebook.end());
  for (std::size_t row = 0; row < rows.size() / width; ++row) {
    const auto values = std::span(rows).subspan(row * width, width);
    double squares = 0;
    for (const double value : values) squares += value * value;
    if (!std::isfinite(squares) || (unit && !(squares > 0))) {
      fail("codebook: row {}: expected finite numbers that are not all zero, found a norm of {}",
           row, std::sqrt(squares));
    }
    if (!unit) continue;
    for (double& value : values) value /= std::sqrt(squares);
  }
  return rows;
}

}  // namespace

NeighbourTable::NeighbourTable(std::span<const float> codebook, int width, int most, bool unit,
                               TokenId first)
    : first_(first) {
  expects(width > 0 && codebook.size() % static_cast<std::size_t>(width) == 0, "whole rows");
  const auto columns = static_cast<std::size_t>(width);
  const std::size_t codes = codebook.size() / columns;
  codes_ = static_cast<int>(codes);
  kept_ = std::min(static_cast<std::size_t>(most), codes - std::min<std::size_t>(codes, 1));
  neighbours_.reserve(codes * kept_);
  const std::vector<double> rows = used_rows(codebook, columns, unit);
  std::vector<double> distance(codes);
  std::vector<TokenId> others(codes);
  for (std::size_t code = 0; code < codes; ++code) {
    for (std::size_t other = 0; other < codes; ++other) {
      double squares = 0;
      for (std::size_t i = 0; i < columns; ++i) {
        const double difference = rows[code * columns + i] - rows[other * columns + i];
        squares += difference * difference;
      }
      distance[other] = squares;
    }
    std::iota(others.begin(), others.end(), 0);
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(code));
    const auto end = others.begin() + static_cast<std::ptrdiff_t>(kept_);
    std::partial_sort(others.begin(), end, others.end(), [&](TokenId a, TokenId b) {
      const double at_a = distance[static_cast<std::size_t>(a)];
      const double at_b = distance[static_cast<std::size_t>(b)];
      return at_a != at_b ? at_a < at_b : a < b;
    });
    std::transform(others.begin(), end, std::back_inserter(neighbours_),
                   [&](TokenId other) { return other + first; });
    others.resize(codes);
  }
}

std::span<const TokenId> NeighbourTable::of(TokenId token) const {
  if (token < first_ || token - first_ >= codes_) return {};
  return std::span(neighbours_).subspan(static_cast<std::size_t>(token - first_) * kept_, kept_);
}

NeighbourTable read_neighbour_table(const std::filesystem::path& file, int most,
                                    std::optional<bool> unit, TokenId first) {
  constexpr std::int64_t kMostCodes = 1 << 17;
  const Checkpoint checkpoint = open_checkpoint(file);
  const StoredTensor& stored = checkpoint.require(vq_prefix(checkpoint) + std::string(kVqCodebook));
  const bool fits = stored.shape.size() == 2 && stored.shape[0] > 0 && stored.shape[1] > 0 &&
                    stored.shape[0] <= kMostCodes;
  if (!fits) {
    fail(
        "load {}: tensor \"{}\": expected [codes, width] with at most {} codes, found {} "
        "dimensions",
        file.string(), stored.name, kMostCodes, stored.shape.size());
  }
  std::vector<float> rows(static_cast<std::size_t>(stored.shape[0] * stored.shape[1]));
  dequantize(stored.type, stored.bytes, rows);
  checkpoint.check_whole();
  return NeighbourTable(rows, static_cast<int>(stored.shape[1]), most,
                        unit.value_or(!is_chameleon_vq(checkpoint)), first);
}

}  // namespace talon
