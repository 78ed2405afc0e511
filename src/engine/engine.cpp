#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/error.h"
#include "core/hold_room.h"
#include "core/stopwatch.h"
#include "engine/admission/admission.h"
#include "engine/admission/refusal.h"
#include "engine/admission/waiting_line.h"
#include "engine/measure_costs.h"
#include "engine/methods/method_table.h"
#include "engine/round/round.h"
#include "sample/temperature_class.h"

namespace talon {
namespace {

/// How much of the text the cache had, and how much of what was computed before it no longer has.
void note_start(Sequence& sequence) {
  const int found = sequence.cache->length();
  SequenceStatistics& statistics = sequence.statistics;
  if (statistics.preemptions == 0) statistics.reused_tokens = found;
  statistics.recomputed_tokens += std::max(0, sequence.computed - found);
}

/// Tokens whose rows lie in the cache, and are not run: they produce one more.
std::span<const TokenId> known_tokens(const Sequence& sequence) {
  const int reused = sequence.cache->length();
  return std::span(sequence.tokens).first(reused == 0 ? 0 : static_cast<std::size_t>(reused) + 1);
}

/// The options in range, with a chunk no longer than the cache has room for at once. Throws
/// UsageError.
EngineOptions checked(EngineOptions options, const KvCache& cache) {
  const auto require = [](int value, int least, std::string_view field) {
    if (value < least) {
      throw UsageError(
          fmt::format("engine {}: expected {} or more, found {}", field, least, value));
    }
  };
  require(options.chunk, 1, "chunk");
  require(options.max_rows, 1, "max_rows");
  require(options.max_nodes, 0, "max_nodes");
  require(options.most_waiting, 1, "most_waiting");
  if (!(options.step_ms >= 0 || options.step_ms == kUsualStep)) {
    throw UsageError(
        fmt::format("engine step_ms: expected 0 or more, or -1, found {}", options.step_ms));
  }
  options.chunk = std::min(options.chunk, cache.rows_at_once());
  return options;
}

}  // namespace

struct Engine::State {
  State(const Model& model, KvCache& cache, EngineOptions the_options)
      : options(checked(std::move(the_options), cache)),
        methods(options.listener ? options.listener->taps() : std::vector<FeatureTap>()),
        costs(options.max_rows),
        budget(options.step_ms, costs),
        round(model, cache, options.max_rows,
              {costs, budget, faults, options.timekeeper, options.listener,
               methods.listener_taps()}) {}

  std::vector<Scheduled> begin_step();
  std::vector<Scheduled> schedule();
  void make_room();
  void set_back_youngest();
  void admit();
  void add_running(std::unique_ptr<Sequence> sequence);
  bool try_to_start(Sequence& sequence);
  void start_drafting(Sequence& sequence);
  void start_listening(Sequence& sequence);
  void fail_running() noexcept;
  void report_rounds(double step_ms, std::span<const Scheduled> scheduled);
  void retire(Sequence& sequence);
  void end_step(double step_ms, std::span<const Scheduled> scheduled);
  Sequence* find(SequenceId id);
  void note_rows(std::span<const Scheduled> scheduled);

  EngineOptions options;
  MethodTable methods;
  MachineCosts costs;
  StepBudget budget;
  bool has_costs = false;
  Faults faults;
  Round round;
  SequenceId next_id = 1;
  Sequence::Clock::time_point now;  // when the step began
  WaitingLine waiting;
  Sequences running;                                // the oldest first
  std::vector<std::unique_ptr<Sequence>> finished;  // in the last step
  std::vector<Progress> news;
  std::vector<Progress> roomier_news;  // empty, to take its place where a step needs more room
  std::size_t first_served = 0;        // share_rows(): another one each step
  EngineLoad last_rows;                // only the rows, those of the last step
};

Engine::Engine(const Model& model, KvCache& cache, EngineOptions options)
    : state_(std::make_unique<State>(model, cache, std::move(options))) {}
Engine::~Engine() = default;

MethodId Engine::add(Method method) {
  State& state = *state_;
  const bool begins = !method.costs.empty() && !state.has_costs;
  MachineCosts costs(state.options.max_rows, begins ? method.costs : CostProfile{},
                     context_read(state.round.target().model().config));
  const MethodId id = state.methods.add(std::move(method), state.options.max_rows,
                                        [&](const TapSet& taps) { state.round.tap(taps); });
  if (begins) state.costs = std::move(costs);  // which throws nothing
  state.has_costs = state.has_costs || begins;
  return id;
}

bool Engine::remove(MethodId method) { return state_->methods.remove(method); }

bool Engine::knows_noise(MethodId method) const { return state_->methods.knows_noise(method); }

std::span<const Progress> Engine::step() {
  const Stopwatch watch;
  State& state = *state_;
  std::vector<Scheduled> scheduled;
  const bool whole = state.faults.contain(FaultOrigin::backend, [&] {
    scheduled = state.begin_step();
    if (scheduled.empty()) return;
    state.round.propose(scheduled);
    state.round.check(scheduled);
    state.round.accept(scheduled);
    state.round.commit(scheduled);
  });
  if (!whole) state.fail_running();
  const double step_ms = watch.ms();
  if (whole && !scheduled.empty()) state.round.learn_rest(step_ms);
  state.note_rows(scheduled);
  if (state.options.observer) state.report_rounds(step_ms, scheduled);
  state.end_step(step_ms, scheduled);
  return state.news;
}

std::variant<SequenceId, Refusal> Engine::submit(Request request) {
  State& state = *state_;
  std::shared_ptr<const MethodEntry> method = state.methods.find(request.method);
  if (!method) {
    return Refusal{Refusal::Reason::bad_request,
                   fmt::format("method: expected one that was added, found {}", request.method)};
  }
  if (auto refusal = refuse(request, state.round.target(), state.options)) {
    return *std::move(refusal);
  }
  if (state.waiting.size() >= static_cast<std::size_t>(state.options.most_waiting)) {
    return Refusal{Refusal::Reason::queue_full,
                   fmt::format("queue: expected fewer than {} requests that wait, found {}",
                               state.options.most_waiting, state.waiting.size())};
  }
  std::unique_ptr<Sequence> sequence;
  try {
    sequence = std::make_unique<Sequence>(state.next_id, std::move(request), std::move(method),
                                          state.round.target().model().config.vocabulary,
                                          state.options.tokenizer);
  } catch (const Error& error) {
    return Refusal{Refusal::Reason::bad_request, fmt::format("constraint: {}", error.what())};
  }
  // A step that finds no memory can still tell how each sequence ended.
  const std::size_t sequences = state.waiting.size() + state.running.size() + 1;
  state.waiting.hold_room(sequences);
  hold_room(state.running, sequences);
  hold_room(state.finished, sequences);
  hold_room(state.roomier_news, sequences);  // the last step's news stay where they are
  state.waiting.push(std::move(sequence));
  return state.next_id++;
}

void Engine::cancel(SequenceId id) {
  Sequence* sequence = state_->find(id);
  if (sequence) sequence->cancelled = true;
}

EngineLoad Engine::load() const {
  EngineLoad load = state_->last_rows;
  load.running = static_cast<int>(state_->running.size());
  load.waiting = static_cast<int>(state_->waiting.size());
  return load;
}

bool Engine::idle() const { return state_->waiting.empty() && state_->running.empty(); }

const EngineStatistics& Engine::statistics() const { return state_->faults.statistics; }

std::string_view Engine::drop_reason() const { return state_->faults.drop_reason(); }

const SequenceStatistics& Engine::statistics(SequenceId id) const {
  if (const Sequence* sequence = state_->find(id)) return sequence->statistics;
  for (const auto& sequence : state_->finished)
    if (sequence->id == id) return sequence->statistics;
  fail("statistics of sequence {}: expected one that runs or just finished", id);
}

Sequence* Engine::State::find(SequenceId id) {
  const auto has_id = [&](const std::unique_ptr<Sequence>& sequence) { return sequence->id == id; };
  const auto in_running = std::find_if(running.begin(), running.end(), has_id);
  if (in_running != running.end()) return in_running->get();
  return waiting.find(id);
}

/// Ends the sequences that are over (Sequence::is_over), admits those that fit and schedules.
std::vector<Scheduled> Engine::State::begin_step() {
  finished.clear();
  news.clear();
  if (roomier_news.capacity() > news.capacity()) news.swap(roomier_news);
  now = Sequence::Clock::now();
  while (auto sequence = waiting.take_ended(now)) add_running(std::move(sequence));
  for (const auto& sequence : running) {
    const auto begin_round = [&] { sequence->begin_round(now); };
    if (!faults.contain(FaultOrigin::sequence, begin_round)) sequence->fail(faults.reason());
    if (sequence->finished()) retire(*sequence);
  }
  make_room();
  admit();
  return schedule();
}

/// Gives each sequence that goes on its rows of the forward.
std::vector<Scheduled> Engine::State::schedule() {
  std::vector<Sequence*> active;
  std::vector<int> rows_behind;
  AnswerRows answers;
  for (const auto& sequence : running) {
    if (sequence->finished()) continue;
    active.push_back(sequence.get());
    rows_behind.push_back(sequence->rows_behind());
    if (rows_behind.back() == 0) answers.add(*sequence, 1);
  }
  if (active.empty()) return {};
  const int rows = budget.rows_beside(answers);
  // Trees may take of a step's time what prompts do not need to come forward.
  const RowLimits limits = {.max_rows = options.max_rows,
                            .chunk = options.chunk,
                            .max_nodes = options.max_nodes,
                            .prompt_rows = rows,
                            .nodes_beside_prompts = rows - StepBudget::kLeastRows};
  const auto grants = share_rows(rows_behind, limits, first_served++);
  std::vector<Scheduled> scheduled;
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (grants[i].rows == 0) continue;
    Scheduled entry;
    entry.sequence = active[i];
    entry.grant = grants[i];
    entry.decodes = rows_behind[i] == 0;
    entry.chooses = entry.decodes || (active[i]->in_prompt() && grants[i].rows == rows_behind[i]);
    scheduled.push_back(std::move(entry));
  }
  return scheduled;
}

void Engine::State::note_rows(std::span<const Scheduled> scheduled) {
  last_rows = {};
  for (const Scheduled& entry : scheduled) {
    if (entry.decodes) {
      ++last_rows.text_rows;
      last_rows.draft_rows += entry.tree.draft_nodes();
    } else {
      last_rows.prompt_rows += entry.grant.rows;
    }
  }
}

/// Gives those that run room for their next rows. The oldest is never set back while others run,
/// so that some sequence always comes to its end.
void Engine::State::make_room() {
  if (end_guides(running)) waiting.retry();
  while (!give_room(running, options.chunk)) set_back_youngest();
}

void Engine::State::set_back_youngest() {
  const auto youngest = std::find_if(running.rbegin(), running.rend(),
                                     [](const auto& sequence) { return !sequence->finished(); });
  Sequence& sequence = **youngest;
  const int cached = sequence.cache->length();
  ++sequence.statistics.preemptions;
  sequence.statistics.recomputed_tokens -= std::max(0, sequence.computed - cached);  // not yet
  sequence.computed = std::max(sequence.computed, cached);
  sequence.waits_since = now;
  retire(sequence);
  waiting.put_back(std::move(*youngest));
  running.erase(std::next(youngest).base());
}

void Engine::State::admit() {
  // Others may hold pages of the cache, too: with nothing running there is no end to wait for.
  if (running.empty()) waiting.retry();
  const auto claim = [&](Sequence& sequence) {
    bool has_room = true;
    const auto start = [&] { has_room = try_to_start(sequence); };
    if (!faults.contain(FaultOrigin::sequence, start)) sequence.fail(faults.reason());
    return has_room;
  };
  while (auto sequence = waiting.take(claim)) add_running(std::move(sequence));
}

/// Behind those that were submitted before it.
void Engine::State::add_running(std::unique_ptr<Sequence> sequence) {
  const std::chrono::duration<double, std::milli> waited = now - sequence->waits_since;
  sequence->statistics.waiting_ms += std::max(0.0, waited.count());
  const auto younger = std::find_if(running.begin(), running.end(),
                                    [&](const auto& other) { return other->id > sequence->id; });
  running.insert(younger, std::move(sequence));
}

/// False if the cache has no room for it at present.
bool Engine::State::try_to_start(Sequence& sequence) {
  const std::span<const TokenId> text = sequence.tokens;
  int remembered = static_cast<int>(text.size());
  const bool listens = options.listener && faults.contain(FaultOrigin::observer, [&] {
    remembered = std::min(remembered, options.listener->remembers(text));
  });
  const bool drafts = faults.contain(FaultOrigin::drafter, [&] {
    Drafter& drafter = *sequence.method.parts.drafter;
    remembered = std::min(remembered, drafter.remembers(text, sequence.owner()));
  });
  // The first row that is run produces the token after the next.
  if (!claim_room(sequence, running, round.target(), std::max(remembered - 1, 0), options.chunk)) {
    return false;
  }
  sequence.begin_round(now);
  note_start(sequence);
  if (drafts) start_drafting(sequence);
  if (!sequence.drafts()) sequence.drop_to_plain(faults);
  if (listens) start_listening(sequence);
  return true;
}

void Engine::State::start_listening(Sequence& sequence) {
  const auto known = known_tokens(sequence);
  const auto begin = [&] { options.listener->begin(sequence.id, known); };
  if (faults.contain(FaultOrigin::observer, begin)) {
    sequence.watched = static_cast<int>(known.size());
  }
}

void Engine::State::start_drafting(Sequence& sequence) {
  const auto known = known_tokens(sequence);
  sequence.observed = static_cast<int>(known.size());
  const Method& method = sequence.method.parts;
  const auto resume = [&] {
    sequence.draft = method.drafter->resume(known, sequence.owner(), sequence.expected_text());
    sequence.draft->prompt_length = sequence.prompt_length();
  };
  const auto start = [&] {
    const std::size_t kind = draft_class(sequence.sampler.options(), sequence.method.knows_noise);
    sequence.policy = method.policy->start(sequence.method.estimates->at(kind), costs);
  };
  if (faults.contain(FaultOrigin::drafter, resume) && !sequence.policy)
    faults.contain(FaultOrigin::policy, start);
}

/// What a broken forward or a step without memory leaves.
void Engine::State::fail_running() noexcept {
  for (auto& sequence : running) {
    if (!sequence->finished()) sequence->fail(faults.reason());
  }
}

void Engine::State::report_rounds(double step_ms, std::span<const Scheduled> scheduled) {
  for (const Scheduled& entry : scheduled) {
    if (!entry.decodes || entry.sequence->finish == FinishReason::failed) continue;
    const RoundReport report = round.report_of(entry, step_ms);
    faults.contain(FaultOrigin::observer, [&] { options.observer(report); });
  }
}

/// Leaves what later sequences may begin with, and gives back the rest.
void Engine::State::retire(Sequence& sequence) {
  const bool failed = sequence.finish == FinishReason::failed;
  if (failed && sequence.cache) sequence.cache->truncate(0);  // its last rows are not remembered
  if (!failed && sequence.draft && sequence.request.reuse_prefix) {
    faults.contain(FaultOrigin::drafter, [&] {
      sequence.method.parts.drafter->finish(*sequence.draft, sequence.finished());
    });
  }
  if (sequence.watched) {
    faults.contain(FaultOrigin::observer, [&] { options.listener->end(sequence.id); });
  }
  sequence.draft.reset();
  sequence.watched.reset();
  sequence.cache.reset();
}

/// Counts the step's time, tells the news of the round and retires the sequences that ended.
void Engine::State::end_step(double step_ms, std::span<const Scheduled> scheduled) {
  for (const Scheduled& entry : scheduled) {
    SequenceStatistics& statistics = entry.sequence->statistics;
    (entry.decodes ? statistics.decode_ms : statistics.prefill_ms) += step_ms;
  }
  for (auto& sequence : running) {
    if (sequence->new_tokens().empty() && !sequence->finished()) continue;
    news.push_back({sequence->id, sequence->new_tokens(), sequence->accepted_new, sequence->text,
                    sequence->logprobs, sequence->finish, sequence->error});
    if (!sequence->finished()) continue;
    if (sequence->finish == FinishReason::failed) ++faults.statistics.failed;
    retire(*sequence);
    waiting.retry();
    finished.push_back(std::move(sequence));
  }
  std::erase(running, nullptr);
  faults.contain(FaultOrigin::drafter,
                 [&] { faults.statistics.lost_draft_rows = methods.lost_rows(); });
}

}  // namespace talon
