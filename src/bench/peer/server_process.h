#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/peer/peer.h"
#include "bench/peer/peer_process.h"

namespace talon {

/// A server of HTTP on this machine, on a port of its own, that ends with this program at the
/// latest.
class ServerProcess {
 public:
  /// What starts it on that port. Throws Error if it cannot be started.
  explicit ServerProcess(const std::function<std::vector<std::string>(int port)>& command);

  /// Waits until GET /health answers 200. Throws Error beginning with `doing`, with the last that
  /// the server wrote, if it ends or that takes minutes.
  void await_ready(const std::string& doing);
  bool running() { return process_.running(); }
  std::string last_output() const { return process_.last_output(); }
  /// "http://127.0.0.1:40123"
  const std::string& url() const { return url_; }

 private:
  int port_ = free_port();
  std::string url_;
  PeerProcess process_;
};

/// Starts an engine's adapter. Throws UsageError as below.
std::function<std::vector<std::string>(int port)> adapter_command(const PeerChoice& choice,
                                                                  const PeerSetting& setting);

/// Starts llama.cpp's server with `slots` for requests, each with the setting's context. cache_mb:
/// for prompts that it remembers beside the slots. Throws UsageError for a model that is no GGUF.
std::function<std::vector<std::string>(int port)> llama_server_command(const PeerChoice& choice,
                                                                       const PeerSetting& setting,
                                                                       int slots,
                                                                       const std::string& cache_mb);

}  // namespace talon
