#include "serve/tools/json_call.h"

#include <algorithm>

#include "io/json.h"
#include "serve/tools/mark_search.h"

namespace talon {

std::optional<ReadAnswer::Call> call_of_object(const OrderedJson& object) {
  if (!object.is_object()) return std::nullopt;
  const auto name = object.find("name"), arguments = object.find("arguments");
  if (name == object.end() || !name->is_string() || arguments == object.end()) return std::nullopt;
  return ReadAnswer::Call{name->get<std::string>(),
                          arguments->is_object() ? arguments->dump() : "{}"};
}

std::size_t JsonValueReader::take(std::string_view text) {
  std::size_t count = 0;
  while (!done_ && count < text.size() && takes(text[count])) ++count;
  return count;
}

bool JsonValueReader::takes(char c) {
  if (!begun_) {
    if (is_space(c)) return true;
    begun_ = true;
    is_object_ = c == '{';
    is_scalar_ = !is_object_ && c != '[' && c != '"';
  }
  if (in_string_) {
    const bool ends = c == '"' && !escaped_;
    escaped_ = c == '\\' && !escaped_;
    in_string_ = !ends;
    done_ = ends && depth_ == 0;
    return true;
  }
  if (is_scalar_) {
    done_ = is_space(c) || c == ',' || c == '}' || c == ']';
    return !done_;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') done_ = --depth_ == 0;
  return true;
}

std::size_t JsonCall::take(std::string_view text, AnswerReader::Parts& parts) {
  std::size_t count = 0;
  while (state_ == State::reading && count < text.size()) {
    if (place_ == Place::value) {
      const std::size_t taken = value_reader_.take(text.substr(count));
      const std::string_view bytes = text.substr(count, taken);
      value_ += bytes;
      if (!told_) raw_ += bytes;
      count += taken;
      // Of another value it is known at its end whether it holds arguments.
      if (is_at_arguments() && value_reader_.is_object()) {
        untold_ += std::string_view(value_).substr(has_arguments_ ? 0 : leading_space(value_));
        value_.clear();
        has_arguments_ = true;
      }
      if (value_reader_.is_done()) end_value();
      continue;
    }
    if (!step(text[count])) {
      state_ = State::broken;
      break;
    }
    if (!told_) raw_ += text[count];
    ++count;
  }
  tell_news(parts);
  return count;
}

bool JsonCall::step(char c) {
  if (in_key_) {
    in_key_ = c != '"';
    if (in_key_) key_ += c;
    if (!in_key_) place_ = Place::colon;
    return true;
  }
  if (is_space(c)) return true;
  switch (place_) {
    case Place::before:
      if (c != '{') return false;
      place_ = Place::key;
      return true;
    case Place::key:
      if (c != '"') return false;
      in_key_ = true;
      key_.clear();
      return true;
    case Place::colon:
      value_reader_ = {};
      value_.clear();
      place_ = Place::value;
      if (is_keyed_ && !name_.empty()) return false;
      if (is_keyed_) name_ = key_;
      return c == ':';
    case Place::after_value:
      if (c == '}') state_ = name_.empty() ? State::broken : State::done;
      place_ = Place::key;
      return (c == '}' && state_ == State::done) || c == ',';
    case Place::value:
      break;
  }
  return false;
}

bool JsonCall::is_at_arguments() const {
  return is_keyed_ || key_ == "arguments" || key_ == "parameters";
}

bool JsonCall::has_name(const std::string& name) const {
  return names_ == nullptr || std::ranges::find(*names_, name) != names_->end();
}

void JsonCall::end_value() {
  place_ = Place::after_value;
  const bool is_arguments = is_at_arguments();
  const bool is_name = !is_keyed_ && (key_ == "name" || key_ == "tool_name");
  if (!is_name && (!is_arguments || value_.empty())) return;
  const Json text = Json::parse(value_, nullptr, /*allow_exceptions=*/false);
  if (is_name && !(text.is_string() && has_name(text.get<std::string>()))) {
    state_ = State::broken;
  } else if (is_name) {
    name_ = text.get<std::string>();
  } else if (text.is_string() && trimmed(text.get_ref<const std::string&>()).starts_with('{')) {
    untold_ += text.get<std::string>();
    has_arguments_ = true;
  }
}

void JsonCall::tell_news(AnswerReader::Parts& parts) {
  if (name_.empty()) return;
  const bool is_over = state_ == State::done;
  if (!told_ && (has_arguments_ || is_over)) {
    tell(parts, AnswerPart::Kind::call, name_);
    told_ = true;
    raw_.clear();
  }
  if (!told_) return;
  if (is_over && !has_arguments_) untold_ = "{}";
  tell(parts, AnswerPart::Kind::arguments, untold_);
  untold_.clear();
}

}  // namespace talon
