#include "learn/ordinary_texts.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::size_t kLeastTexts = 20;
constexpr std::size_t kNoLimit = std::size_t{1} << 40;

Record record_of(const Conversation& conversation) {
  Record record;
  record.tokens.assign(conversation.tokens.begin(), conversation.tokens.end());
  record.response_begin = conversation.response_begin;
  record.source = conversation.source;
  record.temperature = static_cast<float>(conversation.temperature);
  record.features.assign(conversation.features.begin(), conversation.features.end());
  return record;
}

void check_fits(const Dataset& data, const std::string& name, const DatasetInfo& target) {
  const DatasetInfo& info = data.info();
  if (info.model_sha256 != target.model_sha256) {
    fail("--learn-keep {}: expected answers of {} (sha256 {}), found those of {} ({})", name,
         target.model, target.model_sha256, info.model, info.model_sha256);
  }
  if (info.taps != target.taps) {
    fail("--learn-keep {}: expected the vectors of layers {}, found those of {}", name,
         fmt::join(target.taps, ", "), fmt::join(info.taps, ", "));
  }
  if (data.size() < kLeastTexts) {
    fail("--learn-keep {}: expected at least {} conversations, found {}", name, kLeastTexts,
         data.size());
  }
}

}  // namespace

std::filesystem::path ordinary_folder(const std::filesystem::path& folder) {
  return folder / "ordinary" / "texts";
}
std::filesystem::path ordinary_held_out_folder(const std::filesystem::path& folder) {
  return folder / "ordinary" / "held_out";
}

void import_ordinary_texts(const std::filesystem::path& from, const std::filesystem::path& folder,
                           const Manifest& target, long tokens) {
  const auto whole = folder / "ordinary", part = folder / "ordinary.part";
  if (std::filesystem::exists(whole)) return;
  const Dataset data(from);
  check_fits(data, quote(from.string()), target.info);
  std::filesystem::remove_all(part);
  Manifest manifest = target;
  manifest.info.features = data.info().features;
  {
    const LearnNote no_note = [](const std::string&) {};
    TextRing texts(part / "texts", manifest, kNoLimit, no_note);
    TextRing held_out(part / "held_out", manifest, kNoLimit, no_note);
    long left = tokens;
    std::size_t number = 0;
    for (const std::size_t index : data.shuffled(1)) {
      if (left <= 0 && number >= kLeastTexts) break;
      const bool is_held_out = number++ % kHeldOutOf == 0;
      (is_held_out ? held_out : texts).append(record_of(data.read(index)));
      if (!is_held_out) left -= data.size_of(index).response_tokens();
    }
  }
  std::filesystem::rename(part, whole);
}

bool put_damaged_ordinary_texts_aside(const std::filesystem::path& folder, const LearnNote& note) {
  const auto ordinary = folder / "ordinary", aside = folder / "ordinary.damaged";
  if (!std::filesystem::exists(ordinary)) return false;
  try {
    const bool is_whole = damaged_shards(ordinary_folder(folder)).empty() &&
                          damaged_shards(ordinary_held_out_folder(folder)).empty();
    if (is_whole) return false;
  } catch (const std::exception& error) {
    note(fmt::format("learn: {}", error.what()));
  }
  std::filesystem::remove_all(aside);
  std::filesystem::rename(ordinary, aside);
  note(fmt::format("learn: the ordinary texts are damaged: they are now {}", aside.string()));
  return true;
}

}  // namespace talon
