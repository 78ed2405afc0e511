#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tools/answer_part.h"
#include "text/chat_template.h"

namespace talon {

/// One JSON value that comes in pieces: finds its end, and nothing else.
class JsonValueReader {
 public:
  /// Takes bytes up to the value's end; returns how many.
  std::size_t take(std::string_view text);
  bool is_done() const { return done_; }
  /// As far as it has begun.
  bool is_object() const { return is_object_; }

 private:
  bool takes(char c);

  int depth_ = 0;
  bool begun_ = false, in_string_ = false, escaped_ = false, done_ = false;
  bool is_scalar_ = false, is_object_ = false;
};

/// The call {"name": ..., "arguments": {...}} that a whole object is; nothing if it is none. An
/// empty object stands for arguments that are no object.
std::optional<ReadAnswer::Call> call_of_object(const OrderedJson& object);

/// {"name": ..., "arguments": {...}} as it comes; `parameters` stands for `arguments`, `tool_name`
/// for `name`, and other entries are passed over. Or {NAME: {...}}. Arguments are told as they are
/// written, once the name is known; a text may hold them, and an empty object stands for what is
/// none.
class JsonCall {
 public:
  enum class State { reading, done, broken };

  /// names: that calls have; null: any. Borrowed. is_keyed: the name is the one key.
  explicit JsonCall(const std::vector<std::string>* names = nullptr, bool is_keyed = false)
      : names_(names), is_keyed_(is_keyed) {}

  /// Takes bytes up to the object's end, or to where it is no call; returns how many.
  std::size_t take(std::string_view text, AnswerReader::Parts& parts);
  State state() const { return state_; }
  /// Whether the call was told.
  bool is_told() const { return told_; }
  /// All that was taken, while nothing was told.
  const std::string& raw() const { return raw_; }

 private:
  enum class Place { before, key, colon, value, after_value };

  bool step(char c);
  bool has_name(const std::string& name) const;
  bool is_at_arguments() const;
  void end_value();
  void tell_news(AnswerReader::Parts& parts);

  const std::vector<std::string>* names_;
  bool is_keyed_;
  State state_ = State::reading;
  Place place_ = Place::before;
  bool in_key_ = false;
  JsonValueReader value_reader_;
  std::string raw_, key_, value_, name_;
  std::string untold_;  // of the arguments
  bool has_arguments_ = false, told_ = false;
};

}  // namespace talon
