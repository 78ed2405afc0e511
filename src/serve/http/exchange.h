#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve/http/message.h"

namespace talon {

class Exchange;

/// What makes the answer to a request while others compute it. Called on the server's thread only.
class Responder {
 public:
  virtual ~Responder() = default;
  /// After Exchange::wake(), and whenever a stream has been sent as far as it goes.
  virtual void advance(Exchange& exchange) = 0;
  /// Whenever nothing has been written for HttpOptions::ping_s, or a stream's reader may have gone.
  virtual void silent(Exchange&) {}
  /// The client has gone before its answer was complete. Nothing is called after that.
  virtual void gone() = 0;
};

/// One request and its answer. post() and wake() may be called from any thread and at any time; all
/// else on the server's thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Runs `work` on the server's thread. What it throws ends the connection.
  virtual void post(std::function<void()> work) = 0;
  /// Has the responder called soon. Calls that come close together may become one.
  virtual void wake() = 0;

  /// Who goes on with the answer. If the client has gone, the responder is told at once.
  virtual void attach(std::shared_ptr<Responder> responder) = 0;
  /// The whole answer, unless a stream has begun.
  virtual void respond(HttpResponse response) = 0;
  /// An answer in pieces: server-sent events.
  virtual void begin_stream() = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end_stream() = 0;
  /// Whether all that was written has been taken: a client that reads slowly gets its pieces
  /// joined, and what waits for it is bounded by its responder.
  virtual bool can_write() const = 0;
};

}  // namespace talon
