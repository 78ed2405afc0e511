#include "engine/round/feature_readers.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace talon {
namespace {

int end_of(const CommittedTokens& committed) {
  return committed.first_position + static_cast<int>(committed.tokens.size());
}

bool is_run(std::span<const NodeId> rows) {
  return rows.back() - rows.front() + 1 == static_cast<NodeId>(rows.size());
}

}  // namespace

void FeatureReaders::show_drafter(Sequence& sequence, const KeptRows& kept) {
  CommittedTokens committed = sequence.tokens_since(sequence.observed);
  std::vector<TokenId> guide;
  const MethodEntry& method = sequence.method;
  if (taps_.wants(method.drafter_taps) || taps_.wants(method.policy_taps)) {
    const View features = features_of(kept);
    committed.features = taps_.columns(method.drafter_taps, features);
    if (end_of(committed) == sequence.length()) {
      keep_policy_feature(sequence, taps_.columns(method.policy_taps, features));
    }
    guide = add_guide(sequence, kept, method.drafter_taps, committed);
  }
  method.parts.drafter->observe(*sequence.draft, committed);
  sequence.observed = end_of(committed);
}

void FeatureReaders::show_listener(Sequence& sequence, const KeptRows& kept) {
  CommittedTokens committed = sequence.tokens_since(*sequence.watched);
  std::vector<TokenId> guide;
  if (taps_.wants(listener_taps_)) {
    committed.features = taps_.columns(listener_taps_, features_of(kept));
    guide = add_guide(sequence, kept, listener_taps_, committed);
  }
  listener_->committed(sequence.id, committed);
  sequence.watched = end_of(committed);
}

void FeatureReaders::wait() {
  std::vector<Fence> fences = std::exchange(feature_fences_, {});
  wait_for_all(fences);
}

/// What the guide has beside `committed`, if there is one, and what `reader` wants of its rows.
/// Returns its tokens, which `committed` borrows.
std::vector<TokenId> FeatureReaders::add_guide(const Sequence& sequence, const KeptRows& kept,
                                               TapSet::Reader reader, CommittedTokens& committed) {
  if (!sequence.cache->guide()) return {};
  std::vector<TokenId> tokens =
      sequence.cache->guide_tokens(committed.first_position, committed.tokens);
  committed.guide_tokens = tokens;
  committed.guide_first_position =
      std::max(0, committed.first_position - sequence.cache->guide_lead());
  const ForwardResult& forward = kept.forward;
  if (const auto beside = forward.rows_of_guide(kept.part, kept.rows); !beside.empty()) {
    const View features = features_of(forward.features, forward.first_guide_row[kept.part], beside,
                                      static_cast<int>(kept.rows.size()));
    committed.guide_features = taps_.columns(reader, features);
  }
  return tokens;
}

/// Fetches what the policy wants of the row that produced the next root; wait() waits for it.
void FeatureReaders::keep_policy_feature(Sequence& sequence, const View& features) {
  if (!features) return;
  sequence.feature.resize(static_cast<std::size_t>(features.cols));
  const View newest = features.row_range(features.rows - 1, 1);
  feature_fences_.push_back(backend_.download_async(newest, sequence.feature));
}

View FeatureReaders::features_of(const KeptRows& kept) {
  return features_of(kept.forward.features, kept.forward.first_row[kept.part], kept.rows);
}

/// The features of `rows`, counted from row `first` of `all`: in place where they are neighbours,
/// else copied to features_ from its row `gathered` on.
View FeatureReaders::features_of(const View& all, int first, std::span<const NodeId> rows,
                                 int gathered) {
  const int count = static_cast<int>(rows.size());
  if (is_run(rows)) return all.row_range(first + rows.front(), count);
  std::vector<std::int32_t> from;
  for (const NodeId row : rows) from.push_back(first + row);
  const View found = features_.view().row_range(gathered, count);
  backend_.gather_rows(all, gathered_rows_.put(from), found);
  return found;
}

}  // namespace talon
