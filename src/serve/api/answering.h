#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "serve/api/answer_format.h"
#include "serve/http/exchange.h"

namespace talon {

/// The way of one request from its jobs to the bytes of its answer. The engine's thread puts news
/// in, the server's thread takes them out as the client reads; what the client of a stream does not
/// take is bounded, and the stream ends there. A client that goes away cancels its jobs.
class Answering final : public Responder, public std::enable_shared_from_this<Answering> {
 public:
  struct Parts {
    std::shared_ptr<Exchange> exchange;
    ServedModel* model = nullptr;
    std::unique_ptr<AnswerFormat> format;
    bool streams = false;
    bool traces = false;  // asks for what was drafted
    std::size_t unread_bytes = 0;
    WorkQueue* workers = nullptr;  // make a whole answer that is large; null: the server's thread
    std::chrono::steady_clock::time_point came = std::chrono::steady_clock::now();  // the request
  };
  /// Hands the jobs to the model: one for each choice. Any thread. Throws ApiError for a whole
  /// answer with more log-probabilities than have room; one that names no length ends before.
  static void start(Parts parts, std::vector<Job> jobs);

  explicit Answering(Parts parts, std::size_t choices);
  void advance(Exchange& exchange) override;
  void silent(Exchange& exchange) override;
  void gone() override;

 private:
  class Listener;

  void submit(std::vector<Job> jobs);
  /// The first counts.
  void refuse(ApiError error);
  void taken();
  void add(ChoiceNews news, const SequenceStatistics* statistics);
  std::vector<ChoiceNews> take_news();
  void stream(Exchange& exchange);
  void begin(Exchange& exchange);
  /// The bytes of one go of a stream.
  struct Pieces {
    std::string bytes;
    bool is_last = false;
  };
  Pieces make_pieces(const std::vector<ChoiceNews>& news);
  void send(Exchange& exchange, const Pieces& pieces);
  void finish(Exchange& exchange);
  HttpResponse whole();
  void fail(Exchange& exchange, const ApiError& error);
  void cancel_all();
  std::optional<ApiError> problem() const;
  bool has_ended() const;

  Parts parts_;
  // The server's thread only:
  std::vector<ChoiceResult> results_;
  std::size_t tree_room_;           // nodes of trees that a whole answer may still hold
  std::vector<ChoiceNews> unsent_;  // of a stream
  bool has_begun_ = false;          // a stream
  bool is_introduced_ = false;      // by the format's beginning; of who makes pieces
  bool is_making_ = false;          // pieces of it, in the workshop, which alone uses the format
  bool is_over_ = false;

  std::mutex mutex_;  // of all below
  std::vector<ChoiceNews> news_;
  std::size_t news_bytes_ = 0;
  std::vector<SequenceStatistics> statistics_;
  std::vector<JobId> jobs_;
  std::size_t taken_ = 0;  // choices that the engine has
  std::optional<ApiError> refusal_;
  bool is_gone_ = false;
};

}  // namespace talon
