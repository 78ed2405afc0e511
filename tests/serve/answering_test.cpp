#include "serve/api/answering.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <thread>

#include "serve/api/generate.h"
#include "serve/work_queue.h"
#include "test_server.h"

// Which thread writes an answer, from when its times count, and what a stream says meanwhile.
namespace talon::test::answering_test {
namespace {

/// The server's thread is the test's.
class LocalExchange final : public Exchange {
 public:
  void post(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    changed_.notify_one();
  }
  void wake() override {
    if (std::exchange(forgets_to_wake_, false)) throw std::bad_alloc();
    post([this] {
      if (responder_) responder_->advance(*this);
    });
  }
  void attach(std::shared_ptr<Responder> responder) override {
    responder_ = std::move(responder);
    responder_->advance(*this);
  }
  void respond(HttpResponse response) override { response_ = std::move(response); }
  void begin_stream() override {}
  void write(std::string_view bytes) override { written_ += bytes; }
  void end_stream() override { has_ended_ = true; }
  bool can_write() const override { return true; }

  /// The next wake() finds no memory.
  void forget_to_wake() { forgets_to_wake_ = true; }
  /// Waits for a piece of work and does it.
  void work_once() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !works_.empty(); });
    const std::function<void()> work = std::move(works_.front());
    works_.pop_front();
    lock.unlock();
    work();
  }
  /// Works until the answer is there.
  HttpResponse response() {
    while (!response_) work_once();
    responder_.reset();
    return *std::move(response_);
  }
  /// Works until the stream is at its end.
  const std::string& stream() {
    while (!has_ended_) work_once();
    responder_.reset();
    return written_;
  }
  void fall_silent() { responder_->silent(*this); }
  const std::string& written() const { return written_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  std::shared_ptr<Responder> responder_;
  std::optional<HttpResponse> response_;
  std::string written_;  // of a stream
  bool has_ended_ = false;
  bool forgets_to_wake_ = false;
};

/// Says on which thread it was made.
class ThreadFormat final : public AnswerFormat {
 public:
  explicit ThreadFormat(std::thread::id servers) : servers_(servers) {}
  std::string whole(const std::vector<ChoiceResult>&) override {
    return std::this_thread::get_id() == servers_ ? "server" : "worker";
  }
  std::string begin() override { return "begin,"; }
  std::string piece(const ChoiceNews&) override { return ""; }
  std::string end(const std::vector<ChoiceResult>&) override { return "end"; }

 private:
  std::thread::id servers_;
};

Metrics& metrics() {
  static Metrics metrics;
  return metrics;
}

ServedModel& model() {
  static ServedModel model = [] {
    ServedModel made = tiny_served({});
    made.metrics = &metrics().add(made.name);
    return made;
  }();
  return model;
}

Job job_of(int tokens) {
  Job job;
  job.request.prompt = model().tokenizer().encode("Once");
  job.request.max_new = tokens;
  job.request.logprobs = 20;
  return job;
}

Answering::Parts parts_of(std::shared_ptr<Exchange> exchange, bool streams) {
  return {.exchange = std::move(exchange),
          .model = &model(),
          .format = std::make_unique<ThreadFormat>(std::this_thread::get_id()),
          .streams = streams,
          .unread_bytes = 1 << 20};
}

/// Who writes a whole answer of so many tokens.
std::string writer_of(int tokens, bool traces, WorkQueue* workers) {
  const auto exchange = std::make_shared<LocalExchange>();
  Answering::Parts parts = parts_of(exchange, false);
  parts.traces = traces;
  parts.workers = workers;
  Answering::start(std::move(parts), {job_of(tokens)});
  return exchange->response().body;
}

TEST(WholeAnswers, ThatAreLargeAreWrittenByWorkers) {
  WorkQueue workers(1, 4), full(1, 0);
  EXPECT_EQ(writer_of(5, false, &workers), "server");
  EXPECT_EQ(writer_of(120, false, &workers), "worker");
  EXPECT_EQ(writer_of(5, true, &workers), "worker");
  EXPECT_EQ(writer_of(120, false, &full), "worker");
  EXPECT_EQ(writer_of(120, false, nullptr), "server");
}

TEST(WholeAnswers, WithMoreLogprobsThanHaveRoomAreRefused) {
  const std::vector<Job> jobs(100, job_of(300));
  const auto exchange = std::make_shared<LocalExchange>();
  try {
    Answering::start(parts_of(exchange, false), jobs);
    FAIL() << "it was begun";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_EQ(error.param(), "logprobs");
    EXPECT_STREQ(error.what(),
                 "logprobs: expected at most 249 tokens of 100 answers with 21 entries a token, "
                 "found 300: ask for a stream");
  }
  Answering::start(parts_of(exchange, true), jobs);
  EXPECT_EQ(exchange->response().status, 429) << "the queue is too short for them, no more";
}

/// Nobody is late who is to get all at once.
TEST(WholeAnswers, HaveNoBoundOfWhatTheirClientHasNotTaken) {
  const auto exchange = std::make_shared<LocalExchange>();
  Answering::Parts parts = parts_of(exchange, false);
  parts.unread_bytes = 1;
  Answering::start(std::move(parts), {job_of(5)});
  const HttpResponse response = exchange->response();
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.body, "server");

  const auto streamed = std::make_shared<LocalExchange>();
  parts = parts_of(streamed, true);
  parts.unread_bytes = 1;
  Answering::start(std::move(parts), {job_of(5)});
  EXPECT_EQ(streamed->response().status, 503);
}

/// A request that the engine takes once it is told to.
class HeldJob {
 public:
  explicit HeldJob(int tokens) : job_(job_of(tokens)) {
    job_.prepare = [goes_on = goes_on_.get_future().share()](Request&) { goes_on.wait(); };
  }
  Job& job() { return job_; }
  void let_go() { goes_on_.set_value(); }

 private:
  std::promise<void> goes_on_;
  Job job_;
};

TEST(SilentStreams, GiveASignOfLifeOnceTheEngineHasThem) {
  HeldJob held(5);
  const auto exchange = std::make_shared<LocalExchange>();
  Answering::start(parts_of(exchange, true), {held.job()});
  exchange->work_once();  // it is attached
  exchange->fall_silent();
  EXPECT_EQ(exchange->written(), "") << "it may still be refused";
  held.let_go();
  while (exchange->written().empty()) exchange->fall_silent();
  EXPECT_EQ(exchange->written(), ":\n\n");
  EXPECT_EQ(exchange->stream(), ":\n\nbegin,end");
}

TEST(SilentStreams, ThatAreRefusedHaveTheirStatus) {
  HeldJob held(5);
  held.job().request.prompt.assign(5000, 300);
  const auto exchange = std::make_shared<LocalExchange>();
  Answering::start(parts_of(exchange, true), {held.job()});
  exchange->work_once();
  exchange->fall_silent();
  held.let_go();
  EXPECT_EQ(exchange->response().status, 400);
  EXPECT_EQ(exchange->written(), "");
}

TEST(WholeAnswers, ThatAreRefusedWithoutMemoryAreToldSoAllTheSame) {
  std::vector<Job> jobs = {job_of(5)};
  jobs[0].prepare = [](Request&) { throw Error("prompt: expected another"); };
  const auto exchange = std::make_shared<LocalExchange>();
  exchange->forget_to_wake();
  Answering::start(parts_of(exchange, false), std::move(jobs));
  const HttpResponse response = exchange->response();
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("prompt: expected another"), std::string::npos) << response.body;
}

TEST(SilentAnswers, ThatAreWholeSayNothing) {
  const auto exchange = std::make_shared<LocalExchange>();
  Answering::start(parts_of(exchange, false), {job_of(5)});
  exchange->work_once();
  exchange->fall_silent();
  EXPECT_EQ(exchange->response().body, "server");
  EXPECT_EQ(exchange->written(), "");
}

TEST(Times, CountFromWhenTheRequestCame) {
  const Json body = {{"prompt", "Once"}, {"talon", {{"deadline_ms", 60'000}}}};
  const std::string text = body.dump();
  const RequestLimits limits = {};
  const auto exchange = std::make_shared<LocalExchange>();
  serve_completion({.model = &model(),
                    .body = &body,
                    .text = &text,
                    .limits = &limits,
                    .exchange = exchange,
                    .came = std::chrono::steady_clock::now() - std::chrono::hours(1)});
  const Json answer = Json::parse(exchange->response().body);
  EXPECT_EQ(answer["talon"]["ended"], "deadline") << answer;
  const std::string name = "talon:e2e_request_latency_seconds_sum{model_name=\"tiny\"} ";
  const std::string told = metrics().text();
  const std::size_t at = told.find(name);
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::stod(told.substr(at + name.size())), 3600);
}

}  // namespace
}  // namespace talon::test::answering_test
