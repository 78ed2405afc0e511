#include "learn/text_keeper.h"

#include <algorithm>
#include <utility>

#include "train/data/checksum.h"

namespace talon {
namespace {

constexpr std::size_t kMostWaiting = 64;  // texts to be written
constexpr std::size_t kMostSums = 4096;   // texts that are not kept twice
constexpr std::size_t kHeldOutShare = 9;  // of the room

/// Half of the space where vectors have whole groups.
FeatureType feature_type(const ModelConfig& config) {
  const bool has_groups = config.hidden % static_cast<int>(FeatureRows::kGroup) == 0;
  return has_groups ? FeatureType::q8 : FeatureType::f16;
}

std::vector<FeatureTap> taps_in(const Manifest& manifest) {
  std::vector<FeatureTap> taps;
  for (const int layer : manifest.info.taps) taps.push_back({layer});
  return taps;
}

std::uint64_t sum_of(const std::vector<TokenId>& tokens) {
  return checksum(std::as_bytes(std::span(tokens)));
}

}  // namespace

std::filesystem::path recent_folder(const std::filesystem::path& folder) {
  return folder / "recent";
}
std::filesystem::path held_out_folder(const std::filesystem::path& folder) {
  return folder / "held_out";
}

Manifest served_manifest(const LoadedModel& loaded, const std::vector<FeatureTap>& taps) {
  const ModelConfig& config = loaded.model.config;
  Manifest manifest;
  manifest.info.model = loaded.name.empty() ? loaded.path.filename().string() : loaded.name;
  manifest.info.model_sha256 = model_checksum(loaded.path);
  manifest.info.hidden = config.hidden;
  manifest.info.vocabulary = config.vocabulary;
  for (const FeatureTap& tap : taps) manifest.info.taps.push_back(tap.layer);
  manifest.info.features = feature_type(config);
  manifest.info.fingerprint = loaded.fingerprint;
  return manifest;
}

TextKeeper::TextKeeper(const LoadedModel& loaded, const Manifest& manifest,
                       const TextKeeperOptions& options, LearnNote note)
    : note_(std::move(note)),
      recorder_(taps_in(manifest), manifest.info.features, *loaded.backend),
      recent_(recent_folder(options.folder), manifest,
              options.room_bytes - options.room_bytes / kHeldOutShare, note_),
      held_out_(held_out_folder(options.folder), manifest, options.room_bytes / kHeldOutShare,
                note_),
      thread_([this] { run(); }) {
  const std::lock_guard rings(rings_);
  count_texts();
}

TextKeeper::~TextKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TextKeeper::began(SequenceId sequence, ServedAnswer answer) {
  answers_.insert_or_assign(sequence, std::move(answer));
}

void TextKeeper::ended(SequenceId sequence, bool failed) {
  const auto found = answers_.find(sequence);
  if (found == answers_.end()) return;
  const ServedAnswer answer = std::move(found->second);
  answers_.erase(found);
  std::string problem;
  std::optional<Record> record;
  try {
    record = recorder_.take(sequence, answer);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const bool is_kept = record && !failed && is_new(*record);
  {
    const std::lock_guard lock(mutex_);
    if (!problem.empty()) statistics_.problem = std::move(problem);
    if (!is_kept || queue_.size() == kMostWaiting) {
      ++statistics_.left_out;
      return;
    }
    const bool is_held_out = sum_of(answer.prompt) % kHeldOutOf == 0;
    queue_.push_back({*std::move(record), is_held_out});
  }
  changed_.notify_all();
}

bool TextKeeper::is_new(const Record& record) {
  const std::uint64_t sum = sum_of(record.tokens);
  if (std::ranges::find(last_sums_, sum) != last_sums_.end()) return false;
  if (last_sums_.size() == kMostSums) last_sums_.pop_front();
  last_sums_.push_back(sum);
  return true;
}

TextStatistics TextKeeper::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void TextKeeper::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !writing_; });
}

void TextKeeper::drop_damaged() {
  const std::lock_guard rings(rings_);
  recent_.drop_damaged();
  held_out_.drop_damaged();
  count_texts();
}

/// REQUIRES: rings_ is held.
void TextKeeper::count_texts() {
  const std::lock_guard lock(mutex_);
  statistics_.held_out = held_out_.texts();
  statistics_.texts = recent_.texts() + statistics_.held_out;
}

// On its own thread from here on.

void TextKeeper::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Kept kept = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    lock.unlock();
    write(kept);
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

void TextKeeper::write(const Kept& kept) {
  const std::lock_guard rings(rings_);
  std::string problem;
  try {
    (kept.held_out ? held_out_ : recent_).append(kept.record);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    if (problem.empty()) {
      const auto answer = static_cast<long>(kept.record.tokens.size()) - kept.record.response_begin;
      statistics_.answer_tokens += kept.held_out ? 0 : answer;
      if (recent_fails_.is_over() && held_out_fails_.is_over()) statistics_.problem.clear();
    } else {
      ++statistics_.left_out;
      is_news = (kept.held_out ? held_out_fails_ : recent_fails_).came();
      statistics_.problem = problem;
    }
  }
  count_texts();
  if (is_news) note_(fmt::format("learn: a text is left out: {}", problem));
}

}  // namespace talon
