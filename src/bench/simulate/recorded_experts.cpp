#include "bench/simulate/recorded_experts.h"

#include <algorithm>
#include <cmath>

namespace talon {

RecordedExperts::RecordedExperts(const Trace& trace) {
  std::vector<double> experts;
  std::vector<int> rounds;
  for (const TraceRound& round : trace.rounds) {
    if (round.sequences != 1) continue;
    experts.resize(std::max(experts.size(), round.experts.size()));
    rounds.resize(experts.size());
    for (std::size_t row = 0; row < round.experts.size(); ++row) {
      experts[row] += round.experts[row];
      ++rounds[row];
    }
  }
  double read = 0;
  for (std::size_t row = 0; row < experts.size(); ++row)
    read_.push_back(read += experts[row] / rounds[row]);
}

double RecordedExperts::of(int rows) const {
  if (empty()) return 0;
  const auto count = static_cast<std::size_t>(rows);
  if (count <= read_.size()) return read_[count - 1];
  const double last = read_.size() > 1 ? read_.back() - read_[read_.size() - 2] : 0;
  return read_.back() + last * static_cast<double>(count - read_.size());
}

std::vector<std::int32_t> RecordedExperts::first_uses(int rows,
                                                      std::span<const std::int32_t> known) const {
  if (empty()) return {};
  std::vector<std::int32_t> uses(known.begin(),
                                 known.begin() + std::min<std::ptrdiff_t>(rows, std::ssize(known)));
  for (int row = static_cast<int>(uses.size()) + 1; row <= rows; ++row) {
    const double before = row == 1 ? 0 : of(row - 1);
    uses.push_back(static_cast<std::int32_t>(std::round(of(row)) - std::round(before)));
  }
  return uses;
}

}  // namespace talon
