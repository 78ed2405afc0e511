#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace talon {

/// Reads a streamed completion or chat: server-sent events as OpenAI's interface has them.
class EventStream {
 public:
  using Listener = std::function<void(std::string_view text)>;
  /// on_text: called with each piece of text that is not empty.
  explicit EventStream(Listener on_text) : on_text_(std::move(on_text)) {}

  /// Bytes as they come; throws what the listener throws.
  void push(std::string_view bytes);
  /// What an event said went wrong; empty: nothing.
  const std::string& error() const { return error_; }
  /// Whether the answer said why it ended, or [DONE] came.
  bool is_complete() const { return is_complete_; }

 private:
  void read_line(std::string_view line);

  Listener on_text_;
  std::string pending_;
  std::string error_;
  bool is_complete_ = false;
};

}  // namespace talon
