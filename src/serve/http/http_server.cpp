#include "serve/http/http_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <filesystem>

#include "core/error.h"
#include "serve/http/connection.h"

namespace talon {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Stream = asio::generic::stream_protocol;
using Acceptor = asio::basic_socket_acceptor<Stream>;

constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // after a lack of descriptors

Stream::endpoint tcp_endpoint(asio::io_context& io, const HttpOptions& options) {
  // The resolver would take none for every address of the machine.
  if (options.host.empty()) fail("--host: expected an address, found none");
  ErrorCode error;
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port),
                                      asio::ip::tcp::resolver::passive, error);
  if (error || found.empty()) fail("--host {}: {}", options.host, error.message());
  return found.begin()->endpoint();
}

/// A socket that a server left behind would be in the way of the next.
void remove_stale_socket(asio::io_context& io, const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  asio::local::stream_protocol::socket probe(io);
  ErrorCode error;
  probe.connect(path, error);
  if (error == asio::error::connection_refused) unlink(path.c_str());
}

Stream::endpoint unix_endpoint(asio::io_context& io, const std::string& path) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kLongest) {
    fail("--unix {}: expected a path of at most {} bytes, found {}", path, kLongest, path.size());
  }
  remove_stale_socket(io, path);
  return asio::local::stream_protocol::endpoint(path);
}

int port_of(const Acceptor& acceptor) {
  const Stream::endpoint endpoint = acceptor.local_endpoint();
  const auto* address = reinterpret_cast<const sockaddr*>(endpoint.data());
  if (address->sa_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
  }
  if (address->sa_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(address)->sin6_port);
  }
  return 0;
}

bool is_loopback(const Acceptor& acceptor) {
  const Stream::endpoint endpoint = acceptor.local_endpoint();
  const auto* address = reinterpret_cast<const sockaddr*>(endpoint.data());
  if (address->sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

/// Of this process or of the machine.
bool lacks_descriptors(ErrorCode error) {
  return error.value() == EMFILE || error.value() == ENFILE;
}

}  // namespace

struct HttpServer::State {
  State(HttpOptions the_options, HttpHandlers the_handlers)
      : options(std::move(the_options)), handlers(std::move(the_handlers)) {}

  void listen();
  void accept();
  void on_accept(ErrorCode error, StreamSocket socket);
  bool close_longest_idle();
  bool has_room() const {
    return shared.open.size() < static_cast<std::size_t>(options.limits.connections);
  }
  void close_all();

  HttpOptions options;
  HttpHandlers handlers;
  ConnectionShared shared{io, options, handlers};  // connections end with `io`, and know it
  asio::io_context io{1};
  Acceptor acceptor{io};
  asio::steady_timer pause{io};
  bool has_socket_file = false;
  int port = 0;
};

void HttpServer::State::listen() {
  const bool is_unix = !options.unix_path.empty();
  const Stream::endpoint endpoint =
      is_unix ? unix_endpoint(io, options.unix_path) : tcp_endpoint(io, options);
  const std::string where =
      is_unix ? options.unix_path : fmt::format("{} port {}", options.host, options.port);
  ErrorCode error;
  acceptor.open(endpoint.protocol(), error);
  if (!error && !is_unix) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) has_socket_file = is_unix;
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) fail("listen on {}: {}", where, error.message());
  port = port_of(acceptor);
  shared.is_loopback = is_loopback(acceptor);
}

void HttpServer::State::accept() {
  acceptor.async_accept(
      [this](ErrorCode error, StreamSocket socket) { on_accept(error, std::move(socket)); });
}

void HttpServer::State::on_accept(ErrorCode error, StreamSocket socket) {
  if (!acceptor.is_open()) return;
  // Linux asks for a descriptor before it looks for a connection, so that one more is kept free.
  if (lacks_descriptors(error) && close_longest_idle()) return accept();
  if (error) {
    pause.expires_after(kAcceptPause);
    return pause.async_wait([this](ErrorCode cancelled) {
      if (!cancelled && acceptor.is_open()) accept();
    });
  }
  accept();  // first, since others are to be heard also where memory is short for this one
  if (!has_room() && !close_longest_idle()) return;
  ErrorCode ignored;
  if (options.unix_path.empty()) {
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
  }
  make_connection(std::move(socket), shared)->start();
}

/// The connection that has waited longest for a request gives way. False if none waits.
bool HttpServer::State::close_longest_idle() {
  Connection* longest = nullptr;
  for (Connection* connection : shared.open) {
    const auto since = connection->idle_since();
    if (since && (!longest || *since < *longest->idle_since())) longest = connection;
  }
  if (longest) longest->close();
  return longest != nullptr;
}

void HttpServer::State::close_all() {
  const std::set<Connection*> all = shared.open;
  for (Connection* connection : all) connection->close();
}

HttpServer::HttpServer(HttpOptions options, HttpHandlers handlers)
    : state_(std::make_unique<State>(std::move(options), std::move(handlers))) {
  state_->listen();
}

HttpServer::~HttpServer() {
  if (state_->has_socket_file) unlink(state_->options.unix_path.c_str());
}

void HttpServer::run() {
  const auto work = asio::make_work_guard(state_->io);
  state_->accept();
  for (;;) {
    try {
      state_->io.run();
      return;
    } catch (...) {  // one connection's handler ran out of memory; the others go on
    }
  }
}

std::string HttpServer::address() const {
  const HttpOptions& options = state_->options;
  if (!options.unix_path.empty()) return "unix:" + options.unix_path;
  const bool is_v6 = options.host.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + options.host + "]" : options.host;
  return fmt::format("http://{}:{}", host, state_->port);
}

int HttpServer::port() const { return state_->port; }

void HttpServer::post(std::function<void()> work) { asio::post(state_->io, std::move(work)); }

int HttpServer::exchanges() const { return state_->shared.exchanges; }

void HttpServer::drain() {
  post([this] {
    state_->shared.draining = true;
    for (Connection* connection : state_->shared.open) connection->drain();
  });
}

void HttpServer::stop() {
  post([this] {
    ErrorCode ignored;
    state_->acceptor.close(ignored);
    state_->close_all();
    state_->io.stop();
  });
}

}  // namespace talon
