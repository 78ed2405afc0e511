#include "learn/served_recorder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/error.h"

namespace talon {
namespace {

/// Calls take(item) for each of the items that `text` has behind " name=", commas between them.
template <typename Take>
void for_each_item(const std::string& text, const std::string& name, Take&& take) {
  const std::string before = " " + name + "=";
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return;
  const std::size_t end = std::min(text.find(' ', at + 1), text.size());
  for (std::size_t begin = at + before.size(); begin < end;) {
    const std::size_t comma = std::min(text.find(',', begin), end);
    take(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
}

/// What is no token or no number is left out: the text is a file's.
ServedChanges read_changes(const std::string& text) {
  ServedChanges changes;
  for_each_item(text, "ban", [&](const std::string& item) {
    TokenId token = -1;
    if (std::sscanf(item.c_str(), "%d", &token) == 1 && token >= 0) changes.banned.push_back(token);
  });
  for_each_item(text, "bias", [&](const std::string& item) {
    TokenId token = -1;
    float bias = 0;
    const int read = std::sscanf(item.c_str(), "%d:%f", &token, &bias);
    if (read == 2 && token >= 0 && std::isfinite(bias))
      changes.logit_bias.emplace_back(token, bias);
  });
  return changes;
}

}  // namespace

ServedAnswer::ServedAnswer(const Request& request)
    : prompt(request.prompt),
      seed(request.seed),
      choice(request.choice),
      temperature(request.sampler.top_k == 1 ? 0 : request.sampler.temperature) {
  const SamplerOptions& sampler = request.sampler;
  if (sampler.banned.size() + sampler.logit_bias.size() <= ServedChanges::kMost)
    changes = {sampler.banned, sampler.logit_bias};
}

std::string ServedSource::text() const {
  std::string source = fmt::format("served seed={} choice={} first={}{}", seed, choice, first,
                                   races ? "" : " races=0");
  std::vector<std::string> biases;
  for (const auto& [token, bias] : changes.logit_bias)
    biases.push_back(fmt::format("{}:{}", token, bias));
  if (!changes.banned.empty()) source += fmt::format(" ban={}", fmt::join(changes.banned, ","));
  if (!biases.empty()) source += fmt::format(" bias={}", fmt::join(biases, ","));
  return source;
}

std::optional<ServedSource> ServedSource::parse(const std::string& text) {
  unsigned long long seed = 0;
  int races = 1;
  ServedSource source;
  if (std::sscanf(text.c_str(), "served seed=%llu choice=%u first=%d races=%d", &seed,
                  &source.choice, &source.first, &races) < 3) {
    return std::nullopt;
  }
  source.seed = seed;
  source.races = races != 0;
  source.changes = read_changes(text);
  return source;
}

ServedRecorder::ServedRecorder(std::vector<FeatureTap> taps, FeatureType type, Backend& backend)
    : taps_(std::move(taps)), type_(type), backend_(backend) {}

std::size_t ServedRecorder::rows_of(const Watched& watched) const {
  return row_bytes_ == 0 ? 0 : watched.rows.size() / row_bytes_;
}

/// One of the last texts whose rows stand for those of `known` but the last.
const ServedRecorder::Beginning* ServedRecorder::beginning_of(
    std::span<const TokenId> known) const {
  const auto found = std::ranges::find_if(beginnings_, [&](const Beginning& beginning) {
    return beginning.tokens.size() + 1 >= known.size() &&
           std::equal(known.begin(), known.end() - 1, beginning.tokens.begin());
  });
  return found == beginnings_.end() ? nullptr : &*found;
}

void ServedRecorder::begin(SequenceId sequence, std::span<const TokenId> known) {
  Watched& watched = watched_[sequence];
  watched = {};
  if (known.empty()) return;
  const std::size_t rows = known.size() - 1;  // of the last one the row is still to come
  if (const Beginning* beginning = rows > 0 ? beginning_of(known) : nullptr) {
    watched.tokens.assign(known.begin(), known.end());
    const auto bytes = static_cast<std::ptrdiff_t>(rows * row_bytes_);
    watched.rows.assign(beginning->rows.begin(), beginning->rows.begin() + bytes);
    return;
  }
  watched.first = static_cast<int>(rows);
  watched.tokens = {known.back()};
}

void ServedRecorder::committed(SequenceId sequence, const CommittedTokens& committed) {
  Watched& watched = watched_.at(sequence);
  if (watched.tokens.size() > kMostTokens) return;
  watched.tokens.insert(watched.tokens.end(), committed.tokens.begin(), committed.tokens.end());
  const View& rows = committed.features;
  const auto values = static_cast<std::size_t>(rows.rows) * static_cast<std::size_t>(rows.cols);
  if (values == 0) return;
  const FeatureRows format{static_cast<std::uint32_t>(rows.cols), type_};
  row_bytes_ = format.row_bytes();
  values_.resize(values);
  backend_.download(rows, values_);
  try {
    watched.saturated += format.encode(values_, watched.rows);
  } catch (const std::exception& error) {
    watched.problem = error.what();
    throw;
  }
}

/// Keeps the beginning for later texts, unless one like it is kept.
void ServedRecorder::end(SequenceId sequence) {
  const Watched& watched = watched_.at(sequence);
  const std::size_t rows = std::min(rows_of(watched), kBeginningRows);
  if (watched.first > 0 || rows == 0 || watched.saturated > 0) return;
  const std::span tokens = std::span(watched.tokens).first(rows);
  const bool is_kept = std::ranges::any_of(beginnings_, [&](const Beginning& beginning) {
    return std::ranges::equal(beginning.tokens, tokens);
  });
  if (is_kept) return;
  if (beginnings_.size() == kBeginnings) beginnings_.pop_front();
  const auto bytes = static_cast<std::ptrdiff_t>(rows * row_bytes_);
  beginnings_.push_back(
      {{tokens.begin(), tokens.end()}, {watched.rows.begin(), watched.rows.begin() + bytes}});
}

std::optional<Record> ServedRecorder::take(SequenceId sequence, const ServedAnswer& answer) {
  const auto found = watched_.find(sequence);
  if (found == watched_.end()) return std::nullopt;
  Watched watched = std::move(found->second);
  watched_.erase(found);
  if (!watched.problem.empty()) throw Error(watched.problem);
  const std::size_t rows = rows_of(watched);
  const std::size_t tokens = std::min({watched.tokens.size(), rows + 1, kMostTokens});
  const int prompt = static_cast<int>(answer.prompt.size());
  Record record;
  record.response_begin = std::max(prompt - watched.first, 1);
  if (tokens < static_cast<std::size_t>(record.response_begin) + kLeastAnswer) return std::nullopt;
  record.tokens.assign(watched.tokens.begin(),
                       watched.tokens.begin() + static_cast<std::ptrdiff_t>(tokens));
  watched.rows.resize((tokens - 1) * row_bytes_);
  record.features = std::move(watched.rows);
  record.temperature = static_cast<float>(answer.temperature);
  record.saturated = watched.saturated;
  const ServedSource source{answer.seed, answer.choice, watched.first, answer.races,
                            answer.changes};
  record.source = source.text();
  return record;
}

}  // namespace talon
