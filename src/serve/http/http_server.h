#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http/exchange.h"
#include "serve/http/message.h"

namespace talon {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;        // 0: any that is free
  std::string unix_path;  // a socket in the file system, in place of host and port
  std::string cors;       // the origin that browsers may call from; empty: only the server's own
  bool has_keys = false;  // requests must carry one
  double ping_s = 10;     // of silence before a responder is told of it; 0: it never is
  HttpLimits limits;
};

/// What answers. Called on the server's thread, so neither may take long.
struct HttpHandlers {
  /// Looks at a request before its body is read: the answer if it is refused.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> refuse;
  std::function<void(HttpRequest, std::shared_ptr<Exchange>)> handle;
  /// An answer that the server itself gives: to a bad request, one too large, too slow. The request
  /// is as far as its head could be read.
  std::function<HttpResponse(const HttpRequest&, int status, const std::string& message)> error;
  /// Told of every answer that begins to be sent; without its body if that is a stream.
  std::function<void(const std::string& request_id, const HttpResponse& response)> sent;
};

/// HTTP/1.1 on one thread: many connections, of which most may be idle, each with bounds on the
/// bytes and the time of every part of a request. A client that closes its connection is noticed
/// while its answer is computed.
class HttpServer {
 public:
  /// Listens from now on. Throws Error naming the address if it cannot.
  HttpServer(HttpOptions options, HttpHandlers handlers);
  ~HttpServer();

  /// Serves until stop().
  void run();
  /// Where it listens: "http://127.0.0.1:8080", "unix:/run/talon.sock".
  std::string address() const;
  int port() const;

  // From any thread:
  void post(std::function<void()> work);
  /// Requests that are being read beyond their head or answered, and answers that end their
  /// connection until the client has closed it, too.
  int exchanges() const;
  /// Answers on, but for requests whose body is still on its way, and closes each connection after
  /// its next answer.
  void drain();
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
