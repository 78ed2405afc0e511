#include "serve/api/answering.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace talon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostTreeNodes = std::size_t{1} << 18;  // some 60 MB as JSON

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::size_t bytes_of(const ChoiceNews& news) {
  std::size_t bytes = news.text.size() + news.tokens.size() * sizeof(TokenId) +
                      news.step_tokens.size() * sizeof(int);
  for (const TokenLogprobs& token : news.logprobs) {
    bytes += sizeof(token) + token.top.size() * sizeof(token.top[0]);
  }
  for (const RoundTrace& round : news.rounds) bytes += bytes_of(round);
  return bytes;
}

template <typename Element>
void move_to(std::vector<Element>& all, std::vector<Element>& more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void append(ChoiceNews& all, ChoiceNews& more) {
  all.text += more.text;
  move_to(all.tokens, more.tokens);
  move_to(all.step_tokens, more.step_tokens);
  move_to(all.logprobs, more.logprobs);
  move_to(all.rounds, more.rounds);
  all.reused_tokens = more.reused_tokens;
  all.finish = more.finish;
  all.error = std::move(more.error);
}

/// What is new of one choice is joined to what is new of it already.
void join(std::vector<ChoiceNews>& all, ChoiceNews news) {
  const auto same = std::find_if(all.rbegin(), all.rend(), [&](const ChoiceNews& before) {
    return before.choice == news.choice;
  });
  same == all.rend() ? all.push_back(std::move(news)) : append(*same, news);
}

ApiError error_of(const Refusal& refusal) {
  using Reason = Refusal::Reason;
  const std::string field = refusal.message.substr(0, refusal.message.find(':'));
  switch (refusal.reason) {
    case Reason::queue_full:
      return ApiError(429, "", refusal.message, "queue_full");
    case Reason::too_long:
    case Reason::no_room:
      return ApiError(400, field, refusal.message, "context_length_exceeded");
    case Reason::bad_request:
      break;
  }
  return ApiError(400, field, refusal.message, "invalid_value");
}

ApiError no_room() {
  return ApiError(429, "", "queue: expected room for this answer, found none; try again later",
                  "queue_full");
}

/// A whole answer is made in memory with all its log-probabilities. One that is to go as far as the
/// context ends where they have no more room.
void bound_logprobs(const ServedModel& model, std::vector<Job>& jobs) {
  constexpr std::size_t kMostEntries = std::size_t{1} << 19;  // some 250 MB as JSON
  const int top = jobs.front().request.logprobs;
  if (top < 0) return;
  const std::size_t entries = jobs.size() * (static_cast<std::size_t>(top) + 1);
  const auto most = static_cast<int>(std::max<std::size_t>(1, kMostEntries / entries));
  for (Job& job : jobs) {
    Request& request = job.request;
    const int room = model.config().context - static_cast<int>(request.prompt.size());
    if (request.max_new > most && request.max_new < room) {
      throw ApiError(400, "logprobs",
                     fmt::format("logprobs: expected at most {} tokens of {} answers with {} "
                                 "entries a token, found {}: ask for a stream",
                                 most, jobs.size(), top + 1, request.max_new),
                     "invalid_value");
    }
    request.max_new = std::min(request.max_new, most);
    request.min_new = std::min(request.min_new, request.max_new);
  }
}

/// Whether a whole answer takes long to write.
bool is_large(const std::vector<ChoiceResult>& results) {
  constexpr std::size_t kMostLogprobs = 2000;
  std::size_t logprobs = 0;
  for (const ChoiceResult& result : results) {
    if (!result.rounds.empty()) return true;
    for (const TokenLogprobs& token : result.logprobs) logprobs += 1 + token.top.size();
  }
  return logprobs > kMostLogprobs;
}

std::string failure_or_nothing(AnswerFormat& format, const ApiError& error) {
  try {
    return format.failure(error);
  } catch (const std::exception&) {  // out of memory
    return "";
  }
}

}  // namespace

/// Hears of one choice on the engine's thread.
class Answering::Listener final : public AnswerListener {
 public:
  Listener(std::shared_ptr<Answering> answering, int choice)
      : answering_(std::move(answering)), choice_(choice) {}

  void taken() override { answering_->taken(); }
  void drafted(const RoundReport& report) override {
    if (answering_->parts_.traces) round_ = trace_of(report);
  }
  void news(const Progress& progress, const SequenceStatistics& statistics) override {
    const bool ends = progress.finish != FinishReason::none;
    ModelMetrics& metrics = *answering_->parts_.model->metrics;
    if (!progress.tokens.empty()) {
      const double seconds = seconds_since(last_);
      std::exchange(has_begun_, true) ? metrics.gap(seconds) : metrics.first_token(seconds);
      last_ = Clock::now();
    }
    if (ends) {
      metrics.ended(progress.finish, seconds_since(came_));
      metrics.waited(statistics.waiting_ms / 1000);
    }
    ChoiceNews news;
    news.choice = choice_;
    news.text = progress.text;
    news.tokens.assign(progress.tokens.begin(), progress.tokens.end());
    if (!news.tokens.empty()) news.step_tokens = {static_cast<int>(news.tokens.size())};
    news.logprobs.assign(progress.logprobs.begin(), progress.logprobs.end());
    if (answering_->parts_.traces && !progress.tokens.empty()) {
      round_.tokens = news.tokens;
      round_.accepted = progress.accepted;
      news.rounds.push_back(std::exchange(round_, {}));
    }
    news.reused_tokens = statistics.reused_tokens;
    news.finish = progress.finish;
    news.error = progress.error;
    answering_->add(std::move(news), ends ? &statistics : nullptr);
    if (ends) answering_.reset();
  }
  void refused(const Refusal& refusal) noexcept override {
    try {
      answering_->refuse(error_of(refusal));
      answering_.reset();
    } catch (...) {  // out of memory: the destructor tries again
    }
  }
  ~Listener() override {
    if (!answering_) return;
    try {
      answering_->refuse(ApiError(500, "", "answer: expected an end, found none", "failed"));
    } catch (...) {  // out of memory: the client's patience ends it
    }
  }

 private:
  std::shared_ptr<Answering> answering_;
  int choice_;
  bool has_begun_ = false;
  RoundTrace round_;  // of the tokens that come next
  Clock::time_point came_ = answering_->parts_.came, last_ = came_;
};

Answering::Answering(Parts parts, std::size_t choices)
    : parts_(std::move(parts)),
      results_(choices),
      tree_room_(kMostTreeNodes),
      statistics_(choices) {}

void Answering::start(Parts parts, std::vector<Job> jobs) {
  if (!parts.streams) bound_logprobs(*parts.model, jobs);
  const auto answering = std::make_shared<Answering>(std::move(parts), jobs.size());
  const auto exchange = answering->parts_.exchange;
  exchange->post([exchange, answering] { exchange->attach(answering); });
  answering->submit(std::move(jobs));
}

void Answering::submit(std::vector<Job> jobs) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].listener = std::make_shared<Listener>(shared_from_this(), static_cast<int>(i));
  }
  auto ids = parts_.model->host->submit(std::move(jobs));
  if (!ids) {
    return refuse(ApiError(429, "",
                           "queue: expected room for this request, found none; try again later",
                           "queue_full"));
  }
  bool is_gone = false;
  {
    const std::lock_guard lock(mutex_);
    jobs_ = *std::move(ids);
    is_gone = is_gone_;
  }
  if (is_gone) cancel_all();
}

void Answering::refuse(ApiError error) {
  {
    const std::lock_guard lock(mutex_);
    if (!refusal_) refusal_ = std::move(error);
  }
  parts_.exchange->wake();
}

void Answering::taken() {
  const std::lock_guard lock(mutex_);
  ++taken_;
}

void Answering::cancel_all() {
  std::vector<JobId> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
  }
  for (const JobId job : jobs) parts_.model->host->cancel(job);
}

void Answering::add(ChoiceNews news, const SequenceStatistics* statistics) {
  {
    const std::lock_guard lock(mutex_);
    if (is_gone_) return;
    if (statistics) statistics_[static_cast<std::size_t>(news.choice)] = *statistics;
    news_bytes_ += bytes_of(news);
    if (parts_.streams && news_bytes_ > parts_.unread_bytes && !refusal_) {
      refusal_ =
          ApiError(503, "", "stream: expected a client that reads it, found none", "slow_reader");
    }
    join(news_, std::move(news));
  }
  parts_.exchange->wake();
}

std::vector<ChoiceNews> Answering::take_news() {
  const std::lock_guard lock(mutex_);
  news_bytes_ = 0;
  for (std::size_t i = 0; i < results_.size(); ++i) results_[i].statistics = statistics_[i];
  return std::exchange(news_, {});
}

std::optional<ApiError> Answering::problem() const {
  for (const ChoiceResult& result : results_) {
    if (result.finish == FinishReason::failed) {
      const bool is_asked_for = result.error.starts_with("grammar: ");  // it exceeds its bounds
      return ApiError(is_asked_for ? 400 : 500, "", "answer: " + result.error,
                      is_asked_for ? "invalid_grammar" : "failed");
    }
  }
  return std::nullopt;
}

bool Answering::has_ended() const {
  return std::all_of(results_.begin(), results_.end(), [](const ChoiceResult& result) {
    return result.finish != FinishReason::none;
  });
}

void Answering::advance(Exchange& exchange) {
  if (is_over_ || is_making_) return;  // called again when pieces are made
  std::optional<ApiError> refusal;
  {
    const std::lock_guard lock(mutex_);
    refusal = refusal_;
  }
  if (refusal) return fail(exchange, *refusal);
  if (has_begun_ && !exchange.can_write()) return;  // called again when it can
  for (ChoiceNews& one : take_news()) {
    ChoiceResult& result = results_[static_cast<std::size_t>(one.choice)];
    result.choice = one.choice;
    if (!parts_.streams) keep_trees(one.rounds, tree_room_);
    ChoiceNews copy = one;
    if (parts_.streams) {  // no later event shows them
      copy.rounds.clear();
      copy.logprobs.clear();
    }
    append(result, copy);
    if (parts_.streams) join(unsent_, std::move(one));
  }
  if (auto error = problem()) return fail(exchange, *error);
  if (parts_.streams) return stream(exchange);
  if (!has_ended()) return;
  finish(exchange);
}

/// Proxies and clients close a stream that is silent for long. What may still be refused waits for
/// its status.
void Answering::silent(Exchange& exchange) {
  if (!parts_.streams || is_over_ || !exchange.can_write()) return;
  {
    const std::lock_guard lock(mutex_);
    if (taken_ < results_.size() || refusal_) return;
  }
  begin(exchange);
  exchange.write(parts_.format->ping());
}

/// What whole() throws becomes its answer.
HttpResponse Answering::whole() {
  try {
    return {200, parts_.format->whole(results_)};
  } catch (const ApiError& error) {
    return parts_.format->refusal(error);
  } catch (const std::exception& error) {
    return parts_.format->refusal(ApiError(500, "", error.what(), "failed"));
  }
}

void Answering::finish(Exchange& exchange) {
  is_over_ = true;  // nobody changes the results from here on
  const auto work = [self = shared_from_this(), to = parts_.exchange] {
    to->post([to, response = self->whole()]() mutable { to->respond(std::move(response)); });
  };
  if (WorkQueue* const workshop = parts_.format->workshop()) {
    if (!workshop->add(work)) exchange.respond(parts_.format->refusal(no_room()));
  } else if (parts_.workers && is_large(results_)) {
    parts_.workers->add_always(work);  // as many as the host took jobs
  } else {
    exchange.respond(whole());
  }
}

void Answering::stream(Exchange& exchange) {
  if (unsent_.empty()) return;
  WorkQueue* const workshop = parts_.format->workshop();
  if (!workshop) return send(exchange, make_pieces(std::exchange(unsent_, {})));
  const auto work = [self = shared_from_this(), to = parts_.exchange, news = unsent_] {
    to->post([self, to, pieces = self->make_pieces(news)] {
      self->is_making_ = false;
      if (self->is_over_) return;
      self->send(*to, pieces);
      self->advance(*to);
    });
  };
  is_making_ = workshop->add(work);
  if (is_making_) return unsent_.clear();
  if (has_ended()) fail(exchange, no_room());  // else with the next news
}

/// What is thrown ends the stream.
Answering::Pieces Answering::make_pieces(const std::vector<ChoiceNews>& news) {
  AnswerFormat& format = *parts_.format;
  try {
    Pieces pieces{std::exchange(is_introduced_, true) ? "" : format.begin(), has_ended()};
    for (const ChoiceNews& one : news) pieces.bytes += format.piece(one);
    if (pieces.is_last) pieces.bytes += format.end(results_);
    return pieces;
  } catch (const std::exception& error) {
    return {failure_or_nothing(format, ApiError(500, "", error.what(), "failed")), true};
  }
}

void Answering::begin(Exchange& exchange) {
  if (!std::exchange(has_begun_, true)) exchange.begin_stream();
}

void Answering::send(Exchange& exchange, const Pieces& pieces) {
  begin(exchange);
  is_over_ = pieces.is_last;
  exchange.write(pieces.bytes);
  if (!is_over_) return;
  if (!has_ended()) cancel_all();  // a piece could not be made
  exchange.end_stream();
}

void Answering::fail(Exchange& exchange, const ApiError& error) {
  is_over_ = true;
  cancel_all();
  if (!has_begun_) return exchange.respond(parts_.format->refusal(error));
  exchange.write(parts_.format->failure(error));
  exchange.end_stream();
}

void Answering::gone() {
  is_over_ = true;
  {
    const std::lock_guard lock(mutex_);
    is_gone_ = true;
    news_.clear();
  }
  cancel_all();
}

}  // namespace talon
