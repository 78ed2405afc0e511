#include "engine/admission/scheduled.h"

#include <algorithm>
#include <numeric>

namespace talon {

DraftJob draft_job_of(Scheduled& entry) {
  Sequence& sequence = *entry.sequence;
  DraftJob job{sequence.draft.get(), sequence.policy.get(), entry.plan,
               &entry.tree,          &sequence.random,      entry.context.position};
  job.sampler = &sequence.sampler.options();
  job.guidance = sequence.guidance();
  job.races = sequence.method.method.verifier->drafts_may_know_noise();
  return job;
}

std::vector<RaceDraw> race_draws(std::span<const Scheduled> scheduled) {
  std::vector<RaceDraw> draws;
  for (const Scheduled& entry : scheduled) {
    if (!entry.draws) continue;
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

GrantedRows granted_rows(std::span<const Scheduled> scheduled) {
  GrantedRows rows;
  long positions = 0;
  for (const Scheduled& entry : scheduled) {
    const int granted = entry.grant.rows * entry.sequence->request.streams();
    rows.all += granted;
    rows.sequences += entry.decodes ? 1 : 0;
    rows.prompts += entry.decodes ? 0 : granted;
    positions += entry.decodes ? entry.sequence->length() - 1 : 0;
  }
  rows.mean_position = static_cast<int>(positions / std::max(1, rows.sequences));
  return rows;
}

std::vector<TokenId> chosen_tokens(const Scheduled& entry, const VerifyResult& verdict) {
  std::vector<TokenId> tokens;
  if (!entry.draws) return tokens;
  if (entry.decodes) {
    for (const NodeId node : std::span(verdict.path).subspan(1)) {
      tokens.push_back(entry.tree[node].token);
    }
  }
  tokens.push_back(verdict.next);
  return tokens;
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
