#include "serve/fault_notes.h"

#include <fmt/format.h>

namespace talon {

void FaultNotes::add(std::string_view kind, std::string_view what, Clock::time_point now) noexcept {
  if (!write_) return;
  try {
    const int left_out = left_out_before(kind, now);
    if (left_out < 0) return;
    std::string line = fmt::format("{}: {}", kind, what);
    if (left_out > 0) line += fmt::format(" (and {} like it before)", left_out);
    write_(line);
  } catch (...) {  // a log that cannot be written ends no answer
  }
}

int FaultNotes::left_out_before(std::string_view kind, Clock::time_point now) {
  constexpr auto kPause = std::chrono::seconds(10);
  const std::lock_guard lock(mutex_);
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) found = kinds_.emplace(std::string(kind), Kind()).first;
  Kind& notes = found->second;
  if (now < notes.next) {
    ++notes.left_out;
    return -1;
  }
  notes.next = now + kPause;
  return std::exchange(notes.left_out, 0);
}

}  // namespace talon
