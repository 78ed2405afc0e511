#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "serve/http/http_server.h"

namespace talon {

using StreamSocket = boost::asio::generic::stream_protocol::socket;

/// One client. Lives as long as something is asked of its socket.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Connection() = default;
  virtual void start() = 0;
  /// Since when it waits for a request to be complete; nothing while one is answered.
  virtual std::optional<Clock::time_point> idle_since() const = 0;
  virtual void close() = 0;
  /// The server ends: a request whose body is still on its way is refused.
  virtual void drain() = 0;
};

/// What the connections of a server share.
struct ConnectionShared {
  boost::asio::io_context& io;
  const HttpOptions& options;
  const HttpHandlers& handlers;
  std::set<Connection*> open = {};
  std::atomic<int> exchanges = 0;  // under way
  bool draining = false;           // connections end with their next answer
  bool is_loopback = false;        // only this machine can connect
};

/// Enters itself into `shared.open` while it lives.
std::shared_ptr<Connection> make_connection(StreamSocket socket, ConnectionShared& shared);

}  // namespace talon
