#include "engine/round/scheduled.h"

#include <algorithm>
#include <numeric>

#include "sample/log_probabilities.h"

namespace talon {
namespace {

bool reads_logits(const Scheduled& entry, NodeId node) {
  const Sequence& sequence = *entry.sequence;
  if (sequence.request.logprobs >= 0) {
    if (node == 0 || std::ranges::find(entry.verdict.path, node) != entry.verdict.path.end())
      return true;
  }
  const Sampler& sampler = sequence.sampler;
  if (sequence.method.knows_noise && (sampler.plain_argmax() || sampler.plain_race())) return false;
  return entry.tree[node].kind == NodeKind::candidate || sequence.method.sees_draws;
}

}  // namespace

DraftJob draft_job_of(Scheduled& entry) {
  Sequence& sequence = *entry.sequence;
  DraftJob job{sequence.draft.get(), sequence.policy.get(), entry.plan,
               &entry.tree,          &sequence.random,      entry.context.position};
  job.sampler = &sequence.sampler.options();
  job.changes = &sequence.sampler.changes();
  job.penalties = &sequence.sampler.penalties_of({sequence.tokens, {}, sequence.prompt_length()});
  job.guidance = sequence.guidance();
  job.races = sequence.method.parts.verifier->drafts_may_know_noise();
  job.text = &*sequence.cache;
  return job;
}

SequenceRows rows_of(Scheduled& entry, const ModelConfig& config) {
  const Sequence& sequence = *entry.sequence;
  entry.tokens = entry.tree.tokens();
  entry.parents = entry.tree.parents();
  SequenceRows rows{
      .sequence = &*entry.sequence->cache, .tokens = entry.tokens, .parents = entry.parents};
  if (!entry.decodes) {
    rows.tokens = std::span(sequence.tokens)
                      .subspan(static_cast<std::size_t>(sequence.cache->length()),
                               static_cast<std::size_t>(entry.grant.rows));
    rows.parents = {};
    rows.vectors = sequence.vectors_of(sequence.cache->length(), entry.grant.rows);
    rows.kept = true;
    rows.logits = entry.chooses ? SequenceRows::Logits::last : SequenceRows::Logits::none;
  }
  if (config.rope.grid_columns > 0) rows.picture_prompt = sequence.prompt_length();
  rows.guidance = sequence.request.guidance;
  rows.guided_until = sequence.request.guided_until();
  return rows;
}

std::vector<RaceDraw> race_draws(std::span<const Scheduled> scheduled) {
  std::vector<RaceDraw> draws;
  for (const Scheduled& entry : scheduled) {
    if (!entry.chooses) continue;
    const Sequence& sequence = *entry.sequence;
    const Sampler& sampler = sequence.sampler;
    const double temperature = sampler.plain_race() ? sampler.options().temperature : 1;
    for (const DraftTree::Node& node : entry.tree.nodes) {
      const auto position = sequence.tokens.size() + static_cast<std::size_t>(node.depth);
      draws.push_back({{sequence.random, position}, temperature});
    }
  }
  return draws;
}

std::vector<int> rows_to_read(std::span<const Scheduled> scheduled) {
  std::vector<int> rows;
  int first = 0;
  for (const Scheduled& entry : scheduled) {
    if (!entry.chooses) continue;
    for (NodeId node = 0; node < entry.tree.size(); ++node) {
      if (reads_logits(entry, node)) rows.push_back(first + node);
    }
    first += entry.tree.size();
  }
  return rows;
}

GrantedRows granted_rows(std::span<const Scheduled> scheduled) {
  GrantedRows rows;
  long positions = 0;
  for (const Scheduled& entry : scheduled) {
    const int granted = entry.grant.rows * entry.sequence->streams();
    rows.all += granted;
    rows.sequences += entry.decodes ? 1 : 0;
    rows.prompts += entry.decodes ? 0 : granted;
    positions += entry.decodes ? entry.sequence->length() - 1 : 0;
  }
  rows.mean_position = static_cast<int>(positions / std::max(1, rows.sequences));
  return rows;
}

std::vector<TokenId> chosen_tokens(const Scheduled& entry) {
  std::vector<TokenId> tokens;
  if (!entry.chooses) return tokens;
  if (entry.decodes) {
    for (const NodeId node : std::span(entry.verdict.path).subspan(1)) {
      tokens.push_back(entry.tree[node].token);
    }
  }
  tokens.push_back(entry.verdict.next);
  return tokens;
}

/// The row of a token's parent says what the target thought of it.
void note_logprobs(const Scheduled& entry, TargetRows& rows) {
  Sequence& sequence = *entry.sequence;
  if (sequence.request.logprobs < 0) return;
  const std::vector<TokenId> chosen = chosen_tokens(entry);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const NodeId node = entry.decodes ? entry.verdict.path[i] : 0;
    sequence.logprobs.push_back(
        log_probabilities(rows.logits(node), chosen[i], sequence.request.logprobs));
  }
}

std::vector<NodeId> committed_rows(const Scheduled& entry) {
  if (entry.decodes) return entry.verdict.path;
  std::vector<NodeId> rows(static_cast<std::size_t>(entry.grant.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

void share_drafting(std::span<Scheduled> scheduled, double draft_ms) {
  double calls_ms = 0;
  int drafters = 0;
  for (const Scheduled& entry : scheduled) {
    if (entry.sharers == 0) continue;
    calls_ms += entry.own_draft_ms / entry.sharers;
    ++drafters;
  }
  if (drafters == 0) return;
  const double each_ms = std::max(0.0, draft_ms - calls_ms) / drafters;
  for (Scheduled& entry : scheduled) entry.own_draft_ms += each_ms * entry.sharers;
}

}  // namespace talon
