#include "engine/round.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/admission/admission.h"
#include "engine/admission/draft_jobs.h"
#include "engine/constraint/constrained_tree.h"
#include "engine/forward_rows.h"
#include "engine/stopwatch.h"
#include "tree/expert_reads.h"
#include "verify/drawn_tokens.h"

namespace talon {
namespace {

ForcedRoom forced_room(const Scheduled& entry, int vocabulary) {
  return {entry.context.rows_available, entry.context.levels_available, vocabulary};
}

Drafter& drafter_of(const Scheduled& entry) { return *entry.sequence->method.method.drafter; }

int end_of(const CommittedTokens& committed) {
  return committed.first_position + static_cast<int>(committed.tokens.size());
}

bool is_run(std::span<const NodeId> rows) {
  return rows.back() - rows.front() + 1 == static_cast<NodeId>(rows.size());
}

}  // namespace

Round::Round(const Model& model, KvCache& cache, int max_rows, Parts parts)
    : model_(model),
      cache_(cache),
      max_rows_(model.config.image ? 2 * max_rows : max_rows),  // guides run beside sequences
      target_(std::make_unique<Target>(model, cache, max_rows_)),
      costs_(parts.costs),
      budget_(parts.budget),
      timekeeper_(std::move(parts.timekeeper)),
      listener_(parts.listener),
      listener_taps_(parts.listener_taps),
      faults_(parts.faults),
      logits_(*model.backend),
      gathered_rows_(*model.backend) {}

void Round::tap(const TapSet& taps) {
  if (taps.taps() != taps_.taps()) {
    auto target = std::make_unique<Target>(model_, cache_, max_rows_, taps.taps());
    features_ = model_.backend->allocate(max_rows_, target->feature_width());
    target_ = std::move(target);
  }
  taps_ = taps;
}

void Round::propose(std::vector<Scheduled>& scheduled) {
  const Stopwatch watch;
  plan(scheduled);
  draft(scheduled);
  constrain(scheduled);
  cut(scheduled);
  add_certain(scheduled);
  draft_ms_ = kept_ms(StepPart::draft, watch.ms());
  share_drafting(scheduled, draft_ms_);
  budget_.make_way_for_trees(scheduled, draft_ms_);
  granted_ = granted_rows(scheduled);
}

void Round::plan(std::vector<Scheduled>& scheduled) {
  const GrantedRows rows = granted_rows(scheduled);
  for (Scheduled& entry : scheduled) {
    Sequence& sequence = *entry.sequence;
    entry.tree.reset(sequence.tokens.back());
    if (!entry.decodes) continue;
    entry.context = {.position = sequence.length() - 1,
                     .rows_available = reserve_drafts(*sequence.cache, cache_.free_pages(),
                                                      entry.grant.draft_rows),
                     .levels_available = sequence.limit - sequence.length() - 1,
                     .sequences = rows.sequences,
                     .mean_position = rows.mean_position,
                     .other_rows = rows.all - 1,
                     .prompt_rows = rows.prompts,
                     .answer_position = sequence.length() - 1 - sequence.prompt_length(),
                     .feature = sequence.feature,
                     .node_rows = sequence.streams()};
    ask_policy(entry, [&](PolicyState& policy) { entry.plan = policy.plan(entry.context); });
  }
}

void Round::draft(std::vector<Scheduled>& scheduled) {
  std::vector<Scheduled*> left;
  for (Scheduled& entry : scheduled) {
    if (entry.decodes && entry.sequence->drafts() && entry.plan.nodes > 0) left.push_back(&entry);
  }
  while (!left.empty()) {
    Drafter& drafter = drafter_of(*left.front());
    const auto others = std::stable_partition(
        left.begin(), left.end(),
        [&](const Scheduled* entry) { return &drafter_of(*entry) == &drafter; });
    const Stopwatch watch;
    draft_with(drafter, {left.begin(), others});
    const double ms = kept_ms(StepPart::draft, watch.ms());
    for (Scheduled* entry : std::span(left.begin(), others))
      entry->own_draft_ms = entry->sharers > 0 ? ms : 0;
    left.erase(left.begin(), others);
  }
}

/// One call for all sequences of a drafter.
void Round::draft_with(Drafter& drafter, std::span<Scheduled* const> scheduled) {
  DraftJobs jobs(faults_);
  const bool proposed = faults_.contain(FaultOrigin::drafter, [&] {
    drafter.propose(jobs.of(scheduled));
    for (Scheduled* entry : scheduled) drop_unknown_tokens(entry->tree, model_.config.vocabulary);
  });
  const auto ran = static_cast<int>(std::ranges::count_if(jobs.all(), &DraftJob::ran_passes));
  const int sharers = ran > 0 ? ran : static_cast<int>(scheduled.size());
  for (std::size_t i = 0; i < scheduled.size(); ++i) {
    Scheduled* const entry = scheduled[i];
    entry->sharers = ran == 0 || jobs.all()[i].ran_passes ? sharers : 0;
    if (proposed && !jobs.policy_failed(i)) continue;
    drop(*entry->sequence);
    entry->tree = DraftTree(entry->sequence->tokens.back());
  }
}

/// Trees of sequences that are constrained lose what cannot become text, and get what must follow.
void Round::constrain(std::vector<Scheduled>& scheduled) {
  change_constrained(scheduled, [this](Scheduled& entry) {
    Sequence& sequence = *entry.sequence;
    drop_forbidden(entry.tree, *sequence.constraint, sequence.answer());
    add_forced(entry.tree, *sequence.constraint, sequence.answer(),
               forced_room(entry, model_.config.vocabulary), kForcedSource);
  });
}

/// What must follow the text is checked whatever the policy thinks of drafts.
void Round::add_certain(std::vector<Scheduled>& scheduled) {
  change_constrained(scheduled, [this](Scheduled& entry) {
    Sequence& sequence = *entry.sequence;
    add_forced_at_root(entry.tree, *sequence.constraint, sequence.answer(),
                       forced_room(entry, model_.config.vocabulary), kForcedSource);
  });
}

/// A constraint that throws costs drafts; where it does so at the text itself, accept() ends it.
template <typename Change>
void Round::change_constrained(std::vector<Scheduled>& scheduled, Change&& change) {
  for (Scheduled& entry : scheduled) {
    const Sequence& sequence = *entry.sequence;
    const bool forces =
        entry.decodes && sequence.constraint && sequence.drafts() && sequence.method.drafts;
    if (!forces) continue;
    if (faults_.contain(FaultOrigin::sequence, [&] { change(entry); })) continue;
    entry.tree = DraftTree(entry.tree[0].token);
  }
}

void Round::cut(std::vector<Scheduled>& scheduled) {
  int drafted_rows = 0;
  draft_rows_.begin_round();
  for (Scheduled& entry : scheduled) {
    ask_policy(entry,
               [&](PolicyState& policy) { policy.offer(entry.tree, entry.context, draft_rows_); });
  }
  for (Scheduled& entry : scheduled) {
    entry.context.drafted_rows = drafted_rows;
    ask_policy(entry, [&](PolicyState& policy) {
      policy.select(entry.tree, entry.plan, entry.context, draft_rows_);
      expects(entry.tree.draft_nodes() <= entry.context.rows_available, "a tree within its plan");
    });
    drafted_rows += entry.tree.draft_nodes() * entry.sequence->streams();
  }
}

/// Asks the policy of a sequence that decodes, if it drafts.
template <typename Ask>
void Round::ask_policy(Scheduled& entry, Ask&& ask) {
  Sequence& sequence = *entry.sequence;
  if (!entry.decodes || !sequence.drafts()) return;
  if (faults_.contain(FaultOrigin::policy, [&] { ask(*sequence.policy); })) return;
  drop(sequence);
  entry.tree = DraftTree(entry.tree[0].token);
}

/// The sequence goes on by plain decoding.
void Round::drop(Sequence& sequence) {
  sequence.draft.reset();
  sequence.policy.reset();
  faults_.drop();
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
  first_uses_.resize(static_cast<std::size_t>(result_.first_uses.count));
  Fence counted;
  if (!first_uses_.empty())
    counted = model_.backend->download_async(result_.first_uses, first_uses_);
  model_.backend->synchronize();
  counted.wait();
  for (std::size_t i = 0; i < scheduled.size() && !first_uses_.empty(); ++i) {
    scheduled[i].first_uses = std::span(first_uses_)
                                  .subspan(static_cast<std::size_t>(result_.first_feature_row[i]),
                                           batch[i].tokens.size());
  }
  logits_.begin(result_.logits, {[&scheduled] { return race_draws(scheduled); },
                                 [&scheduled] { return rows_to_read(scheduled); }});
  check_ms_ = kept_ms(StepPart::check, watch.ms());
}

void Round::accept(std::vector<Scheduled>& scheduled) {
  for_each_draw(scheduled,
                [&](Scheduled& entry, TargetRows& rows) { entry.verdict = verify(entry, rows); });
  for_each_draw(scheduled, note_logprobs);  // all verdicts together say which rows it reads
}

/// Of the sequences that choose tokens and can still be answered, with the rows of their trees.
template <typename Work>
void Round::for_each_draw(std::vector<Scheduled>& scheduled, Work&& work) {
  for (std::size_t index = 0; index < scheduled.size(); ++index) {
    Scheduled& entry = scheduled[index];
    if (!entry.draws || entry.sequence->finished()) continue;
    TreeRows rows(logits_, result_.first_logits_row[index]);
    if (!faults_.contain(FaultOrigin::sequence, [&] { work(entry, rows); }))
      entry.sequence->fail(faults_.reason());
  }
}

VerifyResult Round::verify(Scheduled& entry, TargetRows& rows) {
  VerifyInput input;
  input.tree = &entry.tree;
  input.rows = &rows;
  Sequence& sequence = *entry.sequence;
  input.committed = sequence.tokens;
  input.prompt_length = sequence.prompt_length();
  input.distortion = sequence.statistics.distortion;
  input.sampler = &sequence.sampler;
  input.random = &sequence.random;
  const MethodEntry& method = sequence.method;
  const bool sees_draws = method.sees_draws && entry.decodes && sequence.drafts();
  std::vector<TokenId> drawn(entry.tree.nodes.size(), -1);
  if (sees_draws) input.drawn = &drawn;
  VerifyResult verdict = method.method.verifier->verify(input);
  if (sees_draws) {
    const auto show = [&] {
      method.method.drafter->saw(*sequence.draft, entry.tree,
                                 {[&](NodeId node) { return drawn_token(input, node); },
                                  [&](NodeId node, std::span<const TokenId> others) {
                                    return drawn_without(input, node, others);
                                  }});
    };
    // What it may not ask for it does not see.
    if (!faults_.contain(FaultOrigin::drafter, show) && !sequence.asked_enough()) drop(sequence);
  }
  return verdict;
}

void Round::commit(std::vector<Scheduled>& scheduled) {
  for (std::size_t index = 0; index < scheduled.size(); ++index) {
    Scheduled& entry = scheduled[index];
    if (entry.sequence->finished()) continue;
    const auto work = [&] { commit(entry, index); };
    if (!faults_.contain(FaultOrigin::sequence, work)) entry.sequence->fail(faults_.reason());
  }
  std::vector<Fence> shown = std::exchange(shown_, {});
  wait_for_all(shown);
  learn(scheduled);
}

/// Text and room first, then the tokens, then the cache: a sequence that fails on the way keeps the
/// tokens whose text it has, and retire() takes nothing of it into the prefix cache.
void Round::commit(Scheduled& entry, std::size_t index) {
  Sequence& sequence = *entry.sequence;
  const std::vector<TokenId> chosen = chosen_tokens(entry, entry.verdict);
  const bool whole = faults_.contain(FaultOrigin::sequence, [&] { sequence.read(chosen); });
  sequence.append(chosen);
  if (entry.decodes) note_acceptance(entry);
  if (!whole) return sequence.fail(faults_.reason());

  const std::vector<NodeId> rows = committed_rows(entry);
  const auto cached = static_cast<std::size_t>(sequence.cache->length());
  sequence.cache->keep(rows, std::span(sequence.tokens).subspan(cached, rows.size()));
  const auto show = [&] { observe(entry, index, rows); };
  if (sequence.drafts() && !faults_.contain(FaultOrigin::drafter, show)) drop(sequence);
  const auto tell = [&] { tell_listener(entry, index, rows); };
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

/// Shows the drafter the tokens that `rows` of the forward produced; the first time, the start of
/// the text as well.
void Round::observe(Scheduled& entry, std::size_t index, std::span<const NodeId> rows) {
  Sequence& sequence = *entry.sequence;
  CommittedTokens committed = sequence.tokens_since(sequence.observed);
  std::vector<TokenId> guide;
  const MethodEntry& method = sequence.method;
  if (taps_.wants(method.drafter_taps) || taps_.wants(method.policy_taps)) {
    const View features = features_of(result_.first_feature_row[index], rows);
    committed.features = taps_.columns(method.drafter_taps, features);
    if (end_of(committed) == sequence.length()) {
      show_policy(sequence, taps_.columns(method.policy_taps, features));
    }
    guide = add_guide(sequence, index, rows, method.drafter_taps, committed);
  }
  method.method.drafter->observe(*sequence.draft, committed);
  sequence.observed = end_of(committed);
}

/// Shows the listener the tokens that `rows` of the forward produced.
void Round::tell_listener(Scheduled& entry, std::size_t index, std::span<const NodeId> rows) {
  Sequence& sequence = *entry.sequence;
  CommittedTokens committed = sequence.tokens_since(*sequence.watched);
  std::vector<TokenId> guide;
  if (taps_.wants(listener_taps_)) {
    committed.features =
        taps_.columns(listener_taps_, features_of(result_.first_feature_row[index], rows));
    guide = add_guide(sequence, index, rows, listener_taps_, committed);
  }
  listener_->committed(sequence.id, committed);
  sequence.watched = end_of(committed);
}

/// What the guide has beside `committed`, if there is one, and what `reader` wants of its rows.
/// Returns its tokens, which `committed` borrows.
std::vector<TokenId> Round::add_guide(const Sequence& sequence, std::size_t index,
                                      std::span<const NodeId> rows, TapSet::Reader reader,
                                      CommittedTokens& committed) {
  if (!sequence.cache->guide()) return {};
  std::vector<TokenId> tokens =
      sequence.cache->guide_tokens(committed.first_position, committed.tokens);
  committed.guide_tokens = tokens;
  committed.guide_first_position =
      std::max(0, committed.first_position - sequence.cache->guide_lead());
  if (const auto beside = result_.rows_of_guide(index, rows); !beside.empty()) {
    const View features =
        features_of(result_.first_guide_row[index], beside, static_cast<int>(rows.size()));
    committed.guide_features = taps_.columns(reader, features);
  }
  return tokens;
}

/// Keeps what the policy wants of the row that produced the next root, once it has been waited for.
void Round::show_policy(Sequence& sequence, const View& features) {
  if (!features) return;
  sequence.feature.resize(static_cast<std::size_t>(features.cols));
  const View newest = features.row_range(features.rows - 1, 1);
  shown_.push_back(model_.backend->download_async(newest, sequence.feature));
}

/// Of rows of the forward from row `first` on; where they are no neighbours, in rows of features_
/// from `gathered` on.
View Round::features_of(int first, std::span<const NodeId> rows, int gathered) {
  const int count = static_cast<int>(rows.size());
  if (is_run(rows)) return result_.features.row_range(first + rows.front(), count);
  std::vector<std::int32_t> from;
  for (const NodeId row : rows) from.push_back(first + row);
  const View found = features_.view().row_range(gathered, count);
  model_.backend->gather_rows(result_.features, gathered_rows_.put(from), found);
  return found;
}

void Round::learn(std::vector<Scheduled>& scheduled) {
  const int sequences = granted_.sequences;
  int batch_tokens = 0;
  long positions = 0;
  for (const Scheduled& entry : scheduled) {
    if (entry.decodes) batch_tokens += static_cast<int>(entry.sequence->new_tokens().size());
    positions += entry.context.position;
  }
  if (granted_.prompts == 0) {
    const auto context = static_cast<int>(positions / std::max(1, sequences));
    faults_.contain(FaultOrigin::policy, [&] {
      costs_.observe_check(rows_, context, check_ms_, granted_.all,
                           texts_first(first_uses_, result_.first_feature_row));
    });
  }
  for (Scheduled& entry : scheduled) {
    Sequence& sequence = *entry.sequence;
    if (!entry.decodes) continue;
    sequence.statistics.draft_ms += draft_ms_;
    sequence.statistics.check_ms += check_ms_;
    sequence.statistics.distortion += entry.verdict.distortion;
    sequence.statistics.relaxed += entry.verdict.relaxed;
    entry.draft_ms = draft_ms_;
    entry.check_ms = check_ms_;
    if (sequence.finished()) continue;
    ask_policy(entry, [&](PolicyState& policy) {
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
  const double rest_ms = kept_ms(StepPart::rest, step_ms - draft_ms_ - check_ms_);
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

double Round::kept_ms(StepPart part, double measured_ms) {
  if (!timekeeper_) return measured_ms;
  double ms = measured_ms;
  faults_.contain(FaultOrigin::observer, [&] { ms = timekeeper_(part, measured_ms); });
  return ms;
}

}  // namespace talon
