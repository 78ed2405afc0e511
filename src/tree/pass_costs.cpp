#include "tree/pass_costs.h"

#include <algorithm>

namespace talon {
namespace {

constexpr double kSlow = 1.5;  // pace that may be of another time

}  // namespace

PassCosts::PassCosts(int max_rows, const CostProfile& profile, bool sampled)
    : pass_(max_rows, kPassRowShare),
      first_pass_(profile.first_pass_ms + (sampled ? profile.first_noise_ms : 0)),
      waiting_row_(profile.waiting_row_ms) {
  const double noise_ms = sampled ? profile.noise_ms : 0;
  for (const auto& [rows, ms] : profile.levels) pass_.seed(rows, ms + noise_ms);
}

double PassCosts::unit_ms(const MachineCosts& machine) const {
  return pass_.measured() ? machine.pace() : kPassShare * machine.check_ms(1);
}

double PassCosts::pass_ms(int rows, const MachineCosts& machine) const {
  return unit_ms(machine) * pass_.ms(rows);
}

double PassCosts::first_pass_ms(const MachineCosts& machine) const {
  return unit_ms(machine) * pass_.pace() * first_pass_;
}

double PassCosts::waiting_row_ms(const MachineCosts& machine) const {
  constexpr int kLevelRows = 10;
  if (waiting_row_) return unit_ms(machine) * pass_.pace() * *waiting_row_;
  return (pass_ms(kLevelRows, machine) - pass_ms(1, machine)) / (kLevelRows - 1);
}

double PassCosts::draft_ms(std::span<const int> rows, int sharers,
                           const MachineCosts& machine) const {
  double ms = rows.empty() ? 0 : first_pass_ms(machine);
  for (const int count : rows) ms += pass_ms(count * sharers, machine);
  return ms;
}

void PassCosts::observe(std::span<const int> rows, double ms, const MachineCosts& machine) {
  if (rows.empty()) return;
  double predicted_ms = pass_.pace() * first_pass_;
  for (const int count : rows) predicted_ms += pass_.ms(count);
  const bool is_slow = ms > kSlow * predicted_ms / pass_.pace() * machine.pace();
  pass_.observe_pace(ms / machine.pace(), predicted_ms);
  idle_rounds_ = 0;
  if (!is_slow) pause_ = kShortestPause;
}

void PassCosts::begin_round() {
  clear_call();
  if (!pass_.is_seeded() || pass_.pace() < kSlow || ++idle_rounds_ < pause_) return;
  pass_.forget_pace();
  idle_rounds_ = 0;
  pause_ = std::min(2 * pause_, kLongestPause);
}

void PassCosts::clear_call() {
  call_rows_.clear();
  call_sequences_ = 0;
  call_tells_ = true;
}

void PassCosts::run(std::size_t pass, int rows, bool tells) {
  if (pass == 0) ++call_sequences_;
  if (pass >= call_rows_.size()) call_rows_.resize(pass + 1);
  call_rows_[pass] += rows;
  call_tells_ = call_tells_ && tells;
}

void PassCosts::observe_call(int sharers, double ms, const MachineCosts& machine) {
  if (call_tells_ && call_sequences_ > 0) {
    for (int& rows : call_rows_) rows = std::max(1, rows * sharers / call_sequences_);
    observe(call_rows_, ms, machine);
  }
  clear_call();
}

}  // namespace talon
