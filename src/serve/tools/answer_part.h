#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// A piece of an answer, taken apart. Pieces of a kind that follow each other are one, wherever the
/// text was split.
struct AnswerPart {
  enum class Kind {
    content,    // what the model says
    reasoning,  // what it thinks
    call,       // begins a call: text is the function's name
    arguments   // of the call begun last: JSON, as far as it goes
  } kind = Kind::content;
  std::string text;
  bool operator==(const AnswerPart&) const = default;
};

/// Takes an answer apart as it comes. What is decided late is told late: a text that may be the
/// beginning of a mark waits.
class AnswerReader {
 public:
  using Parts = std::vector<AnswerPart>;

  virtual ~AnswerReader() = default;
  virtual void read(std::string_view text, Parts& parts) = 0;
  /// The text has ended.
  virtual void finish(Parts& parts) = 0;
};

/// A whole answer.
struct ReadAnswer {
  struct Call {
    std::string name;
    std::string arguments;
  };
  std::string content;
  std::string reasoning;
  std::vector<Call> calls;
};
ReadAnswer joined(const AnswerReader::Parts& parts);

}  // namespace talon
