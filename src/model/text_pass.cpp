#include "model/text_pass.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace talon {
namespace {

/// Of the logits of the tokens from `begin` to `done` those that are wanted.
View wanted_logits(const View& logits, const TextPass& pass, std::size_t begin, std::size_t done) {
  if (done <= pass.first) return {};
  const auto skipped = static_cast<int>(std::max(pass.first, begin) - begin);
  return logits.row_range(skipped, logits.rows - skipped);
}

}  // namespace

void run_text(const Model& model, KvCache& cache, const TextPass& pass) {
  const std::span<const TokenId> tokens = pass.tokens;
  const std::size_t chunk = std::min(pass.chunk, tokens.size());
  Target target(model, cache, static_cast<int>(chunk));
  KvSequence sequence = cache.start({}, false);
  std::vector<NodeId> path(chunk);
  std::iota(path.begin(), path.end(), 0);
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    if (pass.stop && pass.stop->requested()) return;
    const auto rows = tokens.subspan(begin, std::min(chunk, tokens.size() - begin));
    const std::size_t done = begin + rows.size();
    if (!sequence.reserve(static_cast<int>(rows.size())))
      fail("the cache has no room for {} tokens", tokens.size());
    using Logits = SequenceRows::Logits;
    SequenceRows batch{&sequence, rows, {}, done > pass.first ? Logits::all : Logits::none};
    batch.kept = true;
    const ForwardResult result = target.forward({&batch, 1});
    sequence.keep(std::span(path).first(rows.size()), rows);
    pass.ran(done, wanted_logits(result.logits, pass, begin, done));
  }
}

}  // namespace talon
