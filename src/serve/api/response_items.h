#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/json.h"
#include "serve/tools/answer_part.h"

namespace talon {

/// The items of a response's output as they come: a message, thoughts and calls, each with its
/// events.
class ResponseItems {
 public:
  /// Writes an event of that type.
  using Tell = std::function<std::string(const std::string& type, Json json)>;

  /// Begins items as the parts want, and goes on with the last.
  std::string add(const AnswerReader::Parts& parts, const Tell& tell);
  /// Ends the last item; an answer of nothing is an empty message.
  std::string finish(bool is_cut, const Tell& tell);
  /// All items.
  Json output() const;

 private:
  enum class Kind { message, reasoning, call };
  struct Item {
    Kind kind = Kind::message;
    std::string id, call_id, name, text, status;
  };

  static Kind kind_of(const AnswerPart& part);
  std::string begin(Kind kind, const std::string& name, const Tell& tell);
  std::string end(const std::string& status, const Tell& tell);
  Json at_last(Json more) const;
  static Json item_json(const Item& item);

  std::vector<Item> items_;
  bool is_open_ = false;
};

}  // namespace talon
