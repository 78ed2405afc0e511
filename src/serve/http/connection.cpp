#include "serve/http/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <ctime>

#include "io/quote.h"
#include "serve/http/http_exchange.h"
#include "serve/http/request_head.h"
#include "serve/http/response_head.h"

namespace talon {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

constexpr double kLingerSeconds = 2;  // for a client that still sends what nobody reads
constexpr std::size_t kMostLingering = std::size_t{128} << 20;
constexpr std::size_t kLingerBuffer = 64 << 10;
constexpr std::size_t kEarlyBytes = 4 << 10;  // that are read at once while nobody waits for them
constexpr std::chrono::seconds kFirstProbe{
    1};  // to the second look for a reader; then twice as long
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

enum class Incoming { goes_on, ended, broken };

class HttpConnection final : public Connection,
                             public AnswerWriter,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(StreamSocket socket, ConnectionShared& shared)
      : socket_(std::move(socket)), shared_(shared), limits_(shared.options.limits) {
    shared_.open.insert(this);
  }
  ~HttpConnection() override { shared_.open.erase(this); }

  void start() override { await_request(); }
  std::optional<Clock::time_point> idle_since() const override {
    if (exchange_ || is_closing_) return std::nullopt;
    return idle_since_;
  }
  void close() override {
    const auto self = std::exchange(self_, nullptr);  // else this might be the end of it
    is_closing_ = true;
    disarm();
    ErrorCode ignored;
    socket_.close(ignored);
    set_busy(false);
    if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->lose();
  }
  void drain() override {
    if (!is_reading_body_) return;
    is_too_late_ = true;
    ErrorCode ignored;
    socket_.cancel(ignored);
  }

  void send_response(HttpResponse response) override;
  void send_stream_head() override;
  void send_piece(std::string_view bytes) override;
  void send_end() override;
  void abort() override { close(); }
  bool has_sent_all() const override { return queued_.empty() && sent_ == sending_.size(); }

 private:
  void await_request();
  void await_bytes();
  Incoming take_bytes();
  void read_header();
  void on_header(ErrorCode error);
  void read_body();
  void on_unread(ErrorCode error);
  void begin_exchange(bool is_read);
  void refuse(int status, const std::string& message);
  HttpResponse error(int status, const std::string& message) const {
    return shared_.handlers.error(request_, status, message);
  }
  std::optional<HttpResponse> refusal() const;

  void watch();
  void look_whether_gone();
  void probe(std::chrono::seconds next);
  /// Whether that exchange is under way.
  bool is_answering(long of) const { return exchange_ && of == exchanges_ && !is_complete_; }

  std::string head(int status, std::string_view content_type) const;
  void send(std::string_view bytes);
  void pump();
  void on_sent(ErrorCode error, std::size_t count);
  void end_exchange();
  void linger();
  void discard(std::size_t so_far);

  /// Whether a request is under way.
  void set_busy(bool busy) {
    if (std::exchange(is_busy_, busy) != busy) shared_.exchanges += busy ? 1 : -1;
  }
  void arm(double seconds);
  void disarm() {
    is_armed_ = false;
    deadline_.cancel();
  }
  /// `(this->*next)(error, ...)`, with this alive until then.
  template <typename Next>
  auto then(Next next) {
    return [self = shared_from_this(), next](auto&&... results) { next(*self, results...); };
  }

  StreamSocket socket_;
  ConnectionShared& shared_;
  const HttpLimits& limits_;
  asio::steady_timer deadline_{shared_.io}, probe_{shared_.io};
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  HttpRequest request_;
  std::string request_id_;  // of exchange_
  Clock::time_point idle_since_;
  bool is_armed_ = false;
  bool timed_out_ = false;
  bool is_closing_ = false;
  bool is_writing_ = false;
  bool is_busy_ = false;
  bool is_reading_body_ = false;
  bool is_too_late_ = false;  // its body, for a server that ends

  std::shared_ptr<HttpExchange> exchange_;
  std::shared_ptr<HttpConnection> self_;  // while there is an exchange, which knows it
  long exchanges_ = 0;                    // of which exchange_ is the last
  bool keeps_alive_ = false;
  bool is_streaming_ = false;
  bool is_complete_ = false;  // nothing is added to the answer
  std::string queued_, sending_;
  std::size_t sent_ = 0;  // of sending_
  std::vector<char> scratch_;
};

void HttpConnection::arm(double seconds) {
  timed_out_ = false;
  is_armed_ = true;
  deadline_.expires_after(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  deadline_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    if (error || !self || !self->is_armed_ || self->deadline_.expiry() > Clock::now()) return;
    self->timed_out_ = true;
    ErrorCode ignored;
    self->socket_.cancel(ignored);
  });
}

// Reading.

void HttpConnection::await_request() {
  set_busy(false);
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  parser_->body_limit(limits_.body_bytes);
  request_ = {};
  idle_since_ = Clock::now();
  arm(limits_.idle_s);
  await_bytes();
}

/// Line ends before a request are none of it: some clients send them behind a body (RFC 9112, 2.2).
void HttpConnection::await_bytes() {
  const auto bytes = buffer_.cdata();
  const std::string_view early(static_cast<const char*>(bytes.data()), bytes.size());
  buffer_.consume(std::min(early.find_first_not_of("\r\n"), early.size()));
  if (buffer_.size() > 0) return read_header();
  buffer_.shrink_to_fit();  // most connections are idle
  socket_.async_wait(StreamSocket::wait_read, then([](HttpConnection& self, ErrorCode error) {
                       const bool goes_on = !error && self.take_bytes() == Incoming::goes_on;
                       goes_on ? self.await_bytes() : self.close();
                     }));
}

/// Takes bytes that have come.
Incoming HttpConnection::take_bytes() {
  const auto room = buffer_.prepare(kEarlyBytes);
  const ssize_t count = recv(socket_.native_handle(), room.data(), room.size(), MSG_DONTWAIT);
  if (count == 0) return Incoming::ended;
  if (count < 0) return errno == EAGAIN || errno == EINTR ? Incoming::goes_on : Incoming::broken;
  buffer_.commit(static_cast<std::size_t>(count));
  return Incoming::goes_on;
}

void HttpConnection::read_header() {
  arm(limits_.header_s);
  http::async_read_header(
      socket_, buffer_, *parser_,
      then([](HttpConnection& self, ErrorCode error, std::size_t) { self.on_header(error); }));
}

void HttpConnection::on_header(ErrorCode error) {
  disarm();
  if (error) return on_unread(error);
  set_busy(true);
  request_ = read_request_head(parser_->get());
  if (auto response = refusal()) {
    begin_exchange(parser_->is_done());
    return send_response(*std::move(response));
  }
  const bool expects = parser_->get().version() >= 11 &&  // RFC 9110, 10.1.1
                       boost::beast::iequals(parser_->get()[http::field::expect], "100-continue");
  if (!expects || parser_->is_done()) return read_body();
  arm(limits_.write_s);
  asio::async_write(socket_, asio::buffer(kContinue),
                    then([](HttpConnection& self, ErrorCode failure, std::size_t) {
                      failure ? self.close() : self.read_body();
                    }));
}

std::optional<HttpResponse> HttpConnection::refusal() const {
  const HttpOptions& options = shared_.options;
  if (const auto problem = head_problem(parser_->get())) {
    return error(problem->status, problem->message);
  }
  if (!may_call(request_, options, shared_.is_loopback && !options.has_keys)) {
    return error(403,
                 fmt::format("origin: expected this server's own or the one of --cors, found {}",
                             quote(request_.origin)));
  }
  if (request_.method == "OPTIONS" && !options.cors.empty()) {
    return HttpResponse{204,
                        "",
                        "text/plain",
                        {{"Access-Control-Allow-Methods", "GET, POST"},
                         {"Access-Control-Allow-Headers", "*, Authorization"},
                         {"Access-Control-Max-Age", "86400"}}};
  }
  return shared_.handlers.refuse(request_);
}

void HttpConnection::read_body() {
  if (parser_->is_done()) {
    request_.body = std::move(parser_->get().body());
    request_.came = Clock::now();
    begin_exchange(true);
    const auto exchange = exchange_;  // which an abort lets go
    return exchange->abort_unless([&] { shared_.handlers.handle(std::move(request_), exchange); });
  }
  arm(limits_.body_s);
  is_reading_body_ = true;
  http::async_read(socket_, buffer_, *parser_,
                   then([](HttpConnection& self, ErrorCode error, std::size_t) {
                     self.is_reading_body_ = false;
                     self.disarm();
                     error ? self.on_unread(error) : self.read_body();
                   }));
}

/// A request that could not be read.
void HttpConnection::on_unread(ErrorCode error) {
  if (is_closing_) return;
  if (timed_out_) return refuse(408, "request: expected all of it sooner");
  if (is_too_late_) return refuse(503, "server: expected one that stays, found it ending");
  if (error == http::error::header_limit) {
    return refuse(
        431, fmt::format("headers: expected at most {} bytes, found more", limits_.header_bytes));
  }
  if (error == http::error::body_limit) {
    return refuse(413,
                  fmt::format("body: expected at most {} bytes, found more", limits_.body_bytes));
  }
  const bool is_malformed =
      error.category() == http::make_error_code(http::error::bad_method).category();
  if (!is_malformed || error == http::error::end_of_stream) return close();
  refuse(400, "request: expected HTTP/1.1: " + error.message());
}

void HttpConnection::refuse(int status, const std::string& message) {
  if (request_.path.empty()) request_ = read_request_head(parser_->get());  // as far as it goes
  begin_exchange(false);
  send_response(error(status, message));
}

// Answering.

/// is_read: there is nothing left of the request to read.
void HttpConnection::begin_exchange(bool is_read) {
  keeps_alive_ = is_read && parser_->keep_alive();
  is_streaming_ = is_complete_ = false;
  ++exchanges_;
  set_busy(true);
  request_id_ = request_.id;
  exchange_ = std::make_shared<HttpExchange>(shared_.io, *this, shared_.options.ping_s);
  self_ = shared_from_this();
  if (is_read) watch();
}

/// A client that closes is noticed by what can be read: nothing.
void HttpConnection::watch() {
  socket_.async_wait(StreamSocket::wait_read,
                     then([exchange = exchanges_](HttpConnection& self, ErrorCode error) {
                       if (!error && self.is_answering(exchange)) self.look_whether_gone();
                     }));
}

void HttpConnection::look_whether_gone() {
  if (buffer_.size() >= limits_.header_bytes + limits_.body_bytes) {
    keeps_alive_ = false;  // more than one request early: the others are not read
    buffer_.consume(buffer_.size());
  }
  const Incoming incoming = take_bytes();
  if (incoming == Incoming::goes_on) return watch();
  // One of HTTP/1.0 may be told nothing before its answer.
  const bool can_probe = is_streaming_ || parser_->get().version() >= 11;
  if (incoming == Incoming::broken || !can_probe) return close();
  socket_.async_wait(StreamSocket::wait_error,
                     then([exchange = exchanges_](HttpConnection& self, ErrorCode error) {
                       if (!error && self.is_answering(exchange)) self.close();
                     }));
  probe(kFirstProbe);
}

/// A client that sends no more may read on. Where it has closed, what is written breaks the
/// connection, behind a relay not at the first time.
void HttpConnection::probe(std::chrono::seconds next) {
  const auto exchange = exchange_;  // which an abort lets go
  is_streaming_ ? exchange->show_life() : send(kContinue);
  probe_.expires_after(next);
  probe_.async_wait([weak = weak_from_this(), of = exchanges_, next](ErrorCode error) {
    const auto self = weak.lock();
    if (!error && self && self->is_answering(of)) self->probe(2 * next);
  });
}

std::string HttpConnection::head(int status, std::string_view content_type) const {
  const bool is_old = parser_->get().version() < 11;  // such a client else waits for the end
  const char* connection = !keeps_alive_ ? "close" : is_old ? "keep-alive" : "";
  return write_response_head({.status = status,
                              .content_type = content_type,
                              .request_id = request_id_,
                              .connection = connection,
                              .cors = shared_.options.cors},
                             std::time(nullptr));
}

void HttpConnection::send_response(HttpResponse response) {
  if (is_complete_ || is_streaming_) return;  // it has been answered
  if (shared_.draining) keeps_alive_ = false;
  shared_.handlers.sent(request_id_, response);
  std::string text = head(response.status, response.content_type);
  for (const auto& [name, value] : response.headers) text += fmt::format("{}: {}\r\n", name, value);
  if (has_body(response.status)) {
    text += fmt::format("Content-Length: {}\r\n", response.body.size());
  }
  text += "\r\n";
  if (parser_->get().method() != http::verb::head) text += response.body;
  is_complete_ = true;
  send(text);
}

void HttpConnection::send_stream_head() {
  if (shared_.draining || parser_->get().version() < 11) keeps_alive_ = false;
  is_streaming_ = true;
  shared_.handlers.sent(request_id_, {});
  std::string text = head(200, "text/event-stream; charset=utf-8");
  text += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  if (parser_->get().version() >= 11) text += "Transfer-Encoding: chunked\r\n";
  send(text + "\r\n");
}

void HttpConnection::send_piece(std::string_view bytes) {
  if (bytes.empty()) return;
  if (parser_->get().version() < 11) return send(bytes);
  send(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
}

void HttpConnection::send_end() {
  is_complete_ = true;
  send(parser_->get().version() < 11 ? "" : "0\r\n\r\n");
}

void HttpConnection::send(std::string_view bytes) {
  queued_ += bytes;
  pump();
}

void HttpConnection::pump() {
  if (is_closing_ || is_writing_) return;
  if (sent_ == sending_.size()) {
    sending_.clear();
    sent_ = 0;
    sending_.swap(queued_);
  }
  if (sending_.empty()) return is_complete_ ? end_exchange() : void();
  is_writing_ = true;
  arm(limits_.write_s);
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                           then([](HttpConnection& self, ErrorCode error, std::size_t count) {
                             self.is_writing_ = false;
                             self.on_sent(error, count);
                           }));
}

void HttpConnection::on_sent(ErrorCode error, std::size_t count) {
  disarm();
  if (error) return close();
  sent_ += count;
  pump();
  if (exchange_ && !is_complete_ && has_sent_all()) exchange_->advance();
}

void HttpConnection::end_exchange() {
  const auto exchange = std::exchange(exchange_, nullptr);
  if (!exchange) return;
  const auto self = std::exchange(self_, nullptr);
  exchange->end();
  ErrorCode ignored;
  socket_.cancel(ignored);  // the watch
  keeps_alive_ ? await_request() : linger();
}

/// Closing while bytes come in that nobody read would take the answer from the client.
void HttpConnection::linger() {
  is_closing_ = true;
  ErrorCode ignored;
  socket_.shutdown(StreamSocket::shutdown_send, ignored);
  scratch_.resize(kLingerBuffer);
  arm(kLingerSeconds);
  discard(0);
}

void HttpConnection::discard(std::size_t so_far) {
  socket_.async_read_some(asio::buffer(scratch_),
                          then([so_far](HttpConnection& self, ErrorCode error, std::size_t count) {
                            const bool goes_on = !error && so_far + count < kMostLingering;
                            goes_on ? self.discard(so_far + count) : self.close();
                          }));
}

}  // namespace

std::shared_ptr<Connection> make_connection(StreamSocket socket, ConnectionShared& shared) {
  return std::make_shared<HttpConnection>(std::move(socket), shared);
}

}  // namespace talon
