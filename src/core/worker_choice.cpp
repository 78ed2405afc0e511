#include "core/worker_choice.h"

#include <algorithm>
#include <cmath>

namespace talon {
namespace {

// Schedulers take turns of some milliseconds, quotas of processor time have periods of 100 ms.
constexpr double kWindowMs = 100;
constexpr double kKnownShare = 2.0 / 3;  // weight of older windows
// A trial begins with what the settled workers left behind: a quota used up, or not used up.
constexpr double kSettleMs = 50;
// The time that a trial takes over that of settled workers for the same work. What is clear ends
// it; what is not costs little to watch for longer.
constexpr double kShortTrialMs = 20, kClearlyWorse = 1.2;
constexpr double kClearlyBetter = 0.85;
constexpr double kLongTrialMs = 300, kPays = 0.97;

constexpr double kLongestPauseMs = 4000;
constexpr std::chrono::seconds kLongRest{10};  // after which the machine may be another

// A region loses the time beyond so many times the usual one, which is near the lower third of the
// times: one that is slower moves it up a little, a faster one moves it down by more.
constexpr double kTooLong = 2;
constexpr double kUp = 1.02, kDown = 0.96;

double ms_between(WorkerChoice::Time begin, WorkerChoice::Time end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

std::size_t size_of(double work) {
  return static_cast<std::size_t>(std::clamp(std::ilogb(work), 0, 63));
}

}  // namespace

void WorkerChoice::learn(double work, Time begin, Time end) {
  const double ms = ms_between(begin, end);
  const std::size_t size = size_of(work);
  window_.by_size[size].work += work;
  window_.by_size[size].ms += ms;
  window_.ms += ms;
  waited_ms_ = begin - last_end_ > kLongRest ? pause_ms_ : waited_ms_ + ms;
  last_end_ = end;
  if (trial_ > 0) return watch_trial();
  double& usual = usual_[size];
  if (usual == 0) usual = ms / work;
  window_.lost_ms += std::max(0.0, ms - kTooLong * usual * work);
  usual *= ms < usual * work ? kDown : kUp;
  watch_settled();
}

void WorkerChoice::watch_settled() {
  if (window_.ms < kWindowMs) return;
  for (std::size_t size = 0; size < known_.size(); ++size) {
    known_[size].work = kKnownShare * known_[size].work + window_.by_size[size].work;
    known_[size].ms = kKnownShare * known_[size].ms + window_.by_size[size].ms;
  }
  lost_share_ = window_.lost_ms / window_.ms;
  window_ = {};
  if (waited_ms_ >= pause_ms_) begin_trial();
}

void WorkerChoice::watch_trial() {
  if (window_.ms < kShortTrialMs) return;
  const double ratio = slowdown();
  if (!trial_counts_) {
    // Fewer workers may have to wait for what more have used up, but not the other way round.
    if (trial_ > settled_ && ratio > kClearlyWorse) return end_trial(false);
    if (window_.ms < kSettleMs) return;
    trial_counts_ = true;
    window_ = {};
    return;
  }
  if (ratio > kClearlyWorse) return end_trial(false);
  if (window_.ms >= kWindowMs && ratio < kClearlyBetter) return end_trial(true);
  if (window_.ms >= kLongTrialMs) end_trial(ratio < kPays);
}

/// The time of this window over what the settled workers take for the same work.
double WorkerChoice::slowdown() const {
  double ms = 0, settled_ms = 0;
  for (std::size_t size = 0; size < known_.size(); ++size) {
    if (known_[size].work == 0) continue;
    ms += window_.by_size[size].ms;
    settled_ms += window_.by_size[size].work * known_[size].ms / known_[size].work;
  }
  return settled_ms > 0 ? ms / settled_ms : 1;
}

void WorkerChoice::begin_trial() {
  const bool down_open = settled_ > 1 && lost_share_ > kDisturbed;
  const bool up_open = settled_ < most_;
  if (down_open && (prefers_down_ || !up_open)) {
    trial_ = std::max(settled_ - step_down_, 1);
  } else if (up_open) {
    trial_ = std::min(settled_ + step_up_, most_);
  }
  trial_counts_ = false;
}

void WorkerChoice::end_trial(bool pays) {
  const bool down = trial_ < settled_;
  int& step = down ? step_down_ : step_up_;
  const bool tries_further = pays || (down && trial_ > 1);
  if (pays) {
    settled_ = trial_;
    known_ = window_.by_size;
    usual_ = {};
  }
  prefers_down_ = down == pays;
  step = tries_further ? 2 * step : 1;
  pause_ms_ = tries_further ? kShortestPauseMs : std::min(2 * pause_ms_, kLongestPauseMs);
  waited_ms_ = 0;
  trial_ = 0;
  window_ = {};
}

}  // namespace talon
