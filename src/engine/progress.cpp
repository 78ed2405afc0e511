#include "engine/progress.h"

#include "core/error.h"

namespace talon {

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::stop_token:
    case FinishReason::complete:
      return "stop";
    case FinishReason::stop_text:
      return "stop_text";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::deadline:
      return "deadline";
    case FinishReason::no_room:
      return "no_room";
    case FinishReason::failed:
      return "failed";
  }
  throw Bug("a finish reason without a name");
}

}  // namespace talon
