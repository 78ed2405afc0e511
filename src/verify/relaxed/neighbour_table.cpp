#include "verify/relaxed/neighbour_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/machine/available_memory.h"
#include "io/checkpoint.h"
#include "io/pictures/vq_names.h"
#include "io/sha256.h"

namespace talon {
namespace {

constexpr std::size_t kTogether = 4;  // codes that are compared with others in one pass
// Others of a pass: as many in each, so that compilers make vector instructions of it.
constexpr std::size_t kBlock = 256;

using Distances = std::array<std::array<double, kBlock>, kTogether>;  // squared

std::size_t rounded_up(std::size_t count, std::size_t to) { return (count + to - 1) / to * to; }

/// The rows of a matrix as columns of `stride` numbers, the last of them 0.
std::vector<double> transposed(const CodeVectors& vectors, std::size_t stride) {
  std::vector<double> columns(vectors.width * stride);
  for (std::size_t row = 0; row < vectors.codes(); ++row) {
    for (std::size_t i = 0; i < vectors.width; ++i)
      columns[i * stride + row] = vectors.rows[row * vectors.width + i];
  }
  return columns;
}

/// Between kTogether rows of `width` and a block of others, which are columns. Each is summed in
/// the order of the numbers.
Distances distances_of(const double* rows, std::size_t width, const double* others,
                       std::size_t stride) {
  Distances sums{};
  for (std::size_t i = 0; i < width; ++i) {
    const double* const column = others + i * stride;
    for (std::size_t one = 0; one < kTogether; ++one) {
      const double own = rows[one * width + i];
      auto& sum = sums[one];
      for (std::size_t other = 0; other < kBlock; ++other) {
        const double difference = own - column[other];
        sum[other] += difference * difference;
      }
    }
  }
  return sums;
}

}  // namespace

CodeVectors::CodeVectors(std::span<const float> codebook, int row_width, bool unit)
    : width(static_cast<std::size_t>(row_width)), rows(codebook.begin(), codebook.end()) {
  expects(row_width > 0 && codebook.size() % width == 0, "whole rows");
  for (std::size_t row = 0; row < codes(); ++row) {
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
}

NeighbourTable::NeighbourTable(const CodeVectors& vectors, int most, TokenId first)
    : first_(first), codes_(static_cast<int>(vectors.codes())) {
  const std::size_t codes = vectors.codes(), width = vectors.width;
  expects(codes <= std::size_t{kMostCodes}, "codes of 16 bits");
  kept_ = std::min(static_cast<std::size_t>(most), codes - std::min<std::size_t>(codes, 1));
  require_available(codes * kept_ * sizeof(neighbours_[0]),
                    fmt::format("lantern: table of {} neighbours of {} codes", kept_, codes));
  neighbours_.reserve(codes * kept_);
  const std::size_t stride = rounded_up(codes, kBlock);
  const std::vector<double> columns = transposed(vectors, stride);
  std::vector<double> rows = vectors.rows;
  rows.resize(rounded_up(codes, kTogether) * width);
  std::array<std::vector<double>, kTogether> distances;
  for (std::size_t code = 0; code < codes; code += kTogether) {
    for (std::vector<double>& of_one : distances) of_one.clear();
    for (std::size_t block = 0; block < codes; block += kBlock) {
      const Distances some =
          distances_of(rows.data() + code * width, width, columns.data() + block, stride);
      for (std::size_t one = 0; one < kTogether; ++one)
        distances[one].insert(distances[one].end(), some[one].begin(), some[one].end());
    }
    for (std::size_t one = 0; one < std::min(kTogether, codes - code); ++one)
      add_nearest(code + one, std::span(distances[one]).first(codes));
  }
}

void NeighbourTable::add_nearest(std::size_t code, std::span<const double> distances) {
  std::vector<std::pair<double, std::uint16_t>> others;
  others.reserve(distances.size());
  for (std::size_t other = 0; other < distances.size(); ++other) {
    if (other != code) others.emplace_back(distances[other], static_cast<std::uint16_t>(other));
  }
  const auto end = others.begin() + static_cast<std::ptrdiff_t>(kept_);
  if (end != others.end()) std::nth_element(others.begin(), end, others.end());
  std::sort(others.begin(), end);
  std::transform(others.begin(), end, std::back_inserter(neighbours_),
                 [](const auto& other) { return other.second; });
}

NearestCodes NeighbourTable::of(TokenId token) const {
  if (token < first_ || token - first_ >= codes_) return {};
  const auto code = static_cast<std::size_t>(token - first_);
  return {std::span(neighbours_).subspan(code * kept_, kept_), first_};
}

std::shared_ptr<const NeighbourTable> NeighbourTables::get(const CodeVectors& vectors, int most,
                                                           TokenId first) {
  const std::string codes =
      fmt::format("{} {}", vectors.width, sha256_of(std::as_bytes(std::span(vectors.rows))));
  std::erase_if(known_, [](const Known& one) { return one.table.expired(); });
  for (const Known& one : known_) {
    if (one.codes == codes && one.first == first && one.most >= most) return one.table.lock();
  }
  // So that rules which ask for a few more each have few tables.
  const auto kept = static_cast<int>(std::bit_ceil(static_cast<unsigned>(most)));
  const auto table = std::make_shared<const NeighbourTable>(vectors, kept, first);
  known_.push_back({codes, first, kept, table});
  return table;
}

CodeVectors read_code_vectors(const std::filesystem::path& file, std::optional<bool> unit) {
  const Checkpoint checkpoint = open_checkpoint(file);
  const StoredTensor& stored = checkpoint.require(vq_prefix(checkpoint) + std::string(kVqCodebook));
  const bool fits = stored.shape.size() == 2 && stored.shape[0] > 0 && stored.shape[1] > 0 &&
                    stored.shape[0] <= NeighbourTable::kMostCodes;
  if (!fits) {
    fail("load {}: tensor \"{}\": expected [codes, width] with at most {} codes, found [{}]",
         file.string(), stored.name, NeighbourTable::kMostCodes, fmt::join(stored.shape, ", "));
  }
  std::vector<float> rows(static_cast<std::size_t>(stored.shape[0] * stored.shape[1]));
  dequantize(stored.type, stored.bytes, rows);
  checkpoint.check_whole();
  return CodeVectors(rows, static_cast<int>(stored.shape[1]),
                     unit.value_or(!is_chameleon_vq(checkpoint)));
}

}  // namespace talon
