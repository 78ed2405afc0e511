#include "io/json_text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "io/quote.h"

namespace talon {

namespace {

/// What the parser says of the place and of what it found there: of a text that it read to there,
/// which may be long, the end.
std::string reason_of(std::string_view said) {
  constexpr std::string_view kPlace = "parse error at ", kSyntax = ": syntax error ",
                             kRead = "last read: '";
  constexpr std::size_t kMostRead = 32;
  const std::size_t place = said.find(kPlace), syntax = said.find(kSyntax);
  if (place == said.npos || syntax == said.npos) return escape(said.substr(said.find(' ') + 1));
  const std::size_t begin = place + kPlace.size();
  std::string reason = escape(said.substr(begin, syntax - begin)) + ": ";
  said.remove_prefix(std::min(said.find("- ", syntax) + 2, said.size()));
  const std::size_t read = said.find(kRead), end = said.rfind('\'');
  if (read == said.npos) return reason + escape(said);
  const std::string_view text = said.substr(read + kRead.size(), end - read - kRead.size());
  reason += escape(said.substr(0, read)) + "last read: ";
  if (text.size() > kMostRead) reason += "...";
  return reason + quote(text.substr(text.size() - std::min(text.size(), kMostRead)));
}

/// Makes the values of a text, and throws for what parse_json refuses. Callbacks of the parser that
/// makes values are no place for this: it goes through all of an object or array whenever one
/// within it ends.
class ValueMaker : public Json::json_sax_t {
 public:
  explicit ValueMaker(std::string_view doing) : doing_(doing) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in texts
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    auto& object = open_.back()->get_ref<Json::object_t&>();
    const auto [member, is_new] = object.try_emplace(std::move(key));
    if (!is_new) fail("{}: key {}: found twice", doing_, quote(member->first));
    newest_ = &member->second;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    fail("{}: expected JSON text: {}", doing_, reason_of(error.what()));
  }

  Json made;

 private:
  /// The value of the key that was read last, or the next one of an array.
  bool add(Json value) {
    if (++values_ > kMostJsonValues) {
      fail("{}: expected at most {} values, found more", doing_, kMostJsonValues);
    }
    if (!open_.empty() && open_.back()->is_array()) {
      newest_ = &open_.back()->emplace_back(std::move(value));
    } else {
      *newest_ = std::move(value);
    }
    return true;
  }
  bool open(Json value) {
    constexpr std::size_t kDeepest = 64;
    if (open_.size() == kDeepest) {
      fail("{}: expected at most {} values within each other, found more", doing_, kDeepest);
    }
    add(std::move(value));
    open_.push_back(newest_);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view doing_;
  std::size_t values_ = 0;
  Json* newest_ = &made;
  std::vector<Json*> open_;  // objects and arrays, each within the one before
};

}  // namespace

Json parse_json(std::string_view text, std::string_view doing) {
  ValueMaker maker(doing);
  Json::sax_parse(text, &maker);
  return std::move(maker.made);
}

}  // namespace talon
