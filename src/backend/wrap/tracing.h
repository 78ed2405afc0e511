#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/wrap/forwarding.h"

namespace talon {

struct TraceEntry {
  std::string operation;
  int rows = 0;
  double ms = 0;
  std::size_t weight_bytes = 0;  // read by it
};
/// Times every operation of `backend`. Owns it.
class TracingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  virtual std::span<const TraceEntry> entries() const = 0;
  virtual void clear() = 0;
};
std::unique_ptr<TracingBackend> make_tracing_backend(std::unique_ptr<Backend> backend);

}  // namespace talon
