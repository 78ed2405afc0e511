#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
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
  HttpExchange(boost::asio::io_context& io, AnswerWriter& writer) : io_(io), writer_(&writer) {}

  void post(std::function<void()> work) override { boost::asio::post(io_, std::move(work)); }
  void wake() override {
    if (woken_.exchange(true)) return;
    boost::asio::post(io_, [self = shared_from_this()] {
      self->woken_ = false;
      self->advance();
    });
  }
  void attach(std::shared_ptr<Responder> responder) override {
    if (!writer_) return responder->gone();
    responder_ = std::move(responder);
  }
  void respond(HttpResponse response) override {
    if (writer_) writer_->send_response(std::move(response));
  }
  void begin_stream() override {
    if (writer_) writer_->send_stream_head();
  }
  void write(std::string_view bytes) override {
    if (writer_) writer_->send_piece(bytes);
  }
  void end_stream() override {
    if (writer_) writer_->send_end();
  }
  bool can_write() const override { return writer_ && writer_->has_sent_all(); }

  // For the connection:
  void advance() {
    const auto responder = responder_;
    if (!responder) return;
    try {
      responder->advance(*this);
    } catch (...) {  // out of memory: better no answer than half of one
      if (writer_) writer_->abort();
    }
  }
  /// The answer is complete.
  void end() {
    writer_ = nullptr;
    responder_.reset();
  }
  /// The client has gone.
  void lose() {
    writer_ = nullptr;
    if (const auto responder = std::exchange(responder_, nullptr)) responder->gone();
  }

 private:
  boost::asio::io_context& io_;
  AnswerWriter* writer_;  // null: the exchange is over
  std::shared_ptr<Responder> responder_;
  std::atomic<bool> woken_ = false;
};

}  // namespace talon
