#include "serve/api/answering.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <thread>

#include "serve/work_queue.h"
#include "test_server.h"

// Which thread writes an answer.
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
  void write(std::string_view) override {}
  void end_stream() override {}
  bool can_write() const override { return true; }

  /// Works until the answer is there.
  HttpResponse response() {
    while (!response_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !works_.empty(); });
      const std::function<void()> work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      work();
    }
    responder_.reset();
    return *std::move(response_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  std::shared_ptr<Responder> responder_;
  std::optional<HttpResponse> response_;
};

/// Says on which thread it was made.
class ThreadFormat final : public AnswerFormat {
 public:
  explicit ThreadFormat(std::thread::id servers) : servers_(servers) {}
  std::string whole(const std::vector<ChoiceResult>&) override {
    return std::this_thread::get_id() == servers_ ? "server" : "worker";
  }
  std::string begin() override { return ""; }
  std::string piece(const ChoiceNews&) override { return ""; }
  std::string end(const std::vector<ChoiceResult>&) override { return ""; }

 private:
  std::thread::id servers_;
};

/// Who writes a whole answer of so many tokens.
std::string writer_of(int tokens, bool traces, WorkQueue* workers) {
  static Metrics metrics;
  static ServedModel model = [] {
    ServedModel made = tiny_served({});
    made.metrics = &metrics.add(made.name);
    return made;
  }();
  Job job;
  job.request.prompt = model.tokenizer().encode("Once");
  job.request.max_new = tokens;
  job.request.logprobs = 20;
  const auto exchange = std::make_shared<LocalExchange>();
  auto format = std::make_unique<ThreadFormat>(std::this_thread::get_id());
  Answering::start({exchange, &model, std::move(format), false, traces, 1 << 20, workers}, {job});
  return exchange->response().body;
}

TEST(WholeAnswers, ThatAreLargeAreWrittenByWorkers) {
  WorkQueue workers(1, 4), full(1, 0);
  EXPECT_EQ(writer_of(5, false, &workers), "server");
  EXPECT_EQ(writer_of(120, false, &workers), "worker");
  EXPECT_EQ(writer_of(5, true, &workers), "worker");
  EXPECT_EQ(writer_of(120, false, &full), "server");
  EXPECT_EQ(writer_of(120, false, nullptr), "server");
}

}  // namespace
}  // namespace talon::test::answering_test
