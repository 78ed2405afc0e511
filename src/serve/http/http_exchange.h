#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "serve/http/exchange.h"

namespace talon {

/// Where the bytes of an answer go.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual void send_response(HttpResponse response) = 0;
  virtual void send_stream_head() = 0;
  virtual void send_piece(std::string_view bytes) = 0;
  virtual void send_end() = 0;
  virtual bool has_sent_all() const = 0;
  /// Closes the connection: its answer cannot be made.
  virtual void abort() = 0;
};

/// One request of a connection, which may end before what computes the answer knows.
class HttpExchange final : public Exchange, public std::enable_shared_from_this<HttpExchange> {
 public:
  /// silence_s: HttpOptions::ping_s.
  HttpExchange(boost::asio::io_context& io, AnswerWriter& writer, double silence_s)
      : io_(io),
        writer_(&writer),
        longest_silence_(
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(silence_s))),
        silence_(io) {}

  void post(std::function<void()> work) override {
    boost::asio::post(
        io_, [self = shared_from_this(), work = std::move(work)] { self->abort_unless(work); });
  }
  void wake() override {
    if (woken_.exchange(true)) return;
    try {
      boost::asio::post(io_, [self = shared_from_this()] {
        self->woken_ = false;
        self->advance();
      });
    } catch (...) {  // out of memory: the next call tries again
      woken_ = false;
      throw;
    }
  }
  void attach(std::shared_ptr<Responder> responder) override {
    if (!writer_) return responder->gone();
    responder_ = std::move(responder);
    written_ = Clock::now();
    if (longest_silence_ > Clock::duration::zero()) await_silence();
  }
  void respond(HttpResponse response) override {
    if (writer_) writer_->send_response(std::move(response));
  }
  void begin_stream() override {
    if (writer_) writer_->send_stream_head();
  }
  void write(std::string_view bytes) override {
    written_ = Clock::now();
    if (writer_) writer_->send_piece(bytes);
  }
  void end_stream() override {
    if (writer_) writer_->send_end();
  }
  bool can_write() const override { return writer_ && writer_->has_sent_all(); }

  // For the connection:
  /// Ends it unless `done` comes to its end.
  template <typename Work>
  void abort_unless(const Work& done) {
    try {
      done();
    } catch (...) {  // out of memory: better no answer than half of one
      if (writer_) writer_->abort();
    }
  }
  void advance() {
    tell([this](Responder& responder) { responder.advance(*this); });
  }
  /// The responder of a stream has a reason to write something.
  void show_life() {
    tell([this](Responder& responder) { responder.silent(*this); });
  }
  /// The answer is complete.
  void end() {
    writer_ = nullptr;
    silence_.cancel();
    responder_.reset();
  }
  /// The client has gone.
  void lose() {
    writer_ = nullptr;
    silence_.cancel();
    if (const auto responder = std::exchange(responder_, nullptr)) responder->gone();
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <typename News>
  void tell(const News& news) {
    const auto responder = responder_;
    if (responder) abort_unless([&] { news(*responder); });
  }
  void await_silence() {
    silence_.expires_at(written_ + longest_silence_);
    silence_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto self = weak.lock();
      if (!error && self && self->responder_) self->look_whether_silent();
    });
  }
  void look_whether_silent() {
    if (Clock::now() - written_ >= longest_silence_) {
      written_ = Clock::now();  // a responder that writes nothing is told once a silence
      tell([this](Responder& responder) { responder.silent(*this); });
    }
    if (responder_) await_silence();
  }

  boost::asio::io_context& io_;
  AnswerWriter* writer_;  // null: the exchange is over
  std::shared_ptr<Responder> responder_;
  std::atomic<bool> woken_ = false;
  Clock::time_point written_;  // or attached
  Clock::duration longest_silence_;
  boost::asio::steady_timer silence_;
};

}  // namespace talon
