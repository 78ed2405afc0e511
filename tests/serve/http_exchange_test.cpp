#include "serve/http/http_exchange.h"

#include <gtest/gtest.h>

#include <new>

namespace talon::test::http_exchange_test {
namespace {

class NoWriter : public AnswerWriter {
 public:
  void send_response(HttpResponse) override {}
  void send_stream_head() override {}
  void send_piece(std::string_view) override {}
  void send_end() override {}
  bool has_sent_all() const override { return true; }
  void abort() override {}
};

/// Has no memory for an answer.
class PoorWriter final : public NoWriter {
 public:
  void send_response(HttpResponse) override { throw std::bad_alloc(); }
  void send_piece(std::string_view) override { throw std::bad_alloc(); }
  void abort() override { ++aborts; }

  int aborts = 0;
};

/// Ends its exchange with the third silence.
class Silent final : public Responder {
 public:
  explicit Silent(HttpExchange& exchange) : exchange_(exchange) {}
  void advance(Exchange&) override {}
  void silent(Exchange& exchange) override {
    exchange.write(":");
    if (++silences == 3) exchange_.end();
  }
  void gone() override {}

  int silences = 0;

 private:
  HttpExchange& exchange_;
};

/// Those that a responder is told of.
int silences_of(double longest_s) {
  boost::asio::io_context io;
  NoWriter writer;
  const auto exchange = std::make_shared<HttpExchange>(io, writer, longest_s);
  const auto responder = std::make_shared<Silent>(*exchange);
  exchange->attach(responder);
  io.run();
  return responder->silences;
}

TEST(HttpExchange, TellsItsResponderOfEverySilenceUntilItsEnd) {
  EXPECT_EQ(silences_of(0.001), 3);
  EXPECT_EQ(silences_of(0), 0) << "nobody asks for it";
}

TEST(HttpExchange, WhoseAnswerFindsNoMemoryIsAborted) {
  boost::asio::io_context io;
  PoorWriter writer;
  const auto exchange = std::make_shared<HttpExchange>(io, writer, 0.0);
  exchange->post([&] { exchange->respond({}); });
  io.run();
  EXPECT_EQ(writer.aborts, 1);
  io.restart();
  exchange->post([&] { exchange->write("a piece"); });
  io.run();
  EXPECT_EQ(writer.aborts, 2);
}

}  // namespace
}  // namespace talon::test::http_exchange_test
