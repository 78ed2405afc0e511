#include "sample/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "sample/token_weights.h"

namespace talon {
namespace {

using Candidate = Sampler::Candidate;

constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr std::size_t kFew = 256;  // candidates that race by themselves; more take less by the row
constexpr std::size_t kBlock = 256;  // weights that are summed together

/// Descending probability, of equals the smaller id: a total order, so that every selection below
/// has one result.
bool likelier(const Candidate& a, const Candidate& b) {
  return a.p != b.p ? a.p > b.p : a.token < b.token;
}

/// Sorts candidates by `before` and drops all after the first whose running sum reaches `mass`.
/// Sorts in growing blocks, because usually few are kept.
template <typename Item, typename Before>
void keep_mass(std::vector<Item>& candidates, double mass, Before before) {
  std::size_t done = 0, block = 64;
  double sum = 0;
  while (done < candidates.size()) {
    const std::size_t end = std::min(candidates.size(), done + block);
    const auto first = candidates.begin() + static_cast<std::ptrdiff_t>(done);
    const auto last = candidates.begin() + static_cast<std::ptrdiff_t>(end);
    if (last != candidates.end()) std::nth_element(first, last, candidates.end(), before);
    std::sort(first, last, before);
    for (; done < end; ++done) {
      sum += candidates[done].p;
      if (sum >= mass) {
        candidates.resize(done + 1);
        return;
      }
    }
    block *= 4;
  }
}

double total(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.p;
  return sum;
}

/// Drops candidates that are odder than others which hold `mass` by themselves, so that they need
/// not be sorted: most of a vocabulary.
template <typename OddCandidate>
void drop_oddest(std::vector<OddCandidate>& candidates, double mass) {
  constexpr double kSteps = 16;           // of an oddity of 1
  constexpr double kRounding = 1 + 1e-9;  // more than another order of adding them makes
  std::array<double, 512> held{};         // by oddity
  const auto place = [&](const OddCandidate& candidate) {
    return static_cast<std::size_t>(std::min(candidate.oddity * kSteps, held.size() - 1.0));
  };
  for (const OddCandidate& candidate : candidates) held[place(candidate)] += candidate.p;
  std::size_t last = 0;
  for (double sum = held[0]; sum < mass * kRounding && last + 1 < held.size();) sum += held[++last];
  std::erase_if(candidates, [&](const OddCandidate& candidate) { return place(candidate) > last; });
}

bool all_banned(std::span<const float> row) {
  return std::ranges::all_of(row, [](float logit) { return logit == kBanned; });
}

}  // namespace

Sampler::Sampler(SamplerOptions options, int vocabulary)
    : options_(std::move(options)), vocabulary_(vocabulary) {
  check(options_, vocabulary);
  changes_ = LogitChanges(options_);
}

Sampler Sampler::uncut() const {
  SamplerOptions options = options_;
  const SamplerOptions none;
  options.temperature = 1;
  options.top_k = none.top_k;
  options.top_p = none.top_p;
  options.min_p = none.min_p;
  options.typical_p = none.typical_p;
  Sampler sampler(std::move(options), vocabulary_);
  sampler.constraint_ = constraint_;
  return sampler;
}

bool Sampler::plain_argmax() const {
  return options_.temperature == 0 && takes_logits_as_they_are();
}

bool Sampler::plain_race() const {
  return options_.temperature > 0 && !cuts() && takes_logits_as_they_are();
}

bool Sampler::takes_logits_as_they_are() const {
  return !penalizes() && options_.logit_bias.empty() && options_.banned.empty() &&
         options_.banned_early.empty();
}

bool Sampler::penalizes() const {
  return options_.repetition_penalty != 1 || options_.presence_penalty != 0 ||
         options_.frequency_penalty != 0;
}

bool Sampler::cuts_to_top_k() const { return options_.top_k > 0 && options_.top_k < vocabulary_; }

bool Sampler::cuts() const {
  return cuts_to_top_k() || options_.top_p < 1 || options_.min_p > 0 || options_.typical_p < 1;
}

/// Whether top-k alone cuts, and leaves so many that racing over the row is less than finding them.
bool Sampler::cuts_to_many_largest() const {
  return cuts_to_top_k() && options_.top_k > static_cast<int>(kFew) && options_.top_p >= 1 &&
         options_.min_p <= 0 && options_.typical_p >= 1;
}

TokenId Sampler::sample(std::span<const float> logits, const SampleHistory& history,
                        const PositionRandom& random, std::uint64_t position) {
  const std::span<const float> row = adjust(logits, history);
  if (options_.temperature == 0) return largest_logit(row).index;
  const RaceNoise noise(random, position);
  if (!cuts()) return draw_by_race(row, {noise, options_.temperature});
  const LargestLogit largest = largest_logit(row);
  if (cuts_to_many_largest()) {
    const RaceRow whole{row, largest.value, options_.temperature};
    return race_of_largest(whole, options_.top_k, largest.index, noise).token;
  }
  collect(row, largest.value);
  return draw(row, largest.value, noise);
}

/// A race between the candidates: token by token where there are few, else over the row without the
/// others.
TokenId Sampler::draw(std::span<const float> row, float largest, const RaceNoise& noise) {
  tokens_.clear();
  for (const Candidate& candidate : candidates_) {
    if (candidate.p > 0) tokens_.push_back(candidate.token);
  }
  if (tokens_.size() <= kFew) {
    return race_among(tokens_, {row, largest, options_.temperature}, noise).token;
  }
  masked_.assign(row.size(), kBanned);
  for (const TokenId token : tokens_) {
    masked_[static_cast<std::size_t>(token)] = row[static_cast<std::size_t>(token)];
  }
  const TokenId favourite = std::ranges::min_element(candidates_, likelier)->token;
  return race({masked_, largest, options_.temperature}, favourite, noise).token;
}

std::span<const Candidate> Sampler::distribution_by_token(std::span<const float> logits,
                                                          const SampleHistory& history) {
  const std::span<const float> row = adjust(logits, history);
  collect(row, largest_logit(row).value);
  const auto earlier = [](const Candidate& a, const Candidate& b) { return a.token < b.token; };
  if (!std::is_sorted(candidates_.begin(), candidates_.end(), earlier)) {
    std::sort(candidates_.begin(), candidates_.end(), earlier);
  }
  normalize();
  return candidates_;
}

void Sampler::normalize() {
  std::erase_if(candidates_, [](const Candidate& candidate) { return candidate.p == 0; });
  const double sum = total(candidates_);
  for (Candidate& candidate : candidates_) candidate.p /= sum;
}

bool Sampler::allows(const SampleHistory& history, TokenId token) const {
  return constraint_ == nullptr || constraint_->allows(history.answer(), token);
}

/// The row after the constraint, bans, bias and penalties: `logits` itself when there are none.
std::span<const float> Sampler::adjust(std::span<const float> logits,
                                       const SampleHistory& history) {
  expects(static_cast<int>(logits.size()) == vocabulary_, "a row holds one logit per token");
  const std::size_t length = history.committed.size() + history.path.size();
  const bool is_early = !options_.banned_early.empty() &&
                        length < static_cast<std::size_t>(history.prompt_length) +
                                     static_cast<std::size_t>(options_.least_answer);
  if (!constraint_ && !penalizes() && !is_early && options_.logit_bias.empty() &&
      options_.banned.empty()) {
    return logits;
  }
  adjusted_.assign(logits.begin(), logits.end());
  if (constraint_) forbid(constraint_->allowed(history.answer()));
  const auto ban = [&](std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) adjusted_[static_cast<std::size_t>(token)] = kBanned;
  };
  ban(options_.banned);
  if (is_early) ban(options_.banned_early);
  // A draft may complete the answer where no end token may be drawn: nobody reads what follows it.
  const bool is_drafted = constraint_ != nullptr && !history.path.empty();
  if (is_drafted && all_banned(adjusted_) && constraint_->is_complete(history.answer())) {
    return logits;
  }
  for (const auto& [token, bias] : options_.logit_bias)
    adjusted_[static_cast<std::size_t>(token)] += bias;
  if (penalizes()) penalize(history);
  return adjusted_;
}

/// Rows that hold no numbers keep them, so that they are found.
void Sampler::forbid(std::span<const std::uint32_t> allowed) {
  expects(allowed.size() * 32 >= adjusted_.size(), "a bit for each token");
  for (std::size_t token = 0; token < adjusted_.size(); ++token) {
    const bool is_allowed = (allowed[token / 32] >> token % 32 & 1) != 0;
    if (!is_allowed && !std::isnan(adjusted_[token])) adjusted_[token] = kBanned;
  }
}

/// Calls visit(token, times) for each token from position `begin` on, where it is first. `visit`
/// does not throw: seen_ would keep counts.
template <typename Visit>
void Sampler::for_each_seen(const SampleHistory& history, std::size_t begin, Visit&& visit) {
  seen_.resize(static_cast<std::size_t>(vocabulary_));
  const std::size_t length = history.committed.size() + history.path.size();
  const auto token_at = [&](std::size_t position) {
    return static_cast<std::size_t>(position < history.committed.size()
                                        ? history.committed[position]
                                        : history.path[position - history.committed.size()]);
  };
  for (std::size_t position = begin; position < length; ++position) ++seen_[token_at(position)];
  for (std::size_t position = begin; position < length; ++position) {
    const std::size_t token = token_at(position);
    if (seen_[token] == 0) continue;  // done at an earlier occurrence
    visit(token, seen_[token]);
    seen_[token] = 0;
  }
}

/// Of the tokens that the penalty of repetition is for, then of those that presence and frequency
/// are for, each as for_each_seen().
template <typename Repeated, typename Answered>
void Sampler::for_each_penalized(const SampleHistory& history, Repeated&& repeated,
                                 Answered&& answered) {
  const std::size_t length = history.committed.size() + history.path.size();
  const auto window = static_cast<std::size_t>(options_.penalty_window);
  const std::size_t window_begin = window > 0 && window < length ? length - window : 0;
  if (options_.repetition_penalty != 1) for_each_seen(history, window_begin, repeated);
  if (options_.presence_penalty != 0 || options_.frequency_penalty != 0)
    for_each_seen(history, static_cast<std::size_t>(history.prompt_length), answered);
}

void Sampler::penalize(const SampleHistory& history) {
  for_each_penalized(
      history,
      [&](std::size_t token, int) {
        const auto logit = static_cast<double>(adjusted_[token]);
        adjusted_[token] = static_cast<float>(logit > 0 ? logit / options_.repetition_penalty
                                                        : logit * options_.repetition_penalty);
      },
      [&](std::size_t token, int times) {
        const auto logit = static_cast<double>(adjusted_[token]);
        adjusted_[token] = static_cast<float>(logit - options_.presence_penalty -
                                              options_.frequency_penalty * times);
      });
}

const TextPenalties& Sampler::penalties_of(const SampleHistory& history) {
  using Seen = TextPenalties::Seen;
  penalties_ = {};
  if (!penalizes()) return penalties_;
  std::vector<Seen> seen;
  seen.reserve(2 * std::min(history.committed.size(), static_cast<std::size_t>(vocabulary_)));
  for_each_penalized(
      {history.committed, {}, history.prompt_length},
      [&](std::size_t token, int) {
        seen.push_back({static_cast<TokenId>(token), 0, true});
      },
      [&](std::size_t token, int times) {
        const double subtracted = options_.presence_penalty + options_.frequency_penalty * times;
        seen.push_back({static_cast<TokenId>(token), subtracted, false});
      });
  std::ranges::stable_sort(seen, {}, &Seen::token);
  std::vector<Seen> each;
  for (const Seen& one : seen) {
    if (each.empty() || each.back().token != one.token) {
      each.push_back(one);
    } else {  // repeated, and of the answer
      each.back().subtracted = one.subtracted;
    }
  }
  penalties_ = TextPenalties(options_.repetition_penalty, std::move(each));
  return penalties_;
}

/// Fills candidates_ with the tokens that can be drawn; p is relative to the largest weight.
void Sampler::collect(std::span<const float> logits, float largest) {
  candidates_.clear();
  if (options_.temperature == 0) {
    const auto at = std::find(logits.begin(), logits.end(), largest);
    candidates_.push_back({static_cast<TokenId>(at - logits.begin()), 1.0});
    return;
  }
  if (cuts_to_top_k()) {
    collect_largest(logits, largest);
  } else {
    weigh(logits, largest);
    collect_above(least_weight());
    if (options_.top_p < 1) keep_mass(candidates_, options_.top_p * weight_, likelier);
  }
  if (cuts()) cut();
}

/// Fills weights_, in units of the largest logit's, and their sum.
void Sampler::weigh(std::span<const float> logits, float largest) {
  constexpr std::size_t kLanes = 4;
  weights_.resize(logits.size());
  token_weights(logits, largest, options_.temperature, weights_);
  weight_ = 0;
  for (std::size_t begin = 0; begin < weights_.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, weights_.size());
    std::array<double, kLanes> sums{};
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += weights_[i + lane];
    }
    for (; i < end; ++i) sums[0] += weights_[i];
    weight_ += (sums[0] + sums[2]) + (sums[1] + sums[3]);
  }
}

/// Below it a token is certainly cut: tokens of less than (1 - top_p) of the whole, shared over the
/// vocabulary, hold less than 1 - top_p together, and need not be sorted.
double Sampler::least_weight() const {
  if (options_.top_p < 1) return (1 - options_.top_p) * weight_ / vocabulary_;
  return options_.min_p;
}

/// The tokens of some weight, at least `least`, by id.
void Sampler::collect_above(double least) {
  for (std::size_t token = 0; token < weights_.size(); ++token) {
    const double weight = weights_[token];
    if (weight >= least && weight > 0) {
      candidates_.push_back({static_cast<TokenId>(token), weight});
    }
  }
}

/// The top_k largest. A buffer of twice as many is cut back whenever it is full, after which only
/// larger logits enter, so that the row is read once and few tokens are moved.
void Sampler::collect_largest(std::span<const float> logits, float largest) {
  const auto count = static_cast<std::size_t>(options_.top_k);
  const std::size_t room = std::max<std::size_t>(2 * count, 64);
  float least = kBanned;  // a token must be above it to enter: later tokens lose ties
  const auto cut_back = [&] {
    std::nth_element(candidates_.begin(),
                     candidates_.begin() + static_cast<std::ptrdiff_t>(count) - 1,
                     candidates_.end(), likelier);
    candidates_.resize(count);
    least = static_cast<float>(candidates_.back().p);
  };
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > least)) continue;
    candidates_.push_back({static_cast<TokenId>(i), static_cast<double>(logits[i])});
    if (candidates_.size() == room) cut_back();
  }
  if (candidates_.size() > count) cut_back();
  chosen_.clear();
  for (const Candidate& candidate : candidates_) chosen_.push_back(static_cast<float>(candidate.p));
  weights_.resize(chosen_.size());
  token_weights(chosen_, largest, options_.temperature, weights_);
  for (std::size_t i = 0; i < candidates_.size(); ++i) candidates_[i].p = weights_[i];
}

/// The cuts that collecting has not made yet.
void Sampler::cut() {
  if (cuts_to_top_k() && options_.top_p < 1) {
    keep_mass(candidates_, options_.top_p * total(candidates_), likelier);
  }
  if (options_.min_p > 0) {  // the largest p is 1
    std::erase_if(candidates_,
                  [&](const Candidate& candidate) { return candidate.p < options_.min_p; });
  }
  if (options_.typical_p < 1) keep_typical(options_.typical_p);
}

/// Locally typical sampling: the candidates whose surprise is nearest to the mean surprise, until
/// they hold `mass`. By a logarithm that has the same bits on every machine, and takes no subnormal
/// numbers: tokens so unlikely are the oddest.
void Sampler::keep_typical(double mass) {
  const double sum = total(candidates_);
  double entropy = 0;
  odd_.clear();
  for (const Candidate& candidate : candidates_) {
    const double p = candidate.p / sum;
    const bool is_normal = p >= std::numeric_limits<double>::min();
    const double log_p = is_normal ? exact_log(p) : -std::numeric_limits<double>::infinity();
    if (is_normal) entropy -= p * log_p;
    odd_.push_back({candidate, log_p});
  }
  for (OddCandidate& candidate : odd_) candidate.oddity = std::abs(-candidate.oddity - entropy);
  drop_oddest(odd_, mass * sum);
  keep_mass(odd_, mass * sum, [](const OddCandidate& a, const OddCandidate& b) {
    return a.oddity != b.oddity ? a.oddity < b.oddity : likelier(a, b);
  });
  candidates_.assign(odd_.begin(), odd_.end());
}

}  // namespace talon
