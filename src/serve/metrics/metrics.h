#pragma once

#include <memory>
#include <string>

#include "engine/progress.h"
#include "serve/host/model_host.h"

namespace talon {

/// What is counted of one model. Each may be called from any thread.
class ModelMetrics {
 public:
  virtual ~ModelMetrics() = default;
  virtual void first_token(double seconds) = 0;  // after the request came
  virtual void gap(double seconds) = 0;          // between news of a running answer
  virtual void ended(FinishReason reason, double seconds) = 0;
  virtual void waited(double seconds) = 0;  // an answer that has ended, for room in the cache
  /// Values that are read when somebody asks.
  virtual void set(const HostStatistics& statistics) = 0;
};

/// Counters and histograms by model, in Prometheus' text format. Names are vLLM's with `talon:` in
/// front, so that dashboards need one rename.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// Lives as long as this.
  ModelMetrics& add(const std::string& model);
  void count_response(int status);
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
