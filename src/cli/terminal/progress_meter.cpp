#include "cli/terminal/progress_meter.h"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

#include "cli/terminal/console.h"

namespace talon {
namespace {

constexpr double kFirstMs = 500;
constexpr double kTerminalMs = 100;
constexpr double kPlainMs = 5000;

std::string time_text(double seconds) {
  const int whole = static_cast<int>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  return fmt::format("{}:{:02} min", whole / 60, whole % 60);
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
      terminal_(notes_are_terminal()),
      next_ms_(terminal_ ? kFirstMs : kPlainMs) {}

ProgressMeter::~ProgressMeter() {
  if (terminal_ && shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressMeter::update(std::uint64_t done, std::uint64_t total) {
  const double ms = watch_.ms();
  if (ms < next_ms_) return;
  next_ms_ = ms + (terminal_ ? kTerminalMs : kPlainMs);
  shown_ = true;
  const std::string text = line(done, total);
  if (terminal_) {
    std::fputs(("\r" + text + "\x1b[K").c_str(), stderr);
    std::fflush(stderr);
  } else {
    write_note(text);
  }
}

std::string ProgressMeter::line(std::uint64_t done, std::uint64_t total) const {
  const double seconds = watch_.ms() / 1000;
  const double rate = static_cast<double>(done) / seconds;
  const bool is_bytes = unit_ == Unit::bytes;
  const auto amount = [&](double value) {
    return is_bytes ? bytes_text(value) : fmt::format("{:.0f}", value);
  };
  std::string text = fmt::format("{}: {}", label_, amount(static_cast<double>(done)));
  if (total > 0)
    text += fmt::format(" of {} ({}%)", amount(static_cast<double>(total)), done * 100 / total);
  text += is_bytes ? fmt::format(", {}/s", bytes_text(rate)) : fmt::format(", {:.1f}/s", rate);
  if (total > done && rate > 0) {
    text += fmt::format(", {} left", time_text(static_cast<double>(total - done) / rate));
  }
  return text;
}

}  // namespace talon
