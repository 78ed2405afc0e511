#include "engine/faults.h"

#include <exception>
#include <new>

namespace talon {
namespace {

constexpr std::string_view kOutOfMemory = "out of memory";  // short: needs no memory itself

long& count_of(EngineStatistics::Throws& throws, FaultOrigin origin) {
  switch (origin) {
    case FaultOrigin::sequence:
      return throws.sequence;
    case FaultOrigin::policy:
      return throws.policy;
    case FaultOrigin::drafter:
      return throws.drafter;
    case FaultOrigin::observer:
      return throws.observer;
    case FaultOrigin::backend:
      break;
  }
  return throws.backend;
}

}  // namespace

void assign_or_say_why_not(std::string& text, std::string_view value) noexcept {
  try {
    text.assign(value);
  } catch (const std::bad_alloc&) {
    text.assign(kOutOfMemory);
  }
}

void Faults::note(FaultOrigin origin) noexcept {
  ++count_of(statistics.throws, origin);
  try {
    throw;
  } catch (const std::bad_alloc&) {
    assign_or_say_why_not(reason_, kOutOfMemory);
  } catch (const std::exception& error) {
    assign_or_say_why_not(reason_, error.what());
  } catch (...) {
    assign_or_say_why_not(reason_, "unknown fault");
  }
}

}  // namespace talon
