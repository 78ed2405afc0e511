#include "engine/engine.h"

#include <algorithm>
#include <deque>

#include "core/error.h"
#include "engine/admission.h"
#include "engine/round.h"
#include "engine/stopwatch.h"

namespace talon {

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::stop_token:
      return "stop";
    case FinishReason::stop_text:
      return "stop_text";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::no_room:
      return "no_room";
    case FinishReason::failed:
      return "failed";
  }
  throw Bug("a finish reason without a name");
}

std::vector<FeatureTap> taps_for(const Drafter& drafter, std::string_view policy) {
  std::vector<FeatureTap> taps = drafter.taps();
  const std::vector<FeatureTap> more = policy_taps(policy);
  taps.insert(taps.end(), more.begin(), more.end());
  return taps;
}

namespace {

EngineOptions checked(EngineOptions options, int target_rows) {
  const auto require = [](int value, int least, std::string_view field) {
    if (value < least) {
      throw UsageError(
          fmt::format("engine {}: expected {} or more, found {}", field, least, value));
    }
  };
  require(options.chunk, 1, "chunk");
  require(options.max_rows, 1, "max_rows");
  require(options.max_nodes, 0, "max_nodes");
  options.max_rows = std::min(options.max_rows, target_rows);
  return options;
}

}  // namespace

struct Engine::State {
  State(Target& the_target, Drafter& the_drafter, Verifier& the_verifier, EngineOptions the_options)
      : target(the_target),
        drafter(the_drafter),
        options(checked(std::move(the_options), the_target.max_rows())),
        estimates(options.max_rows, options.costs),
        round(the_target, the_drafter, the_verifier, estimates, options.timekeeper) {
    const int taps = static_cast<int>(taps_for(drafter, options.policy).size());
    expects(target.feature_width() == taps * target.model().config.hidden,
            "the target taps what drafter and policy want");
  }

  std::vector<Turn> begin();
  void admit();
  void show(double step_ms, std::span<const Turn> turns) const;
  void retire(Sequence& sequence);
  void report(double step_ms, std::span<const Turn> turns);
  Sequence* find(SequenceId id);

  Target& target;
  Drafter& drafter;
  EngineOptions options;
  SharedEstimates estimates;
  Round round;
  SequenceId next_id = 1;
  std::deque<std::unique_ptr<Sequence>> waiting;
  std::vector<std::unique_ptr<Sequence>> running;
  std::vector<std::unique_ptr<Sequence>> finished;  // in the last step
  std::vector<Progress> news;
  std::size_t first_served = 0;
  bool no_room = false;  // for the first that waits, until a sequence ends
};

Engine::Engine(Target& target, Drafter& drafter, Verifier& verifier, EngineOptions options)
    : state_(std::make_unique<State>(target, drafter, verifier, std::move(options))) {}
Engine::~Engine() = default;

std::span<const Progress> Engine::step() {
  const Stopwatch watch;
  std::vector<Turn> turns = state_->begin();
  if (!turns.empty()) {
    state_->round.propose(turns);
    state_->round.check(turns);
    state_->round.accept(turns);
    state_->round.commit(turns);
  }
  const double step_ms = watch.ms();
  if (!turns.empty()) state_->round.learn_rest(step_ms);
  if (state_->options.observer) state_->show(step_ms, turns);
  state_->report(step_ms, turns);
  return state_->news;
}

std::variant<SequenceId, Refusal> Engine::submit(Request request) {
  State& state = *state_;
  if (auto refusal = refuse(request, state.target, state.options)) return *std::move(refusal);
  const SequenceId id = state.next_id++;
  state.waiting.push_back(std::make_unique<Sequence>(
      id, std::move(request), state.target.model().config.vocabulary, state.options.tokenizer));
  return id;
}

void Engine::cancel(SequenceId id) {
  Sequence* sequence = state_->find(id);
  if (sequence) sequence->cancelled = true;
}

bool Engine::idle() const { return state_->waiting.empty() && state_->running.empty(); }

const SequenceStatistics& Engine::statistics(SequenceId id) const {
  if (const Sequence* sequence = state_->find(id)) return sequence->statistics;
  for (const auto& sequence : state_->finished) {
    if (sequence->id == id) return sequence->statistics;
  }
  fail("statistics of sequence {}: expected one that runs or just finished", id);
}

Sequence* Engine::State::find(SequenceId id) {
  const auto has_id = [&](const std::unique_ptr<Sequence>& sequence) { return sequence->id == id; };
  const auto in_running = std::find_if(running.begin(), running.end(), has_id);
  if (in_running != running.end()) return in_running->get();
  const auto in_waiting = std::find_if(waiting.begin(), waiting.end(), has_id);
  return in_waiting != waiting.end() ? in_waiting->get() : nullptr;
}

/// Admits what fits and gives each sequence that goes on its rows of the forward. Cancelled ones
/// end here.
std::vector<Turn> Engine::State::begin() {
  finished.clear();
  news.clear();
  admit();
  std::vector<Sequence*> active;
  std::vector<RowDemand> demands;
  for (const auto& sequence : running) {
    sequence->begin_round();
    if (sequence->finished()) continue;
    active.push_back(sequence.get());
    demands.push_back({sequence->prompt_rows_left()});
  }
  if (active.empty()) return {};
  const auto grants =
      share_rows(demands, {options.max_rows, options.chunk, options.max_nodes}, first_served++);
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (grants[i].rows == 0) continue;
    Turn turn;
    turn.sequence = active[i];
    turn.grant = grants[i];
    turn.decodes = demands[i].prompt_rows == 0;
    turn.draws = turn.decodes || grants[i].rows == demands[i].prompt_rows;
    turns.push_back(std::move(turn));
  }
  return turns;
}

void Engine::State::admit() {
  for (auto& sequence : waiting) {
    if (sequence->cancelled) running.push_back(std::move(sequence));
  }
  std::erase(waiting, nullptr);
  // Others may hold pages of the cache, too: with nothing running there is no end to wait for.
  if (no_room && !running.empty()) return;
  no_room = false;
  while (!waiting.empty()) {
    Sequence& sequence = *waiting.front();
    const std::span<const TokenId> prompt = sequence.request.prompt;
    // The first row that is run produces the token after the next.
    const int most_reused = std::max(drafter.remembers(prompt) - 1, 0);
    no_room = !claim_room(sequence, target, most_reused);
    if (no_room) return;
    const int reused = sequence.cache->length();
    sequence.observed = reused == 0 ? 0 : reused + 1;
    sequence.draft = drafter.resume(prompt.first(static_cast<std::size_t>(sequence.observed)));
    sequence.policy = make_policy(options.policy, {&estimates});
    running.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
}

void Engine::State::show(double step_ms, std::span<const Turn> turns) const {
  const auto sequences = static_cast<int>(
      std::count_if(turns.begin(), turns.end(), [](const Turn& turn) { return turn.decodes; }));
  for (const Turn& turn : turns) {
    const Sequence& sequence = *turn.sequence;
    if (!turn.decodes || sequence.finish == FinishReason::failed) continue;
    RoundReport report;
    report.sequence = sequence.id;
    report.round = sequence.statistics.rounds;
    report.position = sequence.length() - static_cast<int>(sequence.news().size()) - 1;
    report.tree = &turn.tree;
    report.accepted = turn.verdict.path;
    report.emitted = sequence.news();
    report.distortion = turn.verdict.distortion;
    report.sequences = sequences;
    report.draft_ms = turn.draft_ms;
    report.check_ms = turn.check_ms;
    report.other_ms = std::max(0.0, step_ms - turn.draft_ms - turn.check_ms);
    options.observer(report);
  }
}

/// Leaves what later sequences may begin with, and gives back the rest.
void Engine::State::retire(Sequence& sequence) {
  const bool whole = sequence.draft && sequence.finish != FinishReason::failed;
  if (whole && sequence.request.reuse_prefix) drafter.finish(*sequence.draft);
  sequence.draft.reset();
  sequence.cache.reset();
}

/// Tells the news of the round and retires the sequences that ended.
void Engine::State::report(double step_ms, std::span<const Turn> turns) {
  for (const Turn& turn : turns) {
    SequenceStatistics& statistics = turn.sequence->statistics;
    (turn.decodes ? statistics.decode_ms : statistics.prefill_ms) += step_ms;
  }
  for (auto& sequence : running) {
    if (sequence->news().empty() && !sequence->finished()) continue;
    news.push_back({sequence->id, sequence->news(), sequence->accepted_news, sequence->text,
                    sequence->finish, sequence->error});
    if (!sequence->finished()) continue;
    retire(*sequence);
    no_room = false;
    finished.push_back(std::move(sequence));
  }
  std::erase(running, nullptr);
}

}  // namespace talon
