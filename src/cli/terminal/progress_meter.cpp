#include "cli/terminal/progress_meter.h"

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <utility>

#include "cli/terminal/console.h"

namespace talon {
namespace {

constexpr double kFirstMs = 500;
constexpr double kTerminalMs = 100;
constexpr double kPlainMs = 5000;

std::string time_text(double seconds) {
  constexpr double kDay = 86400;
  if (seconds >= 100 * kDay) return "100 days or more";  // of work that has hardly begun
  const int whole = static_cast<int>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  return fmt::format("{}:{:02} min", whole / 60, whole % 60);
}

/// At most `most` characters of UTF-8, the last of them … if some are left out.
std::string shortened(std::string_view text, int most) {
  std::size_t kept = 0;  // bytes of the first most - 1 characters
  int characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && ++characters == most) kept = i;
  }
  return std::string(characters <= most ? text : text.substr(0, kept)) +
         (characters <= most ? "" : "…");
}

}  // namespace

std::string bytes_text(double bytes) {
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

ProgressMeter::ProgressMeter(std::string label, Unit unit)
    : label_(std::move(label)),
      unit_(unit),
      terminal_(notes_can_rewrite()),
      next_ms_(terminal_ ? kFirstMs : kPlainMs) {}

ProgressMeter::~ProgressMeter() {
  if (terminal_ && shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressMeter::update(std::uint64_t done, std::uint64_t total, std::uint64_t before) {
  const double ms = watch_.ms();
  if (ms < next_ms_) return;
  next_ms_ = ms + (terminal_ ? kTerminalMs : kPlainMs);
  shown_ = true;
  const int columns = terminal_ ? terminal_size().columns - 1 : INT_MAX;
  const std::string text =
      progress_line(label_, {unit_, done, total, watch_.ms() / 1000, before}, columns);
  if (terminal_) {
    std::fputs(("\r" + text + "\x1b[K").c_str(), stderr);
    std::fflush(stderr);
  } else {
    write_note(text);
  }
}

std::string progress_line(std::string_view label, const WorkState& state, int columns) {
  const std::uint64_t new_count = state.done - std::min(state.before, state.done);
  const double rate = static_cast<double>(new_count) / state.seconds;
  const bool is_bytes = state.unit == ProgressMeter::Unit::bytes;
  const auto amount = [&](std::uint64_t count) {
    return is_bytes ? bytes_text(static_cast<double>(count)) : fmt::format("{}", count);
  };
  std::string text = ": " + amount(state.done);
  if (state.total > 0)
    text += fmt::format(" of {} ({}%)", amount(state.total), state.done * 100 / state.total);
  text += is_bytes ? fmt::format(", {}/s", bytes_text(rate)) : fmt::format(", {:.1f}/s", rate);
  if (state.total > state.done && rate > 0) {
    text +=
        fmt::format(", {} left", time_text(static_cast<double>(state.total - state.done) / rate));
  }
  const int room = columns - static_cast<int>(text.size());
  return shortened(shortened(label, std::max(1, room)) + text, columns);
}

}  // namespace talon
