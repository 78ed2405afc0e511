#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/api/limits.h"
#include "serve/fault_notes.h"
#include "serve/http/http_server.h"
#include "serve/served_model.h"

namespace talon {

struct ServeOptions {
  HttpOptions http;
  RequestLimits limits;
  std::vector<std::string> api_keys;  // any of them; none: whoever can connect
  bool returns_metrics = false;       // `metrics` with every answer
  bool has_page = true;               // at /, for people
  int workers = 2;                    // threads that read, render and tokenize requests
  int queue = 64;                     // requests that wait for one of them
  FaultNotes::Write note;             // of answers with status 500; may be empty
};

/// Models behind OpenAI's interface (docs/serving/README.md). Serves from its making on.
class Server {
 public:
  /// At least one model, each with a tokenizer or pictures. Throws Error if it cannot listen.
  Server(ServeOptions options, std::vector<ServedModel> models);
  ~Server();

  std::string address() const;
  int port() const;

  /// No new requests; those that came are answered.
  void drain();
  /// Answers end where they are, and those that are still to come at once.
  void cancel_all();
  /// Whether every request that came has its answer.
  bool idle() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
