#include "train/data/recorder.h"

#include <algorithm>
#include <utility>

namespace talon {

Recorder::Recorder(std::vector<FeatureTap> taps, FeatureType type, Backend& backend, bool pictures)
    : taps_(std::move(taps)), type_(type), backend_(backend), pictures_(pictures) {}

Recording Recorder::take(SequenceId sequence) {
  const auto found = watched_.find(sequence);
  if (found == watched_.end()) return {};
  Recording recording = std::move(found->second.recording);
  watched_.erase(found);
  return recording;
}

int Recorder::remembers(std::span<const TokenId> text) {
  if (taps_.empty()) return static_cast<int>(text.size());
  if (pictures_) return 0;
  const auto different =
      std::mismatch(text.begin(), text.end(), last_tokens_.begin(), last_tokens_.end());
  return static_cast<int>(different.first - text.begin());
}

void Recorder::begin(SequenceId sequence, std::span<const TokenId> known) {
  Watched& watched = watched_[sequence];
  watched = {.tokens = {known.begin(), known.end()}, .recording = {}};
  if (known.empty() || taps_.empty()) return;
  const std::size_t rows = known.size() - 1;
  const std::size_t width = last_rows_.size() / (last_tokens_.size() - 1);
  const auto first = last_rows_.begin();
  watched.recording.own.bytes.assign(first, first + static_cast<std::ptrdiff_t>(rows * width));
  copied_rows_ += rows;
}

void Recorder::committed(SequenceId sequence, const CommittedTokens& committed) {
  Watched& watched = watched_.at(sequence);
  watched.tokens.insert(watched.tokens.end(), committed.tokens.begin(), committed.tokens.end());
  try {
    record(committed.features, watched.recording.own);
    record(committed.guide_features, watched.recording.guide);
  } catch (const std::exception& error) {
    watched.recording.problem = error.what();
    throw;
  }
}

void Recorder::end(SequenceId sequence) {
  const Watched& watched = watched_.at(sequence);
  const RecordedRows& own = watched.recording.own;
  // How many of a recording's saturated values lie in its beginning is not known.
  if (pictures_ || taps_.empty() || watched.tokens.size() < 2 || own.saturated > 0) return;
  last_tokens_ = watched.tokens;
  last_rows_ = own.bytes;
}

void Recorder::record(const View& rows, RecordedRows& recorded) {
  const std::size_t count =
      static_cast<std::size_t>(rows.rows) * static_cast<std::size_t>(rows.cols);
  if (count == 0) return;
  values_.resize(count);
  backend_.download(rows, values_);
  const FeatureRows format{static_cast<std::uint32_t>(rows.cols), type_};
  recorded.saturated += format.encode(values_, recorded.bytes);
}

}  // namespace talon
