#include "train/data/recorder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/half.h"

namespace talon {
namespace {

constexpr float kLargestHalf = 65504;

struct RecordingState : DraftState {
  std::unique_ptr<DraftState> inner;
  Recording* recording = nullptr;
  std::vector<TokenId> tokens;
};

RecordingState& state_of(DraftState& state) { return static_cast<RecordingState&>(state); }

}  // namespace

RecordingDrafter::RecordingDrafter(std::unique_ptr<Drafter> inner,
                                   const std::vector<FeatureTap>& taps, Backend& backend)
    : inner_(std::move(inner)),
      own_(taps_.add(taps)),
      inners_(taps_.add(inner_->taps())),
      backend_(backend) {}

DrafterTraits RecordingDrafter::traits() const {
  DrafterTraits traits = inner_->traits();
  traits.taps = taps_.taps();
  return traits;
}

std::unique_ptr<DraftState> RecordingDrafter::start() { return resume({}); }

int RecordingDrafter::remembers(std::span<const TokenId> prompt) {
  const int inner = inner_->remembers(prompt);
  if (!taps_.wants(own_)) return inner;
  const auto different =
      std::mismatch(prompt.begin(), prompt.end(), last_tokens_.begin(), last_tokens_.end());
  return std::min(inner, static_cast<int>(different.first - prompt.begin()));
}

std::unique_ptr<DraftState> RecordingDrafter::resume(std::span<const TokenId> known) {
  expects(!waiting_.empty(), "a recording for every sequence");
  auto state = std::make_unique<RecordingState>();
  state->inner = inner_->resume(known);
  state->recording = waiting_.front();
  state->tokens.assign(known.begin(), known.end());
  waiting_.pop_front();
  if (known.empty() || !taps_.wants(own_)) return state;
  const std::size_t rows = known.size() - 1;
  const std::size_t width = last_rows_.size() / (last_tokens_.size() - 1);
  const auto first = last_rows_.begin();
  state->recording->rows.assign(first, first + static_cast<std::ptrdiff_t>(rows * width));
  copied_rows_ += rows;
  return state;
}

void RecordingDrafter::observe(DraftState& draft_state, const CommittedTokens& committed) {
  RecordingState& state = state_of(draft_state);
  state.tokens.insert(state.tokens.end(), committed.tokens.begin(), committed.tokens.end());
  CommittedTokens seen = committed;
  record(taps_.columns(own_, committed.features), *state.recording);
  seen.features = taps_.columns(inners_, committed.features);
  inner_->observe(*state.inner, seen);
}

void RecordingDrafter::finish(DraftState& draft_state) {
  RecordingState& state = state_of(draft_state);
  inner_->finish(*state.inner);
  // How many of a recording's saturated values lie in its beginning is not known.
  if (!taps_.wants(own_) || state.tokens.size() < 2 || state.recording->saturated > 0) return;
  last_tokens_ = std::move(state.tokens);
  last_rows_ = state.recording->rows;
}

void RecordingDrafter::record(const View& rows, Recording& recording) {
  const std::size_t count =
      static_cast<std::size_t>(rows.rows) * static_cast<std::size_t>(rows.cols);
  if (count == 0) return;
  values_.resize(count);
  backend_.download(rows, values_);
  const std::size_t before = recording.rows.size();
  recording.rows.resize(before + count);
  std::uint16_t* out = recording.rows.data() + before;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values_[i];
    if (!(std::abs(value) <= kLargestHalf)) {
      if (std::isnan(value)) fail("record features: expected numbers, found NaN");
      ++recording.saturated;
    }
    out[i] = float_to_half(std::clamp(value, -kLargestHalf, kLargestHalf));
  }
}

void RecordingDrafter::propose(std::span<DraftJob> jobs) {
  std::vector<DraftJob> inner_jobs(jobs.begin(), jobs.end());
  for (DraftJob& job : inner_jobs) job.state = state_of(*job.state).inner.get();
  inner_->propose(inner_jobs);
}

}  // namespace talon
