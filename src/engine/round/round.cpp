#include "engine/round/round.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/stopwatch.h"
#include "engine/round/ask_policy.h"
#include "tree/expert_reads.h"
#include "verify/drawn_tokens.h"

namespace talon {

Round::Round(const Model& model, KvCache& cache, int max_rows, Parts parts)
    : model_(model),
      cache_(cache),
      max_rows_(model.config.image ? 2 * max_rows : max_rows),  // guides run beside sequences
      target_(std::make_unique<Target>(model, cache, max_rows_)),
      costs_(parts.costs),
      budget_(parts.budget),
      faults_(parts.faults),
      kept_time_(std::move(parts.timekeeper), faults_),
      proposer_(cache, model.config.vocabulary, kept_time_, faults_),
      readers_(*model.backend, parts.listener, parts.listener_taps),
      logits_(*model.backend) {}

void Round::tap(const TapSet& taps) {
  if (taps.taps() != readers_.taps()) {
    auto target = std::make_unique<Target>(model_, cache_, max_rows_, taps.taps());
    readers_.make_room(max_rows_, target->feature_width());
    target_ = std::move(target);
  }
  readers_.tap(taps);
}

void Round::propose(std::vector<Scheduled>& scheduled) {
  const Stopwatch watch;
  proposer_.propose(scheduled);
  draft_ms_ = kept_time_.ms(StepPart::draft, watch.ms());
  share_drafting(scheduled, draft_ms_);
  budget_.make_way_for_trees(scheduled, draft_ms_);
  granted_ = granted_rows(scheduled);
}

void Round::check(std::vector<Scheduled>& scheduled) {
  const Stopwatch watch;
  std::vector<SequenceRows> batch;
  rows_ = 0;
  for (Scheduled& entry : scheduled) {
    batch.push_back(rows_of(entry, model_.config));
    const auto count = static_cast<int>(batch.back().tokens.size());
    const bool has_room = entry.sequence->cache->reserve(count);
    expects(has_room, "room in the cache for an admitted sequence");
    rows_ += count * entry.sequence->streams();
  }
  result_ = target_->forward(batch);
  wait_for_forward();
  for (std::size_t i = 0; i < scheduled.size() && !first_uses_.empty(); ++i) {
    scheduled[i].first_uses =
        std::span(first_uses_)
            .subspan(static_cast<std::size_t>(result_.first_row[i]), batch[i].tokens.size());
  }
  logits_.begin(result_.logits, {[&scheduled] { return race_draws(scheduled); },
                                 [&scheduled] { return rows_to_read(scheduled); }});
  check_ms_ = kept_time_.ms(StepPart::check, watch.ms());
}

/// Waits for the rows, and for what was counted beside them.
void Round::wait_for_forward() {
  first_uses_.resize(static_cast<std::size_t>(result_.first_uses.count));
  Fence counted;
  if (!first_uses_.empty())
    counted = model_.backend->download_async(result_.first_uses, first_uses_);
  model_.backend->synchronize();
  counted.wait();
}

void Round::accept(std::vector<Scheduled>& scheduled) {
  for_each_choice(scheduled,
                  [&](Scheduled& entry, TargetRows& rows) { entry.verdict = verify(entry, rows); });
  for_each_choice(scheduled, note_logprobs);  // all verdicts together say which rows it reads
}

/// Does `work` for each sequence that chooses tokens and has not failed, with the rows of its tree.
template <typename Work>
void Round::for_each_choice(std::vector<Scheduled>& scheduled, Work&& work) {
  for (std::size_t index = 0; index < scheduled.size(); ++index) {
    Scheduled& entry = scheduled[index];
    if (!entry.chooses || entry.sequence->finished()) continue;
    TreeRows rows(logits_, result_.first_logits_row[index]);
    if (!faults_.contain(FaultOrigin::sequence, [&] { work(entry, rows); }))
      entry.sequence->fail(faults_.reason());
  }
}

VerifyResult Round::verify(Scheduled& entry, TargetRows& rows) {
  Sequence& sequence = *entry.sequence;
  VerifyInput input;
  input.tree = &entry.tree;
  input.rows = &rows;
  input.committed = sequence.tokens;
  input.prompt_length = sequence.prompt_length();
  input.distortion = sequence.statistics.distortion;
  input.sampler = &sequence.sampler;
  input.random = &sequence.random;
  const MethodEntry& method = sequence.method;
  const bool sees_draws = method.sees_draws && entry.decodes && sequence.drafts();
  std::vector<TokenId> drawn(entry.tree.nodes.size(), -1);
  if (sees_draws) input.drawn = &drawn;
  VerifyResult verdict = method.parts.verifier->verify(input);
  if (sees_draws) show_draws(sequence, input);
  return verdict;
}

/// Shows the drafter what the target draws after nodes of the checked tree.
void Round::show_draws(Sequence& sequence, const VerifyInput& input) {
  const auto show = [&] {
    sequence.method.parts.drafter->saw(*sequence.draft, *input.tree,
                                       {[&](NodeId node) { return drawn_token(input, node); },
                                        [&](NodeId node, std::span<const TokenId> others) {
                                          return drawn_without(input, node, others);
                                        }});
  };
  // What it may not ask for it does not see.
  if (!faults_.contain(FaultOrigin::drafter, show) && !sequence.asked_enough())
    sequence.drop_to_plain(faults_);
}

void Round::commit(std::vector<Scheduled>& scheduled) {
  for (std::size_t index = 0; index < scheduled.size(); ++index) {
    Scheduled& entry = scheduled[index];
    if (entry.sequence->finished()) continue;
    const auto work = [&] { commit(entry, index); };
    if (!faults_.contain(FaultOrigin::sequence, work)) entry.sequence->fail(faults_.reason());
  }
  readers_.wait();
  learn(scheduled);
}

/// Text and room first, then the tokens, then the cache: a sequence that fails on the way keeps the
/// tokens whose text it has, and retire() takes nothing of it into the prefix cache.
void Round::commit(Scheduled& entry, std::size_t index) {
  Sequence& sequence = *entry.sequence;
  const std::vector<TokenId> chosen = chosen_tokens(entry);
  const bool whole = faults_.contain(FaultOrigin::sequence, [&] { sequence.read(chosen); });
  sequence.append(chosen);
  if (entry.decodes) note_acceptance(entry);
  if (!whole) return sequence.fail(faults_.reason());

  const std::vector<NodeId> rows = committed_rows(entry);
  const auto cached = static_cast<std::size_t>(sequence.cache->length());
  sequence.cache->keep(rows, std::span(sequence.tokens).subspan(cached, rows.size()));
  const KeptRows kept{result_, index, rows};
  const auto show = [&] { readers_.show_drafter(sequence, kept); };
  if (sequence.drafts() && !faults_.contain(FaultOrigin::drafter, show))
    sequence.drop_to_plain(faults_);
  const auto tell = [&] { readers_.show_listener(sequence, kept); };
  if (sequence.watched && !faults_.contain(FaultOrigin::observer, tell)) sequence.watched.reset();
}

void Round::note_acceptance(Scheduled& entry) {
  Sequence& sequence = *entry.sequence;
  const int emitted = sequence.readable;
  sequence.accepted_new = std::min(emitted, static_cast<int>(entry.verdict.path.size()) - 1);
  if (emitted == 0) return;
  // The root and all emitted but the last.
  entry.verdict.path.resize(static_cast<std::size_t>(emitted));
  sequence.statistics.accepted.push_back(emitted - 1);  // read() made room
  sequence.statistics.drafted.push_back(entry.tree.draft_nodes());
  ++sequence.statistics.rounds;
}

/// Tells costs, statistics and policies what the round took and brought.
void Round::learn(std::vector<Scheduled>& scheduled) {
  const int sequences = granted_.sequences;
  int batch_tokens = 0;
  for (const Scheduled& entry : scheduled) {
    if (entry.decodes) batch_tokens += static_cast<int>(entry.sequence->new_tokens().size());
  }
  if (granted_.prompts == 0) {
    faults_.contain(FaultOrigin::policy, [&] {
      costs_.observe_check(rows_, granted_.mean_position, check_ms_, granted_.all,
                           texts_first(first_uses_, result_.first_row));
    });
  }
  for (Scheduled& entry : scheduled) {
    Sequence& sequence = *entry.sequence;
    if (!entry.decodes) continue;
    sequence.statistics.draft_ms += draft_ms_;
    sequence.statistics.check_ms += check_ms_;
    sequence.statistics.distortion += entry.verdict.distortion;
    sequence.statistics.relaxed += entry.verdict.relaxed;
    if (sequence.finished()) continue;
    ask_policy(entry, faults_, [&](PolicyState& policy) {
      policy.learn({.tree = &entry.tree,
                    .accepted = entry.verdict.path,
                    .emitted = sequence.new_tokens(),
                    .draft_ms = draft_ms_,
                    .own_draft_ms = entry.own_draft_ms,
                    .sharers = entry.sharers,
                    .check_ms = check_ms_,
                    .sequences = sequences,
                    .draft_rows = rows_ - granted_.all,
                    .batch_tokens = batch_tokens});
    });
  }
}

void Round::learn_rest(double step_ms) {
  const double rest_ms = kept_time_.ms(StepPart::rest, step_ms - draft_ms_ - check_ms_);
  if (granted_.prompts == 0) {
    faults_.contain(FaultOrigin::policy, [&] { costs_.observe_rest(rest_ms); });
    return;
  }
  const int answer_rows = rows_ - granted_.prompts, texts = granted_.all - granted_.prompts;
  double ms = check_ms_ + rest_ms;
  if (texts > 0)
    ms -= costs_.check_ms(answer_rows, granted_.mean_position, texts) + costs_.rest_ms();
  budget_.observe(granted_.prompts, ms);
}

RoundReport Round::report_of(const Scheduled& entry, double step_ms) const {
  const Sequence& sequence = *entry.sequence;
  RoundReport report;
  report.sequence = sequence.id;
  report.round = sequence.statistics.rounds;
  report.position = sequence.length() - static_cast<int>(sequence.new_tokens().size()) - 1;
  report.tree = &entry.tree;
  report.experts = entry.first_uses;
  report.accepted = entry.verdict.path;
  report.emitted = sequence.new_tokens();
  report.distortion = entry.verdict.distortion;
  report.sequences = granted_.sequences;
  report.draft_ms = draft_ms_;
  report.check_ms = check_ms_;
  report.other_ms = std::max(0.0, step_ms - draft_ms_ - check_ms_);
  return report;
}

}  // namespace talon
