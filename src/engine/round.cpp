#include "engine/round.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "engine/admission/admission.h"
#include "engine/forward_rows.h"
#include "engine/stopwatch.h"
#include "verify/drawn_tokens.h"

namespace talon {
namespace {

int count_decoding(const std::vector<Turn>& turns) {
  return static_cast<int>(
      std::count_if(turns.begin(), turns.end(), [](const Turn& turn) { return turn.decodes; }));
}

/// Rows of all turns, without draft nodes.
int rows_without_drafts(const std::vector<Turn>& turns) {
  return std::accumulate(turns.begin(), turns.end(), 0,
                         [](int rows, const Turn& turn) { return rows + turn.grant.rows; });
}

/// The tokens that the verdict adds to the text.
std::vector<TokenId> chosen_tokens(const Turn& turn, const VerifyResult& verdict) {
  std::vector<TokenId> tokens;
  if (!turn.draws) return tokens;
  if (turn.decodes) {
    for (const NodeId node : std::span(verdict.path).subspan(1)) {
      tokens.push_back(turn.tree[node].token);
    }
  }
  tokens.push_back(verdict.next);
  return tokens;
}

/// Rows of the forward that became text.
std::vector<NodeId> committed_rows(const Turn& turn) {
  if (turn.decodes) return turn.verdict.path;
  std::vector<NodeId> rows(static_cast<std::size_t>(turn.grant.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

Drafter& drafter_of(const Turn& turn) { return *turn.sequence->method.method.drafter; }

/// Tokens from `first` on that the rows in the cache have produced.
CommittedTokens tokens_since(int first, const Sequence& sequence) {
  const int end = std::min(sequence.cache->length() + 1, sequence.length());
  CommittedTokens committed;
  committed.tokens = std::span(sequence.tokens)
                         .subspan(static_cast<std::size_t>(first),
                                  static_cast<std::size_t>(end) - static_cast<std::size_t>(first));
  committed.first_position = first;
  committed.first_has_row = first > 0;
  return committed;
}

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
      max_rows_(max_rows),
      target_(std::make_unique<Target>(model, cache, max_rows)),
      costs_(parts.costs),
      timekeeper_(std::move(parts.timekeeper)),
      listener_(parts.listener),
      listener_taps_(parts.listener_taps),
      faults_(parts.faults),
      row_(*model.backend),
      gathered_rows_(*model.backend) {}

void Round::tap(const TapSet& taps) {
  if (taps.taps() != taps_.taps()) {
    auto target = std::make_unique<Target>(model_, cache_, max_rows_, taps.taps());
    features_ = model_.backend->allocate(max_rows_, target->feature_width());
    target_ = std::move(target);
  }
  taps_ = taps;
}

void Round::propose(std::vector<Turn>& turns) {
  const Stopwatch watch;
  plan(turns);
  draft(turns);
  cut(turns);
  draft_ms_ = kept_ms(StepPart::draft, watch.ms());
}

void Round::plan(std::vector<Turn>& turns) {
  const int sequences = count_decoding(turns);
  const int rows = rows_without_drafts(turns);
  for (Turn& turn : turns) {
    Sequence& sequence = *turn.sequence;
    turn.tree.reset(sequence.tokens.back());
    if (!turn.decodes) continue;
    turn.context = {sequence.length() - 1,
                    reserve_drafts(*sequence.cache, cache_.free_pages(), turn.grant.draft_rows),
                    sequence.limit - sequence.length() - 1,
                    sequences,
                    rows - 1,
                    sequence.length() - 1 - sequence.prompt_length(),
                    sequence.feature};
    ask_policy(turn, [&](PolicyState& policy) { turn.plan = policy.plan(turn.context); });
  }
}

void Round::draft(std::vector<Turn>& turns) {
  std::vector<Turn*> left;
  for (Turn& turn : turns) {
    if (turn.decodes && turn.sequence->drafts() && turn.plan.nodes > 0) left.push_back(&turn);
  }
  while (!left.empty()) {
    Drafter& drafter = drafter_of(*left.front());
    const auto others = std::stable_partition(
        left.begin(), left.end(), [&](const Turn* turn) { return &drafter_of(*turn) == &drafter; });
    draft_with(drafter, {left.begin(), others});
    left.erase(left.begin(), others);
  }
}

/// One call for all sequences of a drafter.
void Round::draft_with(Drafter& drafter, std::span<Turn* const> turns) {
  std::vector<DraftJob> jobs;
  for (Turn* turn : turns) {
    Sequence& sequence = *turn->sequence;
    jobs.push_back({sequence.draft.get(), sequence.policy.get(), turn->plan, &turn->tree,
                    &sequence.random, turn->context.position});
  }
  if (faults_.contain(FaultOrigin::drafter, [&] { drafter.propose(jobs); })) return;
  for (Turn* turn : turns) {
    drop(*turn->sequence);
    turn->tree = DraftTree(turn->sequence->tokens.back());
  }
}

void Round::cut(std::vector<Turn>& turns) {
  int rows = rows_without_drafts(turns);
  draft_rows_.begin_round();
  for (Turn& turn : turns) {
    ask_policy(turn,
               [&](PolicyState& policy) { policy.offer(turn.tree, turn.context, draft_rows_); });
  }
  for (Turn& turn : turns) {
    turn.context.other_rows = rows - 1;
    ask_policy(turn, [&](PolicyState& policy) {
      policy.select(turn.tree, turn.plan, turn.context, draft_rows_);
      expects(turn.tree.draft_nodes() <= turn.context.rows_available, "a tree within its plan");
    });
    rows += turn.tree.draft_nodes();
  }
}

/// Asks the policy of a sequence that decodes, if it drafts.
template <typename Ask>
void Round::ask_policy(Turn& turn, Ask&& ask) {
  Sequence& sequence = *turn.sequence;
  if (!turn.decodes || !sequence.drafts()) return;
  if (faults_.contain(FaultOrigin::policy, [&] { ask(*sequence.policy); })) return;
  drop(sequence);
  turn.tree = DraftTree(turn.tree[0].token);
}

/// The sequence goes on by plain decoding.
void Round::drop(Sequence& sequence) {
  sequence.draft.reset();
  sequence.policy.reset();
  ++faults_.statistics.dropped;
}

void Round::check(std::vector<Turn>& turns) {
  const Stopwatch watch;
  std::vector<SequenceRows> batch;
  rows_ = 0;
  for (Turn& turn : turns) {
    Sequence& sequence = *turn.sequence;
    turn.tokens = turn.tree.tokens();
    turn.parents = turn.tree.parents();
    SequenceRows rows{.sequence = &*sequence.cache, .tokens = turn.tokens, .parents = turn.parents};
    if (!turn.decodes) {
      rows.tokens = std::span(sequence.tokens)
                        .subspan(static_cast<std::size_t>(sequence.cache->length()),
                                 static_cast<std::size_t>(turn.grant.rows));
      rows.parents = {};
      rows.logits = turn.draws ? SequenceRows::Logits::last : SequenceRows::Logits::none;
    }
    const auto count = static_cast<int>(rows.tokens.size());
    const bool has_room = sequence.cache->reserve(count);
    expects(has_room, "room in the cache for an admitted sequence");
    rows_ += count;
    batch.push_back(rows);
  }
  result_ = target_->forward(batch);
  model_.backend->synchronize();
  check_ms_ = kept_ms(StepPart::check, watch.ms());
}

void Round::accept(std::vector<Turn>& turns) {
  for (std::size_t index = 0; index < turns.size(); ++index) {
    Turn& turn = turns[index];
    if (!turn.draws) continue;
    const auto work = [&] { turn.verdict = verify(turn, index); };
    if (!faults_.contain(FaultOrigin::sequence, work)) turn.sequence->fail(faults_.reason());
  }
}

VerifyResult Round::verify(Turn& turn, std::size_t index) {
  const int first = result_.first_logits_row[index];
  ForwardRows rows(*model_.backend, result_.logits.row_range(first, turn.tree.size()), row_);
  VerifyInput input;
  input.tree = &turn.tree;
  input.rows = &rows;
  Sequence& sequence = *turn.sequence;
  input.committed = sequence.tokens;
  input.prompt_length = sequence.prompt_length();
  input.sampler = &sequence.sampler;
  input.random = &sequence.random;
  const MethodEntry& method = sequence.method;
  VerifyResult verdict = method.method.verifier->verify(input);
  if (sequence.request.logprobs >= 0) note_logprobs(turn, verdict, rows);
  if (method.sees_draws && turn.decodes && sequence.drafts()) {
    const auto show = [&] {
      method.method.drafter->saw(*sequence.draft, turn.tree, drawn_tokens(input));
    };
    if (!faults_.contain(FaultOrigin::drafter, show)) drop(sequence);
  }
  return verdict;
}

/// Of each token that the verdict chose: the row of its parent says what the target thought of it.
void Round::note_logprobs(const Turn& turn, const VerifyResult& verdict, TargetRows& rows) {
  Sequence& sequence = *turn.sequence;
  const std::vector<TokenId> chosen = chosen_tokens(turn, verdict);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const NodeId node = turn.decodes ? verdict.path[i] : 0;
    sequence.logprobs.push_back(
        log_probabilities(rows.logits(node), chosen[i], sequence.request.logprobs));
  }
}

void Round::commit(std::vector<Turn>& turns) {
  for (std::size_t index = 0; index < turns.size(); ++index) {
    Turn& turn = turns[index];
    if (turn.sequence->finished()) continue;
    const auto work = [&] { commit(turn, index); };
    if (!faults_.contain(FaultOrigin::sequence, work)) turn.sequence->fail(faults_.reason());
  }
  learn(turns);
}

/// Text and room first, then the tokens, then the cache: a sequence that fails on the way keeps the
/// tokens whose text it has, and retire() takes nothing of it into the prefix cache.
void Round::commit(Turn& turn, std::size_t index) {
  Sequence& sequence = *turn.sequence;
  const std::vector<TokenId> chosen = chosen_tokens(turn, turn.verdict);
  const bool whole = faults_.contain(FaultOrigin::sequence, [&] { sequence.read(chosen); });
  sequence.append(chosen);
  if (turn.decodes) note_acceptance(turn);
  if (!whole) return sequence.fail(faults_.reason());

  const std::vector<NodeId> rows = committed_rows(turn);
  const auto cached = static_cast<std::size_t>(sequence.cache->length());
  sequence.cache->keep(rows, std::span(sequence.tokens).subspan(cached, rows.size()));
  const auto show = [&] { observe(turn, index, rows); };
  if (sequence.drafts() && !faults_.contain(FaultOrigin::drafter, show)) drop(sequence);
  const auto tell = [&] { tell_listener(turn, index, rows); };
  if (sequence.watched && !faults_.contain(FaultOrigin::observer, tell)) sequence.watched.reset();
}

void Round::note_acceptance(Turn& turn) {
  Sequence& sequence = *turn.sequence;
  const int emitted = sequence.readable;
  sequence.accepted_news = std::min(emitted, static_cast<int>(turn.verdict.path.size()) - 1);
  if (emitted == 0) return;
  // The root and all emitted but the last.
  turn.verdict.path.resize(static_cast<std::size_t>(emitted));
  sequence.statistics.accepted.push_back(emitted - 1);  // read() made room
  sequence.statistics.drafted.push_back(turn.tree.draft_nodes());
  ++sequence.statistics.rounds;
}

/// Shows the drafter the tokens that `rows` of the forward produced; the first time, the start of
/// the text as well.
void Round::observe(Turn& turn, std::size_t index, std::span<const NodeId> rows) {
  Sequence& sequence = *turn.sequence;
  CommittedTokens committed = tokens_since(sequence.observed, sequence);
  const MethodEntry& method = sequence.method;
  if (taps_.wants(method.drafter_taps) || taps_.wants(method.policy_taps)) {
    const View features = features_of(index, rows);
    committed.features = taps_.columns(method.drafter_taps, features);
    if (end_of(committed) == sequence.length()) {
      show_policy(sequence, taps_.columns(method.policy_taps, features));
    }
  }
  method.method.drafter->observe(*sequence.draft, committed);
  sequence.observed = end_of(committed);
}

/// Likewise for the listener.
void Round::tell_listener(Turn& turn, std::size_t index, std::span<const NodeId> rows) {
  Sequence& sequence = *turn.sequence;
  CommittedTokens committed = tokens_since(*sequence.watched, sequence);
  if (taps_.wants(listener_taps_)) {
    committed.features = taps_.columns(listener_taps_, features_of(index, rows));
  }
  listener_->committed(sequence.id, committed);
  sequence.watched = end_of(committed);
}

/// Keeps what the policy wants of the row that produced the next root.
void Round::show_policy(Sequence& sequence, const View& features) const {
  if (!features) return;
  sequence.feature.resize(static_cast<std::size_t>(features.cols));
  model_.backend->download(features.row_range(features.rows - 1, 1), sequence.feature);
}

View Round::features_of(std::size_t index, std::span<const NodeId> rows) {
  const int first = result_.first_feature_row[index];
  const int count = static_cast<int>(rows.size());
  if (is_run(rows)) return result_.features.row_range(first + rows.front(), count);
  std::vector<std::int32_t> from;
  for (const NodeId row : rows) from.push_back(first + row);
  const View gathered = features_.rows(count);
  model_.backend->gather_rows(result_.features, gathered_rows_.put(from), gathered);
  return gathered;
}

void Round::learn(std::vector<Turn>& turns) {
  const int sequences = count_decoding(turns);
  decodes_only_ = sequences == static_cast<int>(turns.size());
  int batch_tokens = 0;
  long positions = 0;
  for (const Turn& turn : turns) {
    if (turn.decodes) batch_tokens += static_cast<int>(turn.sequence->news().size());
    positions += turn.context.position;
  }
  if (decodes_only_) {
    const auto context = static_cast<int>(positions / std::max(1, sequences));
    faults_.contain(FaultOrigin::policy, [&] { costs_.observe_check(rows_, context, check_ms_); });
  } else {
    const int prompt_rows = std::accumulate(
        turns.begin(), turns.end(), 0,
        [](int rows, const Turn& turn) { return rows + (turn.decodes ? 0 : turn.grant.rows); });
    const int others = rows_ - prompt_rows;
    prompt_costs_.observe(prompt_rows, check_ms_ - (others > 0 ? costs_.check_ms(others) : 0));
  }
  for (Turn& turn : turns) {
    Sequence& sequence = *turn.sequence;
    if (!turn.decodes) continue;
    sequence.statistics.draft_ms += draft_ms_;
    sequence.statistics.check_ms += check_ms_;
    sequence.statistics.distortion += turn.verdict.distortion;
    turn.draft_ms = draft_ms_;
    turn.check_ms = check_ms_;
    if (sequence.finished()) continue;
    ask_policy(turn, [&](PolicyState& policy) {
      policy.learn({&turn.tree, turn.verdict.path, sequence.news(), draft_ms_, check_ms_, sequences,
                    rows_, batch_tokens});
    });
  }
}

void Round::learn_rest(double step_ms) {
  const double rest_ms = kept_ms(StepPart::rest, step_ms - draft_ms_ - check_ms_);
  if (!decodes_only_) return;
  faults_.contain(FaultOrigin::policy, [&] { costs_.observe_rest(rest_ms); });
}

double Round::kept_ms(StepPart part, double measured_ms) {
  if (!timekeeper_) return measured_ms;
  double ms = measured_ms;
  faults_.contain(FaultOrigin::observer, [&] { ms = timekeeper_(part, measured_ms); });
  return ms;
}

}  // namespace talon
